/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hold_internal: shared by the files of this folder. Each file needs only those above it:
 *
 *   hold_events.c    counts and logs what happens to holds
 *   holds.c          the table of the holds, and their release
 *   renewal.c        keeps holds alive
 *   followed_script.c  a client's script on a lock, and the lock before and after it
 *   lock_request.c   a call whose reply is due, and how to undo it
 *   refusals.c       commands that another owner's lock prevented
 *   apply.c          changes the holds when a reply arrives
 */
#ifndef HASP_LOCK_HOLD_HOLD_INTERNAL_H
#define HASP_LOCK_HOLD_HOLD_INTERNAL_H

#include "base/buf.h"
#include "base/freelist.h"
#include "base/log.h"
#include "base/map.h"
#include "base/timers.h"
#include "lock/events/stats.h"
#include "lock/hold/holds.h"
#include "lock/model/lock_id.h"
#include "lock/model/owner.h"

/* Bytes for a ticket in a hold. */
#define TICKET_SIZE 40
/* How many tickets a hold keeps. hasp forgets the oldest tickets first. */
#define TICKETS_KEPT 16
/* The ticket of a lock that a client's own script took: release.lua does not look for it. */
#define TICKET_NONE "-"
/* In place of a ticket: unlock.lua releases all holds of the owner. */
#define TICKETS_ALL "*"
/* How far Redis' clock may get ahead of hasp's within a lease, in ms. */
#define RELEASE_SLACK_MS 50

/* Whether hasp renews a hold. renewal.c has the diagram. */
enum hold_state {
	HOLD_LEASED, /* hasp does not renew the hold, which ends with its lease */
	HOLD_RENEWED, /* the hold's timer runs until the next renewal */
	HOLD_DUE, /* in holds.due: the next batch renews the hold */
	HOLD_IN_BATCH, /* a renewal is under way */
	HOLD_LEASED_IN_BATCH, /* the last renewal is under way */
};
#define HOLD_STATES (HOLD_LEASED_IN_BATCH + 1)

/* A lock that a connection holds. The bytes of its id follow the struct. The fields are in the
 * order that leaves no gaps. */
struct hold {
	struct list node; /* in hold_owner.holds, or hold_owner.ended */
	struct list by_age; /* in holds.by_age while `counted` */
	struct map_node by_id;
	struct hold_owner *owner;
	struct timer timer; /* runs until the next renewal; without one, until the lease ends */
	union {
		struct list due; /* in holds.due while HOLD_DUE */
		struct hold **batch_slot; /* the hold's place in the batch that renews it */
	};
	struct token *token; /* the owner's token; LOCK_KIND_VALUE: the lock's value */
	union {
		char (*tickets)[TICKET_SIZE]; /* tickets of the acquisitions, the latest last */
		struct token *value; /* QUORUM: the lock's value at the servers */
	};
	struct section_stats *stats; /* counts the hold; NULL: none */
	long long fence; /* verbs: the fencing token */
	int64_t lease_ms;
	double since; /* when the connection got the lock; a refresh does not change that */
	double learnt_at; /* when Redis last answered that the connection has the lock */
	double fenced_at; /* when hasp first read `fence` in a reply */
	double good_until; /* when the lease may be over; INFINITY: not known */
	double hold_until; /* when hasp stops the renewal; 0: never */
	float slack; /* seconds by which the lease may have begun later than hasp assumes */
	unsigned count; /* number of LOCKs without an UNLOCK that this worker has seen */
	uint16_t slot; /* key_names_slot() of the key, while HOLD_DUE */
	uint8_t ntickets;
	enum lock_kind kind : 8;
	enum renew_mode renew : 8;
	enum hold_state state : 8; /* written by renewal.c */
	bool leased : 1; /* the application named the length of the lease */
	bool release : 1; /* hasp releases the lock at disconnect */
	bool closes : 1; /* if the lock is lost, hasp closes the holder's connection */
	bool shared : 1; /* other connections may have the same token */
	bool reentered : 1; /* the owner has LOCKed the lock again without an UNLOCK */
	bool unknown : 1; /* the server has changed, and may not have the lock */
	bool counted : 1; /* STAT_HELD of `stats` counts the hold: its lease is not over */
	bool counts_token : 1; /* the hold has set token->counted */
};

