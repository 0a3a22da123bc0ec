/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of decisions about commands on keys with a [guard].
 */
#include <stdio.h>

#include "tests/unit/guard_fixture.h"
#include "tests/unit/inifile.h"
#include "tests/unit/policy_fixture.h"
#include "tests/unit/testing.h"
#include "watch/command_sample.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

FIXTURE(policy_set_up, policy_tear_down);

#define GUARD "[guard stock]\npattern = stock:*\nacquire_on = GET DUMP GETEX BITFIELD\n"

#define KEYS_OF_STOCK GUARD_KEYS("stock:1")

/* Asserts that the command begins an operation of this kind, which is returned. */
static struct guard_op *assert_op(struct policy_fixture *f, const char *words,
                                  enum guard_op_kind kind)
{
	struct decision *d = decide(f, words);
	struct guard_op *op;

	assert_int_equal(d->verdict, DISPATCH_GUARD);
	assert_int_equal(d->pending->kind, PENDING_GUARD);
	op = d->pending->guard_op;
	assert_int_equal(op->kind, kind);
	assert_int_equal(op->phase, GUARD_OP_NEW);
	return op;
}

static struct guard_op *assert_script(struct policy_fixture *f, const char *words,
                                      enum guard_op_script script)
{
	struct guard_op *op = assert_op(f, words, GUARD_OP_SCRIPT);

	assert_int_equal(op->script, script);
	return op;
}

/* --- what no guard concerns ---------------------------------------------------------- */

TEST(other_keys_and_other_reads_pass)
{
	policy_use(*state, GUARD);
	assert_passed(*state, "GET other");
	assert_passed(*state, "SET other v");
	assert_passed(*state, "STRLEN stock:1");
	assert_passed(*state, "GET");
	/* Commands that wait for data are not checked. */
	assert_int_equal(decide(*state, "BLPOP stock:1 0")->verdict, DISPATCH_PASS);
}

TEST(a_lock_s_rule_comes_before_a_guard)
{
	policy_use(*state, "[lock a]\npattern = stock:lock\n" GUARD);
	assert_passed(*state, "GET stock:lock");
	assert_int_equal(decide(*state, "SETNX stock:lock v")->verdict, DISPATCH_CALL);
}

TEST(an_observed_guard_s_commands_pass_and_are_looked_at)
{
	static const char *const lines[] = { "GET stock:1", "SET stock:1 v" };

	policy_use(f, GUARD "mode = observe\n");
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(decide(f, lines[i])->verdict, DISPATCH_PASS);
		assert_non_null(f->d.pending->command_sample);
	}
	assert_passed(f, "STRLEN stock:1");
}

TEST(what_an_excepted_client_reads_is_not_looked_at)
{
	policy_use(f, GUARD "mode = observe\nexcept = user:default\n");
	assert_passed(f, "GET stock:1");
	assert_non_null(decide(f, "SET stock:1 v")->pending->command_sample);
}

TEST(a_client_that_is_excepted_reads_without_a_guard)
{
	policy_use(f, GUARD "except = name:report-* user:alice\n");
	assert_script(f, "GET stock:1", GUARD_OP_READ);
	run(f, "CLIENT SETNAME report-7", "+OK\r\n");
	assert_passed(f, "GET stock:1");
	/* The client's writes are still checked. */
	assert_script(f, "SET stock:1 v", GUARD_OP_WRITE);
	run(f, "CLIENT SETNAME other", "+OK\r\n");
	assert_script(f, "GET stock:1", GUARD_OP_READ);
	run(f, "AUTH alice x", "+OK\r\n");
	assert_passed(f, "GET stock:1");
	run(f, "AUTH bob x", "+OK\r\n");
	policy_use(f, "[hasp]\nlisten = 127.0.0.1:6380 127.0.0.1:6381\n" GUARD
	              "except = listener:127.0.0.1:6381\n");
	assert_script(f, "GET stock:1", GUARD_OP_READ);
	policy_use(f, GUARD "except = listener:127.0.0.1:6380\n");
	assert_passed(f, "GET stock:1");
}

