/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of rewriting under a rule: which commands pass, which become a call, the call, and its
 * description. e2e/test_scripts*.py tests the scripts on a real Redis.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/rewrite_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(NULL, rewrite_tear_down);

/* --- the shape of a call ------------------------------------------------------- */

TEST(test_a_take_is_one_evalsha)
{
	char expected[512];

	assert_int_equal(rewrite("SET k v NX PX 7000", &rule), REWRITE_CALL);
	snprintf(expected, sizeof(expected),
	         "*11\r\n$7\r\nEVALSHA\r\n$40\r\n%.40s\r\n$1\r\n3\r\n"
	         "$1\r\nk\r\n$14\r\nhasp:owner:{k}\r\n$14\r\nhasp:fence:{k}\r\n$22\r\n" TOKEN
	         "\r\n$1\r\nv\r\n"
	         "$4\r\n7000\r\n$3\r\nSET\r\n$0\r\n\r\n",
	         script_get(SCRIPT_TAKE)->sha.p);
	assert_true(slice_eq(buf_slice(&out), slice_str(expected)));
}

TEST(test_inline_calls_carry_the_text)
{
	const struct script *s = script_get(SCRIPT_DEL);

	rewrite_as("DEL k", &rule, (struct rewrite_opts){ .eval = true });
	assert_true(out_has("*12\r\n$4\r\nEVAL\r\n$"));
	assert_true(out_has("redis_pcall(command, lock, side, "));
	assert_int_equal(call.script, SCRIPT_DEL);
	assert_true(buf_len(&out) > s->text.n);
}

TEST(test_calls_are_appended)
{
	rewrite("INCR k", &rule);
	size_t n = buf_len(&out);
	struct lock_ident id = { LOCK_KIND_RULE, SLICE_LIT("k"), SLICE_LIT("t") };
	assert_int_equal(
		rewrite_release(&out, &id, SLICE_LIT("w-1"), 0, &(struct rewrite_opts){ 0 }),
		SCRIPT_RELEASE);
	assert_memory_equal(buf_head(&out) + n, "*12\r\n$7\r\nEVALSHA\r\n", 18);
}

TEST(test_with_owner_value_there_is_no_sidecar)
{
	assert_int_equal(rewrite("set k v px 7000 nx", &by_value), REWRITE_CALL);
	assert_true(out_has("$1\r\n3\r\n$1\r\nk\r\n$1\r\nk\r\n$14\r\nhasp:fence:{k}\r\n"));
	assert_false(out_has("hasp:owner"));
}

TEST(test_what_takes_a_lock_carries_its_ticket)
{
	static const char *const lines[] = { "SETNX k v",      "SET k v NX", "SET k v NX GET",
		                             "SET k v PX 70",  "SET k v XX", "SETEX k 7 v",
		                             "PSETEX k 70 v",  "GETSET k v", "INCR k",
		                             "SET k v KEEPTTL" };
	const struct rewrite_opts opts = { .ticket = SLICE_LIT("worker-7") };

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		assert_int_equal(rewrite_as(lines[i], &rule, opts), REWRITE_CALL);
		assert_true(slice_eq(call.ticket, opts.ticket));
		assert_true(out_has("hasp:fence:{k}"));
		assert_true(out_has("$8\r\nworker-7\r\n"));
	}
}

TEST(test_keys_with_a_rule_come_before_the_others)
{
	struct lock_key keys[] = { { .arg = 1, .rule = NULL, .token = SLICE_NONE },
		                   { .arg = 2, .rule = &rule, .token = SLICE_LIT("t1") },
		                   { .arg = 3, .rule = NULL, .token = SLICE_NONE },
		                   { .arg = 4, .rule = &by_value, .token = SLICE_LIT("t2") } };

	assert_int_equal(rewrite_keys("DEL a k1 b k2", keys, 4, (struct rewrite_opts){ 0 }),
	                 REWRITE_CALL);
	assert_calls(SCRIPT_DEL,
	             "8 k1 hasp:owner:{k1} hasp:fence:{k1} k2 k2 hasp:fence:{k2} a b "
	             "\"\" DEL 2 t1 \"\" \"\" t2 \"\" \"\"");
	assert_true(slice_eq(call.key, SLICE_LIT("k1")));
	assert_int_equal(call.effect, LOCK_EFFECT_DROPS);
}

