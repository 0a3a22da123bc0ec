/* SPDX-License-Identifier: BSD-3-Clause
 *
 * glob_set: many patterns at once, as data that never changes once it is complete, so that all
 * threads may read it. Each pattern has a number; glob_dfa.h finds the lowest number whose
 * pattern matches a key.
 *
 * The patterns form a tree of their elements (a byte, a class, `?`, `*`), which stores common
 * beginnings once:
 *
 *   lock:*  lock:a  *:b        (root) -- l - o - c - k - : --+-- * [0]
 *                                 |                          `-- a [1]
 *                                 `-- * - : - b [2]
 *
 * Nodes are numbered as a walk from the root meets them: a node, then all nodes below it, the
 * star first.
 */
#ifndef HASP_BASE_GLOB_SET_H
#define HASP_BASE_GLOB_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define GLOB_SET_NONE INT32_MAX /* no pattern */

enum glob_node_kind { GLOB_NODE_ROOT, GLOB_NODE_BYTE, GLOB_NODE_CLASS, GLOB_NODE_STAR };

struct glob_node {
	enum glob_node_kind kind;
	uint32_t what; /* BYTE: it; CLASS: its index in glob_set.classes */
	uint32_t parent; /* the root's is itself */
	uint32_t child; /* the first; 0: none */
	uint32_t sibling; /* the next; 0: none */
	uint32_t top; /* STAR: the highest node above it from which all ways lead through it */
	int32_t number; /* of a pattern that ends here, the lowest; GLOB_SET_NONE: none does */
	int32_t best; /* the lowest number here and below */
};

struct glob_class {
	bool has[256];
};

struct glob_set {
	struct glob_node *nodes; /* the root first */
	size_t nnodes;
	struct glob_class *classes; /* no two the same */
	size_t nclasses;
	int32_t on_empty; /* the number for the empty key */
	char *prefix; /* what all keys that match begin with */
	size_t prefix_len;
	/* Bytes that no pattern tells apart have the same kind, < nkinds. */
	uint8_t kind_of[256];
	size_t nkinds;
	uint8_t example[256]; /* a byte of each kind */
};

struct glob_set *glob_set_new(void);
void glob_set_free(struct glob_set *set); /* NULL is allowed */

/* `number` >= 0 stands for `pattern`; several patterns may have the same one. */
void glob_set_add(struct glob_set *set, struct slice pattern, int32_t number);

/* No more patterns will be added. */
void glob_set_complete(struct glob_set *set);

/* Does the element of the node, no star, match a byte of this kind? */
bool glob_node_takes(const struct glob_set *set, const struct glob_node *node, size_t kind);

#endif
