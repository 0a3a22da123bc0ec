/* SPDX-License-Identifier: BSD-3-Clause
 *
 * rewrite: what passes, what becomes a call, how the call looks and what the books
 * are told. What the scripts do is tested on a real Redis, in e2e/test_scripts.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/fatal.h"
#include "commands/args.h"
#include "lock/scripts/script_call.h"
#include "lock/rewrite/rewrite.h"
#include "lock/model/key_names.h"

#define ARGS_MAX 24
#define TOKEN "10.0.0.1:4711/0/c0ffee"

static const struct rule rule = { .owner = OWNER_CONNECTION, .lease_ms = 30000 };
static const struct rule capping = { .owner = OWNER_CONNECTION,
	                             .lease_ms = 5000,
	                             .max_lease_ms = 8000 };
static const struct rule by_value = { .owner = OWNER_VALUE, .lease_ms = 30000 };
static const struct rule waiting = { .owner = OWNER_CONNECTION,
	                             .lease_ms = 30000,
	                             .wait_ms = 4000 };
static const struct rule waiting_by_value = { .owner = OWNER_VALUE,
	                                      .lease_ms = 30000,
	                                      .max_lease_ms = 60000,
	                                      .wait_ms = 4000,
	                                      .reentrant = REENTRANT_REFRESH };

#define TICKET "00000000000000aa-7"

/* A try that may wait as long as it asks to. */
static const struct rewrite_how may_wait = { .ticket = SLICE_LIT(TICKET),
	                                     .wait_max_ms = INT64_MAX };

static struct verbs verbs(enum reentrant_mode layout)
{
	return (struct verbs){ .lock = (char *)"LOCK",
		               .unlock = (char *)"UNLOCK",
		               .extend = (char *)"Lock.Extend",
		               .info = (char *)"LOCK.INFO",
		               .reentrant = layout,
		               .lease_ms = 30000 };
}

/* A command line, split at blanks. */
struct line {
	char *copy;
	struct slice argv[ARGS_MAX];
	struct resp_view view;
};

static struct line split(const char *text)
{
	struct line l = { .copy = xstrdup(text) };

	for (char *w = strtok(l.copy, " "); w; w = strtok(NULL, " "))
		l.argv[l.view.argc++] = slice_str(w);
	return l;
}

static struct lock_call call;
static struct buf out;

static int teardown(void **state)
{
	(void)state;
	buf_release(&out);
	return 0;
}

/* Rewrites a command whose only key is argv[1]. */
static enum rewrite_result rewrite_as(const char *text, const struct rule *r,
                                      struct rewrite_how how)
{
	struct line l = split(text);
	struct lock_key key = { 1, r, slice_str(TOKEN) };
	enum rewrite_result result;

	l.view.argv = l.argv;
	buf_clear(&out);
	result = rewrite_lock(&out, &l.view, &key, 1, how, &call);
	/* They point into the line; a test needs only literals to compare. */
	call.key = call.value = SLICE_NONE;
	free(l.copy);
	return result;
}

static enum rewrite_result rewrite(const char *text, const struct rule *r)
{
	return rewrite_as(text, r, (struct rewrite_how){ 0 });
}

static void rewrite_verbs_as(const char *text, enum verb verb, struct verbs v,
                             struct rewrite_how how)
{
	struct line l = split(text);

	l.view.argv = l.argv;
	buf_clear(&out);
	rewrite_verb(&out, verb, &l.view, &v, slice_str(TOKEN), how, &call);
	call.key = call.value = call.owner = SLICE_NONE;
	free(l.copy);
}

static void rewrite_verbs(const char *text, enum verb verb, struct verbs v)
{
	rewrite_verbs_as(text, verb, v, (struct rewrite_how){ 0 });
}

static bool out_has(const char *text)
{
	*buf_reserve(&out, 1) = '\0';
	return strstr(buf_head(&out), text) != NULL;
}

/* What `out` calls is `script`, with these words (split at blanks, `""` for an empty one) as
 * the number of its keys, its keys and its arguments. */
