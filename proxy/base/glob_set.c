/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/glob_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/glob.h"

struct glob_set *glob_set_new(void)
{
	struct glob_set *set = xcalloc(1, sizeof(*set));

	set->nodes = xcalloc(1, sizeof(*set->nodes));
	set->nodes[0] = (struct glob_node){ .number = GLOB_SET_NONE, .best = GLOB_SET_NONE };
	set->nnodes = 1;
	set->on_empty = GLOB_SET_NONE;
	set->nkinds = 1;
	return set;
}

void glob_set_free(struct glob_set *set)
{
	if (!set)
		return;
	free(set->nodes);
	free(set->classes);
	free(set->prefix);
	free(set);
}

/* --- the tree --------------------------------------------------------------------------- */

static int32_t lower(int32_t a, int32_t b)
{
	return a < b ? a : b;
}

/* Returns the index of the class. Elements that match the same bytes share a class. */
static uint32_t class_index(struct glob_set *set, const struct glob_class *class)
{
	for (size_t i = 0; i < set->nclasses; i++)
		if (memcmp(&set->classes[i], class, sizeof(*class)) == 0)
			return (uint32_t)i;
	set->classes = xrealloc(set->classes, (set->nclasses + 1) * sizeof(*class));
	set->classes[set->nclasses] = *class;
	return (uint32_t)set->nclasses++;
}

/* Reads an element that is no star. Uses glob.c, so that the set and glob_match() agree.
 * Returns the element's length; *kind is GLOB_NODE_ROOT if the element matches no byte. */
static size_t read_element(struct glob_set *set, struct slice pattern,
                           enum glob_node_kind *kind, uint32_t *what)
{
	struct glob_class class = { { false } };
	size_t len = 1, n = 0;

	*kind = GLOB_NODE_BYTE;
	*what = (unsigned char)*pattern.p;
	if (glob_is_literal(slice_of(pattern.p, 1)))
		return 1;
	for (size_t byte = 0; byte < 256; byte++) {
		class.has[byte] = glob_element_matches(pattern, (char)byte, &len);
		n += class.has[byte];
		if (class.has[byte])
			*what = (uint32_t)byte;
	}
	*kind = n == 0 ? GLOB_NODE_ROOT : n == 1 ? GLOB_NODE_BYTE : GLOB_NODE_CLASS;
	if (n > 1)
		*what = class_index(set, &class);
	return len;
}

static uint32_t add_node(struct glob_set *set, uint32_t parent, enum glob_node_kind kind,
                         uint32_t what)
{
	uint32_t *at = &set->nodes[parent].child, new = (uint32_t)set->nnodes;

	for (; *at; at = &set->nodes[*at].sibling)
		if (set->nodes[*at].kind == kind && set->nodes[*at].what == what)
			return *at;
	if (kind == GLOB_NODE_STAR)
		at = &set->nodes[parent].child;
	/* If the number of nodes is a power of two, the array is full, and doubles. */
	struct glob_node node = { kind, what, parent, 0, *at, 0, GLOB_SET_NONE, GLOB_SET_NONE };
	*at = new;
	if ((set->nnodes & (set->nnodes - 1)) == 0)
		set->nodes = xrealloc(set->nodes, 2 * set->nnodes * sizeof(*set->nodes));
	set->nodes[set->nnodes++] = node;
	return new;
}

void glob_set_add(struct glob_set *set, struct slice pattern, int32_t number)
{
	uint32_t at = 0;

	if (glob_match(pattern, SLICE_NONE))
		set->on_empty = lower(set->on_empty, number);
	while (pattern.n) {
		enum glob_node_kind kind = GLOB_NODE_STAR;
		uint32_t what = 0;
		size_t len = 1;
		if (*pattern.p != '*')
			len = read_element(set, pattern, &kind, &what);
		/* The element matches no byte, so the pattern matches no key. */
		if (kind == GLOB_NODE_ROOT)
			return;
		/* Two stars in a row are one. */
		if (kind != GLOB_NODE_STAR || set->nodes[at].kind != GLOB_NODE_STAR)
			at = add_node(set, at, kind, what);
		pattern = slice_of(pattern.p + len, pattern.n - len);
	}
	set->nodes[at].number = lower(set->nodes[at].number, number);
}

/* --- derived data ----------------------------------------------------------------------- */

