/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of policy/classifier.c: it recognizes a request that begins like an earlier one, and no
 * other.
 */
#include <stdlib.h>

#include "policy/classifier.h"
#include "tests/unit/testing.h"

static int setup(void **state)
{
	*state = xcalloc(1, sizeof(struct classifier));
	return *state ? 0 : -1;
}

static int teardown(void **state)
{
	free(*state);
	return 0;
}

FIXTURE(setup, teardown);

static void remember(struct classifier *classifier, struct slice request, size_t argc,
                     size_t name_len)
{
	classifier_remember(classifier, request.p, argc, name_len,
	                    &(struct command_info){ .is_stateless = true });
}

/* Looks the request up from memory that ends with its last byte, so that ASan sees a read past
 * it. */
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

TEST(nothing_is_recalled_at_first)
{
	assert_null(RECALL(*state, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"));
}

TEST(a_request_is_recalled_by_its_beginning)
{
	const struct command_prefix *b;

	REMEMBER(*state, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 2, 3);
	b = RECALL(*state, "*2\r\n$3\r\nGET\r\n$11\r\nanother key\r\n");
	assert_non_null(b);
	assert_int_equal(b->argc, 2);
	assert_int_equal(b->name_len, 3);
	assert_true(b->what.is_stateless);
}

TEST(one_that_begins_otherwise_is_not)
{
	REMEMBER(*state, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 2, 3);
	assert_null(RECALL(*state, "*3\r\n$3\r\nGET\r\n$1\r\nk\r\n$1\r\nl\r\n"));
	assert_null(RECALL(*state, "*2\r\n$3\r\nget\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*2\r\n$3\r\nGEN\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*2\r\n$4\r\nGETX\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*2\r\n$3\r\nGETX\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*2\r\n:3\r\nGET\r\n$1\r\nk\r\n"));
}

TEST(a_name_of_any_length_that_is_kept_is_recalled_whole)
{
	REMEMBER(*state, "*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n", 2, 6);
	REMEMBER(*state, "*2\r\n$1\r\nX\r\n$5\r\nabcde\r\n", 2, 1);
	assert_non_null(RECALL(*state, "*2\r\n$6\r\nSTRLEN\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*2\r\n$6\r\nSTRLEM\r\n$1\r\nk\r\n"));
	assert_non_null(RECALL(*state, "*2\r\n$1\r\nX\r\n$5\r\nvwxyz\r\n"));
	assert_null(RECALL(*state, "*2\r\n$1\r\nY\r\n$5\r\nabcde\r\n"));
}

TEST(long_names_and_lists_are_not_kept)
{
	REMEMBER(*state, "*2\r\n$7\r\nHGETALL\r\n$1\r\nk\r\n", 2, 7);
	REMEMBER(*state, "*10\r\n$4\r\nMGET\r\n$1\r\na\r\n", 10, 4);
	assert_null(RECALL(*state, "*2\r\n$7\r\nHGETALL\r\n$1\r\nk\r\n"));
	assert_null(RECALL(*state, "*10\r\n$4\r\nMGET\r\n$1\r\na\r\n"));
}

TEST(what_is_too_short_is_not_looked_at)
{
	struct slice ping = SLICE_LIT("*1\r\n$4\r\nPING\r\n");

	REMEMBER(*state, "*1\r\n$4\r\nPING\r\n..", 1, 4);
	for (size_t n = 1; n <= ping.n; n++)
		assert_null(recall(*state, slice_of(ping.p, n)));
	assert_non_null(RECALL(*state, "*1\r\n$4\r\nPING\r\n*1"));
}

TEST(what_was_remembered_is_forgotten_when_told_so)
{
	REMEMBER(*state, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n", 2, 3);
	classifier_reset(*state);
	assert_null(RECALL(*state, "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"));
}