TEST(test_dropped_locks_that_are_waited_for_bring_their_queues)
{
	struct lock_key keys[] = { { .arg = 1, .rule = NULL, .token = SLICE_NONE },
		                   { .arg = 2, .rule = &waiting, .token = SLICE_LIT("t1") },
		                   { .arg = 3, .rule = &rule, .token = SLICE_LIT("t2") },
		                   { .arg = 4,
		                     .rule = &waiting_by_value,
		                     .token = SLICE_LIT("t3"),
		                     .foreign = true } };

	assert_int_equal(rewrite_keys("UNLINK a k1 k2 k3", keys, 4, may_wait), REWRITE_CALL);
	assert_calls(SCRIPT_DEL, "13 k1 hasp:owner:{k1} hasp:fence:{k1} hasp:queue:{k1} "
	                         "k2 hasp:owner:{k2} hasp:fence:{k2} "
	                         "k3 k3 hasp:fence:{k3} hasp:queue:{k3} hasp:fence a "
	                         "\"\" UNLINK 3 t1 wait \"\" t2 \"\" \"\" t3 wait foreign");
	assert_true(call.hand_off);
}

TEST(each_command_is_one_call_of_a_script)
{
	static const struct {
		const char *words;
		const struct rule *rule;
		enum script_id script;
		enum lock_effect effect;
		enum lock_success success;
		const char *value;
		bool leased;
		int64_t lease_ms, until_ms;
		bool only_if_free;
		int64_t wait_ms;
		const char *call;
	} rows[] = {
		{ "SETNX k v", &rule, SCRIPT_TAKE, LOCK_EFFECT_TAKES, LOCK_IF_ONE, "v", false,
		  30000, 0, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " v 30000 SETNX " TICKET },
		{ "SETNX k v", &capping, SCRIPT_TAKE, LOCK_EFFECT_TAKES, LOCK_IF_ONE, "v",
		  false, 5000, 0, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " v 5000 SETNX " TICKET },
		{ "SETNX k v", &waiting, SCRIPT_TAKE_WAIT, LOCK_EFFECT_TAKES, LOCK_IF_ONE, "v",
		  false, 30000, 0, true, 4000,
		  "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} \"\" " TOKEN
		  " 30000 " TICKET " 4000 v SETNX" },
		{ "SETNX k v", &waiting_by_value, SCRIPT_TAKE_WAIT, LOCK_EFFECT_TAKES,
		  LOCK_IF_ONE, "v", false, 30000, 0, false, 4000,
		  "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence k \"\" " TOKEN " 30000 " TICKET
		  " 4000 v SETNX \"\" 0 refresh" },
		{ "SET k v NX", &rule, SCRIPT_TAKE, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v", false,
		  30000, 0, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " v 30000 SET " TICKET },
		{ "SET k v NX", &capping, SCRIPT_TAKE, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v",
		  false, 5000, 0, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " v 5000 SET " TICKET },
		{ "SET k v NX", &waiting, SCRIPT_TAKE_WAIT, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v",
		  false, 30000, 0, true, 4000,
		  "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} \"\" " TOKEN
		  " 30000 " TICKET " 4000 v SET" },
		{ "SET k v NX", &waiting_by_value, SCRIPT_TAKE_WAIT, LOCK_EFFECT_TAKES,
		  LOCK_IF_OK, "v", false, 30000, 0, false, 4000,
		  "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence k \"\" " TOKEN " 30000 " TICKET
		  " 4000 v SET \"\" 0 refresh" },
		{ "SET k v NX GET", &rule, SCRIPT_TAKE, LOCK_EFFECT_TAKES, LOCK_IF_NIL, "v",
		  false, 30000, 0, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " v 30000 GET " TICKET },
		{ "SET k v NX GET", &waiting_by_value, SCRIPT_TAKE, LOCK_EFFECT_TAKES,
		  LOCK_IF_NIL, "v", false, 30000, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " v 30000 GET " TICKET
		  " PX refresh 30000 60000" },
		{ "SET k v NX EX 7", &rule, SCRIPT_TAKE, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v",
		  true, 7000, 0, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " v 7000 SET " TICKET },
		{ "SET k v NX EX 7", &capping, SCRIPT_TAKE, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v",
		  true, 7000, 0, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " v 7000 SET " TICKET },
		{ "SET k v NX EX 7", &waiting, SCRIPT_TAKE_WAIT, LOCK_EFFECT_TAKES, LOCK_IF_OK,
		  "v", true, 7000, 0, true, 4000,
		  "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} \"\" " TOKEN
		  " 7000 " TICKET " 4000 v SET" },
		{ "SET k v NX EX 7", &waiting_by_value, SCRIPT_TAKE_WAIT, LOCK_EFFECT_TAKES,
		  LOCK_IF_OK, "v", true, 7000, 0, false, 4000,
		  "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence k \"\" " TOKEN " 7000 " TICKET
		  " 4000 v SET \"\" 0 refresh" },
		{ "SET k v NX PXAT 1900000000123", &rule, SCRIPT_TAKE, LOCK_EFFECT_TAKES,
		  LOCK_IF_OK, "v", true, 0, 1900000000123, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " v 1900000000123 SET " TICKET
		  " PXAT no 30000 1000000000000000" },
		{ "SET k v NX PXAT 1900000000123", &waiting_by_value, SCRIPT_TAKE_WAIT,
		  LOCK_EFFECT_TAKES, LOCK_IF_OK, "v", true, 0, 1900000000123, false, 4000,
		  "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence k \"\" " TOKEN " 60000 " TICKET
		  " 4000 v SET \"\" 1900000000123 refresh" },
		{ "SET k v NX EXAT 1900000000", &rule, SCRIPT_TAKE, LOCK_EFFECT_TAKES,
		  LOCK_IF_OK, "v", true, 0, 1900000000000, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " v 1900000000 SET " TICKET
		  " EXAT no 30000 1000000000000000" },
		{ "SET k v NX EXAT 1900000000", &capping, SCRIPT_TAKE, LOCK_EFFECT_TAKES,
		  LOCK_IF_OK, "v", true, 0, 1900000000000, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " v 1900000000 SET " TICKET
		  " EXAT no 5000 8000" },
		{ "SET k v NX EXAT 1900000000", &waiting, SCRIPT_TAKE_WAIT, LOCK_EFFECT_TAKES,
		  LOCK_IF_OK, "v", true, 0, 1900000000000, true, 4000,
		  "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence hasp:owner:{k} \"\" " TOKEN
		  " 1000000000000000 " TICKET " 4000 v SET \"\" 1900000000000 no" },
		{ "SET k v NX EXAT 1900000000", &waiting_by_value, SCRIPT_TAKE_WAIT,
		  LOCK_EFFECT_TAKES, LOCK_IF_OK, "v", true, 0, 1900000000000, false, 4000,
		  "5 k hasp:fence:{k} hasp:queue:{k} hasp:fence k \"\" " TOKEN " 60000 " TICKET
		  " 4000 v SET \"\" 1900000000000 refresh" },
		{ "SET k v", &rule, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v", false,
		  30000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " v PX 30000 SET 30000 1000000000000000 " TICKET },
		{ "SET k v", &waiting_by_value, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v",
		  false, 30000, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " v PX 30000 SET 30000 60000 " TICKET },
		{ "SET k v XX", &rule, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v", false,
		  30000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " v PX 30000 XX 30000 1000000000000000 " TICKET },
		{ "SET k v XX", &waiting_by_value, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_OK,
		  "v", false, 30000, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " v PX 30000 XX 30000 60000 " TICKET },
		{ "SET k v GET", &rule, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_NO_ERROR, "v",
		  false, 30000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " v PX 30000 GET 30000 1000000000000000 " TICKET },
		{ "SET k v GET", &waiting_by_value, SCRIPT_SET, LOCK_EFFECT_TAKES,
		  LOCK_IF_NO_ERROR, "v", false, 30000, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " v PX 30000 GET 30000 60000 " TICKET },
		{ "SET k v XX GET", &rule, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_VALUE, "v",
		  false, 30000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " v PX 30000 XXGET 30000 1000000000000000 " TICKET },
		{ "SET k v XX GET", &waiting_by_value, SCRIPT_SET, LOCK_EFFECT_TAKES,
		  LOCK_IF_VALUE, "v", false, 30000, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " v PX 30000 XXGET 30000 60000 " TICKET },
		{ "SET k v KEEPTTL", &rule, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v",
		  true, 0, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " v KEEPTTL \"\" SET 30000 1000000000000000 " TICKET },
		{ "SET k v KEEPTTL", &waiting_by_value, SCRIPT_SET, LOCK_EFFECT_TAKES,
		  LOCK_IF_OK, "v", true, 0, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " v KEEPTTL \"\" SET 30000 60000 " TICKET },
		{ "SET k v EXAT 1900000000", &rule, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_OK,
		  "v", true, 0, 1900000000000, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " v EXAT 1900000000 SET 30000 1000000000000000 " TICKET },
		{ "SET k v EXAT 1900000000", &waiting_by_value, SCRIPT_SET, LOCK_EFFECT_TAKES,
		  LOCK_IF_OK, "v", true, 0, 1900000000000, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " v EXAT 1900000000 SET 30000 60000 " TICKET },
		{ "SETEX k 7 v", &rule, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v", true,
		  7000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " v PX 7000 SET 30000 1000000000000000 " TICKET },
		{ "SETEX k 7 v", &waiting_by_value, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_OK,
		  "v", true, 7000, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " v PX 7000 SET 30000 60000 " TICKET },
		{ "PSETEX k 70 v", &rule, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_OK, "v", true,
		  70, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " v PX 70 SET 30000 1000000000000000 " TICKET },
		{ "PSETEX k 70 v", &waiting_by_value, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_OK,
		  "v", true, 70, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " v PX 70 SET 30000 60000 " TICKET },
		{ "GETSET k v", &rule, SCRIPT_SET, LOCK_EFFECT_TAKES, LOCK_IF_NO_ERROR, "v",
		  false, 30000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " v PX 30000 GETSET 30000 1000000000000000 " TICKET },
		{ "GETSET k v", &waiting_by_value, SCRIPT_SET, LOCK_EFFECT_TAKES,
		  LOCK_IF_NO_ERROR, "v", false, 30000, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " v PX 30000 GETSET 30000 60000 " TICKET },
		{ "INCR k", &rule, SCRIPT_INCR, LOCK_EFFECT_TAKES, LOCK_IF_ONE, "1", false,
		  30000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " 30000 " TICKET " \"\" INCR" },
		{ "INCR k", &waiting_by_value, SCRIPT_INCR, LOCK_EFFECT_COUNTS, LOCK_IF_ONE,
		  "1", false, 30000, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " 30000 " TICKET " shared INCR" },
		{ "INCRBY k 1", &rule, SCRIPT_INCR, LOCK_EFFECT_TAKES, LOCK_IF_ONE, "1", false,
		  30000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " 30000 " TICKET
		  " \"\" INCRBY 1" },
		{ "INCRBY k 1", &waiting_by_value, SCRIPT_INCR, LOCK_EFFECT_COUNTS, LOCK_IF_ONE,
		  "1", false, 30000, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " 30000 " TICKET " shared INCRBY 1" },
		{ "EXPIRE k 7", &rule, SCRIPT_EXPIRE, LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, "",
		  true, 7000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " 30000 1000000000000000 \"\" \"\" EXPIRE 7" },
		{ "EXPIRE k 7", &capping, SCRIPT_EXPIRE, LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, "",
		  true, 7000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN " 5000 8000 \"\" \"\" EXPIRE 7" },
		{ "EXPIRE k 7", &waiting, SCRIPT_EXPIRE, LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, "",
		  true, 7000, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " 30000 1000000000000000 \"\" \"\" EXPIRE 7" },
		{ "EXPIRE k 7", &waiting_by_value, SCRIPT_EXPIRE, LOCK_EFFECT_EXPIRES,
		  LOCK_IF_ONE, "", true, 7000, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " 30000 60000 \"\" \"\" EXPIRE 7" },
		{ "PEXPIRE k 70 NX", &rule, SCRIPT_EXPIRE, LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, "",
		  true, 70, 0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " 30000 1000000000000000 \"\" \"\" PEXPIRE 70 NX" },
		{ "PEXPIRE k 70 NX", &waiting_by_value, SCRIPT_EXPIRE, LOCK_EFFECT_EXPIRES,
		  LOCK_IF_ONE, "", true, 70, 0, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN " 30000 60000 \"\" \"\" PEXPIRE 70 NX" },
		{ "EXPIREAT k 1900000000 GT", &rule, SCRIPT_EXPIRE, LOCK_EFFECT_EXPIRES,
		  LOCK_IF_ONE, "", true, 0, 1900000000000, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} " TOKEN
		  " 30000 1000000000000000 \"\" \"\" EXPIREAT 1900000000 GT" },
		{ "EXPIREAT k 1900000000 GT", &waiting_by_value, SCRIPT_EXPIRE,
		  LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, "", true, 0, 1900000000000, false, 0,
		  "3 k k hasp:fence:{k} " TOKEN
		  " 30000 60000 cut \"\" EXPIREAT 1900000000 GT" },
		{ "PERSIST k", &rule, SCRIPT_PERSIST, LOCK_EFFECT_NONE, LOCK_IF_NO_ERROR, "",
		  false, 0, 0, false, 0, "3 k hasp:owner:{k} hasp:fence:{k} 30000" },
		{ "PERSIST k", &capping, SCRIPT_PERSIST, LOCK_EFFECT_NONE, LOCK_IF_NO_ERROR, "",
		  false, 0, 0, false, 0, "3 k hasp:owner:{k} hasp:fence:{k} 5000" },
		{ "PERSIST k", &waiting, SCRIPT_PERSIST, LOCK_EFFECT_NONE, LOCK_IF_NO_ERROR, "",
		  false, 0, 0, false, 0, "3 k hasp:owner:{k} hasp:fence:{k} 30000" },
		{ "PERSIST k", &waiting_by_value, SCRIPT_PERSIST, LOCK_EFFECT_NONE,
		  LOCK_IF_NO_ERROR, "", false, 0, 0, false, 0, "3 k k hasp:fence:{k} 30000" },
		{ "DEL k", &rule, SCRIPT_DEL, LOCK_EFFECT_DROPS, LOCK_IF_POSITIVE, "", false, 0,
		  0, false, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} \"\" DEL 1 " TOKEN " \"\" \"\"" },
		{ "DEL k", &waiting_by_value, SCRIPT_DEL, LOCK_EFFECT_DROPS, LOCK_IF_POSITIVE,
		  "", false, 0, 0, false, 0,
		  "5 k k hasp:fence:{k} hasp:queue:{k} hasp:fence \"\" DEL 1 " TOKEN
		  " wait \"\"" },
		{ "MSETNX k v", &rule, SCRIPT_MSETNX, LOCK_EFFECT_TAKES, LOCK_IF_ONE, "v",
		  false, 30000, 0, true, 0,
		  "3 k hasp:owner:{k} hasp:fence:{k} 1 " TICKET " " TOKEN
		  " 30000 1000000000000000 MSETNX k v" },
		{ "MSETNX k v", &waiting_by_value, SCRIPT_MSETNX, LOCK_EFFECT_TAKES,
		  LOCK_IF_ONE, "v", false, 30000, 0, true, 0,
		  "3 k k hasp:fence:{k} 1 " TICKET " " TOKEN " 30000 60000 MSETNX k v" },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		assert_int_equal(rewrite_as(rows[i].words, rows[i].rule, may_wait),
		                 REWRITE_CALL);
		assert_calls(rows[i].script, rows[i].call);
		if (call.script != rows[i].script || call.effect != rows[i].effect ||
		    call.success != rows[i].success || !slice_is(call.value, rows[i].value) ||
		    call.leased != rows[i].leased || call.lease_ms != rows[i].lease_ms ||
		    call.until_ms != rows[i].until_ms || call.wait_ms != rows[i].wait_ms ||
		    call.only_if_free != rows[i].only_if_free || !slice_is(call.key, "k"))
			fail_msg("%s (row %zu)", rows[i].words, i);
		if (call.effect == LOCK_EFFECT_TAKES) {
			assert_true(slice_is(call.owner, TOKEN) || rows[i].wait_ms == 0);
			assert_true(slice_is(call.ticket, TICKET));
			assert_int_equal(call.kind, rewrite_rule_kind(rows[i].rule));
		}
	}
}

