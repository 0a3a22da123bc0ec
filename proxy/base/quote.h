/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quote: quotes untrusted text as a value in a log line `key=value`, so that nothing in the
 * text can end the quotes or the line. Also finds UTF-8 characters (RFC 3629).
 *
 *   a"b\<newline>  -->  "a\"b\\\x0a"
 */
#ifndef HASP_BASE_QUOTE_H
#define HASP_BASE_QUOTE_H

#include "base/buf.h"
#include "base/slice.h"

/* U+FFFD, which replaces a byte that belongs to no UTF-8 character. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Returns the length of the character at the beginning of `s`; 0: there is none. */
size_t utf8_length(struct slice s);
/* Takes a character off the beginning of `s`, or a byte that belongs to no character. Returns
 * the character, or UTF8_REPLACEMENT. */
struct slice utf8_take(struct slice *s);

/* quote() cuts longer texts to this many bytes, and appends dots. */
#define QUOTE_MAX ((size_t)256)

struct quoted {
	char text[4 * QUOTE_MAX + sizeof("\"...\"")];
};

/* Quotes at most `max` and at most QUOTE_MAX bytes of `s`. Returns q->text. */
const char *quote(struct quoted *q, struct slice s, size_t max);

/* Appends `s` without quotes, for a line on a terminal: keeps printable UTF-8 characters; each
 * other byte becomes `\xNN`. */
void quote_append(struct buf *out, struct slice s);

/* Return a text that is valid to the end of the enclosing block. */
#define QUOTE(s) quote(&(struct quoted){ "" }, (s), QUOTE_MAX)
#define QUOTE_STR(s) QUOTE(slice_str(s))

#endif
