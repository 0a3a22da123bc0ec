/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rewriting verbs, and commands that wait: how long, by which ticket, in which place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rewrite_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(NULL, rewrite_tear_down);

/* --- verbs --------------------------------------------------------------------- */

TEST(test_the_layout_chooses_the_script)
{
	rewrite_verbs("LOCK k", VERB_LOCK, verbs(REENTRANT_COUNT));
	assert_int_equal(call.script, SCRIPT_LOCK_COUNT);
	assert_int_equal(call.effect, LOCK_EFFECT_TAKES);
	assert_int_equal(call.success, LOCK_IF_POSITIVE);
	assert_int_equal(call.lease_ms, 30000);
	assert_false(call.leased);
	assert_calls(SCRIPT_LOCK_COUNT,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} \"\" " TOKEN
	             " 30000 \"\" \"\" 0 \"\"");
	rewrite_verbs("LOCK k EX 3", VERB_LOCK, verbs(REENTRANT_REFRESH));
	assert_int_equal(call.script, SCRIPT_LOCK_TOKEN);
	assert_true(call.leased);
	assert_calls(SCRIPT_LOCK_TOKEN,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} \"\" " TOKEN
	             " 3000 \"\" refresh 0 \"\"");
	rewrite_verbs("LOCK k", VERB_LOCK, verbs(REENTRANT_NO));
	assert_true(out_has("$2\r\nno\r\n"));
}

/* A try does not wait for the end of a token by which its own connection has the lock. */
TEST(test_tokens_of_the_connection_come_last)
{
	const struct slice tokens[] = { SLICE_LIT("one"), SLICE_LIT("two") };

	rewrite_verbs_as("LOCK k", VERB_LOCK, verbs(REENTRANT_COUNT),
	                 (struct rewrite_opts){ .own = tokens, .nown = 2 });
	assert_calls(SCRIPT_LOCK_COUNT,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} \"\" " TOKEN
	             " 30000 \"\" \"\" 0 \"\" one two");
}

TEST(test_errors_name_the_configured_verb)
{
	rewrite_verbs("LOCK.EXTEND k PX 0", VERB_EXTEND, verbs(REENTRANT_COUNT));
	assert_true(out_has("ERR invalid expire time in 'lock.extend' command"));
	assert_int_equal(call.script, SCRIPT_ERROR);
	assert_int_equal(call.effect, LOCK_EFFECT_NONE);
	struct verbs v = verbs(REENTRANT_COUNT);
	char name[200];
	memset(name, 'X', sizeof(name));
	name[199] = '\0';
	v.names[VERB_LOCK] = name;
	rewrite_verbs("LOCK", VERB_LOCK, v);
	assert_true(out_has("ERR wrong number of arguments for 'xxxx"));
}

TEST(test_as_overrules_the_token)
{
	struct verbs v = verbs(REENTRANT_COUNT);

	rewrite_verbs("UNLOCK k AS bob", VERB_UNLOCK, v);
	assert_true(slice_eq(call.owner, SLICE_LIT("bob")));
	assert_true(out_has("$3\r\nbob\r\n$4\r\nhash\r\n"));
	assert_false(out_has(TOKEN));
}

/* --- waiting ------------------------------------------------------------------- */

TEST(test_lock_tells_how_long_it_waits)
{
	rewrite_verbs_as("LOCK k wait 500 PX 7000 AS bob", VERB_LOCK, verbs(REENTRANT_COUNT),
	                 may_wait);
	assert_calls(SCRIPT_LOCK_COUNT,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence "
	             "hasp:owner:{k} \"\" bob 7000 " TICKET " \"\" 500 \"\"");
	assert_int_equal(call.wait_ms, 500);
	assert_int_equal(call.kind, LOCK_KIND_COUNT);
	assert_true(slice_eq(call.ticket, SLICE_LIT(TICKET)));
	rewrite_verbs_as("LOCK k WAIT 0", VERB_LOCK, verbs(REENTRANT_NO), may_wait);
	assert_int_equal(call.wait_ms, 0);
	assert_int_equal(call.kind, LOCK_KIND_TOKEN);
}

