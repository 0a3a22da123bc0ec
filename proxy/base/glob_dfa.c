/* SPDX-License-Identifier: BSD-3-Clause
 *
 * glob_dfa: makes the automaton's states. Two rules keep states few and small without changing
 * which keys match:
 *
 *  - A star takes any bytes. If all patterns lead from a node through a star below it, a state
 *    with that star leaves the node out (glob_node.top): the star matches the same keys.
 *  - If a state has a star that ends a pattern, the answer is that pattern's number or a lower
 *    one. The state leaves out nodes that lead to no lower number; if no node is left, the
 *    answer is known.
 */
#include "base/glob_dfa.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/list.h"
#include "base/map.h"

/* A step is the index of the next row or, if negative, ~answer. 0: not computed yet. */
#define STEP_UNKNOWN 0

/* Limit of states per node: patterns with several stars have more states than nodes. */
#define STATES_PER_NODE 2
#define STATES_EXTRA 4096
#define MAX_BYTES ((size_t)64 * 1024 * 1024)

struct state {
	struct map_node node; /* keyed by the bytes of `at` */
	int32_t row; /* index of the state's row */
	size_t n;
	uint32_t at[]; /* the state's nodes, in ascending order */
};

struct glob_dfa {
	const struct glob_set *set;
	size_t max_bytes;
	size_t nbytes; /* memory of all states and their rows */
	struct map by_nodes;
	struct state **states;
	size_t nstates;
	/* A row for each state, after an unused row. A row has the step for each kind of byte,
	 * and after them the answer for a key that ends in the state. A step to a state is the
	 * index of the state's row. */
	int32_t *rows;
	size_t row; /* length of a row, in steps */
	size_t capacity; /* number of states that fit */
	int32_t start; /* the step to the state at the end of the set's prefix */
	/* The nodes of a state that is being made. */
	uint32_t *scratch;
	size_t nscratch;
	bool *is_there; /* by node: true if the node is in `scratch` */
};

/* --- the nodes of a state --------------------------------------------------------------- */

/* Adds the node and, because a star may match nothing, the star after it. */
static void add(struct glob_dfa *dfa, uint32_t at)
{
	const struct glob_node *nodes = dfa->set->nodes;

	do {
		if (!dfa->is_there[at])
			dfa->scratch[dfa->nscratch++] = at;
		dfa->is_there[at] = true;
		at = nodes[at].child;
	} while (at && nodes[at].kind == GLOB_NODE_STAR);
}

static void add_behind(struct glob_dfa *dfa, const struct state *from, size_t kind)
{
	const struct glob_set *set = dfa->set;

	for (size_t i = 0; i < from->n; i++) {
		const struct glob_node *node = &set->nodes[from->at[i]];
		if (node->kind == GLOB_NODE_STAR)
			add(dfa, from->at[i]);
		for (uint32_t at = node->child; at; at = set->nodes[at].sibling)
			if (glob_node_takes(set, &set->nodes[at], kind))
				add(dfa, at);
	}
}

