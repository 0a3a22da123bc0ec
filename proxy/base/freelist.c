/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/freelist.h"

#include <stdlib.h>

#include "base/fatal.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define KEPT_MAX ((size_t)0)
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define KEPT_MAX ((size_t)0)
#endif
#ifndef KEPT_MAX
/* As many as there are requests in flight on a busy worker. */
#define KEPT_MAX ((size_t)512)
#endif

struct freelist_node {
	struct freelist_node *next;
};

void freelist_init(struct freelist *s, size_t size)
{
	HASP_ASSERT(size >= sizeof(struct freelist_node));
	*s = (struct freelist){ .size = size };
}

void freelist_fini(struct freelist *s)
{
	while (s->first) {
		struct freelist_node *x = s->first;
		s->first = x->next;
		free(x);
	}
	s->n = 0;
}

void *freelist_take(struct freelist *s)
{
	struct freelist_node *x = s->first;

	if (!x)
		return xmalloc(s->size);
	s->first = x->next;
	s->n--;
	return x;
}

void freelist_give(struct freelist *s, void *p)
{
	struct freelist_node *x = p;

	if (!x || s->n + 1 > KEPT_MAX) {
		free(x);
		return;
	}
	x->next = s->first;
	s->first = x;
	s->n++;
}