static void assert_calls(enum script_id script, const char *words)
{
	struct buf expected = BUF_INIT;
	struct line l = split(words);

	buf_printf(&expected, "*%zu\r\n$7\r\nEVALSHA\r\n$40\r\n%.40s\r\n", l.view.argc + 2,
	           script_get(script)->sha.p);
	for (size_t i = 0; i < l.view.argc; i++) {
		struct slice w = l.argv[i];
		if (slice_eq(w, SLICE_LIT("\"\"")))
			w = SLICE_LIT("");
		buf_printf(&expected, "$%zu\r\n%.*s\r\n", w.n, (int)w.n, w.p);
	}
	if (!slice_eq(buf_slice(&out), buf_slice(&expected)))
		fail_msg("%.*s\ninstead of\n%.*s", (int)buf_len(&out), buf_head(&out),
		         (int)buf_len(&expected), buf_head(&expected));
	buf_release(&expected);
	free(l.copy);
}

/* ---- the shape of a call ---- */

static void test_a_take_is_one_evalsha(void **state)
{
	char expected[512];

	(void)state;
	assert_int_equal(rewrite("SET k v NX PX 7000", &rule), REWRITE_CALL);
	snprintf(expected, sizeof(expected),
	         "*13\r\n$7\r\nEVALSHA\r\n$40\r\n%.40s\r\n$1\r\n2\r\n"
	         "$1\r\nk\r\n$14\r\nhasp:owner:{k}\r\n$22\r\n" TOKEN "\r\n$1\r\nv\r\n"
	         "$2\r\nPX\r\n$4\r\n7000\r\n$3\r\nSET\r\n$2\r\nno\r\n$5\r\n30000\r\n"
	         "$16\r\n1000000000000000\r\n",
	         script_get(SCRIPT_TAKE)->sha.p);
	assert_true(slice_eq(buf_slice(&out), slice_str(expected)));
}

static void test_inline_calls_carry_the_text(void **state)
{
	struct line l = split("DEL k");
	struct lock_key key = { 1, &rule, slice_str(TOKEN) };
	const struct script *s = script_get(SCRIPT_DROP);

	(void)state;
	l.view.argv = l.argv;
	rewrite_lock(&out, &l.view, &key, 1, (struct rewrite_how){ .eval = true }, &call);
	assert_true(out_has("*9\r\n$4\r\nEVAL\r\n$"));
	assert_true(out_has("redis.pcall(command, lock, side, "));
	assert_int_equal(call.script, SCRIPT_DROP);
	assert_true(buf_len(&out) > s->text.n);
	free(l.copy);
}

static void test_calls_are_appended(void **state)
{
	(void)state;
	rewrite("INCR k", &rule);
	size_t n = buf_len(&out);
	struct lock_ident id = { LOCK_KIND_RULE, SLICE_LIT("k"), SLICE_LIT("t") };
	assert_int_equal(rewrite_release(&out, &id, 0, 0), SCRIPT_RELEASE);
	assert_memory_equal(buf_head(&out) + n, "*11\r\n$7\r\nEVALSHA\r\n", 18);
}

static void test_with_owner_value_a_take_needs_no_script(void **state)
{
	(void)state;
	assert_int_equal(rewrite("set k v px 7000 nx", &by_value), REWRITE_CALL);
	assert_true(slice_eq(buf_slice(&out),
	                     SLICE_LIT("*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nNX\r\n"
	                               "$2\r\nPX\r\n$4\r\n7000\r\n")));
	assert_int_equal(rewrite("SET k v NX GET", &by_value), REWRITE_CALL);
	assert_true(slice_eq(buf_slice(&out),
	                     SLICE_LIT("*7\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nNX\r\n"
	                               "$3\r\nGET\r\n$2\r\nPX\r\n$5\r\n30000\r\n")));
	assert_int_equal(rewrite("SETNX k v", &by_value), REWRITE_CALL);
	assert_true(out_has("EVALSHA"));
	assert_false(out_has("hasp:owner"));
}

static void test_keys_with_a_rule_come_in_pairs_before_the_others(void **state)
{
	struct line l = split("DEL a k1 b k2");
	struct lock_key keys[] = { { 1, NULL, SLICE_NONE },
		                   { 2, &rule, SLICE_LIT("t1") },
		                   { 3, NULL, SLICE_NONE },
		                   { 4, &by_value, SLICE_LIT("t2") } };

	(void)state;
	l.view.argv = l.argv;
	assert_int_equal(rewrite_lock(&out, &l.view, keys, 4, (struct rewrite_how){ 0 }, &call),
	                 REWRITE_CALL);
	assert_true(out_has("$1\r\n6\r\n$2\r\nk1\r\n$15\r\nhasp:owner:{k1}\r\n$2\r\nk2\r\n"
	                    "$2\r\nk2\r\n$1\r\na\r\n$1\r\nb\r\n$3\r\nDEL\r\n$1\r\n2\r\n"
	                    "$2\r\nt1\r\n$0\r\n\r\n$2\r\nt2\r\n$0\r\n\r\n"));
	assert_true(slice_eq(call.key, SLICE_LIT("k1")));
	assert_int_equal(call.effect, LOCK_EFFECT_DROPS);
	free(l.copy);
}