/* --- what passes --------------------------------------------------------------- */

TEST(test_what_redis_refuses_passes)
{
	static const char *const lines[] = {
		"SET k",
		"SET k v NX XX",
		"SET k v EX",
		"SET k v PX 0",
		"SET k v EX -1",
		"SET k v EX 1 PX 1",
		"SET k v EX 1 KEEPTTL",
		"SET k v KEEPTTL EX 1",
		"SET k v EX 01",
		"SET k v EX 1.0",
		"SET k v PX 9223372036854775807",
		"SET k v EX 9223372036854776",
		"SET k v EXAT 0",
		"SETNX k",
		"SETNX k v w",
		"SETEX k 0 v",
		"SETEX k v 10",
		"PSETEX k 10",
		"GETSET k",
		"INCR k 1",
		"EXPIRE k",
		"EXPIRE k x",
		"EXPIRE k 1 NX XX",
		"EXPIRE k 1 GT LT",
		"EXPIRE k 9223372036854775",
		"PERSIST k NX",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (rewrite(lines[i], &rule) != REWRITE_PASS)
			fail_msg("rewritten: %s", lines[i]);
		assert_int_equal(buf_len(&out), 0);
	}
}

TEST(test_reads_in_a_write_commands_clothes_pass)
{
	assert_int_equal(rewrite("SORT k ALPHA", &rule), REWRITE_PASS);
	assert_int_equal(rewrite("GEORADIUS k 1 2 3 km", &rule), REWRITE_PASS);
}