/* The lease of a hold that ended because its owner has taken the lock again. */
struct hold_lease {
	double since; /* as in struct hold, like the fields below; 0: there was no hold */
	double good_until;
	double fenced_at;
	long long fence;
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
	return token_slice(hold->token);
}

struct holds {
	struct timers *timers;
	struct script_jobs *script_jobs;
	struct map by_id;
	size_t nbytes; /* memory of all holds, in bytes */
	struct list by_age; /* the `counted` holds, the longest held first */
	size_t ncounted;
	struct list due; /* holds that hasp must renew now */
	struct timer gather; /* hasp renews the holds in `due` when this timer ends */
	struct list losers; /* owners whose connections hasp must close */
	struct timer close; /* closes the connections of `losers` */
	size_t npending; /* calls whose reply is due */
	struct freelist pending; /* memory of requests of at most LOCK_REQUEST_SIZE bytes */
	struct freelist small; /* memory of holds of at most SMALL_SIZE bytes */
	struct buf scratch;
	struct holds_hooks hooks;
	struct release_board *releases; /* NULL: hasp knows of no releases */
	struct voters voters; /* renews and releases the locks that a quorum has */
	bool begins_watching; /* what holds_begins_watching() returns next */
	struct log_limit limit;
	uint64_t nfailed; /* failed renewals */
};

/* The locks that an MLOCK has while it waits for another of its locks. All clients take their
 * locks in the same order.
 *
 *   +QUEUED ... 3 --parts_queued()--> 1, 2: renewed each third of their lease
 *   granted       --parts_granted()-> 1, 2, 3 --the next call--> all, or +QUEUED ... 5
 */
struct parts {
	struct lock_request *lock;
	struct timer timer; /* renews the locks that the try has */
	int db;
	size_t n; /* the try has the first n locks */
	size_t at; /* index of the lock that the try waits for, or waited for last */
};

/* How a successful call changes locks. */
struct effect_terms {
	bool acquires; /* the owner has the lock after the call */
	bool holds; /* hasp begins a hold, and undoes a call that gets no reply */
	bool stores; /* the call stores a value; with owner = value, that is the owner */
	bool changes_hold; /* the call changes a hold; if there is no hold, the reply does not
	                    * matter */
	bool has_lease; /* the call begins a lease, which may be over when the reply comes */
};
extern const struct effect_terms effect_terms[];

/* Most requests, with the bytes of their keys and tickets, fit in this many bytes. */
#define LOCK_REQUEST_SIZE (sizeof(struct lock_request) + sizeof(struct slice) + 48)

/* True if the hold has the request's token. */
static inline bool hold_has_token(const struct hold *hold, const struct lock_request *p)
{
	return hold->token == p->token || slice_eq(hold_token(hold), token_slice(p->token));
}

/* --- lock_request.c --- */

/* True if p->state may change like this. */
bool lock_request_allows(enum lock_request_state from, enum lock_request_state to);
/* True if a hold begins when the call succeeds. */
bool lock_request_begins_hold(const struct lock_request *p);

/* --- hold_events.c --- */

/* Appends the name of the connection, as the log shows it. */
void hold_events_describe(const struct holds *h, const struct hold_owner *o, struct buf *out);
/* Counts and logs that hasp released the lock at disconnect. */
void hold_events_released(const struct hold *hold);
/* Counts and logs that the owner has lost the lock; `reason`: why. */
void hold_events_lost(const struct hold *hold, const char *reason);
/* Counts how long the ended hold lasted, and logs a long one. */
void hold_events_ended(const struct hold *hold);
/* Adds the hold to STAT_HELD (`held`), or removes it; hold->since must be set. */
void hold_events_count(struct hold *hold, bool held);
/* Makes `stats` count the hold; NULL: nothing counts it. */
void hold_events_count_at(struct hold *hold, struct section_stats *stats);

/* --- followed_script.c --- */

struct followed_script *followed_script_new(const struct slice *args, size_t nargs);
/* Sets the effect of the call after all reads: TAKES, with the lock's value and lease, EXPIRES,
 * DROPS or NONE. `pttl`: the reply to the last read, which came `passed_ms` after the first
 * read was sent. */
void followed_script_end(struct lock_request *p, const struct resp_reply *pttl,
                         double passed_ms);
void followed_script_free(struct followed_script *f);
/* Returns the memory in bytes. */
size_t followed_script_nbytes(const struct followed_script *f);

