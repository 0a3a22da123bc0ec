/* SPDX-License-Identifier: BSD-3-Clause
 *
 * heap: measures the memory that a test has allocated.
 */
#ifndef HASP_TESTS_UNIT_HEAP_H
#define HASP_TESTS_UNIT_HEAP_H

#include <stddef.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

/* Returns the bytes of the heap in use; 0 if malloc() does not count them, as in musl and with
 * sanitizers. */
static inline size_t heap_nbytes(void)
{
#ifdef __GLIBC__
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
#else
	return 0;
#endif
}

#endif
