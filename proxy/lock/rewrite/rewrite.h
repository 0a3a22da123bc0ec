/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rewrite: turns a command on a key with a rule, or one of the verbs, into a call of a script,
 * which checks the lock's owner and does the same in one step. Pure: no I/O, no clock.
 *
 *   view (argv) + keys, each with rule and token --> EVALSHA/EVAL sha nkeys key... arg...
 *
 * The script's reply is what the application gets, byte for byte. struct lock_call says what
 * that reply means for the worker's tables.
 */
#ifndef HASP_LOCK_REWRITE_REWRITE_H
#define HASP_LOCK_REWRITE_REWRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "commands/command.h"
#include "config/types.h"
#include "lock/model/layout.h"
#include "lock/scripts/script_call.h"
#include "resp/reply.h"
#include "resp/request.h"

/* A key of a command, and the section that matches it. The section may be in any mode. */
struct command_key {
	size_t arg; /* index in argv */
	const struct rule *rule; /* NULL: no rule matches */
	const struct guard *guard; /* NULL: no guard matches, or the key has a rule */
};

/* All keys of a command, in the order of its arguments. */
struct command_keys {
	const struct command_key *v;
	size_t n;
};

/* A key of a command that is rewritten. */
struct lock_key {
	size_t arg; /* index in argv */
	const struct rule *rule; /* NULL: no rule matches this key */
	/* The client's token under the rule. OWNER_VALUE: the value that the connection has
	 * last stored or read at the key; empty: none. */
	struct slice token;
	bool foreign; /* OWNER_VALUE: the connection knows no value of the lock, which therefore
	               * counts as another owner's */
};

/* Return the kind of the locks of a rule, and the usual kind of the locks of the verbs. */
enum lock_kind rewrite_rule_kind(const struct rule *rule);
enum lock_kind rewrite_verbs_kind(const struct verbs *verbs);

/* The effect of a successful reply on the first key's lock (for DROPS: on all the keys'
 * locks). */
enum lock_effect {
	LOCK_EFFECT_NONE,
	LOCK_EFFECT_TAKES,
	LOCK_EFFECT_STORES, /* as TAKES, but not undone: the client has the lock anyway */
	LOCK_EFFECT_COUNTS, /* takes the lock by a value that does not name the owner */
	LOCK_EFFECT_DROPS, /* gives up the lock or, in a layout that counts, one of its holds */
	LOCK_EFFECT_EXPIRES, /* changes the lock's expiry */
};

/* The reply that means success. */
enum lock_success {
	LOCK_IF_OK, /* +OK */
	LOCK_IF_ONE, /* :1 */
	LOCK_IF_POSITIVE, /* an integer > 0 */
	LOCK_IF_NIL, /* SET NX GET: there was no value before */
	LOCK_IF_VALUE, /* SET XX GET: there was a value, and not another owner's */
	LOCK_IF_NO_ERROR,
};

struct lock_call {
	enum script_id script;
	enum lock_effect effect;
	enum lock_success success;
	struct slice key; /* the lock's key; points into the view */
	struct slice value; /* what TAKES or STORES stores; points into the view; INCR: "1" */
	struct slice owner; /* the token that AS names, or else the client's */
	bool shared_owner; /* verbs: other connections may have the lock as this owner */
	bool leased; /* the application named an expiry itself, or KEEPTTL */
	/* lease in ms, as sent; 0: not known (EXAT, PXAT, KEEPTTL), or it is over */
	int64_t lease_ms;
	int64_t until_ms; /* the date at which the application lets the lock end, in ms since
	                   * 1970; 0: none */
	enum lock_kind kind; /* kind of the lock that the call takes */
	int64_t limit; /* LOCK_KIND_LIMIT: how many owners there may be; else 0 */
	struct slice ticket; /* of this try: rewrite_opts.ticket; of UNLOCK and MUNLOCK, the
	                      * ticket that they give back; empty: the call names none */
	int64_t wait_ms; /* how long the call may wait in the queue; 0: not at all */
	bool only_if_free; /* the call succeeds only if the lock was free */
	bool hand_off; /* the call hands the lock off if it releases the lock */
	bool single_key; /* DROPS: the command names no other key, so success means the lock is
	                  * gone */
	bool is_short; /* Redis may answer `+BUSY`: see rewrite_opts.may_be_short */
};

