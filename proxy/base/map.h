/* SPDX-License-Identifier: BSD-3-Clause
 *
 * map: an intrusive hash table keyed by bytes. Entries embed a map_node, own their
 * key's bytes, and may share a key (map_get() finds the one put last; go on with
 * map_next()). Seeded, so that a peer cannot choose colliding keys.
 */
#ifndef HASP_BASE_MAP_H
#define HASP_BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct map_node {
	struct map_node *next;
	struct slice key; /* owned by the entry */
	uint64_t hash;
};

struct map {
	struct map_node **buckets; /* NULL while nothing was put */
	size_t nbuckets; /* a power of two */
	size_t n; /* entries */
	uint64_t seed;
};

void map_init(struct map *m, uint64_t seed);
void map_fini(struct map *m); /* does not touch the entries */

/* node->key must be set. */
void map_put(struct map *m, struct map_node *node);
void map_remove(struct map *m, struct map_node *node);
struct map_node *map_get(const struct map *m, struct slice key);
/* The next entry with the same key. */
struct map_node *map_next(const struct map_node *node);

#endif
