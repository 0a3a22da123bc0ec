/* SPDX-License-Identifier: BSD-3-Clause
 *
 * buf: a growable queue of bytes, which are appended at the tail and consumed at the head. They
 * are contiguous, so that they can be scanned or written at once. A new buffer, and one after
 * buf_release(), owns no memory: the buffers of an idle client cost nothing.
 */
#ifndef HASP_BASE_BUF_H
#define HASP_BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/fatal.h"
#include "base/freelist.h"
#include "base/slice.h"

struct buf_block {
	size_t cap; /* size of `bytes` */
	size_t head; /* index of the first byte not consumed */
	size_t tail; /* index after the last byte */
	char bytes[];
};

struct buf {
	struct buf_block *block; /* NULL while the buffer owns no memory */
};

#define BUF_INIT ((struct buf){ NULL })

static inline size_t buf_len(const struct buf *b)
{
	return b->block ? b->block->tail - b->block->head : 0;
}

static inline char *buf_head(const struct buf *b)
{
	return b->block ? b->block->bytes + b->block->head : NULL;
}

static inline struct slice buf_slice(const struct buf *b)
{
	return slice_of(buf_head(b), buf_len(b));
}

/* Returns the size of the buffer's memory, in bytes; 0: it owns none. */
static inline size_t buf_cap(const struct buf *b)
{
	return b->block ? b->block->cap : 0;
}

/* Returns how many bytes can be appended without growing. */
static inline size_t buf_space(const struct buf *b)
{
	return b->block ? b->block->cap - b->block->tail : 0;
}

/* The slow parts of the inline functions below. */
char *buf_grow(struct buf *b, size_t n);
char *buf_try_grow(struct buf *b, size_t n);
void buf_free(struct buf *b);

/* Makes space for `n` more bytes, and returns the position where the caller must write them
 * before buf_added(). Ends the process when memory is exhausted. */
static inline char *buf_reserve(struct buf *b, size_t n)
{
	struct buf_block *k = b->block;

	return k && k->cap - k->tail >= n ? k->bytes + k->tail : buf_grow(b, n);
}

/* As buf_reserve(); NULL: there is not enough memory, and the buffer is unchanged. */
static inline char *buf_try_reserve(struct buf *b, size_t n)
{
	struct buf_block *k = b->block;

	return k && k->cap - k->tail >= n ? k->bytes + k->tail : buf_try_grow(b, n);
}

/* Appends the `n` bytes that the caller wrote where buf_reserve() said. */
static inline void buf_added(struct buf *b, size_t n)
{
	HASP_ASSERT(n <= buf_space(b));
	if (n)
		b->block->tail += n;
}

/* As buf_added(), for the bytes up to `end`. The buffer must own memory. */
static inline void buf_added_to(struct buf *b, const char *end)
{
	struct buf_block *k = b->block;
	size_t tail = (size_t)(end - k->bytes);

	HASP_ASSERT(tail >= k->tail && tail <= k->cap);
	k->tail = tail;
}

static inline void buf_append(struct buf *b, struct slice s)
{
	if (s.n == 0)
		return;
	HASP_ASSERT(s.p);
	memcpy(buf_reserve(b, s.n), s.p, s.n);
	b->block->tail += s.n;
}

/* Appends `s`. Returns false, and changes nothing, if there is not enough memory. */
__attribute__((warn_unused_result)) static inline bool buf_try_append(struct buf *b,
                                                                      struct slice s)
{
	char *p;

	if (s.n == 0)
		return true;
	p = buf_try_reserve(b, s.n);
	if (!p)
		return false;
	memcpy(p, s.p, s.n);
	b->block->tail += s.n;
	return true;
}

static inline void buf_puts(struct buf *b, const char *s)
{
	buf_append(b, slice_str(s));
}

void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(struct buf *b, const char *fmt, va_list args)
	__attribute__((format(printf, 2, 0)));

/* Drops `n` bytes at the head; n must be at most buf_len(). */
void buf_consume(struct buf *b, size_t n);

/* Empties the buffer and keeps its memory. */
static inline void buf_clear(struct buf *b)
{
	if (b->block)
		b->block->head = b->block->tail = 0;
}

/* Most bytes of memory that a scratch buffer keeps for its next use. */
#define BUF_SCRATCH_KEPT ((size_t)64 * 1024)

/* Frees the memory that the bytes do not need. */
void buf_fit(struct buf *b);

/* Empties the buffer and frees its memory. */
static inline void buf_release(struct buf *b)
{
	if (b->block)
		buf_free(b);
}

/* buf_take() gives an empty buffer its first memory from a freelist of blocks of BUF_FIRST_SIZE
 * bytes. For buffers that are mostly small and live for one request. */
#define BUF_FIRST_CAP ((size_t)256)
#define BUF_FIRST_SIZE (sizeof(struct buf_block) + BUF_FIRST_CAP)
void buf_take(struct buf *b, struct freelist *f);
/* As buf_release(), but returns memory of BUF_FIRST_SIZE bytes to the freelist. */
void buf_give(struct buf *b, struct freelist *f);

/* Frees the memory of a scratch buffer if it is more than BUF_SCRATCH_KEPT bytes. */
static inline void buf_trim(struct buf *b)
{
	if (buf_cap(b) > BUF_SCRATCH_KEPT)
		buf_free(b);
}

#endif
