/* SPDX-License-Identifier: BSD-3-Clause */

#include "quorum/quorum_values.h"
#include "tests/unit/testing.h"

static const struct quorum_claim of_verb = { .owner = { "me", 2 } };

static struct quorum_claim of_rule(const char *owner, const char *content)
{
	return (struct quorum_claim){ .of_rule = true,
		                      .owner = slice_str(owner),
		                      .content = slice_str(content) };
}

static void assert_made_of(struct slice value, const char *owner, const char *content)
{
	assert_true(slice_eq(quorum_value_owner(value, true), slice_str(owner)));
	assert_true(slice_eq(quorum_value_content(value), slice_str(content)));
}

TEST(verbs_lock_is_its_owners)
{
	struct quorum_claim other = { .owner = { "m", 1 } };
	struct buf value = BUF_INIT;

	quorum_value_make(&value, &of_verb);
	assert_true(quorum_value_is_of(buf_slice(&value), &of_verb));
	assert_false(quorum_value_is_of(buf_slice(&value), &other));
	assert_true(slice_eq(quorum_value_owner(buf_slice(&value), false), of_verb.owner));
	buf_release(&value);
}

TEST(rules_lock_is_its_owners_whatever_it_holds)
{
	static const char *const contents[] = { "", " ", "v", "a b", "me 0123 x" };
	struct buf value = BUF_INIT;

	for (size_t i = 0; i < sizeof(contents) / sizeof(*contents); i++) {
		struct quorum_claim mine = of_rule("me", contents[i]);
		struct quorum_claim others = of_rule("m", contents[i]);
		struct quorum_claim known = of_rule("", contents[i]);

		quorum_value_make(&value, &mine);
		assert_made_of(buf_slice(&value), "me", contents[i]);
		mine.content = slice_str("another");
		assert_true(quorum_value_is_of(buf_slice(&value), &mine));
		assert_false(quorum_value_is_of(buf_slice(&value), &others));
		assert_true(quorum_value_is_of(buf_slice(&value), &known));
	}
	buf_release(&value);
}

TEST(lock_by_value_is_of_who_knows_it)
{
	struct quorum_claim mine = of_rule("", "a b"), others = of_rule("", "a");
	struct quorum_claim empty = of_rule("", ""), anyones = of_rule("", "");
	struct buf value = BUF_INIT;

	anyones.is_anyones = true;
	quorum_value_make(&value, &mine);
	assert_made_of(buf_slice(&value), "", "a b");
	assert_true(quorum_value_is_of(buf_slice(&value), &mine));
	assert_false(quorum_value_is_of(buf_slice(&value), &others));
	assert_false(quorum_value_is_of(buf_slice(&value), &empty));
	assert_true(quorum_value_is_of(buf_slice(&value), &anyones));
	buf_release(&value);
}

/* Another client wrote the value past hasp, or a verb did before there was a rule. */
TEST(other_values_are_told_as_they_are)
{
	static const char *const values[] = { "v", "a b", " ",
		                              "me 0123456789abcdef0123456789abcdef" };

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		struct quorum_claim mine = of_rule("me", "v");

		assert_made_of(slice_str(values[i]), values[i], values[i]);
		assert_false(quorum_value_is_of(slice_str(values[i]), &mine));
	}
}