enum rewrite_result {
	REWRITE_PASS, /* send the request as it came: it does no harm, or Redis refuses it */
	REWRITE_CALL, /* `out` has the call, and `call` is filled in */
};

/* Rewrites a request of the write command `c`; at least one key has a rule in mode ENFORCE.
 * `keys` are all the command's keys in argument order; pass rule = NULL for a key whose rule is
 * in mode OBSERVE. Appends to `out`. */
enum rewrite_result rewrite_lock(struct buf *out, const struct command *c,
                                 const struct resp_view *req, const struct lock_key *keys,
                                 size_t nkeys, const struct rewrite_opts *opts,
                                 struct lock_call *call);

/* `call` describes an MSETNX: makes it describe a call that takes only the lock `k`, so that
 * the worker can enter this lock into its tables. */
void rewrite_msetnx_lock(const struct lock_key *k, const struct resp_view *req,
                         struct lock_call *call);

/* Rewrites `LOCK key [PX ms | EX s] [WAIT ms] [AS owner] [LIMIT n | SHARED | EXCLUSIVE]` and
 * the other verbs; argv[0] is the verb, whatever its configured name. If the arguments are
 * wrong, writes a call of the script that answers an error as Redis would, and sets the effect
 * to NONE. (By the call, the error keeps its place among the replies, also inside MULTI.) Pass
 * LOCK.LIST only if its arguments are wrong: no script can answer it. */
void rewrite_verb(struct buf *out, enum verb verb, const struct resp_view *req,
                  const struct verbs *verbs, struct slice token,
                  const struct rewrite_opts *opts, struct lock_call *call);

/* How many locks MLOCK and MUNLOCK may name: a script takes them in one step, during which
 * Redis serves no other client. */
#define MLOCK_KEYS_MAX 64

/* The locks of an MLOCK or MUNLOCK, as its script orders them. `v` points into the view. */
struct mlock_keys {
	size_t n;
	struct slice v[MLOCK_KEYS_MAX];
};

/* The shortest lease of the locks that an MLOCK has while it waits for another one. */
#define MLOCK_PART_LEASE_MS 10000
int64_t rewrite_mlock_part_lease(int64_t lease_ms);

/* As rewrite_verb(), for `MLOCK numkeys key [key ...] [PX ms | EX s] [WAIT ms] [AS owner]` and
 * `MUNLOCK numkeys key [key ...] [AS owner]`. Writes the locks to `keys`; writes none if the
 * arguments are wrong. `place_of`: the number of the lock in whose queue the MLOCK is, counted
 * from 1; 0: it is in no queue, or hasp does not know. */
void rewrite_mlock(struct buf *out, enum verb verb, const struct resp_view *req,
                   const struct verbs *verbs, struct slice token,
                   const struct rewrite_opts *opts, size_t place_of, struct mlock_keys *keys,
                   struct lock_call *call);

/* Writes the call for LOCK.INFO of a verbs' lock, a rule's lock or a guard. `key`: the lock's
 * key, or the guard's name; must outlive `call`. */
void rewrite_info(struct buf *out, enum lock_kind kind, struct slice key,
                  const struct rewrite_opts *opts, struct lock_call *call);

/* Appends the call that answers hasp's error `text`, given without its leading dash. */
void rewrite_error(struct buf *out, const struct rewrite_opts *opts, const char *text);

/* True if the reply `r` means success. */
bool rewrite_is_success(enum lock_success success, const struct resp_reply *r);

/* Returns the reply, without the line end, for a client whose call of `script` did not take the
 * lock: the command's own refusal if it has one, else an error. */
const char *rewrite_refusal(enum script_id script, enum lock_success success, bool resp3);

/* --- the calls that hasp makes for itself, always as EVALSHA ---
 * `opts`: script_jobs_opts() of the lock's database. */

/* A lock and its owner. */
struct lock_ident {
	enum lock_kind kind;
	struct slice key;
	struct slice token; /* LOCK_KIND_VALUE: the lock's value */
};