TEST(test_a_short_call_has_only_what_most_locks_need)
{
	struct rewrite_opts opts = { .ticket = SLICE_LIT(TICKET), .may_be_short = true };

	rewrite_verbs_as("LOCK k PX 7000", VERB_LOCK, verbs(REENTRANT_COUNT), opts);
	assert_calls(SCRIPT_LOCK_COUNT,
	             "4 k hasp:fence:{k} hasp:queue:{k} hasp:fence " TOKEN " 7000 " TICKET);
	assert_true(call.is_short);
	rewrite_verbs_as("LOCK k AS bob", VERB_LOCK, verbs(REENTRANT_COUNT), opts);
	assert_calls(SCRIPT_LOCK_COUNT, "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence "
	                                "hasp:owner:{k} bob 30000 " TICKET);
	rewrite_verbs_as("LOCK k SHARED", VERB_LOCK, verbs(REENTRANT_COUNT), opts);
	assert_calls(SCRIPT_LOCK_RW, "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence "
	                             "hasp:owner:{k} " TOKEN " 30000 " TICKET " m");
	rewrite_verbs_as("LOCK k LIMIT 3", VERB_LOCK, verbs(REENTRANT_COUNT), opts);
	assert_calls(SCRIPT_LOCK_LIMIT, "4 k hasp:fence:{k} hasp:queue:{k} hasp:fence " TOKEN
	                                " 30000 " TICKET " 3");
	rewrite_verbs_as("UNLOCK k", VERB_UNLOCK, verbs(REENTRANT_COUNT), opts);
	assert_calls(SCRIPT_UNLOCK,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} " TOKEN);
	assert_true(call.is_short);
	rewrite_verbs_as("LOCK k", VERB_LOCK, verbs(REENTRANT_REFRESH), opts);
	assert_calls(SCRIPT_LOCK_TOKEN, "4 k hasp:fence:{k} hasp:queue:{k} hasp:fence " TOKEN
	                                " 30000 " TICKET " refresh");
	rewrite_verbs_as("UNLOCK k", VERB_UNLOCK, verbs(REENTRANT_NO), opts);
	assert_calls(SCRIPT_UNLOCK,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} " TOKEN
	             " string");
	opts.naming = KEY_NAMING_CLUSTER;
	rewrite_verbs_as("UNLOCK k", VERB_UNLOCK, verbs(REENTRANT_COUNT), opts);
	assert_true(out_has("$1\r\n5\r\n$1\r\nk\r\n"));
	assert_int_equal(rewrite_as("DEL k", &rule, opts), REWRITE_CALL);
	assert_calls(SCRIPT_DEL, "3 k hasp:owner:{k} hasp:fence:{k} DEL " TOKEN);
	assert_true(call.is_short);
	assert_int_equal(rewrite_as("DEL k", &waiting_by_value, opts), REWRITE_CALL);
	assert_calls(SCRIPT_DEL, "4 k k hasp:fence:{k} hasp:queue:{k} DEL " TOKEN);
}

TEST(test_a_short_unlock_says_what_the_connection_has)
{
	static const struct {
		enum lock_kind kind;
		const char *word;
	} kinds[] = {
		{ LOCK_KIND_COUNT, "" },       { LOCK_KIND_TOKEN, " string" },
		{ LOCK_KIND_LIMIT, " zset" },  { LOCK_KIND_SHARED, " m" },
		{ LOCK_KIND_EXCLUSIVE, " x" },
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		struct rewrite_opts opts = { .may_be_short = true,
			                     .held = (char)kinds[i].kind };
		char expected[200];
		snprintf(expected, sizeof(expected), "3 k hasp:fence:{k} hasp:queue:{k} %s%s",
		         TOKEN, kinds[i].word);
		rewrite_verbs_as("UNLOCK k", VERB_UNLOCK, verbs(REENTRANT_COUNT), opts);
		assert_calls(SCRIPT_UNLOCK, expected);
		/* Another connection may have the lock as the same owner. */
		opts.given_back = SLICE_LIT("worker-1,");
		snprintf(expected, sizeof(expected),
		         "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} "
		         "bob%s worker-1",
		         kinds[i].word[0] ? kinds[i].word : " hash");
		rewrite_verbs_as("UNLOCK k AS bob", VERB_UNLOCK, verbs(REENTRANT_COUNT), opts);
		assert_calls(SCRIPT_UNLOCK, expected);
		opts.given_back = SLICE_LIT("worker-1 7,");
		rewrite_verbs_as("UNLOCK k AS bob", VERB_UNLOCK, verbs(REENTRANT_COUNT), opts);
		assert_true(out_has("$10\r\nworker-1 7\r\n"));
		opts.reentered = true;
		rewrite_verbs_as("UNLOCK k", VERB_UNLOCK, verbs(REENTRANT_COUNT), opts);
		assert_true(out_has("$14\r\nhasp:owner:{k}\r\n"));
	}
}

/* A second attempt would queue after those that came later. */
TEST(test_a_try_that_waits_is_never_short)
{
	struct rewrite_opts opts = may_wait;

	opts.may_be_short = true;
	rewrite_verbs_as("LOCK k WAIT 500", VERB_LOCK, verbs(REENTRANT_COUNT), opts);
	assert_false(call.is_short);
	assert_int_equal(rewrite_as("SETNX k v", &waiting, opts), REWRITE_CALL);
	assert_false(call.is_short);
}

/* A transaction's attempt does not wait; another one has waited for part of its time
 * already. */
