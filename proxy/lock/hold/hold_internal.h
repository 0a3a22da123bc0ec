/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hold_internal: what the files of this folder share. Each needs only those above it:
 *
 *   hold_events.c    what is counted and logged of them
 *   holds.c          the table of the holds, and their release
 *   renewal.c        keeps holds alive
 *   parts.c          what a try for several locks has while it waits
 *   followed_script.c  a client's script on a lock, and the lock before and after it
 *   pending_lock.c   a call whose reply is due, and how to undo it
 *   refusals.c       what another owner's lock was in the way of
 *   apply.c          what a reply does to the holds
 */
#ifndef HASP_LOCK_HOLD_HOLD_INTERNAL_H
#define HASP_LOCK_HOLD_HOLD_INTERNAL_H

#include "base/buf.h"
#include "base/freelist.h"
#include "base/log.h"
#include "base/map.h"
#include "base/timers.h"
#include "lock/events/event.h"
#include "lock/hold/holds.h"
#include "lock/model/lock_id.h"

/* Bytes for a ticket in a hold, and how many of the latest tickets are kept: the record in
 * Redis does not remember more. */
#define TICKET_SIZE 40
#define TICKETS_KEPT 16
/* The ticket of a lock that a client's own script took: release.lua does not look for it. */
#define TICKET_NONE "-"

/* What becomes of a hold when its lease comes to its end. renewal.c has the diagram. */
enum hold_state {
	HOLD_LEASED, /* not renewed: it ends with its lease */
	HOLD_RENEWED, /* its timer tells when it is to be renewed */
	HOLD_DUE, /* in holds.due: it goes out with the next batch */
	HOLD_IN_BATCH, /* a renewal is under way */
	HOLD_LEASED_IN_BATCH, /* a last renewal is under way; it is not renewed after that */
};
#define HOLD_STATES (HOLD_LEASED_IN_BATCH + 1)

/* The token of an owner; LOCK_KIND_VALUE: the value. Holds of one connection share it, as a
 * rule.
 */
struct hold_token {
	uint32_t refs;
	uint32_t n;
	char bytes[];
};

/* One for each lock that is held: the fields are in the order that leaves no gaps. The bytes of
 * its id follow it. */
struct hold {
	struct list node; /* in its connection's list */
	struct list by_age; /* in holds.by_age while `counted` */
	struct map_node by_id;
	struct hold_owner *owner;
	struct timer timer; /* the next renewal; when not renewed, the end of the lease */
	union {
		struct list due; /* in holds.due while HOLD_DUE */
		struct hold **batch_slot; /* its place in the batch, while it is in one */
	};
	struct hold_token *token;
	char (*tickets)[TICKET_SIZE]; /* by verb, if `release`: of each LOCK, the latest last */
	struct section_stats *stats; /* NULL: nobody's */
	long long fence; /* verbs: its fencing token */
	int64_t lease_ms;
	double since; /* when its connection got the lock; not anew when it refreshed it */
	double learnt_at; /* when its connection was last told that it has the lock */
	double good_until; /* when the lease may be over; INFINITY: not known */
	double hold_until; /* after which nothing is renewed; 0: no limit */
	float slack; /* seconds by which the lease may have begun later than assumed */
	unsigned count; /* how often it was LOCKed and not UNLOCKed, as far as seen here */
	uint16_t slot; /* of its key, while HOLD_DUE: key_names_slot() */
	uint8_t ntickets;
	enum lock_kind kind : 8;
	enum renew_mode renew : 8;
	enum hold_state state : 8; /* written by renewal.c */
	bool leased : 1; /* the application named the end of the lease that is renewed */
	bool release : 1; /* at disconnect */
	bool closes : 1; /* its connection is closed when it is lost */
	bool shared : 1; /* other connections may have the same token */
	bool unknown : 1; /* the server has changed: it may not have the lock */
	bool counted : 1; /* its lease is not over: it is one of `stats` STAT_HELD */
};

