/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cluster_topology: the topology of a Redis Cluster: its primaries, and which of them serves
 * which slot. The map is asked for (CLUSTER SLOTS) when hasp starts, every minute, and whenever
 * somebody has reason to doubt it: of the nodes that are known, then of those that the
 * configuration names, the next one when one does not answer, or has not heard of a failover
 * of which another one told (CLUSTER INFO, cluster_current_epoch).
 *
 * A node that no slot is served by any more stays in memory, for it may come back.
 */
#ifndef HASP_UPSTREAM_CLUSTER_TOPOLOGY_H
#define HASP_UPSTREAM_CLUSTER_TOPOLOGY_H

#include "upstream/slot_map.h"
#include "upstream/topology.h"

struct cluster_topology_ops {
	/* A node is there that never was before. */
	void (*on_node)(void *arg, struct node *n);
	/* Slots are served by other nodes than before. */
	void (*on_changed)(void *arg);
	/* The node serves no slot any more. */
	void (*on_gone)(void *arg, struct node *n);
};

/* `links`, `nodes` and `arg` as for topology_new(); its settings name the cluster's nodes. */
struct topology *cluster_topology_new(const struct link_env *links,
                                      const struct node_ops *nodes,
                                      const struct cluster_topology_ops *ops, void *arg);

/* Which node serves which slot, and the primaries. */
struct slot_map *cluster_topology_map(struct topology *t);

/* The map may be wrong: it is asked for soon. May be called often. */
void cluster_topology_refresh(struct topology *t);

#endif
