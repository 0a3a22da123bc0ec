/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of resp/reply.c: replies begin and end as RESP2 and RESP3 define, however their bytes
 * arrive, and bytes that are no RESP are refused. tests/fuzz tries random bytes.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "resp/reply.h"
#include "tests/unit/testing.h"
#include "tests/unit/ways.h"

/* Scans a copy without room after the last byte, so that ASan sees a read past it. */
static enum resp_result scan_copy(struct reply_scan *s, struct slice bytes, size_t *used)
{
	char *copy = malloc(bytes.n);
	enum resp_result r;

	assert_non_null(copy);
	memcpy(copy, bytes.p, bytes.n);
	r = reply_scan(s, copy, bytes.n, used);
	free(copy);
	assert_true(*used <= bytes.n);
	return r;
}

/* Asserts over how many bytes and replies one call passes. */
static void assert_passed(struct slice stream, uint32_t max, uint32_t count, size_t nbytes)
{
	char *copy = malloc(stream.n);
	size_t used = 0;

	assert_non_null(copy);
	memcpy(copy, stream.p, stream.n);
	assert_int_equal(
		reply_skip_simple(&(struct reply_alike){ 0 }, copy, stream.n, max, &used),
		count);
	assert_int_equal(used, nbytes);
	free(copy);
}

/* The scan of a stream of which some bytes have arrived. */
struct run {
	struct reply_scan scan;
	size_t at; /* bytes that were consumed */
	bool bad;
	const char *expected;
	struct buf told; /* the replies found, as assert_replies() writes them */
};

static void begin(void *arg)
{
	struct run *run = arg;

	*run = (struct run){ .expected = run->expected };
}

static void notify(struct run *run)
{
	const struct resp_reply *r = &run->scan.reply;
	struct slice first = reply_scan_first(&run->scan);

	buf_printf(&run->told, "%c%zu", r->type, run->at);
	if (r->nil)
		buf_puts(&run->told, "nil");
	if (r->integer)
		buf_printf(&run->told, "=%lld", r->integer);
	if (first.n)
		buf_printf(&run->told, "(%.*s)", (int)first.n, first.p);
	buf_puts(&run->told, " ");
}

/* The first `upto` bytes of the stream have arrived. */
static void arrive(void *arg, struct slice stream, size_t upto)
{
	struct run *run = arg;
	while (!run->bad && run->at < upto) {
		size_t used;
		enum resp_result r = scan_copy(
			&run->scan, slice_of(stream.p + run->at, upto - run->at), &used);

		run->at += used;
		if (r == RESP_OK)
			notify(run);
		if (r == RESP_BAD)
			buf_printf(&run->told, "!%zu ", run->at);
		run->bad = r == RESP_BAD;
		/* Each further byte must be consumed, or the scan would never end. */
		assert_true(used > 0);
		assert_true(r != RESP_MORE || run->at == upto);
		assert_int_equal(reply_scan_at_start(&run->scan), r == RESP_OK);
	}
}

static void assert_told(void *arg, struct slice stream, const char *how, size_t cut)
{
	struct run *run = arg;
	struct slice told;

	if (!run->bad && !reply_scan_at_start(&run->scan))
		buf_puts(&run->told, "more ");
	assert_int_equal(run->bad || run->at == stream.n, true);
	told = buf_slice(&run->told);
	if (told.n)
		told.n--;
	if (!slice_eq(told, slice_str(run->expected)))
		fail_msg("%s %zu: \"%.*s\" instead of \"%s\"", how, cut, (int)told.n, told.p,
		         run->expected);
	buf_release(&run->told);
}

/* `expected` has for each reply its type, its end, "nil", "=" and its integer unless 0, and
 * its first element in parentheses; then "!" and the offset of a byte that is no RESP; "more"
 * if the stream ends within a reply. Scans whole, byte by byte and at every split. */