TEST(test_more_arguments_than_lua_unpacks_are_refused)
{
	static char line[sizeof("EXPIRE k 1") + ARGS_UNPACK_MAX * (sizeof(" NX") - 1)];
	char *end = line + sprintf(line, "EXPIRE k 1");

	for (int i = 0; i < ARGS_UNPACK_MAX - 3; i++)
		end += sprintf(end, " NX");
	assert_int_equal(rewrite(line, &rule), REWRITE_CALL);
	assert_int_equal(call.script, SCRIPT_EXPIRE);
	sprintf(end, " NX");
	assert_int_equal(rewrite(line, &rule), REWRITE_CALL);
	assert_int_equal(call.script, SCRIPT_ERROR);
	assert_true(out_has("ERR too many arguments for a key with a lock rule"));
}

TEST(test_what_is_newer_than_hasp_runs_inside_the_check)
{
	assert_int_equal(rewrite("SET k v IFEQ w", &rule), REWRITE_CALL);
	assert_int_equal(call.script, SCRIPT_WRITE);
	assert_int_equal(rewrite("EXPIRE k 10 FOO", &rule), REWRITE_CALL);
	assert_int_equal(call.script, SCRIPT_WRITE);
	assert_int_equal(rewrite("MODULE.WRITE k 10", &rule), REWRITE_CALL);
	assert_int_equal(call.script, SCRIPT_WRITE);
}

