/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rewrite: turns a command on a key with a rule, or one of the verbs, into a call of the
 * script that does the same atomically for its owner. Pure: no I/O, no clock.
 *
 *   view (argv) + keys (rule, token each) --> EVALSHA/EVAL sha nkeys key... arg...
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
#include "resp/view.h"

/* A key of a command, and the section that matches it, in any mode; NULL: none. */
struct command_key {
	size_t arg; /* its index in argv */
	const struct rule *rule;
	const struct guard *guard; /* NULL, too, if it has a rule */
};

/* All keys of a command, in the order of its arguments. */
struct command_keys {
	const struct command_key *v;
	size_t n;
};

/* A key of a command that is rewritten. */
struct lock_key {
	size_t arg; /* its index in argv */
	const struct rule *rule; /* NULL: no rule matches this key */
	/* The client's token under the rule. For OWNER_VALUE the value that this connection
	 * last stored at the key, or has read there; empty when it knows none. */
	struct slice token;
	bool foreign; /* (OWNER_VALUE) the connection knows no value: the lock counts as another
	               * owner's */
};

/* The kind of the locks of a rule. */
static inline enum lock_kind rewrite_rule_kind(const struct rule *rule)
{
	return rule->owner == OWNER_VALUE ? LOCK_KIND_VALUE : LOCK_KIND_RULE;
}

/* The effect of a successful reply on the first key's lock (for DROPS: on all the keys' locks).
 */
enum lock_effect {
	LOCK_EFFECT_NONE,
	LOCK_EFFECT_TAKES,
	LOCK_EFFECT_COUNTS, /* takes it by a value that does not name its owner */
	LOCK_EFFECT_DROPS, /* layout `count`: one hold, with the last one the lock */
	LOCK_EFFECT_EXPIRES, /* sets another expiry */
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
	struct slice value; /* the value stored by TAKES; points into the view; for INCR "1" */
	struct slice owner; /* verbs: AS's token, else the one passed in */
	bool shared_owner; /* verbs: other connections may have the lock as this owner */
	bool leased; /* the application named an expiry itself (or KEEPTTL) */
	int64_t lease_ms; /* as sent; 0: not known (EXAT, PXAT, KEEPTTL) or over */
	int64_t until_ms; /* the date, in ms since 1970, at which the application lets the lock
	                     end; 0: it named none */
	enum lock_kind kind; /* of a lock that the call takes */
	int64_t limit; /* LOCK_KIND_LIMIT: how many owners there may be; else 0 */
	struct slice ticket; /* of rewrite_opts; empty: the call carries none */
	int64_t wait_ms; /* for how long it may be in the queue, after `+QUEUED ...`; 0: not at
	                    all */
	bool only_if_free; /* it succeeds only if the lock was free */
	bool hand_off; /* if it releases the lock, it hands the lock off */
	bool single_key; /* DROPS: the command names no other key, so success means the lock is
	                  * gone */
	bool is_short; /* it may be answered by `+BUSY`; see rewrite_opts.may_be_short */
};

enum rewrite_result {
	REWRITE_PASS, /* send the request as it came: it can do no harm, or has an error that
	                 only Redis can report */
	REWRITE_CALL, /* `out` holds the call and `call` is filled in */
};

/* Rewrites a request of the write command `c`; at least one key has a rule in mode ENFORCE.
 * `keys` are all the command's keys in argument order; pass rule = NULL for a key whose rule is
 * in mode OBSERVE. Appends to `out`. */
enum rewrite_result rewrite_lock(struct buf *out, const struct command *c,
                                 const struct resp_view *req, const struct lock_key *keys,
                                 size_t nkeys, const struct rewrite_opts *opts,
                                 struct lock_call *call);

/* Changes the call of an MSETNX into a call for its lock `k` alone, for the worker's tables. */
void rewrite_msetnx_lock(const struct lock_key *k, const struct resp_view *req,
                         struct lock_call *call);

enum verb {
	VERB_LOCK,
	VERB_UNLOCK,
	VERB_EXTEND,
	VERB_INFO,
	VERB_LIST,
	VERB_MLOCK,
	VERB_MUNLOCK,
};

/* For `LOCK key [PX ms | EX s] [WAIT ms] [AS owner] [LIMIT n | SHARED | EXCLUSIVE]` and the
 * other verbs; argv[0] is the verb, whatever its configured name. If arguments are wrong,
 * writes a call of the script that answers the error that Redis would give (so that the answer
 * arrives in order, also inside MULTI); then effect is NONE. LOCK.LIST must have wrong
 * arguments: no script answers it. */
void rewrite_verb(struct buf *out, enum verb verb, const struct resp_view *req,
                  const struct verbs *verbs, struct slice token,
                  const struct rewrite_opts *opts, struct lock_call *call);

/* How many locks MLOCK and MUNLOCK may name: a script takes them in one step, during which
 * Redis serves no other client. */
#define MLOCK_KEYS_MAX 64

/* The locks of an MLOCK or MUNLOCK, in the order in which it takes them; they point into the
 * view. */
struct mlock_keys {
	size_t n;
	struct slice v[MLOCK_KEYS_MAX];
};

/* How far an MLOCK has got. */
struct mlock_step {
	size_t place_of; /* the lock in whose queue it is, counted from 1; 0: none, or not known
	                  */
};

/* The shortest lease of the locks that an MLOCK has while it waits for another one. */
#define MLOCK_PART_LEASE_MS 10000
int64_t rewrite_mlock_part_lease(int64_t lease_ms);

