/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plan: which nodes of a cluster a request is for, and how the replies of several nodes are
 * merged. The plan follows from the request alone, and does not know which node serves a slot.
 * Transactions and subscriptions also depend on earlier requests: see block.h.
 */
#ifndef HASP_CLUSTER_PLAN_H
#define HASP_CLUSTER_PLAN_H

#include <stdint.h>

#include "cluster/merge.h"
#include "commands/command.h"
#include "resp/view.h"

enum plan_kind {
	PLAN_HOME, /* the client's home node: the request names no key */
	PLAN_SLOT, /* the node that serves `slot` */
	PLAN_CROSSSLOT, /* no node: its keys are in several slots (plan_crossslot) */
	PLAN_SPLIT, /* for each slot the part with its keys: merge.h */
	PLAN_MALFORMED, /* as PLAN_SLOT, in plan_malformed()'s form: Redis refuses it */
	PLAN_EACH, /* all primaries */
	PLAN_SCAN, /* the primary that its cursor names: scan_cursor.h */
	PLAN_DISABLED, /* no node: the command is about the cluster (plan_disabled) */
};

struct plan {
	enum plan_kind kind;
	enum merge_kind merge; /* of PLAN_SPLIT and PLAN_EACH */
	uint16_t slot; /* of PLAN_SLOT and PLAN_MALFORMED */
	uint8_t step; /* (PLAN_SPLIT) arguments for each key, the key first */
	bool several; /* (PLAN_SLOT) the request names more than one key */
};

/* `c`: the facts about the command; NULL: not known. `req` has an argument. */
struct plan plan_request(const struct command *c, const struct resp_view *req);

/* Writes the same fault with one key for an MSET that lacks its last value and has keys in
 * several slots, so that Redis words the error. `argv` has space for four. */
void plan_malformed(const struct resp_view *req, struct slice *argv);

/* Redis' errors, with their line ends. */
extern const struct slice plan_crossslot; /* the keys are in several slots */
extern const struct slice plan_disabled; /* the server is no cluster */

#endif