/* (The old value would not show that a SET with GET has stored the new one.) */
TEST(test_new_value_of_a_conditional_set_is_the_owner)
{
	assert_int_equal(rewrite("SET k v IFEQ w PX 10", &waiting_by_value), REWRITE_CALL);
	assert_int_equal(call.script, SCRIPT_WRITE);
	assert_int_equal(call.effect, LOCK_EFFECT_STORES);
	assert_int_equal(call.success, LOCK_IF_OK);
	assert_int_equal(call.lease_ms, 10);
	assert_true(slice_eq(call.value, SLICE_LIT("v")));
	assert_int_equal(rewrite("SET k v IFEQ w GET", &waiting_by_value), REWRITE_CALL);
	assert_int_equal(call.effect, LOCK_EFFECT_NONE);
	assert_int_equal(rewrite("SET k v IFEQ w", &rule), REWRITE_CALL);
	assert_int_equal(call.effect, LOCK_EFFECT_NONE);
}

/* --- what success means -------------------------------------------------------- */

struct told {
	const char *line;
	enum lock_effect effect;
	enum lock_success success;
	bool leased;
	int64_t lease_ms;
};

static void assert_told(const struct told *t, size_t n, const struct rule *r)
{
	for (size_t i = 0; i < n; i++) {
		if (rewrite(t[i].line, r) != REWRITE_CALL)
			fail_msg("passed: %s", t[i].line);
		if (call.effect != t[i].effect || call.success != t[i].success ||
		    call.leased != t[i].leased || call.lease_ms != t[i].lease_ms)
			fail_msg("%s: effect %d success %d leased %d lease %lld", t[i].line,
			         call.effect, call.success, call.leased,
			         (long long)call.lease_ms);
	}
}

