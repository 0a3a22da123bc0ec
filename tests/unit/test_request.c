/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of resp/request.c: requests begin and end as in Redis, however their bytes arrive, and
 * the same requests are refused. All expectations, also the odd ones, were taken from a Redis
 * 7.0.15. tests/fuzz tries random bytes. Requests that hasp writes are also tested.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "resp/request.h"
#include "resp/write.h"
#include "tests/unit/testing.h"
#include "tests/unit/ways.h"

/* Scans a copy without room after the last byte, so that ASan sees a read past it. */
static enum resp_result scan_copy(struct request_scan *s, struct slice bytes, size_t *used)
{
	char *copy = malloc(bytes.n);
	enum resp_result r;

	assert_non_null(copy);
	memcpy(copy, bytes.p, bytes.n);
	r = request_scan(s, copy, bytes.n, used, NULL);
	free(copy);
	assert_true(*used <= bytes.n);
	assert_true(r == RESP_BAD || !s->unbalanced);
	return r;
}

/* The scan of a stream of which some bytes have arrived. */
struct run {
	struct request_scan scan;
	size_t at; /* bytes that were consumed */
	bool bad;
	const char *expected;
	struct buf told; /* the requests found, as assert_framed() writes them */
};

static void begin(void *arg)
{
	struct run *run = arg;

	*run = (struct run){ .expected = run->expected };
}

/* The first `upto` bytes of the stream have arrived. */
static void arrive(void *arg, struct slice stream, size_t upto)
{
	struct run *run = arg;
	enum resp_result r = RESP_OK;

	while (!run->bad && r != RESP_MORE && run->at < upto) {
		size_t used;
		r = scan_copy(&run->scan, slice_of(stream.p + run->at, upto - run->at), &used);
		run->at += used;
		if (r == RESP_OK)
			buf_printf(&run->told, run->scan.empty ? "(%zu) " : "%zu ", run->at);
		if (r == RESP_BAD)
			buf_printf(&run->told, "!%zu ", run->at);
		run->bad = r == RESP_BAD;
	}
}

static void assert_told(void *arg, struct slice stream, const char *how, size_t cut)
{
	struct run *run = arg;

	if (!run->bad && (run->at < stream.n || run->scan.state))
		buf_puts(&run->told, "more ");
	buf_append(&run->told, slice_of("", 1));
	if (strncmp(buf_head(&run->told), run->expected, strlen(run->expected)) != 0 ||
	    strlen(buf_head(&run->told)) != strlen(run->expected) + (*run->expected != '\0'))
		fail_msg("%s %zu: \"%s\" instead of \"%s\"", how, cut, buf_head(&run->told),
		         run->expected);
	buf_release(&run->told);
}

/* `expected` has the end of each request ("14"), in parentheses if it is empty ("(4)"), the
 * offset of the last byte of a line that is refused ("!5"), and "more" if the stream ends
 * within a request. Scans whole, byte by byte and at every split. */
static void assert_framed(struct slice stream, const char *expected)
{
	static const struct ways ways = { begin, arrive, assert_told };
	struct run run = { .expected = expected };

	ways_try(&ways, &run, stream);
}

#define FRAMED(literal, expected) assert_framed(SLICE_LIT(literal), expected)

/* Asserts the arguments that request_scan() and request_view() find in one whole
 * request. */
