/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of cluster/merge.c: the replies of several nodes become one.
 */
#include <string.h>

#include "cluster/merge.h"
#include "tests/unit/testing.h"
#include "upstream/slot.h"

#define REPLIES_MAX 4
#define UNLIKE "-ERR hasp: hasp cannot merge the replies of the cluster's nodes\r\n"

/* `replies` ends with NULL. */
static void assert_merged(enum merge_kind kind, const struct split *split,
                          const char *const *replies, const char *expected)
{
	struct slice parts[REPLIES_MAX];
	struct buf out = BUF_INIT;
	size_t n = 0;

	for (; replies[n]; n++) {
		assert_true(n < REPLIES_MAX);
		parts[n] = slice_str(replies[n]);
	}
	merge_replies(kind, split, parts, n, &out);
	if (!slice_eq(buf_slice(&out), slice_str(expected)))
		fail_msg("%.*s, not %s", (int)buf_len(&out), buf_head(&out), expected);
	buf_release(&out);
}

#define MERGED(kind, expected, ...)                                                            \
	assert_merged(kind, NULL, (const char *const[]){ __VA_ARGS__, NULL }, expected)

TEST(test_counts_are_added_up)
{
	MERGED(MERGE_SUM, ":7\r\n", ":0\r\n", ":3\r\n", ":4\r\n");
	MERGED(MERGE_SUM, ":1\r\n", ":1\r\n");
	MERGED(MERGE_SUM, UNLIKE, ":1\r\n", "+OK\r\n");
}

TEST(test_an_error_is_the_reply_and_the_first_one_counts)
{
	MERGED(MERGE_SUM, "-NOPERM b\r\n", ":1\r\n", "-NOPERM b\r\n", "-ERR c\r\n");
	MERGED(MERGE_SAME, "-OOM x\r\n", "+OK\r\n", "-OOM x\r\n");
	MERGED(MERGE_LIST, "!5\r\nERR x\r\n", "*0\r\n", "!5\r\nERR x\r\n");
	MERGED(MERGE_LEAST, "-ERR x\r\n", "*1\r\n:1\r\n", "-ERR x\r\n");
}

TEST(test_what_all_say_is_said_once)
{
	MERGED(MERGE_SAME, "+OK\r\n", "+OK\r\n", "+OK\r\n");
	MERGED(MERGE_SAME, "+OK\r\n", "+OK\r\n", "+FINE\r\n");
	MERGED(MERGE_SAME, "$3\r\nabc\r\n", "$3\r\nabc\r\n", "$3\r\nabc\r\n");
}

TEST(test_arrays_come_one_behind_the_other)
{
	MERGED(MERGE_LIST, "*3\r\n$1\r\na\r\n$0\r\n\r\n$1\r\nb\r\n", "*1\r\n$1\r\na\r\n",
	       "*0\r\n", "*2\r\n$0\r\n\r\n$1\r\nb\r\n");
	MERGED(MERGE_LIST, "*0\r\n", "*0\r\n", "*0\r\n");
	MERGED(MERGE_LIST,
	       "*13\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n",
	       "*12\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n_\r\n",
	       "*1\r\n_\r\n");
	MERGED(MERGE_LIST, UNLIKE, "*0\r\n", "*-1\r\n");
	MERGED(MERGE_LIST, UNLIKE, "*0\r\n", ":1\r\n");
}

TEST(test_the_least_number_counts)
{
	MERGED(MERGE_LEAST, ":1\r\n", ":3\r\n", ":1\r\n", ":2\r\n");
	MERGED(MERGE_LEAST, ":-1\r\n", ":3\r\n", ":-1\r\n");
	MERGED(MERGE_LEAST, "*3\r\n:1\r\n:0\r\n:0\r\n", "*3\r\n:1\r\n:1\r\n:0\r\n",
	       "*3\r\n:1\r\n:0\r\n:1\r\n");
	MERGED(MERGE_LEAST, "*0\r\n", "*0\r\n", "*0\r\n");
	MERGED(MERGE_LEAST, UNLIKE, "*1\r\n:1\r\n", "*2\r\n:1\r\n:1\r\n");
	MERGED(MERGE_LEAST, UNLIKE, "*1\r\n:1\r\n", "*1\r\n+OK\r\n");
	MERGED(MERGE_LEAST, UNLIKE, ":1\r\n", "*1\r\n:1\r\n");
}

TEST(test_one_node_that_runs_a_script_is_enough)
{
	MERGED(MERGE_ANY, "+OK\r\n", "-NOTBUSY No\r\n", "+OK\r\n", "-NOTBUSY No\r\n");
	MERGED(MERGE_ANY, "-UNKILLABLE x\r\n", "-NOTBUSY No\r\n", "-UNKILLABLE x\r\n",
	       "-NOTBUSY No\r\n");
	MERGED(MERGE_ANY, "+OK\r\n", "-NOTBUSY No\r\n", "+OK\r\n", "+FINE\r\n");
	MERGED(MERGE_ANY, "-NOTBUSY No\r\n", "-NOTBUSY No\r\n", "-NOTBUSY No\r\n");
}

