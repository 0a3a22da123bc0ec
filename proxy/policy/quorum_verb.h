/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_verb: decides about the verbs where a quorum has their locks. Redis gets a PING in
 * their place: so they keep their place among the client's commands, and a client that has yet
 * to log in is refused. Behind its answer the quorum is asked.
 */
#ifndef HASP_POLICY_QUORUM_VERB_H
#define HASP_POLICY_QUORUM_VERB_H

#include "policy/context.h"

/* As lock_decide_verb(). */
struct decision quorum_verb_decide(struct context *x);

/* Reads the request of a PENDING_QUORUM; of the call only `key`, `owner`, `leased`, `lease_ms`
 * and `wait_ms` are used. False: the request is wrong. */
bool quorum_verb_read(struct context *x, struct lock_call *call);

#endif
