/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of config/match.c: the rule or guard of a key, what the key's first byte alone decides,
 * and the meaning of a command for a guard.
 */
#include <stdio.h>

#include "base/glob.h"
#include "config/config.h"
#include "config/match.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

#define GET "\nacquire_on = GET\n"

/* Returns the rule that a worker finds right after it got the configuration. */
static const struct rule *rule_of(const struct config *c, struct slice key)
{
	struct matcher *m = match_new(c);
	const struct rule *rule = match_rule(m, key);

	match_free(m);
	return rule;
}

static const struct guard *guard_of(const struct config *c, struct slice key)
{
	struct matcher *m = match_new(c);
	const struct guard *g = match_guard(m, key);

	match_free(m);
	return g;
}

static const char *rule_name(const struct config *c, const char *key)
{
	const struct rule *r = rule_of(c, slice_str(key));

	return r ? r->section.name : "none";
}

TEST(the_first_matching_rule_wins)
{
	struct config *c = load(
		"[lock narrow]\npattern = x:1* y\n[lock wide]\npattern = x:*\n");

	assert_string_equal(rule_name(c, "x:12"), "narrow");
	assert_string_equal(rule_name(c, "y"), "narrow");
	assert_string_equal(rule_name(c, "x:2"), "wide");
	assert_string_equal(rule_name(c, "z"), "none");
	assert_ptr_equal(rule_of(c, SLICE_LIT("x:\0")), c->rules[1]);
	config_unref(c);
}

TEST(of_the_patterns_of_a_rule_any_may_match)
{
	struct config *c = load("[lock a]\npattern = x:1\n\ty:*, z?\n");

	assert_string_equal(rule_name(c, "x:1"), "a");
	assert_string_equal(rule_name(c, "y:1"), "a");
	assert_string_equal(rule_name(c, "z1"), "a");
	assert_string_equal(rule_name(c, "x:2"), "none");
	assert_string_equal(rule_name(c, "z12"), "none");
	config_unref(c);
}

TEST(a_key_may_have_any_bytes_or_none)
{
	struct config *c = load("[lock a]\npattern = a?b\n[lock b]\npattern = b*\n");
	struct config *all = load_warned("[lock all]\npattern = *\n",
	                                 "2: pattern '*' of [lock all] makes every key a lock; "
	                                 "name only the keys that are locks, such as lock:*\n");

	assert_ptr_equal(rule_of(c, SLICE_LIT("a\0b")), c->rules[0]);
	assert_ptr_equal(rule_of(c, SLICE_LIT("b\xff\0\n")), c->rules[1]);
	assert_null(rule_of(c, SLICE_LIT("a\0")));
	assert_null(rule_of(c, SLICE_LIT("")));
	assert_null(rule_of(c, SLICE_NONE));
	assert_ptr_equal(rule_of(all, SLICE_LIT("")), all->rules[0]);
	assert_ptr_equal(rule_of(all, SLICE_LIT("\0")), all->rules[0]);
	config_unref(c);
	config_unref(all);
}

TEST(without_rules_and_guards_no_key_has_one)
{
	struct config *c = config_load(NULL, NULL, NULL);

	assert_null(rule_of(c, SLICE_LIT("x")));
	assert_null(guard_of(c, SLICE_LIT("x")));
	assert_null(rule_of(c, SLICE_LIT("")));
	assert_null(guard_of(c, SLICE_LIT("")));
	assert_int_equal(match_possible(c, SLICE_LIT("x")), 0);
	config_unref(c);
}

static unsigned possible(const struct config *c, const char *key)
{
	return match_possible(c, slice_str(key));
}

TEST(a_key_without_rule_is_known_by_its_first_byte)
{
	struct config *c = load("[lock a]\npattern = x:* y\n[guard b]\npattern = z:*\n"
	                        "acquire_on = GET\n");

	assert_int_equal(possible(c, "x:1"), MATCH_RULE);
	assert_int_equal(possible(c, "yes"), MATCH_RULE);
	assert_int_equal(possible(c, "z"), MATCH_GUARD);
	assert_int_equal(possible(c, ""), MATCH_RULE | MATCH_GUARD);
	assert_int_equal(possible(c, "a:x:1"), 0);
	assert_int_equal(possible(c, "X:1"), 0);
	config_unref(c);
}

TEST(a_pattern_that_begins_with_any_byte_may_match_all)
{
	static const char *const patterns[] = { "*:lock", "?x", "[ab]x", "\\\\*x" };

	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		char text[64];
		struct config *c;
		snprintf(text, sizeof(text), "[lock a]\npattern = %s\n", patterns[i]);
		c = load(text);
		assert_int_equal(possible(c, "ax"), MATCH_RULE);
		assert_int_equal(possible(c, "*x"), MATCH_RULE);
		assert_int_equal(possible(c, "\xffx"), MATCH_RULE);
		config_unref(c);
	}
}

/* match_rule(), which goes by the key's first byte, finds the same rule as a test of all
 * patterns. */
