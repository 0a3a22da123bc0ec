/* SPDX-License-Identifier: BSD-3-Clause
 *
 * account: counts the bytes that each of several holders keeps for its peers, and their sum,
 * against a limit. The account only counts: its owner knows what the bytes are, and decides
 * which holder must go.
 *
 *   holders --account_set()--> total --account_is_over()--> nobody reads
 *                                '--account_heaviest()----> is closed, until it fits
 */
#ifndef HASP_BASE_ACCOUNT_H
#define HASP_BASE_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/list.h"

/* Fewer bytes of a holder are not counted, because the number of holders is limited. */
#define ACCOUNT_LEAST ((size_t)4096)

/* Embedded in a holder. */
struct account_share {
	struct list node; /* in account.shares; in no list: not counted */
	size_t nbytes; /* 0, or ACCOUNT_LEAST and more */
};

struct account {
	size_t limit; /* limit of `total`, in bytes */
	size_t total; /* bytes of all shares */
	size_t wanted; /* the bytes refused since account_reset_wanted(); 0: none */
	const struct account_share *wanter; /* the share whose holder wanted these; NULL: no
	                                     * holder did, or it has no share */
	struct list shares; /* in the order in which they came */
};

void account_init(struct account *a, size_t limit);
void account_share_init(struct account_share *s);

/* For account_set() only. */
void account_change(struct account *a, struct account_share *s, size_t nbytes);

/* Records that the holder keeps `nbytes` now. */
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

/* True if the holder may take `nbytes` more at once; `s` NULL: it has no share. If not, the
 * account is over its limit until others keep less, the share is 0 again, or
 * account_reset_wanted() is called. */
bool account_admits(struct account *a, const struct account_share *s, size_t nbytes);

static inline bool account_is_over(const struct account *a)
{
	return a->total > a->limit || a->wanted > a->limit - a->total;
}

/* Returns the gain of closing this holder; more than 0. */
typedef double account_weigh_fn(void *arg, const struct account_share *s);
/* Returns the holder for which weigh() returns the most; of equal ones, the first. NULL: no
 * holder keeps anything that counts. */
struct account_share *account_heaviest(const struct account *a, account_weigh_fn *weigh,
                                       void *arg);

/* Call this when the memory that was refused is available, or no longer wanted. */
static inline void account_reset_wanted(struct account *a)
{
	a->wanted = 0;
	a->wanter = NULL;
}

#endif