/* The lease of a hold that was superseded by its own owner. */
struct hold_lease {
	double since; /* as in the hold; 0: there was none */
	double good_until;
	int64_t lease_ms;
	bool leased, renewed;
	bool renewing; /* a renewal is under way */
};

static inline struct holds *hold_table(const struct hold *hold)
{
	return hold->owner->table;
}

static inline struct slice hold_token(const struct hold *hold)
{
	return slice_of(hold->token->bytes, hold->token->n);
}

struct holds {
	struct timers *timers;
	struct script_jobs *script_jobs;
	struct map by_id;
	size_t nbytes; /* memory of the holds */
	struct list by_age; /* those that are `counted`, the longest held first */
	size_t ncounted;
	struct list due; /* to be renewed now */
	struct timer gather; /* runs while some are due */
	struct list losers; /* owners whose connections are to be closed, */
	struct timer close; /* by it */
	size_t npending; /* calls whose reply is due */
	struct freelist pending; /* what is kept of most of them: of PENDING_LOCK_SIZE */
	struct freelist small; /* most holds */
	struct buf scratch;
	holds_describe_fn *describe; /* NULL: nobody is named */
	holds_lost_fn *lost; /* NULL: no connection is closed */
	struct release_board *releases; /* NULL: nothing is known of them */
	holds_ask_fn *ask; /* NULL: nobody knows more than this table */
	void *ask_arg;
	bool begins_watching; /* of a section's reads, since it was last asked */
	struct log_limit limit;
	uint64_t nfailed; /* renewals */
};

/* What a try to take several locks has while it waits for one of them. */
struct parts {
	struct pending_lock *lock;
	struct timer timer; /* renews them */
	int db;
	size_t n; /* the first n locks */
	size_t at; /* the lock that it waits for, or waited for last */
	bool granted; /* it has that one, too */
	bool again; /* it was sent more than once */
	bool undoes; /* it has ended, and gives back what it has */
};

/* The bytes of the keys, the token and the ticket follow the keys. Most fit in
 * PENDING_LOCK_SIZE bytes together. The small fields are at the end, so that there are no gaps.
 */
#define PENDING_LOCK_SIZE (sizeof(struct pending_lock) + sizeof(struct slice) + 256)
struct pending_lock {
	struct holds *holds;
	struct section_stats *stats; /* NULL: it counts nowhere */
	struct parts *parts; /* MLOCK: it takes all keys; else NULL */
	struct followed_script *followed; /* the client's own script; else NULL */
	struct pending_lock *next; /* MSETNX: another lock that the call takes; else NULL */
	size_t nbytes; /* its memory */
	struct slice token;
	struct slice ticket; /* empty: none */
	int64_t lease_ms, wait_ms, limit; /* of its lock_call */
	int64_t ends_ms; /* after `sent_at` the application has the lock end; -1: it is over by
	                    then; 0: it did not say, or keeps what is */
	int64_t default_lease_ms;
	int64_t max_hold_ms;
	int64_t replicas_timeout_ms;
	double sent_at;
	double waited; /* seconds, before it was sent the last time, or in line; 0: not at all
	                */
	struct resp_reply reply; /* that came late, and */
	struct buf answer; /* its bytes; of a delete that was refused, the holder's token */
	int replicas; /* that must have it; 0: none */
	uint32_t refused; /* the number of that key, counted from 1; 0: none was */
	/* Of its lock_call, too. (Not the whole: to clear and copy that takes longer than the
	 * rest.) */
	enum script_id script : 8;
	enum lock_effect effect : 8;
	enum lock_success success : 8;
	enum lock_kind kind : 8;
	enum renew_mode renew : 8;
	bool leased;
	bool small; /* its memory is of holds.pending */
	bool begins; /* a success begins a hold */
	bool counts; /* a lock that is taken again must be released as often */
	bool by_value, release, closes;
	bool sole; /* lock_call.sole */
	bool exclusive; /* no other connection can have taken it by this token */
	bool locked; /* its answer was -LOCKED */
	bool confirms; /* its success is told only while its lease is good */
	bool has_replicas; /* as many replicas have it as must */
	bool queued; /* (waited) it was in line */
	bool prolongs; /* (followed) the lock ends later than before the script */
	uint32_t nkeys;
	struct slice keys[];
};

