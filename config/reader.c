/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/config_internal.h"

#include <ctype.h>
#include <ini.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

struct reader_state {
	struct slice rest; /* the part of the file that was not read yet */
	const struct reader_events *events;
	void *arg;
	char *line; /* the present line, with a NUL */
	int lineno; /* number of `line`, from 1 */
	bool after_option; /* an indented line would continue an option */
	bool indented; /* the present line is indented */
	bool faulty; /* a fault of the present line has been reported */
	bool expect_value; /* inih has the line, but has not yet called reader_on_value() */
};

static void reader_fault(struct reader_state *r, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void reader_fault(struct reader_state *r, const char *fmt, ...)
{
	char what[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	r->faulty = true;
	r->events->on_fault(r->arg, r->lineno, what);
}

/* Ends `s` after its first `n` bytes, and cuts blanks off its end. */
static void reader_trim_end(char *s, size_t n)
{
	while (n > 0 && isspace((unsigned char)s[n - 1]))
		n--;
	s[n] = '\0';
}

static char *reader_skip_blanks(char *s)
{
	while (isspace((unsigned char)*s))
		s++;
	return s;
}

/* Cuts a comment off, because inih before release 56 keeps it in a line that continues
 * another. */
static void reader_cut_comment(char *s)
{
	for (char *p = s; *p; p++) {
		if (*p == ';' && p > s && isspace((unsigned char)p[-1])) {
			reader_trim_end(s, (size_t)(p - s));
			return;
		}
	}
}

/* Reports the section that the line `s`, which begins with a `[`, opens. */
static void reader_take_header(struct reader_state *r, char *s)
{
	char *end = strchr(s, ']');
	char *title = reader_skip_blanks(s + 1);
	char *rest;

	r->after_option = false;
	if (!end) {
		reader_fault(r, "a section's name has no ']'; expected [NAME]");
		/* Even a faulty header begins a section, to which the lines below belong. */
		end = s + strcspn(s, ";#");
		*end = '\0';
	}
	rest = *end ? reader_skip_blanks(end + 1) : end;
	if (*rest != '\0' && *rest != ';' && *rest != '#')
		reader_fault(r, "text after the section's ']'; put it on a line of its own");
	if (title > end)
		title = end;
	reader_trim_end(title, (size_t)(end - title));
	if (strlen(title) > READER_NAME_MAX) {
		reader_fault(r, "a section's name has %zu bytes; at most %d are allowed",
		             strlen(title), READER_NAME_MAX);
		title[READER_NAME_MAX] = '\0';
	}
	r->events->on_section(r->arg, r->lineno, title);
}

/* Checks the line `s` of `n` bytes before inih gets it. Returns the text for inih; NULL:
 * none. */
static const char *reader_check_line(struct reader_state *r, char *s, size_t n)
{
	bool has_nul = memchr(s, '\0', n) != NULL;
	char *text;

	if (r->lineno == 1 && n >= 3 && memcmp(s, "\xef\xbb\xbf", 3) == 0) {
		s += 3;
		n -= 3;
	}
	reader_trim_end(s, n);
	text = reader_skip_blanks(s);
	if (has_nul) {
		reader_fault(r, "the line has a NUL byte; expected text");
		return NULL;
	}
	if (*text == '\0' || *text == ';' || *text == '#')
		return NULL;

	r->indented = text > s;
	if (r->indented && !r->after_option) {
		reader_fault(r, "an indented line continues the option above it, but there is "
		                "none; begin in the first column");
		return NULL;
	}
	if (!r->indented && *text == '[') {
		reader_take_header(r, text);
		/* Give inih any header, so that it forgets the option above. */
		return "[]";
	}
	if (strlen(s) > READER_LINE_MAX) {
		reader_fault(r,
		             "the line has %zu bytes; at most %d are allowed (an indented line "
		             "continues a list)",
		             strlen(s), READER_LINE_MAX);
		s[READER_LINE_MAX] = '\0';
	}
	if (r->indented)
		reader_cut_comment(text);
	r->after_option = true;
	r->expect_value = true;
	return s;
}

/* Reports the line that inih got last, if inih found no `=` in it. */
static void reader_check_value_seen(struct reader_state *r)
{
	if (r->expect_value && !r->faulty)
		reader_fault(r, "the line is neither an option nor a section; expected 'name = "
		                "value' or [section]");
	r->expect_value = false;
}

/* inih calls this in place of fgets(). */
static char *reader_next_line(char *str, int num, void *stream)
{
	struct reader_state *r = stream;
	const char *text, *end;
	size_t len;

	reader_check_value_seen(r);
	if (r->rest.n == 0)
		return NULL;
	end = memchr(r->rest.p, '\n', r->rest.n);
	len = end ? (size_t)(end + 1 - r->rest.p) : r->rest.n;
	free(r->line);
	r->line = xmemdup(r->rest.p, len);
	r->rest = slice_of(r->rest.p + len, r->rest.n - len);
	r->lineno++;
	r->faulty = false;
	if (!end)
		reader_fault(r, "the file ends within a line, and may be half written; end the "
		                "last line with a newline");
	text = reader_check_line(r, r->line, len);
	HASP_ASSERT(num > READER_LINE_MAX + 1);
	snprintf(str, (size_t)num, "%s\n", text ? text : "");
	return str;
}

static int reader_on_value(void *user, const char *section, const char *name, const char *value)
{
	struct reader_state *r = user;

	(void)section; /* inih cuts the title at 50 bytes; reader_take_header() has it whole */
	r->expect_value = false;
	if (!value) {
		/* The line has no `=`; some builds of inih call back for it, too. */
		r->expect_value = true;
		return 1;
	}
	if (*name == '\0') {
		reader_fault(r, "no name before the '='; expected 'name = value'");
		return 1;
	}
	if (!r->indented && strlen(name) > READER_NAME_MAX) {
		reader_fault(r, "an option's name has %zu bytes; at most %d are allowed",
		             strlen(name), READER_NAME_MAX);
		return 1;
	}
	r->events->on_option(r->arg, r->lineno, name, r->faulty ? NULL : value, r->indented);
	return 1;
}

void reader_run(struct slice text, const struct reader_events *events, void *arg)
{
	struct reader_state r = { .rest = text, .events = events, .arg = arg };

	/* inih returns the first bad line, which reader_check_value_seen() has reported
	 * already. */
	(void)ini_parse_stream(reader_next_line, &r, reader_on_value, &r);
	reader_check_value_seen(&r);
	free(r.line);
}