/* --- reads -------------------------------------------------------------------------- */

TEST(a_read_is_a_script_that_acquires_its_guard)
{
	struct guard_op *op;

	policy_use(f, GUARD "lease = 7s\nwait = 900ms\n");
	run(f, "SELECT 3", "+OK\r\n");
	op = assert_script(f, "GET stock:1", GUARD_OP_READ);
	assert_false(op->writes);
	assert_int_equal(op->n, 1);
	assert_int_equal(op->wait_ms, 900);
	assert_true(op->keys[0].acquires);
	assert_false(op->keys[0].writes);
	assert_int_equal(op->keys[0].lease_ms, 7000);
	assert_int_equal(read_set_entry_db(op->keys[0].entry), 3);
	assert_true(slice_eq(read_set_entry_key(op->keys[0].entry), SLICE_LIT("stock:1")));
	assert_true(slice_eq(op->keys[0].entry->token, SLICE_LIT(TOKEN_CONNECTION)));
	assert_true(op->keys[0].entry->release);
	assert_float_equal(op->sent_at, POLICY_NOW, 0.001);
}

TEST(a_read_that_no_script_can_hold_is_sent_apart)
{
	policy_use(f, "[guard stock]\npattern = stock:*\nacquire_on = DUMP HGETALL\n");
	assert_script(f, "DUMP stock:1", GUARD_OP_READ_APART);
	assert_script(f, "HGETALL stock:1", GUARD_OP_READ);
	/* In RESP3 the reply has maps. */
	run(f, "HELLO 3", "%0\r\n");
	assert_script(f, "HGETALL stock:1", GUARD_OP_READ_APART);
}

TEST(a_read_begins_optimistically_unless_something_speaks_against_it)
{
	policy_use(f, "[guard stock]\npattern = stock:*\nacquire_on = GET MGET\n");
	assert_true(assert_script(f, "GET stock:1", GUARD_OP_READ)->optimistic);
	assert_false(assert_script(f, "MGET stock:1 stock:2", GUARD_OP_READ)->optimistic);
	assert_false(assert_script(f, "SET stock:1 v", GUARD_OP_WRITE)->optimistic);
	policy_waits_for(GUARD_OF("stock:1"));
	assert_false(assert_script(f, "GET stock:1", GUARD_OP_READ)->optimistic);
	assert_true(assert_script(f, "GET stock:2", GUARD_OP_READ)->optimistic);
	policy_waits_for(NULL);
	f->may_be_optimistic = false;
	assert_false(assert_script(f, "GET stock:1", GUARD_OP_READ)->optimistic);
}

TEST(what_was_read_already_is_read_by_the_script)
{
	policy_use(f, GUARD);
	run(f, "GET stock:1", "$1\r\nv\r\n");
	assert_false(assert_script(f, "GET stock:1", GUARD_OP_READ)->optimistic);
}

/* --- writes ------------------------------------------------------------------------- */

TEST(a_write_that_a_script_can_hold_is_one)
{
	struct guard_op *op;

	policy_use(f, GUARD);
	op = assert_script(f, "SET stock:1 v", GUARD_OP_WRITE);
	assert_true(op->writes);
	assert_true(op->keys[0].writes);
	assert_true(op->keys[0].releases);
	assert_false(op->keys[0].acquires);
	assert_false(op->keys[0].must_own);
}

TEST(what_was_read_must_still_be_owned)
{
	policy_use(f, GUARD);
	run(f, "GET stock:1", "$1\r\nv\r\n");
	assert_true(assert_script(f, "SET stock:1 v", GUARD_OP_WRITE)->keys[0].must_own);
	run(f, "SET stock:1 v", "+OK\r\n");
	assert_false(assert_script(f, "SET stock:1 v", GUARD_OP_WRITE)->keys[0].must_own);
}

