/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/freelist.h"

void freelist_init(struct freelist *f, size_t size)
{
	HASP_ASSERT(size >= sizeof(struct freelist_node));
	*f = (struct freelist){ .size = size };
}

void freelist_fini(struct freelist *f)
{
	while (f->first) {
		struct freelist_node *x = f->first;
		f->first = x->next;
		free(x);
	}
	f->n = 0;
}
