/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_rules: SETNX, DEL and other commands where a quorum has the locks of a rule: the
 * requests to its servers, and the answers to the client. quorum_exchange.h calls it.
 */
#ifndef HASP_CLIENT_QUORUM_RULES_H
#define HASP_CLIENT_QUORUM_RULES_H

#include "client/client_internal.h"
#include "policy/quorum_rule.h"

/* The operation that answers `current` when it ends; it is not started. c->quorum is there. */
struct quorum_op *quorum_rules_op(struct client *c, const struct quorum_command *q);

#endif