TEST(test_no_try_waits_longer_than_it_may)
{
	struct rewrite_opts opts = may_wait;

	opts.wait_max_ms = 300;
	opts.place = 1795254000000001;
	rewrite_verbs_as("LOCK k WAIT 500", VERB_LOCK, verbs(REENTRANT_REFRESH), opts);
	assert_calls(SCRIPT_LOCK_TOKEN,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} \"\" " TOKEN
	             " 30000 " TICKET " refresh 300 1795254000000001");
	assert_int_equal(call.wait_ms, 300);
	assert_int_equal(rewrite_as("SET k v NX", &waiting, opts), REWRITE_CALL);
	assert_int_equal(call.wait_ms, 300);
	opts.wait_max_ms = 0;
	rewrite_verbs_as("LOCK k WAIT 500", VERB_LOCK, verbs(REENTRANT_COUNT), opts);
	assert_int_equal(call.wait_ms, 0);
	assert_int_equal(rewrite_as("SETNX k v", &waiting, opts), REWRITE_CALL);
	assert_int_equal(call.wait_ms, 0);
	rewrite_verbs_as("LOCK k WAIT 9000000000000000000", VERB_LOCK, verbs(REENTRANT_COUNT),
	                 may_wait);
	assert_true(call.wait_ms == INT64_C(365) * 24 * 3600 * 1000);
}

TEST(test_a_wrong_wait_is_told_as_blpop_does)
{
	static const struct {
		const char *line, *error;
	} cases[] = {
		{ "LOCK k WAIT x", "-ERR timeout is not an integer or out of range" },
		{ "LOCK k WAIT 1.5", "-ERR timeout is not an integer or out of range" },
		{ "LOCK k WAIT 99999999999999999999",
		  "-ERR timeout is not an integer or out of range" },
		{ "LOCK k WAIT -1", "-ERR timeout is negative" },
		{ "LOCK k WAIT", "-ERR syntax error" },
		{ "LOCK k WAIT 1 WAIT 1", "-ERR syntax error" },
		{ "LOCK k PX x WAIT x", "-ERR value is not an integer or out of range" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		rewrite_verbs_as(cases[i].line, VERB_LOCK, verbs(REENTRANT_COUNT), may_wait);
		if (!out_has(cases[i].error + 1) || call.script != SCRIPT_ERROR)
			fail_msg("%s", cases[i].line);
		assert_int_equal(call.wait_ms, 0);
		assert_int_equal(call.effect, LOCK_EFFECT_NONE);
	}
	rewrite_verbs_as("UNLOCK k WAIT 1", VERB_UNLOCK, verbs(REENTRANT_COUNT), may_wait);
	assert_true(out_has("ERR syntax error"));
	rewrite_verbs_as("LOCK.EXTEND k PX 1 WAIT 1", VERB_EXTEND, verbs(REENTRANT_COUNT),
	                 may_wait);
	assert_true(out_has("ERR syntax error"));
}

TEST(test_a_take_under_a_rule_with_wait_takes_its_turn)
{
	assert_int_equal(rewrite_as("SETNX k v", &waiting, may_wait), REWRITE_CALL);
	assert_calls(SCRIPT_TAKE_WAIT,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} \"\" " TOKEN
	             " 30000 " TICKET " 4000 v SETNX");
	assert_int_equal(call.wait_ms, 4000);
	assert_int_equal(call.kind, LOCK_KIND_RULE);
	assert_true(call.only_if_free);
	assert_int_equal(rewrite_as("SET k v PX 7000 NX", &waiting_by_value, may_wait),
	                 REWRITE_CALL);
	assert_calls(SCRIPT_TAKE_WAIT,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence k \"\" " TOKEN
	             " 7000 " TICKET " 4000 v SET \"\" 0 refresh");
	assert_int_equal(call.kind, LOCK_KIND_VALUE);
	assert_false(call.only_if_free);
}

TEST(test_a_lease_given_as_a_date_ends_then_or_with_the_longest)
{
	assert_int_equal(rewrite_as("SET k v NX EXAT 1895254000", &waiting_by_value, may_wait),
	                 REWRITE_CALL);
	assert_calls(SCRIPT_TAKE_WAIT,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence k \"\" " TOKEN
	             " 60000 " TICKET " 4000 v SET \"\" 1895254000000 refresh");
	assert_true(call.leased);
	assert_int_equal(call.lease_ms, 0);
	assert_int_equal(rewrite_as("SET k v PXAT 1895254000001 NX", &waiting, may_wait),
	                 REWRITE_CALL);
	assert_calls(SCRIPT_TAKE_WAIT,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} \"\" " TOKEN
	             " 1000000000000000 " TICKET " 4000 v SET \"\" 1895254000001 no");
}

/* SET NX GET asks for the current value; the other commands do not ask for a lock. */
TEST(test_nothing_else_waits)
{
	static const char *const lines[] = { "SET k v NX GET", "SET k v",   "SET k v XX",
		                             "GETSET k v",     "INCR k",    "SETEX k 5 v",
		                             "EXPIRE k 5",     "APPEND k v" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(rewrite_as(lines[i], &waiting, may_wait), REWRITE_CALL);
		if (call.wait_ms || out_has("hasp:queue"))
			fail_msg("%s", lines[i]);
	}
	assert_int_equal(rewrite_as("SET k v NX", &rule, may_wait), REWRITE_CALL);
	assert_int_equal(call.wait_ms, 0);
}