static void test_dropped_locks_that_are_waited_for_bring_their_queues(void **state)
{
	struct line l = split("UNLINK a k1 k2 k3");
	struct lock_key keys[] = { { 1, NULL, SLICE_NONE },
		                   { 2, &waiting, SLICE_LIT("t1") },
		                   { 3, &rule, SLICE_LIT("t2") },
		                   { 4, &waiting_by_value, SLICE_LIT("t3") } };

	(void)state;
	l.view.argv = l.argv;
	assert_int_equal(rewrite_lock(&out, &l.view, keys, 4, may_wait, &call), REWRITE_CALL);
	assert_calls(SCRIPT_DROP, "12 k1 hasp:owner:{k1} hasp:fence:{k1} hasp:queue:{k1} "
	                          "k2 hasp:owner:{k2} "
	                          "k3 k3 hasp:fence:{k3} hasp:queue:{k3} hasp:fence a "
	                          "UNLINK 3 t1 wait t2 \"\" t3 wait");
	assert_true(call.hands_over);
	free(l.copy);
}

/* ---- what passes ---- */

static void test_what_redis_refuses_passes(void **state)
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

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (rewrite(lines[i], &rule) != REWRITE_PASS)
			fail_msg("rewritten: %s", lines[i]);
		assert_int_equal(buf_len(&out), 0);
	}
}

static void test_reads_in_a_write_commands_clothes_pass(void **state)
{
	(void)state;
	assert_int_equal(rewrite("SORT k ALPHA", &rule), REWRITE_PASS);
	assert_int_equal(rewrite("GEORADIUS k 1 2 3 km", &rule), REWRITE_PASS);
}

static void test_keys_without_a_rule_pass(void **state)
{
	(void)state;
	assert_int_equal(rewrite("SET k v NX", NULL), REWRITE_PASS);
	assert_int_equal(call.effect, LOCK_EFFECT_NONE);
}

static void test_what_is_newer_than_hasp_runs_inside_the_check(void **state)
{
	(void)state;
	assert_int_equal(rewrite("SET k v IFEQ w", &rule), REWRITE_CALL);
	assert_int_equal(call.script, SCRIPT_WRITE);
	assert_int_equal(rewrite("EXPIRE k 10 FOO", &rule), REWRITE_CALL);
	assert_int_equal(call.script, SCRIPT_WRITE);
	assert_int_equal(rewrite("MODULE.WRITE k 10", &rule), REWRITE_CALL);
	assert_int_equal(call.script, SCRIPT_WRITE);
}

/* ---- what the books are told ---- */

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

static void test_the_books_learn_what_success_means(void **state)
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
		{ "SET k v GET", LOCK_EFFECT_TAKES, LOCK_IF_NIL, false, 30000 },
		{ "SET k v XX GET", LOCK_EFFECT_NONE, LOCK_IF_NIL, false, 30000 },
		{ "SETEX k 7 v", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 7000 },
		{ "PSETEX k 7 v", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 7 },
		{ "GETSET k v", LOCK_EFFECT_TAKES, LOCK_IF_NIL, false, 30000 },
		{ "INCR k", LOCK_EFFECT_TAKES, LOCK_IF_ONE, false, 30000 },
		{ "EXPIRE k 7", LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, true, 7000 },
		{ "PEXPIRE k 7 NX", LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, true, 7 },
		{ "EXPIRE k -1", LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, true, 0 },
		{ "PEXPIREAT k 99", LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, true, 0 },
		{ "PERSIST k", LOCK_EFFECT_NONE, LOCK_IF_NO_ERROR, false, 0 },
		{ "UNLINK k", LOCK_EFFECT_DROPS, LOCK_IF_POSITIVE, false, 0 },
		{ "GETDEL k", LOCK_EFFECT_DROPS, LOCK_IF_NO_ERROR, false, 0 },
		{ "APPEND k v", LOCK_EFFECT_NONE, LOCK_IF_NO_ERROR, false, 0 },
	};

	(void)state;
	ASSERT_TOLD(told, &rule);
}

