/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fatal: asserts that stay in release builds, and allocation that cannot fail. Asserts are for
 * hasp's own bugs only, never for input, network or memory. Their condition has no effect.
 */
#ifndef HASP_BASE_FATAL_H
#define HASP_BASE_FATAL_H

#include <stddef.h>

#define HASP_ASSERT(cond) ((cond) ? (void)0 : hasp_assert_failed(#cond, __FILE__, __LINE__))

/* Writes which assert failed to stderr, then calls abort(). */
void hasp_assert_failed(const char *cond, const char *file, int line)
	__attribute__((noreturn, cold));

/* As malloc/calloc/realloc/strdup/memdup, but end the process when memory is exhausted: a proxy
 * without memory can keep no promise. xmemdup() appends a NUL, so that the copy can be printed.
 */
void *xmalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t n) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xmemdup(const void *p, size_t n) __attribute__((malloc, returns_nonnull));

#endif
