/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/map.h"

#include <stdlib.h>

#include "base/fatal.h"

#define BUCKETS_MIN 16

/* Each bit bears on all: else keys that differ in a few places would share a bucket, whatever
 * the seed. */
static inline uint64_t fold(uint64_t h)
{
	h = (h ^ h >> 32) * UINT64_C(0xff51afd7ed558ccd);
	h = (h ^ h >> 29) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 32;
}

/* A word at a time; the last one may begin among the bytes of the one before. */
static uint64_t hash_bytes(uint64_t seed, struct slice s)
{
	uint64_t h = seed ^ (s.n * UINT64_C(0x9e3779b97f4a7c15)), word = 0;
	const char *p = s.p;

	if (s.n < sizeof(word)) {
		if (s.n)
			memcpy(&word, p, s.n);
		return fold(h ^ word);
	}
	for (const char *last = p + s.n - sizeof(word); p < last; p += sizeof(word)) {
		memcpy(&word, p, sizeof(word));
		h = fold(h ^ word);
	}
	memcpy(&word, s.p + s.n - sizeof(word), sizeof(word));
	return fold(h ^ word);
}

void map_init(struct map *m, uint64_t seed)
{
	*m = (struct map){ .seed = seed };
}

void map_fini(struct map *m)
{
	free(m->buckets);
	*m = (struct map){ 0 };
}

static void map_resize(struct map *m, size_t nbuckets)
{
	struct map_node **old = m->buckets, *node, *next;
	size_t nold = m->nbuckets;

	m->buckets = xcalloc(nbuckets, sizeof(struct map_node *));
	m->nbuckets = nbuckets;
	for (size_t i = 0; i < nold; i++) {
		for (node = old[i]; node; node = next) {
			struct map_node **b = &m->buckets[node->hash & (nbuckets - 1)];
			next = node->next;
			node->next = *b;
			*b = node;
		}
	}
	free(old);
}

void map_put(struct map *m, struct map_node *node)
{
	struct map_node **bucket;

	if (m->n >= m->nbuckets)
		map_resize(m, m->nbuckets ? m->nbuckets * 2 : BUCKETS_MIN);
	node->hash = hash_bytes(m->seed, node->key);
	bucket = &m->buckets[node->hash & (m->nbuckets - 1)];
	node->next = *bucket;
	*bucket = node;
	m->n++;
}

void map_remove(struct map *m, struct map_node *node)
{
	struct map_node **at = &m->buckets[node->hash & (m->nbuckets - 1)];

	while (*at != node)
		at = &(*at)->next;
	*at = node->next;
	m->n--;
}

static struct map_node *find_in_bucket(struct map_node *node, uint64_t hash, struct slice key)
{
	while (node && (node->hash != hash || !slice_eq(node->key, key)))
		node = node->next;
	return node;
}

struct map_node *map_get(const struct map *m, struct slice key)
{
	uint64_t hash;

	if (!m->n)
		return NULL;
	hash = hash_bytes(m->seed, key);
	return find_in_bucket(m->buckets[hash & (m->nbuckets - 1)], hash, key);
}

struct map_node *map_next(const struct map_node *node)
{
	return find_in_bucket(node->next, node->hash, node->key);
}
