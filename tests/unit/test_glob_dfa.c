/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/glob_dfa.c: a set of patterns finds the same match for a key as trying one
 * pattern after the other.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/glob.h"
#include "base/glob_dfa.h"
#include "tests/unit/testing.h"

#define PATTERNS_MAX 12
#define LENGTH_MAX 12

struct patterns {
	struct slice v[PATTERNS_MAX];
	size_t n;
	struct glob_set *set;
	struct glob_dfa *dfa;
};

static void compile(struct patterns *p, size_t max_bytes)
{
	p->set = glob_set_new();
	for (size_t i = 0; i < p->n; i++)
		glob_set_add(p->set, p->v[i], (int32_t)i);
	glob_set_complete(p->set);
	p->dfa = glob_dfa_new(p->set, max_bytes);
}

static void end(struct patterns *p)
{
	glob_dfa_free(p->dfa);
	glob_set_free(p->set);
}

static int32_t find_in_turn(const struct patterns *p, struct slice key)
{
	for (size_t i = 0; i < p->n; i++)
		if (glob_match(p->v[i], key))
			return (int32_t)i;
	return GLOB_SET_NONE;
}

/* Checks a copy without room after its last byte, so that ASan sees a read past it. */
static void check(const struct patterns *p, struct slice key)
{
	char *exact = malloc(key.n);
	int32_t found;

	if (key.n)
		memcpy(exact, key.p, key.n);
	found = glob_dfa_find(p->dfa, slice_of(exact, key.n));
	free(exact);
	if (found == find_in_turn(p, key))
		return;
	for (size_t i = 0; i < p->n; i++)
		print_message("pattern %zu: '%.*s'\n", i, (int)p->v[i].n, p->v[i].p);
	fail_msg("key '%.*s': %d, expected %d", (int)key.n, key.p, found, find_in_turn(p, key));
}

static void words(struct patterns *p, const char *const *v, size_t n, size_t max_bytes)
{
	*p = (struct patterns){ .n = n };
	for (size_t i = 0; i < n; i++)
		p->v[i] = slice_str(v[i]);
	compile(p, max_bytes);
}

#define WORDS(p, ...)                                                                          \
	words(p, (const char *const[]){ __VA_ARGS__ },                                         \
	      sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(const char *), GLOB_DFA_LIKELY)

TEST(the_first_that_matches_is_found)
{
	struct patterns p;

	WORDS(&p, "lock:1*", "lock:*", "*:1", "lock:2", "*");
	assert_int_equal(glob_dfa_find(p.dfa, SLICE_LIT("lock:12")), 0);
	assert_int_equal(glob_dfa_find(p.dfa, SLICE_LIT("lock:2")), 1);
	assert_int_equal(glob_dfa_find(p.dfa, SLICE_LIT("lock:")), 1);
	assert_int_equal(glob_dfa_find(p.dfa, SLICE_LIT("x:1")), 2);
	assert_int_equal(glob_dfa_find(p.dfa, SLICE_LIT("lock")), 4);
	assert_int_equal(glob_dfa_find(p.dfa, SLICE_NONE), 4);
	end(&p);
}

TEST(a_set_without_patterns_matches_nothing)
{
	struct patterns p = { .n = 0 };

	compile(&p, GLOB_DFA_LIKELY);
	check(&p, SLICE_NONE);
	check(&p, SLICE_LIT("x"));
	end(&p);
}

TEST(several_patterns_may_have_one_number)
{
	struct glob_set *set = glob_set_new();
	struct glob_dfa *dfa;

	glob_set_add(set, SLICE_LIT("a*b"), 7);
	glob_set_add(set, SLICE_LIT("c"), 7);
	glob_set_add(set, SLICE_LIT("c"), 3);
	glob_set_add(set, SLICE_LIT("c"), 9);
	glob_set_complete(set);
	dfa = glob_dfa_new(set, GLOB_DFA_LIKELY);
	assert_int_equal(glob_dfa_find(dfa, SLICE_LIT("ab")), 7);
	assert_int_equal(glob_dfa_find(dfa, SLICE_LIT("c")), 3);
	glob_dfa_free(dfa);
	glob_set_free(set);
}

/* A pattern for every odd string that Redis accepts, against every key of one byte, and every
 * key of two bytes from an alphabet that has all bytes of the patterns and some others. */
