/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/faults.h"

#include <stdarg.h>
#include <stdio.h>

/* A text quotes three words of the file at most, none longer than a line, which the reader
 * limits. */
#define FAULTS_TEXT_MAX 1024

static void faults_append(struct buf *to, const char *path, int line, const char *fmt,
                          va_list ap) __attribute__((format(printf, 4, 0)));

static void faults_append(struct buf *to, const char *path, int line, const char *fmt,
                          va_list ap)
{
	char text[FAULTS_TEXT_MAX];

	vsnprintf(text, sizeof(text), fmt, ap);
	buf_printf(to, "%s:%d: %s\n", path, line, text);
}

void faults_add(struct faults *f, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	faults_append(f->lines, f->path, line, fmt, ap);
	va_end(ap);
	f->n++;
}

void faults_warn(struct faults *f, int line, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	faults_append(f->warnings, f->path, line, fmt, ap);
	va_end(ap);
}
