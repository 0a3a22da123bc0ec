/* SPDX-License-Identifier: BSD-3-Clause
 *
 * slice: a run of bytes that somebody else owns. Binary-safe, never
 * NUL-terminated, valid only as long as the memory behind it.
 */
#ifndef HASP_BASE_SLICE_H
#define HASP_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct slice {
	const char *p;
	size_t n; /* bytes */
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

static inline bool slice_eq(struct slice a, struct slice b)
{
	/* Bytes that are there are somewhere. */
	return a.n == b.n &&
	       (a.n == 0 || memcmp(a.p, b.p, a.n) == 0); /* NOLINT(clang-analyzer-core.*) */
}

/* Equal to the C string `s`, ASCII case ignored, as Redis compares names. */
static inline bool slice_is(struct slice a, const char *s)
{
	return strlen(s) == a.n && strncasecmp(a.p, s, a.n) == 0;
}

static inline bool slice_starts(struct slice a, struct slice prefix)
{
	return a.n >= prefix.n && memcmp(a.p, prefix.p, prefix.n) == 0;
}

#endif
