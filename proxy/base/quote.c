/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/quote.h"

#include <stdint.h>
#include <stdio.h>

size_t utf8_length(struct slice s)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char first = s.n ? (unsigned char)*s.p : 0x80;
	size_t n = first < 0x80       ? 1
	           : first >> 5 == 6  ? 2
	           : first >> 4 == 14 ? 3
	           : first >> 3 == 30 ? 4
	                              : 0;
	uint32_t code = first & (0x7fu >> n);

	if (n < 2 || n > s.n)
		return n == 1;
	for (size_t i = 1; i < n; i++) {
		unsigned char c = (unsigned char)s.p[i];

		if (c >> 6 != 2)
			return 0;
		code = code << 6 | (c & 0x3f);
	}
	if (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
		return 0;
	return n;
}

struct slice utf8_take(struct slice *s)
{
	size_t n = utf8_length(*s);
	struct slice taken = slice_take(s, n ? n : 1);

	return n ? taken : SLICE_LIT(UTF8_REPLACEMENT);
}

/* Escapes the byte. Returns the end of the written text. */
static char *write_byte(char *p, unsigned char c)
{
	if (c == '"' || c == '\\') {
		*p++ = '\\';
		*p++ = (char)c;
	} else if (c >= ' ' && c < 0x7f) {
		*p++ = (char)c;
	} else {
		p += snprintf(p, sizeof("\\x00"), "\\x%02x", c);
	}
	return p;
}

const char *quote(struct quoted *q, struct slice s, size_t max)
{
	size_t most = max < QUOTE_MAX ? max : QUOTE_MAX;
	char *p = q->text;

	*p++ = '"';
	for (size_t i = 0; i < s.n && i < most; i++)
		p = write_byte(p, (unsigned char)s.p[i]);
	for (int i = 0; i < 3 && s.n > most; i++)
		*p++ = '.';
	*p++ = '"';
	*p = '\0';
	return q->text;
}

/* Returns the length of a printable character, or 0. U+0080 to U+009F control terminals. */
static size_t printable_length(struct slice s)
{
	size_t n = utf8_length(s);
	unsigned char c = (unsigned char)s.p[0];

	if (n == 1 && (c < ' ' || c == 0x7f))
		return 0;
	return n == 2 && c == 0xc2 && (unsigned char)s.p[1] < 0xa0 ? 0 : n;
}

void quote_append(struct buf *out, struct slice s)
{
	while (s.n) {
		size_t n = printable_length(s);

		if (n)
			buf_append(out, slice_take(&s, n));
		else
			buf_printf(out, "\\x%02x", (unsigned char)*slice_take(&s, 1).p);
	}
}
