/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slot_map: which node of a cluster serves which slot, according to CLUSTER SLOTS and to
 * redirections of single slots. A node is in the map from the first answer that names it, until
 * an answer does not name it and it has no slot any more. A slot that an answer leaves out
 * stays with its node. A redirection adds no node, because scripts can forge redirections. The
 * map makes no connections: its owner makes the nodes. Source:
 * https://redis.io/commands/cluster-slots, https://redis.io/commands/cluster-nodes
 */
#ifndef HASP_UPSTREAM_SLOT_MAP_H
#define HASP_UPSTREAM_SLOT_MAP_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "upstream/slot.h"

struct node;

/* The address of a primary, and the node that the owner made for it. */
struct slot_map_node {
	char *address; /* host:port, or [host]:port */
	struct node *node;
	bool named; /* the reply that is being read names the node */
	bool importing; /* another node has reported that this node gets a slot: keep it in the
	                 * map until slot_map_forget_migrating(), or until it is away */

	/* Only the owner of the map, cluster_topology.c, uses the following: */
	bool unverified; /* hasp must ask the node whether it wrote a redirection */
	uint64_t asked; /* number of the last question to verify a redirection; 0: none */
	unsigned naway; /* looks in a row at which hasp was not connected to the node */
};

struct slot_map_ops {
	/* Called before a node joins the map. Returns a struct node for it. */
	struct node *(*on_node)(void *arg, const char *address);
	/* Called when a node serves no slot any more, and has left the map. */
	void (*on_gone)(void *arg, struct node *n);
};

struct slot_map {
	const struct slot_map_ops *ops;
	void *arg;
	uint32_t version; /* changes with every change of a slot, and with every new node */
	struct slot_map_node *nodes;
	size_t nnodes;
	struct node *slots[SLOTS]; /* NULL: hasp does not know the slot's node */
	size_t nmigrating; /* number of slots in `migrating` */
	uint8_t migrating[SLOTS / 8]; /* a bit for each slot: see slot_map_is_migrating() */
};

void slot_map_init(struct slot_map *m, const struct slot_map_ops *ops, void *arg);
/* Frees the map without calling on_gone(). */
void slot_map_fini(struct slot_map *m);

/* Returns the slot's node; NULL: it is not known. */
static inline struct node *slot_map_node(const struct slot_map *m, unsigned slot)
{
	return m->slots[slot];
}

/* True if a node has reported that the slot's keys migrate: then the node may refuse a request
 * for several of these keys, and execute a later request. */
static inline bool slot_map_is_migrating(const struct slot_map *m, unsigned slot)
{
	return m->nmigrating && (m->migrating[slot / 8] >> slot % 8 & 1);
}
/* Records that the slot's keys migrate, until the slot has another node. */
void slot_map_note_migrating(struct slot_map *m, unsigned slot);
/* Forgets all recorded migrations, because they may have been cancelled. */
void slot_map_forget_migrating(struct slot_map *m);

/* Return the map's entry for the node, or for the node at `address`, valid until a node joins
 * or leaves the map; NULL: the map does not have the node. */
struct slot_map_node *slot_map_find(const struct slot_map *m, const struct node *n);
struct slot_map_node *slot_map_find_address(const struct slot_map *m, const char *address);
/* Returns the node's address; NULL: the map does not have the node. */
const char *slot_map_address(const struct slot_map *m, const struct node *n);

/* Returns the node at `address` (host:port), and adds it if necessary; NULL: invalid
 * address. */
struct node *slot_map_get(struct slot_map *m, struct slice address);
/* Returns the node of the map that a redirection names. `error`: `MOVED SLOT ADDRESS` or `ASK
 * SLOT ADDRESS`. If ADDRESS has no host, the node is at the host of `asked`, the node that
 * answered. If the host is `?`, because the node does not know the host name, it is the only
 * node with that port. NULL: the map does not have that node. */
struct node *slot_map_named(const struct slot_map *m, const struct node *asked,
                            struct slice error);
/* Records that `n` serves the slot. */
void slot_map_move(struct slot_map *m, unsigned slot, struct node *n);

/* Updates the map by a reply to CLUSTER SLOTS. `asked`: the host that answered, for nodes whose
 * address the reply leaves out. Returns 0; -1, without a change of the map, if the reply has no
 * valid range, names a slot twice, or has more primaries than a cluster can have. */
int slot_map_read(struct slot_map *m, const redisReply *slots, const char *asked)
	__attribute__((warn_unused_result));

/* Reads a node's reply to CLUSTER NODES; call slot_map_read() first. Records as migrating the
 * slots that this node gives away or gets. Adds the nodes that get slots from this node.
 * `asked`: as for slot_map_read(). */
void slot_map_read_migrating(struct slot_map *m, const char *nodes, const char *asked);

/* A node that serves slots. hasp addresses a request for all nodes to one slot of each. If a
 * replica has taken a node's place, the request reaches the replica. */
struct primary {
	const struct node *node;
	uint16_t slot; /* at first the node's lowest slot, see primaries_update() */
};

/* The primaries of a map. If all is zero, it is not filled yet. */
struct primaries {
	struct primary *v; /* sorted by `slot` */
	size_t n;
	uint32_t version; /* the map's version at the last primaries_update() */
};

/* Fills `p` again if the map has changed. A primary keeps its slot when it gets lower ones:
 * SCAN goes through the primaries by their slots, and would miss a primary that moved backward.
 * A primary that loses its slot gets its next higher one, if it has any. */
void primaries_update(struct primaries *p, const struct slot_map *m);
/* Returns the first primary whose slot is above `slot`; NULL: there is none. */
const struct primary *primaries_after(const struct primaries *p, uint16_t slot);
void primaries_fini(struct primaries *p);

#endif
