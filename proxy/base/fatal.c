/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/fatal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void hasp_assert_failed(const char *cond, const char *file, int line)
{
	fprintf(stderr, "hasp: bug: %s:%d: assertion failed: %s\n", file, line, cond);
	abort();
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
	return or_die(malloc(n ? n : 1));
}

void *xcalloc(size_t n, size_t size)
{
	return or_die(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t n)
{
	return or_die(realloc(p, n ? n : 1));
}

char *xstrdup(const char *s)
{
	return or_die(strdup(s));
}

char *xmemdup(const void *p, size_t n)
{
	char *copy = xmalloc(n + 1);

	if (n)
		memcpy(copy, p, n);
	copy[n] = '\0';
	return copy;
}
