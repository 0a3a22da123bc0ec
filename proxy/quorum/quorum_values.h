/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_values: the value of a lock's key at a quorum's servers. A verb's lock has the value
 * `OWNER NONCE`, a rule's lock `OWNER NONCE CONTENT`, where CONTENT is the value that the
 * application stored. Each try to take a lock has another nonce, so no try frees the lock of
 * another try.
 */
#ifndef HASP_QUORUM_QUORUM_VALUES_H
#define HASP_QUORUM_QUORUM_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* The owner that a client claims to be. */
struct quorum_claim {
	bool of_rule; /* the lock is a rule's, not a verb's */
	struct slice owner; /* if `of_rule`, may be empty: each client that knows the content is
	                     * the owner */
	struct slice content; /* CONTENT of a rule's lock */
	bool is_anyones; /* if `owner` is empty: `content` does not matter */
};

/* Writes a new value, with a new nonce, to `out`. */
void quorum_value_make(struct buf *out, const struct quorum_claim *claim);
/* True if the owner that makes the claim owns the lock that has this value. */
bool quorum_value_is_of(struct slice value, const struct quorum_claim *claim);
/* Returns OWNER of the value, or the whole value if hasp did not make it. */
struct slice quorum_value_owner(struct slice value, bool of_rule);
/* Returns CONTENT of a rule's value, or the whole value if hasp did not make it. */
struct slice quorum_value_content(struct slice value);

/* One server's answer about a key. */
struct quorum_row {
	struct buf value; /* empty: the key is free */
	int64_t ttl_ms;
};

/* Returns the value that a majority of the `n` servers has, by their `rows`; empty: none. Sets
 * *ttl_ms to how long a majority will still have the value; 0: there is no such value. */
struct slice quorum_value_of_majority(const struct quorum_row *rows, size_t n, int64_t *ttl_ms);
/* Frees `rows`, an array on the heap or NULL. */
void quorum_rows_free(struct quorum_row *rows, size_t n);

#endif