static void assert_argv(struct slice request, const struct slice *argv, size_t argc)
{
	struct request_args args = { 0 };
	struct request_scan scan = { 0 };
	struct resp_view view;
	char *copy = malloc(request.n);
	size_t used;
	bool whole;

	assert_non_null(copy);
	memcpy(copy, request.p, request.n);
	assert_int_equal(request_scan(&scan, copy, request.n, &used, &args), RESP_OK);
	assert_int_equal(used, request.n);
	assert_int_equal(args.argc, argc);
	for (size_t i = 0; i < argc; i++)
		assert_true(slice_eq(args.argv[i], argv[i]));
	/* request_scan_simple() may decline. */
	used = request_scan_simple(copy, request.n, &args);
	assert_true(used == 0 || used == request.n);
	assert_int_equal(args.argc, argc);
	for (size_t i = 0; i < argc; i++)
		assert_true(slice_eq(args.argv[i], argv[i]));
	view = request_view(&args, copy, request.n, &whole);
	assert_true(whole);
	assert_int_equal(view.argc, argc);
	for (size_t i = 0; i < argc; i++)
		assert_true(slice_eq(view.argv[i], argv[i]));
	request_args_fini(&args);
	free(copy);
}

#define ARGS(literal, ...)                                                                     \
	do {                                                                                   \
		const struct slice argv_[] = { __VA_ARGS__ };                                  \
		assert_argv(SLICE_LIT(literal), argv_, sizeof(argv_) / sizeof(*argv_));        \
	} while (0)
#define S(literal) SLICE_LIT(literal)

/* --- arrays ----------------------------------------------------------------- */

TEST(a_request_is_an_array_of_bulks)
{
	FRAMED("*1\r\n$4\r\nPING\r\n", "14");
	FRAMED("*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", "22");
	FRAMED("*1\r\n$12\r\n0123456789ab\r\n", "23");
	ARGS("*1\r\n$4\r\nPING\r\n", S("PING"));
	ARGS("*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n", S("GET"), S("key"));
}

TEST(requests_follow_each_other)
{
	FRAMED("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n", "14 28");
	FRAMED("*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nPING\r\n", "14 20 34");
}

TEST(nothing_is_told_before_the_last_byte)
{
	FRAMED("*", "more");
	FRAMED("*1\r\n$4\r\nPING\r", "more");
	FRAMED("*1\r\n$4\r\nPING\r\n*1", "14 more");
	FRAMED("", "");
}

TEST(an_argument_may_be_empty_or_hold_any_bytes)
{
	FRAMED("*2\r\n$0\r\n\r\n$5\r\n\0\r\n*1\r\n", "21");
	ARGS("*2\r\n$0\r\n\r\n$5\r\n\0\r\n*1\r\n", S(""), S("\0\r\n*1"));
	ARGS("*1\r\n$14\r\n*1\r\n$4\r\nPING\r\n\r\n", S("*1\r\n$4\r\nPING\r\n"));
}

TEST(an_array_of_nothing_is_passed_over)
{
	FRAMED("*0\r\n", "(4)");
	FRAMED("*-1\r\n", "(5)");
	FRAMED("*-5\r\n", "(5)");
	FRAMED("*-9223372036854775808\r\n", "(23)");
	FRAMED("*0\r\n*-1\r\n*1\r\n$1\r\na\r\n", "(4) (9) 20");
	assert_argv(SLICE_LIT("*0\r\n"), NULL, 0);
	assert_argv(SLICE_LIT("*-5\r\n"), NULL, 0);
}

TEST(the_byte_behind_a_header_s_cr_is_passed_over)
{
	FRAMED("*1\rX$1\rYa\r\n", "11");
	FRAMED("*1\r\r$1\r\0a\r\n", "11");
	FRAMED("*1\r\n\r\na\r\n", "!6");
	FRAMED("*1\r\n\r1\r\n", "!6");
	ARGS("*1\rX$1\rYa\r\n", S("a"));
}

/* If two parsers disagree here, a client can make them see different commands. */
TEST(the_two_bytes_behind_a_bulk_are_passed_over)
{
	FRAMED("*1\r\n$1\r\naXY", "11");
	FRAMED("*1\r\n$3\r\nabcde*1\r\n$1\r\na\r\n", "13 24");
	FRAMED("*2\r\n$1\r\na$1\r\nb\r\n", "!13");
	ARGS("*2\r\n$1\r\naXY$1\r\nb*1", S("a"), S("b"));
}

