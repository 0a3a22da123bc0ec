/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of scripts and their calls, as they are sent.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "lock/scripts/script_call.h"
#include "resp/write.h"
#include "tests/unit/testing.h"

/* Redis does not know the script: hasp sends the same call again, with the script's text. */
TEST(test_a_call_can_be_made_again_with_the_text)
{
	struct buf call = BUF_INIT, again = BUF_INIT, expected = BUF_INIT;
	const struct script *s = script_get(SCRIPT_RENEW);

	script_call_begin(&call, SCRIPT_RENEW, &(struct rewrite_opts){ 0 }, 1, 1);
	buf_puts(&call, "$1\r\nk\r\n$2\r\n\r\n\r\n");
	script_call_begin(&expected, SCRIPT_RENEW, &(struct rewrite_opts){ .eval = true }, 1,
	                  1);
	buf_puts(&expected, "$1\r\nk\r\n$2\r\n\r\n\r\n");
	buf_puts(&again, "before");
	script_call_write_as_eval(&again, SCRIPT_RENEW, buf_slice(&call));
	buf_consume(&again, strlen("before"));
	assert_true(slice_eq(buf_slice(&again), buf_slice(&expected)));
	assert_true(buf_len(&again) > s->text.n);
	buf_release(&again);
	buf_release(&expected);
	buf_release(&call);
}

/* The number before a key has one digit, or more. */
TEST(test_the_first_key_of_a_call_is_found)
{
	char bytes[1000];

	memset(bytes, 'k', sizeof(bytes));
	for (size_t n = 0; n <= sizeof(bytes); n++) {
		struct buf call = BUF_INIT;
		struct slice key = slice_of(bytes, n);

		script_call_begin(&call, SCRIPT_RENEW, &(struct rewrite_opts){ 0 }, 2, 0);
		resp_write_bulk(&call, key);
		resp_write_bulk(&call, SLICE_LIT("other"));
		assert_true(slice_eq(script_call_key(SCRIPT_RENEW, buf_slice(&call)), key));
		buf_release(&call);
	}
}

TEST(test_scripts_travel_without_comments)
{
	for (int i = 0; i < SCRIPT_COUNT; i++) {
		const struct script *s = script_get((enum script_id)i);

		assert_true(s->text.n > 0 && s->text.n < 32768);
		assert_int_equal(s->sha.n, 40);
		assert_null(strstr(s->text.p, "--"));
		assert_null(strstr(s->text.p, "\t"));
	}
}

TEST(test_scripts_have_each_include_once)
{
	static const char define[] = "local function ";

	for (int i = 0; i < SCRIPT_COUNT; i++) {
		const char *at = script_get((enum script_id)i)->text.p;
		while ((at = strstr(at, define))) {
			size_t n = strcspn(at, "(") + 1;
			const char *next = at + n;
			while ((next = strstr(next, define))) {
				assert_true(strncmp(at, next, n) != 0);
				next += sizeof(define) - 1;
			}
			at += n;
		}
	}
}