static void assert_replies(struct slice stream, const char *expected)
{
	static const struct ways ways = { begin, arrive, assert_told };
	struct run run = { .expected = expected };

	ways_try(&ways, &run, stream);
}

#define REPLIES(literal, expected) assert_replies(SLICE_LIT(literal), expected)

/* --- every type ------------------------------------------------------------- */

TEST(lines_end_at_crlf)
{
	REPLIES("+OK\r\n", "+5");
	REPLIES("+\r\n", "+3");
	REPLIES("-ERR no\r\n", "-9");
	REPLIES(",3.14\r\n", ",7");
	REPLIES(",inf\r\n", ",6");
	REPLIES("#t\r\n", "#4");
	REPLIES("(3492890328409238509324850943850943825024385\r\n", "(46");
	REPLIES("+a\0b\r\n", "+6");
}

/* A module's status may contain either byte. */
TEST(a_cr_or_lf_alone_ends_no_line)
{
	REPLIES("+a\rb\r\n", "+6");
	REPLIES("+a\nb\r\n", "+6");
	REPLIES("+a\r\r\n", "+5");
	REPLIES("+a\r\r\r", "more");
	REPLIES("+a\n", "more");
}

TEST(integers_are_told)
{
	REPLIES(":0\r\n", ":4");
	REPLIES(":1000\r\n", ":7=1000");
	REPLIES(":-5\r\n", ":5=-5");
	REPLIES(":+5\r\n", ":5=5");
	REPLIES(":1795349897965884\r\n", ":19=1795349897965884");
	REPLIES(":999999999999999999\r\n", ":21=999999999999999999");
	REPLIES(":9223372036854775807\r\n", ":22=9223372036854775807");
	REPLIES(":-9223372036854775808\r\n", ":23=-9223372036854775808");
}

TEST(bulks_end_where_their_length_says)
{
	REPLIES("$3\r\nabc\r\n", "$9");
	REPLIES("$0\r\n\r\n", "$6");
	REPLIES("$6\r\n+a\r\n:1\r\n", "$12");
	REPLIES("$2\r\n\0\xff\r\n", "$8");
	REPLIES("=7\r\ntxt:abc\r\n", "=13");
	REPLIES("!9\r\nERR wrong\r\n", "!15");
}

TEST(nothing_is_told_in_three_ways)
{
	REPLIES("$-1\r\n", "$5nil");
	REPLIES("*-1\r\n", "*5nil");
	REPLIES("_\r\n", "_3nil");
}

TEST(aggregates_end_behind_their_last_element)
{
	REPLIES("*0\r\n", "*4");
	REPLIES("*2\r\n:1\r\n:2\r\n", "*12=2");
	REPLIES("~1\r\n+a\r\n", "~8");
	REPLIES("%1\r\n+k\r\n+v\r\n", "%12");
	REPLIES("%0\r\n", "%4");
	REPLIES("~0\r\n", "~4");
	REPLIES(">2\r\n+a\r\n+b\r\n", ">12");
}

TEST(aggregates_nest)
{
	REPLIES("*2\r\n*2\r\n:1\r\n*0\r\n*1\r\n$1\r\na\r\n", "*27=1");
	REPLIES("%2\r\n+a\r\n*2\r\n:1\r\n:2\r\n+b\r\n%1\r\n_\r\n#f\r\n", "%35=2");
	REPLIES("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n", "*44=7");
	REPLIES("*2\r\n*0\r\n~0\r\n+x\r\n", "*12 +16");
}

TEST(replies_follow_each_other)
{
	REPLIES("+OK\r\n:1\r\n$-1\r\n*1\r\n:2\r\n_\r\n", "+5 :9=1 $14nil *22=2 _25nil");
	REPLIES("*1\r\n:2\r\n*0\r\n-E\r\n", "*8=2 *12 -16");
}

/* --- what is told of a reply is told of itself --------------------------------- */

