/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fatal: asserts that stay in release builds, and allocation that cannot fail. Asserts are for
 * hasp's own bugs only, never for input, network or memory. Their condition must not change
 * anything.
 */
#ifndef HASP_BASE_FATAL_H
#define HASP_BASE_FATAL_H

#include <stdbool.h>
#include <stddef.h>

#define HASP_ASSERT(cond) ((cond) ? (void)0 : hasp_assert_failed(#cond, __FILE__, __LINE__))

/* Writes the failed assert to stderr, then calls abort(). */
void hasp_assert_failed(const char *cond, const char *file, int line)
	__attribute__((noreturn, cold));

/* As malloc/calloc/realloc/strdup/memdup, but end the process when memory is exhausted: a
 * proxy without memory cannot keep its promises. xmemdup() appends a NUL, for printing. */
void *xmalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t n) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrdup_or_null(const char *s) __attribute__((malloc)); /* returns NULL for NULL */
char *xmemdup(const void *p, size_t n) __attribute__((malloc, returns_nonnull));

/* Makes free() return long blocks to the kernel. Otherwise half of the memory of requests of a
 * megabyte would stay in gaps between short blocks. Call it before any thread starts. */
void memory_return_long(void);

/* --- when memory runs out ----------------------------------------------------------- */

/* Bytes that hasp reserves for allocations that must not fail: if xmalloc() or its like gets no
 * memory, it releases the reserve and tries again. To take more than this at once for a peer,
 * use try_realloc(), or call memory_has() first. */
#define MEMORY_RESERVE ((size_t)16 * 1024 * 1024)

/* Allocates the reserve, unless it exists or there is no memory for it. From any thread. */
void memory_reserve(void);
/* Returns how often memory ran short. When the number changes, a caller with much memory should
 * free memory, and call memory_reserve(). From any thread. */
unsigned memory_shortages(void);

/* As realloc(). NULL: memory ran short; `p` stays valid, and memory_shortages() counts one
 * more. */
void *try_realloc(void *p, size_t n) __attribute__((warn_unused_result));
/* True if `n` bytes could be allocated now. If not, memory_shortages() counts one more. */
bool memory_has(size_t n);

#endif
