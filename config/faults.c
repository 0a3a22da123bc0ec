/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/faults.h"

#include <stdarg.h>

static void faults_append(struct buf *to, const struct sources *sources, int line,
                          const char *fmt, va_list ap) __attribute__((format(printf, 4, 0)));

static void faults_append(struct buf *to, const struct sources *sources, int line,
                          const char *fmt, va_list ap)
{
	sources_print(sources, line, to);
	buf_puts(to, ": ");
	buf_vprintf(to, fmt, ap);
	buf_puts(to, "\n");
}

void faults_add(struct faults *f, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	faults_append(f->lines, f->sources, line, fmt, ap);
	va_end(ap);
	f->n++;
}

void faults_warn(struct faults *f, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	faults_append(f->warnings, f->sources, line, fmt, ap);
	va_end(ap);
}
