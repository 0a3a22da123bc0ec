/* SPDX-License-Identifier: BSD-3-Clause
 *
 * merge: the replies of several nodes as the one that a single Redis would have given. An error
 * of one of them is the reply, the first in the order of the parts. The version of RESP does
 * not matter: the replies are in the client's.
 */
#ifndef HASP_CLUSTER_MERGE_H
#define HASP_CLUSTER_MERGE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"

struct split;

enum merge_kind {
	MERGE_SAME, /* all say the same: +OK, the hash of a script */
	MERGE_SUM, /* integers are added up */
	MERGE_LEAST, /* the least integer; of arrays, for each element */
	MERGE_LIST, /* arrays are joined */
	MERGE_NAMES, /* of the arrays' elements, each is there once, in no order */
	MERGE_COUNTS, /* arrays of a name, its count, ...: the counts of each name are added up
	               */
	MERGE_FOUND, /* the first that is not nil, if one is not */
	MERGE_ANY, /* a reply that is not an error, else the most specific error: SCRIPT KILL */
	MERGE_VALUES, /* arrays of an element for each key are put together in the keys' order
	               */
};

/* Appends the reply to `out`. `replies`: `n` whole ones, at least one. `split`: of
 * MERGE_VALUES, how the request was split, into `n` parts; else NULL. */
void merge_replies(enum merge_kind kind, const struct split *split, const struct slice *replies,
                   size_t n, struct buf *out);

#endif
