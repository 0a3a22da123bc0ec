/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_values: what a lock's key has at a quorum's servers: `OWNER NONCE`. No two tries to
 * take a lock have the same nonce, so that none frees what another one got.
 */
#ifndef HASP_QUORUM_QUORUM_VALUES_H
#define HASP_QUORUM_QUORUM_VALUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

/* `out` becomes a new value of that owner's. */
void quorum_value_make(struct buf *out, struct slice owner);
bool quorum_value_is_of(struct slice value, struct slice owner);
/* The owner in it; of a value that hasp did not make, all of it. */
struct slice quorum_value_owner(struct slice value);

/* What one server has under the key. */
struct quorum_row {
	struct buf value; /* empty: nothing */
	int64_t ttl_ms;
};

/* The value that a majority of the `n` servers has, in `rows`, by server; empty: none.
 * `ttl_ms`: the least time that is left at so many of them; 0: there is none. */
struct slice quorum_value_of_majority(const struct quorum_row *rows, size_t n, int64_t *ttl_ms);
/* `rows`: allocated as an array, or NULL. */
void quorum_rows_free(struct quorum_row *rows, size_t n);

#endif
