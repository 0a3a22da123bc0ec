/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests that clients cannot write hasp's own keys, where hasp keeps locks.
 */

#include "policy/context.h"
#include "tests/unit/inifile.h"
#include "tests/unit/policy_fixture.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

FIXTURE(policy_set_up, policy_tear_down);

#define RULE "[lock a]\npattern = lock:*\n"
#define GUARD "[guard a]\npattern = stock:*\nacquire_on = GET\n"
#define REFUSED                                                                                \
	"NOPERM hasp: keys that begin with hasp: are reserved; clients may only read "         \
	"them"

TEST(a_write_of_an_own_key_is_refused)
{
	static const char *const sections[] = { RULE, GUARD, "[verbs]\n" };

	for (size_t i = 0; i < 3; i++) {
		policy_use(*state, sections[i]);
		assert_refused(*state, "SET hasp:fence 0", REFUSED);
		assert_refused(*state, "DEL a hasp:owner:{lock:a} b", REFUSED);
		assert_refused(*state, "RENAME a hasp:x", REFUSED);
		assert_refused(*state, "EVAL text 2 a hasp:x", REFUSED);
	}
}

TEST(what_only_names_one_passes)
{
	policy_use(*state, "[verbs]\n");
	assert_passed(*state, "GET hasp:fence");
	assert_passed(*state, "SET a hasp:fence");
	assert_passed(*state, "COPY hasp:fence a");
	assert_passed(*state, "SORT hasp:x");
	assert_passed(*state, "EVAL text 1 a hasp:fence");
	assert_passed(*state, "SET hasp 1");
	/* Redis refuses this command. */
	assert_passed(*state, "SET hasp:fence");
	assert_passed(*state, "EVAL text 3 hasp:fence");
}

TEST(where_no_lock_is_kept_it_passes)
{
	assert_passed(*state, "SET hasp:fence 0");
	policy_use(*state, "[hasp]\nallow_own_keys = yes\n[verbs]\n");
	assert_passed(*state, "SET hasp:fence 0");
}

/* Asserts the decision on a request of which only the beginning has arrived. */
static void assert_untouched(bool expected, struct policy_fixture *f, const char *words)
{
	decide(f, words);
	context_set_command(&f->x, &f->env, &f->what, &f->view, NULL);
	assert_int_equal(reserved_keys_are_untouched(&f->x), expected);
}

TEST(a_long_request_streams_when_its_keys_are_known)
{
	policy_use(*state, "[verbs]\n");
	assert_untouched(true, *state, "SET a v");
	assert_untouched(true, *state, "SET a");
	assert_untouched(true, *state, "GET hasp:a");
	assert_untouched(false, *state, "SET");
	assert_untouched(false, *state, "SET hasp:a v");
	assert_untouched(false, *state, "MSET a v");
	assert_untouched(true, *state, "EVAL text 1 a");
	assert_untouched(true, *state, "EVAL text 0");
	assert_untouched(true, *state, "EVAL text x");
	assert_untouched(false, *state, "EVAL text 2 a");
	assert_untouched(false, *state, "EVAL text");
	assert_untouched(false, *state, "EVAL text 2 a hasp:a");
}
