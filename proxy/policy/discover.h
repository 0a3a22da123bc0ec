/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discover: `hasp --discover`, and a section [discover], change nothing: what commands did to
 * their keys is told to the discovery (watch/discovery.h) when Redis has answered them, as
 * observe.h does for rules. What a rule or guard in force carries out itself is not.
 *
 * Not seen: commands that block, those without an answer (CLIENT REPLY), and those that are so
 * long that they stream.
 */
#ifndef HASP_POLICY_DISCOVER_H
#define HASP_POLICY_DISCOVER_H

#include "policy/context.h"

/* Commands that tell something of their keys. */
bool discover_concerns(const struct command *c);

/* Those that, on keys where nothing happened that matters, need not be looked at each time:
 * they take no lock and end none, as far as discover_wants() lets them pass. */
bool discover_may_sample(const struct command *c);

/* Such a command, whole, of at least two arguments, is about to be sent: is it to be given to
 * discover()? Else it may be passed. */
bool discover_wants(const struct discoverer *all, const struct command *c,
                    const struct slice *argv, size_t argc);

/* The request, which classifier_find() told of and Redis will not refuse for its length, will
 * be passed as decided: has its reply reported. */
void discover(struct context *x, struct decision *d);

#endif
