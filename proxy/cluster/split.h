/* SPDX-License-Identifier: BSD-3-Clause
 *
 * split: a request whose keys are in several slots, as one request for each slot: Redis takes
 * no other, even if the slots are one node's. Each key keeps its place among those of its slot;
 * slots are in the order of their first keys.
 *
 *   MGET a b c d   a, c in one slot, b and d in others   ->   MGET a c | MGET b | MGET d
 */
#ifndef HASP_CLUSTER_SPLIT_H
#define HASP_CLUSTER_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "resp/view.h"

struct split_part {
	uint32_t first, last; /* numbers of its keys */
	uint32_t nkeys;
	uint16_t slot;
};

struct split_key {
	uint32_t part; /* the number of the one that it is in */
	uint32_t next; /* the number of the part's next key; of no meaning for its last one */
};

struct split {
	struct split_part *parts; /* at most one for each slot */
	struct split_key *keys; /* in the order of the request */
	uint32_t nparts, nkeys;
	uint8_t step;
};

/* `req`: a key in argv[1], and the next ones each `step` arguments later; no key lacks an
 * argument. */
void split_init(struct split *s, const struct resp_view *req, uint8_t step);
void split_fini(struct split *s);

/* Appends the request of part `i`. `req`: the same as before. */
void split_write(const struct split *s, uint32_t i, const struct resp_view *req,
                 struct buf *out);

/* The memory that it owns. */
static inline size_t split_nbytes(const struct split *s)
{
	return s->nparts * sizeof(*s->parts) + s->nkeys * sizeof(*s->keys);
}

#endif
