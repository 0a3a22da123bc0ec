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
 * Not seen: commands that block, commands without an answer (CLIENT REPLY), commands that an
 * enforced rule rewrites, and which keys a script writes. A command that is so long that it is
 * streamed is seen only if it writes one guarded key.
 */
#ifndef HASP_POLICY_WATCHED_H
#define HASP_POLICY_WATCHED_H

#include "policy/context.h"

/* Makes the rules and guards of env->config the observed ones. */
void watched_use_config(struct policy_env *env);
void watched_fini(struct policy_env *env);

/* True for commands that show discovery something about their keys. */
bool watched_concerns(const struct command *c);

/* True if a sample of the command is enough on keys where nothing relevant has happened: it
 * takes no lock and ends none, as far as watched_wants() lets it pass. */
bool watched_may_sample(const struct command *c);

/* Returns true if watched_request() must see the command `c`, which is whole, has at least two
 * arguments, and is about to be sent. */
bool watched_wants(const struct shared_tracker *all, const struct command *c,
                   const struct slice *argv, size_t argc);

/* Lets the tracker see the reply to the request, which is passed as decided. classifier_find()
 * must have marked its command, and Redis must not refuse its length. !`is_whole`: `x->req` is
 * the beginning of a request. */
void watched_request(struct context *x, struct decision *d, bool is_whole);

#endif
