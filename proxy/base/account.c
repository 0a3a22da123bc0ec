/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/account.h"

#include "base/fatal.h"

void account_init(struct account *a, size_t limit)
{
	*a = (struct account){ .limit = limit };
	list_init(&a->shares);
}

void account_share_init(struct account_share *s)
{
	s->nbytes = 0;
	list_init(&s->node);
}

void account_change(struct account *a, struct account_share *s, size_t nbytes)
{
	HASP_ASSERT(a->total >= s->nbytes);
	if (s->nbytes == 0)
		list_append(&a->shares, &s->node);
	a->total += nbytes - s->nbytes;
	s->nbytes = nbytes;
	if (nbytes == 0)
		list_remove(&s->node);
	if (nbytes == 0 && a->wanter == s)
		account_reset_wanted(a);
}

bool account_admits(struct account *a, const struct account_share *s, size_t nbytes)
{
	if (account_fits(a, nbytes))
		return true;
	if (nbytes > a->wanted) {
		a->wanted = nbytes;
		a->wanter = s;
	}
	return false;
}

struct account_share *account_heaviest(const struct account *a, account_weigh_fn *weigh)
{
	struct account_share *heaviest = NULL;
	double most = 0;

	list_each (struct account_share, s, &a->shares, node) {
		double weight = weigh(s);

		if (weight <= most)
			continue;
		most = weight;
		heaviest = s;
	}
	return heaviest;
}
