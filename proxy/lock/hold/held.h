/* SPDX-License-Identifier: BSD-3-Clause
 *
 * held: what a worker's table of holds tells of a lock, for those who show it. Redis decides
 * who has a lock: a hold is what a connection was last told.
 */
#ifndef HASP_LOCK_HOLD_HELD_H
#define HASP_LOCK_HOLD_HELD_H

#include "lock/hold/holds.h"

/* Points into the table: valid until that changes. Times are those of the timers' clock. */
struct held {
	int db;
	struct slice key;
	struct slice token; /* LOCK_KIND_VALUE: the value */
	enum lock_kind kind;
	const struct hold_owner *owner;
	const struct section_stats *stats; /* of its section; NULL: it has none any more */
	long long fence; /* verbs: the fencing token; else 0 */
	double since; /* when its connection got it */
	double learnt_at; /* when that was last told that it has it */
	double good_until; /* when the lease may be over; INFINITY: not known */
	int64_t lease_ms; /* 0: not known */
	bool renewed; /* hasp renews it */
};

/* Of the connections that were told that this owner has the lock, the one that was last.
 * `fence`: if it is not 0, that of the acquisition. False: none was. */
bool held_find(struct holds *h, int db, struct slice key, struct slice token, long long fence,
               struct held *out);

/* Of those that were told before `at` that another owner than `token` has it, which is good
 * then: the one that was last. False: none was. */
bool held_find_other(struct holds *h, int db, struct slice key, struct slice token, double at,
                     struct held *out);

/* Calls `fn` with those whose lease is not over, the longest held first, until it returns
 * false. (One that its connection learnt of late may be out of order by as much.) Returns
 * whether that were all. */
typedef bool held_longest_fn(void *arg, const struct held *held);
bool held_longest(struct holds *h, held_longest_fn *fn, void *arg);
/* So many there are. */
size_t held_count(const struct holds *h);

/* The next step through all of them: see map_scan(). */
typedef void held_fn(void *arg, const struct held *held);
uint64_t held_walk(struct holds *h, uint64_t cursor, held_fn *fn, void *arg);

#endif
