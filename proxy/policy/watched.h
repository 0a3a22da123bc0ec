/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watched: reports to the tracker (watch/tracker.h) what passing commands do to their keys,
 * after Redis has answered them. Keys of rules and guards in mode OBSERVE are watched, and all
 * keys by `hasp --discover` or a section [discover]. Nothing changes for the client.
 *
 *   request --passed as it came--> Redis --> reply --> the client
 *       `--> sighting -------------------------`--> tracker --> log, reports
 *
 * The order of the answers is what counts. On one link it is the order in which Redis carried
 * the commands out. Between links, and so between workers, it is as good as the answers' way
 * here; but an answer is counted before its client hears of it, unless it is EXEC's or that of
 * a command on a lock that clients wait for. No command waits for another because it is
 * watched.
 *
 * Not seen: commands that block, commands without an answer (CLIENT REPLY), what the command is
 * rewritten for by a rule that is enforced, and which keys a script writes. Of commands that
 * are so long that they stream, only writes of one guarded key are seen.
 */
#ifndef HASP_POLICY_WATCHED_H
#define HASP_POLICY_WATCHED_H

#include "policy/context.h"

/* The rules and guards of env->config are those to be observed from now on. */
void watched_use_config(struct policy_env *env);
void watched_fini(struct policy_env *env);

/* Commands that tell discovery something of their keys. */
bool watched_concerns(const struct command *c);

/* Those that, on keys where nothing happened that matters, need not be looked at each time:
 * they take no lock and end none, as far as watched_wants() lets them pass. */
bool watched_may_sample(const struct command *c);

/* Such a command, whole, of at least two arguments, is about to be sent. Returns true if
 * watch_request() has to see it. */
bool watched_wants(const struct shared_tracker *all, const struct command *c,
                   const struct slice *argv, size_t argc);

/* The request, which classifier_find() told of and Redis will not refuse for its length, will
 * be passed as decided: has its reply told to the tracker. `is_whole`: else `x->req` is the
 * beginning of one. */
void watched_request(struct context *x, struct decision *d, bool is_whole);

#endif
