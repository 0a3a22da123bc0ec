/* SPDX-License-Identifier: BSD-3-Clause
 *
 * primaries: the nodes that serve slots, by the lowest of these. A request for all of them is
 * sent to the slots, so that it finds the replica that takes a node's place.
 */
#ifndef HASP_CLUSTER_PRIMARIES_H
#define HASP_CLUSTER_PRIMARIES_H

#include <stddef.h>
#include <stdint.h>

#include "upstream/slot_map.h"

struct primary {
	const struct node *node;
	uint16_t slot; /* the lowest that it serves */
};

/* All zero: of no map. */
struct primaries {
	struct primary *v; /* by rising slot */
	size_t n;
	uint32_t version; /* of the map */
};

/* Brings `p` up to date with the map. */
void primaries_update(struct primaries *p, const struct slot_map *m);
/* The first whose lowest slot is above this one. NULL: there is none. */
const struct primary *primaries_after(const struct primaries *p, uint16_t slot);
void primaries_fini(struct primaries *p);

#endif
