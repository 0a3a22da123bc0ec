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
char *xmemdup(const void *p, size_t n) __attribute__((malloc, returns_nonnull));

/* Makes free() return long blocks to the kernel: else requests of a megabyte would leave half
 * of their memory in gaps between short blocks. Call it before any thread starts. */
void memory_return_long(void);

/* --- when memory runs out ----------------------------------------------------------- */

/* Bytes that hasp reserves for allocations that must not fail: if xmalloc() or its like gets no
 * memory, it releases the reserve and tries again. Take more than this at once for a peer only
 * by try_realloc() or after memory_has(). */
#define MEMORY_RESERVE ((size_t)16 * 1024 * 1024)

/* Makes the reserve, unless it exists or there is no memory for it. From any thread. */
void memory_reserve(void);
/* Returns how often memory ran short. When the number changes, a caller with much memory should
 * free what it can, and call memory_reserve(). From any thread. */
unsigned memory_shortages(void);

/* As realloc(). NULL: there is too little memory, which counts as a shortage; `p` stays
 * valid. */
void *try_realloc(void *p, size_t n) __attribute__((warn_unused_result));
/* True if `n` bytes could be allocated now. If not, that counts as a shortage. */
bool memory_has(size_t n);

#endif