TEST(only_a_write_that_release_on_names_releases)
{
	policy_use(*state, GUARD "release_on = SET\n");
	assert_true(assert_script(*state, "SET stock:1 v", GUARD_OP_WRITE)->keys[0].releases);
	assert_false(
		assert_script(*state, "APPEND stock:1 v", GUARD_OP_WRITE)->keys[0].releases);
}

TEST(a_write_that_no_script_can_hold_is_a_transaction)
{
	policy_use(f, GUARD);
	assert_true(assert_op(f, "INCR stock:1", GUARD_OP_SINGLE)->keys[0].releases);
	assert_op(f, "EVAL x 1 stock:1", GUARD_OP_SINGLE);
}

TEST(a_command_that_reads_and_writes_is_a_transaction_once_it_may_have_read)
{
	struct guard_op *op;

	policy_use(f, GUARD);
	assert_false(assert_script(f, "BITFIELD stock:1 SET u8 0 1", GUARD_OP_READ_APART)
	                     ->optimistic);
	run(f, "GET stock:1", "$1\r\nv\r\n");
	op = assert_op(f, "BITFIELD stock:1 SET u8 0 1", GUARD_OP_SINGLE);
	assert_true(op->keys[0].acquires);
	assert_false(op->keys[0].releases);
}

TEST(of_several_keys_only_the_guarded_ones_count)
{
	struct guard_op *op;

	policy_use(f, GUARD);
	op = assert_script(f, "MSET stock:2 a other b stock:1 c stock:2 d", GUARD_OP_WRITE);
	assert_int_equal(op->n, 2);
	assert_true(slice_eq(read_set_entry_key(op->keys[0].entry), SLICE_LIT("stock:1")));
	assert_true(slice_eq(read_set_entry_key(op->keys[1].entry), SLICE_LIT("stock:2")));
}

TEST(the_shortest_wait_counts)
{
	policy_use(*state, "[guard a]\npattern = a\nacquire_on = MGET\nwait = 900ms\n"
	                   "[guard b]\npattern = b\nacquire_on = MGET\nwait = 500ms\n");
	assert_int_equal(assert_script(*state, "MGET a b", GUARD_OP_READ)->wait_ms, 500);
}

TEST(a_store_writes_its_destination_and_reads_the_others)
{
	struct guard_op *op;

	policy_use(f, GUARD);
	op = assert_script(f, "SUNIONSTORE stock:b stock:a", GUARD_OP_WRITE);
	assert_int_equal(op->n, 2);
	assert_false(op->keys[0].writes || op->keys[0].releases);
	assert_true(op->keys[1].writes && op->keys[1].releases);
	op = assert_script(f, "COPY stock:a stock:b", GUARD_OP_WRITE);
	assert_int_equal(op->n, 2);
	op = assert_script(f, "COPY stock:a stock:b DB 0", GUARD_OP_WRITE);
	assert_int_equal(op->n, 2);
}

TEST(a_guarded_key_is_not_written_in_another_database)
{
	static const char error[] =
		"ERR hasp: the command writes a guarded key in another database";

	policy_use(*state, GUARD);
	assert_refused(*state, "COPY stock:a stock:b DB 4", error);
	assert_refused(*state, "COPY other stock:b REPLACE db 4", error);
	assert_refused(*state, "COPY other stock:b DB 0 DB 4", error);
	assert_refused(*state, "MOVE stock:a 4", error);
	/* The command reads a key of this database. */
	assert_int_equal(assert_script(*state, "COPY stock:a other DB 4", GUARD_OP_WRITE)->n,
	                 1);
	assert_passed(*state, "COPY other other DB 4");
	assert_passed(*state, "MOVE other 4");
}

/* --- refusals ----------------------------------------------------------------------- */

TEST(guarded_keys_and_locks_in_one_command_are_refused)
{
	policy_use(*state, "[lock a]\npattern = lock\n" GUARD);
	assert_refused(*state, "DEL stock:1 lock",
	               "ERR hasp: the command names both guarded keys and keys of a [lock] "
	               "rule");
}

