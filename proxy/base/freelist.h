/* SPDX-License-Identifier: BSD-3-Clause
 *
 * freelist: keeps released blocks of one size for later use, such as one block for each request
 * of a client. malloc() keeps only a few small blocks ready, and an allocation takes longer
 * than the use of the block. Under AddressSanitizer, the list keeps no blocks, so that the
 * sanitizer finds uses of released blocks.
 */
#ifndef HASP_BASE_FREELIST_H
#define HASP_BASE_FREELIST_H

#include <stddef.h>
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
/* Most blocks in a list: about as many as a busy worker has requests in flight. */
#define FREELIST_KEPT_MAX ((size_t)512)
#endif

struct freelist_node {
	struct freelist_node *next;
};

struct freelist {
	struct freelist_node *first; /* first block; NULL: the list is empty */
	size_t size; /* bytes of a block */
	size_t n; /* number of blocks in the list */
};

/* `size`: bytes of each block; at least the size of a pointer. */
static inline void freelist_init(struct freelist *f, size_t size)
{
	HASP_ASSERT(size >= sizeof(struct freelist_node));
	*f = (struct freelist){ .size = size };
}

/* Frees the blocks in the list. */
static inline void freelist_fini(struct freelist *f)
{
	while (f->first) {
		struct freelist_node *x = f->first;
		f->first = x->next;
		free(x);
	}
	f->n = 0;
}

/* Returns a block, not cleared. Ends the process when memory is exhausted. */
static inline void *freelist_take(struct freelist *f)
{
	struct freelist_node *x = f->first;

	if (!x)
		return xmalloc(f->size);
	f->first = x->next;
	f->n--;
	return x;
}

/* Releases a block that freelist_take() returned; NULL is allowed. */
static inline void freelist_give(struct freelist *f, void *p)
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

#endif
