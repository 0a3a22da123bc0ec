/* SPDX-License-Identifier: BSD-3-Clause
 *
 * glob_set: a set of many patterns. Once complete, it never changes, so all threads may read
 * it. Each pattern has a number; glob_dfa.h finds the lowest number whose pattern matches a
 * key.
 *
 * The patterns form a tree of their elements (a byte, a class, `?`, `*`), which stores common
 * beginnings once:
 *
 *   lock:*  lock:a  *:b        (root) -- l - o - c - k - : --+-- * [0]
 *                                 |                          `-- a [1]
 *                                 `-- * - : - b [2]
 *
 * Nodes are numbered in the order of a walk from the root: a node, then all nodes below it. A
 * node's star comes before its other children.
 */
#ifndef HASP_BASE_GLOB_SET_H
#define HASP_BASE_GLOB_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define GLOB_SET_NONE INT32_MAX /* the number for no pattern */

enum glob_node_kind { GLOB_NODE_ROOT, GLOB_NODE_BYTE, GLOB_NODE_CLASS, GLOB_NODE_STAR };

struct glob_node {
	enum glob_node_kind kind;
	uint32_t what; /* BYTE: the byte; CLASS: its index in glob_set.classes */
	uint32_t parent; /* parent node; the root is its own parent */
	uint32_t child; /* first child; 0: none */
	uint32_t sibling; /* next sibling; 0: none */
	uint32_t top; /* STAR: the highest node above the star from which all ways lead through
	               * the star */
	int32_t number; /* lowest number of the patterns that end here; GLOB_SET_NONE: none */
	int32_t best; /* lowest `number` of this node and all nodes below it */
};

struct glob_class {
	bool has[256];
};

struct glob_set {
	struct glob_node *nodes; /* all nodes, the root first */
	size_t nnodes;
	struct glob_class *classes; /* the classes in the patterns, each once */
	size_t nclasses;
	int32_t on_empty; /* lowest number whose pattern matches the empty key */
	char *prefix; /* the bytes with which all matching keys begin */
	size_t prefix_len;
	uint8_t kind_of[256]; /* kind of each byte; patterns treat bytes of a kind alike */
	size_t nkinds; /* number of kinds */
	uint8_t example[256]; /* a byte of each kind */
};

struct glob_set *glob_set_new(void);
void glob_set_free(struct glob_set *set); /* NULL is allowed */

/* Adds a pattern with a `number` >= 0. Several patterns may have the same number. */
void glob_set_add(struct glob_set *set, struct slice pattern, int32_t number);

/* Completes the set: no more patterns may be added. */
void glob_set_complete(struct glob_set *set);

/* True if the node's element, which is no star, matches bytes of this kind. */
bool glob_node_takes(const struct glob_set *set, const struct glob_node *node, size_t kind);

#endif
