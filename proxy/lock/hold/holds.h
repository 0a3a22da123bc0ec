/* SPDX-License-Identifier: BSD-3-Clause
 *
 * holds: a worker's table of the locks that its connections took: until when hasp renews each
 * one, whether hasp releases it when the connection ends, and, for owner = value, the stored
 * value. The table does not decide who owns a lock; the scripts do. If the table is wrong, hasp
 * renews too little, but never another owner's lock.
 *
 *   lock_call --lock_request_new()--> lock_request --reply--> hold_apply() --> hold
 *                                        |                                      |  |
 *                                        `--no reply--> undo       renew <--timer  |
 *                                                                release <--hold_owner_end()
 *
 * A lease counts from before its request was sent. hasp renews a hold every third of its lease,
 * together with others that are due. If the lease ends before Redis has answered, hasp drops
 * the hold: it never relies on a lock that may be gone.
 */
#ifndef HASP_LOCK_HOLD_HOLDS_H
#define HASP_LOCK_HOLD_HOLDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/timers.h"
#include "config/types.h"
#include "lock/events/stats.h"
#include "lock/hold/release_board.h"
#include "lock/hold/seen_values.h"
#include "lock/rewrite/rewrite.h"
#include "lock/scripts/script_job.h"

struct holds;

/* Both arguments must outlive the table. All times below are those of the timers' clock, in
 * seconds. */
struct holds *holds_new(struct timers *timers, struct script_jobs *script_jobs);
void holds_free(struct holds *h); /* forgets all holds */
size_t holds_nbytes(const struct holds *h); /* returns the memory of all holds, in bytes */
/* True if, since the last call, a section has begun to watch which connections read its locks
 * (section_stats.watches_reads). */
bool holds_begins_watching(struct holds *h);

/* The holds of one connection. */
struct hold_owner {
	struct holds *table; /* NULL: the connection has held nothing yet */
	struct list holds;
	struct list ended; /* holds that an UNLOCK may still name: see holds.c */
	struct list lost; /* in holds.losers until hasp closes the connection */
	size_t n; /* number of `holds` */
	size_t nbytes; /* memory of the holds, in bytes */
	struct seen_values *seen; /* the values that the connection has read; NULL: none */
};
void hold_owner_init(struct hold_owner *o);

/* Callbacks of the table. Each may be NULL. */
struct holds_hooks {
	/* Appends the name of a connection for the log, "127.0.0.1:4711 name", to `out`. */
	void (*describe)(const struct hold_owner *o, struct buf *out);
	/* Closes the connection of `o`, which has lost a lock; may free `o` and its holds.
	 * Without `lost`, on_lost = close only logs. */
	void (*lost)(struct hold_owner *o);
	/* Asks the other workers for the lock's holder, an owner other than `token` that this
	 * table does not know. Then logs the event. Copies the key, and takes the texts. */
	void (*ask)(void *arg, struct event_to_log *event, struct slice token);
	/* Returns true if a rule is enforced on the key now. If not, because a reload has
	 * removed the rule, hasp does not see that a client releases the lock, and so does
	 * not report the lock as lost. */
	bool (*has_rule)(void *arg, struct slice key);
	void *arg; /* for ask() and has_rule() */
};
void holds_set_hooks(struct holds *h, const struct holds_hooks *hooks);

/* Sets the board of all workers, which must outlive the table. Without it, hasp reports each
 * lock that is gone as lost. */
void holds_set_releases(struct holds *h, struct release_board *releases);
/* Notes that a client sends a command by which the owner `token` may release the lock. */
void holds_note_release(struct holds *h, int db, struct slice key, struct slice token);

/* How far a call has got. lock_request.c has the diagram. */
enum lock_request_state {
	LOCK_REQUEST_SENT, /* the reply to the first call is due */
	LOCK_REQUEST_QUEUED, /* the call waits in the queue of a lock */
	LOCK_REQUEST_GRANTED, /* MLOCK: Redis granted the awaited lock; the next call is due */
	LOCK_REQUEST_RETRIED, /* MLOCK: Redis granted no lock; the next call is due */
	LOCK_REQUEST_UNDONE, /* MLOCK: the try has failed; the next call gives its locks back */
	LOCK_REQUEST_KEPT, /* hasp keeps the reply until Redis or replicas confirm the lock */
	LOCK_REQUEST_LOCKED, /* answered by -LOCKED: another owner has the lock */
	LOCK_REQUEST_REFUSED, /* Redis refused to delete one of the keys */
	LOCK_REQUEST_ABANDONED, /* answered, but the client is gone */
};
#define LOCK_REQUEST_STATES (LOCK_REQUEST_ABANDONED + 1)

