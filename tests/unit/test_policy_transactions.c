/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of decisions about an application's MULTI, EXEC and WATCH on keys with a [guard].
 */

#include "tests/unit/inifile.h"
#include "tests/unit/policy_fixture.h"
#include "tests/unit/testing.h"
#include "tests/unit/wire.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

FIXTURE(policy_set_up, policy_tear_down);

#define GUARD "[guard stock]\npattern = stock:*\nacquire_on = GET\nwait = 2s\n"

static void begin(struct policy_fixture *f)
{
	run(f, "MULTI", "+OK\r\n");
}

/* Asserts that the command is queued in the transaction, unchanged. */
static void queue(struct policy_fixture *f, const char *words)
{
	assert_passed(f, words);
	assert_true(f->d.watches_refusal);
}

static struct guard_op *assert_exec(struct policy_fixture *f, enum guard_op_kind kind)
{
	struct decision *d = decide(f, "EXEC");

	assert_int_equal(d->verdict, DISPATCH_GUARD);
	assert_int_equal(d->pending->kind, PENDING_EXEC);
	assert_int_equal(d->pending->guard_op->kind, kind);
	assert_false(session_in_multi(&f->session));
	return d->pending->guard_op;
}

/* Asserts that hasp refuses EXEC, and discards Redis' transaction. */
static void assert_exec_refused(struct policy_fixture *f, const char *error)
{
	assert_refused(f, "EXEC", error);
	assert_int_equal(f->d.discards, 1);
	assert_false(session_in_multi(&f->session));
}

/* --- a block ------------------------------------------------------------------------- */

TEST(exec_is_an_operation_of_all_guarded_keys_of_its_commands)
{
	struct guard_op *op;

	policy_use(f, GUARD);
	begin(f);
	queue(f, "SET stock:2 a");
	queue(f, "PING");
	queue(f, "GET stock:1");
	queue(f, "INCR stock:2");
	op = assert_exec(f, GUARD_OP_BLOCK);
	assert_int_equal(op->n, 2);
	assert_true(slice_eq(read_set_entry_key(op->keys[0].entry), SLICE_LIT("stock:1")));
	assert_true(op->keys[0].acquires);
	assert_false(op->keys[0].writes);
	assert_true(slice_eq(read_set_entry_key(op->keys[1].entry), SLICE_LIT("stock:2")));
	assert_true(op->keys[1].writes && op->keys[1].releases);
	assert_true(op->writes);
	assert_int_equal(op->wait_ms, 2000);
	assert_int_equal(op->ncommands, 4);
	assert_true(op->block_open);
	assert_wire(buf_slice(&op->block), "SET stock:2 a\nPING\nGET stock:1\nINCR stock:2\n");
}

/* The last command on a key decides; but a write counts in any case. */
TEST(of_several_commands_on_a_key_the_last_counts)
{
	struct guard_op *op;

	policy_use(f, GUARD);
	begin(f);
	queue(f, "SET stock:1 a");
	queue(f, "GET stock:1");
	op = assert_exec(f, GUARD_OP_BLOCK);
	assert_int_equal(op->n, 1);
	assert_true(op->keys[0].acquires && op->keys[0].writes);
	assert_false(op->keys[0].releases);
}

TEST(calls_on_locks_are_in_the_block_as_they_were_rewritten)
{
	struct guard_op *op;
	struct buf words = BUF_INIT;

	policy_use(f, "[lock a]\npattern = lock\nowner = value\n" GUARD);
	begin(f);
	queue(f, "SET stock:1 v");
	assert_int_equal(decide(f, "SET lock v NX")->verdict, DISPATCH_CALL);
	assert_true(f->d.watches_refusal);
	op = assert_exec(f, GUARD_OP_BLOCK);
	wire_words(&words, buf_slice(&op->block));
	assert_true(
		slice_starts(buf_slice(&words), SLICE_LIT("SET stock:1 v\ntake 3 lock lock ")));
	buf_release(&words);
}

TEST(what_exec_awaits_besides_stays_so)
{
	policy_use(f, GUARD);
	begin(f);
	queue(f, "SET stock:1 v");
	queue(f, "CLIENT SETNAME worker");
	assert_exec(f, GUARD_OP_BLOCK);
	assert_false(list_empty(&f->d.pending->queued));
}

TEST(a_command_that_no_guard_concerns_adds_no_key)
{
	struct guard_op *op;

	policy_use(f, GUARD);
	begin(f);
	queue(f, "STRLEN stock:1");
	queue(f, "BLPOP stock:1 0"); /* commands that wait for data are not checked */
	assert_passed(f, "EXEC");
	begin(f);
	queue(f, "BLPOP stock:1 0");
	queue(f, "SET stock:2 v");
	op = assert_exec(f, GUARD_OP_BLOCK);
	assert_int_equal(op->n, 1);
	assert_true(slice_eq(read_set_entry_key(op->keys[0].entry), SLICE_LIT("stock:2")));
}

