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

/* A holder of less is not counted: so much each may have, and their number is limited. */
#define ACCOUNT_LEAST ((size_t)4096)

/* Embedded in a holder. */
struct account_share {
	struct list node; /* in account.shares; in no list: not counted */
	size_t nbytes; /* 0, or ACCOUNT_LEAST and more */
};

struct account {
	size_t limit; /* bytes */
	size_t total; /* of all shares */
	size_t wanted; /* what could not be taken since account_reset_wanted(); 0: nothing */
	const struct account_share *wanter; /* the holder that wanted it; NULL: none */
	struct list shares; /* the one that came first is first */
};

void account_init(struct account *a, size_t limit);
void account_share_init(struct account_share *s);

/* Only for account_set(). */
void account_change(struct account *a, struct account_share *s, size_t nbytes);

/* The holder keeps `nbytes` from now on. */
static inline void account_set(struct account *a, struct account_share *s, size_t nbytes)
{
	if (nbytes < ACCOUNT_LEAST)
		nbytes = 0;
	if (nbytes != s->nbytes)
		account_change(a, s, nbytes);
}

/* Is there space for `nbytes` more? */
static inline bool account_fits(const struct account *a, size_t nbytes)
{
	return a->total <= a->limit && nbytes <= a->limit - a->total;
}

/* May the holder take `nbytes` more at once? If not, the account is over its limit until others
 * keep less, the holder keeps nothing any more, or account_reset_wanted(). */
bool account_admits(struct account *a, const struct account_share *s, size_t nbytes);

static inline bool account_is_over(const struct account *a)
{
	return a->total > a->limit || a->wanted > a->limit - a->total;
}

/* How much is gained if this holder is closed; more than 0. */
typedef double account_weigh_fn(void *arg, const struct account_share *s);
/* Returns the holder for which weigh() returns most; the first one if several do. NULL: no
 * holder keeps anything that counts. */
struct account_share *account_heaviest(const struct account *a, account_weigh_fn *weigh,
                                       void *arg);

/* The memory that was wanted is available now, or no longer wanted. */
static inline void account_reset_wanted(struct account *a)
{
	a->wanted = 0;
	a->wanter = NULL;
}

#endif
