/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/freelist.h"

#include <stdlib.h>

#include "base/fatal.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FREELIST_KEPT_MAX ((size_t)0)
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define FREELIST_KEPT_MAX ((size_t)0)
#endif
#ifndef FREELIST_KEPT_MAX
/* About as many requests are in flight on a busy worker. */
#define FREELIST_KEPT_MAX ((size_t)512)
#endif

struct freelist_node {
	struct freelist_node *next;
};

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

void *freelist_take(struct freelist *f)
{
	struct freelist_node *x = f->first;

	if (!x)
		return xmalloc(f->size);
	f->first = x->next;
	f->n--;
	return x;
}

void freelist_give(struct freelist *f, void *p)
{
	struct freelist_node *x = p;

	if (!x || f->n + 1 > FREELIST_KEPT_MAX) {
		free(x);
		return;
	}
	x->next = f->first;
	f->first = x;
	f->n++;
}