TEST(a_block_without_guarded_keys_passes)
{
	policy_use(f, GUARD);
	begin(f);
	queue(f, "SET other v");
	assert_passed(f, "EXEC");
	begin(f);
	assert_passed(f, "EXEC");
	assert_passed(f, "EXEC");
}

#define PLAIN "*2\r\n$3\r\nGET\r\n$5\r\nother\r\n*1\r\n$4\r\nPING\r\n"

static bool queue_plain(struct policy_fixture *f)
{
	return dispatch_queue_plain(&f->env, &f->session, SLICE_LIT(PLAIN), 2);
}

TEST(without_guards_nothing_is_kept)
{
	begin(f);
	assert_passed(f, "SET stock:1 v");
	assert_false(f->d.watches_refusal);
	assert_false(queue_plain(f));
	assert_int_equal(f->session.txn.nqueued, 3);
	assert_int_equal(f->session.txn.nkept, 0);
}

TEST(plain_commands_are_a_part_of_the_block)
{
	struct guard_op *op;

	policy_use(f, GUARD);
	begin(f);
	assert_true(queue_plain(f));
	queue(f, "SET stock:1 v");
	op = assert_exec(f, GUARD_OP_BLOCK);
	assert_int_equal(op->ncommands, 3);
	assert_wire(buf_slice(&op->block), "GET other\nPING\nSET stock:1 v\n");
}

TEST(a_block_of_plain_commands_passes)
{
	policy_use(f, GUARD);
	(void)sent_command(f, "MULTI");
	assert_true(queue_plain(f));
	assert_passed(f, "EXEC");
}

TEST(an_aborted_transaction_is_redis_to_refuse)
{
	policy_use(f, GUARD);
	begin(f);
	queue(f, "SET stock:1 v");
	transaction_abort(&f->session.txn);
	assert_passed(f, "EXEC");
}

TEST(only_guarded_keys_wait_for_the_answer_to_multi)
{
	struct pending_request *multi;

	policy_use(f, GUARD);
	multi = sent_command(f, "MULTI");
	queue(f, "SET other v");
	queue(f, "EVAL return 1 other");
	assert_deferred(f, "SET stock:1 v");
	assert_deferred(f, "MSET other v stock:1 v");
	assert_deferred(f, "EVAL return 1 stock:1");
	assert_deferred(f, "MODULE.SET stock:1");
	assert_true(session_in_multi(&f->session));
	answered(f, multi, "+OK\r\n");
	queue(f, "SET stock:1 v");
	assert_exec(f, GUARD_OP_BLOCK);
}

TEST(exec_of_unguarded_keys_does_not_wait_for_the_answer_to_multi)
{
	policy_use(f, GUARD);
	(void)sent_command(f, "MULTI");
	queue(f, "SET other v");
	assert_passed(f, "EXEC");
	(void)sent_command(f, "MULTI");
	assert_passed(f, "EXEC");
}

/* The new configuration may guard keys of the earlier commands. */
TEST(exec_after_another_configuration_waits_until_nothing_is_awaited)
{
	struct pending_request *multi;

	policy_use(f, "[guard free]\npattern = free:*\nacquire_on = GET\n");
	multi = sent_command(f, "MULTI");
	queue(f, "SET stock:1 v");
	policy_use(f, GUARD);
	queue(f, "SET other v");
	assert_deferred(f, "EXEC");
	answered(f, multi, "+OK\r\n");
	assert_exec(f, GUARD_OP_BLOCK);
}

/* A call on a lock may name a guarded key. */
TEST(exec_of_a_call_on_a_lock_waits_until_nothing_is_awaited)
{
	policy_use(f, "[lock a]\npattern = lock\n" GUARD);
	begin(f);
	assert_int_equal(decide(f, "SET lock v NX")->verdict, DISPATCH_CALL);
	f->session.nawaited++;
	assert_deferred(f, "EXEC");
	f->session.nawaited--;
	assert_int_equal(decide(f, "EXEC")->verdict, DISPATCH_PASS);
}

/* --- refusals ----------------------------------------------------------------------- */

#define NOT_FOLLOWED                                                                           \
	"ERR hasp: nothing was written: a transaction with guarded keys may not contain "      \
	"SELECT, more than 1023 guarded keys, keys of guards with different strategies, or "   \
	"commands that hasp does not know"

TEST(guarded_keys_behind_select_are_refused)
{
	policy_use(f, GUARD);
	begin(f);
	queue(f, "SELECT 1");
	queue(f, "SET stock:1 v");
	assert_exec_refused(f, NOT_FOLLOWED);
	begin(f);
	queue(f, "SET stock:1 v");
	queue(f, "SELECT 1");
	assert_exec(f, GUARD_OP_BLOCK);
}

