/* SPDX-License-Identifier: BSD-3-Clause
 *
 * holds: a worker's table of the locks that its connections took: until when each is to be
 * renewed, whether it is released when the connection ends, and, for owner = value, what was
 * stored. The table does not decide who owns a lock; the scripts do. A table that is wrong
 * renews too little, and never another owner's lock.
 *
 *   lock_call --pending_lock_new()--> pending_lock --reply--> hold_apply() --> hold
 *                                        |                                      |  |
 *                                        `--no reply--> undo       renew <--timer  |
 *                                                                release <--hold_owner_end()
 *
 * The time a grant is good for counts from before its request was sent. A hold is renewed every
 * third of its lease, together with others that are due. When its lease is over before Redis
 * has answered, it is dropped: hasp never takes a lock for granted that may be gone.
 */
#ifndef HASP_LOCK_HOLD_HOLDS_H
#define HASP_LOCK_HOLD_HOLDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"
#include "base/timers.h"
#include "config/types.h"
#include "lock/events/event.h"
#include "lock/events/stats.h"
#include "lock/hold/release_board.h"
#include "lock/hold/seen_values.h"
#include "lock/scripts/script_job.h"
#include "lock/rewrite/rewrite.h"

struct holds;

/* Both outlive the table. All times below are those of the timers' clock, in seconds. */
struct holds *holds_new(struct timers *timers, struct script_jobs *script_jobs);
void holds_free(struct holds *h); /* forgets all of them */
size_t holds_nbytes(const struct holds *h); /* of memory, of all holds */
/* Has it begun since the last call that it matters who reads the locks of a section
 * (section_stats.watches_reads)? */
bool holds_begins_watching(struct holds *h);
void holds_trim(struct holds *h); /* gives back what a long key took */

/* What one connection holds. */
struct hold_owner {
	struct holds *table; /* theirs; NULL: it has held nothing yet */
	struct list holds;
	struct list lost; /* in holds.losers while it is to be closed */
	size_t n;
	size_t nbytes; /* of memory */
	struct seen_values *seen; /* what it has read; NULL: nothing */
};
void hold_owner_init(struct hold_owner *o);

/* Appends what the log calls a connection, "127.0.0.1:4711 name", to `out`. */
typedef void holds_describe_fn(const struct hold_owner *o, struct buf *out);
/* Without it the log names nobody. */
void holds_set_describe(struct holds *h, holds_describe_fn *describe);

/* Closes the connection, which has lost a lock; it and its holds may be gone afterwards. */
typedef void holds_lost_fn(struct hold_owner *o);
/* Without it on_lost = close only logs. */
void holds_set_lost(struct holds *h, holds_lost_fn *lost);

/* All workers' board, which outlives the table. Without it each lock that is gone is lost. */
void holds_set_releases(struct holds *h, struct release_board *releases);
/* The lock's owner `token` may release it by what a client sends now. */
void holds_note_release(struct holds *h, int db, struct slice key, struct slice token);

/* Logs an event about a lock of another owner than `token`, of whose holder this table knows
 * nothing, when others were asked for it. The facts are to be copied. */
typedef void holds_ask_fn(void *arg, const struct event_to_log *event, struct slice token);
void holds_set_ask(struct holds *h, holds_ask_fn *ask, void *arg);

/* What must be kept about a call until its reply is there. */
struct pending_lock;

/* Under which terms the lock of a call is held: a rule's, or the verbs'. */
struct hold_terms {
	const struct rule *rule; /* NULL: taken by a verb */
	const struct verbs *verbs; /* NULL: taken under a rule */
	struct slice token;
	struct section_stats *stats; /* where its outcome counts; NULL: nowhere */
	int64_t date_ms; /* now, since 1970; 0: the call names no date */
};

/* Copies what the table needs of `call`, whose keys are `keys` (for DROPS: all that have a
 * rule). Returns NULL when the reply to the call cannot change the table, and counts nowhere.
 */
struct pending_lock *pending_lock_new(struct holds *h, const struct lock_call *call,
                                      const struct slice *keys, size_t nkeys,
                                      const struct hold_terms *terms);
/* MSETNX takes several locks by one call. Puts `p` in front of `all` (NULL: none yet), but
 * keeps the lock with the shortest lease first. Returns the first, which stands for all of
 * them: where a function below is about one lock, it looks at the first. */
