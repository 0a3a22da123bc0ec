/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fatal: asserts that stay in release builds, and allocation that cannot fail. Asserts are for
 * hasp's own bugs only, never for input, network or memory. Their condition has no effect.
 */
#ifndef HASP_BASE_FATAL_H
#define HASP_BASE_FATAL_H

#include <stdbool.h>
#include <stddef.h>

#define HASP_ASSERT(cond) ((cond) ? (void)0 : hasp_assert_failed(#cond, __FILE__, __LINE__))

/* Writes which assert failed to stderr, then calls abort(). */
void hasp_assert_failed(const char *cond, const char *file, int line)
	__attribute__((noreturn, cold));

/* As malloc/calloc/realloc/strdup/memdup, but end the process when memory is exhausted: a proxy
 * without memory can keep no promise. xmemdup() appends a NUL, for printing. */
void *xmalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t n) __attribute__((returns_nonnull));
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xmemdup(const void *p, size_t n) __attribute__((malloc, returns_nonnull));

/* Has the C library give long blocks back when they are freed. Else what short ones lie between
 * stays: requests of a megabyte leave half of their memory behind. Before there are threads. */
void memory_return_long(void);

/* --- when memory runs out ----------------------------------------------------------- */

/* So much is kept back for what cannot do without. It is given up when an allocation of the
 * functions above fails, which is then tried once more. More than this at once must not be
 * taken on a peer's behalf without memory_has() or try_realloc(). */
#define MEMORY_RESERVE ((size_t)16 * 1024 * 1024)

/* Keeps the reserve, if there is none and there is memory for it. From any thread. */
void memory_reserve(void);
/* How often there was not enough memory. When this changes, a caller that has much to give back
 * should do so, and call memory_reserve(). From any thread. */
unsigned memory_shortages(void);

/* As realloc(); NULL: there is too little memory, `p` stays. Counts as a shortage. */
void *try_realloc(void *p, size_t n) __attribute__((warn_unused_result));
/* Could `n` bytes be taken now? If not, it counts as a shortage. */
bool memory_has(size_t n);

#endif