TEST(an_element_that_is_nil_does_not_make_the_reply_nil)
{
	REPLIES("*1\r\n$-1\r\n", "*9");
	REPLIES("*2\r\n:1\r\n*-1\r\n", "*13=1");
	REPLIES("*2\r\n$-1\r\n+OK\r\n", "*14");
	REPLIES("*1\r\n_\r\n", "*7");
}

static bool has_nil(const char *text)
{
	struct reply_scan scan = { 0 };
	size_t used;

	assert_int_equal(reply_scan(&scan, text, strlen(text), &used), RESP_OK);
	return scan.reply.has_nil;
}

TEST(a_reply_tells_whether_something_within_it_is_nil)
{
	assert_true(has_nil("*2\r\n$1\r\na\r\n$-1\r\n"));
	assert_true(has_nil("*2\r\n_\r\n$1\r\na\r\n"));
	assert_true(has_nil("*1\r\n*1\r\n*-1\r\n"));
	assert_false(has_nil("*2\r\n$1\r\na\r\n:-1\r\n"));
	assert_false(has_nil("$-1\r\n"));
	assert_false(has_nil("_\r\n"));
}

TEST(an_error_inside_is_no_error)
{
	struct resp_reply array = { .type = '*' }, error = { .type = '-' };
	struct resp_reply bulk_error = { .type = '!' };

	REPLIES("*1\r\n-ERR x\r\n", "*12");
	assert_false(resp_reply_is_error(&array));
	assert_true(resp_reply_is_error(&error));
	assert_true(resp_reply_is_error(&bulk_error));
}

TEST(the_first_element_is_told_when_it_is_a_bulk)
{
	REPLIES("*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n", "*30=1(subscribe)");
	REPLIES(">3\r\n$12\r\npunsubscribe\r\n$-1\r\n:0\r\n", ">32(punsubscribe)");
	REPLIES("*1\r\n$0\r\n\r\n", "*10");
	REPLIES("*2\r\n+simple\r\n$3\r\nabc\r\n", "*22");
	REPLIES("*2\r\n:1\r\n$3\r\nabc\r\n", "*17=1");
	REPLIES("*2\r\n$-1\r\n$3\r\nabc\r\n", "*18");
	REPLIES("*1\r\n=7\r\ntxt:abc\r\n", "*17");
	REPLIES("$3\r\nabc\r\n", "$9");
}

TEST(a_long_first_element_is_cut)
{
	REPLIES("*1\r\n$20\r\n01234567890123456789\r\n", "*31(01234567890123)");
}

TEST(a_first_element_of_an_element_is_none)
{
	REPLIES("*1\r\n*1\r\n$7\r\nmessage\r\n", "*21");
	REPLIES("*2\r\n:1\r\n*1\r\n$7\r\nmessage\r\n", "*25=1");
	REPLIES("*2\r\n*0\r\n$7\r\nmessage\r\n", "*21");
}

TEST(a_reply_is_told_without_what_came_before_it)
{
	REPLIES("*2\r\n$1\r\na\r\n:5\r\n+OK\r\n*0\r\n", "*15=5(a) +20 *24");
	REPLIES("$-1\r\n$1\r\na\r\n", "$5nil $12");
}

/* --- attributes ------------------------------------------------------------- */

TEST(attributes_belong_to_the_reply_behind_them)
{
	REPLIES("|1\r\n+ttl\r\n+v\r\n:5\r\n", ":18=5");
	REPLIES("|0\r\n+OK\r\n", "+9");
	REPLIES("|1\r\n+k\r\n+v\r\n$-1\r\n", "$17nil");
	REPLIES("|1\r\n+k\r\n+v\r\n|1\r\n+k\r\n+v\r\n-E\r\n", "-28");
	REPLIES("|1\r\n+k\r\n*2\r\n:1\r\n%1\r\n+a\r\n+b\r\n_\r\n", "_31nil=1");
	REPLIES("|1\r\n+k\r\n|1\r\n+a\r\n+b\r\n+v\r\n#t\r\n", "#28");
	REPLIES("|1\r\n+k\r\n_\r\n*1\r\n$3\r\nabc\r\n", "*24(abc)");
	REPLIES("|1\r\n$1\r\nk\r\n$-1\r\n+OK\r\n", "+21");
	REPLIES("|1\r\n+k\r\n+v\r\n", "more");
}

