/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wait_graph: which owners of this process wait for which locks, over all workers. The graph
 * does not have the owners of the locks: deadlock.c asks Redis for them. The bytes that name an
 * owner mean nothing here. Any thread may use the graph.
 *
 *   owner --waits (here)--> lock --is held by (Redis)--> owner --waits--> ...
 */
#ifndef HASP_LOCK_DEADLOCK_WAIT_GRAPH_H
#define HASP_LOCK_DEADLOCK_WAIT_GRAPH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/map.h"
#include "base/slice.h"

/* A client waits as the owner that its try names, and as its own connection, which cannot act
 * until the wait ends. */
#define WAIT_OWNERS_MAX 2
/* How many waits of an owner the graph marks when another wait of that owner ends. */
#define WAIT_MOVED_MAX 64

/* The facts about a wait. */
struct wait_facts {
	int db;
	char kind; /* enum lock_kind */
	struct slice key; /* name of the lock's key */
	struct slice shown; /* the lock, as the client names it */
	struct slice user; /* the client's Redis user; empty: not known */
	struct slice owners[WAIT_OWNERS_MAX];
	size_t nowners;
};

struct graph_wait;

/* The place of a wait among the waits of one of its owners. */
struct graph_place {
	struct map_node node;
	struct graph_wait *wait;
};

/* A wait. Only the fields that belong to the graph change. Freed with its last reference. */
struct graph_wait {
	struct wait_facts facts; /* point to the bytes after the struct */
	_Atomic unsigned refs;
	/* Another wait of one of its owners has ended: that owner may have got a lock that
	 * others wait for. The graph sets the flag, and the wait's watch clears it. */
	atomic_bool moved;
	/* The fields below belong to the graph, under its mutex. */
	bool there;
	struct graph_place places[WAIT_OWNERS_MAX];
};

struct wait_graph;

struct wait_graph *wait_graph_new(void);
void wait_graph_free(struct wait_graph *g); /* must have no waits */

/* Adds a wait. The caller owns the returned reference. */
struct graph_wait *wait_graph_add(struct wait_graph *g, const struct wait_facts *facts);
/* Removes the wait; harmless if it has left before. The caller keeps its reference. */
void wait_graph_remove(struct wait_graph *g, struct graph_wait *w);
struct graph_wait *graph_wait_hold(struct graph_wait *w); /* one more reference */
void graph_wait_release(struct graph_wait *w); /* a reference ends */

/* Writes the waits of that owner, at most `max` of them, each with a reference, and returns how
 * many. */
size_t wait_graph_of(struct wait_graph *g, struct slice owner, struct graph_wait **waits,
                     size_t max);

/* True if the graph has several waits. */
bool wait_graph_has_several(const struct wait_graph *g);

/* Returns a number that changes when a wait of an owner with other waits has ended. By then the
 * graph has marked those (at most WAIT_MOVED_MAX) as moved. */
unsigned wait_graph_generation(const struct wait_graph *g);

/* If all of the n waits are in the graph, removes the first one: the others are not in that
 * circle any more. False: one of them is not in the graph. */
bool wait_graph_break(struct wait_graph *g, struct graph_wait *const *waits, size_t n);

#endif
