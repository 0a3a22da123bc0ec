/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cluster_topology: the topology of a Redis Cluster: its primaries, and which of them serves
 * which slot. hasp asks for the map (CLUSTER SLOTS) when it starts, every minute, and after
 * redirections and lost links. A search asks one node after the other, a tenth of a second
 * apart, until a node gives an answer that counts. If there are many nodes, hasp asks several
 * at once, so that it has asked all of them within failover_wait. The order is:
 *
 *   1. nodes that have redirected a request in spite of the map
 *   2. after a reload, the nodes that the configuration names
 *   3. the nodes of the map, the one that answered last time first
 *   4. the nodes that the configuration names
 *
 * An answer does not count if the node does not know the latest failover (CLUSTER INFO,
 * cluster_current_epoch). hasp stops and frees a node that serves no slot any more.
 */
#ifndef HASP_UPSTREAM_CLUSTER_TOPOLOGY_H
#define HASP_UPSTREAM_CLUSTER_TOPOLOGY_H

#include "upstream/slot_map.h"
#include "upstream/topology.h"

struct cluster_topology_ops {
	/* Called for a new node in the map. */
	void (*on_node)(void *arg, struct node *n);
	/* Called when some slots have moved to other nodes. */
	void (*on_changed)(void *arg);
	/* Called when the node serves no slot any more: the callee must send it nothing new. */
	void (*on_gone)(void *arg, struct node *n);
	/* Called after on_changed(), before the node is stopped and freed: the callee must drop
	 * all references to the node. */
	void (*on_stop)(void *arg, struct node *n);
	/* Called when a node has answered question number `question` of
	 * cluster_topology_verify(). `was_down`: a node has reported the cluster as down within
	 * the last second. */
	void (*on_answered)(void *arg, const struct node *n, uint64_t question, bool was_down);
};

/* Makes the topology of a cluster. `links`, `nodes` and `arg`: as for node_new(). */
struct topology *cluster_topology_new(const struct link_env *links,
                                      const struct node_ops *nodes,
                                      const struct cluster_topology_ops *ops, void *arg);

/* Calls links_reap() for all nodes. Call it once per turn of the loop. */
void cluster_topology_reap(struct topology *t);

/* Returns the map of slots to nodes, with the primaries. */
struct slot_map *cluster_topology_map(struct topology *t);

/* Asks for the map soon, because it may be wrong. May be called often. */
void cluster_topology_refresh(struct topology *t);

/* Call this if a node of the map has redirected a request in spite of the map. hasp soon asks
 * the node for its map and the slots that it gives away, again and again until it answers.
 * Returns the number of the next question. May be called often. */
uint64_t cluster_topology_verify(struct topology *t, const struct node *n);

#endif
