/* SPDX-License-Identifier: BSD-3-Clause */
#include "resp/write.h"

const char resp_digit_pairs[2 * 100 + 1] = "0001020304050607080910111213141516171819"
					   "2021222324252627282930313233343536373839"
					   "4041424344454647484950515253545556575859"
					   "6061626364656667686970717273747576777879"
					   "8081828384858687888990919293949596979899";

static unsigned count_digits(uint64_t n)
{
	uint64_t limit = 10;
	unsigned digits = 1;

	for (; digits < RESP_DIGITS_MAX && n >= limit; limit *= 10)
		digits++;
	return digits;
}

/* Writes the digits from the last to the first, two at a time. */
static char *put_digits(char *p, uint64_t n, unsigned digits)
{
	char *end = p + digits;

	for (p = end; n >= 100; n /= 100) {
		p -= 2;
		memcpy(p, resp_digit_pairs + 2 * (n % 100), 2);
	}
	if (n >= 10)
		memcpy(p - 2, resp_digit_pairs + 2 * n, 2);
	else
		p[-1] = (char)('0' + n);
	return end;
}

char *resp_put_long_number(char *p, uint64_t n)
{
	return put_digits(p, n, count_digits(n));
}

char *resp_put_bulk_long(char *p, long long v)
{
	/* Negate as unsigned, because the smallest long long has no positive counterpart. */
	uint64_t n = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	unsigned digits = count_digits(n);

	p = resp_put_header(p, '$', digits + (v < 0));
	if (v < 0)
		*p++ = '-';
	return resp_put_end(put_digits(p, n, digits));
}

void resp_write_array(struct buf *out, size_t n)
{
	char *p = buf_reserve(out, RESP_HEADER_SPACE);

	buf_added_to(out, resp_put_header(p, '*', n));
}

void resp_write_bulk_int(struct buf *out, long long v)
{
	char *p = buf_reserve(out, RESP_BULK_INT_SPACE);

	buf_added_to(out, resp_put_bulk_int(p, v));
}

void resp_write_request(struct buf *out, const struct slice *argv, size_t n)
{
	resp_write_array(out, n);
	for (size_t i = 0; i < n; i++)
		resp_write_bulk(out, argv[i]);
}

void resp_write_words(struct buf *out, const char *const *words, size_t n)
{
	size_t nwords = 0;

	for (size_t i = 0; i < n; i++)
		nwords += words[i] != NULL;
	resp_write_array(out, nwords);
	for (size_t i = 0; i < n; i++)
		if (words[i])
			resp_write_bulk_str(out, words[i]);
}

void resp_write_inline(struct buf *out, const struct slice *argv, size_t n)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		const unsigned char *arg = (const unsigned char *)argv[i].p;
		char *p = buf_reserve(out, 4 * argv[i].n + 3);

		*p++ = '"';
		for (size_t j = 0; j < argv[i].n; j++) {
			if (arg[j] >= ' ' && arg[j] <= '~' && arg[j] != '"' && arg[j] != '\\') {
				*p++ = (char)arg[j];
				continue;
			}
			*p++ = '\\';
			*p++ = 'x';
			*p++ = digits[arg[j] >> 4];
			*p++ = digits[arg[j] & 15];
		}
		*p++ = '"';
		*p++ = ' ';
		buf_added_to(out, p);
	}
	buf_append(out, SLICE_LIT("\r\n"));
}
