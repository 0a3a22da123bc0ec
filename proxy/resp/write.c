/* SPDX-License-Identifier: BSD-3-Clause */
#include "resp/write.h"

#include <stdint.h>
#include <string.h>

/* type + 20 digits and a sign + CRLF */
#define HEADER_MAX 24

/* Writes a header in front of `end`, where there is room for it; returns where it begins. */
static char *put_header(char *end, char type, uint64_t n)
{
	*--end = '\n';
	*--end = '\r';
	do {
		*--end = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	*--end = type;
	return end;
}

static void write_header(struct buf *out, char type, uint64_t n)
{
	char tmp[HEADER_MAX], *header = put_header(tmp + sizeof(tmp), type, n);

	buf_append(out, slice_of(header, (size_t)(tmp + sizeof(tmp) - header)));
}

void resp_write_array(struct buf *out, size_t n)
{
	write_header(out, '*', n);
}

void resp_write_bulk_header(struct buf *out, size_t n)
{
	write_header(out, '$', n);
}

void resp_write_bulk(struct buf *out, struct slice s)
{
	char tmp[HEADER_MAX], *header = put_header(tmp + sizeof(tmp), '$', s.n);
	size_t n = (size_t)(tmp + sizeof(tmp) - header);
	char *p = buf_reserve(out, n + s.n + 2);

	memcpy(p, header, n);
	if (s.n)
		memcpy(p + n, s.p, s.n);
	memcpy(p + n + s.n, "\r\n", 2);
	buf_added(out, n + s.n + 2);
}

void resp_write_bulk_str(struct buf *out, const char *s)
{
	resp_write_bulk(out, slice_str(s));
}

void resp_write_bulk_int(struct buf *out, long long v)
{
	char tmp[HEADER_MAX], *p = tmp + sizeof(tmp);
	/* Negating the smallest long long as itself would overflow. */
	uint64_t n = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	do {
		*--p = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	if (v < 0)
		*--p = '-';
	resp_write_bulk(out, slice_of(p, (size_t)(tmp + sizeof(tmp) - p)));
}

void resp_write_request(struct buf *out, const struct slice *argv, size_t n)
{
	resp_write_array(out, n);
	for (size_t i = 0; i < n; i++)
		resp_write_bulk(out, argv[i]);
}
