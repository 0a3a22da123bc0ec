/* SPDX-License-Identifier: BSD-3-Clause
 *
 * write: appends RESP to a buffer. Requests are arrays of bulk strings in every protocol
 * version; only resp_write_inline() writes a line instead.
 */
#ifndef HASP_RESP_WRITE_H
#define HASP_RESP_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"
#include "base/slice.h"

/* --- resp_put_*(): write to `p`, which must have space, and return the end of the bytes -- */

#define RESP_DIGITS_MAX 20
/* The most bytes that a header can have: type, digits, line end. */
#define RESP_HEADER_SPACE ((size_t)(1 + RESP_DIGITS_MAX + 2))
/* The most bytes that a bulk string can have besides its content. */
#define RESP_BULK_SPACE (RESP_HEADER_SPACE + 2)

/* The texts "00", "01" to "99", one after the other. */
extern const char resp_digit_pairs[2 * 100 + 1];
char *resp_put_long_number(char *p, uint64_t n);

/* Writes a number. Most numbers have one digit or two, so this part is inline. */
static inline char *resp_put_number(char *p, uint64_t n)
{
	if (n >= 100)
		return resp_put_long_number(p, n);
	if (n >= 10) {
		memcpy(p, resp_digit_pairs + 2 * n, 2);
		return p + 2;
	}
	*p++ = (char)('0' + n);
	return p;
}

static inline char *resp_put_end(char *p)
{
	*p++ = '\r';
	*p++ = '\n';
	return p;
}

static inline char *resp_put_header(char *p, char type, uint64_t n)
{
	*p++ = type;
	return resp_put_end(resp_put_number(p, n));
}

static inline char *resp_put_bulk(char *p, struct slice s)
{
	p = resp_put_header(p, '$', s.n);
	if (s.n)
		memcpy(p, s.p, s.n); /* NOLINT(clang-analyzer-core.*) */
	return resp_put_end(p + s.n);
}

/* Only for resp_put_bulk_int(): writes a number that is negative or above 9. */
char *resp_put_bulk_long(char *p, long long v);

static inline char *resp_put_bulk_int(char *p, long long v)
{
	char digit;

	if (v < 0 || v > 9)
		return resp_put_bulk_long(p, v);
	digit = (char)('0' + v);
	return resp_put_bulk(p, slice_of(&digit, 1));
}
/* The most bytes that resp_put_bulk_int() writes. */
#define RESP_BULK_INT_SPACE (RESP_BULK_SPACE + 1 + RESP_DIGITS_MAX)

/* --- resp_write_*(): append to a buffer --- */

/* Appends `*n\r\n`: n bulks must follow. */
void resp_write_array(struct buf *out, size_t n);
/* Inline, so that writing a constant bulk compiles to a few stores. */
static inline void resp_write_bulk(struct buf *out, struct slice s)
{
	char *p = buf_reserve(out, RESP_BULK_SPACE + s.n);

	buf_added_to(out, resp_put_bulk(p, s));
}
static inline void resp_write_bulk_str(struct buf *out, const char *s)
{
	resp_write_bulk(out, slice_str(s));
}
/* Appends `word` if `on`, else an empty bulk. */
static inline void resp_write_bulk_if(struct buf *out, bool on, const char *word)
{
	if (on)
		resp_write_bulk_str(out, word);
	else
		buf_append(out, SLICE_LIT("$0\r\n\r\n"));
}
void resp_write_bulk_int(struct buf *out, long long v);

/* Appends a whole request: an array of `n` bulks. */
void resp_write_request(struct buf *out, const struct slice *argv, size_t n);
/* As resp_write_request(), for strings; leaves out those that are NULL. */
void resp_write_words(struct buf *out, const char *const *words, size_t n);
/* As resp_write_request(), but writes the request as one inline line. */
void resp_write_inline(struct buf *out, const struct slice *argv, size_t n);
/* Appends a request without arguments. */
static inline void resp_write_word(struct buf *out, const char *command)
{
	struct slice name = slice_str(command);

	resp_write_request(out, &name, 1);
}

#endif