TEST(attributes_of_elements_are_no_elements)
{
	REPLIES("*2\r\n|1\r\n+k\r\n+v\r\n:1\r\n:2\r\n", "*24=2");
	REPLIES("*1\r\n:1\r\n|1\r\n+k\r\n+v\r\n:2\r\n", "*8=1 :24=2");
	REPLIES("*1\r\n|1\r\n+k\r\n_\r\n*1\r\n$-1\r\n", "*24");
}

/* --- what is no RESP ---------------------------------------------------------- */

TEST(a_type_must_be_known)
{
	REPLIES("a", "!1");
	REPLIES("\r\n", "!1");
	REPLIES("\n", "!1");
	REPLIES("\0", "!1");
	REPLIES("\xff", "!1");
	REPLIES("HTTP/1.1 400\r\n", "!1");
	REPLIES("+OK\r\nOK\r\n", "+5 !6");
	REPLIES("*1\r\nx", "!5");
	/* Streamed strings and aggregates, which Redis never sends. */
	REPLIES("$?\r\n", "!2");
	REPLIES("*?\r\n", "!2");
	REPLIES(";4\r\n", "!1");
	REPLIES(".\r\n", "!1");
}

TEST(a_number_must_be_one)
{
	REPLIES(":\r\n", "!2");
	REPLIES(":a\r\n", "!2");
	REPLIES(":1a\r\n", "!3");
	REPLIES(":1.5\r\n", "!3");
	REPLIES(": 1\r\n", "!2");
	REPLIES(":-\r\n", "!3");
	REPLIES(":--1\r\n", "!3");
	REPLIES(":++1\r\n", "!3");
	REPLIES(":+-1\r\n", "!3");
	REPLIES(":1-\r\n", "!3");
	REPLIES("$\r\n", "!2");
	REPLIES("*x\r\n", "!2");
	REPLIES("$+1\r\n", "!2");
	REPLIES("*+1\r\n", "!2");
	REPLIES(":1\rX", "!4");
	REPLIES(":1\n", "!3");
	REPLIES("$1\r\r", "!4");
}

TEST(a_number_fits_64_bits)
{
	REPLIES(":9223372036854775808\r\n", "!20");
	REPLIES(":-9223372036854775809\r\n", "!21");
	REPLIES(":99999999999999999999\r\n", "!20");
	REPLIES("$9223372036854775808\r\n", "!20");
	REPLIES("$-9999999999999999999\r\n", "!21");
	REPLIES("*18446744073709551617\r\n", "!21");
	REPLIES(":00000000000000000001\r\n", "!21");
}

TEST(only_nil_is_shorter_than_nothing)
{
	REPLIES("$-2\r\n", "!5");
	REPLIES("$-0\r\n", "!5");
	REPLIES("*-2\r\n", "!5");
	REPLIES("=-1\r\n", "!5");
	REPLIES("!-1\r\n", "!5");
	REPLIES("%-1\r\n", "!5");
	REPLIES("~-1\r\n", "!5");
	REPLIES(">-1\r\n", "!5");
	REPLIES("|-1\r\n", "!5");
}

TEST(a_bulk_must_end_with_crlf)
{
	REPLIES("$3\r\nabcde\r\n", "!8");
	REPLIES("$3\r\nabc\rx", "!9");
	REPLIES("$3\r\nabc\n", "!8");
	REPLIES("$0\r\n+OK\r\n", "!5");
	REPLIES("$-1\r\n\r\n", "$5nil !6");
}

