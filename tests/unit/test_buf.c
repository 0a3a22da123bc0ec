/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/buf.c: a buffer releases its bytes in order, wherever they lie in its memory,
 * and owns no memory once it is released.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "tests/unit/testing.h"

static void assert_holds(const struct buf *b, const char *expected)
{
	struct slice s = slice_str(expected);

	assert_int_equal(buf_len(b), s.n);
	assert_true(slice_eq(buf_slice(b), s));
}

TEST(an_empty_buffer_owns_no_memory)
{
	struct buf b = BUF_INIT;

	assert_null(buf_head(&b));
	assert_int_equal(buf_len(&b), 0);
	buf_append(&b, SLICE_NONE);
	buf_puts(&b, "");
	assert_null(buf_head(&b));
	assert_int_equal(buf_cap(&b), 0);
	buf_release(&b);
}

TEST(what_is_appended_is_consumed_in_order)
{
	struct buf b = BUF_INIT;

	buf_puts(&b, "one");
	buf_append(&b, SLICE_LIT("two"));
	buf_consume(&b, 2);
	assert_holds(&b, "etwo");
	buf_puts(&b, "three");
	assert_holds(&b, "etwothree");
	buf_consume(&b, 9);
	assert_holds(&b, "");
	buf_release(&b);
}

TEST(a_buffer_that_grows_keeps_what_is_not_consumed)
{
	struct buf b = BUF_INIT;

	buf_printf(&b, "%0100d%0100d", 1, 2);
	buf_consume(&b, 100);
	buf_printf(&b, "%01000d", 3);
	assert_int_equal(buf_len(&b), 1100);
	assert_int_equal(buf_head(&b)[99], '2');
	assert_int_equal(buf_head(&b)[1099], '3');
	buf_release(&b);
}

TEST(bytes_of_every_value_are_kept)
{
	struct buf b = BUF_INIT;

	for (int i = 0; i < 1024; i++) {
		char c = (char)i;
		buf_append(&b, slice_of(&c, 1));
	}
	assert_int_equal(buf_len(&b), 1024);
	for (int i = 0; i < 1024; i++)
		assert_int_equal(buf_head(&b)[i], (char)i);
	buf_release(&b);
}

TEST(reserved_bytes_count_once_they_are_added)
{
	struct buf b = BUF_INIT;
	char *room;

	buf_puts(&b, "ab");
	room = buf_reserve(&b, 5000);
	memset(room, 'x', 5000);
	assert_holds(&b, "ab");
	buf_added(&b, 1);
	assert_holds(&b, "abx");
	buf_consume(&b, 1);
	buf_added_to(&b, room + 3);
	assert_holds(&b, "bxxx");
	buf_release(&b);
}

TEST(a_queue_of_bounded_length_takes_bounded_memory)
{
	struct buf b = BUF_INIT;
	unsigned in = 0, out = 0;

	while (in < 100000) {
		while (buf_len(&b) < 1000) {
			char c = (char)in++;
			buf_append(&b, slice_of(&c, 1));
		}
		while (buf_len(&b) > 300) {
			assert_int_equal(buf_head(&b)[0], (char)out++);
			buf_consume(&b, 1);
		}
	}
	assert_true(buf_cap(&b) <= 4096);
	buf_release(&b);
}

TEST(formatted_text_has_no_nul_behind_it)
{
	struct buf b = BUF_INIT;

	buf_printf(&b, "%d-%s", -7, "x");
	buf_printf(&b, "%300d|", 1);
	assert_int_equal(buf_len(&b), 4 + 301);
	assert_memory_equal(buf_head(&b), "-7-x ", 5);
	assert_memory_equal(buf_head(&b) + buf_len(&b) - 2, "1|", 2);
	buf_release(&b);
}

__attribute__((format(printf, 3, 4))) static void put_line(struct buf *b, const char *name,
                                                           const char *fmt, ...)
{
	va_list args;

	buf_puts(b, name);
	va_start(args, fmt);
	buf_vprintf(b, fmt, args);
	va_end(args);
	buf_puts(b, "\n");
}

/* Formats as functions do that pass a va_list on; the second text needs more room than is
 * left. */
TEST(a_list_of_arguments_is_formatted_whole)
{
	struct buf b = BUF_INIT;
	char *expected = NULL;

	put_line(&b, "a: ", "%d-%s", -7, "x");
	put_line(&b, "b: ", "%s|%05000d|%c", "y", 8, 'z');
	assert_true(asprintf(&expected, "a: -7-x\nb: y|%05000d|z\n", 8) > 0);
	assert_holds(&b, expected);
	free(expected);
	buf_release(&b);
}

TEST(clearing_keeps_the_memory_and_releasing_does_not)
{
	struct buf b = BUF_INIT;
	const char *data;

	buf_puts(&b, "abc");
	data = buf_head(&b);
	buf_clear(&b);
	assert_holds(&b, "");
	assert_ptr_equal(buf_head(&b), data);
	buf_puts(&b, "de");
	assert_holds(&b, "de");
	buf_release(&b);
	assert_null(buf_head(&b));
	assert_int_equal(buf_cap(&b), 0);
	buf_puts(&b, "f");
	assert_holds(&b, "f");
	buf_release(&b);
}

TEST(a_buffer_that_is_fitted_has_its_bytes_and_grows_again)
{
	struct buf b = BUF_INIT;

	buf_puts(&b, "abcdef");
	buf_consume(&b, 2);
	buf_fit(&b);
	assert_holds(&b, "cdef");
	assert_int_equal(buf_cap(&b), 4);
	buf_puts(&b, "gh");
	assert_holds(&b, "cdefgh");
	buf_consume(&b, 6);
	buf_fit(&b);
	assert_int_equal(buf_cap(&b), 0);
	assert_null(buf_head(&b));
}

/* Without this option, the sanitizers end the process instead of letting realloc() fail. */
#define OPTIONS "allocator_may_return_null=1"
const char *__asan_default_options(void);
const char *__tsan_default_options(void);
const char *__asan_default_options(void)
{
	return OPTIONS;
}
const char *__tsan_default_options(void)
{
	return OPTIONS;
}

TEST(a_buffer_that_cannot_grow_is_unchanged)
{
	const size_t too_much = SIZE_MAX / 8;
	struct buf b = BUF_INIT;

	assert_null(buf_try_reserve(&b, too_much));
	assert_int_equal(buf_cap(&b), 0);
	buf_puts(&b, "abcdef");
	assert_null(buf_try_reserve(&b, too_much));
	assert_holds(&b, "abcdef");
	buf_consume(&b, 2);
	assert_null(buf_try_reserve(&b, too_much));
	assert_holds(&b, "cdef");
	assert_true(buf_try_append(&b, SLICE_LIT("gh")));
	assert_holds(&b, "cdefgh");
	buf_release(&b);
}