static int compare_nodes(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

/* Returns the lowest number of these nodes or, with `only_stars`, of the stars among them;
 * GLOB_SET_NONE: there is none. */
static int32_t lowest_number(const struct glob_dfa *dfa, const uint32_t *at, size_t n,
                             bool only_stars)
{
	int32_t lowest = GLOB_SET_NONE;

	for (size_t i = 0; i < n; i++) {
		const struct glob_node *node = &dfa->set->nodes[at[i]];
		if ((!only_stars || node->kind == GLOB_NODE_STAR) && node->number < lowest)
			lowest = node->number;
	}
	return lowest;
}

/* Drops nodes that change no answer, and sorts the others. */
static void reduce(struct glob_dfa *dfa, int32_t certain)
{
	const struct glob_node *nodes = dfa->set->nodes;
	uint32_t top = UINT32_MAX; /* drops nodes from this index on: they are above a star */
	size_t kept = dfa->nscratch;

	qsort(dfa->scratch, dfa->nscratch, sizeof(*dfa->scratch), compare_nodes);
	/* The kept nodes gather at the end. */
	for (size_t i = dfa->nscratch; i-- > 0;) {
		uint32_t at = dfa->scratch[i];
		const struct glob_node *node = &nodes[at];
		bool is_star = node->kind == GLOB_NODE_STAR;
		dfa->is_there[at] = false;
		if (at >= top ||
		    (node->best >= certain && !(is_star && node->number == certain)))
			continue;
		if (is_star)
			top = node->top;
		dfa->scratch[--kept] = at;
	}
	dfa->nscratch -= kept;
	memmove(dfa->scratch, dfa->scratch + kept, dfa->nscratch * sizeof(*dfa->scratch));
}

/* True if no further byte finds a number lower than `certain`. */
static bool is_answered(const struct glob_dfa *dfa, int32_t certain)
{
	for (size_t i = 0; i < dfa->nscratch; i++)
		if (dfa->set->nodes[dfa->scratch[i]].best < certain)
			return false;
	return true;
}

/* --- states ------------------------------------------------------------------------------ */

static void drop_states(struct glob_dfa *dfa)
{
	while (dfa->nstates)
		free(dfa->states[--dfa->nstates]);
	map_fini(&dfa->by_nodes);
	map_init(&dfa->by_nodes);
	dfa->nbytes = 0;
	dfa->start = STEP_UNKNOWN;
}

static size_t state_bytes(const struct glob_dfa *dfa, size_t n)
{
	return sizeof(struct state) + n * sizeof(uint32_t) + sizeof(struct state *) +
	       sizeof(struct map_node *) + dfa->row * sizeof(int32_t);
}

static void make_room(struct glob_dfa *dfa)
{
	size_t n = dfa->capacity ? 2 * dfa->capacity : 16;

	if (dfa->nstates < dfa->capacity)
		return;
	dfa->states = xrealloc(dfa->states, n * sizeof(struct state *));
	dfa->rows = xrealloc(dfa->rows, (1 + n) * dfa->row * sizeof(*dfa->rows));
	dfa->capacity = n;
}

/* Makes a state from the nodes in `scratch`. */
static const struct state *add_state(struct glob_dfa *dfa)
{
	size_t size = dfa->nscratch * sizeof(*dfa->scratch);
	struct state *s = xmalloc(sizeof(*s) + size);
	int32_t *row;

	make_room(dfa);
	dfa->states[dfa->nstates++] = s;
	s->row = (int32_t)(dfa->nstates * dfa->row);
	s->n = dfa->nscratch;
	memcpy(s->at, dfa->scratch, size);
	s->node.key = slice_of(s->at, size);
	map_put(&dfa->by_nodes, &s->node);
	row = &dfa->rows[s->row];
	for (size_t i = 0; i + 1 < dfa->row; i++)
		row[i] = STEP_UNKNOWN;
	row[dfa->row - 1] = lowest_number(dfa, s->at, s->n, false);
	dfa->nbytes += state_bytes(dfa, s->n);
	return s;
}

/* Returns the step to the state of the nodes in `scratch`, which are not reduced yet. */
static int32_t find_step(struct glob_dfa *dfa)
{
	/* The bytes read so far ensure this number: more bytes can only find a lower one. */
	int32_t certain = lowest_number(dfa, dfa->scratch, dfa->nscratch, true);
	struct slice nodes;
	struct map_node *node;

	reduce(dfa, certain);
	if (is_answered(dfa, certain))
		return ~certain;
	nodes = slice_of(dfa->scratch, dfa->nscratch * sizeof(*dfa->scratch));
	node = map_get(&dfa->by_nodes, nodes);
	if (node)
		return container_of(node, struct state, node)->row;
	return add_state(dfa)->row;
}

/* Makes the unknown step of the row `from` for this kind of byte. */
static int32_t make_step(struct glob_dfa *dfa, int32_t from, size_t kind)
{
	int32_t step;

	dfa->nscratch = 0;
	add_behind(dfa, dfa->states[(size_t)from / dfa->row - 1], kind);
	if (dfa->nbytes > dfa->max_bytes) {
		drop_states(dfa);
		return find_step(dfa);
	}
	step = find_step(dfa);
	dfa->rows[(size_t)from + kind] = step;
	return step;
}

/* --- the automaton ------------------------------------------------------------------------ */

struct glob_dfa *glob_dfa_new(const struct glob_set *set, size_t max_bytes)
{
	struct glob_dfa *dfa = xcalloc(1, sizeof(*dfa));
	size_t likely;

	dfa->set = set;
	dfa->row = set->nkinds + 1;
	likely = (set->nnodes * STATES_PER_NODE + STATES_EXTRA) * state_bytes(dfa, 2);
	dfa->max_bytes = max_bytes < likely ? max_bytes : likely;
	if (dfa->max_bytes > MAX_BYTES)
		dfa->max_bytes = MAX_BYTES;
	dfa->scratch = xcalloc(set->nnodes, sizeof(*dfa->scratch));
	dfa->is_there = xcalloc(set->nnodes, sizeof(*dfa->is_there));
	return dfa;
}

void glob_dfa_free(struct glob_dfa *dfa)
{
	if (!dfa)
		return;
	drop_states(dfa);
	free(dfa->states);
	free(dfa->rows);
	free(dfa->scratch);
	free(dfa->is_there);
	free(dfa);
}

/* Continues from the step `at`, and makes missing states. Not inline, so that the loop over
 * existing states saves no registers. */
__attribute__((noinline)) static int32_t find_making(struct glob_dfa *dfa, int32_t at,
                                                     const char *p, const char *end)
{
	int32_t step;

	if (at == STEP_UNKNOWN) {
		dfa->nscratch = 0;
		/* The nodes of the prefix have one child each, so a match reaches node n after
		 * n bytes. */
		add(dfa, (uint32_t)dfa->set->prefix_len);
		at = dfa->start = find_step(dfa);
	}
	for (; at > 0 && p < end; at = step) {
		size_t kind = dfa->set->kind_of[(unsigned char)*p++];
		step = dfa->rows[(size_t)at + kind];
		if (step == STEP_UNKNOWN)
			step = make_step(dfa, at, kind);
	}
	return at > 0 ? dfa->rows[(size_t)at + dfa->row - 1] : ~at;
}

/* Returns the number for a key. `p`: the byte after the prefix of all patterns. */
static inline int32_t find_behind(struct glob_dfa *dfa, const char *p, const char *end)
{
	const struct glob_set *set = dfa->set;
	const int32_t *rows = dfa->rows;
	int32_t at = dfa->start, step;

	if (at <= 0)
		return at == STEP_UNKNOWN ? find_making(dfa, at, p, end) : ~at;
	for (; p < end; p++) {
		step = rows[(size_t)at + set->kind_of[(unsigned char)*p]];
		if (step <= 0)
			return step == STEP_UNKNOWN ? find_making(dfa, at, p, end) : ~step;
		at = step;
	}
	return rows[(size_t)at + dfa->row - 1];
}

int32_t glob_dfa_find(struct glob_dfa *dfa, struct slice key)
{
	const struct glob_set *set = dfa->set;
	size_t n = set->prefix_len;

	if (key.n == 0)
		return set->on_empty;
	if (key.n < n || (n && memcmp(key.p, set->prefix, n) != 0))
		return GLOB_SET_NONE;
	return find_behind(dfa, key.p + n, key.p + key.n);
}

size_t glob_dfa_bytes(const struct glob_dfa *dfa)
{
	return dfa->nbytes;
}
