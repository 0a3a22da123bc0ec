/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/account.h"

#include <limits.h>

#include "base/fatal.h"

void account_init(struct account *a, size_t limit)
{
	*a = (struct account){ .limit = limit };
	for (size_t i = 0; i < ACCOUNT_SIZES; i++)
		list_init(&a->by_size[i]);
}

void account_share_init(struct account_share *s)
{
	s->nbytes = 0;
	list_init(&s->node);
}

/* The place of `nbytes`, which is not 0, among the sizes: its highest bit and the two below. */
static size_t size_class(size_t nbytes)
{
	size_t bit = sizeof(nbytes) * CHAR_BIT - 1 - (size_t)__builtin_clzl(nbytes);

	return bit * 4 + (bit < 2 ? 0 : (nbytes >> (bit - 2)) & 3);
}

void account_change(struct account *a, struct account_share *s, size_t nbytes)
{
	bool moves = s->nbytes == 0 || nbytes == 0 ||
	             size_class(s->nbytes) != size_class(nbytes);

	HASP_ASSERT(a->total >= s->nbytes);
	a->total += nbytes - s->nbytes;
	s->nbytes = nbytes;
	if (nbytes == 0 && a->wanter == s)
		account_reset_wanted(a);
	if (!moves)
		return;
	list_remove(&s->node);
	if (nbytes)
		list_append(&a->by_size[size_class(nbytes)], &s->node);
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

struct account_share *account_largest(const struct account *a)
{
	for (size_t i = ACCOUNT_SIZES; i-- > 0;)
		if (!list_empty(&a->by_size[i]))
			return container_of(a->by_size[i].next, struct account_share, node);
	return NULL;
}
