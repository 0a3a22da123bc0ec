/* SPDX-License-Identifier: BSD-3-Clause */
#include "quorum/quorum_values.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "quorum/quorum_votes.h"

#define NONCE_NBYTES 16
#define NONCE_DIGITS (2 * NONCE_NBYTES)

void quorum_value_make(struct buf *out, const struct quorum_claim *claim)
{
	unsigned char nonce[NONCE_NBYTES];

	random_bytes(nonce, sizeof(nonce));
	buf_clear(out);
	buf_append(out, claim->owner);
	buf_puts(out, " ");
	for (size_t i = 0; i < NONCE_NBYTES; i++)
		buf_printf(out, "%02x", nonce[i]);
	if (!claim->of_rule)
		return;
	buf_puts(out, " ");
	buf_append(out, claim->content);
}

/* The value of a rule's lock contains OWNER, which has no blanks. Returns OWNER's length;
 * SIZE_MAX: hasp did not make the value. */
static size_t rules_owner_len(struct slice value)
{
	const char *blank = value.n ? memchr(value.p, ' ', value.n) : NULL;
	size_t n = blank ? (size_t)(blank - value.p) : 0;

	if (!blank || value.n < n + NONCE_DIGITS + 2 || value.p[n + NONCE_DIGITS + 1] != ' ')
		return SIZE_MAX;
	return n;
}

static bool is_of_rules(struct slice value, const struct quorum_claim *claim)
{
	if (claim->owner.n)
		return slice_eq(quorum_value_owner(value, true), claim->owner);
	return claim->is_anyones || slice_eq(quorum_value_content(value), claim->content);
}

bool quorum_value_is_of(struct slice value, const struct quorum_claim *claim)
{
	struct slice owner = claim->owner;

	if (claim->of_rule)
		return is_of_rules(value, claim);
	return owner.p && value.n == owner.n + 1 + NONCE_DIGITS && slice_starts(value, owner) &&
	       value.p[owner.n] == ' ';
}

struct slice quorum_value_owner(struct slice value, bool of_rule)
{
	size_t n = of_rule ? rules_owner_len(value) : SIZE_MAX;

	if (n < value.n)
		return slice_of(value.p, n);
	return slice_of(value.p, !of_rule && value.n > NONCE_DIGITS ? value.n - NONCE_DIGITS - 1
	                                                            : value.n);
}

struct slice quorum_value_content(struct slice value)
{
	size_t n = rules_owner_len(value), skip = n + NONCE_DIGITS + 2;

	return n == SIZE_MAX ? value : slice_of(value.p + skip, value.n - skip);
}

/* Returns how many servers have `value`. Sets *ttl_ms to how long a majority will still have
 * it; 0: no majority has it. */
static size_t count_rows(const struct quorum_row *rows, size_t nservers, struct slice value,
                         int64_t *ttl_ms)
{
	size_t majority = quorum_majority(nservers), n = 0;
	int64_t left[QUORUM_PEERS_MAX] = { 0 };

	for (size_t i = 0; i < nservers; i++) {
		size_t at = n;

		if (!value.n || !slice_eq(buf_slice(&rows[i].value), value))
			continue;
		for (; at > 0 && left[at - 1] < rows[i].ttl_ms; at--)
			left[at] = left[at - 1];
		left[at] = rows[i].ttl_ms;
		n++;
	}
	*ttl_ms = n >= majority ? left[majority - 1] : 0;
	return n;
}

struct slice quorum_value_of_majority(const struct quorum_row *rows, size_t n, int64_t *ttl_ms)
{
	*ttl_ms = 0;
	for (size_t i = 0; i < n; i++) {
		struct slice value = buf_slice(&rows[i].value);

		if (count_rows(rows, n, value, ttl_ms) >= quorum_majority(n))
			return value;
	}
	return SLICE_NONE;
}

void quorum_rows_free(struct quorum_row *rows, size_t n)
{
	for (size_t i = 0; rows && i < n; i++)
		buf_release(&rows[i].value);
	free(rows);
}
