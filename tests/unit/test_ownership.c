/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of config/ownership.c: which changes of the file would change the owners of locks that
 * clients hold.
 */
#include "config/ownership.h"

#include <stdio.h>

#include "config/config.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

typedef bool refusal_fn(const struct config *was, const struct config *will, struct buf *why);

static void assert_refusal(refusal_fn *refuses, const char *was, const char *will,
                           const char *reason)
{
	struct config *running = load_anyway(was), *next = load_anyway(will);
	struct buf why = BUF_INIT;

	assert_int_equal(refuses(running, next, &why), reason != NULL);
	buf_append(&why, SLICE_LIT("\0"));
	assert_string_equal(buf_head(&why), reason ? reason : "");
	buf_release(&why);
	config_unref(running);
	config_unref(next);
}

/* Fails unless a change from one text to the other is refused for the reason; NULL: it is not
 * refused. */
static void assert_change(const char *was, const char *will, const char *reason)
{
	assert_refusal(ownership_changes, was, will, reason);
}

static bool moves(const struct config *was, const struct config *will, struct buf *why)
{
	return ownership_moves(was, was, will, why);
}

/* The same for an upgrade. */
static void assert_move(const char *was, const char *will, const char *reason)
{
	assert_refusal(moves, was, will, reason);
}

#define C(owner) "[lock c]\npattern = c:*\nowner = " owner "\n"
#define D(pattern, owner) "[lock d]\npattern = " pattern "\nowner = " owner "\n"
#define QUORUM "[quorum q]\nservers = a:1 b:2 c:3\n"
#define VOTED "[verbs]\nquorum = q\nreentrant = no\nmax_lease = 1m\n"
#define RULED QUORUM C("user") "max_lease = 1m\nquorum = q\n"

TEST(owner_of_a_section_cannot_change)
{
	static const char *const all[] = { C("connection"), C("address"), C("name"), C("user"),
		                           C("value") };

	for (size_t i = 0; i < 5; i++)
		assert_change(all[i], all[i], NULL);
	assert_change(C("value"), C("connection"),
	              "'owner' of keys like c:*: value in [lock c] -> connection in [lock c]");
	assert_change(C("connection"), C("value"),
	              "'owner' of keys like c:*: connection in [lock c] -> value in [lock c]");
	assert_change(C("name"), C("user"),
	              "'owner' of keys like c:*: name in [lock c] -> user in [lock c]");
	assert_change(
		C("address"), "[lock c]\npattern = c:*\n",
		"'owner' of keys like c:*: address in [lock c] -> connection in [lock c]");
}

TEST(keys_cannot_move_to_a_section_with_another_owner)
{
	static const char reason[] =
		"'owner' of keys like c:*: value in [lock c] -> user in [lock d]";

	assert_change(C("value"), D("c:*", "user"), reason);
	assert_change(C("value"), D("x:* c:*", "user"), reason);
	assert_change(C("value"), D("c:*", "user") C("value"), reason);
	assert_change(C("value"), C("value") D("c:*", "user"), NULL);
	assert_change(C("value"), D("c:*", "value"), NULL);
}

TEST(keys_cannot_move_to_or_from_a_narrower_section_with_another_owner)
{
	static const char *const patterns[] = { "c:1",    "c:",       "c:?*x", "c:??",
		                                "c:[ab]", "c:[^a-z]", "c:\\*", "c:*:tmp" };
	char was[128], will[256], reason[128];

	for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
		snprintf(was, sizeof(was), C("value"));
		snprintf(will, sizeof(will), D("%s", "user") C("value"), patterns[i]);
		snprintf(reason, sizeof(reason),
		         "'owner' of keys like %s: value in [lock c] -> user in [lock d]",
		         patterns[i]);
		assert_change(was, will, reason);
		snprintf(reason, sizeof(reason),
		         "'owner' of keys like %s: user in [lock d] -> value in [lock c]",
		         patterns[i]);
		assert_change(will, was, reason);
	}
}

TEST(wide_section_is_compared_although_a_narrow_one_has_some_of_its_keys)
{
	assert_change(D("c:? c:????????????", "user") C("value"),
	              D("c:? c:????????????", "user") C("name"),
	              "'owner' of keys like c:*: value in [lock c] -> name in [lock c]");
}

TEST(sections_may_come_and_go)
{
	assert_change("", C("value"), NULL);
	assert_change(C("value"), "", NULL);
	assert_change(C("value"), D("d:*", "user"), NULL);
	assert_change(C("value"), C("value") D("c*", "user"), NULL);
	assert_change(D("hasp:*", "user"), D("hasp:*", "value"), NULL);
	assert_change(D("[]", "user"), D("[]", "value"), NULL);
}

TEST(section_that_only_observes_may_change)
{
	assert_change(C("value") "mode = observe\n", C("user"), NULL);
	assert_change(C("value"), C("user") "mode = observe\n", NULL);
}

TEST(quorum_of_a_section_cannot_come_or_go)
{
	static const char with[] = QUORUM C("user") "max_lease = 1m\nquorum = q\n";

	assert_change(with, with, NULL);
	assert_change(with, C("user"),
	              "'quorum' of keys like c:*: q in [lock c] -> none in [lock c]");
	assert_change(C("user"), with,
	              "'quorum' of keys like c:*: none in [lock c] -> q in [lock c]");
}

TEST(other_options_of_a_section_may_change)
{
	assert_change(C("value"),
	              C("value") "lease = 5s\nmax_lease = 9s\nwait = 1s\nmax_hold = 1h\n"
	                         "renew = yes\non_disconnect = release\non_lost = close\n"
	                         "reentrant = refresh\nforeign_del = allow\n",
	              NULL);
}

TEST(owner_of_verbs_cannot_change)
{
	assert_change("[verbs]\n", "[verbs]\nowner = address\n",
	              "'owner' in [verbs]: connection -> address");
	assert_change("[verbs]\n", "[verbs]\nlock = L\nlease = 5s\nreentrant = no\n", NULL);
	assert_change("", "[verbs]\nowner = address\n", NULL);
	assert_change("[verbs]\nowner = address\n", "", NULL);
}

TEST(new_process_cannot_have_other_servers_of_a_quorum)
{
	static const char was[] = QUORUM VOTED;
	static const char will[] = "[quorum q]\nservers = a:1 b:2 d:4\n" VOTED;
	static const char password[] = QUORUM "password = p\n" VOTED "lease = 5s\n";

	assert_move(was, will, "'servers' in [quorum NAME]: a:1 b:2 c:3 -> a:1 b:2 d:4");
	assert_move(was, password, NULL);
	assert_change(was, will, NULL);
}

TEST(new_process_cannot_add_or_remove_the_quorum_of_verbs)
{
	static const char with[] = QUORUM VOTED;

	assert_move(with, "[verbs]\n", "'quorum' in [verbs]: q -> none");
	assert_move("[verbs]\n", with, "'quorum' in [verbs]: none -> q");
	assert_move(RULED "[verbs]\n", RULED VOTED, "'quorum' in [verbs]: none -> q");
	assert_move("[verbs]\n", "[verbs]\n", NULL);
	assert_move("", with, NULL);
	assert_move(with, "", NULL);
}
