/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/map.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/random.h"

#define BUCKETS_MIN 16
/* A map with this many buckets grows step by step: each put moves two of its buckets. */
#define BUCKETS_MANY 1024
#define MOVED_AT_ONCE 2

void map_init_with(struct map *m, const uint8_t secret[SIPHASH_SECRET_SIZE])
{
	*m = (struct map){ 0 };
	memcpy(m->secret, secret, sizeof(m->secret));
}

void map_init(struct map *m)
{
	uint8_t secret[SIPHASH_SECRET_SIZE];

	random_bytes(secret, sizeof(secret));
	map_init_with(m, secret);
}

void map_fini(struct map *m)
{
	free(m->buckets);
	free(m->old);
	*m = (struct map){ 0 };
}

/* --- growing ---------------------------------------------------------------------------- */

/* Returns the bucket for the hash: in `old` if that bucket has not moved yet. Entries of one
 * key move together, so they stay in one bucket, in their order. */
static struct map_node **bucket_of(const struct map *m, uint64_t hash)
{
	size_t old = hash & (m->nbuckets / 2 - 1);

	if (m->old && old >= m->moved)
		return &m->old[old];
	return &m->buckets[hash & (m->nbuckets - 1)];
}

static void move_bucket(struct map *m, size_t i)
{
	size_t half = m->nbuckets / 2;
	struct map_node **ends[] = { &m->buckets[i], &m->buckets[i + half] };

	for (struct map_node *node = m->old[i]; node; node = node->next) {
		bool upper = node->hash & half;
		*ends[upper] = node;
		ends[upper] = &node->next;
	}
	*ends[0] = *ends[1] = NULL;
}

static void move_buckets(struct map *m, size_t most)
{
	size_t nold = m->nbuckets / 2;

	for (; most && m->moved < nold; most--)
		move_bucket(m, m->moved++);
	if (m->moved < nold)
		return;
	free(m->old);
	m->old = NULL;
}

static void map_gather(struct map *m)
{
	if (m->old)
		move_buckets(m, SIZE_MAX);
}

static void map_grow(struct map *m)
{
	bool many = m->nbuckets >= BUCKETS_MANY;

	/* Since the last growth, there was a put for each old bucket, and each put has moved
	 * two buckets. */
	HASP_ASSERT(!m->old);
	m->old = m->buckets;
	m->moved = 0;
	m->nbuckets = m->nbuckets ? m->nbuckets * 2 : BUCKETS_MIN;
	m->buckets = xcalloc(m->nbuckets, sizeof(struct map_node *));
	if (!many)
		map_gather(m);
}

/* --- entries ---------------------------------------------------------------------------- */

uint64_t map_hash(const struct map *m, struct slice key)
{
	return siphash_fast(m->secret, key);
}

void map_put(struct map *m, struct map_node *node)
{
	map_put_hashed(m, node, map_hash(m, node->key));
}

void map_put_hashed(struct map *m, struct map_node *node, uint64_t hash)
{
	struct map_node **bucket;

	if (m->old)
		move_buckets(m, MOVED_AT_ONCE);
	if (m->n >= m->nbuckets)
		map_grow(m);
	node->hash = hash;
	bucket = bucket_of(m, hash);
	node->next = *bucket;
	*bucket = node;
	m->n++;
}

void map_remove(struct map *m, struct map_node *node)
{
	struct map_node **at = bucket_of(m, node->hash);

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
	return m->n ? map_get_hashed(m, key, map_hash(m, key)) : NULL;
}

struct map_node *map_get_hashed(const struct map *m, struct slice key, uint64_t hash)
{
	return m->n ? find_in_bucket(*bucket_of(m, hash), hash, key) : NULL;
}

struct map_node *map_next(const struct map_node *node)
{
	return find_in_bucket(node->next, node->hash, node->key);
}

/* --- all entries ------------------------------------------------------------------------ */

static struct map_node *first_from(const struct map *m, size_t i)
{
	while (i < m->nbuckets && !m->buckets[i])
		i++;
	return i < m->nbuckets ? m->buckets[i] : NULL;
}

struct map_node *map_first(struct map *m)
{
	map_gather(m);
	return first_from(m, 0);
}

struct map_node *map_after(const struct map *m, const struct map_node *node)
{
	return node->next ? node->next : first_from(m, (node->hash & (m->nbuckets - 1)) + 1);
}

/* --- scanning --------------------------------------------------------------------------- */

static void scan_bucket(struct map_node *node, map_scan_fn *fn, void *arg)
{
	for (; node; node = node->next)
		fn(arg, node);
}

static uint64_t reversed(uint64_t v)
{
	uint64_t out = 0;

	for (int bit = 0; bit < 64; bit++)
		out |= (v >> bit & 1) << (63 - bit);
	return out;
}

/* The cursor counts the buckets with its bits in reverse order, as the cursor of Redis' SCAN
 * does: when the table doubles, the buckets that were visited stay visited. */
uint64_t map_scan(const struct map *m, uint64_t cursor, map_scan_fn *fn, void *arg)
{
	size_t n = m->old ? m->nbuckets / 2 : m->nbuckets, i;

	if (!n)
		return 0;
	i = cursor & (n - 1);
	if (m->old && i >= m->moved) {
		scan_bucket(m->old[i], fn, arg);
	} else {
		scan_bucket(m->buckets[i], fn, arg);
		if (m->old)
			scan_bucket(m->buckets[i + n], fn, arg);
	}
	/* All bits above the bucket's number are set, so adding 1 carries into that number. */
	return reversed(reversed(cursor | ~(uint64_t)(n - 1)) + 1);
}
