/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker_keys: the keys that the tracker follows, their groups, and the limit of memory.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/tracker_internal.h"
#include "watch/key_pattern.h"

uint64_t tracker_hash(const struct tracker *d, struct slice s)
{
	/* 0 stands for no hash. */
	return siphash(d->secret, s) | 1;
}

void tracker_hold_free(struct tracker *d, struct held_lock *h)
{
	list_remove(&h->in_key);
	list_remove(&h->in_client);
	list_remove(&h->in_address);
	list_remove(&h->in_name);
	if (h->client)
		h->client->nholds--;
	client_label_set(&h->label, NULL);
	d->used -= tracker_cost(sizeof(*h));
	free(h);
}

struct last_read *tracker_last_read(const struct key *k, const struct tracker_client *c)
{
	if (k->nreads < c->nreads) { /* Search the shorter list. */
		list_each_back (struct last_read, r, &k->reads, in_key)
			if (r->client == c)
				return r;
		return NULL;
	}
	list_each_back (struct last_read, r, &c->reads, in_client)
		if (r->key == k)
			return r;
	return NULL;
}

void tracker_last_read_free(struct tracker *d, struct last_read *r)
{
	list_remove(&r->in_key);
	list_remove(&r->in_client);
	r->key->nreads--;
	r->client->nreads--;
	d->used -= tracker_cost(sizeof(*r));
	free(r);
}

uint64_t key_window(const struct key *k)
{
	return k->sampled ? sampling_window(k->sampled) : 1;
}

void key_note_write(struct key *k, const struct tracker_client *c, uint64_t value)
{
	k->writes++;
	k->depth++;
	if (k->group->rule)
		client_label_set(&k->last, c->label);
	if (value == 0 || value != k->written)
		k->version++;
	k->written = value;
	k->writer = c->id;
	k->life = 0;
	k->number = NUMBER_UNKNOWN;
}

void tracker_key_free(struct tracker *d, struct key *k)
{
	list_drain (struct held_lock, h, &k->holds, in_key)
		tracker_hold_free(d, h);
	list_drain (struct last_read, r, &k->reads, in_key)
		tracker_last_read_free(d, r);
	map_remove(&d->keys, &k->node);
	list_remove(&k->in_group);
	k->group->nkeys--;
	k->group->nfields -= k->is_field;
	d->used -= tracker_cost(sizeof(*k));
	key_harm_free(d, k->harm);
	client_label_set(&k->last, NULL);
	free(k);
}

static bool is_followed(const struct key_group *s, uint64_t hash)
{
	return (hash >> 1 & ((UINT64_C(1) << s->shift) - 1)) == 0;
}

/* Frees memory: follows only half of the keys of the largest group from now on. Returns false
 * if no group has two keys. */
static bool halve(struct tracker *d)
{
	struct key_group *largest = &d->covered;

	list_each (struct observed_rule, rule, &d->rules, node)
		if (rule->group.nkeys > largest->nkeys)
			largest = &rule->group;
	map_each (&d->key_patterns, node) {
		struct key_group *s = container_of(node, struct key_group, node);
		if (s->nkeys > largest->nkeys)
			largest = s;
	}
	if (largest->nkeys < 2)
		return false;
	largest->shift++;
	list_drain (struct key, k, &largest->keys, in_group)
		if (!is_followed(largest, k->hash))
			tracker_key_free(d, k);
	return true;
}

/* Bytes kept free for holds and reads of known keys, and for malloc()'s overhead in large
 * blocks. */
#define MEMORY_SPARE ((size_t)16 << 10)

/* True if one more key could exceed the memory limit. The map may have to grow for that key. */
static bool is_spent(const struct tracker *d)
{
	size_t grown = d->keys.n >= d->keys.nbuckets
	                       ? 2 * d->keys.nbuckets * sizeof(struct map_node *)
	                       : 0;

	return d->used + map_nbytes(&d->keys) + map_nbytes(&d->key_patterns) +
	               map_nbytes(&d->places) + grown + MEMORY_SPARE >
	       d->memory;
}

/* Makes room for one more key. Returns false if there is not enough memory. */
static bool tracker_make_room(struct tracker *d)
{
	/* Halving may free nothing, if all keys of the group are in the half that stays. */
	while (is_spent(d))
		if (!halve(d))
			return false;
	return true;
}

static struct key_group *key_pattern_of(struct tracker *d, struct slice key)
{
	struct buf pattern = BUF_INIT;
	bool varies = key_pattern(&pattern, key);
	struct map_node *node = map_get(&d->key_patterns, buf_slice(&pattern));
	struct key_group *s;
	bool is_widened = false;