TEST(the_first_byte_never_hides_a_match)
{
	static const char *const patterns[] = {
		"a",    "a*",   "*a",     "?",   "?a",  "[a-c]", "[^a]",  "[]",   "[^]",
		"\\a",  "\\*a", "\\",     "\\[", "*?a", "a\\*b", "]a",    "^a",   "-",
		"\xff", "**a",  "[\\]]*", "h?",  "has", "x;y",   "[c-a]", "[a-]", "\\\\",
	};
	char key[2];

	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
		struct slice pattern = slice_str(patterns[i]);
		char text[64];
		struct config *c;
		struct matcher *m;

		snprintf(text, sizeof(text), "[lock a]\npattern = %s\n", patterns[i]);
		c = load_anyway(text);
		m = match_new(c);
		for (int n = 0; n < 256 * 256; n++) {
			struct slice one = slice_of(key, 1), two = slice_of(key, 2);

			key[0] = (char)(n / 256);
			key[1] = (char)(n % 256);
			if (!!match_rule(m, two) != glob_match(pattern, two) ||
			    !!match_rule(m, one) != glob_match(pattern, one))
				fail_msg("pattern %s, key %02x%02x", patterns[i],
				         (unsigned)n / 256, (unsigned)n % 256);
		}
		match_free(m);
		config_unref(c);
	}
}

TEST(hasps_reserved_keys_have_no_rule)
{
	struct config *c = load("[lock a]\npattern = h* *:b\n");

	assert_string_equal(rule_name(c, "hasp:owner:{x}:b"), "none");
	assert_string_equal(rule_name(c, "hasp:"), "none");
	assert_string_equal(rule_name(c, "hasp"), "a");
	config_unref(c);
}

static const char *guard_name(const struct config *c, const char *key)
{
	const struct guard *g = guard_of(c, slice_str(key));

	return g ? g->section.name : "none";
}

TEST(the_first_matching_guard_wins)
{
	struct config *c = load("[guard narrow]\npattern = x:1* y\nacquire_on = GET\n"
	                        "[guard wide]\npattern = x:*\nacquire_on = GET\n");

	assert_string_equal(guard_name(c, "x:12"), "narrow");
	assert_string_equal(guard_name(c, "y"), "narrow");
	assert_string_equal(guard_name(c, "x:2"), "wide");
	assert_string_equal(guard_name(c, "z"), "none");
	assert_ptr_equal(guard_of(c, SLICE_LIT("x:\0")), c->guards[1]);
	config_unref(c);
}

TEST(locks_are_not_guarded)
{
	struct config *c = load("[guard a]\npattern = x:*\nacquire_on = GET\n"
	                        "[lock l]\npattern = x:l*\n");

	assert_string_equal(guard_name(c, "x:lock"), "none");
	assert_string_equal(guard_name(c, "x:1"), "a");
	config_unref(c);
}

TEST(a_key_has_the_flags_of_all_that_may_match)
{
	struct config *c = load("[guard a]\npattern = x:*" GET "[lock l]\npattern = x:l*\n");

	assert_int_equal(possible(c, "x:1"), MATCH_RULE | MATCH_GUARD);
	assert_int_equal(possible(c, "y"), 0);
	config_unref(c);
}

TEST(a_rule_in_mode_observe_leaves_no_key_to_guards)
{
	struct config *c = load("[lock l]\npattern = x:l*\nmode = observe\n"
	                        "[guard a]\npattern = x:*" GET);

	assert_string_equal(guard_name(c, "x:lock"), "none");
	assert_string_equal(guard_name(c, "x:1"), "a");
	config_unref(c);
}

TEST(hasps_reserved_keys_are_not_guarded)
{
	struct config *c = load("[guard a]\npattern = h*\nacquire_on = GET\n");

	assert_string_equal(guard_name(c, "hasp:guard:{x}"), "none");
	assert_string_equal(guard_name(c, "hasp"), "a");
	config_unref(c);
}

TEST(a_guard_knows_its_commands_in_any_case)
{
	struct config *c = load("[guard a]\npattern = a\nacquire_on = Get GETDEL\n"
	                        "release_on = set GETDEL\n");
	const struct guard *g = c->guards[0];

	assert_true(match_acquires(g, SLICE_LIT("GET")));
	assert_true(match_acquires(g, SLICE_LIT("getdel")));
	assert_false(match_acquires(g, SLICE_LIT("GE")));
	assert_false(match_acquires(g, SLICE_LIT("SET")));
	assert_true(match_releases(g, SLICE_LIT("SET")));
	assert_true(match_releases(g, SLICE_LIT("getDel")));
	assert_false(match_releases(g, SLICE_LIT("APPEND")));
	config_unref(c);
}

TEST(a_guard_without_release_on_is_released_by_all_it_is_not_acquired_by)
{
	struct config *c = load("[guard a]\npattern = a\nacquire_on = GET GETEX\n");
	const struct guard *g = c->guards[0];

	assert_true(match_releases(g, SLICE_LIT("set")));
	assert_false(match_releases(g, SLICE_LIT("getex")));
	config_unref(c);
}
