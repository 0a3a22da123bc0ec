/* SPDX-License-Identifier: BSD-3-Clause */
#include "resp/write.h"

#include <stdint.h>

/* type + 20 digits and a sign + CRLF */
#define HEADER_MAX 24

static void write_header(struct buf *out, char type, uint64_t n)
{
	char tmp[HEADER_MAX], *p = tmp + sizeof(tmp);

	*--p = '\n';
	*--p = '\r';
	do {
		*--p = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	*--p = type;
	buf_append(out, slice_of(p, (size_t)(tmp + sizeof(tmp) - p)));
}

void resp_write_array(struct buf *out, size_t n)
{
	write_header(out, '*', n);
}

void resp_write_bulk(struct buf *out, struct slice s)
{
	buf_reserve(out, s.n + HEADER_MAX + 2);
	write_header(out, '$', s.n);
	buf_append(out, s);
	buf_append(out, SLICE_LIT("\r\n"));
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
