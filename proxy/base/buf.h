/* SPDX-License-Identifier: BSD-3-Clause
 *
 * buf: a growable byte queue: appended at the tail, consumed at the head. One
 * contiguous block, so that what is in it can be scanned or written at once.
 * Empty buffers own no memory once buf_release() was called, which is how an
 * idle client costs nothing.
 */
#ifndef HASP_BASE_BUF_H
#define HASP_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/slice.h"

struct buf {
	char *data; /* NULL while the buffer owns no memory */
	size_t cap; /* bytes allocated at data */
	size_t head; /* first byte not consumed */
	size_t tail; /* one past the last byte */
};

#define BUF_INIT ((struct buf){ NULL, 0, 0, 0 })

static inline size_t buf_len(const struct buf *b)
{
	return b->tail - b->head;
}

static inline char *buf_head(const struct buf *b)
{
	return b->data ? b->data + b->head : NULL;
}

static inline struct slice buf_slice(const struct buf *b)
{
	return slice_of(buf_head(b), buf_len(b));
}

/* Makes room for `n` more bytes and returns where they go; the caller writes
 * there and calls buf_added(). Ends the process when memory is exhausted. */
char *buf_reserve(struct buf *b, size_t n);
void buf_added(struct buf *b, size_t n);

static inline void buf_append(struct buf *b, struct slice s)
{
	bool fits = b->data && b->cap - b->tail >= s.n;

	if (s.n == 0)
		return;
	memcpy(fits ? b->data + b->tail : buf_reserve(b, s.n), s.p, s.n);
	b->tail += s.n;
}
void buf_puts(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Drops `n` bytes at the head; n must not exceed buf_len(). */
void buf_consume(struct buf *b, size_t n);

/* Empties the buffer and keeps its memory. */
void buf_clear(struct buf *b);

/* Empties the buffer and gives its memory back. */
void buf_release(struct buf *b);

#endif