struct pending_lock *pending_lock_join(struct pending_lock *p, struct pending_lock *all);
bool pending_lock_is_joined(const struct pending_lock *p);
/* It was answered by -LOCKED: another owner has the lock. */
void pending_lock_locked(struct pending_lock *p);
/* Its script has refused to delete a lock: `line`, "+REFUSED n i owner", says that n keys are
 * gone, and that key i, counted from 1, is another's, whose token is `owner` ("-": not told).
 * Writes n; returns false when the line is not of that form. */
bool pending_lock_refused(struct pending_lock *p, struct slice line, int64_t *n);
/* Where its outcome counts; NULL: nowhere. */
struct section_stats *pending_lock_stats(const struct pending_lock *p);
/* It is answered behind a wait of so many seconds; `queued`: in line. If it is refused, it
 * timed out. */
void pending_lock_has_waited(struct pending_lock *p, double waited, bool queued);
/* It stands in line from now on. */
void refusals_waits(const struct pending_lock *p, int db);
/* It was in line, for so many seconds, and that ended so. */
enum wait_end { WAIT_GRANTED, WAIT_TIMED_OUT, WAIT_DEADLOCKED };
void refusals_waited(const struct pending_lock *p, const struct hold_owner *o, int db,
                     double waited, enum wait_end end);
/* The client is gone and will not get the reply: what the call takes shall be released. */
void pending_lock_abandon(struct pending_lock *p);
/* The reply will never come; the request may have been carried out or not, or may be queued.
 * What it took is undone, by its ticket. Frees `p`. NULL is allowed. */
void pending_lock_undo(struct pending_lock *p, int db);
/* The same, without freeing it. */
void pending_lock_undo_now(struct pending_lock *p, int db);
/* For a try that has to wait: what it wants (points into `p`), and its lease in ms; 0: the
 * application named its end. */
struct lock_try pending_lock_try(const struct pending_lock *p, int64_t *lease_ms);
/* The lock, or the first of them; points into `p`. */
struct slice pending_lock_key(const struct pending_lock *p);
/* Does it take several locks, by MLOCK? Then its ticket is that of each call of it. */
bool pending_lock_is_multi(const struct pending_lock *p);
struct slice pending_lock_ticket(const struct pending_lock *p);
/* It may wait for so long from now on. */
void pending_lock_set_wait(struct pending_lock *p, int64_t wait_ms);
/* Of those: may it have some of its locks without the others? NULL: no. */
bool parts_has(const struct pending_lock *p);
/* It was answered `+QUEUED ... i`: it waits for its lock i, counted from 1, and has those
 * before it, which are renewed from now on. Cuts that number off *line; returns false when the
 * line is not understood. */
bool parts_queued(struct pending_lock *p, int db, struct slice *line)
	__attribute__((warn_unused_result));
/* It has got the lock that it waited for. */
void parts_granted(struct pending_lock *p);
/* It has ended without all of them, which was counted: its next call gives back what it has. */
void parts_undo(struct pending_lock *p);
bool parts_are_undone(const struct pending_lock *p);
/* What its next call does. `placed`: it may have a place in the queue of the lock that it waits
 * for. */
struct mlock_step parts_step(struct pending_lock *p, bool placed);
/* Appends the call by which it leaves its queue and gives back what it has. */
void parts_write_undo(const struct pending_lock *p, struct buf *out,
                      const struct rewrite_how *how);
/* Which reply means that the try succeeded. */
enum lock_success pending_lock_success(const struct pending_lock *p);
/* Its lease began at `since`, not when it was sent. */
void pending_lock_since(struct pending_lock *p, double since);
/* It was sent now, not when it was written. */
void pending_lock_sent(struct pending_lock *p);

/* Is the client told of its success only while the lease is good? It is if hasp has a part in
 * how long that takes, or lasts: by a verb, a rule's `wait`, renewal, or a lease that hasp
 * chose. */
