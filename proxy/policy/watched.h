/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watched: reports to the tracker (watch/tracker.h) what passing commands do to their keys,
 * after Redis has answered them. hasp watches the keys of rules and guards in mode OBSERVE;
 * with `hasp --discover` or a section [discover], it watches all keys. Nothing changes for the
 * client.
 *
 *   request --passed as it came--> Redis --> reply --> the client
 *       `--> command sample -------------------`--> tracker --> log, reports
 *
 * The tracker sees commands in the order of their answers. On one link, Redis ran the commands
 * in this order; between links, hasp sees only when the answers arrive. hasp reports an answer
 * before the client gets it, except EXEC's, and answers to commands on locks that clients wait
 * for. No command waits for another because it is watched.
 *
 * The tracker does not see commands that block, commands without an answer (CLIENT REPLY),
 * commands that an enforced rule rewrites, nor which keys a script writes. If a command is so
 * long that hasp streams it, the tracker sees the command only if it writes one guarded key.
 */
#ifndef HASP_POLICY_WATCHED_H
#define HASP_POLICY_WATCHED_H

#include "policy/context.h"

/* True for commands that discovery observes. */
bool watched_concerns(const struct command *c);

/* True if discovery needs to see the command only when watched_wants() is true. If it is false,
 * the command takes and ends no lock, and nothing relevant has happened on its key. */
bool watched_may_sample(const struct command *c);

/* Returns true if watched_request() must see the command `c`, which is whole, has at least two
 * arguments, and is about to be sent. */
bool watched_wants(const struct shared_tracker *all, const struct command *c,
                   const struct slice *argv, size_t argc);

/* Lets the tracker see the reply to the request, which hasp passes as `d` says. is_observed or
 * is_discovered must be true, and Redis must accept the number of arguments. If `is_whole` is
 * false, `x->req` is the beginning of a request. */
void watched_request(struct context *x, struct decision *d, bool is_whole);

#endif
