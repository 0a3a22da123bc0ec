/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_keys: the keys that are followed, and their shapes.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/discovery_internal.h"
#include "watch/key_shape.h"

uint64_t discovery_hash(const struct discovery *d, struct slice s)
{
	/* 0 stands for none. */
	return siphash(d->secret, s) | 1;
}

void discovery_hold_free(struct discovery *d, struct held_lock *h)
{
	list_remove(&h->in_key);
	list_remove(&h->in_client);
	if (h->client)
		h->client->nholds--;
	d->used -= discovery_cost(sizeof(*h));
	free(h);
}

struct last_read *discovery_last_read(const struct key *k, const struct discovery_client *c)
{
	const struct list *head = &c->reads;

	for (struct list *at = head->prev; at != head; at = at->prev) {
		struct last_read *r = container_of(at, struct last_read, in_client);
		if (r->key == k)
			return r;
	}
	return NULL;
}

void discovery_last_read_free(struct discovery *d, struct last_read *r)
{
	list_remove(&r->in_key);
	list_remove(&r->in_client);
	r->key->nreads--;
	r->client->nreads--;
	d->used -= discovery_cost(sizeof(*r));
	free(r);
}

void discovery_note_write(struct key *k, const struct discovery_client *c, uint64_t value)
{
	if (value == 0 || value != k->written)
		k->version++;
	k->written = value;
	k->writer = c->id;
	k->life = 0;
}

void discovery_key_free(struct discovery *d, struct key *k)
{
	while (!list_empty(&k->holds))
		discovery_hold_free(d, container_of(k->holds.next, struct held_lock, in_key));
	while (!list_empty(&k->reads))
		discovery_last_read_free(d,
		                         container_of(k->reads.next, struct last_read, in_key));
	map_remove(&d->keys, &k->node);
	list_remove(&k->in_shape);
	k->shape->nkeys--;
	d->used -= discovery_cost(sizeof(*k));
	free(k);
}

static bool is_followed(const struct shape *s, uint64_t hash)
{
	return (hash >> 1 & ((UINT64_C(1) << s->shift) - 1)) == 0;
}

static void find_largest(void *arg, struct map_node *node)
{
	struct shape *s = container_of(node, struct shape, node), **largest = arg;

	if (s->nkeys > (*largest)->nkeys)
		*largest = s;
}

/* Memory is spent: makes room by following half of the keys that are most alike. False: none
 * are alike. */
static bool halve(struct discovery *d)
{
	struct shape *largest = &d->covered;
	struct list *next;
	uint64_t cursor = 0;

	do {
		cursor = map_scan(&d->shapes, cursor, find_largest, &largest);
	} while (cursor);
	if (largest->nkeys < 2)
		return false;
	largest->shift++;
	for (struct list *at = largest->keys.next; at != &largest->keys; at = next) {
		struct key *k = container_of(at, struct key, in_shape);
		next = at->next;
		if (!is_followed(largest, k->hash))
			discovery_key_free(d, k);
	}
	return true;
}

/* What comes to be known of a key that is there already, and what malloc() adds to the largest
 * blocks. */
#define MEMORY_SPARE ((size_t)16 << 10)

/* With the buckets of one key more. */
static bool is_spent(const struct discovery *d)
{
	size_t grown = d->keys.n >= d->keys.nbuckets
	                       ? 2 * d->keys.nbuckets * sizeof(struct map_node *)
	                       : 0;

	return d->used + map_nbytes(&d->keys) + map_nbytes(&d->shapes) +
	               map_nbytes(&d->places) + grown + MEMORY_SPARE >
	       d->memory;
}

/* False: there is no memory for one key more. */
static bool discovery_make_room(struct discovery *d)
{
	/* A half may be of keys that are all in the other one. */
	while (is_spent(d))
		if (!halve(d))
			return false;
	return true;
}

static struct shape *shape_of(struct discovery *d, struct slice key)
{
	struct buf pattern = BUF_INIT;
	bool varies = key_shape(&pattern, key);
	struct map_node *node = map_get(&d->shapes, buf_slice(&pattern));
	struct shape *s;

	if (!node && discovery_widen(d, &pattern)) {
		varies = true;
		node = map_get(&d->shapes, buf_slice(&pattern));
	}
	s = node ? container_of(node, struct shape, node) : NULL;
	if (!s && d->shapes.n < DISCOVERY_SHAPES_MAX) {
		char *bytes = xmalloc(buf_len(&pattern));
		s = xcalloc(1, sizeof(*s));
		memcpy(bytes, buf_head(&pattern), buf_len(&pattern));
		s->node.key = slice_of(bytes, buf_len(&pattern));
		s->varies = varies;
		s->nsample = key.n;
		memcpy(s->sample, key.p, key.n);
		list_init(&s->keys);
		map_put(&d->shapes, &s->node);
		discovery_count_words(d, s->node.key);
		d->used += discovery_cost(sizeof(*s)) + discovery_cost(buf_len(&pattern));
	}
	buf_release(&pattern);
	return s;
}

static struct key *key_new(const struct discovery_act *a, uint64_t hash)
{
	struct discovery *d = a->discovery;
	struct slice name = a->key;
	struct shape *s = a->covered ? &d->covered : shape_of(d, name);
	struct key *k;

	if (!s || !is_followed(s, hash))
		return NULL;
	k = xcalloc(1, sizeof(*k));
	k->hash = hash;
	k->shape = s;
	k->sampled = sampling_place(d->sampling, name);
	k->node.key = slice_of(&k->hash, sizeof(k->hash));
	list_init(&k->holds);
	list_init(&k->reads);
	list_append(&s->keys, &k->in_shape);
	s->many |= !slice_eq(name, slice_of(s->sample, s->nsample));
	s->nkeys++;
	map_put(&d->keys, &k->node);
	d->used += discovery_cost(sizeof(*k));
	return k;
}

uint64_t discovery_key_hash(const struct discovery_act *a)
{
	return discovery_hash(a->discovery, a->key) ^ (uint64_t)a->db << 48 ^
	       (uint64_t)a->covered << 47;
}

struct key *discovery_known_key(const struct discovery_act *a)
{
	uint64_t hash = discovery_key_hash(a);
	struct map_node *node = map_get(&a->discovery->keys, slice_of(&hash, sizeof(hash)));

	return node ? container_of(node, struct key, node) : NULL;
}

struct key *discovery_key(const struct discovery_act *a)
{
	struct discovery *d = a->discovery;
	struct key *k;

	if (a->key.n == 0 || a->key.n > DISCOVERY_KEY_MAX) {
		d->passed_over++;
		return NULL;
	}
	k = discovery_known_key(a);
	if (k)
		return k;
	k = discovery_make_room(d) ? key_new(a, discovery_key_hash(a)) : NULL;
	d->passed_over += !k;
	return k;
}

void discovery_used(const struct discovery_act *a, bool writes)
{
	struct key *k = discovery_key(a);

	if (k && writes)
		discovery_note_write(k, a->client, 0);
	if (k)
		k->is_written |= writes;
	if (!k || k->is_lock || k->is_other || (k->was_taken && !k->is_written))
		return;
	k->is_other = true;
	k->shape->nothers++;
}
