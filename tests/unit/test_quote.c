/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/quote.c: bytes from peers cannot forge anything in the log.
 */
#include <string.h>

#include "base/quote.h"
#include "tests/unit/testing.h"

TEST(what_is_plain_stays_so)
{
	assert_string_equal(QUOTE_STR("lock:order:7 {a}"), "\"lock:order:7 {a}\"");
	assert_string_equal(QUOTE(SLICE_NONE), "\"\"");
}

TEST(no_byte_ends_the_quotes_or_the_line)
{
	struct quoted q;

	for (int c = 0; c < 256; c++) {
		char byte = (char)c;
		const char *text = quote(&q, slice_of(&byte, 1), 1);
		size_t n = strlen(text);
		assert_true(text[0] == '"' && text[n - 1] == '"');
		for (size_t i = 0; i < n; i++)
			assert_in_range(text[i], ' ', '~');
		if (c == '"' || c == '\\')
			assert_true(n == 4 && text[1] == '\\' && text[2] == byte);
		else if (c < ' ' || c > '~')
			assert_true(n == 6 && text[1] == '\\' && text[2] == 'x');
		else
			assert_true(n == 3 && text[1] == byte);
	}
	assert_string_equal(QUOTE(SLICE_LIT("k\" lost=7\n\0\x9b")),
	                    "\"k\\\" lost=7\\x0a\\x00\\x9b\"");
}

TEST(what_is_long_is_cut)
{
	char text[QUOTE_MAX + 1];
	struct quoted q;
	size_t n;

	memset(text, '\n', sizeof(text));
	n = strlen(quote(&q, slice_of(text, QUOTE_MAX), QUOTE_MAX));
	assert_int_equal(n, 4 * QUOTE_MAX + 2);
	n = strlen(quote(&q, slice_of(text, sizeof(text)), sizeof(text)));
	assert_int_equal(n, 4 * QUOTE_MAX + 5);
	assert_string_equal(quote(&q, SLICE_LIT("abcdef"), 3), "\"abc...\"");
}

TEST(a_terminal_gets_characters_and_no_controls)
{
	struct buf out = BUF_INIT;

	quote_append(&out, SLICE_LIT("k\xc3\xa4 \"\\\x1b[2J\n\xc2\x9b\xc2\xa0\x9b\0\x7f"));
	assert_true(slice_eq(buf_slice(&out),
	                     SLICE_LIT("k\xc3\xa4 \"\\\\x1b[2J\\x0a\\xc2\\x9b\xc2\xa0\\x9b"
	                               "\\x00\\x7f")));
	buf_release(&out);
}
