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
#include "lock/args.h"
#include "lock/rewrite.h"
#include "lock/sidecar.h"

#define ARGS_MAX 16
#define TOKEN "10.0.0.1:4711/0/c0ffee"

static const struct rule rule = { .owner = OWNER_CONNECTION, .lease_ms = 30000 };
static const struct rule capping = { .owner = OWNER_CONNECTION,
	                             .lease_ms = 5000,
	                             .max_lease_ms = 8000 };
static const struct rule by_value = { .owner = OWNER_VALUE, .lease_ms = 30000 };

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
static enum rewrite_result rewrite(const char *text, const struct rule *r)
{
	struct line l = split(text);
	struct lock_key key = { 1, r, slice_str(TOKEN) };
	enum rewrite_result result;

	l.view.argv = l.argv;
	buf_clear(&out);
	result = rewrite_lock(&out, &l.view, &key, 1, (struct rewrite_how){ 0 }, &call);
	/* They point into the line; a test needs only literals to compare. */
	call.key = call.value = SLICE_NONE;
	free(l.copy);
	return result;
}

static void rewrite_verbs(const char *text, enum verb verb, struct verbs v)
{
	struct line l = split(text);

	l.view.argv = l.argv;
	buf_clear(&out);
	rewrite_verb(&out, verb, &l.view, &v, slice_str(TOKEN), (struct rewrite_how){ 0 },
	             &call);
	call.key = call.value = call.owner = SLICE_NONE;
	free(l.copy);
}

static bool out_has(const char *text)
{
	*buf_reserve(&out, 1) = '\0';
	return strstr(buf_head(&out), text) != NULL;
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
	assert_true(out_has("*8\r\n$4\r\nEVAL\r\n$"));
	assert_true(out_has("redis.pcall(command, lock, side)"));
	assert_int_equal(call.script, SCRIPT_DROP);
	assert_true(buf_len(&out) > s->text.n);
	free(l.copy);
}

static void test_calls_are_appended(void **state)
{
	(void)state;
	rewrite("INCR k", &rule);
	size_t n = buf_len(&out);
	struct lock_ident id = { .key = SLICE_LIT("k"), .token = SLICE_LIT("t") };
	rewrite_release(&out, &id, (struct rewrite_how){ 0 });
	assert_memory_equal(buf_head(&out) + n, "*6\r\n$7\r\nEVALSHA\r\n", 17);
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
	                    "$2\r\nt1\r\n$2\r\nt2\r\n"));
	assert_true(slice_eq(call.key, SLICE_LIT("k1")));
	assert_int_equal(call.effect, LOCK_EFFECT_DROPS);
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
	assert_true(out_has("$14\r\nhasp:fence:{k}\r\n$10\r\nhasp:fence\r\n"));
	rewrite_verbs("LOCK k EX 3", VERB_LOCK, verbs(REENTRANT_REFRESH));
	assert_int_equal(call.script, SCRIPT_LOCK_STRING);
	assert_true(call.leased);
	assert_true(out_has("$4\r\n3000\r\n$7\r\nrefresh\r\n"));
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
		sidecar_write_bulk(&out, SIDECAR_OWNER, slice_str(cases[i].key));
		if (!slice_eq(buf_slice(&out), slice_str(cases[i].bulk)))
			fail_msg("%s: %.*s", cases[i].key, (int)buf_len(&out), buf_head(&out));
	}
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
		TEST(test_integers_are_read_as_redis_reads_them),
		TEST(test_options_end_at_a_nul_as_in_redis),
		TEST(test_sidecars_stand_in_the_slot_of_their_lock),
		TEST(test_scripts_travel_without_comments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
