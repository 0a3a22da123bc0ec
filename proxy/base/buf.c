/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/buf.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"

#define BUF_MIN 256

char *buf_reserve(struct buf *b, size_t n)
{
	size_t len = buf_len(b), cap = b->cap ? b->cap : BUF_MIN;

	if (b->data && b->cap - b->tail >= n)
		return b->data + b->tail;
	/* Sliding the bytes down is cheaper than growing, but only while at
	 * least half is free: otherwise a full buffer slides at each append. */
	while (cap - len < n || len > cap / 2)
		cap *= 2;
	if (b->data && b->head)
		memmove(b->data, b->data + b->head, len);
	if (!b->data || cap > b->cap) {
		/* Large blocks grow in place, or are remapped: never twice in memory. */
		b->data = xrealloc(b->data, cap);
		b->cap = cap;
	}
	b->head = 0;
	b->tail = len;
	return b->data + b->tail;
}

void buf_added(struct buf *b, size_t n)
{
	b->tail += n;
	HASP_ASSERT(b->tail <= b->cap);
}

void buf_puts(struct buf *b, const char *s)
{
	buf_append(b, slice_str(s));
}

void buf_printf(struct buf *b, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(NULL, 0, fmt, ap);
	va_end(ap);
	HASP_ASSERT(n >= 0);
	char *p = buf_reserve(b, (size_t)n + 1);
	va_start(ap, fmt);
	vsnprintf(p, (size_t)n + 1, fmt, ap);
	va_end(ap);
	b->tail += (size_t)n;
}

void buf_consume(struct buf *b, size_t n)
{
	HASP_ASSERT(n <= buf_len(b));
	b->head += n;
	if (b->head == b->tail)
		b->head = b->tail = 0;
}

void buf_clear(struct buf *b)
{
	b->head = b->tail = 0;
}

void buf_release(struct buf *b)
{
	free(b->data);
	*b = BUF_INIT;
}
