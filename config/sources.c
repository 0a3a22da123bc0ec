/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_internal.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/fatal.h"

void sources_add(struct sources *s, const char *path, int first)
{
	HASP_ASSERT(s->n == 0 ? first == 0 : first > s->v[s->n - 1].first);
	s->v = xrealloc(s->v, (s->n + 1) * sizeof(*s->v));
	s->v[s->n++] = (struct source){ .path = xstrdup(path), .first = first };
}

void sources_clear(struct sources *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].path);
	free(s->v);
	*s = (struct sources){ 0 };
}

static const struct source *sources_of(const struct sources *s, int line)
{
	size_t i = s->n;

	HASP_ASSERT(i > 0);
	while (i > 1 && s->v[i - 1].first > line)
		i--;
	return &s->v[i - 1];
}

const char *sources_path(const struct sources *s, int line)
{
	return sources_of(s, line)->path;
}

void sources_print(const struct sources *s, int line, struct buf *out)
{
	const struct source *at = sources_of(s, line);

	buf_printf(out, "%s:%d", at->path, line - at->first);
}

void sources_print_from(const struct sources *s, int line, int seen_from, struct buf *out)
{
	const struct source *at = sources_of(s, line);

	if (at == sources_of(s, seen_from))
		buf_printf(out, "line %d", line - at->first);
	else
		sources_print(s, line, out);
}

/* --- faults --- */

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