/* By how much a client's own script has moved the expiry of a lock. */
enum expiry_move {
	EXPIRY_EARLIER, /* the script moved the expiry earlier, or not at all */
	EXPIRY_LATER,
	EXPIRY_ADDED, /* the lock had no expiry before */
};

/* The facts about a call that hasp needs when the reply comes. The bytes of the keys and the
 * ticket follow `keys`. The small fields are at the end, so that there are no gaps. */
struct lock_request {
	struct holds *holds;
	struct section_stats *stats; /* counts the outcome; NULL: none */
	struct parts *parts; /* MLOCK: the locks that the try has; else NULL */
	struct followed_script *followed; /* the client's own script; else NULL */
	struct lock_request *next; /* MSETNX: another lock that the call takes; else NULL */
	struct token *token; /* the owner's token; a lock by value: the lock's value */
	struct slice ticket; /* lock_call.ticket; empty: none */
	int64_t lease_ms, wait_ms, limit; /* the lock_call's fields of these names */
	/* the lock's end as the application sets it, in ms from `sent_at`; -1: before
	 * `sent_at`; 0: the application sets no end, or keeps the old one */
	int64_t ends_ms;
	int64_t default_lease_ms;
	int64_t max_hold_ms;
	int64_t replicas_timeout_ms; /* how long hasp waits for the replicas */
	double sent_at; /* when hasp sent the call; after a grant: when the lease began. hasp
	                 * counts the lease from then on */
	double waited; /* how many seconds the call has waited; 0: not at all. If Redis then
	                * refuses the call, hasp counts a time-out */
	struct buf answer; /* KEPT: a struct resp_reply, and its bytes; REFUSED: the holder's
	                    * token */
	int replicas; /* how many replicas must still confirm the lock before hasp reports
	               * success */
	uint32_t refused; /* REFUSED: the number of the refused key, counted from 1 */
	uint32_t nbytes; /* memory of the struct and the bytes after it */
	uint32_t nkeys;
	enum lock_request_state state : 8; /* written by lock_request.c */
	/* More fields of the lock_call. (Copying the whole lock_call would take longer than all
	 * else that lock_request_new() does.) */
	enum script_id script : 8;
	enum lock_effect effect : 8;
	enum lock_success success : 8;
	/* kind of the lock that the call takes; for other calls, the section's usual kind */
	enum lock_kind kind : 8;
	enum renew_mode renew : 8;
	enum expiry_move moved : 8; /* how a followed script moved the expiry */
	bool leased : 1; /* lock_call.leased */
	bool single_key : 1; /* lock_call.single_key */
	bool release : 1; /* hasp releases the lock at disconnect */
	bool closes : 1; /* hasp closes the connection if it loses the lock */
	bool exclusive : 1; /* no other connection can take the lock by this token */
	/* hasp reports success only while the lease is good: for a verb, a rule with `wait` or
	 * `renew = yes`, and a lease that hasp chose */
	bool check_if_late : 1;
	bool queued : 1; /* the call waited in line for `waited` seconds */
	struct slice keys[];
};

/* The settings of a call's lock: a rule's, or the verbs'. */
struct hold_terms {
	const struct rule *rule; /* NULL: a verb takes the lock */
	const struct verbs *verbs; /* NULL: a command under a rule takes it */
	struct slice token;
	/* the connection's own token, whose bytes `token` may share; NULL: none */
	struct token *shared;
	struct section_stats *stats; /* counts the call's outcome; NULL: none */
	int64_t date_ms; /* the present time since 1970; 0: the call names no date */
};

/* Copies the facts of `call`, whose keys are `keys` (for DROPS: all that have a rule). Returns
 * NULL if the reply to the call can change neither the table nor a counter. */