TEST(a_transaction_of_hasp_s_own_is_refused_behind_watch)
{
	policy_use(*state, GUARD);
	assert_passed(*state, "WATCH other");
	assert_refused(*state, "INCR stock:1",
	               "ERR hasp: hasp needs a transaction to write this guarded key, and that "
	               "would end WATCH: send the command before WATCH or after EXEC");
	/* A script needs no transaction. */
	assert_script(*state, "SET stock:1 v", GUARD_OP_WRITE);
}

TEST(before_redis_has_told_its_commands_unknown_ones_are_refused)
{
	policy_use(*state, GUARD);
	assert_refused(*state, "MODULE.SET x stock:1",
	               "LOADING hasp does not know yet which keys of this command are guarded");
	assert_passed(*state, "MODULE.SET x other");
	policy_learn(*state);
	assert_int_equal(decide(*state, "MODULE.SET x stock:1")->verdict, DISPATCH_LEARN);
}

TEST(too_many_guarded_keys_are_refused)
{
	struct slice argv[1 + READ_SET_MAX];
	static char keys[READ_SET_MAX][16];
	struct resp_view view = { 1 + READ_SET_MAX, argv };

	policy_use(f, GUARD);
	decide(f, "DEL stock:1");
	argv[0] = SLICE_LIT("DEL");
	for (int i = 0; i < READ_SET_MAX; i++) {
		snprintf(keys[i], sizeof(keys[i]), "stock:%d", i);
		argv[1 + i] = slice_str(keys[i]);
	}
	pending_free(f->d.pending);
	context_set_command(&f->x, &f->env, &f->what, &view, NULL);
	f->d = dispatch(&f->x);
	assert_int_equal(f->d.verdict, DISPATCH_CALL);
	assert_rewritten(f, "EVAL error 0 ERR hasp: the command names too many guarded keys\n");
	view.argc--;
	context_set_command(&f->x, &f->env, &f->what, &view, NULL);
	f->d = dispatch(&f->x);
	assert_int_equal(f->d.verdict, DISPATCH_GUARD);
}

/* --- when something is not known ---------------------------------------------------- */

TEST(guarded_commands_wait_until_nothing_is_awaited)
{
	policy_use(f, GUARD);
	(void)sent_command(f, "SELECT 3");
	assert_deferred(f, "GET stock:1");
	assert_deferred(f, "SET stock:1 v");
	assert_passed(f, "GET other");
}

TEST(on_a_subscribed_resp2_connection_redis_refuses_them)
{
	policy_use(f, GUARD);
	f->session.subscriptions = (struct subscriptions){ .channels = 1, .any = true };
	assert_passed(f, "GET stock:1");
	f->session.proto = 3;
	assert_script(f, "GET stock:1", GUARD_OP_READ);
}

static struct read_set_entry *entry(struct policy_fixture *f, const char *key)
{
	return read_set_find(f->env.read_sets, &f->locks->read_set, f->session.db,
	                     slice_str(key));
}

TEST(when_replies_are_not_seen_only_the_script_is_sent)
{
	policy_use(f, GUARD "wait = 0\n");
	session_make_opaque(&f->session);
	assert_int_equal(decide(f, "GET stock:1")->verdict, DISPATCH_CALL);
	assert_null(f->d.pending);
	assert_rewritten(f, "guard_read 3 " KEYS_OF_STOCK
	                    " \"\" 1 \"\" 0 \"\" " TOKEN_CONNECTION " 5000 - GET stock:1\n");
	/* The read counts as carried out. */
	assert_true(entry(f, "stock:1")->read);
	assert_int_equal(decide(f, "SET stock:1 v")->verdict, DISPATCH_CALL);
	assert_rewritten(f, "guard_finish 3 " KEYS_OF_STOCK " \"\" " TOKEN_CONNECTION
	                    " 5000 SET stock:1 v\n");
	assert_null(entry(f, "stock:1"));
	/* Without replies, hasp cannot check a transaction. */
	assert_passed(f, "INCR stock:1");
}
