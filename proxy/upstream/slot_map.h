/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slot_map: which node of a cluster serves which slot, as CLUSTER SLOTS tells it, and as single
 * slots are learnt from redirections. Nodes appear when a node's answer names them, and are
 * gone when an answer does not name them and no slot is theirs any more. A slot that the answer
 * leaves out stays with its node. A redirection adds no node: scripts can forge it. Knows no
 * connection: the owner makes the nodes. Source:
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

/* The address of a primary, and what the owner made for it. */
struct slot_map_node {
	char *address; /* host:port, or [host]:port */
	struct node *node;
	bool named; /* by the answer that is being read */
	bool importing; /* a node has said that it gives a slot to this one, which may not serve
	                 * any slot yet; until slot_map_forget_migrating() */
};

struct slot_map_ops {
	/* The map names a node for the first time. Returns a struct node for it. */
	struct node *(*on_node)(void *arg, const char *address);
	/* No slot is served by it any more. It is in the map no more. */
	void (*on_gone)(void *arg, struct node *n);
};

struct slot_map {
	const struct slot_map_ops *ops;
	void *arg;
	uint32_t version; /* changes with every change of a slot, and every new node */
	struct slot_map_node *nodes;
	size_t nnodes;
	struct node *slots[SLOTS]; /* NULL: not known who serves it */
	size_t nmigrating; /* slots in `migrating` */
	uint8_t migrating[SLOTS / 8]; /* a bit for each slot: see slot_map_is_migrating() */
};

void slot_map_init(struct slot_map *m, const struct slot_map_ops *ops, void *arg);
/* Frees the map without calling on_gone(). */
void slot_map_fini(struct slot_map *m);

/* NULL: it is not known. */
static inline struct node *slot_map_node(const struct slot_map *m, unsigned slot)
{
	return m->slots[slot];
}

/* True if a node has reported that the slot's keys migrate. Then a request for several of them
 * may be refused although a later one is not. */
static inline bool slot_map_is_migrating(const struct slot_map *m, unsigned slot)
{
	return m->nmigrating && (m->migrating[slot / 8] >> slot % 8 & 1);
}
/* ASK or TRYAGAIN was answered. It counts until the slot is another node's. */
void slot_map_note_migrating(struct slot_map *m, unsigned slot);
/* Migrations may have been given up: what was noted is forgotten. */
void slot_map_forget_migrating(struct slot_map *m);

/* The primary number `n`, modulo their number. NULL: none is known. */
struct node *slot_map_any(const struct slot_map *m, size_t n);
/* Is the node one of the map's? */
bool slot_map_has(const struct slot_map *m, const struct node *n);
/* The node's address, as it was named; NULL: the node is not in the map. */
const char *slot_map_address(const struct slot_map *m, const struct node *n);

/* Returns the node at `address` (host:port), which is added if need be. NULL: no address. */
struct node *slot_map_get(struct slot_map *m, struct slice address);
/* Returns the node of the map that the redirection `error`, `MOVED SLOT ADDRESS` or
 * `ASK SLOT ADDRESS`, names. An address without a host means the host of `asked`, the node that
 * was asked. NULL: it names none of the map's nodes. */
struct node *slot_map_named(const struct slot_map *m, const struct node *asked,
                            struct slice error);
/* A redirection says that `n` serves the slot. */
void slot_map_move(struct slot_map *m, unsigned slot, struct node *n);

/* Takes in an answer to CLUSTER SLOTS. `asked`: the host that was asked, for the nodes whose
 * own address it does not know. Returns 0; -1 when it is no such answer, names no slot or one
 * twice, or more primaries than a cluster can have: the map is as it was. */
int slot_map_read(struct slot_map *m, const redisReply *slots, const char *asked)
	__attribute__((warn_unused_result));

/* Reads a node's answer to CLUSTER NODES, after its answer to CLUSTER SLOTS. From now on,
 * slot_map_is_migrating() is true for the slots that this node is giving away or getting, and
 * the map has the nodes that get slots from it. `asked`: as for slot_map_read(). */
void slot_map_read_migrating(struct slot_map *m, const char *nodes, const char *asked);

/* The nodes that serve slots, by the lowest of these. A request for all of them is
 * sent to the slots, so that it finds the replica that takes a node's place. */
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
