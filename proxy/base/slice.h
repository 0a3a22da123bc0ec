/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slice: a reference to bytes in memory that other code owns. Binary-safe, not NUL-terminated,
 * valid only as long as that memory.
 */
#ifndef HASP_BASE_SLICE_H
#define HASP_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/fatal.h"

struct slice {
	const char *p;
	size_t n; /* length, in bytes */
};

#define SLICE_NONE ((struct slice){ NULL, 0 })

/* A slice of a string literal. */
#define SLICE_LIT(s) ((struct slice){ (s), sizeof(s) - 1 })

static inline struct slice slice_of(const void *p, size_t n)
{
	return (struct slice){ p, n };
}

static inline struct slice slice_str(const char *s)
{
	return (struct slice){ s, s ? strlen(s) : 0 };
}

/* Returns a copy, followed by a NUL. The caller frees the copy's bytes. */
static inline struct slice slice_dup(struct slice s)
{
	return slice_of(xmemdup(s.p, s.n), s.n);
}

/* Copies the bytes of `s` to *at, and moves *at past them. Returns the copy. */
static inline struct slice slice_copy_to(char **at, struct slice s)
{
	struct slice copy = slice_of(*at, s.n);

	if (s.n)
		memcpy(*at, s.p, s.n);
	*at += s.n;
	return copy;
}

/* True if both strings are equal, or both NULL. */
static inline bool slice_same_str(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* Takes `n` bytes off the beginning of *s, which must have at least `n` bytes. */
static inline struct slice slice_take(struct slice *s, size_t n)
{
	struct slice taken = slice_of(s->p, n);

	*s = slice_of(s->p + n, s->n - n);
	return taken;
}

static inline bool slice_eq(struct slice a, struct slice b)
{
	/* The analyzer does not know that p is not NULL if n > 0. */
	return a.n == b.n &&
	       (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); /* NOLINT(clang-analyzer-core.*) */
}

/* Returns a negative number if `a` comes before `b` in the order of bytes, a positive one if it
 * comes after `b`, 0 if they are equal. */
static inline int slice_order(struct slice a, struct slice b)
{
	int order = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);

	return order ? order : (a.n > b.n) - (a.n < b.n);
}

/* True if both are equal except for ASCII case, as Redis compares names. */
static inline bool slice_is_alike(struct slice a, struct slice b)
{
	return a.n == b.n && (a.n == 0 || strncasecmp(a.p, b.p, a.n) == 0);
}

static inline bool slice_is(struct slice a, const char *s)
{
	return slice_is_alike(a, slice_str(s));
}

/* Moves the bytes before the first `end` from *s to *out, and drops the `end`. If there is no
 * `end`, moves all bytes. Returns false if *s was empty. */
static inline bool slice_cut(struct slice *s, char end, struct slice *out)
{
	const char *at;

	if (s->n == 0)
		return false;
	/* The analyzer does not know that p is not NULL if n > 0. */
	at = memchr(s->p, end, s->n); /* NOLINT(clang-analyzer-core.*) */
	*out = slice_of(s->p, at ? (size_t)(at - s->p) : s->n);
	*s = slice_of(s->p + out->n + !!at, s->n - out->n - !!at);
	return true;
}

/* Reads a decimal number, without a sign. Returns false if `s` is no such number of 64 bits. */
static inline bool slice_number(struct slice s, uint64_t *v)
{
	*v = 0;
	for (size_t i = 0; i < s.n; i++) {
		unsigned digit = (unsigned)s.p[i] - '0';
		if (digit > 9 || __builtin_mul_overflow(*v, 10, v) ||
		    __builtin_add_overflow(*v, digit, v))
			return false;
	}
	return s.n > 0;
}

/* Reads an integer as Redis' string2ll() does: no plus, no blanks, no leading zeros. Returns
 * false if `s` is no such integer of 64 bits. */
static inline bool slice_integer(struct slice s, int64_t *v)
{
	bool negative = s.n > 0 && *s.p == '-';
	struct slice digits = negative ? slice_of(s.p + 1, s.n - 1) : s;
	uint64_t n;

	if (!slice_number(digits, &n) || n > (uint64_t)INT64_MAX + negative ||
	    (*digits.p == '0' && s.n > 1))
		return false;
	*v = (int64_t)(negative ? 0 - n : n);
	return true;
}

static inline bool slice_starts(struct slice a, struct slice prefix)
{
	return a.n >= prefix.n &&
	       (prefix.n == 0 ||
	        memcmp(a.p, prefix.p, prefix.n) == 0); /* NOLINT(clang-analyzer-core.*) */
}

#endif