bool pending_lock_confirms(const struct pending_lock *p);
/* So late, now, that much of the lease is over, or may be; that all of it is. */
bool pending_lock_is_late(const struct pending_lock *p);
bool pending_lock_is_over(const struct pending_lock *p);
/* What is to be done when it was answered late. */
enum pending_lock_late {
	PENDING_LOCK_TELL, /* it is no success, and good for ever */
	PENDING_LOCK_CONFIRM, /* whether it has the lock still */
	PENDING_LOCK_REPEAT, /* it can be carried out once more */
};
enum pending_lock_late pending_lock_late(const struct pending_lock *p,
                                         const struct resp_reply *r);
/* How many replicas must have the lock before the client is told of it, and for how long they
 * are asked, in ms. 0: none, or they have it. */
int64_t pending_lock_replicas(const struct pending_lock *p, int64_t *timeout_ms);
void pending_lock_has_replicas(struct pending_lock *p);
/* When it need not be undone any more: its lease is over then, or it is too late. */
double pending_lock_until(const struct pending_lock *p);
/* Keeps the reply and its bytes, until it is known whether the client gets them. */
void pending_lock_keep(struct pending_lock *p, const struct resp_reply *r, struct slice bytes);
/* The bytes that were kept, and the reply; empty: none. */
struct slice pending_lock_kept(const struct pending_lock *p, struct resp_reply *r);
/* How the client is told that it has no lock, without the line end. */
const char *pending_lock_refusal(const struct pending_lock *p, bool resp3);
/* The reply will take long: gives back the memory that is not needed. What it returns takes the
 * place of `p`. */
struct pending_lock *pending_lock_fit(struct pending_lock *p);
void pending_lock_free(struct pending_lock *p); /* NULL is allowed */
size_t pending_lock_nbytes(const struct pending_lock *p); /* of memory */

/* A script that a client runs on `key`, the lock of a rule with owner = value; `args` are the
 * script's other arguments, of which the first FOLLOWED_ARGS_MAX may become the lock's value.
 * hasp reads the lock before and after the script: hold_apply() gets the reply to the last
 * read, and begins, prolongs or ends a hold accordingly. */
#define FOLLOWED_ARGS_MAX 16
struct pending_lock *pending_lock_follow(struct holds *h, struct slice key,
                                         const struct slice *args, size_t nargs,
                                         const struct hold_terms *terms);
/* Appends the client's request, with two reads before it and two after it. */
void followed_script_write(const struct pending_lock *p, struct slice request, struct buf *out);
/* Bytes of the replies to all of these but the last one. */
void followed_script_feed(struct pending_lock *p, struct slice bytes);
/* Returns true if `p` is such a script, and was answered by an error. */
bool followed_script_failed(const struct pending_lock *p);

/* The reply to the call is there, given by database `db` (-1: not known). Frees `p`. */
void hold_apply(struct holds *h, struct hold_owner *o, struct pending_lock *p, int db,
                const struct resp_reply *r);

/* The value that the connection last stored at `key` under a rule with owner = value; empty:
 * none that is known. Valid until the table changes. */
struct slice hold_value(struct holds *h, const struct hold_owner *o, int db, struct slice key);

/* The tokens by which the connection itself has taken the lock and not given it up through
 * hasp: Redis knows which of them has it still. Writes at most `max` to `out`, valid until the
 * table changes, and returns how many there are. */
size_t hold_own_tokens(struct holds *h, const struct hold_owner *o, int db, struct slice key,
                       struct slice *out, size_t max);

/* What the connection knows of the lock's value, by storing or by reading it, whichever was
 * later. */
enum seen_value hold_seen_value(struct holds *h, const struct hold_owner *o, int db,
                                struct slice key, struct slice *value);
/* The connection reads the lock now, for the hint of an event. */
void hold_saw_read(struct holds *h, struct hold_owner *o, int db, struct slice key);

/* Does the connection have a lock, as far as is known here? One that the application released
 * by a script of its own counts until its lease is over. */
bool hold_owner_has_any(const struct hold_owner *o, double now);

/* The server that has the locks for which `concerns` is true has another history than before:
 * what was written last may be missing. Those that are renewed are looked at soon; one that is
 * gone is logged, and neither renewed nor released. */
void renewal_mark_unknown(struct holds *h, bool (*concerns)(void *arg, struct slice key),
                          void *arg);

/* The connection ended: forgets all of them; `release`: those that are to be released at
 * disconnect are. Else they run out with their leases. */
void hold_owner_end(struct hold_owner *o, bool release);

#endif
