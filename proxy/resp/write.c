/* SPDX-License-Identifier: BSD-3-Clause */
#include "resp/write.h"

/* A header with any number. */
#define HEADER_MAX (RESP_BULK_SPACE - 2)

const char resp_digit_pairs[2 * 100 + 1] = "0001020304050607080910111213141516171819"
					   "2021222324252627282930313233343536373839"
					   "4041424344454647484950515253545556575859"
					   "6061626364656667686970717273747576777879"
					   "8081828384858687888990919293949596979899";

char *resp_put_long_number(char *p, uint64_t n)
{
	char *end;

	for (uint64_t rest = n; rest >= 10; rest /= 10)
		p++;
	end = p + 1;
	for (; n >= 10; n /= 10)
		*p-- = (char)('0' + n % 10);
	*p = (char)('0' + n);
	return end;
}

static void write_header(struct buf *out, char type, uint64_t n)
{
	char *p = buf_reserve(out, HEADER_MAX);

	buf_added_to(out, resp_put_header(p, type, n));
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
	char *p = buf_reserve(out, RESP_BULK_SPACE + s.n);

	buf_added_to(out, resp_put_bulk(p, s));
}

void resp_write_bulk_int(struct buf *out, long long v)
{
	char text[1 + RESP_DIGITS_MAX], *end = text + sizeof(text), *p = end;
	/* Negating the smallest long long as itself would overflow. */
	uint64_t n = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	if (n < 10 && v >= 0) {
		char bulk[] = "$1\r\n0\r\n";
		bulk[4] = (char)('0' + n);
		buf_append(out, slice_of(bulk, sizeof(bulk) - 1));
		return;
	}
	do {
		*--p = (char)('0' + n % 10);
		n /= 10;
	} while (n);
	if (v < 0)
		*--p = '-';
	resp_write_bulk(out, slice_of(p, (size_t)(end - p)));
}

void resp_write_request(struct buf *out, const struct slice *argv, size_t n)
{
	resp_write_array(out, n);
	for (size_t i = 0; i < n; i++)
		resp_write_bulk(out, argv[i]);
}
