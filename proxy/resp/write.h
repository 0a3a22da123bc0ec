/* SPDX-License-Identifier: BSD-3-Clause
 *
 * write: appends RESP to a buffer. Requests are arrays of bulk strings in every protocol
 * version.
 */
#ifndef HASP_RESP_WRITE_H
#define HASP_RESP_WRITE_H

#include "base/buf.h"
#include "base/slice.h"

/* Appends `*n\r\n`: n bulks must follow. */
void resp_write_array(struct buf *out, size_t n);
void resp_write_bulk(struct buf *out, struct slice s);
static inline void resp_write_bulk_str(struct buf *out, const char *s)
{
	resp_write_bulk(out, slice_str(s));
}
/* Appends `$n\r\n`: n bytes and a CRLF must follow. */
void resp_write_bulk_header(struct buf *out, size_t n);
void resp_write_bulk_int(struct buf *out, long long v);

/* A whole request: an array of `n` bulks. */
void resp_write_request(struct buf *out, const struct slice *argv, size_t n);
/* A request without arguments. */
static inline void resp_write_word(struct buf *out, const char *command)
{
	struct slice name = slice_str(command);

	resp_write_request(out, &name, 1);
}

#endif
