/* SPDX-License-Identifier: BSD-3-Clause */
#include "discover/discovery_internal.h"

#include <stdlib.h>

#include "base/fatal.h"

struct discovery *discovery_new(const uint8_t secret[SIPHASH_SECRET_SIZE], size_t memory,
                                double now)
{
	struct discovery *d = xcalloc(1, sizeof(*d));

	memcpy(d->secret, secret, sizeof(d->secret));
	d->memory = memory;
	d->began = now;
	map_init(&d->shapes, discovery_hash(d, SLICE_LIT("shapes")));
	map_init(&d->keys, discovery_hash(d, SLICE_LIT("keys")));
	d->sampling = sampling_new(discovery_hash(d, SLICE_LIT("sampling")));
	d->used = sizeof(*d->sampling);
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
	c->address = address;
	list_init(&c->holds);
	list_init(&c->reads);
	return c;
}

void discovery_client_rename(struct discovery_client *c, uint64_t name)
{
	c->name = name;
}

void discovery_client_free(struct discovery *d, struct discovery_client *c, double now)
{
	while (!list_empty(&c->holds))
		discovery_hold_end(d, container_of(c->holds.next, struct held_lock, in_client),
		                   now);
	while (!list_empty(&c->reads))
		discovery_last_read_free(
			d, container_of(c->reads.next, struct last_read, in_client));
	free(c);
}

/* --- the end ------------------------------------------------------------------------------ */

static void free_shape(struct discovery *d, struct shape *s)
{
	while (!list_empty(&s->keys))
		discovery_key_free(d, container_of(s->keys.next, struct key, in_shape));
	free((char *)s->node.key.p);
	free(s->lock);
	free(s->guard);
	free(s);
}

void discovery_free(struct discovery *d)
{
	map_gather(&d->shapes);
	for (size_t i = 0; i < d->shapes.nbuckets; i++)
		while (d->shapes.buckets[i]) {
			struct shape *s = container_of(d->shapes.buckets[i], struct shape,
			                               node);
			map_remove(&d->shapes, &s->node);
			free_shape(d, s);
		}
	map_fini(&d->shapes);
	map_fini(&d->keys);
	sampling_free(d->sampling);
	free(d);
}
