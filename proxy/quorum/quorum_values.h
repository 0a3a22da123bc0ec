/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_values: the value of a lock's key at a quorum's servers: `OWNER NONCE`; if it is a
 * rule's, `OWNER NONCE CONTENT`, CONTENT being what the application stored. No two tries to
 * take a lock have the same nonce, so no try frees the lock of another try.
 */
#ifndef HASP_QUORUM_QUORUM_VALUES_H
#define HASP_QUORUM_QUORUM_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* The owner of a lock. */
struct quorum_claim {
	bool of_rule;
	struct slice owner; /* of a rule's lock; empty: any client that knows the content */
	/* A rule's lock: the application's value; if the owner is empty, the value that the
	 * lock must have. */
	struct slice content;
	bool is_anyones; /* `owner` is empty, and any value will do */
};

/* Writes a new value to `out`. */
void quorum_value_make(struct buf *out, const struct quorum_claim *claim);
bool quorum_value_is_of(struct slice value, const struct quorum_claim *claim);
/* Returns the owner that the value names; for a value that hasp did not make, the whole
 * value. */
struct slice quorum_value_owner(struct slice value, bool of_rule);
/* Returns the application's part of a rule's value; the whole value if hasp did not make
 * it. */
struct slice quorum_value_content(struct slice value);

/* One server's answer about a key. */
struct quorum_row {
	struct buf value; /* empty: the key is free */
	int64_t ttl_ms;
};

/* Returns the value that a majority of the `n` servers has in `rows`, by server; empty: none.
 * *ttl_ms: a majority has it for at least this long; 0: there is no such value. */
struct slice quorum_value_of_majority(const struct quorum_row *rows, size_t n, int64_t *ttl_ms);
/* `rows`: an array on the heap, or NULL. */
void quorum_rows_free(struct quorum_row *rows, size_t n);

#endif
