/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/json.h"

#include <math.h>

#include "base/quote.h"

static void json_begin(struct json *j, const char *name)
{
	if (j->follows)
		buf_puts(j->out, ",");
	j->follows = true;
	if (name)
		buf_printf(j->out, "\"%s\":", name);
}

void json_open(struct json *j, const char *name, char bracket)
{
	json_begin(j, name);
	buf_append(j->out, slice_of(&bracket, 1));
	j->follows = false;
}

void json_close(struct json *j, char bracket)
{
	buf_append(j->out, slice_of(&bracket, 1));
	j->follows = true;
}

static void write_char(struct buf *out, struct slice s)
{
	unsigned char c = (unsigned char)*s.p;

	if (c == '"' || c == '\\')
		buf_printf(out, "\\%c", c);
	/* JSON allows U+007F to U+009F, and JavaScript's line ends, as they are. */
	else if (c < ' ')
		buf_printf(out, "\\u%04x", c);
	else
		buf_append(out, s);
}

void json_text(struct json *j, const char *name, struct slice text)
{
	json_begin(j, name);
	buf_puts(j->out, "\"");
	while (text.n)
		write_char(j->out, utf8_take(&text));
	buf_puts(j->out, "\"");
}

void json_word(struct json *j, const char *name, const char *word)
{
	if (word) {
		json_text(j, name, slice_str(word));
		return;
	}
	json_begin(j, name);
	buf_puts(j->out, "null");
}

void json_count(struct json *j, const char *name, uint64_t n)
{
	json_begin(j, name);
	buf_printf(j->out, "%llu", (unsigned long long)n);
}

void json_number(struct json *j, const char *name, double value, int digits)
{
	json_begin(j, name);
	if (isfinite(value))
		buf_printf(j->out, "%.*f", digits, value);
	else
		buf_puts(j->out, "null");
}

void json_bool(struct json *j, const char *name, bool value)
{
	json_begin(j, name);
	buf_puts(j->out, value ? "true" : "false");
}