/* --- hold_events.c --- */

/* Appends what the log calls the connection. */
void hold_events_describe(const struct holds *h, const struct hold_owner *o, struct buf *out);
/* Its lock was given up for its owner, at disconnect. */
void hold_events_released(const struct hold *hold);
/* Its owner does not have it any more, and does not know. */
void hold_events_lost(const struct hold *hold, const char *reason);
/* It is over. */
void hold_events_ended(const struct hold *hold);
/* It counts among those that are held, or no more; hold->since is known. */
void hold_events_count(struct hold *hold, bool held);
/* From now on it counts there. */
void hold_events_count_at(struct hold *hold, struct section_stats *stats);

/* --- parts.c --- */

struct parts *parts_new(struct pending_lock *p);
void parts_free(struct parts *parts); /* NULL is allowed */

/* --- followed_script.c --- */

struct followed_script *followed_script_new(const struct slice *args, size_t nargs);
/* Sets the effect of the call, now that all is read: TAKES, with the lock's value and lease,
 * EXPIRES, DROPS or NONE. `pttl`: the reply to the last read, `passed_ms` after the first read
 * was sent. */
void followed_script_end(struct pending_lock *p, const struct resp_reply *pttl,
                         double passed_ms);
void followed_script_free(struct followed_script *f); /* NULL is allowed */
size_t followed_script_nbytes(const struct followed_script *f); /* of memory; NULL is allowed */

/* --- refusals.c --- */

/* The call was answered: if another owner's lock is why it was not carried out, or not for all
 * keys, that is counted and logged. */
void refusals_tell(struct holds *h, const struct hold_owner *o, const struct pending_lock *p,
                   int db, const struct resp_reply *r);

/* --- holds.c --- */

struct hold *hold_new(struct holds *h, struct hold_owner *o, const struct pending_lock *p,
                      struct slice key, int db);
void hold_free(struct hold *hold);
/* The hold that a connection's command on `key` is about: its own, else (but not under owner =
 * value) any connection's, for an owner may have several connections. Of a semaphore or a
 * read-write lock only that token's, the write side first. NULL: none. */
struct hold *hold_find(struct holds *h, const struct hold_owner *o, bool by_value, int db,
                       struct slice key, struct slice token);
/* The connections' holds of the same lock: the first, and the one behind `hold`. NULL: none. */
struct hold *hold_first(struct holds *h, int db, struct slice key);
struct hold *hold_next(const struct hold *hold);
struct lock_ident hold_ident(const struct hold *hold);
bool hold_is_renewed(const struct hold *hold);
/* One more LOCK of the same lock, with this ticket; one UNLOCK. */
void hold_add_ticket(struct hold *hold, struct slice ticket);
void hold_remove_ticket(struct hold *hold);

/* --- renewal.c --- */

/* The lease of `p`, or when that has none an unknown one, began when `p` was sent; leased: the
 * application asked for it. If it ends the lock earlier than before, it is not renewed;
 * `renewing`: and a renewal of this lock, which may come to Redis later, must not last. */
void renewal_begin(struct hold *hold, const struct pending_lock *p, bool leased, bool renewing);
/* It was sent, and is not answered yet. */
bool renewal_is_under_way(const struct hold *hold);
/* Does the application have the lock end earlier than before? Its first word about that, for a
 * lock that it took without an expiry, names the lease. */
bool renewal_is_shortened(const struct hold *hold, const struct pending_lock *p);
/* The owner does not have the lock any more, and does not know. */
void renewal_lost(const struct hold *hold, const char *reason);
/* Within the last lease, has the owner sent what may have released its lock? */
bool renewal_may_be_released(const struct hold *hold);
/* The lock has a new value, and the lease that was in force for `was`, an earlier hold. */
void renewal_keep(struct hold *hold, const struct hold_lease *was);
/* May the hold go from one state to the other? For the tests. */
bool renewal_allows(enum hold_state from, enum hold_state to);

#endif
