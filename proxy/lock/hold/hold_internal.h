/* SPDX-License-Identifier: BSD-3-Clause
 *
 * books: what the files of a worker's books share: the holds (hold.c), the calls whose reply is
 * awaited (note.c), renewal (renewal.c).
 */
#ifndef HASP_LOCK_HOLD_HOLD_INTERNAL_H
#define HASP_LOCK_HOLD_HOLD_INTERNAL_H

#include "base/buf.h"
#include "base/log.h"
#include "base/map.h"
#include "lock/hold/holds.h"
#include "lock/model/lock_id.h"

/* Room for a ticket in a hold, and so many of the latest are kept: the record in Redis does not
 * remember more. */
#define TICKET_ROOM 40
#define TICKETS_KEPT 16

struct renewal_batch;

struct hold {
	struct list node; /* in its connection's list */
	struct map_node by_id;
	struct holds *table;
	struct hold_owner *owner;
	struct ev_timer timer; /* next renewal; when not renewed, the end of the lease */
	struct list due; /* in books->due */
	struct renewal_batch *renewal_batch; /* in which it is being renewed; NULL: in none */
	size_t slot; /* its place in there */
	struct slice token; /* LOCK_KIND_VALUE: the value */
	enum lock_kind kind;
	enum renew_mode renew;
	bool release; /* at disconnect */
	bool renewed;
	unsigned count; /* times LOCKed and not UNLOCKed, as far as seen here */
	long long fence; /* verbs: its fencing token */
	char (*tickets)[TICKET_ROOM]; /* by verb: of each LOCK, the latest last */
	unsigned ntickets;
	bool shared; /* others may have the same token */
	double slack; /* seconds by which the lease may have begun later than believed */
	int64_t lease_ms, default_lease_ms;
	double begun; /* clock_now(): when it was asked for, or granted */
	double good_until; /* when the lease may be over; INFINITY: not known */
	double hold_until; /* after which nothing is renewed; 0: no limit */
};

struct holds {
	struct ev_loop *loop;
	struct script_jobs *script_jobs;
	struct map by_id;
	struct list due; /* to be renewed now */
	struct ev_timer gather; /* runs while some are due */
	size_t npending; /* calls whose reply is awaited */
	struct buf room;
	struct log_limit limit;
	uint64_t nfailed, nlost; /* renewals that failed, leases that ended meanwhile */
};

/* The keys' bytes, the token and the ticket are behind the keys. */
struct pending_lock {
	struct holds *table;
	struct lock_call call; /* its slices point to nothing */
	struct slice token;
	struct slice ticket; /* empty: none */
	double sent_at;
	double took_at; /* when the connection last heard that it took a lock; 0: never */
	bool begins; /* a success begins a hold */
	bool counts; /* taken again, it must be given back as often */
	bool by_value, release;
	bool exclusive; /* nobody else can have taken it by this token */
	enum renew_mode renew;
	int64_t default_lease_ms;
	int64_t max_hold_ms;
	size_t nkeys;
	struct slice value; /* of a call that may wait; empty: none */
	struct slice keys[];
};

/* The hold that a connection's command on `key` is about: its own, else (but not under owner =
 * value) whichever connection's it is, for an owner may have several. NULL: none. */
struct hold *hold_find(struct holds *h, const struct hold_owner *o, bool by_value, int db,
                       struct slice key);
struct lock_ident hold_ident(const struct hold *hold);
void hold_free(struct hold *hold);

/* --- renewal.c --- */

/* A lease of `lease_ms`, or when that is 0 an unknown one, began at `from` (clock_now());
 * leased: the application asked for it. */
void renewal_begin(struct hold *hold, int64_t lease_ms, bool leased, double from);
/* The hold ends. */
void renewal_end(struct hold *hold);
void renewal_on_timer(struct ev_loop *loop, struct ev_timer *t, int revents);
void renewal_on_gather(struct ev_loop *loop, struct ev_timer *t, int revents);

#endif
