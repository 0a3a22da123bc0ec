/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"

/* Makes space for `n` more bytes. `alloc`: realloc(), or a function like it. */
static char *grow(struct buf *b, size_t n, void *(*alloc)(void *p, size_t n))
{
	struct buf_block *k = b->block;
	size_t len = buf_len(b), had = buf_cap(b), cap = had ? had : BUF_FIRST_CAP;

	/* Sliding the bytes down is cheaper than growing, but only while at least half is
	 * free: otherwise a full buffer would slide at each append. */
	while (cap - len < n || len > cap / 2)
		cap *= 2;
	if (k && k->head)
		memmove(k->bytes, k->bytes + k->head, len);
	if (cap > had || !k) {
		/* realloc() grows large blocks in place, or remaps them, but does not copy
		 * them. */
		struct buf_block *grown = alloc(k, sizeof(*k) + cap);
		if (!grown && k && k->head) {
			k->head = 0;
			k->tail = len;
		}
		if (!grown)
			return NULL;
		k = b->block = grown;
		k->cap = cap;
	}
	k->head = 0;
	k->tail = len;
	return k->bytes + k->tail;
}

char *buf_grow(struct buf *b, size_t n)
{
	return grow(b, n, xrealloc);
}

char *buf_try_grow(struct buf *b, size_t n)
{
	return grow(b, n, try_realloc);
}

void buf_vprintf(struct buf *b, const char *fmt, va_list args)
{
	va_list again;
	int n;

	va_copy(again, args);
	n = vsnprintf(NULL, 0, fmt, args);
	HASP_ASSERT(n >= 0);
	vsnprintf(buf_reserve(b, (size_t)n + 1), (size_t)n + 1, fmt, again);
	va_end(again);
	b->block->tail += (size_t)n;
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	buf_vprintf(b, fmt, args);
	va_end(args);
}

void buf_consume(struct buf *b, size_t n)
{
	struct buf_block *k = b->block;

	HASP_ASSERT(n <= buf_len(b));
	if (n == 0)
		return;
	k->head += n;
	if (k->head == k->tail)
		k->head = k->tail = 0;
}

void buf_fit(struct buf *b)
{
	struct buf_block *k = b->block;
	size_t len = buf_len(b);

	if (len == 0) {
		buf_release(b);
	} else if (len < k->cap) {
		memmove(k->bytes, k->bytes + k->head, len);
		k = b->block = xrealloc(k, sizeof(*k) + len);
		k->head = 0;
		k->cap = k->tail = len;
	}
}

void buf_free(struct buf *b)
{
	free(b->block);
	*b = BUF_INIT;
}

void buf_take(struct buf *b, struct freelist *f)
{
	if (b->block)
		return;
	b->block = freelist_take(f);
	*b->block = (struct buf_block){ .cap = BUF_FIRST_CAP };
}

void buf_give(struct buf *b, struct freelist *f)
{
	if (buf_cap(b) == BUF_FIRST_CAP)
		freelist_give(f, b->block);
	else
		free(b->block);
	*b = BUF_INIT;
}
