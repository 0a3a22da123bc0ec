/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_values: what a lock's key has at a quorum's servers: `OWNER NONCE`; if it is a rule's,
 * `OWNER NONCE CONTENT`, CONTENT being what the application stored. No two tries to take a lock
 * have the same nonce, so that none frees what another one got.
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
	/* For a rule's lock: the application's value; if the owner is empty, the value that the
	 * lock must have. */
	struct slice content;
	bool is_anyones; /* then: whatever it is */
};

/* `out` becomes a new value. */
void quorum_value_make(struct buf *out, const struct quorum_claim *claim);
bool quorum_value_is_of(struct slice value, const struct quorum_claim *claim);
/* Returns the owner that the value names; for a value that hasp did not make, the whole
 * value. */
struct slice quorum_value_owner(struct slice value, bool of_rule);
/* Returns the application's part of a rule's value; all of a value that hasp did not make. */
struct slice quorum_value_content(struct slice value);

/* One server's answer about the key. */
struct quorum_row {
	struct buf value; /* empty: nothing */
	int64_t ttl_ms;
};

/* The value that a majority of the `n` servers has in `rows`, by server; empty: none. *ttl_ms:
 * a majority has it for at least this long; 0: there is no such value. */
struct slice quorum_value_of_majority(const struct quorum_row *rows, size_t n, int64_t *ttl_ms);
/* `rows`: allocated as an array, or NULL. */
void quorum_rows_free(struct quorum_row *rows, size_t n);

#endif