static void test_leases_are_capped(void **state)
{
	static const struct told told[] = {
		{ "SETNX k v", LOCK_EFFECT_TAKES, LOCK_IF_ONE, false, 5000 },
		{ "SET k v NX EX 7", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 7000 },
		{ "SET k v NX EX 9", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 8000 },
		{ "PSETEX k 90000 v", LOCK_EFFECT_TAKES, LOCK_IF_OK, true, 8000 },
		{ "EXPIRE k 9", LOCK_EFFECT_EXPIRES, LOCK_IF_ONE, true, 8000 },
	};

	(void)state;
	ASSERT_TOLD(told, &capping);
}

static void test_counting_by_value_is_nobodys(void **state)
{
	static const struct told told[] = {
		{ "INCR k", LOCK_EFFECT_NONE, LOCK_IF_ONE, false, 30000 },
	};

	(void)state;
	ASSERT_TOLD(told, &by_value);
}

static void test_success_is_read_from_the_reply(void **state)
{
	static const struct {
		enum lock_success success;
		struct resp_reply reply;
		bool succeeded;
	} cases[] = {
		{ LOCK_IF_OK, { '+', false, 0 }, true },
		{ LOCK_IF_OK, { '$', true, 0 }, false },
		{ LOCK_IF_OK, { '-', false, 0 }, false },
		{ LOCK_IF_ONE, { ':', false, 1 }, true },
		{ LOCK_IF_ONE, { ':', false, 2 }, false },
		{ LOCK_IF_ONE, { ':', false, 0 }, false },
		{ LOCK_IF_POSITIVE, { ':', false, 9 }, true },
		{ LOCK_IF_POSITIVE, { ':', false, 0 }, false },
		{ LOCK_IF_POSITIVE, { '_', true, 0 }, false },
		{ LOCK_IF_NIL, { '$', true, 0 }, true },
		{ LOCK_IF_NIL, { '_', true, 0 }, true },
		{ LOCK_IF_NIL, { '$', false, 0 }, false },
		{ LOCK_IF_NIL, { '!', false, 0 }, false },
		{ LOCK_IF_NO_ERROR, { '$', false, 0 }, true },
		{ LOCK_IF_NO_ERROR, { '-', false, 0 }, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct lock_call c = { .success = cases[i].success };
		assert_int_equal(rewrite_succeeded(&c, &cases[i].reply), cases[i].succeeded);
	}
}

/* ---- verbs ---- */

static void test_the_layout_chooses_the_script(void **state)
{
	(void)state;
	rewrite_verbs("LOCK k", VERB_LOCK, verbs(REENTRANT_COUNT));
	assert_int_equal(call.script, SCRIPT_LOCK_COUNT);
	assert_int_equal(call.effect, LOCK_EFFECT_TAKES);
	assert_int_equal(call.success, LOCK_IF_POSITIVE);
	assert_int_equal(call.lease_ms, 30000);
	assert_false(call.leased);
	assert_calls(SCRIPT_LOCK_COUNT,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:owner:{k} hasp:fence " TOKEN
	             " 30000 \"\" 0 \"\"");
	rewrite_verbs("LOCK k EX 3", VERB_LOCK, verbs(REENTRANT_REFRESH));
	assert_int_equal(call.script, SCRIPT_LOCK_STRING);
	assert_true(call.leased);
	assert_calls(SCRIPT_LOCK_STRING,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:owner:{k} hasp:fence " TOKEN
	             " 3000 \"\" 0 \"\" refresh");
	rewrite_verbs("LOCK k", VERB_LOCK, verbs(REENTRANT_NO));
	assert_true(out_has("$2\r\nno\r\n"));
}

static void test_errors_name_the_configured_verb(void **state)
{
	(void)state;
	rewrite_verbs("LOCK.EXTEND k PX 0", VERB_EXTEND, verbs(REENTRANT_COUNT));
	assert_true(out_has("ERR invalid expire time in 'lock.extend' command"));
	assert_int_equal(call.script, SCRIPT_ERROR);
	assert_int_equal(call.effect, LOCK_EFFECT_NONE);
	struct verbs v = verbs(REENTRANT_COUNT);
	char name[200];
	memset(name, 'X', sizeof(name));
	name[199] = '\0';
	v.lock = name;
	rewrite_verbs("LOCK", VERB_LOCK, v);
	assert_true(out_has("ERR wrong number of arguments for 'xxxx"));
}

static void test_as_overrules_the_token(void **state)
{
	struct line l = split("UNLOCK k AS bob");
	struct verbs v = verbs(REENTRANT_COUNT);

	(void)state;
	l.view.argv = l.argv;
	rewrite_verb(&out, VERB_UNLOCK, &l.view, &v, slice_str(TOKEN),
	             (struct rewrite_how){ 0 }, &call);
	assert_true(slice_eq(call.owner, SLICE_LIT("bob")));
	assert_true(out_has("$3\r\nbob\r\n$4\r\nhash\r\n"));
	assert_false(out_has(TOKEN));
	free(l.copy);
}

/* ---- waiting ---- */

static void test_lock_tells_how_long_it_waits(void **state)
{
	(void)state;
	rewrite_verbs_as("LOCK k wait 500 PX 7000 AS bob", VERB_LOCK, verbs(REENTRANT_COUNT),
	                 may_wait);
	assert_calls(SCRIPT_LOCK_COUNT, "5 k hasp:fence:{k} hasp:queue:{k} hasp:owner:{k} "
	                                "hasp:fence bob 7000 " TICKET " 500 \"\"");
	assert_int_equal(call.wait_ms, 500);
	assert_int_equal(call.kind, LOCK_KIND_COUNT);
	assert_true(slice_eq(call.ticket, SLICE_LIT(TICKET)));
	rewrite_verbs_as("LOCK k WAIT 0", VERB_LOCK, verbs(REENTRANT_NO), may_wait);
	assert_int_equal(call.wait_ms, 0);
	assert_int_equal(call.kind, LOCK_KIND_TOKEN);
}

/* As a transaction does, and a try that has waited for a part of it already. */
static void test_no_try_waits_longer_than_it_may(void **state)
{
	struct rewrite_how how = may_wait;

	(void)state;
	how.wait_max_ms = 300;
	how.place = 1795254000000001;
	rewrite_verbs_as("LOCK k WAIT 500", VERB_LOCK, verbs(REENTRANT_REFRESH), how);
	assert_calls(SCRIPT_LOCK_STRING,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:owner:{k} hasp:fence " TOKEN
	             " 30000 " TICKET " 300 1795254000000001 refresh");
	assert_int_equal(call.wait_ms, 300);
	assert_int_equal(rewrite_as("SET k v NX", &waiting, how), REWRITE_CALL);
	assert_int_equal(call.wait_ms, 300);
	how.wait_max_ms = 0;
	rewrite_verbs_as("LOCK k WAIT 500", VERB_LOCK, verbs(REENTRANT_COUNT), how);
	assert_int_equal(call.wait_ms, 0);
	assert_int_equal(rewrite_as("SETNX k v", &waiting, how), REWRITE_CALL);
	assert_int_equal(call.wait_ms, 0);
	rewrite_verbs_as("LOCK k WAIT 9000000000000000000", VERB_LOCK, verbs(REENTRANT_COUNT),
	                 may_wait);
	assert_true(call.wait_ms == INT64_C(365) * 24 * 3600 * 1000);
}

static void test_a_wrong_wait_is_told_as_blpop_does(void **state)
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

	(void)state;
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

static void test_a_take_under_a_rule_with_wait_takes_its_turn(void **state)
{
	(void)state;
	assert_int_equal(rewrite_as("SETNX k v", &waiting, may_wait), REWRITE_CALL);
	assert_calls(SCRIPT_TAKE_TURN,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:owner:{k} hasp:fence " TOKEN
	             " 30000 " TICKET " 4000 \"\" v 0 SETNX no");
	assert_int_equal(call.wait_ms, 4000);
	assert_int_equal(call.kind, LOCK_KIND_RULE);
	assert_true(call.fresh);
	assert_int_equal(rewrite_as("SET k v PX 7000 NX", &waiting_by_value, may_wait),
	                 REWRITE_CALL);
	assert_calls(SCRIPT_TAKE_TURN, "5 k hasp:fence:{k} hasp:queue:{k} k hasp:fence " TOKEN
	                               " 7000 " TICKET " 4000 \"\" v 0 SET refresh");
	assert_int_equal(call.kind, LOCK_KIND_VALUE);
	assert_false(call.fresh);
}

static void test_a_lease_given_as_a_date_ends_then_or_with_the_longest(void **state)
{
	(void)state;
	assert_int_equal(rewrite_as("SET k v NX EXAT 1895254000", &waiting_by_value, may_wait),
	                 REWRITE_CALL);
	assert_calls(SCRIPT_TAKE_TURN,
	             "5 k hasp:fence:{k} hasp:queue:{k} k hasp:fence " TOKEN " 60000 " TICKET
	             " 4000 \"\" v 1895254000000 SET refresh");
	assert_true(call.leased);
	assert_int_equal(call.lease_ms, 0);
	assert_int_equal(rewrite_as("SET k v PXAT 1895254000001 NX", &waiting, may_wait),
	                 REWRITE_CALL);
	assert_calls(SCRIPT_TAKE_TURN,
	             "5 k hasp:fence:{k} hasp:queue:{k} hasp:owner:{k} hasp:fence " TOKEN
	             " 1000000000000000 " TICKET " 4000 \"\" v 1895254000001 SET no");
}

/* SET NX GET asks for the value that is there now; the others do not ask for a lock. */
static void test_nothing_else_waits(void **state)
{
	static const char *const lines[] = { "SET k v NX GET", "SET k v",   "SET k v XX",
		                             "GETSET k v",     "INCR k",    "SETEX k 5 v",
		                             "EXPIRE k 5",     "APPEND k v" };

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(rewrite_as(lines[i], &waiting, may_wait), REWRITE_CALL);
		if (call.wait_ms || out_has("hasp:queue"))
			fail_msg("%s", lines[i]);
	}
	assert_int_equal(rewrite_as("SET k v NX", &rule, may_wait), REWRITE_CALL);
	assert_int_equal(call.wait_ms, 0);
	assert_false(out_has(TICKET));
}

