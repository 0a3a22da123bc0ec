/* SPDX-License-Identifier: BSD-3-Clause
 *
 * wait_graph: which owners of this process wait for which locks, over all workers. It does not
 * know who has the locks: that Redis says (deadlock.c). An owner is named by bytes that mean
 * nothing here. Any thread may use it.
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

/* A client waits as the owner that its try names; and it cannot act as itself meanwhile. */
#define WAIT_OWNERS_MAX 2
/* Waits of one owner that are marked when another wait of that owner ends. */
#define WAIT_MOVED_MAX 64

/* What a wait consists of. */
struct wait_facts {
	int db;
	char kind; /* enum lock_kind */
	struct slice key; /* of the lock */
	struct slice shown; /* what the client calls it */
	struct slice user; /* that the client is logged in as; empty: not known */
	struct slice owners[WAIT_OWNERS_MAX];
	size_t nowners;
};

struct graph_wait;

/* Its place among the waits of one of its owners. */
struct graph_place {
	struct map_node node;
	struct graph_wait *wait;
};

/* Nothing of it changes but what is the graph's. Freed with its last reference. */
struct graph_wait {
	struct wait_facts facts; /* point behind it */
	_Atomic unsigned refs;
	/* Another wait of one of its owners has ended: that owner may have got what others wait
	 * for. The graph sets it, and the wait's watch clears it. */
	atomic_bool moved;
	/* The graph's, under its mutex: */
	bool there;
	struct graph_place places[WAIT_OWNERS_MAX];
};

struct wait_graph;

struct wait_graph *wait_graph_new(void);
void wait_graph_free(struct wait_graph *g); /* nobody waits any more */

/* It waits from now on. The reference that is returned is the caller's. */
struct graph_wait *wait_graph_add(struct wait_graph *g, const struct wait_facts *facts);
/* It does not wait any more; harmless if it left before. Its reference stays. */
void wait_graph_remove(struct wait_graph *g, struct graph_wait *w);
struct graph_wait *graph_wait_hold(struct graph_wait *w); /* one more reference */
void graph_wait_release(struct graph_wait *w); /* a reference ends */

/* The waits of that owner, at most `max` of them, each with a reference. */
size_t wait_graph_of(struct wait_graph *g, struct slice owner, struct graph_wait **waits,
                     size_t max);

/* Does anybody wait but for one? */
bool wait_graph_has_several(const struct wait_graph *g);

/* Another number as soon as a wait has ended of an owner that waits elsewhere, too. Its other
 * waits (at most WAIT_MOVED_MAX) are marked as moved by then. */
unsigned wait_graph_generation(const struct wait_graph *g);

/* If all of the n waits are there, the first one leaves: the others are not in that circle any
 * more. False: one of them was not there. */
bool wait_graph_break(struct wait_graph *g, struct graph_wait *const *waits, size_t n);

#endif
