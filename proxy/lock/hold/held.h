/* SPDX-License-Identifier: BSD-3-Clause
 *
 * held: the facts about a lock in a worker's table of holds, for SHOW and logs. Redis decides
 * which owner has a lock: a hold is what Redis last answered to a connection.
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
	const struct section_stats *stats; /* counters of the lock's section; NULL: none */
	long long fence; /* verbs: the fencing token; else 0 */
	double since; /* when the connection got the lock */
	double learnt_at; /* when Redis last answered that the connection has the lock */
	double good_until; /* when the lease may be over; INFINITY: not known */
	int64_t lease_ms; /* 0: not known */
	bool renewed; /* hasp renews the hold */
};

/* Finds the owner's hold of the lock; of several, the one with the latest `learnt_at`. False:
 * there is none. `fence`: the fencing token of the acquisition; 0: any. If `other_at` > 0,
 * finds a hold of another owner that had begun, and whose lease was good, at that time. */
bool held_find(struct holds *h, int db, struct slice key, struct slice token, long long fence,
               double other_at, struct held *out);

/* Calls `fn` with the holds whose lease is not over, the longest held first, until `fn` returns
 * false. (A hold whose reply came late may be out of order by that delay.) Returns true if `fn`
 * got all of them. */
typedef bool held_longest_fn(void *arg, const struct held *held);
bool held_longest(struct holds *h, held_longest_fn *fn, void *arg);
/* Returns the number of holds whose lease is not over. */
size_t held_count(const struct holds *h);

/* Takes the next step through all holds: see map_scan(). */
typedef void held_fn(void *arg, const struct held *held);
uint64_t held_walk(struct holds *h, uint64_t cursor, held_fn *fn, void *arg);

#endif