TEST(odd_patterns_match_as_alone)
{
	static const char *const odd[] = {
		"",       "a",     "a*",    "*a",   "?",     "?a",      "[a-c]",       "[^a]",
		"[",      "[]",    "[^]",   "[a",   "\\a",   "\\*a",    "\\",          "\\[",
		"*?a",    "a\\*b", "]a",    "^a",   "-",     "\xff",    "**a",         "[\\]",
		"[\\]]*", "h?",    "[c-a]", "[a-]", "\\\\",  "[]a]",    "[^]b",        "x[^",
		"*[ab",   "**",    "***?",  "a**",  "[^a-c", "[a\\-c]", "[\xf0-\xff]", "a\\",
	};
	static const char alphabet[] =
		"abchxz[]^-\\*?:\t\n\x7f\x80\xef\xf0\xf1\xfe\xff"; /* and \0 */
	char key[2];

	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++) {
		struct patterns p;
		words(&p, &odd[i], 1, GLOB_DFA_LIKELY);
		check(&p, SLICE_NONE);
		for (int byte = 0; byte < 256; byte++) {
			key[0] = (char)byte;
			check(&p, slice_of(key, 1));
		}
		for (size_t n = 0; n < sizeof(alphabet) * sizeof(alphabet); n++) {
			key[0] = alphabet[n / sizeof(alphabet)];
			key[1] = alphabet[n % sizeof(alphabet)];
			check(&p, slice_of(key, 2));
		}
		end(&p);
	}
}

static uint64_t seed = 1;

static size_t below(size_t n)
{
	seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (size_t)(seed >> 33) % n;
}

static struct slice random_bytes(char *to, const char *alphabet)
{
	size_t n = below(LENGTH_MAX + 1);

	for (size_t i = 0; i < n; i++)
		to[i] = alphabet[below(strlen(alphabet))];
	return slice_of(to, n);
}

/* Uses a small alphabet, so that patterns often match. */
static void check_random_sets(size_t max_bytes, const char *alphabet)
{
	static char bytes[PATTERNS_MAX][LENGTH_MAX];

	for (int round = 0; round < 300; round++) {
		struct patterns p = { .n = 1 + below(PATTERNS_MAX) };
		for (size_t i = 0; i < p.n; i++)
			p.v[i] = random_bytes(bytes[i], alphabet);
		compile(&p, max_bytes);
		for (int n = 0; n < 200; n++) {
			char key[LENGTH_MAX];
			check(&p, random_bytes(key, "aaabbc[]*\\-"));
		}
		end(&p);
	}
}

TEST(random_patterns_match_as_alone)
{
	check_random_sets(GLOB_DFA_LIKELY, "aabc**?[]^-\\");
	check_random_sets(GLOB_DFA_LIKELY, "ab*");
}

TEST(dropped_states_are_made_again)
{
	check_random_sets(0, "aabc**?[]^-\\");
	check_random_sets(1000, "ab*?");
}

/* With n bytes after the star, any may be the one in the pattern: 2^n states. */
TEST(the_memory_for_states_is_bounded)
{
	enum { KEY = 1 << 16 };
	char *key = malloc(KEY);
	struct patterns p;

	WORDS(&p, "*a????????????????????????????????????????b", "*b*c*a*b*a*c*");
	for (int i = 0; i < KEY; i++)
		key[i] = "abc"[below(3)];
	for (int i = 0; i < 4; i++)
		check(&p, slice_of(key, KEY - (size_t)i));
	assert_in_range(glob_dfa_bytes(p.dfa), 1, 4 << 20);
	end(&p);
	free(key);
}

/* Patterns with one star at most need no more states than nodes. */
TEST(a_thousand_patterns_have_few_states)
{
	static const struct {
		const char *before, *behind;
	} shapes[] = { { "app:", ":*" }, { "", ":lock" }, { "*:", "" }, { "*:", ":?" } };

	for (size_t i = 0; i < sizeof(shapes) / sizeof(*shapes); i++) {
		struct glob_set *set = glob_set_new();
		struct glob_dfa *dfa;
		char text[32];
		for (int n = 0; n < 1000; n++) {
			snprintf(text, sizeof(text), "%s%04d%s", shapes[i].before, n,
			         shapes[i].behind);
			glob_set_add(set, slice_str(text), n);
		}
		glob_set_complete(set);
		dfa = glob_dfa_new(set, GLOB_DFA_LIKELY);
		for (int n = 0; n < 1000; n++) {
			snprintf(text, sizeof(text), "%s%04d%s", shapes[i].before, n,
			         shapes[i].behind);
			assert_int_equal(glob_dfa_find(dfa, slice_str(text)), n);
		}
		assert_in_range(glob_dfa_bytes(dfa), 1, 1 << 20);
		glob_dfa_free(dfa);
		glob_set_free(set);
	}
}
