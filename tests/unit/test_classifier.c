/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A request that begins as one before it did is known by that, and no other is.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "policy/classifier.h"

static int setup(void **state)
{
	*state = classifier_new();
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	classifier_free(*state);
	return 0;
}

static void remember(struct classifier *classifier, struct slice request, size_t argc,
                     size_t name_len)
{
	classifier_remember(classifier, request.p, argc, name_len,
	                    &(struct command_info){ .is_stateless = true });
}

/* From memory that ends with it. */
static const struct command_prefix *recall(const struct classifier *classifier,
                                           struct slice request)
{
	char *copy = malloc(request.n);
	const struct command_prefix *b;

	assert_non_null(copy);
	memcpy(copy, request.p, request.n);
	b = classifier_recall(classifier, copy, request.n);
	free(copy);
	return b;
}

#define REMEMBER(classifier, literal, argc, name_len)                                          \
	remember(classifier, SLICE_LIT(literal), argc, name_len)
#define RECALL(classifier, literal) recall(classifier, SLICE_LIT(literal))

static void nothing_is_recalled_at_first(void **state)
{
	assert_null(RECALL(*state, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"));
}

static void a_request_is_recalled_by_its_beginning(void **state)
{
	const struct command_prefix *b;

	REMEMBER(*state, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 2, 3);
	b = RECALL(*state, "*2\r\n$3\r\nGET\r\n$11\r\nanother key\r\n");
	assert_non_null(b);
	assert_int_equal(b->argc, 2);
	assert_int_equal(b->name_len, 3);
	assert_true(b->what.is_stateless);
}

static void one_that_begins_otherwise_is_not(void **state)
{
	REMEMBER(*state, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 2, 3);
	assert_null(RECALL(*state, "*3\r\n$3\r\nGET\r\n$1\r\nk\r\n$1\r\nl\r\n"));
	assert_null(RECALL(*state, "*2\r\n$3\r\nget\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*2\r\n$3\r\nGEN\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*2\r\n$4\r\nGETX\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*2\r\n$3\r\nGETX\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*2\r\n:3\r\nGET\r\n$1\r\nk\r\n"));
}

static void a_name_of_any_length_that_is_kept_is_recalled_whole(void **state)
{
	REMEMBER(*state, "*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n", 2, 6);
	REMEMBER(*state, "*2\r\n$1\r\nX\r\n$5\r\nabcde\r\n", 2, 1);
	assert_non_null(RECALL(*state, "*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*2\r\n$6\r\nSTRLEM\r\n$1\r\nk\r\n"));
	assert_non_null(RECALL(*state, "*2\r\n$1\r\nX\r\n$5\r\nvwxyz\r\n"));
	assert_null(RECALL(*state, "*2\r\n$1\r\nY\r\n$5\r\nabcde\r\n"));
}

static void long_names_and_lists_are_not_kept(void **state)
{
	REMEMBER(*state, "*2\r\n$7\r\nHGETALL\r\n$1\r\nk\r\n", 2, 7);
	REMEMBER(*state, "*10\r\n$4\r\nMGET\r\n$1\r\na\r\n", 10, 4);
	assert_null(RECALL(*state, "*2\r\n$7\r\nHGETALL\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*10\r\n$4\r\nMGET\r\n$1\r\na\r\n"));
}

static void what_is_too_short_is_not_looked_at(void **state)
{
	struct slice ping = SLICE_LIT("*1\r\n$4\r\nPING\r\n");

	REMEMBER(*state, "*1\r\n$4\r\nPING\r\n..", 1, 4);
	for (size_t n = 1; n <= ping.n; n++)
		assert_null(recall(*state, slice_of(ping.p, n)));
	assert_non_null(RECALL(*state, "*1\r\n$4\r\nPING\r\n*1"));
}

static void what_was_remembered_is_forgotten_when_told_so(void **state)
{
	REMEMBER(*state, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 2, 3);
	classifier_reset(*state);
	assert_null(RECALL(*state, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_recalled_at_first),
		TEST(a_request_is_recalled_by_its_beginning),
		TEST(one_that_begins_otherwise_is_not),
		TEST(a_name_of_any_length_that_is_kept_is_recalled_whole),
		TEST(long_names_and_lists_are_not_kept),
		TEST(what_is_too_short_is_not_looked_at),
		TEST(what_was_remembered_is_forgotten_when_told_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