/* --- refusals.c --- */

/* If another owner's lock kept Redis from running the whole call, counts and logs a refusal. */
void refusals_tell(struct holds *h, const struct hold_owner *o, const struct lock_request *p,
                   int db, const struct resp_reply *r);

/* --- holds.c --- */

/* `hash`: from hold_first_hashed(). */
struct hold *hold_new(struct holds *h, struct hold_owner *o, const struct lock_request *p,
                      struct slice key, int db, uint64_t hash);
void hold_free(struct hold *hold);
/* Returns the hold to which a connection's command on `key` applies; NULL: none. If the
 * connection has no hold of its own, returns another connection's, unless `by_value`: an owner
 * may have several connections. In a semaphore or a read-write lock, only holds of `token`
 * count, the write side first. */
struct hold *hold_find(struct holds *h, const struct hold_owner *o, bool by_value, int db,
                       struct slice key, struct slice token);
/* hold_first() and hold_next() return all connections' holds of a lock; NULL: no more. */
struct hold *hold_first(struct holds *h, int db, struct slice key);
/* As hold_first(); also writes *hash, for hold_new(). */
struct hold *hold_first_hashed(struct holds *h, int db, struct slice key, uint64_t *hash);
struct hold *hold_next(const struct hold *hold);
struct lock_ident hold_ident(const struct hold *hold);
bool hold_is_renewed(const struct hold *hold);
/* QUORUM: hold_set_value() stores the value that the lock has at the servers;
 * hold_release_voted() releases the lock there. */
void hold_set_value(struct hold *hold, struct slice value);
void hold_release_voted(const struct hold *hold);
/* Releases a lock that counts no other holds: its record in Redis names only the ticket of the
 * latest try. Does nothing if the record has another ticket than `ticket` (empty: any), or if
 * more than `most_ms` is left of the lease (0: any time). Retries until `until`; 0: without
 * end. */
void hold_release_try(const struct hold *hold, struct slice ticket, int64_t most_ms,
                      double until);
/* hold_add_ticket() counts one more LOCK, with this ticket; hold_remove_ticket() one UNLOCK. */
void hold_add_ticket(struct hold *hold, struct slice ticket);
void hold_remove_ticket(struct hold *hold);

/* --- renewal.c --- */

/* The only writer of hold->state. A hold is in holds.due exactly while it is HOLD_DUE. */
void renewal_set_state(struct hold *hold, enum hold_state state);
/* Begins the lease of `p`, from the time when `p` was sent; its end is not known if `p` has no
 * lease. `leased`: the application asked for this lease. If the lock then ends earlier than
 * before, hasp stops renewing it. `renewing`: a renewal is under way, and may reach Redis after
 * `p`: if the lock now ends earlier, hasp shortens the lease once more. */
void renewal_begin(struct hold *hold, const struct lock_request *p, bool leased, bool renewing);
/* True if hasp has sent a renewal that is not answered yet. */
bool renewal_is_under_way(const struct hold *hold);
/* True if the application lets the lock end earlier than before. (The first expiry that the
 * application sets for a lock counts as the lease, and shortens nothing.) */
bool renewal_is_shortened(const struct hold *hold, const struct lock_request *p);
/* The owner has lost the lock: logs that, and closes the connection if the section says so. */
void renewal_lost(const struct hold *hold, const char *reason);
/* True if, within the last lease, the owner has sent a command that may have released its
 * lock. */
bool renewal_may_be_released(const struct hold *hold);
/* Gives the hold the lease `was` of an earlier hold, because the lock has got a new value and
 * kept its expiry. */
void renewal_keep(struct hold *hold, const struct hold_lease *was);
/* Ends the hold of a lock that is free or, if `has_owner`, another owner's. `renewed`: hasp
 * still renewed the hold, so reports a loss unless the owner may have released the lock. */
void renewal_gone(struct hold *hold, bool has_owner, bool renewed);
/* Renews the first `n` locks of an MLOCK that waits, each third of their lease. (These are no
 * holds: if the MLOCK fails, hasp gives them back.) */
void renewal_of_parts(struct parts *parts, int db, size_t n);
/* True if a hold may go from one state to the other. For the tests. */
bool renewal_allows(enum hold_state from, enum hold_state to);

#endif