#define ASSERT_TOLD(told, rule) assert_told(told, sizeof(told) / sizeof((told)[0]), rule)

TEST(test_a_reply_tells_what_success_means)
{
	static const struct told told[] = {
		{ "SETNX k v", LOCK_EFFECT_TAKES, LOCK_IF_ONE, false, 30000 },
		{ "SET k v NX", LOCK_EFFECT_TAKES, LOCK_IF_OK, false, 30000 },
		{ "SET k v NX KEEPTTL", LOCK_EFFECT_TAKES, LOCK_IF_OK, false, 30000 },
		{ "SET k v NX EX 7", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 7000 },
		{ "SET k v NX GET", LOCK_EFFECT_TAKES, LOCK_IF_NIL, false, 30000 },
		{ "SET k v NX PXAT 99", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 0 },
		{ "SET k v KEEPTTL", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 0 },
		{ "SET k v XX PX 9", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 9 },
		{ "SET k v GET", LOCK_EFFECT_TAKES, LOCK_IF_NO_ERROR, false, 30000 },
		{ "SET k v XX GET", LOCK_EFFECT_TAKES, LOCK_IF_VALUE, false, 30000 },
		{ "SETEX k 7 v", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 7000 },
		{ "PSETEX k 7 v", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 7 },
		{ "GETSET k v", LOCK_EFFECT_TAKES, LOCK_IF_NO_ERROR, false, 30000 },
		{ "INCR k", LOCK_EFFECT_TAKES, LOCK_IF_ONE, false, 30000 },
		{ "INCRBY k 1", LOCK_EFFECT_TAKES, LOCK_IF_ONE, false, 30000 },
		{ "EXPIRE k 7", LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, true, 7000 },
		{ "PEXPIRE k 7 NX", LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, true, 7 },
		{ "EXPIRE k -1", LOCK_EFFECT_DROPS, LOCK_IF_ONE, true, 0 },
		{ "PEXPIREAT k 99", LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, true, 0 },
		{ "GETEX k EX 7", LOCK_EFFECT_EXPIRES, LOCK_IF_VALUE, true, 7000 },
		{ "GETEX k PXAT 99", LOCK_EFFECT_EXPIRES, LOCK_IF_VALUE, true, 0 },
		{ "GETEX k PERSIST", LOCK_EFFECT_NONE, LOCK_IF_NO_ERROR, false, 0 },
		{ "PERSIST k", LOCK_EFFECT_NONE, LOCK_IF_NO_ERROR, false, 0 },
		{ "UNLINK k", LOCK_EFFECT_DROPS, LOCK_IF_POSITIVE, false, 0 },
		{ "GETDEL k", LOCK_EFFECT_DROPS, LOCK_IF_NO_ERROR, false, 0 },
		{ "APPEND k v", LOCK_EFFECT_NONE, LOCK_IF_NO_ERROR, false, 0 },
	};

	ASSERT_TOLD(told, &rule);
}