struct lock_request *lock_request_new(struct holds *h, const struct lock_call *call,
                                      const struct slice *keys, size_t nkeys,
                                      const struct hold_terms *terms);
/* For MSETNX, which takes several locks by one call: adds `p` to the list `all` (NULL: empty).
 * Returns the list's first request, which has the shortest lease. Functions below that are
 * about one lock use only the first request. */
struct lock_request *lock_request_join(struct lock_request *p, struct lock_request *all);
/* Notes the answer -LOCKED: another owner has the lock. */
void lock_request_locked(struct lock_request *p);
/* Notes that the script has refused to delete a lock. `line` is "+REFUSED n i owner": n keys
 * are gone, and key i, counted from 1, belongs to another owner, whose token is `owner` ("-":
 * unknown). Writes n; returns false if the line does not have that form. */
bool lock_request_refused(struct lock_request *p, struct slice line, int64_t *n);
/* Logs the end of a wait in line, for which stats_wait_ended() has returned true. */
void refusals_log_wait(const struct lock_request *p, const struct hold_owner *o, int db,
                       enum lock_event end, double waited);
/* The client is gone: when the reply comes, hasp releases a lock that the call has taken. */
void lock_request_abandon(struct lock_request *p);
/* The reply will never come, and hasp does not know whether Redis has carried out or queued the
 * request: undoes it by its ticket. Frees `p`. NULL is allowed. */
void lock_request_undo(struct lock_request *p, int db);
/* As lock_request_undo(), but does not free `p`. */
void lock_request_undo_now(struct lock_request *p, int db);
/* Returns the try (points into `p`) of a call that has to wait. */
struct attempt lock_request_attempt(const struct lock_request *p);
/* Returns the key of the lock, or of the first of several locks; points into `p`. */
struct slice lock_request_key(const struct lock_request *p);
/* True if an MLOCK takes several locks. All its calls have the same ticket. */
bool lock_request_is_multi(const struct lock_request *p);
/* True if an MLOCK may have some of its locks without the others. `p` NULL: false. */
bool parts_has(const struct lock_request *p);
/* Handles the answer `+QUEUED ...`: the call waits in the queue of its lock. An MLOCK's line
 * ends with ` i`: the MLOCK waits for its lock i, counted from 1, and has the locks before lock
 * i. hasp renews these from now on. Cuts ` i` off *line. Returns false if hasp does not
 * understand the line. */
bool lock_request_queued(struct lock_request *p, int db, struct slice *line)
	__attribute__((warn_unused_result));
/* Notes that Redis has granted the lock that the MLOCK waited for. */
void parts_granted(struct lock_request *p);
/* An MLOCK has failed, and hasp has counted it: the next call gives its locks back. */
void parts_undo(struct lock_request *p);
/* True if the call for one lock refreshes a hold of the connection itself. hasp does not undo
 * such a call, whose lease and value stay in Redis. False in a layout that counts, in which the
 * call takes one more hold. */
bool lock_request_refreshes(const struct lock_request *p, const struct hold_owner *o, int db);
/* Returns place_of (see rewrite_mlock()) for the MLOCK's next call. `placed`: the MLOCK may
 * have a place in the queue of the lock that it waits for. */
size_t parts_place_of(struct lock_request *p, bool placed);
/* Appends the call by which the MLOCK leaves its queue and gives its locks back. */
void parts_write_undo(const struct lock_request *p, struct buf *out,
                      const struct rewrite_opts *opts);
/* Notes that hasp sends the call now, later than it was written. */
void lock_request_sent(struct lock_request *p);

/* True if the answer comes late. lock_request_is_late(): much of the lease may be over;
 * lock_request_is_over(): all of it. */
bool lock_request_is_late(const struct lock_request *p);
bool lock_request_is_over(const struct lock_request *p);
/* How hasp handles a late answer. `repeated`: hasp has sent the call again before. */
enum lock_request_late {
	LOCK_REQUEST_TELL, /* forward the answer: it is no success, or enough of the lease is
	                    * left */
	LOCK_REQUEST_CONFIRM, /* ask Redis whether the client still has the lock, or ask
	                       * replicas */
	LOCK_REQUEST_REPEAT, /* send the call again, which does no harm */
};
enum lock_request_late lock_request_late(const struct lock_request *p,
                                         const struct resp_reply *r, bool repeated);
