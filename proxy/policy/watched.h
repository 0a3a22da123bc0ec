/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watched: reports to the tracker (watch/tracker.h) what passing commands do to their keys,
 * after Redis has answered them. Keys of rules and guards in mode OBSERVE are watched, and all
 * keys by `hasp --discover` or a section [discover]. Nothing changes for the client.
 *
 *   request --passed as it came--> Redis --> reply --> the client
 *       `--> command sample -------------------`--> tracker --> log, reports
 *
 * The order of the answers counts. On one link it is the order in which Redis ran the
 * commands. Between links, and so between workers, it is the order in which the answers arrive
 * here; but hasp counts an answer before the client gets it, unless it is EXEC's or that of a
 * command on a lock that clients wait for. No command waits for another because it is watched.
 *
 * The tracker does not see commands that block, commands without an answer (CLIENT REPLY),
 * commands that an enforced rule rewrites, and which keys a script writes. It sees a command
 * that is so long that hasp streams it only if the command writes one guarded key.
 */
#ifndef HASP_POLICY_WATCHED_H
#define HASP_POLICY_WATCHED_H

#include "policy/context.h"

/* Makes the rules and guards of env->config the observed ones. */
void watched_use_config(struct policy_env *env);
void watched_fini(struct policy_env *env);

/* True for commands that discovery observes. */
bool watched_concerns(const struct command *c);

/* True if discovery needs to see only a sample of the command, on keys where nothing relevant
 * has happened: the command neither takes nor ends a lock, unless watched_wants() is true. */
bool watched_may_sample(const struct command *c);

/* Returns true if watched_request() must see the command `c`, which is whole, has at least two
 * arguments, and is about to be sent. */
bool watched_wants(const struct shared_tracker *all, const struct command *c,
                   const struct slice *argv, size_t argc);

/* Lets the tracker see the reply to the request, which hasp passes as decided in `d`. The
 * command must be is_observed or is_discovered, and Redis must accept its number of arguments.
 * If `is_whole` is false, `x->req` is the beginning of a request. */
void watched_request(struct context *x, struct decision *d, bool is_whole);

#endif
