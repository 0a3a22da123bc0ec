/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock: decides about the verbs, and about writes on keys with a rule in mode ENFORCE.
 */
#ifndef HASP_POLICY_LOCK_H
#define HASP_POLICY_LOCK_H

#include "policy/context.h"

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

/* Writes the call of a command to env->rewritten again, with the options x->opts (such as the
 * script's text, or another place in the line), and updates `r`. An MLOCK continues its
 * attempt. The configuration that decided about the command must still be in force. Returns how
 * long the call may wait in line, in ms. */
int64_t lock_rewrite(struct context *x, struct pending_request *r);

/* True for an UNLOCK or MUNLOCK if an earlier call of it named the acquisition to give back. A
 * new call must name the same one, which hasp could not find again if the hold has ended. */
bool lock_names_given_back(const struct context *x, const struct lock_request *p);

/* True if the present configuration gives the MLOCK of `p` the same owner and kind of lock as
 * the configuration under which it began. The MLOCK then keeps its locks and its place in the
 * queue. */
bool lock_multi_stays(struct context *x, const struct lock_request *p);

/* True if a client of this worker waits for the lock of key `i`, or if the key's rule has
 * `wait`, so that a client of another worker or hasp may wait. */
bool lock_is_waited_for(const struct context *x, size_t i);

/* Records that a passed script may release the locks of rules that it names. If exactly one of
 * them has owner = value, hasp reads this lock before and after the script. */
void lock_note_script(struct context *x, struct decision *d);

#endif
