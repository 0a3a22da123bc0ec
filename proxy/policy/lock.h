/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock: decides about the verbs, and about writes on keys with a rule in mode ENFORCE.
 */
#ifndef HASP_POLICY_LOCK_H
#define HASP_POLICY_LOCK_H

#include "policy/context.h"

/* LOCK, UNLOCK, LOCK.EXTEND, LOCK.INFO, LOCK.LIST, MLOCK, MUNLOCK, under their configured
 * names. */
struct decision lock_decide_verb(struct context *x);

/* Returns why a verb with valid arguments may not be carried out; NULL: it may. `token`: the
 * client's. */
const char *lock_verb_refusal(struct context *x, struct slice token,
                              const struct lock_call *call);

/* Writes a PING to env->rewritten, in place of a verb that hasp answers itself. hasp answers
 * after Redis' reply: so after earlier requests, and never to a client that must log in. */
void lock_write_ping(struct context *x);

/* True if LOCK.INFO of the key is about its guard; false: about a lock. */
bool lock_info_is_of_guard(const struct policy_env *env, struct slice key);

/* True if the rule requires that a DEL comes from a connection that knows the lock's value. */
bool lock_value_matters(const struct rule *rule);
/* True if hasp notes which connections read the rule's locks. */
bool lock_reads_matter(const struct policy_env *env, const struct rule *rule);
/* Records the locks that a passed request reads. */
void lock_note_read(struct context *x, struct decision *d);

/* Decides about a write: PASS if none of its keys has a rule. */
struct decision lock_decide_write(struct context *x);

/* Writes the call of a command to env->rewritten again, as x->opts says (with the script's
 * text, or for another place in the line), and updates `r` (the try of an MLOCK goes on). The
 * configuration that decided to rewrite it must still be in force. *wait_ms: how long it may
 * wait in line. */
void lock_rewrite(struct context *x, struct pending_request *r, int64_t *wait_ms);

/* True if the try `p`, of an MLOCK about which another configuration decided, would be the
 * same now. Then it goes on, and loses neither its locks nor its place. */
bool lock_multi_stays(struct context *x, const struct lock_request *p);

/* True if a client waits for the lock of key `i` here, or may wait at another hasp process,
 * which does not see this request. */
bool lock_is_waited_for(const struct context *x, size_t i);

/* Records that a passed script may release locks of rules that it names. If it names one lock
 * whose owner is its value, hasp reads the lock before and after the script. */
void lock_note_script(struct context *x, struct decision *d);

#endif
