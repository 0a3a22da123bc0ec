/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/discovery_internal.h"

#include <stdlib.h>

#include "base/fatal.h"

static void discovery_begin(struct discovery *d, double now)
{
	map_init_with(&d->shapes, d->secret);
	map_init_with(&d->keys, d->secret);
	map_init_with(&d->places, d->secret);
	d->covered = (struct shape){ .node = { .key = SLICE_LIT("") } };
	list_init(&d->covered.keys);
	d->used = discovery_cost(sizeof(*d->sampling));
	d->began = now;
	d->round++;
	d->ncounted = 0;
	d->passed_over = 0;
}

struct discovery *discovery_new(const uint8_t secret[SIPHASH_SECRET_SIZE], size_t memory,
                                double now)
{
	struct discovery *d = xcalloc(1, sizeof(*d));

	memcpy(d->secret, secret, sizeof(d->secret));
	d->memory = memory;
	d->sampling = sampling_new(discovery_hash(d, SLICE_LIT("sampling")));
	discovery_begin(d, now);
	return d;
}

struct sampling *discovery_sampling(const struct discovery *d)
{
	return d->sampling;
}

/* --- clients ------------------------------------------------------------------------------ */

struct discovery_client *discovery_client_new(struct discovery *d, uint64_t address)
{
	struct discovery_client *c = xcalloc(1, sizeof(*c));

	c->id = ++d->nclients;
	c->round = d->round - 1;
	c->address = address;
	list_init(&c->holds);
	list_init(&c->reads);
	return c;
}

void discovery_client_count(struct discovery *d, struct discovery_client *c)
{
	if (c->round == d->round)
		return;
	d->ncounted++;
	c->round = d->round;
	c->wrote = NULL;
}

void discovery_client_rename(struct discovery_client *c, uint64_t name)
{
	c->name = name;
}

void discovery_client_free(struct discovery *d, struct discovery_client *c, double now)
{
	c->is_closing = true;
	while (!list_empty(&c->holds))
		discovery_hold_end(d, container_of(c->holds.next, struct held_lock, in_client),
		                   now);
	while (!list_empty(&c->reads))
		discovery_last_read_free(
			d, container_of(c->reads.next, struct last_read, in_client));
	free(c);
}

/* --- the end ------------------------------------------------------------------------------ */

/* What it has. */
static void empty_shape(struct discovery *d, struct shape *s)
{
	while (!list_empty(&s->keys))
		discovery_key_free(d, container_of(s->keys.next, struct key, in_shape));
	free(s->lock);
	free(s->guard);
}

static void discovery_empty(struct discovery *d)
{
	map_gather(&d->shapes);
	for (size_t i = 0; i < d->shapes.nbuckets; i++)
		while (d->shapes.buckets[i]) {
			struct shape *s = container_of(d->shapes.buckets[i], struct shape,
			                               node);
			map_remove(&d->shapes, &s->node);
			empty_shape(d, s);
			free((char *)s->node.key.p);
			free(s);
		}
	empty_shape(d, &d->covered);
	map_fini(&d->shapes);
	map_fini(&d->keys);
	discovery_free_places(d);
}

void discovery_set_memory(struct discovery *d, size_t memory)
{
	d->memory = memory;
}

void discovery_clear(struct discovery *d, double now)
{
	discovery_empty(d);
	sampling_clear(d->sampling);
	discovery_begin(d, now);
}

void discovery_free(struct discovery *d)
{
	discovery_empty(d);
	sampling_free(d->sampling);
	free(d);
}