/* Returns the time from which on hasp need not undo the call: its lease is over, or hasp gives
 * up. */
double lock_request_until(const struct lock_request *p);
/* Stores the reply and its bytes, until hasp knows whether the client gets them. */
void lock_request_keep(struct lock_request *p, const struct resp_reply *r, struct slice bytes);
/* Returns the stored bytes, and writes the stored reply; empty: no reply is stored. */
struct slice lock_request_kept(const struct lock_request *p, struct resp_reply *r);
/* Returns the reply to a client that has no lock, without the line end. */
const char *lock_request_refusal(const struct lock_request *p, bool resp3);
void lock_request_free(struct lock_request *p); /* NULL is allowed */
size_t lock_request_nbytes(const struct lock_request *p); /* returns its memory in bytes */

/* Makes the request for a script that a client runs on `key`, the lock of a rule with owner =
 * value. `args`: the script's other arguments. hasp compares the first FOLLOWED_ARGS_MAX of
 * them with the lock's new value. hasp reads the lock before and after the script. hold_apply()
 * gets the reply to the last read, and begins, prolongs or ends a hold as these reads show. */
#define FOLLOWED_ARGS_MAX 16
struct lock_request *lock_request_follow(struct holds *h, struct slice key,
                                         const struct slice *args, size_t nargs,
                                         const struct hold_terms *terms);
/* Appends the client's request, with two reads before it and two after it. */
void followed_script_write(const struct lock_request *p, struct slice request, struct buf *out);
/* Reads the next bytes of the first four replies to followed_script_write(). `ended`: the reply
 * ends with these bytes. hold_apply() gets the fifth reply. */
void followed_script_feed(struct lock_request *p, struct slice bytes, bool ended);
/* True if `p` is a followed script that Redis answered by an error. */
bool followed_script_failed(const struct lock_request *p);

/* Handles the reply `r` to the call, which ran in database `db` (-1: not known). Frees `p`. */
void hold_apply(struct holds *h, struct hold_owner *o, struct lock_request *p, int db,
                const struct resp_reply *r);

/* Returns the value that the connection last stored at `key` under a rule with owner = value;
 * empty: not known. Valid until the table changes. */
struct slice hold_value(struct holds *h, const struct hold_owner *o, int db, struct slice key);

/* Writes the tokens by which the connection itself has taken the lock and not given it up
 * through hasp. (Only Redis knows which token still has the lock.) Writes at most `max` tokens
 * to `out`, valid until the table changes, and returns how many there are. */
size_t hold_own_tokens(struct holds *h, const struct hold_owner *o, int db, struct slice key,
                       struct slice *out, size_t max);

/* Returns the kind of the verbs' lock `key` that the connection itself has; 0: none, or not
 * known. Sets *reentered if the connection may have acquired the lock more than once. */
enum lock_kind hold_own_kind(const struct hold_owner *o, int db, struct slice key,
                             bool *reentered);

/* Appends to rewrite_opts.given_back the acquisition that an UNLOCK by the owner `token` gives
 * back: the oldest one of the connection itself, even if its lease ended while hasp was
 * suspended. */
void hold_given_back(struct holds *h, const struct hold_owner *o, int db, struct slice key,
                     struct slice token, struct buf *out);

/* hasp will not see the reply to the connection's call `p`, which may be NULL. Notes the value
 * as stored: Redis compares the value before it releases the lock. */
void hold_assume_stored(struct hold_owner *o, const struct lock_request *p, int db);

/* Finds the value that the connection has last stored in the lock at `key`, or read there. */
enum seen_value hold_seen_value(struct holds *h, const struct hold_owner *o, int db,
                                struct slice key, struct slice *value);

/* True if the connection has a lock according to the table. (A lock that the application has
 * released by a script of its own counts until the lease is over.) */
bool hold_owner_has_any(const struct hold_owner *o, double now);

/* Soon renews each renewed lock for which `concerns` returns true: its server has changed, and
 * may lack the last writes. Logs a lock that is gone, and neither renews nor releases it. */
