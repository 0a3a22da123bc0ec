/* SPDX-License-Identifier: BSD-3-Clause
 *
 * topology: the Redis servers that a worker is connected to, as nodes, and which of them serves
 * a key.
 *
 * With one address, or sentinels, there is one node. The node moves to another server when the
 * configuration names another address, or the watcher finds another primary (topology_found()).
 * A cluster has several nodes: see cluster_topology.h.
 */
#ifndef HASP_UPSTREAM_TOPOLOGY_H
#define HASP_UPSTREAM_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "upstream/node.h"
#include "upstream/watcher.h"

/* The settings of a topology. The strings must live until the next topology_use() has
 * returned. */
struct topology_settings {
	const char *address; /* address of the only server; unused if `master` is set */
	const char *master; /* the master's name at the sentinels; NULL: no sentinels */
	const char *const *cluster; /* addresses of some nodes of a cluster */
	size_t ncluster; /* number of addresses in `cluster`; 0: no cluster */
	const char *user, *password; /* login of hasp's own connections; NULL: none */
	bool keeps_login; /* open connections stay when the login changes */
	struct node_settings nodes;
};

struct topology;

/* The functions of a topology of several nodes. */
struct topology_ops {
	struct node *(*node)(const struct topology *t, struct slice key);
	struct node *(*redirected)(struct topology *t, struct node *asked, struct slice key,
	                           const char *error, bool *asking);
	void (*use)(struct topology *t, const struct topology_settings *s);
	void (*stop)(struct topology *t);
	void (*free)(struct topology *t);
};

struct topology {
	struct node *only; /* the only node; NULL: there are several, see `ops` */
	struct list nodes; /* the nodes that have a place in the topology */
	const struct topology_ops *ops; /* NULL: there is one node */
	struct topology_settings settings; /* settings that the topology uses now */
};

/* Makes a topology of one node. `links`, `ops` and `arg`: as for node_new(). */
struct topology *topology_new(const struct link_env *links, const struct node_ops *ops,
                              void *arg);
/* Call node_stop() and node_free() for all nodes. */
void topology_stop(struct topology *t);
void topology_free(struct topology *t);

/* Returns true if hasp's own connections must log in again when `s` replaces `old`. */
bool topology_must_log_in(const struct topology_settings *old,
                          const struct topology_settings *s);

/* Applies the first configuration, or a changed one. */
void topology_use(struct topology *t, const struct topology_settings *s);

/* Moves the node to the primary that the watcher has found, unless the settings have
 * changed. */
void topology_found(struct topology *t, const struct found_primary *p);

/* Returns the node that serves `key`; NULL: it is not known (only in a cluster). */
static inline struct node *topology_node(const struct topology *t, struct slice key)
{
	return t->only ? t->only : t->ops->node(t, key);
}

/* Handles a redirection: the node `asked` has answered a call about `key` by `error`, without
 * the dash, for which reply_error_redirects() is true. Returns the node to which the caller
 * must send the call now. Sets *asking to true if the caller must send ASKING first. NULL: the
 * caller must call topology_node() again later. */
static inline struct node *topology_redirected(struct topology *t, struct node *asked,
                                               struct slice key, const char *error,
                                               bool *asking)
{
	return t->only ? NULL : t->ops->redirected(t, asked, key, error, asking);
}

/* Iterates over the nodes: returns the first for NULL, and NULL after the last. */
static inline struct node *topology_next(const struct topology *t, const struct node *n)
{
	return list_entry(n ? n->in_topology.next : t->nodes.next, &t->nodes, struct node,
	                  in_topology);
}

#endif
