/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the slots of keys. tests/e2e/test_slots.py compares many more with a real Redis.
 */
#include <string.h>

#include "tests/unit/testing.h"
#include "upstream/slot.h"

#define S SLICE_LIT

TEST(test_the_slots_are_those_of_the_specification)
{
	/* The specification's example of the CRC, and an answer of CLUSTER KEYSLOT. */
	assert_int_equal(slot_of_key(S("123456789")), 0x31c3);
	assert_int_equal(slot_of_key(S("")), 0);
	assert_int_equal(slot_of_key(S("foo")), 12182);
	assert_int_equal(slot_of_key(S("bar")), 5061);
	assert_int_equal(slot_of_key(S("somekey")), 11058);
	assert_int_equal(slot_of_key(S("foo{hash_tag}")), 2515);
	assert_int_equal(slot_of_key(S("a\0\xff\r\n")), slot_of_key(S("x{a\0\xff\r\n}")));
}

static void assert_hashed(struct slice key, struct slice part)
{
	if (!slice_eq(slot_hashed_part(key), part))
		fail_msg("%.*s", (int)key.n, key.p);
	assert_int_equal(slot_of_key(key), slot_of_key(part));
}

TEST(test_a_hash_tag_is_what_the_first_braces_hold)
{
	assert_hashed(S("{user1000}.following"), S("user1000"));
	assert_hashed(S("a{b}{c}"), S("b"));
	assert_hashed(S("foo{bar{zap}}"), S("bar{zap")); /* the key has no hash tag */
	assert_hashed(S("}a{b}"), S("b"));
	assert_hashed(S("{a}"), S("a"));
}

TEST(test_braces_that_hold_nothing_are_no_hash_tag)
{
	assert_hashed(S(""), S(""));
	assert_hashed(S("foo{}{bar}"), S("foo{}{bar}"));
	assert_hashed(S("{}a"), S("{}a"));
	assert_hashed(S("a}b"), S("a}b"));
	assert_hashed(S("a{b"), S("a{b"));
	assert_hashed(S("{"), S("{"));
	assert_hashed(S("}{"), S("}{"));
}

TEST(test_each_slot_has_a_text_that_may_be_a_hash_tag)
{
	for (uint16_t slot = 0; slot < SLOTS; slot++) {
		struct slice tag = slot_tag(slot);
		char key[] = "hasp:owner:{   }a}b";

		assert_int_equal(tag.n, SLOT_TAG_LEN);
		memcpy(strchr(key, ' '), tag.p, tag.n);
		assert_int_equal(slot_of_key(slice_str(key)), slot);
	}
}

/* Keys of other hasps contain these texts, so each version must use the same ones. */
TEST(test_the_texts_stay_what_they_are)
{
	static const struct {
		uint16_t slot;
		const char *tag;
	} known[] = {
		{ 0, "06S" }, { 1, "2Gx" }, { 5061, "bar" }, { 12182, "9Le" }, { 16383, "6ZJ" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!slice_eq(slot_tag(known[i].slot), slice_str(known[i].tag)))
			fail_msg("%u: %.*s", known[i].slot, SLOT_TAG_LEN,
			         slot_tag(known[i].slot).p);
}
