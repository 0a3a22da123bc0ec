/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fuzz_globs: a set of patterns must find what trying one pattern after the other finds. The
 * input has a pattern and a key by turns, each up to a newline. Each new pattern repeats the
 * search for each key.
 */
#include "fuzz.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "base/glob.h"
#include "base/glob_dfa.h"

#define PATTERNS_MAX 32
#define STATES_BYTES                                                                           \
	((size_t)2000) /* so few that the automaton drops its states now and then */

const struct slice fuzz_pieces[] = {
	SLICE_LIT("*"),    SLICE_LIT("?"),    SLICE_LIT("a"),    SLICE_LIT("b"),
	SLICE_LIT("ab*"),  SLICE_LIT("*ab"),  SLICE_LIT("a\nb"), SLICE_LIT("\n"),
	SLICE_LIT("\nab"), SLICE_LIT("b\na"), SLICE_LIT("[ab]"), SLICE_LIT("[^a]"),
	SLICE_LIT("["),    SLICE_LIT("]"),    SLICE_LIT("^"),    SLICE_LIT("-"),
	SLICE_LIT("[b-"),  SLICE_LIT("\\"),   SLICE_LIT("\\*"),  SLICE_LIT("\0"),
	SLICE_LIT("\xff"), SLICE_NONE,
};

static int32_t find_in_turn(const struct slice *patterns, size_t n, struct slice key)
{
	for (size_t i = 0; i < n; i++)
		if (glob_match(patterns[i], key))
			return (int32_t)i;
	return GLOB_SET_NONE;
}

static void look(const struct slice *patterns, size_t n, const struct slice *keys, size_t nkeys)
{
	struct glob_set *set = glob_set_new();
	struct glob_dfa *dfa;

	for (size_t i = 0; i < n; i++)
		glob_set_add(set, patterns[i], (int32_t)i);
	glob_set_complete(set);
	dfa = glob_dfa_new(set, STATES_BYTES);
	for (size_t i = 0; i < nkeys; i++)
		HASP_ASSERT(glob_dfa_find(dfa, keys[i]) == find_in_turn(patterns, n, keys[i]));
	glob_dfa_free(dfa);
	glob_set_free(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice patterns[PATTERNS_MAX], keys[PATTERNS_MAX], left, word;
	size_t n = 0;

	if (size == 0 || size > FUZZ_INPUT_MAX)
		return 0;
	/* The first byte says how streams are cut; here it is no part of them. */
	left = slice_of(data + 1, size - 1);
	while (n < PATTERNS_MAX && slice_cut(&left, '\n', &word)) {
		patterns[n] = word;
		keys[n] = SLICE_NONE;
		slice_cut(&left, '\n', &keys[n]);
		look(patterns, n + 1, keys, n + 1);
		n++;
	}
	return 0;
}
