/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/glob.c: patterns match the keys that Redis' KEYS lists for them. All
 * expectations, also the odd ones, were taken from a Redis 7.0.15.
 */
#include <stdlib.h>
#include <time.h>

#include "base/glob.h"
#include "tests/unit/testing.h"

/* Matches a copy without room after the last byte, so that ASan sees a read past it. */
static bool match_bytes(struct slice pattern, struct slice s)
{
	char *p = malloc(pattern.n), *t = malloc(s.n);
	bool yes;

	if (pattern.n)
		memcpy(p, pattern.p, pattern.n);
	if (s.n)
		memcpy(t, s.p, s.n);
	yes = glob_match(slice_of(p, pattern.n), slice_of(t, s.n));
	free(p);
	free(t);
	return yes;
}

static bool match(const char *pattern, const char *s)
{
	return match_bytes(slice_str(pattern), slice_str(s));
}

TEST(a_literal_matches_only_itself)
{
	assert_true(match("lock", "lock"));
	assert_false(match("lock", "lock2"));
	assert_false(match("lock", "loc"));
	assert_false(match("lock", "LOCK"));
	assert_false(match("lock", ""));
	assert_false(match("", "lock"));
}

TEST(a_star_matches_any_bytes)
{
	assert_true(match("*", "anything"));
	assert_true(match("lock:*", "lock:1"));
	assert_true(match("lock:*", "lock:"));
	assert_false(match("lock:*", "lock"));
	assert_true(match("*:lock", "a:b:lock"));
	assert_false(match("*:lock", "a:locked"));
	assert_true(match("a*b*c", "aXbYbZc"));
	assert_false(match("a*b*c", "aXcYb"));
	assert_false(match("ab*bc", "abc"));
	assert_true(match("a**c", "abc"));
	assert_true(match("***", "a"));
}

TEST(a_question_mark_matches_one_byte)
{
	assert_true(match("lock:?", "lock:1"));
	assert_false(match("lock:?", "lock:12"));
	assert_false(match("lock:?", "lock:"));
	assert_true(match("*??", "ab"));
	assert_false(match("*??", "a"));
}

TEST(only_the_empty_and_the_bare_star_match_the_empty_key)
{
	assert_true(match("", ""));
	assert_true(match("*", ""));
	assert_false(match("**", ""));
	assert_false(match("?", ""));
	assert_false(match("[^]", ""));
}

TEST(a_class_matches_one_of_its_bytes)
{
	assert_true(match("h[ae]llo", "hallo"));
	assert_true(match("h[ae]llo", "hello"));
	assert_false(match("h[ae]llo", "hillo"));
	assert_false(match("h[ae]llo", "haello"));
	assert_true(match("*[12]", "lock:2"));
}

TEST(a_class_has_ranges_in_either_order)
{
	assert_true(match("[b-d]", "c"));
	assert_true(match("[b-d]", "b"));
	assert_true(match("[b-d]", "d"));
	assert_false(match("[b-d]", "a"));
	assert_false(match("[b-d]", "-"));
	assert_true(match("[d-b]", "c"));
	assert_false(match("[d-b]", "e"));
	assert_true(match("[0-9a-f]", "e"));
}

TEST(a_negated_class_matches_all_other_bytes)
{
	assert_true(match("h[^e]llo", "hallo"));
	assert_false(match("h[^e]llo", "hello"));
	assert_false(match("[^a-c]", "b"));
	assert_true(match("[^a-c]", "d"));
	assert_true(match("[a^]", "^"));
}

TEST(a_backslash_takes_the_next_byte_for_itself)
{
	assert_true(match("\\*", "*"));
	assert_false(match("\\*", "a"));
	assert_true(match("a\\?b", "a?b"));
	assert_false(match("a\\?b", "aXb"));
	assert_true(match("\\[a]", "[a]"));
	assert_true(match("[\\]]", "]"));
	assert_true(match("[a\\-c]", "-"));
	assert_false(match("[a\\-c]", "b"));
	assert_true(match("\\a", "a"));
}

TEST(an_unterminated_class_ends_with_the_pattern)
{
	assert_true(match("[ab", "b"));
	assert_false(match("[ab", "c"));
	assert_false(match("[ab", "bb"));
	assert_true(match("x[^", "xy"));
	assert_false(match("[", "["));
	assert_true(match("[\\", "\\"));
	assert_true(match("*[ab", "xxa"));
}

TEST(an_empty_class_matches_nothing_and_negated_all)
{
	assert_false(match("[]", "]"));
	assert_false(match("[]a]", "a"));
	assert_true(match("[^]", "x"));
	assert_true(match("[^]b", "ab"));
}

TEST(a_range_takes_the_bracket_for_its_end)
{
	assert_true(match("[a-]", "a"));
	assert_true(match("[a-]", "]"));
	assert_true(match("[a-]", "_"));
	assert_false(match("[a-]", "-"));
}

TEST(a_final_backslash_is_one)
{
	assert_true(match("a\\", "a\\"));
	assert_false(match("a\\", "a"));
}

TEST(zero_and_high_bytes_are_bytes)
{
	assert_true(match_bytes(SLICE_LIT("a\0*"), SLICE_LIT("a\0b\xff")));
	assert_false(match_bytes(SLICE_LIT("a\0b"), SLICE_LIT("a\0c")));
	assert_true(match_bytes(SLICE_LIT("?"), SLICE_LIT("\0")));
	assert_true(match_bytes(SLICE_LIT("[\xf0-\xff]"), SLICE_LIT("\xf7")));
	assert_false(match_bytes(SLICE_LIT("[\xf0-\xff]"), SLICE_LIT("a")));
}

TEST(many_stars_do_not_take_exponential_time)
{
	char s[5000];
	clock_t start = clock();

	memset(s, 'a', sizeof(s));
	assert_false(match_bytes(SLICE_LIT("a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b"),
	                         slice_of(s, sizeof(s))));
	assert_true((clock() - start) / CLOCKS_PER_SEC < 2);
}

TEST(literal_means_that_no_byte_is_special)
{
	assert_true(glob_is_literal(slice_str("lock:1]^-")));
	assert_true(glob_is_literal(slice_str("")));
	assert_false(glob_is_literal(slice_str("lock:*")));
	assert_false(glob_is_literal(slice_str("?")));
	assert_false(glob_is_literal(slice_str("[a")));
	assert_false(glob_is_literal(slice_str("a\\b")));
}
