/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the arguments of an incomplete request, and of the fast path through an ordinary
 * one. test_request.c tests where requests begin and end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "resp/request.h"
#include "resp/write.h"
#include "tests/unit/testing.h"

#define S(literal) SLICE_LIT(literal)

/* --- views of what is not whole ---------------------------------------------- */

TEST(a_view_has_the_arguments_that_are_there)
{
	static const char request[] = "*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$2\r\nvv\r\n";
	struct request_args args = { 0 };

	for (size_t n = 0; n < sizeof(request) - 1; n++) {
		char *copy = malloc(n ? n : 1);
		struct resp_view view;
		bool whole;

		assert_non_null(copy);
		memcpy(copy, request, n);
		view = request_view(&args, copy, n, &whole);
		/* The view has an argument as soon as its last byte has arrived. */
		assert_int_equal(view.argc, (n >= 11) + (n >= 20) + (n >= 28));
		assert_int_equal(whole, n >= 28);
		if (n >= 20)
			assert_true(slice_eq(view.argv[1], S("key")));
		free(copy);
	}
	request_args_fini(&args);
}

TEST(a_view_ends_with_its_request)
{
	static const char *const requests[] = {
		"*1\r\n$1\r\na\r\n$1\r\nb\r\n",
		"*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n",
		"*1\r\n$1\r\na\r\n\r\n",
	};
	struct request_args args = { 0 };

	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		bool whole;
		struct resp_view view = request_view(&args, requests[i], strlen(requests[i]),
		                                     &whole);
		assert_true(whole);
		assert_int_equal(view.argc, 1);
		assert_true(slice_eq(view.argv[0], S("a")));
	}
	request_args_fini(&args);
}

TEST(views_can_share_their_memory)
{
	struct request_args args = { 0 };
	struct buf many = BUF_INIT;
	struct resp_view view;
	bool whole;

	buf_puts(&many, "*100\r\n");
	for (int i = 0; i < 100; i++)
		buf_printf(&many, "$2\r\n%02d\r\n", i);
	view = request_view(&args, buf_head(&many), buf_len(&many), &whole);
	assert_true(whole);
	assert_int_equal(view.argc, 100);
	assert_true(slice_eq(view.argv[99], S("99")));
	view = request_view(&args, "a 'b c'\n", 8, &whole);
	assert_true(whole);
	assert_int_equal(view.argc, 2);
	assert_true(slice_eq(view.argv[1], S("b c")));
	view = request_view(&args, "\"x\n", 3, &whole);
	assert_false(whole);
	assert_int_equal(view.argc, 0);
	buf_release(&many);
	request_args_fini(&args);
}

/* --- the short way ----------------------------------------------------------- */

/* Scans by request_scan_simple(), with room for this many arguments. */
static size_t scan_simple(struct slice request, size_t room)
{
	struct slice *argv = calloc(room, sizeof(*argv));
	struct request_args args = { .argv = argv, .cap = room };
	char *copy = malloc(request.n);
	size_t used;

	assert_non_null(argv);
	assert_non_null(copy);
	memcpy(copy, request.p, request.n);
	used = request_scan_simple(copy, request.n, &args);
	free(copy);
	free(argv);
	return used;
}

TEST(the_usual_request_is_scanned_the_short_way)
{
	struct slice request = SLICE_LIT("*3\r\n$3\r\nSET\r\n$10\r\n0123456789\r\n$0\r\n\r\n");

	assert_int_equal(scan_simple(request, 3), request.n);
	for (size_t n = 1; n < request.n; n++)
		assert_int_equal(scan_simple(slice_of(request.p, n), 3), 0);
	/* request_scan_simple() does not make room for more arguments. */
	assert_int_equal(scan_simple(request, 2), 0);
}

/* Scans an ECHO with an argument of so many bytes as scan_simple() does. Returns true if that
 * scans the whole request. */
static bool echo_is_simple(size_t nbytes)
{
	char *text = calloc(1, nbytes);
	const struct slice argv[] = { S("ECHO"), slice_of(text, nbytes) };
	struct buf request = BUF_INIT;
	size_t used;

	assert_non_null(text);
	resp_write_request(&request, argv, 2);
	used = scan_simple(buf_slice(&request), 2);
	assert_true(used == 0 || used == buf_len(&request));
	buf_release(&request);
	free(text);
	return used > 0;
}

TEST(arguments_of_up_to_five_digits_are_scanned_the_short_way)
{
	static const size_t sizes[] = { 99, 100, 999, 1000, 9999, 10000, 99999 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
		assert_true(echo_is_simple(sizes[i]));
	assert_false(echo_is_simple(100000));
}

TEST(the_rest_of_a_request_is_scanned_when_its_name_is_known)
{
	struct slice request = SLICE_LIT(
		"*3\r\n$3\r\nSET\r\n$10\r\n0123456789\r\n$2\r\nab\r\n");
	struct slice argv[3] = { SLICE_LIT("SET") };
	struct request_args args = { .argv = argv, .cap = 3 };

	for (size_t n = 13; n < request.n; n++) {
		char *copy = malloc(n);
		assert_non_null(copy);
		memcpy(copy, request.p, n);
		assert_int_equal(request_scan_rest(copy, n, 13, 3, &args), 0);
		free(copy);
	}
	/* The name is incomplete. */
	assert_int_equal(request_scan_rest(request.p, 12, 13, 3, &args), 0);
	assert_int_equal(request_scan_rest(request.p, request.n, 13, 3, &args), request.n);
	assert_int_equal(args.argc, 3);
	assert_true(slice_eq(argv[0], S("SET")));
	assert_true(slice_eq(argv[1], S("0123456789")));
	assert_true(slice_eq(argv[2], S("ab")));
}

TEST(the_short_way_is_not_for_unusual_headers)
{
	assert_int_equal(scan_simple(SLICE_LIT("PING\r\n"), 3), 0);
	assert_int_equal(scan_simple(SLICE_LIT("*0\r\n*1\r\n"), 3), 0);
	assert_int_equal(scan_simple(SLICE_LIT("*1\r\n$04\r\nPING\r\n"), 3), 0);
	assert_int_equal(scan_simple(SLICE_LIT("*1\r\n$-1\r\nPING\r\n"), 3), 0);
	assert_int_equal(scan_simple(SLICE_LIT("*1\r\n:4\r\nPING\r\n"), 3), 0);
	assert_int_equal(scan_simple(SLICE_LIT("*1\r\n$4a\r\nPING\r\n"), 3), 0);
	assert_int_equal(scan_simple(SLICE_LIT("*1\r\n$4\0\r\nPING\r\n"), 3), 0);
}
