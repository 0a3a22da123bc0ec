/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the console's rows, in RESP2 and RESP3.
 */

#include "admin/admin_internal.h"
#include "tests/unit/testing.h"

static void assert_shown(struct rows *r, const char *expected)
{
	struct buf out = BUF_INIT;

	rows_end(r, &out);
	buf_append(&out, slice_of("", 1));
	assert_string_equal(buf_head(&out), expected);
	buf_release(&out);
	rows_fini(r);
}

TEST(nothing_to_show_is_an_empty_array)
{
	struct rows r;

	rows_init(&r, 2);
	assert_shown(&r, "*0\r\n");
	rows_init(&r, 3);
	assert_shown(&r, "*0\r\n");
}

static void add_two_rows(struct rows *r)
{
	rows_begin(r, 2);
	rows_add_str(r, "key", "a");
	rows_add_int(r, "n", -7);
	rows_begin(r, 2);
	rows_add_text(r, "key", slice_of("b\0\r\n", 4));
	rows_add_str(r, "n", NULL);
}

static void assert_two_rows(int protocol, const char *expected, size_t n)
{
	struct buf out = BUF_INIT;
	struct rows r;

	rows_init(&r, protocol);
	add_two_rows(&r);
	rows_end(&r, &out);
	assert_int_equal(buf_len(&out), n);
	assert_memory_equal(buf_head(&out), expected, n);
	buf_release(&out);
	rows_fini(&r);
}

TEST(a_row_is_a_flat_array_in_resp2)
{
	static const char expected[] = "*2\r\n"
				       "*4\r\n$3\r\nkey\r\n$1\r\na\r\n$1\r\nn\r\n:-7\r\n"
				       "*4\r\n$3\r\nkey\r\n$4\r\nb\0\r\n\r\n$1\r\nn\r\n$-1\r\n";

	assert_two_rows(2, expected, sizeof(expected) - 1);
}

TEST(a_row_is_a_map_in_resp3)
{
	static const char expected[] = "*2\r\n"
				       "%2\r\n$3\r\nkey\r\n$1\r\na\r\n$1\r\nn\r\n:-7\r\n"
				       "%2\r\n$3\r\nkey\r\n$4\r\nb\0\r\n\r\n$1\r\nn\r\n_\r\n";

	assert_two_rows(3, expected, sizeof(expected) - 1);
}
