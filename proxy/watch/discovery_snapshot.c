/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_snapshot: what has been found until now, apart from the discovery, which goes on:
 * to merge thousands of patterns takes a while, and clients' commands must not wait for that.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/discovery.h"
#include "watch/tracker_internal.h"

/* Ends the holds that were removed or whose client has left: hasp will see no more of them. */
static void end_holds(struct tracker *d, double now)
{
	struct list *next;

	map_each (&d->keys, node) {
		struct key *k = container_of(node, struct key, node);

		for (struct list *at = k->holds.next; at != &k->holds; at = next) {
			struct held_lock *h = container_of(at, struct held_lock, in_key);

			next = at->next;
			if (h->state != HOLD_HELD)
				tracker_hold_end(d, h, now);
		}
	}
}

static void *copy_of(const void *sums, size_t n)
{
	return sums ? xmemdup(sums, n) : NULL;
}

static void copy_key_pattern(void *arg, struct map_node *node)
{
	const struct key_group *from = container_of(node, struct key_group, node);
	struct discovery_snapshot *snapshot = arg;
	struct key_group *s = &snapshot->key_patterns[snapshot->n++];

	*s = *from;
	list_init(&s->keys);
	s->node.key = slice_of(xmemdup(from->node.key.p, from->node.key.n), from->node.key.n);
	s->lock = copy_of(from->lock, sizeof(*s->lock));
	s->guard = copy_of(from->guard, sizeof(*s->guard));
	if (s->lock)
		tracker_add_open_holds(s->lock, from, snapshot->now);
}

struct discovery_snapshot *discovery_snapshot_new(struct tracker *d, bool so_far, double now)
{
	struct discovery_snapshot *s = xcalloc(1, sizeof(*s));
	uint64_t cursor = 0;

	if (!so_far)
		end_holds(d, now);
	s->now = now;
	s->seconds = now - d->began;
	s->nclients = d->ncounted;
	s->passed_over = d->passed_over;
	s->passed_by = sampling_passed(d->sampling);
	memcpy(s->secret, d->secret, sizeof(s->secret));
	s->key_patterns = xcalloc(d->key_patterns.n + 1, sizeof(*s->key_patterns));
	do {
		cursor = map_scan(&d->key_patterns, cursor, copy_key_pattern, s);
	} while (cursor);
	HASP_ASSERT(s->n == d->key_patterns.n);
	return s;
}

void discovery_snapshot_free(struct discovery_snapshot *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free((char *)s->key_patterns[i].node.key.p);
		free(s->key_patterns[i].lock);
		free(s->key_patterns[i].guard);
	}
	free(s->key_patterns);
	free(s);
}
