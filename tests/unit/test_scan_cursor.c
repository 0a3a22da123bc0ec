/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The cursor of a SCAN through a cluster.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/scan_cursor.h"
#include "tests/unit/testing.h"
#include "tests/unit/wire.h"

/* Writes the cursor as the client gets it in a reply. */
static void write_reply(const char *reply, const struct scan_cursor *c, struct buf *out)
{
	buf_clear(out);
	scan_cursor_reply(slice_str(reply), c, out);
}

static void assert_reply(const struct scan_cursor *c, const char *reply, const char *expected)
{
	struct buf out = BUF_INIT;

	write_reply(reply, c, &out);
	if (!slice_eq(buf_slice(&out), slice_str(expected)))
		fail_msg("%.*s", (int)buf_len(&out), buf_head(&out));
	buf_release(&out);
}

static void assert_returns(struct scan_cursor c)
{
	struct buf out = BUF_INIT;
	struct scan_cursor back;
	struct slice rest, text;

	write_reply("*2\r\n$1\r\n7\r\n*0\r\n", &c, &out);
	rest = buf_slice(&out);
	for (int i = 0; i < 3; i++) /* the lines `*2`, the length, and the digits */
		assert_true(slice_cut(&rest, '\n', &text));
	text.n--; /* without the CR */
	assert_true(text.n <= 19 && strtoll(text.p, NULL, 10) > 0);
	assert_true(scan_cursor_read(text, &back));
	assert_true(back.at == c.at && back.slot == c.slot && back.mark == c.mark);
	assert_true(slice_eq(rest, SLICE_LIT("*0\r\n")));
	buf_release(&out);
}

/* hasp may have to begin again with a node that has slot 0: that cursor must not mean the end.
 */
TEST(no_cursor_with_a_mark_is_zero)
{
	char address[32];

	for (int port = 7000; port < 8000; port++) {
		snprintf(address, sizeof(address), "127.0.0.1:%d", port);
		assert_in_range(scan_cursor_mark(slice_str(address)), 1, 63);
	}
}

TEST(test_a_cursor_that_was_given_comes_back)
{
	assert_returns((struct scan_cursor){ .at = 1, .slot = 0, .mark = 0 });
	assert_returns((struct scan_cursor){ .at = 0, .slot = 5461, .mark = 0 });
	assert_returns((struct scan_cursor){ .at = 0, .slot = 16383, .mark = 63 });
	assert_returns((struct scan_cursor){ .at = 123456789, .slot = 10923, .mark = 17 });
	/* Cursors are positive for clients that read signed 64-bit numbers. */
	assert_returns((struct scan_cursor){
		.at = ((uint64_t)1 << 43) - 1, .slot = 16383, .mark = 63 });
}

TEST(test_a_scan_begins_with_zero_and_ends_with_it)
{
	struct scan_cursor c;

	assert_true(scan_cursor_read(SLICE_LIT("0"), &c));
	assert_true(c.at == 0 && c.slot == 0 && c.mark == 0);
	assert_reply(NULL, "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n",
	             "*2\r\n$1\r\n0\r\n*1\r\n$1\r\na\r\n");
}

TEST(test_what_is_no_cursor_is_not_read)
{
	static const char *const bad[] = { "-",  "+",   "--1", " 1",
		                           "1 ", "0x1", "a",   "18446744073709551616" };
	struct scan_cursor c;

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (scan_cursor_read(slice_str(bad[i]), &c))
			fail_msg("%s", bad[i]);
}

/* Redis accepts such cursors, too, and begins somewhere. */
TEST(test_a_cursor_that_was_never_given_is_one)
{
	static const struct {
		struct slice text;
		struct scan_cursor c;
	} foreign[] = {
		{ SLICE_LIT("9223372036854775808"), { 0 } },
		{ SLICE_LIT("9223372036854775809"), { .slot = 1 } },
		{ SLICE_LIT("18446744073709551615"),
		  { .at = ((uint64_t)1 << 43) - 1, .slot = 16383, .mark = 63 } },
		{ SLICE_LIT("-1"),
		  { .at = ((uint64_t)1 << 43) - 1, .slot = 16383, .mark = 63 } },
		{ SLICE_LIT("+2"), { .slot = 2 } },
		{ SLICE_LIT("3\0x"), { .slot = 3 } },
		{ SLICE_LIT(""), { 0 } },
	};
	struct scan_cursor c;

	for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++) {
		assert_true(scan_cursor_read(foreign[i].text, &c));
		assert_true(c.at == foreign[i].c.at && c.slot == foreign[i].c.slot &&
		            c.mark == foreign[i].c.mark);
	}
}

TEST(test_the_node_gets_a_cursor_of_its_own)
{
	static const struct slice argv[] = { SLICE_LIT("SCAN"), SLICE_LIT("99"),
		                             SLICE_LIT("MATCH"), SLICE_LIT("*") };
	struct resp_view req = { 4, argv };
	struct scan_cursor c = { .at = 288230376151711744u >> 20, .slot = 3, .mark = 5 };
	struct buf out = BUF_INIT;

	scan_cursor_request(&req, &c, &out);
	assert_wire(buf_slice(&out), "SCAN 274877906944 MATCH *\n");
	buf_release(&out);
}

TEST(test_a_nodes_cursor_is_read_from_its_reply)
{
	uint64_t at;

	assert_true(scan_cursor_of_reply(
		SLICE_LIT("*2\r\n$3\r\n288\r\n*2\r\n$1\r\na\r\n$0\r\n\r\n"), &at));
	assert_int_equal(at, 288);
	assert_true(scan_cursor_of_reply(SLICE_LIT("*2\r\n$1\r\n0\r\n*0\r\n"), &at));
	assert_int_equal(at, 0);
	assert_false(scan_cursor_of_reply(SLICE_LIT("-ERR syntax error\r\n"), &at));
	assert_false(scan_cursor_of_reply(SLICE_LIT("*2\r\n$-1\r\n*0\r\n"), &at));
	assert_false(scan_cursor_of_reply(SLICE_LIT("*2\r\n$1\r\nx\r\n*0\r\n"), &at));
}

TEST(test_an_error_stays_what_it_is)
{
	struct scan_cursor c = { .at = 1 };

	assert_reply(&c, "-ERR syntax error\r\n", "-ERR syntax error\r\n");
}

TEST(test_a_cursor_that_does_not_fit_is_an_error)
{
	struct scan_cursor c = { .at = (uint64_t)1 << 43 };

	assert_reply(
		&c, "*2\r\n$13\r\n8796093022208\r\n*0\r\n",
		"-ERR hasp: a node of the cluster returned a cursor that is too large\r\n");
}

TEST(test_most_nodes_have_marks_of_their_own)
{
	unsigned seen[64] = { 0 };

	for (unsigned port = 7000; port < 7064; port++) {
		char name[32];
		uint8_t mark;

		snprintf(name, sizeof(name), "10.0.0.1:%u", port);
		mark = scan_cursor_mark(slice_str(name));
		assert_true(mark < 64);
		seen[mark]++;
	}
	for (size_t i = 0; i < 64; i++)
		assert_true(seen[i] < 8);
}