/* ---- hasp's own ---- */

static void test_many_locks_are_renewed_in_one_call(void **state)
{
	static const struct lock_renewal rules[] = {
		{ { LOCK_KIND_RULE, SLICE_LIT("a"), SLICE_LIT("t1") }, 9000, 0 },
		{ { LOCK_KIND_VALUE, SLICE_LIT("b"), SLICE_LIT("v2") }, 8000, 0 },
	};
	static const struct lock_renewal locks[] = {
		{ { LOCK_KIND_COUNT, SLICE_LIT("a"), SLICE_LIT("t1") }, 9000, 5 },
		{ { LOCK_KIND_TOKEN, SLICE_LIT("b"), SLICE_LIT("t2") }, 8000, 6 },
	};

	(void)state;
	assert_int_equal(rewrite_renewal(LOCK_KIND_RULE), SCRIPT_RENEW);
	assert_int_equal(rewrite_renewal(LOCK_KIND_VALUE), SCRIPT_RENEW);
	rewrite_renew(&out, SCRIPT_RENEW, rules, 2);
	assert_calls(SCRIPT_RENEW, "4 a hasp:owner:{a} b b 9000 t1 8000 v2");
	buf_clear(&out);
	assert_int_equal(rewrite_renewal(LOCK_KIND_COUNT), SCRIPT_RENEW_VERB);
	assert_int_equal(rewrite_renewal(LOCK_KIND_TOKEN), SCRIPT_RENEW_VERB);
	rewrite_renew(&out, SCRIPT_RENEW_VERB, locks, 2);
	assert_calls(SCRIPT_RENEW_VERB,
	             "6 a hasp:fence:{a} hasp:owner:{a} b hasp:fence:{b} hasp:owner:{b} "
	             "9000 t1 5 hash 8000 t2 6 string");
}

