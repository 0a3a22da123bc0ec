/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map: an intrusive hash table keyed by bytes. Entries embed a map_node and own their key's
 * bytes. Several entries may have the same key: map_get() finds the one that was put last,
 * map_next() the others. The hash is SipHash, so that a peer cannot choose colliding keys.
 *
 * A map that has many entries grows a few of its buckets at a time, as Redis' dict does: no
 * single map_put() takes long.
 */
#ifndef HASP_BASE_MAP_H
#define HASP_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/siphash.h"
#include "base/slice.h"

struct map_node {
	struct map_node *next;
	struct slice key; /* the entry owns the key's bytes */
	uint64_t hash;
};

struct map {
	struct map_node **buckets; /* NULL until the first put */
	size_t nbuckets; /* number of buckets, a power of two */
	size_t n; /* number of entries */
	uint8_t secret[SIPHASH_SECRET_SIZE];
	struct map_node **old; /* the smaller table, from which entries still move to `buckets`;
	                        * NULL: all entries have moved */
	size_t moved; /* number of buckets in `old` that are empty */
};

/* Initializes the map with a random secret. */
void map_init(struct map *m);
/* Initializes the map with this secret, which decides the order of the entries. */
void map_init_with(struct map *m, const uint8_t secret[SIPHASH_SECRET_SIZE]);
void map_fini(struct map *m); /* frees the buckets, but not the entries */

/* Return the first entry, and the entry after `node`, in no useful order; NULL: none. */
struct map_node *map_first(struct map *m);
struct map_node *map_after(const struct map *m, const struct map_node *node);
/* Goes through all entries. The body must keep `node`, and put none. */
#define map_each(m, node)                                                                      \
	for (struct map_node *node = map_first(m); node; node = map_after(m, node))
/* As map_each(), but the body may remove or free `node`; it must keep the others. */
#define map_drain(m, node)                                                                     \
	for (struct map_node *node = map_first(m), *node##_next;                               \
	     node && (node##_next = map_after(m, node), true); node = node##_next)

/* Returns the memory of the buckets, in bytes. */
static inline size_t map_nbytes(const struct map *m)
{
	return (m->nbuckets + (m->old ? m->nbuckets / 2 : 0)) * sizeof(struct map_node *);
}

/* Adds the node, whose key must be set. */
void map_put(struct map *m, struct map_node *node);
/* As map_put() and map_get(), for a key whose map_hash() is known. */
void map_put_hashed(struct map *m, struct map_node *node, uint64_t hash);
struct map_node *map_get_hashed(const struct map *m, struct slice key, uint64_t hash);
uint64_t map_hash(const struct map *m, struct slice key);
/* Removes the node, which must be in the map. */
void map_remove(struct map *m, struct map_node *node);
/* Returns the last node put with this key; NULL: there is none. */
struct map_node *map_get(const struct map *m, struct slice key);
/* Returns the next node with the same key; NULL: there is none. */
struct map_node *map_next(const struct map_node *node);

/* Goes through the map a few entries at a time; the map may change between calls. Each call
 * passes some entries to `fn`, which must not change the map. Returns the cursor for the next
 * call; 0: all entries were passed. The first cursor is 0. Each entry that exists from the
 * first call to the last is visited once. */
typedef void map_scan_fn(void *arg, struct map_node *node);
uint64_t map_scan(const struct map *m, uint64_t cursor, map_scan_fn *fn, void *arg);

#endif