TEST(a_count_that_is_no_number_is_refused)
{
	FRAMED("*\r\n", "!3");
	FRAMED("*a\r\n", "!4");
	FRAMED("*1a\r\n", "!5");
	FRAMED("*+1\r\n", "!5");
	FRAMED("* 1\r\n", "!5");
	FRAMED("*1 \r\n", "!5");
	FRAMED("*-\r\n", "!4");
	FRAMED("*--1\r\n", "!6");
	FRAMED("*1\n\r\n", "!5");
}

TEST(a_number_has_no_leading_zero)
{
	FRAMED("*01\r\n", "!5");
	FRAMED("*00\r\n", "!5");
	FRAMED("*-0\r\n", "!5");
	FRAMED("*-01\r\n", "!6");
	FRAMED("*1\r\n$01\r\na\r\n", "!9");
	FRAMED("*1\r\n$00\r\n\r\n", "!9");
}

TEST(a_count_fits_an_int)
{
	FRAMED("*2147483647\r\n", "more");
	FRAMED("*2147483648\r\n", "!13");
	FRAMED("*4294967297\r\n", "!13");
	FRAMED("*9223372036854775807\r\n", "!22");
	FRAMED("*9223372036854775808\r\n", "!22");
	FRAMED("*18446744073709551617\r\n", "!23");
	FRAMED("*-9223372036854775809\r\n", "!23");
	FRAMED("*99999999999999999999999999\r\n", "!29");
}

TEST(a_bulk_s_length_is_no_less_than_zero)
{
	FRAMED("*1\r\n$-1\r\n", "!9");
	FRAMED("*1\r\n$\r\n", "!7");
	FRAMED("*1\r\n$+1\r\na\r\n", "!9");
	FRAMED("*1\r\n$1a\r\na\r\n", "!9");
	FRAMED("*1\r\n$9223372036854775808\r\n", "!26");
	FRAMED("*1\r\n$18446744073709551617\r\na\r\n", "!27");
}

TEST(what_stands_for_a_bulk_must_be_one)
{
	FRAMED("*1\r\nPING\r\n", "!10");
	FRAMED("*1\r\n:1\r\n", "!8");
	FRAMED("*1\r\n*1\r\n", "!8");
	FRAMED("*2\r\n$1\r\na\r\n\r\n", "!13");
	FRAMED("*2\r\n$1\r\na\r\n1\r\n", "!14");
	/* hasp refuses a line only when the line is complete. */
	FRAMED("*1\r\nPING", "more");
}

/* The server's own limit is a setting, and the server answers the error. */
TEST(a_huge_bulk_is_waited_for)
{
	struct request_scan scan = { 0 };
	char block[4096] = { 0 };
	size_t used;

	FRAMED("*1\r\n$9223372036854775807\r\nabc", "more");
	assert_int_equal(request_scan(&scan, "*1\r\n$536870912\r\n", 16, &used, NULL),
	                 RESP_MORE);
	for (size_t i = 0; i < 536870912 / sizeof(block); i++) {
		assert_int_equal(request_scan(&scan, block, sizeof(block), &used, NULL),
		                 RESP_MORE);
		assert_int_equal(used, sizeof(block));
	}
	assert_int_equal(request_scan(&scan, "\r\n*", 3, &used, NULL), RESP_OK);
	assert_int_equal(used, 2);
}

TEST(a_nul_hides_the_rest_of_a_header)
{
	FRAMED("*1\0\r\n$1\r\na\r\n", "more");
	FRAMED("*1\r\n$\0001\r\na\r\n", "more");
	FRAMED("*1\r\n\0001\r\n", "more");
}

/* --- inline requests -------------------------------------------------------- */

