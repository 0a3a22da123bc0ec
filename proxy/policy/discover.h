/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discover: `hasp --discover` changes nothing: what commands did to their keys is told to the
 * discovery (discover/discovery.h) when Redis has answered them, as observe.h does for rules.
 *
 * Not seen: commands that block, those without an answer (CLIENT REPLY), and those that are so
 * long that they stream.
 */
#ifndef HASP_POLICY_DISCOVER_H
#define HASP_POLICY_DISCOVER_H

#include "policy/context.h"

/* Commands that tell something of their keys. */
bool discover_concerns(const struct command *c);

/* The request, which classifier_find() told of and Redis will not refuse for its length, will
 * be passed as decided: has its reply reported. */
void discover(struct context *x, struct decision *d);

#endif
