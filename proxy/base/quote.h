/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quote: quotes untrusted text as a value in a log line `key=value`, so that nothing in the
 * text can end the quotes or the line. utf8_length() says which bytes are characters
 * (RFC 3629).
 *
 *   a"b\<newline>  -->  "a\"b\\\x0a"
 */
#ifndef HASP_BASE_QUOTE_H
#define HASP_BASE_QUOTE_H

#include "base/buf.h"
#include "base/slice.h"

/* UTF-8 characters, for texts that must contain no other bytes. Source: RFC 3629. */

/* Replaces a byte that belongs to no character. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Returns the length of the character at the beginning of `s`; 0: there is none. */
size_t utf8_length(struct slice s);

/* Longer texts are cut to this many bytes, followed by dots. */
#define QUOTE_MAX ((size_t)256)

struct quoted {
	char text[4 * QUOTE_MAX + sizeof("\"...\"")];
};

/* Writes to `q`, and returns its text: at most `max` bytes of `s`, and QUOTE_MAX. */
const char *quote(struct quoted *q, struct slice s, size_t max);

/* Appends `s` without quotes, for one line of a terminal: keeps printable characters, also of
 * UTF-8; each other byte becomes `\xNN`. */
void quote_append(struct buf *out, struct slice s);

/* The text lives as long as the block around it. */
#define QUOTE(s) quote(&(struct quoted){ "" }, (s), QUOTE_MAX)
#define QUOTE_STR(s) QUOTE(slice_str(s))

#endif
