/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of resp/write: numbers have only the digits that they need, lengths count bytes, and an
 * inline request keeps every byte of its arguments.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "resp/request.h"
#include "resp/write.h"
#include "tests/unit/testing.h"

static void assert_header(uint64_t n)
{
	char expected[64], written[RESP_HEADER_SPACE];
	int len = snprintf(expected, sizeof(expected), "$%llu\r\n", (unsigned long long)n);

	assert_ptr_equal(resp_put_header(written, '$', n), written + len);
	assert_memory_equal(written, expected, (size_t)len);
}

TEST(test_a_header_has_the_number_in_decimal)
{
	uint64_t power = 1;

	for (uint64_t n = 0; n <= 1001; n++)
		assert_header(n);
	for (int digits = 1; digits <= RESP_DIGITS_MAX; digits++, power *= 10) {
		assert_header(power - 1);
		assert_header(power);
		assert_header(power + 1);
	}
	assert_header(UINT64_MAX);
}

TEST(test_an_integer_is_a_bulk_of_its_decimal)
{
	static const long long numbers[] = { 0,  9,  10,  99,  100,  LLONG_MAX,
		                             -1, -9, -10, -99, -100, LLONG_MIN };

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		char text[32], expected[64];
		struct buf out = BUF_INIT;

		snprintf(text, sizeof(text), "%lld", numbers[i]);
		snprintf(expected, sizeof(expected), "$%zu\r\n%s\r\n", strlen(text), text);
		resp_write_bulk_int(&out, numbers[i]);
		assert_true(slice_eq(buf_slice(&out), slice_str(expected)));
		buf_release(&out);
	}
}

TEST(test_absent_words_are_left_out)
{
	const char *const words[] = { NULL, "AUTH", NULL, "", "pw", NULL };
	struct buf out = BUF_INIT;

	resp_write_words(&out, words, 6);
	resp_write_words(&out, words, 1);
	assert_true(slice_eq(buf_slice(&out),
	                     SLICE_LIT("*3\r\n$4\r\nAUTH\r\n$0\r\n\r\n$2\r\npw\r\n*0\r\n")));
	buf_release(&out);
}

TEST(test_an_inline_request_keeps_every_byte)
{
	char bytes[256];
	const struct slice argv[] = { SLICE_LIT("EVAL"), slice_of("", 0),
		                      slice_of(bytes, sizeof(bytes)), SLICE_LIT("a 'b' \"c") };
	struct request_args args = { 0 };
	struct buf out = BUF_INIT;
	struct resp_view view;
	bool whole;

	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char)i;
	resp_write_inline(&out, argv, 4);
	assert_ptr_equal(memchr(buf_head(&out), '\n', buf_len(&out)),
	                 buf_head(&out) + buf_len(&out) - 1);
	view = request_view(&args, buf_head(&out), buf_len(&out), &whole);
	assert_true(whole);
	assert_int_equal(view.argc, 4);
	for (size_t i = 0; i < 4; i++)
		assert_true(slice_eq(view.argv[i], argv[i]));
	request_args_fini(&args);
	buf_release(&out);
}
