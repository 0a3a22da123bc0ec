/* SPDX-License-Identifier: BSD-3-Clause
 *
 * plan: decides which nodes of a cluster a request is for, and how to merge the replies of
 * several nodes. The plan follows from the request alone, and does not know which node serves a
 * slot. Transactions and subscriptions also depend on earlier requests: see block.h.
 */
#ifndef HASP_CLUSTER_PLAN_H
#define HASP_CLUSTER_PLAN_H

#include <stdint.h>

#include "cluster/merge.h"
#include "commands/command.h"
#include "resp/request.h"

enum plan_kind {
	PLAN_HOME, /* the client's home node: the request names no key */
	PLAN_SLOT, /* the node that serves `slot` */
	PLAN_CROSSSLOT, /* goes to no node: its keys are in several slots (plan_crossslot) */
	PLAN_SPLIT, /* one part for each slot, with the keys of the slot: merge.h */
	PLAN_MALFORMED, /* as PLAN_SLOT: an MSET without its last value, which Redis refuses */
	PLAN_EACH, /* all primaries */
	PLAN_SCAN, /* the primary that the request's cursor names: scan_cursor.h */
	PLAN_DISABLED, /* goes to no node: the command manages the cluster (plan_disabled) */
};

struct plan {
	enum plan_kind kind;
	enum merge_kind merge; /* (PLAN_SPLIT, PLAN_EACH) how to merge the replies */
	uint16_t slot; /* (PLAN_SLOT, PLAN_MALFORMED) the slot of the keys */
	uint8_t step; /* (PLAN_SPLIT) number of arguments for each key, the key included */
	bool several; /* (PLAN_SLOT) the request names more than one key */
};

/* Plans a request of at least one argument. `c`: the facts about the command; NULL: not
 * known. */
struct plan plan_request(const struct command *c, const struct resp_view *req);

/* Redis' errors, with their line ends. */
extern const struct slice plan_crossslot; /* the keys are in several slots */
extern const struct slice plan_disabled; /* the server is not part of a cluster */

#endif