TEST(commands_that_are_not_known_yet_are_refused)
{
	policy_use(f, GUARD);
	begin(f);
	queue(f, "MODULE.SET stock:1");
	assert_exec_refused(f, NOT_FOLLOWED);
}

TEST(a_transaction_that_began_before_there_were_guards_is_refused)
{
	begin(f);
	assert_passed(f, "SET stock:1 v");
	policy_use(f, GUARD);
	queue(f, "SET stock:2 v");
	assert_exec_refused(f, "ERR hasp: there were no guards when this transaction began: "
	                       "nothing was written");
}

TEST(a_transaction_that_is_longer_than_a_request_is_refused)
{
	policy_use(f, "[hasp]\nmax_request = 64kb\n" GUARD);
	begin(f);
	f->env.config->max_request = 10;
	queue(f, "SET stock:1 v");
	assert_int_equal(f->session.txn.state, TRANSACTION_TOO_LONG);
	assert_exec_refused(f, "ERR hasp: a transaction with guarded keys is longer than "
	                       "max_request: nothing was written");
}

/* --- around the application's WATCH ------------------------------------------------- */

#define NOT_READ                                                                               \
	"LOCKED the client did not read a guarded key between WATCH and MULTI: nothing was "   \
	"written"
#define LOST "LOCKLOST a key was read under a guard that has ended: nothing was written"

/* Sends WATCH, a read, and MULTI, after which the transaction's guards are `guards`. */
static void begin_watched(struct policy_fixture *f, enum transaction_guards guards)
{
	assert_passed(f, "WATCH other");
	run(f, "GET stock:1", "$1\r\nv\r\n");
	assert_int_equal(decide(f, "MULTI")->verdict, DISPATCH_GUARD);
	assert_int_equal(f->d.pending->guard_op->kind, GUARD_OP_WATCH_MULTI);
	assert_false(session_in_multi(&f->session));
	/* The exchange does this after its check. */
	transaction_begin(&f->session.txn);
	f->session.txn.guards = guards;
}

TEST(multi_behind_watch_waits_for_the_check_of_what_was_read)
{
	policy_use(f, GUARD);
	run(f, "GET stock:1", "$1\r\nv\r\n");
	/* Without WATCH, MULTI passes. */
	run(f, "MULTI", "+OK\r\n");
	run(f, "DISCARD", "+OK\r\n");
	assert_passed(f, "WATCH other");
	assert_int_equal(decide(f, "MULTI")->verdict, DISPATCH_GUARD);
	assert_true(f->d.pending->guard_op->writes);
	assert_int_equal(f->d.pending->guard_op->n, 1);
	assert_true(f->d.pending->guard_op->keys[0].must_own);
}

TEST(multi_behind_watch_passes_when_nothing_was_read)
{
	policy_use(f, GUARD);
	assert_passed(f, "WATCH other");
	assert_int_equal(decide(f, "MULTI")->verdict, DISPATCH_PASS);
	assert_true(session_in_multi(&f->session));
}

TEST(multi_behind_watch_waits_until_nothing_is_awaited)
{
	policy_use(f, GUARD);
	run(f, "GET stock:1", "$1\r\nv\r\n");
	assert_passed(f, "WATCH other");
	(void)sent_command(f, "CLIENT SETNAME worker");
	assert_deferred(f, "MULTI");
}

TEST(exec_is_sent_as_it_is_when_its_guards_are_watched)
{
	policy_use(f, GUARD);
	begin_watched(f, TRANSACTION_GUARDS_WATCHED);
	queue(f, "SET stock:1 v");
	assert_exec(f, GUARD_OP_WATCH_EXEC);
}

TEST(a_key_that_was_not_read_refuses_it)
{
	policy_use(f, GUARD);
	begin_watched(f, TRANSACTION_GUARDS_WATCHED);
	queue(f, "SET stock:2 v");
	assert_exec_refused(f, NOT_READ);
	begin_watched(f, TRANSACTION_GUARDS_UNWATCHED);
	queue(f, "SET stock:1 v");
	assert_exec_refused(f, NOT_READ);
}

TEST(a_guard_that_was_lost_refuses_it)
{
	policy_use(f, GUARD);
	begin_watched(f, TRANSACTION_GUARDS_LOST);
	queue(f, "SET stock:1 v");
	assert_exec_refused(f, LOST);
	begin_watched(f, TRANSACTION_GUARDS_WATCHED);
	queue(f, "SET stock:1 v");
	read_set_find(f->env.read_sets, &f->locks->read_set, 0, SLICE_LIT("stock:1"))->lost =
		true;
	assert_exec_refused(f, LOST);
}

/* --- when replies are not seen ------------------------------------------------------ */

TEST(when_replies_are_not_seen_transactions_are_not_followed)
{
	policy_use(f, GUARD);
	session_make_opaque(&f->session);
	assert_passed(f, "MULTI");
	assert_passed(f, "SET stock:1 v");
	assert_false(f->d.watches_refusal);
	assert_passed(f, "EXEC");
}