static void test_a_release_hands_over(void **state)
{
	static const struct lock_ident by_owner = { LOCK_KIND_RULE, SLICE_LIT("k"),
		                                    SLICE_LIT("t") };
	static const struct lock_ident value = { LOCK_KIND_VALUE, SLICE_LIT("k"),
		                                 SLICE_LIT("v") };
	static const struct lock_ident verb = { LOCK_KIND_TOKEN, SLICE_LIT("k"),
		                                SLICE_LIT("t") };

	(void)state;
	assert_int_equal(rewrite_release(&out, &by_owner, 29990, 30000), SCRIPT_RELEASE);
	assert_calls(SCRIPT_RELEASE, "5 k hasp:fence:{k} hasp:queue:{k} hasp:owner:{k} "
	                             "hasp:fence t 29990 30000");
	buf_clear(&out);
	assert_int_equal(rewrite_release(&out, &value, 0, 0), SCRIPT_RELEASE);
	assert_calls(SCRIPT_RELEASE, "5 k hasp:fence:{k} hasp:queue:{k} k hasp:fence v 0 0");
	buf_clear(&out);
	assert_int_equal(rewrite_unlock(&out, &verb, SLICE_LIT("w-7")), SCRIPT_UNLOCK);
	assert_calls(SCRIPT_UNLOCK, "5 k hasp:fence:{k} hasp:queue:{k} hasp:owner:{k} "
	                            "hasp:fence t string w-7");
}

