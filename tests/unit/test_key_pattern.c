/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/glob.h"
#include "tests/unit/testing.h"
#include "watch/key_pattern.h"

/* Asserts the key's pattern, and that it matches the key. */
static void assert_key_pattern(struct slice key, const char *expected, bool varies)
{
	struct buf shape = BUF_INIT;

	assert_int_equal(key_pattern(&shape, key), varies);
	if (!slice_eq(buf_slice(&shape), slice_str(expected)))
		fail_msg("%s: %.*s", expected, (int)buf_len(&shape), buf_head(&shape));
	assert_true(glob_match(buf_slice(&shape), key));
	buf_release(&shape);
}

static void assert_key_pattern_of(const char *key, const char *expected, bool varies)
{
	assert_key_pattern(slice_str(key), expected, varies);
}

TEST(words_stay)
{
	assert_key_pattern_of("lock:stock", "lock:stock", false);
	assert_key_pattern_of("beef", "beef", false);
	assert_key_pattern_of("facade:decade", "facade:decade", false);
	assert_key_pattern_of("utf-eight", "utf-eight", false);
}

TEST(numbers_dates_and_identifiers_vary)
{
	assert_key_pattern_of("lock:order:4711", "lock:order:*", true);
	assert_key_pattern_of("report-2026-11-22", "report-*", true);
	assert_key_pattern_of("from:10.0.0.7:lock", "from:*:lock", true);
	assert_key_pattern_of("a8098c1a-f86e-11da-bd1a-00112444be1e", "*", true);
	assert_key_pattern_of("s:a8098c1a-f86e-11da-bd1a-00112444be1e:l", "s:*:l", true);
	assert_key_pattern_of("job:deadbeef01:x", "job:*:x", true);
	assert_key_pattern_of("ulid/01ARZ3NDEKTSV4RRFFQ69G5FAV", "ulid/*", true);
	/* These parts vary separately. */
	assert_key_pattern_of("1:2", "*:*", true);
	assert_key_pattern_of("7-up", "*-up", true);
}

TEST(digits_at_the_end_of_a_word_vary_if_there_are_several)
{
	assert_key_pattern_of("user42:lock", "user*:lock", false);
	assert_key_pattern_of("{cart:u17}:lock", "{cart:u*}:lock", false);
	assert_key_pattern_of("x2y", "x2y", false);
}

/* The shortest and longest words of each kind, with their first and last letters. */
TEST(words_are_told_from_identifiers_by_their_length_and_digits)
{
	static const struct {
		const char *key, *expected;
		bool varies;
	} rows[] = {
		/* Hexadecimal with a digit, from 8 characters on. */
		{ "x:abcdef0a", "x:*", true },
		{ "x:ABCDEF0A", "x:*", true },
		{ "x:abcde0a", "x:abcde0a", false },
		{ "x:abcdef0g", "x:abcdef0g", false },
		{ "x:GBCDEF0A", "x:GBCDEF0A", false },
		{ "x:abcdefab", "x:abcdefab", false },
		/* Letters with two digits, from 16 characters on. */
		{ "x:zyzyzyzyzyzyz1y2", "x:*", true },
		{ "x:zyzyzyzyzyzyz12", "x:zyzyzyzyzyzyz*", false },
		{ "x:zyzyzyzyzyzyzy1z", "x:zyzyzyzyzyzyzy1z", false },
		{ "x:zyzyzyzyzyzy1z2y", "x:*", true },
		{ "x:ZAZAZAZAZAZAZ1A2", "x:*", true },
		/* A UUID; then texts that are longer, shorter or differently formed. */
		{ "A8098C1A-f86e-11da-bd1a-00112444bfff", "*", true },
		{ "a8098c1a-f86e-11da-bd1a-00112444bfff-z", "*-z", true },
		{ "a8098c1a-f86e-11da-bd1a_00112444bfff", "*-f86e-11da-bd1a_*", true },
		{ "a8098c1a-f86e-11da-bd1a-00112444bffg", "*-f86e-11da-bd1a-00112444bffg",
		  true },
		{ "a8098c1a-f86e-11da-bd1a-00112444bfffz", "*-f86e-11da-bd1a-00112444bfffz",
		  true },
		{ "a8098c1a-f86e-11da-bd1a-00112444bfff9", "*-f86e-11da-bd1a-*", true },
		/* Numbers joined by a separator. */
		{ "1-2", "*", true },
		{ "1.2", "*", true },
		{ "1-", "*-", true },
		{ "1-a", "*-a", true },
		{ "1_2", "*_*", true },
		{ "z9", "z*", false },
		{ "*", "\\*", false },
		{ "\\*7", "\\\\\\**", true },
		{ "~\x7f", "*", true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_key_pattern_of(rows[i].key, rows[i].expected, rows[i].varies);
}

TEST(parts_that_are_no_text_vary_as_a_whole)
{
	assert_key_pattern(slice_of("cart:ab\xff-c\x01z:v2", 15), "cart:*:v*", true);
	/* Parts with separators among invalid bytes. */
	assert_key_pattern(slice_of("cart-\xfe:q:/\x80:lock", 16), "cart-*:lock", true);
	/* Two invalid parts with a word between them. */
	assert_key_pattern(slice_of("\x01\xff:room.\xfe\xfdq", 11), "*:room.*", true);
	assert_key_pattern(slice_of("\x01\xff:job/7", 8), "*:job/*", true);
	/* This is valid UTF-8. */
	assert_key_pattern_of("\xc3\xbc"
	                      "ber:lock",
	                      "*ber:lock", true);
}

TEST(what_is_special_in_globs_or_files_is_escaped_or_varies)
{
	assert_key_pattern_of("a*b?c[d]\\e", "a\\*b\\?c\\[d\\]\\\\e", false);
	assert_key_pattern_of("two words", "two*words", true);
	assert_key_pattern_of("a;b#c\"d", "a*b*c*d", true);
	assert_key_pattern(slice_of("k:\0\xff\n:v", 7), "k:*:v", true);
	assert_key_pattern_of("9*9", "*\\**", true);
}

TEST(a_literal_matches_its_key_and_little_else)
{
	struct buf literal = BUF_INIT;

	key_pattern_literal(&literal, slice_of("v1[x] \xff", 7));
	assert_true(slice_eq(buf_slice(&literal), SLICE_LIT("v1\\[x\\]??")));
	assert_true(glob_match(buf_slice(&literal), slice_of("v1[x] \xff", 7)));
	assert_false(glob_match(buf_slice(&literal), SLICE_LIT("v2[x] y")));
	buf_release(&literal);
}