/* Renews `n` locks by `script`, which rewrite_renewal() returns for each of them. Redis answers
 * an array with a number for each lock: 1: renewed; 0: the lock is free; -2: another owner has
 * it; -1: Redis refused to renew it. */
struct lock_renewal {
	struct lock_ident id;
	int64_t lease_ms;
	long long fence; /* verbs: the fencing token of the acquisition */
};
enum script_id rewrite_renewal(enum lock_kind kind);
void rewrite_renew(struct buf *out, enum script_id script, const struct lock_renewal *v,
                   size_t n, const struct rewrite_opts *opts);

/* Makes a rule's lock expire in `ms`, if the owner in `id` still has it. Redis answers :1, or
 * :0. Returns the script. */
enum script_id rewrite_end_in(struct buf *out, const struct lock_ident *id, int64_t ms,
                              const struct rewrite_opts *opts);

/* Releases a lock of LOCK_KIND_TOKEN, or a place of a semaphore, and hands it off, if the last
 * try that took or refreshed it had this ticket. Redis answers :1, or :0 if a later try took or
 * refreshed it. Returns the script. */
enum script_id rewrite_unlock(struct buf *out, const struct lock_ident *id, struct slice ticket,
                              const struct rewrite_opts *opts);

/* Releases a rule's lock as rewrite_unlock() does. Releases nothing if more than `most_ms` (0:
 * no limit) of the lease is left: the lock must have been taken again. (Redis may have lost the
 * record that would show this.) */
enum script_id rewrite_release(struct buf *out, const struct lock_ident *id,
                               struct slice ticket, int64_t most_ms,
                               const struct rewrite_opts *opts);

/* Frees a lock or a guard of any owner, for an operator; ignores id->token. If the key has no
 * rule, pass LOCK_KIND_COUNT: the script then recognizes each layout of the verbs. Redis
 * answers 1; 0: the lock was free; -1: the key has another type. */
enum script_id rewrite_force(struct buf *out, const struct lock_ident *id,
                             const struct rewrite_opts *opts);

/* One try to take a lock. */
struct attempt {
	struct lock_ident id;
	struct token *shared; /* has the bytes of id.token; NULL: not known */
	struct slice value; /* LOCK_KIND_VALUE, LOCK_KIND_GUARD: the value to store */
	struct slice ticket;
	int64_t place; /* place in the queue; 0: the try was never queued; -1: not known */
	int64_t limit; /* as in lock_call; 0: not known, or none */
	int64_t lease_ms; /* 0: not known, or the application named the time at which it ends */
};
/* Asks for the outcome of the try, and hands the lock off if it is free. `lease_ms`: the lease
 * that begins if the try has the lock; 0: none. With an empty ticket, only hands off. */
enum script_id rewrite_poll(struct buf *out, const struct attempt *t, int64_t lease_ms,
                            const struct rewrite_opts *opts);
/* Checks n locks that have waiters: recheck.lua describes the answer. */
struct lock_place {
	struct slice key;
	int64_t place; /* place of a waiter in the lock's queue; > 0 */
	int64_t limit; /* the LIMIT of that waiter; 0: the lock is no semaphore. All locks of a
	                * call are semaphores, or none is. */
};
enum script_id rewrite_recheck(struct buf *out, const struct lock_place *v, size_t n,
                               const struct rewrite_opts *opts);
/* Takes the try out of the queue; `undo`: also releases the lock if the try has got it. If the
 * place is not known, the caller appends one more bulk: how many ms ago the try was sent
 * (script_job_repeat()). */
enum script_id rewrite_dequeue(struct buf *out, const struct attempt *t, bool undo,
                               const struct rewrite_opts *opts);
/* Ends an MLOCK of these `n` locks, in the order of struct mlock_keys: leaves its queue, and
 * gives its locks back. Does not depend on the configuration, which may have changed. `age_ms`:
 * how long ago the try was sent, which matters if its place is not known (0). */
void rewrite_mlock_undo(struct buf *out, const struct slice *keys, size_t n,
                        const struct attempt *t, size_t place_of, int64_t age_ms,
                        const struct rewrite_opts *opts);

#endif
