/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/spares.h"

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

struct spare {
	struct spare *next;
};

void spares_init(struct spares *s, size_t size)
{
	HASP_ASSERT(size >= sizeof(struct spare));
	*s = (struct spares){ .size = size };
}

void spares_fini(struct spares *s)
{
	while (s->first) {
		struct spare *x = s->first;
		s->first = x->next;
		free(x);
	}
	s->n = 0;
}

void *spares_take(struct spares *s)
{
	struct spare *x = s->first;

	if (!x)
		return xmalloc(s->size);
	s->first = x->next;
	s->n--;
	return x;
}

void spares_give(struct spares *s, void *p)
{
	struct spare *x = p;

	if (!x || s->n + 1 > KEPT_MAX) {
		free(x);
		return;
	}
	x->next = s->first;
	s->first = x;
	s->n++;
}