	if (!node && parts_widen(d, &pattern)) {
		varies = is_widened = true;
		node = map_get(&d->key_patterns, buf_slice(&pattern));
	}
	s = node ? container_of(node, struct key_group, node) : NULL;
	if (!s && d->key_patterns.n < TRACKER_SHAPES_MAX) {
		s = xcalloc(1, sizeof(*s));
		s->node.key = slice_dup(buf_slice(&pattern));
		s->varies = varies;
		s->nsample = key.n;
		memcpy(s->sample, key.p, key.n);
		list_init(&s->keys);
		map_put(&d->key_patterns, &s->node);
		parts_count_words(d, s->node.key);
		d->used += tracker_cost(sizeof(*s)) + tracker_cost(buf_len(&pattern));
	}
	if (s)
		s->is_widened |= is_widened;
	buf_release(&pattern);
	return s;
}

static struct key *key_new(const struct tracker_act *a, uint64_t hash)
{
	struct tracker *d = a->tracker;
	struct slice name = a->key;
	struct key_group *s = a->group ? a->group : key_pattern_of(d, name);
	struct key *k;

	if (!s || !is_followed(s, hash))
		return NULL;
	k = xcalloc(1, sizeof(*k));
	k->hash = hash;
	k->group = s;
	k->number = NUMBER_UNKNOWN;
	k->sampled = s->rule ? NULL : sampling_place(d->sampling, name);
	k->node.key = slice_of(&k->hash, sizeof(k->hash));
	list_init(&k->holds);
	list_init(&k->reads);
	list_append(&s->keys, &k->in_group);
	s->many |= !slice_eq(name, slice_of(s->sample, s->nsample));
	s->nkeys++;
	k->is_field = a->field;
	s->nfields += k->is_field;
	map_put(&d->keys, &k->node);
	d->used += tracker_cost(sizeof(*k));
	return k;
}

uint64_t tracker_key_hash(const struct tracker_act *a)
{
	uint64_t group = a->group ? (uint64_t)(uintptr_t)a->group << 16 : 0;

	return tracker_hash(a->tracker, a->key) ^ (uint64_t)a->db << 48 ^ group ^ a->field << 1;
}

struct key *tracker_known_key(const struct tracker_act *a)
{
	uint64_t hash = tracker_key_hash(a);
	struct map_node *node = map_get(&a->tracker->keys, slice_of(&hash, sizeof(hash)));

	a->client->strayed |= hash != a->client->tried;
	return node ? container_of(node, struct key, node) : NULL;
}

/* Counts an act on a key that is not followed. */
static void pass_over(const struct tracker_act *a)
{
	a->tracker->passed_over++;
	if (a->group)
		a->group->passed_over++;
}

struct key *tracker_key(const struct tracker_act *a)
{
	struct tracker *d = a->tracker;
	struct key *k;

	k = a->key.n && a->key.n <= TRACKER_KEY_MAX ? tracker_known_key(a) : NULL;
	if (!k && a->key.n && a->key.n <= TRACKER_KEY_MAX && tracker_make_room(d))
		k = key_new(a, tracker_key_hash(a));
	if (!k)
		pass_over(a);
	return k;
}

void tracker_list_written(struct key *k, struct tracker_client *c, bool fills)
{
	if (c->list.key != k->hash || c->list.window != key_window(k))
		return;
	if (!fills) {
		c->list.emptied = true;
		c->list.stale = c->list.version != k->version;
		return;
	}
	k->group->refilled += c->list.emptied;
	k->group->refilled_stale += c->list.emptied && c->list.stale;
	c->list.key = 0;
}

struct key *tracker_written_key(const struct tracker_act *a)
{
	bool is_read = !a->field || a->client->missed == tracker_key_hash(a);

	return is_read ? tracker_key(a) : tracker_known_key(a);
}

void tracker_used(const struct tracker_act *a, bool writes)
{
	struct key *k = tracker_written_key(a);

	if (k && writes) {
		tracker_list_written(k, a->client, true);
		key_note_write(k, a->client, 0);
		k->number = a->number;
		k->is_written = true;
		if (!list_empty(&k->holds))
			k->group->lock->n[SEEN_WRITTEN]++;
	}
	/* The caller has counted a use of the whole hash. */
	if (!k || k->is_field || k->is_lock || k->is_other || (k->was_taken && !k->is_written))
		return;
	k->is_other = true;
	k->group->nothers++;
}
