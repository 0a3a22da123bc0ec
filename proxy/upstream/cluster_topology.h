/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cluster_topology: the topology of a Redis Cluster: its primaries, and which of them serves
 * which slot. hasp asks for the map (CLUSTER SLOTS) when it starts, every minute, and whenever
 * something has gone wrong. Such a search asks one node after the other, until one gives an
 * answer that counts: a tenth of a second after a node was asked, hasp asks the next one, too.
 * In a long map hasp asks several at once, so that none is left after failover_wait.
 *
 *   1. nodes that have redirected a request, which the map does not explain
 *   2. after a reload, the nodes that the configuration names
 *   3. the nodes of the map, the one that answered last time first
 *   4. the nodes that the configuration names
 *
 * The answer of a node that has not heard of the latest failover (CLUSTER INFO,
 * cluster_current_epoch) does not count.
 *
 * A node that serves no slot any more is stopped and freed.
 */
#ifndef HASP_UPSTREAM_CLUSTER_TOPOLOGY_H
#define HASP_UPSTREAM_CLUSTER_TOPOLOGY_H

#include "upstream/slot_map.h"
#include "upstream/topology.h"

struct cluster_topology_ops {
	/* Called for a new node in the map. */
	void (*on_node)(void *arg, struct node *n);
	/* Called when other nodes than before serve some slots. */
	void (*on_changed)(void *arg);
	/* Called when the node serves no slot any more: send it nothing new. */
	void (*on_gone)(void *arg, struct node *n);
	/* Called after on_changed(), before the node is stopped and freed: drop all references
	 * to it. */
	void (*on_stop)(void *arg, struct node *n);
	/* Called when the node that cluster_topology_verify() named has answered question
	 * number `question`. `was_down`: a node has reported the cluster as down within the
	 * last second. */
	void (*on_answered)(void *arg, const struct node *n, uint64_t question, bool was_down);
};

/* `links`, `nodes` and `arg`: as for topology_new(); its settings name the cluster's nodes. */
struct topology *cluster_topology_new(const struct link_env *links,
                                      const struct node_ops *nodes,
                                      const struct cluster_topology_ops *ops, void *arg);

/* Returns the map of slots to nodes, with the primaries. */
struct slot_map *cluster_topology_map(struct topology *t);

/* Asks for the map soon, because it may be wrong. May be called often. */
void cluster_topology_refresh(struct topology *t);

/* Call this if the node, one of the map's, has redirected a request and the map does not
 * explain that. hasp asks the node soon, also which slots it gives away, and again until it
 * answers. Returns the number of the next question. May be called often. */
uint64_t cluster_topology_verify(struct topology *t, const struct node *n);

#endif