/* Returns the node after `at` in a walk; 0: `at` was the last node. */
static uint32_t next_node(const struct glob_node *nodes, uint32_t at)
{
	if (nodes[at].child)
		return nodes[at].child;
	while (at && !nodes[at].sibling)
		at = nodes[at].parent;
	return nodes[at].sibling;
}

/* Numbers the nodes in the order of a walk. */
static void sort_nodes(struct glob_set *set)
{
	struct glob_node *sorted = xcalloc(set->nnodes, sizeof(*sorted));
	uint32_t *place = xcalloc(set->nnodes, sizeof(*place)), n = 0, at = 0;

	do {
		place[at] = n++;
		at = next_node(set->nodes, at);
	} while (at);
	for (size_t i = 0; i < set->nnodes; i++) {
		struct glob_node node = set->nodes[i];
		node.parent = place[node.parent];
		node.child = place[node.child];
		node.sibling = place[node.sibling];
		sorted[place[i]] = node;
	}
	free(place);
	free(set->nodes);
	set->nodes = sorted;
}

/* True if `at` is the only child of its parent, and no pattern ends there. */
static bool is_only_way(const struct glob_node *nodes, uint32_t at)
{
	const struct glob_node *parent = &nodes[nodes[at].parent];

	return at && parent->child == at && !nodes[at].sibling &&
	       parent->number == GLOB_SET_NONE;
}

static void find_tops_and_best(struct glob_set *set)
{
	struct glob_node *nodes = set->nodes;

	for (size_t i = set->nnodes; i-- > 0;) {
		struct glob_node *node = &nodes[i];
		uint32_t top = (uint32_t)i;
		node->best = lower(node->best, node->number);
		if (i)
			nodes[node->parent].best = lower(nodes[node->parent].best, node->best);
		while (node->kind == GLOB_NODE_STAR && is_only_way(nodes, top))
			top = nodes[top].parent;
		node->top = top;
	}
}

static void find_prefix(struct glob_set *set)
{
	const struct glob_node *node = set->nodes;

	set->prefix = xmalloc(set->nnodes);
	while (node->number == GLOB_SET_NONE && node->child &&
	       set->nodes[node->child].kind == GLOB_NODE_BYTE &&
	       !set->nodes[node->child].sibling) {
		node = &set->nodes[node->child];
		set->prefix[set->prefix_len++] = (char)node->what;
	}
}

/* Splits each kind into the bytes that are in the class and those that are not. */
static void split_kinds(struct glob_set *set, const struct glob_class *class)
{
	size_t inside[256] = { 0 }, total[256] = { 0 };
	uint8_t new[256];

	for (size_t byte = 0; byte < 256; byte++) {
		total[set->kind_of[byte]]++;
		inside[set->kind_of[byte]] += class->has[byte];
	}
	for (size_t kind = 0, n = set->nkinds; kind < n; kind++) {
		bool parts = inside[kind] && inside[kind] < total[kind];
		new[kind] = (uint8_t)(parts ? set->nkinds++ : kind);
	}
	for (size_t byte = 0; byte < 256; byte++)
		if (class->has[byte])
			set->kind_of[byte] = new[set->kind_of[byte]];
}

static void find_kinds(struct glob_set *set)
{
	bool named[256] = { false };

	for (size_t i = 0; i < set->nnodes; i++)
		if (set->nodes[i].kind == GLOB_NODE_BYTE)
			named[set->nodes[i].what] = true;
	for (size_t byte = 0; byte < 256; byte++) {
		struct glob_class one = { { false } };
		one.has[byte] = true;
		if (named[byte])
			split_kinds(set, &one);
	}
	for (size_t i = 0; i < set->nclasses; i++)
		split_kinds(set, &set->classes[i]);
	for (size_t byte = 0; byte < 256; byte++)
		set->example[set->kind_of[byte]] = (uint8_t)byte;
}

void glob_set_complete(struct glob_set *set)
{
	sort_nodes(set);
	find_tops_and_best(set);
	find_prefix(set);
	find_kinds(set);
}

bool glob_node_takes(const struct glob_set *set, const struct glob_node *node, size_t kind)
{
	if (node->kind == GLOB_NODE_BYTE)
		return set->kind_of[node->what] == kind;
	return node->kind == GLOB_NODE_CLASS &&
	       set->classes[node->what].has[set->example[kind]];
}
