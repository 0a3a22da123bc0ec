/* SPDX-License-Identifier: BSD-3-Clause
 *
 * observe: rules and guards in mode OBSERVE change nothing: what their commands did is told to
 * the tracker (watch/tracker.h) when Redis has answered them.
 *
 *   request --passed as it came--> Redis --> reply --> the client
 *       `--> observation ----------------------`--> tracker --> log, report
 *
 * The order of the answers is what counts. On one link it is the order in which Redis carried
 * the commands out. Between links, and so between workers, it is as good as the answers' way
 * here; but an answer is counted before its client hears of it, unless it is EXEC's or that of
 * a command on a lock that clients wait for. No command waits for another because it is
 * observed.
 *
 * Not seen: what the scripts of applications write, commands that block, commands without
 * an answer (CLIENT REPLY), and what the command is rewritten for by a rule that is enforced.
 */
#ifndef HASP_POLICY_OBSERVE_H
#define HASP_POLICY_OBSERVE_H

#include "policy/context.h"

/* The rules and guards of env->config are those to be observed from now on. */
void observe_use_config(struct policy_env *env);
void observe_fini(struct policy_env *env);

/* The request, which classifier_find() told of and Redis will not refuse for its length, or the
 * beginning of one, will be passed as decided: has its reply reported to the tracker. */
void observe(struct context *x, struct decision *d);

#endif