void renewal_mark_unknown(struct holds *h, bool (*concerns)(void *arg, struct slice key),
                          void *arg);

/* --- locks that the servers of a quorum have ----------------------------------------------
 * They are in the table with LOCK_DB_QUORUM in place of a database. */

struct hold;

/* How the servers of a quorum renew and release a lock, which has `value` there. */
struct voters {
	/* Renews the lock, and then calls renewal_voted(), perhaps before it returns. */
	void (*renew)(void *arg, struct slice key, struct slice value, int64_t lease_ms,
	              struct hold **slot);
	void (*release)(void *arg, struct slice key, struct slice value, int64_t lease_ms);
	void *arg;
	bool closes; /* hasp closes the connection of a hold whose lock is lost */
};
void holds_set_voters(struct holds *h, const struct voters *voters);

/* Ends a renewal, and frees `slot`. Returns true if the lock was renewed. `result`:
 *    1  a majority has renewed the lock
 *    0  a majority does not have the lock any more: hasp releases what is left of it
 *   -1  no answer has a majority */
bool renewal_voted(struct hold **slot, int result, double good_until);

/* The servers' answer to a command that takes a lock. */
struct voted_lock {
	bool waited; /* hasp has tried more than once */
	int64_t fence; /* the fencing token; 0: no majority has granted the lock */
	double good_until; /* end of the lease */
	struct slice value; /* the lock's value at the servers */
};
/* Makes the request of a command that takes a lock: a rule's, or the verbs'. */
struct lock_request *lock_request_voted(struct holds *h, const struct lock_call *call,
                                        const struct hold_terms *terms);
/* Handles the servers' answer: counts it, and adds a hold if the lock is won. Frees `p`. */
void hold_apply_voted(struct holds *h, struct hold_owner *o, struct lock_request *p,
                      const struct voted_lock *v);
/* Returns the connection's own hold of the lock by `token` (empty: any). NULL: none. */
struct hold *voted_find(struct holds *h, const struct hold_owner *o, struct slice key,
                        struct slice token);
struct slice voted_value(const struct hold *hold);
/* LOCK.EXTEND has succeeded: sets the lease, which never gets shorter. From now on hasp renews
 * the hold only if its rule has `renew = yes`. */
void voted_extend(struct hold *hold, double good_until, int64_t lease_ms);
/* The lock `key` that had this `value` has been released. Ends this worker's hold of it, if
 * there is one. */
void voted_end(struct holds *h, struct slice key, struct slice value);

/* The connection has ended: forgets its holds. `release`: also releases the holds whose section
 * has on_disconnect = release; other locks end with their leases. */
void hold_owner_end(struct hold_owner *o, bool release);
/* Call this before hold_owner_end() for a call whose reply never comes. If the call refreshes a
 * lock that hasp releases at disconnect, the record in Redis may have only the ticket of this
 * call: so hasp also releases the lock by this ticket. */
void hold_release_refreshed(const struct hold_owner *o, const struct lock_request *p, int db);

/* --- facts about holds, for SHOW and logs ------------------------------------------------- */

/* A row of the table: what Redis last answered to a connection. Points into the table: valid
 * until that changes. Times are those of the timers' clock. */
struct held {
	int db;
	struct slice key;
	struct slice token; /* LOCK_KIND_VALUE: the lock's value */
	enum lock_kind kind;
	const struct hold_owner *owner;
	const struct section_stats *stats; /* counters of the lock's section; NULL: none */
	long long fence; /* verbs: the fencing token; else 0 */
	double since; /* when the connection got the lock */
	double learnt_at; /* when Redis last answered that the connection has the lock */
	double good_until; /* when the lease may be over; INFINITY: not known */
	int64_t lease_ms; /* lease in ms; 0: not known */
	bool renewed; /* hasp renews the hold */
};

struct held held_of(const struct hold *hold);
/* Finds the hold of the lock by `token`, with the latest `learnt_at` if there are several.
 * False: there is none. `fence`: the lock's fencing token in Redis; 0: any. A hold of an
 * earlier acquisition has a smaller token. (An MLOCK of a lock that the owner had has a greater
 * one.) If `other_at` > 0, finds instead a hold of another owner whose lease was running at
 * that time. */
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