static void test_a_try_is_looked_at_and_left_by_its_ticket(void **state)
{
	struct lock_try t = { .id = { LOCK_KIND_RULE, SLICE_LIT("k"), SLICE_LIT("t") },
		              .value = SLICE_LIT("v"),
		              .ticket = SLICE_LIT(TICKET),
		              .place = 1795254000000001 };
#define KEYS "5 k hasp:fence:{k} hasp:queue:{k} hasp:owner:{k} hasp:fence "

	(void)state;
	assert_int_equal(rewrite_check(&out, &t, 0), SCRIPT_CHECK);
	assert_calls(SCRIPT_CHECK, KEYS TICKET " 1795254000000001 r t v \"\"");
	buf_clear(&out);
	assert_int_equal(rewrite_check(&out, &t, 7000), SCRIPT_CHECK);
	assert_calls(SCRIPT_CHECK, KEYS TICKET " 1795254000000001 r t v 7000");
	buf_clear(&out);
	assert_int_equal(rewrite_leave(&out, &t, false), SCRIPT_LEAVE);
	assert_calls(SCRIPT_LEAVE, KEYS TICKET " 1795254000000001 r t v tell");
	buf_clear(&out);
	t.place = -1;
	assert_int_equal(rewrite_leave(&out, &t, true), SCRIPT_LEAVE);
	assert_calls(SCRIPT_LEAVE, KEYS TICKET " \"\" r t v undo");
	buf_clear(&out);
	t.place = 0;
	t.id.kind = LOCK_KIND_VALUE;
	assert_int_equal(rewrite_leave(&out, &t, true), SCRIPT_LEAVE);
	assert_calls(SCRIPT_LEAVE,
	             "5 k hasp:fence:{k} hasp:queue:{k} k hasp:fence " TICKET " 0 v t v undo");
#undef KEYS
}

/* Redis does not know the script: the same call goes out again, with its text. */
static void test_a_call_can_be_made_again_with_the_text(void **state)
{
	struct buf again = BUF_INIT, expected = BUF_INIT;
	const struct script *s = script_get(SCRIPT_RENEW);

	(void)state;
	script_call_begin(&out, SCRIPT_RENEW, (struct rewrite_how){ 0 }, 1, 1);
	buf_puts(&out, "$1\r\nk\r\n$2\r\n\r\n\r\n");
	script_call_begin(&expected, SCRIPT_RENEW, (struct rewrite_how){ .eval = true }, 1, 1);
	buf_puts(&expected, "$1\r\nk\r\n$2\r\n\r\n\r\n");
	buf_puts(&again, "before");
	script_call_write_as_eval(&again, SCRIPT_RENEW, buf_slice(&out));
	buf_consume(&again, strlen("before"));
	assert_true(slice_eq(buf_slice(&again), buf_slice(&expected)));
	assert_true(buf_len(&again) > s->text.n);
	buf_release(&again);
	buf_release(&expected);
}

/* ---- parts ---- */

