/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wait_graph: which owners wait for which locks, over all workers of this process. The graph
 * does not contain the owners of the locks: deadlock.c asks Redis for them. Names of owners are
 * opaque bytes. Any thread may use the graph.
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

/* A wait counts for two owners: the one that the client's try names, and the client's own
 * connection, which cannot release its locks until the wait ends. */
#define WAIT_OWNERS_MAX 2
/* How many waits of an owner the graph marks, at most, when another wait of that owner ends. */
#define WAIT_MOVED_MAX 64

struct wait_facts {
	int db;
	char kind; /* kind of the lock: enum lock_kind */
	struct slice key; /* name of the lock's key */
	struct slice shown; /* the locked key, as the client names it */
	struct slice user; /* the client's Redis user; empty: not known */
	struct slice owners[WAIT_OWNERS_MAX];
	size_t nowners;
};

struct graph_wait;

/* A node in wait_graph.by_owner: one of the wait's owners. */
struct graph_place {
	struct map_node node;
	struct graph_wait *wait;
};

/* A wait, freed with its last reference. */
struct graph_wait {
	struct wait_facts facts; /* constant; the bytes of the slices follow the struct */
	_Atomic unsigned refs;
	/* Another wait of one of the owners has ended: that owner may have got a lock that
	 * others wait for. The graph sets the flag, and the watch of this wait clears it. */
	atomic_bool moved;
	/* The graph's mutex protects the fields below. */
	bool there; /* the wait is in the graph */
	struct graph_place places[WAIT_OWNERS_MAX];
};

struct wait_graph;

struct wait_graph *wait_graph_new(void);
void wait_graph_free(struct wait_graph *g); /* `g` must have no waits */

/* Adds a wait. The caller owns the returned reference. */
struct graph_wait *wait_graph_add(struct wait_graph *g, const struct wait_facts *facts);
/* Removes the wait, if it is in the graph. The caller keeps its reference. */
void wait_graph_remove(struct wait_graph *g, struct graph_wait *w);
struct graph_wait *graph_wait_hold(struct graph_wait *w); /* adds a reference */
void graph_wait_release(struct graph_wait *w); /* drops a reference */

/* Writes up to `max` waits of `owner` to `waits`, each with a reference. Returns how many. */
size_t wait_graph_of(struct wait_graph *g, struct slice owner, struct graph_wait **waits,
                     size_t max);

/* True if the graph has more than one wait. */
bool wait_graph_has_several(const struct wait_graph *g);

/* Returns a number that changes when a wait ends and its owner has other waits. Before the
 * change, the graph sets `moved` in those other waits (at most WAIT_MOVED_MAX). */
unsigned wait_graph_generation(const struct wait_graph *g);

/* If all of the n waits are in the graph, removes the first one, which ends the circle that
 * they form. Returns false if one of them is not in the graph. */
bool wait_graph_break(struct wait_graph *g, struct graph_wait *const *waits, size_t n);

#endif