TEST(a_huge_bulk_is_waited_for)
{
	struct reply_scan scan = { 0 };
	char block[4096] = { 0 };
	size_t used;

	REPLIES("$9223372036854775807\r\nabc", "more");
	assert_int_equal(reply_scan(&scan, "$536870912\r\n", 12, &used), RESP_MORE);
	for (size_t i = 0; i < 536870912 / sizeof(block); i++) {
		assert_int_equal(reply_scan(&scan, block, sizeof(block), &used), RESP_MORE);
		assert_int_equal(used, sizeof(block));
	}
	assert_int_equal(reply_scan(&scan, "\r\n+", 3, &used), RESP_OK);
	assert_int_equal(used, 2);
}

/* The scan counts elements; it reserves no memory for them. */
TEST(a_huge_aggregate_is_waited_for_within_reason)
{
	REPLIES("*2147483647\r\n:1\r\n", "more");
	REPLIES("*9223372036854775807\r\n", "!22");
	REPLIES("%9223372036854775807\r\n", "!22");
	REPLIES("*1099511627775\r\n*1099511627775\r\n", "!32");
}

TEST(nesting_has_no_end_that_costs_memory)
{
	struct reply_scan scan = { 0 };
	size_t used;

	for (int i = 0; i < 100000; i++)
		assert_int_equal(reply_scan(&scan, "*1\r\n", 4, &used), RESP_MORE);
	assert_int_equal(reply_scan(&scan, ":1\r\n", 4, &used), RESP_OK);
}

/* --- elements --------------------------------------------------------------- */

/* `expected` has for each element its type, "nil", "=" and its integer unless 0. */
static void assert_elements(struct slice frame, const char *expected)
{
	char *copy = malloc(frame.n ? frame.n : 1);
	struct slice elements;
	struct resp_reply r;
	struct buf told = BUF_INIT;

	assert_non_null(copy);
	memcpy(copy, frame.p, frame.n);
	elements = reply_elements(slice_of(copy, frame.n));
	while (reply_next(&elements, &r)) {
		buf_printf(&told, "%c%s", r.type, r.nil ? "nil" : "");
		if (r.integer)
			buf_printf(&told, "=%lld", r.integer);
		buf_puts(&told, " ");
	}
	if (!slice_eq(buf_slice(&told), slice_str(expected)))
		fail_msg("\"%.*s\" instead of \"%s\"", (int)buf_len(&told), buf_head(&told),
		         expected);
	buf_release(&told);
	free(copy);
}

#define ELEMENTS(literal, expected) assert_elements(SLICE_LIT(literal), expected)

TEST(an_aggregate_s_elements_are_told_one_by_one)
{
	ELEMENTS("*3\r\n+OK\r\n:7\r\n$-1\r\n", "+ :=7 $nil ");
	ELEMENTS("*2\r\n*2\r\n:1\r\n:2\r\n-ERR x\r\n", "*=2 - ");
	ELEMENTS("~1\r\n_\r\n", "_nil ");
	ELEMENTS(">1\r\n$2\r\n\r\n\r\n", "$ ");
	ELEMENTS("*2\r\n|1\r\n+k\r\n+v\r\n:1\r\n#t\r\n", ":=1 # ");
	ELEMENTS("*0\r\n", "");
}

TEST(what_is_no_aggregate_has_no_elements)
{
	ELEMENTS("", "");
	ELEMENTS("*-1\r\n", "");
	ELEMENTS("+OK\r\n", "");
	ELEMENTS("-EXECABORT x\r\n", "");
	ELEMENTS("$8\r\n*1\r\n:1\r\n\r\n", "");
	ELEMENTS("*1", "");
}

TEST(elements_that_are_not_whole_are_not_told)
{
	ELEMENTS("*2\r\n:1\r\n:2", ":=1 ");
	ELEMENTS("*2\r\n:1\r\n$9\r\nab", ":=1 ");
	ELEMENTS("*1\r\nx\r\n", "");
}

