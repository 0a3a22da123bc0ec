/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cluster: a Redis Cluster as one server. The links of its clients lead to sessions in memory,
 * not to connections. A session sends each request to the node that serves its keys, and
 * returns the replies in the order of the requests.
 *
 *   client --> struct link --> session --> link to node A, B, C (the node's pool's, or its own)
 *              (virtual)
 *
 * Each client has a virtual link of its own, so that no client waits for a slow node of another
 * client. The links to nodes are shared like those to a single server. The session follows
 * redirections, and retries nodes that cannot be reached for up to `failover_wait`, without
 * notice to the client.
 * Source: https://redis.io/docs/reference/cluster-spec/
 */
#ifndef HASP_CLUSTER_CLUSTER_H
#define HASP_CLUSTER_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/timers.h"
#include "commands/command.h"
#include "upstream/node.h"
#include "upstream/slot_map.h"

struct cluster;

struct cluster_opts {
	struct stream_flusher *flusher;
	struct slot_map *map; /* which node serves which slot */
	const struct commands *commands;
	struct timers *timers;
	enum node_health (*health)(const struct node *n); /* node_health(), or a test's own */
	/* Asks for a new map, because the present one may be wrong. May be called often. */
	void (*refresh)(void *arg);
	/* Asks `n`, which has redirected a request in spite of the map, for its own map and for
	 * the slots that it gives away. The callee later calls cluster_node_answered(). Returns
	 * the lowest number that the question may have. */
	uint64_t (*verify)(void *arg, const struct node *n);
	void *arg;
};

struct cluster *cluster_new(const struct cluster_opts *opts);
/* Call this when all virtual links are closed, after cluster_reap(). */
void cluster_free(struct cluster *c);

/* Makes links of `env` virtual: they lead to sessions. */
void cluster_serve(struct cluster *c, struct link_env *env);
/* Makes the front: the node that clients use in place of the cluster's nodes. The front has
 * only a pool of virtual links. `links`: the environment of links, as every node has. */
struct node *cluster_front_new(struct cluster *c, const struct link_env *links);
void cluster_front_stop(struct node *n); /* closes the links of the front's pool */
void cluster_front_free(struct node *n);

/* Sets two limits. A request that no node takes gets an error after `failover_wait_ms`. While
 * hasp keeps `output_limit` bytes or more of a client's replies that came before their turn,
 * hasp takes no more requests of the client. */
void cluster_set_limits(struct cluster *c, int64_t failover_wait_ms, size_t output_limit);

/* Call this when the map has changed: sends waiting requests to their slots' present nodes. */
void cluster_map_changed(struct cluster *c);
/* Call this when the node has answered question number `question`, and the map contains the
 * answer. `was_down`: this answer, or one shortly before, says that the cluster is down. */
void cluster_node_answered(struct cluster *c, const struct node *n, uint64_t question,
                           bool was_down);
/* Call this when the node is no longer a primary of the cluster: sessions send no more requests
 * there. A virtual link with a request in flight at the node ends, because the outcome of that
 * request is not known. */
void cluster_forget_node(struct cluster *c, struct node *n);

/* Makes sessions replace outdated links to nodes (link_set_outdated()) as soon as no request,
 * transaction or watched key is left on them. If such a link has state that ends with its
 * connection, such as a subscription, the client's link ends, too. */
void cluster_renew_links(struct cluster *c);

/* Frees the sessions of links that were closed. Called once in each loop iteration. */
void cluster_reap(struct cluster *c);

#endif
