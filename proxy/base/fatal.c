/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fatal.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* free() returns blocks of at least this many bytes to the kernel. Most requests need shorter
 * blocks. */
#define LONG_BLOCK (256 * 1024)

void hasp_assert_failed(const char *cond, const char *file, int line)
{
	fprintf(stderr, "hasp: bug: %s:%d: assertion failed: %s\n", file, line, cond);
	abort();
}

/* hasp never writes to the reserve, so the reserve takes only address space. It is not on the
 * heap, because a leak checker reads the heap. */
static _Atomic(void *) reserve;
static atomic_uint shortages;

static bool give_reserve(void)
{
	void *p = atomic_exchange(&reserve, NULL);

	atomic_fetch_add(&shortages, 1);
	return p && munmap(p, MEMORY_RESERVE) == 0;
}

static void *or_die(void *p)
{
	if (!p) {
		fputs("hasp: out of memory\n", stderr);
		abort();
	}
	return p;
}

void *xmalloc(size_t n)
{
	void *p = malloc(n ? n : 1);

	if (!p && give_reserve())
		p = malloc(n ? n : 1);
	return or_die(p);
}

void *xcalloc(size_t n, size_t size)
{
	void *p = calloc(n ? n : 1, size ? size : 1);

	if (!p && give_reserve())
		p = calloc(n ? n : 1, size ? size : 1);
	return or_die(p);
}

void *xrealloc(void *p, size_t n)
{
	void *q = realloc(p, n ? n : 1);

	if (!q && give_reserve())
		q = realloc(p, n ? n : 1);
	return or_die(q);
}

void memory_reserve(void)
{
	void *none = NULL, *p;

	if (atomic_load(&reserve))
		return;
	p = mmap(NULL, MEMORY_RESERVE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
	         0);
	if (p != MAP_FAILED && !atomic_compare_exchange_strong(&reserve, &none, p))
		(void)munmap(p, MEMORY_RESERVE);
}

unsigned memory_shortages(void)
{
	return atomic_load(&shortages);
}

void *try_realloc(void *p, size_t n)
{
	void *q = realloc(p, n ? n : 1);

	if (!q)
		atomic_fetch_add(&shortages, 1);
	return q;
}

bool memory_has(size_t n)
{
	void *p = try_realloc(NULL, n);

	free(p);
	return p != NULL;
}

void memory_return_long(void)
{
#ifdef __GLIBC__
	(void)mallopt(M_MMAP_THRESHOLD, LONG_BLOCK);
#endif
}

char *xstrdup(const char *s)
{
	return xmemdup(s, strlen(s));
}

char *xstrdup_or_null(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

char *xmemdup(const void *p, size_t n)
{
	char *copy = xmalloc(n + 1);

	if (n)
		memcpy(copy, p, n);
	copy[n] = '\0';
	return copy;
}