/* --- runs ------------------------------------------------------------------- */

TEST(simple_replies_are_passed_over_in_a_run)
{
	assert_passed(SLICE_LIT("+OK\r\n:12\r\n$3\r\nabc\r\n$-1\r\n$0\r\n\r\n"), 9, 5, 30);
}

TEST(no_more_are_passed_over_than_are_due)
{
	assert_passed(SLICE_LIT("+OK\r\n+OK\r\n+OK\r\n"), 2, 2, 10);
}

TEST(a_run_ends_before_what_must_be_looked_at)
{
	assert_passed(SLICE_LIT("+OK\r\n-ERR no\r\n+OK\r\n"), 9, 1, 5);
	assert_passed(SLICE_LIT("+OK\r\n>1\r\n+x\r\n"), 9, 1, 5);
	assert_passed(SLICE_LIT("+OK\r\n*1\r\n+x\r\n"), 9, 1, 5);
	assert_passed(SLICE_LIT("+OK\r\n:-1\r\n"), 9, 1, 5);
	assert_passed(SLICE_LIT("+OK\r\n$2\r\nabc\r\n"), 9, 1, 5);
	assert_passed(SLICE_LIT("+OK\r\n+a\rb\r\n"), 9, 1, 5);
}

TEST(a_run_ends_before_what_is_not_whole)
{
	struct slice stream = SLICE_LIT("+OK\r\n$12\r\n0123456789ab\r\n");

	for (size_t n = 5; n < stream.n; n++)
		assert_passed(slice_of(stream.p, n), 9, 1, 5);
	assert_passed(stream, 9, 2, stream.n);
}

TEST(replies_like_the_last_one_are_passed_over)
{
	assert_passed(SLICE_LIT("$3\r\nabc\r\n$3\r\ndef\r\n$3\r\nghi\r\n"), 9, 3, 27);
	assert_passed(SLICE_LIT(":12\r\n:12\r\n:12\r\n:34\r\n:5\r\n"), 9, 5, 24);
	assert_passed(SLICE_LIT("$-1\r\n$-1\r\n$-1\r\n$1\r\na\r\n"), 9, 4, 22);
	assert_passed(SLICE_LIT("+OK\r\n+OK\r\n+OK\r\n+PONG\r\n"), 9, 4, 22);
}

TEST(a_reply_is_like_the_last_one_by_its_whole_header)
{
	assert_passed(SLICE_LIT("$3\r\nabc\r\n$34\r\nabcdefghijklmnopqrstuvwxyz01234567\r\n"),
	              9, 2, 50);
	assert_passed(SLICE_LIT("$1\r\na\r\n$10\r\n\r\n34567890\r\n"), 9, 2, 24);
	assert_passed(SLICE_LIT(":1\r\n:12345678\r\n:1\r\n:2\r\n:12\r\n"), 9, 5, 28);
	assert_passed(SLICE_LIT("$3\r\nabc\r\n-ERR no\r\n$3\r\nabc\r\n"), 9, 1, 9);
	assert_passed(SLICE_LIT("$3\r\nabc\r\n*3\r\n:1\r\n:2\r\n:3\r\n"), 9, 1, 9);
}

TEST(a_reply_like_the_last_one_must_end_as_it_did)
{
	struct slice twice = SLICE_LIT("$3\r\nabc\r\n$3\r\ndef\r\n");

	assert_passed(SLICE_LIT("$3\r\nabc\r\n$3\r\nabcde\r\n"), 9, 1, 9);
	assert_passed(SLICE_LIT("$3\r\nabc\r\n$3\r\nabc\ra$3\r\nabc\r\n"), 9, 1, 9);
	for (size_t n = 9; n < twice.n; n++)
		assert_passed(slice_of(twice.p, n), 9, 1, 9);
}
