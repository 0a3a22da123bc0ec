/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy_internal: shared by the files of this folder.
 *
 *   dispatch.c    decides how hasp handles a command
 *   quorum_rule.c, lock.c   locks of a quorum, and all others
 *   watched.c     what the tracker learns of a command
 *   guard_txn.c   writes of guarded keys that no script can run, and transactions
 *   guard.c       the guarded keys of a command, and what hasp does about them
 *   policy.c      applies the configuration to struct policy_env
 */
#ifndef HASP_POLICY_POLICY_INTERNAL_H
#define HASP_POLICY_POLICY_INTERNAL_H

#include "base/buf.h"
#include "base/map.h"
#include "commands/command.h"
#include "lock/rewrite/guard.h"
#include "policy/context.h"

/* Decisions that await no reply. */
static const struct decision pass = { .verdict = DISPATCH_PASS };
static const struct decision defer = { .verdict = DISPATCH_DEFER };

/* --- guard.c --- */

/* hasp refuses commands with more guarded keys than this; a repeated key counts each time. */
#define GUARD_KEYS_MAX ((size_t)2 * READ_SET_MAX)

/* The guarded keys of a command, and facts about all its keys. */
struct guard_keys {
	struct guarded_key *v;
	size_t n;
	bool writes; /* the command writes; else it reads */
	bool acquires; /* the command counts as a read, even if it also writes */
	bool ruled; /* a [lock] rule matches one of the keys */
	bool checks; /* a key has a guard with strategy = check */
	bool locks; /* a key has a guard with strategy = lock */
	bool incomplete; /* more than GUARD_KEYS_MAX keys are guarded: not all are in `v` */
	int64_t wait_ms; /* the shortest `wait` of the guards, if `locks`; else 0 */
	int64_t replicas, replicas_timeout_ms; /* the largest values of all acquired guards */
	/* guard_keys_add() finds repeated keys in this map; nodes[i] is for the key v[i]. */
	struct map by_key;
	struct map_node *nodes; /* array of READ_SET_MAX nodes; NULL: not made yet */
};

/* Makes the list of the command's guarded keys, in the command's order, without tokens. The
 * list is valid until a list of the keys of another command is made. */
void guard_keys_find(const struct context *x, struct guard_keys *k);
/* Adds the keys `more` of a later command to the list `all`, which was empty at first. Both
 * must have fewer than READ_SET_MAX keys together. If both have a key, the entry of `more`
 * remains, but a written key stays written. */
void guard_keys_add(struct guard_keys *all, const struct guard_keys *more);
/* Frees a list to which guard_keys_add() has added keys. */
void guard_keys_fini(struct guard_keys *all);
/* Finds the tokens of the guarded keys, and which of the keys the client has read. */
void guard_keys_name(const struct context *x, struct guard_keys *k);
/* Makes an operation of kind `kind` for the guarded keys, which guard_keys_name() has named. */
struct guard_op *guard_keys_op(const struct context *x, const struct guard_keys *k,
                               enum guard_op_kind kind);

/* Returns how the command uses its key `i`, which `g` guards. */
enum guard_use { GUARD_IGNORED, GUARD_READ, GUARD_WRITTEN };
enum guard_use guard_key_use(const struct context *x, const struct guard *g, size_t i);

/* True if the command, which Redis has not described yet, could name a guarded key: any
 * argument may be a key. */
bool guard_unknown_may_name(const struct policy_env *env, const struct resp_view *req);

/* Decides about a command that may name a guarded key. Returns false if none is guarded. */
bool guard_decide(struct context *x, struct decision *d);

/* True if the command, which names a guarded key, needs a pinned link. */
bool guard_needs_pinned(const struct context *x);

/* If a passed command reads keys whose guards have strategy = check, makes hasp compute digests
 * of the values in the reply. Sets d->pending if it is NULL. */
void guard_note_read(struct context *x, struct decision *d);

/* --- guard_txn.c --- */

/* Decides about MULTI and EXEC. Returns false if no guard concerns the command. */
bool guard_txn_decide(struct context *x, struct decision *d);

/* Keeps a command that Redis queues in a transaction. Sets d->watches_refusal, so that hasp
 * marks the transaction as aborted if Redis refuses the command. */
void guard_txn_keep(struct context *x, struct decision *d, bool may_be_guarded);
/* Keeps the `n` commands in `bytes`; `nunguarded` of them name no guarded key. */
void guard_txn_keep_bytes(const struct policy_env *env, struct transaction *t,
                          struct slice bytes, uint32_t n, uint32_t nunguarded);

/* --- lock.c --- */

/* Decides about LOCK, UNLOCK, LOCK.EXTEND, LOCK.INFO, LOCK.LIST, MLOCK and MUNLOCK, under their
 * configured names. */
struct decision lock_decide_verb(struct context *x);

/* Returns the error that refuses a verb with valid arguments; NULL: hasp carries the verb out.
 * `token`: the client's token; `keys`: the verb's locks. */
const char *lock_verb_refusal(struct context *x, struct slice token,
                              const struct lock_call *call, const struct slice *keys, size_t n);

/* Decides to send a PING in place of a command that hasp answers itself. A request of kind
 * `kind` awaits Redis' reply to the PING; then hasp answers. So the replies keep their order,
 * and a client that must log in gets Redis' error. */
struct decision lock_await_ping(struct context *x, enum pending_kind kind);

/* Sets key->token and key->foreign of a lock whose rule has owner = value. */
void lock_find_value(const struct context *x, struct lock_key *key);

/* True if the rule requires that a DEL comes from a connection that knows the lock's value. */
bool lock_value_matters(const struct rule *rule);
/* True if hasp notes which connections read the rule's locks. */
bool lock_reads_matter(const struct policy_env *env, const struct rule *rule);
/* Records which locks of rules a passed request reads. */
void lock_note_read(struct context *x, struct decision *d);

/* Decides about a write. PASS: no rule concerns it. */
struct decision lock_decide_write(struct context *x);

/* True if a client of this worker waits for the lock of key `i`, or if the key's rule has
 * `wait`, so that a client of another worker or hasp may wait. */
bool lock_is_waited_for(const struct context *x, size_t i);

/* Records that a passed script may release the locks of rules that it names. If exactly one of
 * them has owner = value, hasp reads this lock before and after the script. */
void lock_note_script(struct context *x, struct decision *d);

/* --- quorum_rule.c --- */

/* Decides about a command on keys whose rule names a quorum. Returns false if the command names
 * no such key. */
bool quorum_rule_decide(struct context *x, struct decision *d);

/* Decides about a verb, as lock_decide_verb() does, if a quorum stores the verbs' locks. */
struct decision quorum_verb_decide(struct context *x);

/* --- watched.c --- */

/* True for commands that discovery observes. */
bool watched_concerns(const struct command *c);

/* True if discovery needs to see the command only when watched_wants() is true. If it is false,
 * the command takes and ends no lock, and nothing relevant has happened on its key. */
bool watched_may_sample(const struct command *c);

/* Lets the tracker see the reply to the request, which hasp passes as `d` says. is_observed or
 * is_discovered must be true, and Redis must accept the number of arguments. If `is_whole` is
 * false, `x->req` is the beginning of a request. */
void watched_request(struct context *x, struct decision *d, bool is_whole);

#endif
