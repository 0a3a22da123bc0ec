/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/deadlock/wait_graph.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/list.h"

struct wait_graph {
	pthread_mutex_t mutex; /* protects all fields that are not atomic */
	struct map by_owner; /* nodes of struct graph_place, keyed by owner */
	_Atomic size_t n; /* number of waits */
	_Atomic unsigned generation;
};

struct wait_graph *wait_graph_new(void)
{
	struct wait_graph *g = xcalloc(1, sizeof(*g));

	pthread_mutex_init(&g->mutex, NULL);
	map_init(&g->by_owner);
	return g;
}

void wait_graph_free(struct wait_graph *g)
{
	HASP_ASSERT(g->n == 0);
	map_fini(&g->by_owner);
	pthread_mutex_destroy(&g->mutex);
	free(g);
}

/* --- waits -------------------------------------------------------------------------------- */

static struct graph_wait *graph_wait_new(const struct wait_facts *facts)
{
	size_t nbytes = facts->key.n + facts->shown.n + facts->user.n;
	struct graph_wait *w;
	char *at;

	HASP_ASSERT(facts->nowners >= 1 && facts->nowners <= WAIT_OWNERS_MAX);
	for (size_t i = 0; i < facts->nowners; i++)
		nbytes += facts->owners[i].n;
	w = xcalloc(1, sizeof(*w) + nbytes);
	at = (char *)(w + 1);
	w->facts = *facts;
	w->facts.key = slice_copy_to(&at, facts->key);
	w->facts.shown = slice_copy_to(&at, facts->shown);
	w->facts.user = slice_copy_to(&at, facts->user);
	for (size_t i = 0; i < facts->nowners; i++)
		w->facts.owners[i] = slice_copy_to(&at, facts->owners[i]);
	atomic_init(&w->refs, 1);
	return w;
}

struct graph_wait *graph_wait_hold(struct graph_wait *w)
{
	atomic_fetch_add(&w->refs, 1);
	return w;
}

void graph_wait_release(struct graph_wait *w)
{
	if (atomic_fetch_sub(&w->refs, 1) == 1)
		free(w);
}

struct graph_wait *wait_graph_add(struct wait_graph *g, const struct wait_facts *facts)
{
	struct graph_wait *w = graph_wait_new(facts);

	pthread_mutex_lock(&g->mutex);
	for (size_t i = 0; i < w->facts.nowners; i++) {
		w->places[i].wait = w;
		w->places[i].node.key = w->facts.owners[i];
		map_put(&g->by_owner, &w->places[i].node);
	}
	w->there = true;
	atomic_fetch_add(&g->n, 1);
	pthread_mutex_unlock(&g->mutex);
	return w;
}

/* Sets `moved` in the owner's waits. Returns true if it has any. The mutex is locked. */
static bool mark_moved(struct wait_graph *g, struct slice owner)
{
	struct map_node *node = map_get(&g->by_owner, owner);
	bool any = node != NULL;

	for (size_t n = 0; node && n < WAIT_MOVED_MAX; n++, node = map_next(node))
		atomic_store(&container_of(node, struct graph_place, node)->wait->moved, true);
	return any;
}

/* Removes the wait from the graph. The caller has locked the mutex. */
static void take_out(struct wait_graph *g, struct graph_wait *w)
{
	bool elsewhere = false;

	for (size_t i = 0; i < w->facts.nowners; i++)
		map_remove(&g->by_owner, &w->places[i].node);
	for (size_t i = 0; i < w->facts.nowners; i++)
		elsewhere |= mark_moved(g, w->facts.owners[i]);
	w->there = false;
	atomic_fetch_sub(&g->n, 1);
	if (elsewhere)
		atomic_fetch_add(&g->generation, 1);
}

void wait_graph_remove(struct wait_graph *g, struct graph_wait *w)
{
	pthread_mutex_lock(&g->mutex);
	if (w->there)
		take_out(g, w);
	pthread_mutex_unlock(&g->mutex);
}

/* --- queries ------------------------------------------------------------------------------ */

size_t wait_graph_of(struct wait_graph *g, struct slice owner, struct graph_wait **waits,
                     size_t max)
{
	struct map_node *node;
	size_t n = 0;

	pthread_mutex_lock(&g->mutex);
	for (node = map_get(&g->by_owner, owner); node && n < max; node = map_next(node)) {
		waits[n++] = graph_wait_hold(
			container_of(node, struct graph_place, node)->wait);
	}
	pthread_mutex_unlock(&g->mutex);
	return n;
}

bool wait_graph_has_several(const struct wait_graph *g)
{
	return atomic_load(&g->n) > 1;
}

unsigned wait_graph_generation(const struct wait_graph *g)
{
	return atomic_load(&g->generation);
}

bool wait_graph_break(struct wait_graph *g, struct graph_wait *const *waits, size_t n)
{
	bool all = true;

	pthread_mutex_lock(&g->mutex);
	for (size_t i = 0; i < n; i++)
		all &= waits[i]->there;
	if (all)
		take_out(g, waits[0]);
	pthread_mutex_unlock(&g->mutex);
	return all;
}
