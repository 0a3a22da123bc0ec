/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/quote.h"

/* Returns its end. */
static char *write_byte(char *p, unsigned char c)
{
	static const char digits[] = "0123456789abcdef";

	if (c == '"' || c == '\\') {
		*p++ = '\\';
		*p++ = (char)c;
	} else if (c >= ' ' && c < 0x7f) {
		*p++ = (char)c;
	} else {
		*p++ = '\\';
		*p++ = 'x';
		*p++ = digits[c >> 4];
		*p++ = digits[c & 15];
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