/* As rewrite_verb(), for `MLOCK numkeys key [key ...] [PX ms | EX s] [WAIT ms] [AS owner]` and
 * `MUNLOCK numkeys key [key ...] [AS owner]`. Writes the locks to `keys`; none: the arguments
 * are wrong. */
void rewrite_mlock(struct buf *out, enum verb verb, const struct resp_view *req,
                   const struct verbs *verbs, struct slice token,
                   const struct rewrite_opts *opts, const struct mlock_step *step,
                   struct mlock_keys *keys, struct lock_call *call);

/* LOCK.INFO of a lock of this kind: a verbs', a rule's, or a guard (`key` is the guard's name).
 * The key must outlive `call`. */
void rewrite_info(struct buf *out, enum lock_kind kind, struct slice key,
                  const struct rewrite_opts *opts, struct lock_call *call);

/* Appends the call that answers hasp's error `text`, given without its leading dash. */
void rewrite_error(struct buf *out, const struct rewrite_opts *opts, const char *text);

/* True if this reply means success. */
bool rewrite_is_success(enum lock_success success, const struct resp_reply *r);

/* Returns the client's reply if such a call did not take the lock, without the line end: the
 * refusal of the command itself, else an error. */
const char *rewrite_refusal(enum script_id script, enum lock_success success, bool resp3);

/* hasp makes its own calls for a lock in its tables, always as EVALSHA. `opts`:
 * script_jobs_opts() of the lock's database. */
struct lock_ident {
	enum lock_kind kind;
	struct slice key;
	struct slice token; /* LOCK_KIND_VALUE: the value */
};

/* Prolongs n locks by `script`, the result of rewrite_renewal() for each of them. Redis answers
 * an array, for each lock: 1; 0: it is free; -2: another owner has it; -1: Redis refused. */
struct lock_renewal {
	struct lock_ident id;
	int64_t lease_ms;
	long long fence; /* verbs: of the acquisition that is prolonged */
};
enum script_id rewrite_renewal(enum lock_kind kind);
void rewrite_renew(struct buf *out, enum script_id script, const struct lock_renewal *v,
                   size_t n, const struct rewrite_opts *opts);

/* Lets a rule's lock end in `ms`, if this owner still has it. Redis answers :1, or :0. Returns
 * the script. */
enum script_id rewrite_end_in(struct buf *out, const struct lock_ident *id, int64_t ms,
                              const struct rewrite_opts *opts);

/* Releases a lock of LOCK_KIND_TOKEN, or a place of a semaphore, if the try that took or
 * refreshed it last had this ticket, and hands it off. Redis answers :1, or :0 if another try
 * was later. Returns the script. */
enum script_id rewrite_unlock(struct buf *out, const struct lock_ident *id, struct slice ticket,
                              const struct rewrite_opts *opts);

/* Releases a rule's lock in the same way, unless more than `most_ms` of its lease is left: then
 * it was taken again. 0: no limit. (A lock that is renewed outlives the record of its ticket.)
 */
enum script_id rewrite_release(struct buf *out, const struct lock_ident *id,
                               struct slice ticket, int64_t most_ms,
                               const struct rewrite_opts *opts);

/* Frees the lock, or the guard, of any owner, for an operator. The token does not matter.
 * `kind` of a key without a rule: LOCK_KIND_COUNT, for either layout of a verb's lock. Redis
 * answers 1; 0: it is free; -1: the key holds something else. */
enum script_id rewrite_force(struct buf *out, const struct lock_ident *id,
                             const struct rewrite_opts *opts);

/* One try to take a lock. */
struct attempt {
	struct lock_ident id;
	struct slice value; /* the value that it stores; LOCK_KIND_VALUE, LOCK_KIND_GUARD */
	struct slice ticket;
	int64_t place; /* in the queue; 0: it was never queued; -1: not known */
	int64_t limit; /* as in lock_call; 0: not known, or none */
};
/* Asks for the outcome of the try, and hands the lock off if it is free. `lease_ms`: begins the
 * lease again if the try has the lock; 0: does not. With an empty ticket, only hands off. */
enum script_id rewrite_poll(struct buf *out, const struct attempt *t, int64_t lease_ms,
                            const struct rewrite_opts *opts);
/* Checks n locks that have waiters: recheck.lua describes the answer. */
struct lock_place {
	struct slice key;
	int64_t place; /* of a waiter in its queue; > 0 */
	int64_t limit; /* how many places that waiter accepts; 0: the lock is no semaphore. All
	                  of a call are semaphores, or none is. */
};
enum script_id rewrite_recheck(struct buf *out, const struct lock_place *v, size_t n,
                               const struct rewrite_opts *opts);
/* Takes the try out of the queue; `undo`: also releases a lock that it got. If the place is not
 * known, the caller appends one more bulk: how many ms ago the try was sent
 * (script_job_repeat()). */
enum script_id rewrite_dequeue(struct buf *out, const struct attempt *t, bool undo,
                               const struct rewrite_opts *opts);
/* Ends an MLOCK of these `n` locks, in order: takes it out of its queue, and gives its locks
 * back. Does not depend on the configuration, which may have changed. `age_ms`: how long ago
 * the try was sent; counts if its place is not known (0). */
void rewrite_mlock_undo(struct buf *out, const struct slice *keys, size_t n,
                        const struct attempt *t, const struct mlock_step *step, int64_t age_ms,
                        const struct rewrite_opts *opts);

#endif