static void test_integers_are_read_as_redis_reads_them(void **state)
{
	static const struct {
		const char *text;
		bool ok;
		int64_t v;
	} cases[] = {
		{ "0", true, 0 },
		{ "1", true, 1 },
		{ "-1", true, -1 },
		{ "9223372036854775807", true, INT64_MAX },
		{ "-9223372036854775808", true, INT64_MIN },
		{ "9223372036854775808", false, 0 },
		{ "-9223372036854775809", false, 0 },
		{ "99999999999999999999999", false, 0 },
		{ "", false, 0 },
		{ "-", false, 0 },
		{ "+1", false, 0 },
		{ " 1", false, 0 },
		{ "1 ", false, 0 },
		{ "01", false, 0 },
		{ "-0", false, 0 },
		{ "1.0", false, 0 },
		{ "1e3", false, 0 },
		{ "x", false, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int64_t v = 42;
		if (args_integer(slice_str(cases[i].text), &v) != cases[i].ok)
			fail_msg("%s", cases[i].text);
		if (cases[i].ok)
			assert_true(v == cases[i].v);
	}
}

static void test_options_end_at_a_nul_as_in_redis(void **state)
{
	(void)state;
	assert_true(args_option(SLICE_LIT("nX"), "NX"));
	assert_true(args_option(SLICE_LIT("NX\0junk"), "NX"));
	assert_false(args_option(SLICE_LIT("NXX"), "NX"));
	assert_false(args_option(SLICE_LIT("N"), "NX"));
	assert_false(args_option(SLICE_LIT(""), "NX"));
}

static void test_sidecars_stand_in_the_slot_of_their_lock(void **state)
{
	static const struct {
		const char *key, *bulk;
	} cases[] = {
		{ "a", "$14\r\nhasp:owner:{a}\r\n" },
		{ "{a}b", "$16\r\nhasp:owner:{a}b:\r\n" },
		{ "b{a}", "$16\r\nhasp:owner:b{a}:\r\n" },
		{ "{}a", "$16\r\nhasp:owner:{{}a}\r\n" },
		{ "a{b", "$16\r\nhasp:owner:{a{b}\r\n" },
		{ "}{a}", "$16\r\nhasp:owner:}{a}:\r\n" },
		{ "{}{a}", "$18\r\nhasp:owner:{{}{a}}\r\n" },
		{ "", "$13\r\nhasp:owner:{}\r\n" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_clear(&out);
		key_names_write_bulk(&out, KEY_NAME_OWNER, slice_str(cases[i].key));
		if (!slice_eq(buf_slice(&out), slice_str(cases[i].bulk)))
			fail_msg("%s: %.*s", cases[i].key, (int)buf_len(&out), buf_head(&out));
	}
}

static void test_the_queue_of_a_guard_is_a_sidecar_of_a_sidecar(void **state)
{
	static const char *const keys[] = {
		"a", "{a}b", "b{a}", "{}a", "a{b", "}a", "}{a}", ""
	};
	struct buf name = BUF_INIT, expected = BUF_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		buf_clear(&name);
		buf_clear(&expected);
		buf_clear(&out);
		key_names_write(&name, KEY_NAME_GUARD, slice_str(keys[i]));
		key_names_write_bulk(&expected, KEY_NAME_QUEUE, buf_slice(&name));
		key_names_write_guard_queue_bulk(&out, slice_str(keys[i]));
		if (!slice_eq(buf_slice(&out), buf_slice(&expected)))
			fail_msg("%s: %.*s", keys[i], (int)buf_len(&out), buf_head(&out));
	}
	buf_release(&name);
	buf_release(&expected);
}

static void test_scripts_travel_without_comments(void **state)
{
	(void)state;
	for (int i = 0; i < SCRIPT_COUNT; i++) {
		const struct script *s = script_get((enum script_id)i);

		assert_true(s->text.n > 0 && s->text.n < 8192);
		assert_int_equal(s->sha.n, 40);
		assert_null(strstr(s->text.p, "--"));
		assert_null(strstr(s->text.p, "\t"));
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_a_take_is_one_evalsha),
		TEST(test_inline_calls_carry_the_text),
		TEST(test_calls_are_appended),
		TEST(test_with_owner_value_a_take_needs_no_script),
		TEST(test_keys_with_a_rule_come_in_pairs_before_the_others),
		TEST(test_dropped_locks_that_are_waited_for_bring_their_queues),
		TEST(test_what_redis_refuses_passes),
		TEST(test_reads_in_a_write_commands_clothes_pass),
		TEST(test_keys_without_a_rule_pass),
		TEST(test_what_is_newer_than_hasp_runs_inside_the_check),
		TEST(test_the_books_learn_what_success_means),
		TEST(test_leases_are_capped),
		TEST(test_counting_by_value_is_nobodys),
		TEST(test_success_is_read_from_the_reply),
		TEST(test_the_layout_chooses_the_script),
		TEST(test_errors_name_the_configured_verb),
		TEST(test_as_overrules_the_token),
		TEST(test_lock_tells_how_long_it_waits),
		TEST(test_no_try_waits_longer_than_it_may),
		TEST(test_a_wrong_wait_is_told_as_blpop_does),
		TEST(test_a_take_under_a_rule_with_wait_takes_its_turn),
		TEST(test_a_lease_given_as_a_date_ends_then_or_with_the_longest),
		TEST(test_nothing_else_waits),
		TEST(test_many_locks_are_renewed_in_one_call),
		TEST(test_a_release_hands_over),
		TEST(test_a_try_is_looked_at_and_left_by_its_ticket),
		TEST(test_a_call_can_be_made_again_with_the_text),
		TEST(test_integers_are_read_as_redis_reads_them),
		TEST(test_options_end_at_a_nul_as_in_redis),
		TEST(test_sidecars_stand_in_the_slot_of_their_lock),
		TEST(test_the_queue_of_a_guard_is_a_sidecar_of_a_sidecar),
		TEST(test_scripts_travel_without_comments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