TEST(test_what_one_node_finds_is_found)
{
	MERGED(MERGE_FOUND, "$1\r\nb\r\n", "$-1\r\n", "$1\r\nb\r\n", "$1\r\nc\r\n");
	MERGED(MERGE_FOUND, "$-1\r\n", "$-1\r\n", "$-1\r\n");
	MERGED(MERGE_FOUND, "$-1\r\n", "$-1\r\n", "_\r\n");
	MERGED(MERGE_FOUND, "$1\r\na\r\n", "_\r\n", "$1\r\na\r\n");
	MERGED(MERGE_FOUND, "-ERR x\r\n", "_\r\n", "-ERR x\r\n");
}

TEST(test_a_name_that_several_nodes_give_is_given_once)
{
	MERGED(MERGE_NAMES, "*3\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\nbc\r\n",
	       "*2\r\n$1\r\nb\r\n$1\r\na\r\n", "*0\r\n", "*2\r\n$2\r\nbc\r\n$1\r\nb\r\n");
	MERGED(MERGE_NAMES, "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\na\r\n");
	MERGED(MERGE_NAMES, "*3\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\naa\r\n", "*1\r\n$2\r\naa\r\n",
	       "*2\r\n$1\r\nb\r\n$2\r\naa\r\n", "*2\r\n$1\r\na\r\n$1\r\nb\r\n");
	MERGED(MERGE_NAMES, "*0\r\n", "*0\r\n", "*0\r\n");
	MERGED(MERGE_NAMES, UNLIKE, "*0\r\n", ":1\r\n");
}

TEST(test_the_subscribers_of_a_channel_are_added_up)
{
	MERGED(MERGE_COUNTS, "*4\r\n$1\r\na\r\n:5\r\n$0\r\n\r\n:0\r\n",
	       "*4\r\n$1\r\na\r\n:2\r\n$0\r\n\r\n:0\r\n",
	       "*4\r\n$1\r\na\r\n:3\r\n$0\r\n\r\n:0\r\n");
	/* hasp has subscribed its clients to this channel at every node. */
	MERGED(MERGE_COUNTS, "*2\r\n$16\r\n__keyevent@0__:x\r\n:3\r\n",
	       "*2\r\n$16\r\n__keyevent@0__:x\r\n:2\r\n",
	       "*2\r\n$16\r\n__keyevent@0__:x\r\n:3\r\n");
	MERGED(MERGE_COUNTS, "*0\r\n", "*0\r\n", "*0\r\n");
	MERGED(MERGE_COUNTS, UNLIKE, "*2\r\n$1\r\na\r\n:1\r\n", "*2\r\n$1\r\nb\r\n:1\r\n");
	MERGED(MERGE_COUNTS, UNLIKE, "*2\r\n$1\r\na\r\n:1\r\n", "*2\r\n$1\r\na\r\n_\r\n");
	MERGED(MERGE_COUNTS, UNLIKE, "*2\r\n$1\r\na\r\n:1\r\n", "*0\r\n");
	MERGED(MERGE_COUNTS, UNLIKE, "*2\r\n$1\r\na\r\n:1\r\n",
	       "*4\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n:1\r\n");
	MERGED(MERGE_COUNTS, UNLIKE, "*3\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n",
	       "*3\r\n$1\r\na\r\n:1\r\n$1\r\nb\r\n");
	MERGED(MERGE_COUNTS, UNLIKE, ":1\r\n", ":1\r\n");
	MERGED(MERGE_COUNTS, UNLIKE, "*1\r\n$1\r\na\r\n", "*1\r\n$1\r\na\r\n");
}

/* Splits a command on five keys, which are in three slots. */
static void split_five(struct split *s)
{
	static const struct slice argv[] = { SLICE_LIT("mget"), SLICE_LIT("a"),
		                             SLICE_LIT("b"),    SLICE_LIT("{a}2"),
		                             SLICE_LIT("c"),    SLICE_LIT("{b}2") };
	struct resp_view req = { 6, argv };

	split_init(s, &req, 1);
	assert_int_equal(s->nparts, 3);
}

static void assert_values(const char *a, const char *b, const char *c, const char *expected)
{
	struct split s;

	split_five(&s);
	assert_merged(MERGE_VALUES, &s, (const char *const[]){ a, b, c, NULL }, expected);
	split_fini(&s);
}

TEST(test_values_come_in_the_order_of_their_keys)
{
	assert_values("*2\r\n$1\r\n1\r\n$-1\r\n", "*2\r\n$-1\r\n$0\r\n\r\n",
	              "*1\r\n$2\r\n\r\n\r\n",
	              "*5\r\n$1\r\n1\r\n$-1\r\n$-1\r\n$2\r\n\r\n\r\n$0\r\n\r\n");
	assert_values("*2\r\n$1\r\n1\r\n_\r\n", "*2\r\n_\r\n_\r\n", "*1\r\n_\r\n",
	              "*5\r\n$1\r\n1\r\n_\r\n_\r\n_\r\n_\r\n");
	assert_values("*2\r\n$1\r\n1\r\n_\r\n", "-NOPERM x\r\n", "*1\r\n_\r\n",
	              "-NOPERM x\r\n");
}

TEST(test_parts_with_too_few_values_do_not_fit)
{
	assert_values("*1\r\n$1\r\n1\r\n", "*2\r\n_\r\n_\r\n", "*1\r\n_\r\n", UNLIKE);
	assert_values("*2\r\n_\r\n_\r\n", "*2\r\n_\r\n_\r\n", "$1\r\n1\r\n", UNLIKE);
	assert_values("*2\r\n_\r\n_\r\n", "*2\r\n_\r\n_\r\n", "*-1\r\n", UNLIKE);
}