TEST(an_inline_request_is_a_line)
{
	FRAMED("PING\r\n", "6");
	FRAMED("PING\n", "5");
	FRAMED("PING\r\nPING\nPING\r\n", "6 11 17");
	FRAMED("PING", "more");
	FRAMED("PING\r", "more");
	ARGS("GET key\r\n", S("GET"), S("key"));
	ARGS("GET key\n", S("GET"), S("key"));
	ARGS("$4\r\n", S("$4"));
	ARGS("a*1 b\n", S("a*1"), S("b"));
	ARGS("\xff\x80 \x01\n", S("\xff\x80"), S("\x01"));
}

TEST(a_line_of_nothing_is_passed_over)
{
	FRAMED("\r\n", "(2)");
	FRAMED("\n", "(1)");
	FRAMED(" \t\v\f\r\n", "(6)");
	FRAMED("\r\n\n*1\r\n$1\r\na\r\n", "(2) (3) 14");
	assert_argv(SLICE_LIT("\r\n"), NULL, 0);
	assert_argv(SLICE_LIT(" \n"), NULL, 0);
}

TEST(spaces_part_arguments)
{
	ARGS("  a \t b\r\n", S("a"), S("b"));
	ARGS("a b  \n", S("a"), S("b"));
	/* Between arguments, any space counts; after a closing quote, only some do. */
	ARGS("a \v\fb\n", S("a"), S("b"));
	ARGS("a\vb c\fd\n", S("a\vb"), S("c\fd"));
	ARGS("a\rb\r\n", S("a"), S("b"));
	ARGS("a\r\r\n", S("a"));
}

TEST(double_quotes_hold_spaces_and_escapes)
{
	ARGS("SET \"a b\" \"\"\r\n", S("SET"), S("a b"), S(""));
	ARGS("\"\\n\\r\\t\\b\\a\\\\\\\"\\q\"\n", S("\n\r\t\b\a\\\"q"));
	ARGS("\"\\x00\\xfF\\x4a\\x39\"\n", S("\0\xff\x4a\x39"));
	ARGS("\"\\x4\\xg0\\x\"\n", S("x4xg0x"));
	ARGS("\"it's\"\n", S("it's"));
	ARGS("a\"b c\"\n", S("ab c"));
	ARGS("\"\\'\"\n", S("'"));
}

TEST(single_quotes_know_one_escape)
{
	ARGS("'a b' ''\n", S("a b"), S(""));
	ARGS("'it\\'s'\n", S("it's"));
	ARGS("'\\n\\x41\\\\ '\n", S("\\n\\x41\\\\ "));
	FRAMED("'\\\\'\n", "!5");
	ARGS("'say \"x\"'\n", S("say \"x\""));
	ARGS("a'b c'\n", S("ab c"));
}

/* The buffer of the arguments grows, but their addresses must stay valid. */
TEST(inline_arguments_may_be_long)
{
	struct request_args args = { 0 };
	struct buf line = BUF_INIT;
	struct resp_view view;
	bool whole;

	for (int i = 0; i < 40; i++)
		buf_printf(&line, "\"%0100d\" ", i);
	buf_puts(&line, "\r\n");
	view = request_view(&args, buf_head(&line), buf_len(&line), &whole);
	assert_true(whole);
	assert_int_equal(view.argc, 40);
	for (size_t i = 0; i < 40; i++) {
		assert_int_equal(view.argv[i].n, 100);
		assert_int_equal(view.argv[i].p[98], '0' + (char)(i / 10));
		assert_int_equal(view.argv[i].p[99], '0' + (char)(i % 10));
	}
	buf_release(&line);
	request_args_fini(&args);
}

TEST(a_backslash_outside_quotes_is_one)
{
	ARGS("a\\n \\x41\n", S("a\\n"), S("\\x41"));
}

TEST(quotes_must_be_closed_before_a_space)
{
	FRAMED("\"a\r\n", "!4");
	FRAMED("'a\n", "!3");
	FRAMED("\"a\"b\r\n", "!6");
	FRAMED("'a'b\n", "!5");
	FRAMED("\"a\"'b'\n", "!7");
	FRAMED("\"a\\\"\r\n", "!6");
	FRAMED("\"a\\\r\n", "!5");
	FRAMED("'a\\'\n", "!5");
	FRAMED("\"\r\n", "!3");
	FRAMED("x \"\\\n", "!5");
	FRAMED("\"a\"\vb\n", "6");
	ARGS("\"a\"\vb\n", S("a"), S("b"));
}