TEST(test_leases_are_capped)
{
	static const struct told told[] = {
		{ "SETNX k v", LOCK_EFFECT_TAKES, LOCK_IF_ONE, false, 5000 },
		{ "SET k v NX EX 7", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 7000 },
		{ "SET k v NX EX 9", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 8000 },
		{ "PSETEX k 90000 v", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 8000 },
		{ "EXPIRE k 9", LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, true, 8000 },
	};

	ASSERT_TOLD(told, &capping);
}

/* The script caps the expiry, because it knows the time and the key's type. */
TEST(test_only_an_expiry_that_may_be_too_long_is_cut)
{
	static const struct {
		const char *line;
		const struct rule *rule;
		bool cut;
	} cases[] = {
		{ "EXPIRE k 9", &rule, false },       { "PEXPIREAT k 99", &rule, false },
		{ "EXPIRE k 8", &capping, false },    { "PEXPIRE k 8001", &capping, true },
		{ "PEXPIREAT k 99", &capping, true },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(rewrite(cases[i].line, cases[i].rule), REWRITE_CALL);
		if (out_has("\r\n$3\r\ncut\r\n") != cases[i].cut)
			fail_msg("%s: %s", cases[i].line, cases[i].cut ? "not cut" : "cut");
	}
}

TEST(test_counting_by_value_is_nobodys)
{
	static const struct told told[] = {
		{ "INCR k", LOCK_EFFECT_COUNTS, LOCK_IF_ONE, false, 30000 },
		{ "INCRBY k 1", LOCK_EFFECT_COUNTS, LOCK_IF_ONE, false, 30000 },
	};

	ASSERT_TOLD(told, &by_value);
}

