/* SPDX-License-Identifier: BSD-3-Clause
 *
 * account: sums up the bytes that several holders keep for their peers, and has a limit.
 * The account only counts; its owner decides what to do when the limit is exceeded.
 *
 *   holders --account_set()--> total --account_is_over()--> the owner stops reading from peers
 *                                '--account_heaviest()----> the owner closes this holder
 */
#ifndef HASP_BASE_ACCOUNT_H
#define HASP_BASE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"

/* A holder with fewer bytes counts as 0; the owner limits the number of holders. */
#define ACCOUNT_LEAST ((size_t)4096)

/* The bytes that one holder keeps; embedded in the holder. */
struct account_share {
	struct list node; /* in account.shares if `nbytes` is not 0 */
	size_t nbytes; /* the holder's bytes: 0, or at least ACCOUNT_LEAST */
};

struct account {
	size_t limit; /* limit of `total`, in bytes */
	size_t total; /* bytes of all shares */
	size_t wanted; /* most bytes that account_admits() has refused since the last reset */
	const struct account_share
		*wanter; /* the share that wanted `wanted` bytes; NULL: none */
	struct list shares; /* shares with bytes, ordered by the time of their first bytes */
};

void account_init(struct account *a, size_t limit);
void account_share_init(struct account_share *s);

/* Does the work of account_set() if `nbytes` has changed. */
void account_change(struct account *a, struct account_share *s, size_t nbytes);

/* Records that the share's holder keeps `nbytes` now. */
static inline void account_set(struct account *a, struct account_share *s, size_t nbytes)
{
	if (nbytes < ACCOUNT_LEAST)
		nbytes = 0;
	if (nbytes != s->nbytes)
		account_change(a, s, nbytes);
}

/* True if there is space for `nbytes` more. */
static inline bool account_fits(const struct account *a, size_t nbytes)
{
	return a->total <= a->limit && nbytes <= a->limit - a->total;
}

/* True if a holder may take `nbytes` more at once. `s`: the holder's share; NULL: none. After
 * false, the account counts as over its limit until the bytes fit, the share has no bytes, or
 * account_reset_wanted() is called. */
bool account_admits(struct account *a, const struct account_share *s, size_t nbytes);

static inline bool account_is_over(const struct account *a)
{
	return a->total > a->limit || a->wanted > a->limit - a->total;
}

/* Returns how much closing the share's holder would help; more than 0. */
typedef double account_weigh_fn(const struct account_share *s);
/* Returns the first share with the greatest weight; NULL: no share has bytes. */
struct account_share *account_heaviest(const struct account *a, account_weigh_fn *weigh);

/* Call it when the refused memory is available, or no longer wanted. */
static inline void account_reset_wanted(struct account *a)
{
	a->wanted = 0;
	a->wanter = NULL;
}

#endif
