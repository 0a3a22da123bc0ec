/* SPDX-License-Identifier: BSD-3-Clause
 *
 * merge: splits a request for several slots of a cluster, and merges the replies of several
 * nodes into the one that a single Redis would give. If some replies are errors, the first
 * error in the order of the parts is the reply.
 */
#ifndef HASP_CLUSTER_MERGE_H
#define HASP_CLUSTER_MERGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "resp/request.h"

/* A request whose keys are in several slots, as one request for each slot: Redis refuses a
 * request for several slots, even if one node serves them all. The keys of each slot keep their
 * order; slots are in the order of their first keys.
 *
 *   MGET a b c d   a, c in one slot, b and d in others   ->   MGET a c | MGET b | MGET d */

struct split_part {
	uint32_t first, last; /* numbers of the part's first and last key */
	uint32_t nkeys;
	uint16_t slot;
};

struct split_key {
	uint32_t part; /* number of the key's part */
	uint32_t next; /* number of the part's next key; undefined for its last one */
};

struct split {
	struct split_part *parts; /* at most one for each slot */
	struct split_key *keys; /* in the order of the request */
	uint32_t nparts, nkeys;
	uint8_t step;
};

/* `req`: keys begin at argv[1], one every `step` arguments; no argument is missing. */
void split_init(struct split *s, const struct resp_view *req, uint8_t step);
void split_fini(struct split *s);

/* Appends the request of part `i`. `req`: the request of split_init(). */
void split_write(const struct split *s, uint32_t i, const struct resp_view *req,
                 struct buf *out);

enum merge_kind {
	MERGE_SAME, /* all replies are the same: +OK, the hash of a script */
	MERGE_SUM, /* integers are added up */
	MERGE_LEAST, /* the least integer; for arrays, the least one at each index */
	MERGE_LIST, /* arrays are joined */
	MERGE_NAMES, /* arrays of names: each name once, in any order */
	MERGE_COUNTS, /* arrays of names, each with a count: adds up each name's counts */
	MERGE_FOUND, /* the first reply that is not nil, if there is one */
	MERGE_ANY, /* a reply that is no error, else the most specific error: SCRIPT KILL */
	MERGE_VALUES, /* arrays with an element for each key, joined in the order of the keys */
};

/* Cuts the next whole frame off `frames`; SLICE_NONE: there is none. */
struct slice merge_take_frame(struct slice *frames);

/* Appends the reply to `out`. `replies`: `n` whole replies, n >= 1. `split`: for MERGE_VALUES,
 * how the request was split into `n` parts; else unused. */
void merge_replies(enum merge_kind kind, const struct split *split, const struct slice *replies,
                   size_t n, struct buf *out);

#endif