TEST(test_success_is_read_from_the_reply)
{
	static const struct {
		enum lock_success success;
		struct resp_reply reply;
		bool succeeded;
	} cases[] = {
		{ LOCK_IF_OK, { '+', false, false, 0 }, true },
		{ LOCK_IF_OK, { '$', true, false, 0 }, false },
		{ LOCK_IF_OK, { '-', false, false, 0 }, false },
		{ LOCK_IF_ONE, { ':', false, false, 1 }, true },
		{ LOCK_IF_ONE, { ':', false, false, 2 }, false },
		{ LOCK_IF_ONE, { ':', false, false, 0 }, false },
		{ LOCK_IF_POSITIVE, { ':', false, false, 9 }, true },
		{ LOCK_IF_POSITIVE, { ':', false, false, 0 }, false },
		{ LOCK_IF_POSITIVE, { '_', true, false, 0 }, false },
		{ LOCK_IF_NIL, { '$', true, false, 0 }, true },
		{ LOCK_IF_NIL, { '_', true, false, 0 }, true },
		{ LOCK_IF_NIL, { '$', false, false, 0 }, false },
		{ LOCK_IF_NIL, { '!', false, false, 0 }, false },
		{ LOCK_IF_VALUE, { '$', false, false, 0 }, true },
		{ LOCK_IF_VALUE, { '_', true, false, 0 }, false },
		{ LOCK_IF_VALUE, { '-', false, false, 0 }, false },
		{ LOCK_IF_NO_ERROR, { '$', false, false, 0 }, true },
		{ LOCK_IF_NO_ERROR, { '-', false, false, 0 }, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lock_call c = { .success = cases[i].success };
		assert_int_equal(rewrite_is_success(c.success, &cases[i].reply),
		                 cases[i].succeeded);
	}
}
