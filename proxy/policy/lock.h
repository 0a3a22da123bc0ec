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

/* Why a verb may not be carried out whose arguments are well; NULL: it may. `token`: the
 * client's. */
const char *lock_verb_refusal(struct context *x, struct slice token,
                              const struct lock_call *call);

/* Writes a PING to env->rewritten, in place of a verb that hasp answers itself. hasp answers
 * when Redis has: after earlier requests, and never to a client that has yet to log in. */
void lock_write_ping(struct policy_env *env);

/* LOCK.INFO of the key: is it of its guard? Else it is of a lock. */
bool lock_info_is_of_guard(const struct policy_env *env, struct slice key);

/* Under the rule, must a DEL come from a connection that knows the lock's value? */
bool lock_value_matters(const struct rule *rule);
/* True if hasp notes which connections read the rule's locks. */
bool lock_reads_matter(const struct policy_env *env, const struct rule *rule);
/* The request, which reads values, is passed; remembers what it reads of such locks. */
void lock_note_read(struct context *x, struct decision *d);

/* A write: PASS where none of its keys has a rule. */
struct decision lock_decide_write(struct context *x);

/* Writes the call of a command to env->rewritten once more, if the same configuration has
 * decided to rewrite it, as x->opts says (with the script's text, or for another place in the
 * line), and updates `r` (the try of an MLOCK goes on). *wait_ms: how long it may wait in line.
 */
void lock_rewrite(struct context *x, struct pending_request *r, int64_t *wait_ms);

/* Its try, by MLOCK, was decided about by another configuration. Would it be the same one now?
 * Then it goes on, and neither what it has got nor its place is lost. */
bool lock_multi_stays(struct context *x, const struct lock_request *p);

/* Does a client wait for the lock here, or might one of another hasp process, which does not
 * see this request? `rule`: the key's; NULL: none. */
bool lock_is_waited_for(const struct policy_env *env, const struct session *session,
                        const struct rule *rule, struct slice key);

/* A script is sent as it came: it may release locks of rules that it names. If it names one
 * lock whose owner is its value, hasp reads that before and after the script. */
void lock_note_script(struct context *x, struct decision *d);

#endif