TEST(a_nul_hides_the_rest_of_a_line)
{
	FRAMED("a\0b\r\nPING\r\n", "more");
	FRAMED("\0\n", "more");
}

/* --- lines that are too long ------------------------------------------------ */

/* Scans `head`, `n` times `c`, and `tail`. Returns the bytes used. */
static enum resp_result scan_long(const char *head, char c, size_t n, const char *tail,
                                  size_t *used)
{
	struct request_scan scan = { 0 };
	struct buf b = BUF_INIT;
	enum resp_result r;

	buf_puts(&b, head);
	memset(buf_reserve(&b, n), c, n);
	buf_added(&b, n);
	buf_puts(&b, tail);
	r = scan_copy(&scan, buf_slice(&b), used);
	buf_release(&b);
	return r;
}

TEST(a_line_of_64_kb_is_waited_for_and_a_longer_one_refused)
{
	size_t used;

	assert_int_equal(scan_long("", 'a', REQUEST_LINE_MAX, "", &used), RESP_MORE);
	assert_int_equal(scan_long("", 'a', REQUEST_LINE_MAX, "\r\n", &used), RESP_OK);
	assert_int_equal(used, REQUEST_LINE_MAX + 2);
	assert_int_equal(scan_long("", 'a', REQUEST_LINE_MAX + 1, "", &used), RESP_BAD);
	assert_int_equal(used, REQUEST_LINE_MAX + 1);
	assert_int_equal(scan_long("*", '1', REQUEST_LINE_MAX - 1, "", &used), RESP_MORE);
	assert_int_equal(scan_long("*", '1', REQUEST_LINE_MAX, "", &used), RESP_BAD);
	assert_int_equal(scan_long("*1\r\n$", '1', REQUEST_LINE_MAX - 1, "", &used), RESP_MORE);
	assert_int_equal(used, 4);
	assert_int_equal(scan_long("*1\r\n$", '1', REQUEST_LINE_MAX, "", &used), RESP_BAD);
	assert_int_equal(used, REQUEST_LINE_MAX + 5);
}

/* The line ends, but Redis does not see the end. */
TEST(what_a_nul_hides_may_be_too_long)
{
	size_t used;

	assert_int_equal(scan_long("*", '\0', REQUEST_LINE_MAX - 3, "\r\n", &used), RESP_MORE);
	assert_int_equal(scan_long("*", '\0', REQUEST_LINE_MAX, "\r\n", &used), RESP_BAD);
	assert_int_equal(used, REQUEST_LINE_MAX + 3);
	assert_int_equal(scan_long("", '\0', REQUEST_LINE_MAX, "\n", &used), RESP_BAD);
}

/* --- what is written -------------------------------------------------------------- */

static void assert_number_written(long long v)
{
	char digits[32], expected[64];
	struct buf out = BUF_INIT;
	int n = snprintf(digits, sizeof(digits), "%lld", v);

	snprintf(expected, sizeof(expected), "$%d\r\n%s\r\n", n, digits);
	resp_write_bulk_int(&out, v);
	assert_true(slice_eq(buf_slice(&out), slice_str(expected)));
	buf_release(&out);
}

TEST(a_number_is_written_as_a_bulk_of_its_digits)
{
	long long power = 1;

	assert_number_written(0);
	assert_number_written(INT64_MAX);
	assert_number_written(INT64_MIN);
	for (int digits = 1; digits < 20; digits++) {
		for (long long v = power - 1; v <= power + 1; v++) {
			assert_number_written(v);
			assert_number_written(-v);
		}
		assert_number_written(power / 8 * 7);
		if (digits < 19)
			power *= 10;
	}
}
