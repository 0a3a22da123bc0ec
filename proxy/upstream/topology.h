/* SPDX-License-Identifier: BSD-3-Clause
 *
 * topology: which servers hasp speaks to, and which of them serves a key. A worker has one; its
 * nodes live on the worker's loop.
 *
 * With one address there is one node, which becomes another server when the configuration names
 * another address.
 */
#ifndef HASP_UPSTREAM_TOPOLOGY_H
#define HASP_UPSTREAM_TOPOLOGY_H

#include <stdint.h>

#include "base/slice.h"
#include "upstream/node.h"

/* What the configuration says. The strings live until the next topology_use() has returned. */
struct topology_settings {
	const char *address;
	const char *user, *password; /* of hasp's own connections; NULL: none */
	struct node_settings nodes;
};

struct topology {
	struct node *only;
	struct topology_settings settings; /* in force */
};

/* `links` and `ops`: what all nodes share. */
struct topology *topology_new(const struct link_env *links, const struct node_ops *ops,
                              void *arg);
/* node_stop() and node_free() of all nodes. */
void topology_stop(struct topology *t);
void topology_free(struct topology *t);
/* links_reap() of all nodes: once per turn of the loop. */
void topology_reap(struct topology *t);

/* The configuration has changed, or is there for the first time. */
void topology_use(struct topology *t, const struct topology_settings *s);

/* The node that serves `key`. */
static inline struct node *topology_node(const struct topology *t, struct slice key)
{
	(void)key;
	return t->only;
}

/* The nodes, one after the other: the first for NULL; NULL after the last. */
static inline struct node *topology_next(const struct topology *t, const struct node *n)
{
	return n ? NULL : t->only;
}

#endif
