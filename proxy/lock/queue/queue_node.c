/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue_node: a worker's subscriber at one node, and its waiters whose tries cannot be sent to
 * that node yet. A worker whose clients wait subscribes to its channel at all nodes: so its
 * messages arrive even after a queue has moved to another node with its slot.
 */
#include "lock/queue/queue_internal.h"

#include <stdlib.h>

#include "base/fatal.h"

/* `node` NULL: makes waiters.nowhere. */
static struct queue_node *queue_node_new(struct waiters *all, struct node *node)
{
	struct queue_node *at = xcalloc(1, sizeof(*at));

	at->all = all;
	at->node = node;
	list_init(&at->unsent);
	list_init(&at->in_all);
	list_append(&all->nodes, &at->in_all);
	return at;
}

struct queue_node *queue_node_find(struct waiters *all, const struct node *node)
{
	list_each (struct queue_node, at, &all->nodes, in_all)
		if (at->node == node)
			return at;
	return NULL;
}

void queue_nodes_init(struct waiters *all)
{
	const struct topology *t = all->topology;

	list_init(&all->nodes);
	for (struct node *n = topology_next(t, NULL); n; n = topology_next(t, n))
		queue_node_add(all, n);
	all->nowhere = queue_node_new(all, NULL);
}

void queue_node_add(struct waiters *all, struct node *node)
{
	struct queue_node *at = queue_node_new(all, node);
	struct subscriber_opts opts = all->hooks.subscriber;

	opts.arg = at;
	node_listen(node, &opts);
	if (all->listening)
		subscriber_open(node->subscriber);
}

static void queue_node_free(struct queue_node *at)
{
	HASP_ASSERT(at->nunconfirmed == 0 && list_empty(&at->unsent));
	timer_stop(at->all->timers, &at->wake);
	list_remove(&at->in_all);
	free(at);
}

void queue_node_remove(struct queue_node *at)
{
	subscriber_free(at->node->subscriber);
	at->node->subscriber = NULL;
	queue_node_free(at);
}

void queue_nodes_fini(struct waiters *all)
{
	list_drain (struct queue_node, at, &all->nodes, in_all)
		queue_node_free(at);
}

struct queue_node *queue_node_of(struct waiters *all, struct slice key)
{
	struct queue_node *at = queue_node_find(all, topology_node(all->topology, key));

	return at ? at : all->nowhere;
}

void queue_nodes_open(struct waiters *all)
{
	if (all->listening)
		return;
	all->listening = true;
	list_each (struct queue_node, at, &all->nodes, in_all) {
		if (at->node)
			subscriber_open(at->node->subscriber);
	}
}

bool queue_node_is_up(const struct queue_node *at)
{
	return at->node && subscriber_is_up(at->node->subscriber);
}

const char *queue_node_refusal(const struct queue_node *at)
{
	return at->node ? subscriber_refusal(at->node->subscriber) : NULL;
}

bool queue_node_is_ready(const struct queue_node *at)
{
	return queue_node_is_up(at) && at->nunconfirmed == 0;
}

void queue_node_confirmed(struct queue_node *at)
{
	HASP_ASSERT(at->nunconfirmed > 0);
	/* Send the unsent tries later: the caller may not be ready for callbacks now. */
	if (--at->nunconfirmed == 0 && !list_empty(&at->unsent))
		timer_start(at->all->timers, &at->wake, at->all->hooks.on_all_confirmed,
		            timers_now(at->all->timers), 0);
}
