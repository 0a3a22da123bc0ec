/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of session/transaction.c: a transaction begins when hasp sends MULTI; queued commands
 * take effect by the elements of EXEC's reply.
 */
#define TEST_FIXTURE struct session *s

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/fatal.h"
#include "tests/unit/session_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(session_set_up, session_tear_down);

/* --- what EXEC makes true ------------------------------------------------------------ */

TEST(queued_requests_settle_by_exec_s_elements)
{
	struct pending_request *exec;

	transaction_begin(&s->txn);
	sent_other(s);
	sent_select(s, 3);
	sent_other(s);
	sent_other(s);
	sent_select(s, 99);
	sent_auth(s, "alice");
	exec = sent_exec(s);
	assert_non_null(exec);
	assert_int_equal(s->nawaited, 1);
	assert_int_equal(s->db, 0);
	ANSWER(s, exec, "*6\r\n*1\r\n:1\r\n+OK\r\n-ERR x\r\n$-1\r\n-ERR range\r\n+OK\r\n");
	assert_int_equal(s->db, 3);
	assert_string_equal(session_user(s), "alice");
	assert_int_equal(s->nawaited, 0);
}

TEST(exec_logs_in_if_a_queued_request_does)
{
	struct pending_request *exec;

	transaction_begin(&s->txn);
	sent_select(s, 3);
	exec = sent_exec(s);
	assert_false(pending_logs_in(exec));
	ANSWER(s, exec, "*1\r\n+OK\r\n");
	transaction_begin(&s->txn);
	sent_auth(s, "alice");
	exec = sent_exec(s);
	assert_true(pending_logs_in(exec));
	ANSWER(s, exec, "*1\r\n+OK\r\n");
}

TEST(a_last_element_that_is_nil_does_not_abort)
{
	transaction_begin(&s->txn);
	sent_select(s, 3);
	sent_other(s);
	ANSWER(s, sent_exec(s), "*2\r\n+OK\r\n$-1\r\n");
	assert_int_equal(s->db, 3);
}

TEST(a_transaction_that_changes_nothing_is_not_awaited)
{
	transaction_begin(&s->txn);
	sent_other(s);
	assert_null(sent_exec(s));
	assert_false(session_in_multi(s));
	assert_int_equal(s->nawaited, 0);
}

TEST(an_aborted_transaction_changes_nothing)
{
	static const struct slice aborts[] = {
		SLICE_LIT("*-1\r\n"),
		SLICE_LIT("_\r\n"),
		SLICE_LIT("-EXECABORT Transaction discarded because of previous errors.\r\n"),
	};

	for (size_t i = 0; i < sizeof(aborts) / sizeof(*aborts); i++) {
		transaction_begin(&s->txn);
		sent_select(s, 3);
		answer(s, sent_exec(s), aborts[i]);
		assert_int_equal(s->db, 0);
	}
}

TEST(a_discarded_transaction_changes_nothing)
{
	transaction_begin(&s->txn);
	sent_select(s, 3);
	transaction_discard(&s->txn);
	assert_false(session_in_multi(s));
	assert_int_equal(s->nawaited, 0);
	/* The next transaction does not select a database. */
	transaction_begin(&s->txn);
	sent_other(s);
	assert_null(sent_exec(s));
	transaction_begin(&s->txn);
	sent_other(s);
	assert_null(sent_exec(s));
}

TEST(multi_inside_multi_begins_nothing)
{
	transaction_begin(&s->txn);
	sent_other(s);
	transaction_begin(&s->txn);
	sent_select(s, 3);
	ANSWER(s, sent_exec(s), "*2\r\n-ERR x\r\n+OK\r\n");
	assert_int_equal(s->db, 3);
}

TEST(a_transaction_whose_reply_was_too_long_leaves_doubt)
{
	struct reply_scan scan = scanned(SLICE_LIT("*2\r\n+OK\r\n+OK\r\n"));

	transaction_begin(&s->txn);
	sent_select(s, 3);
	sent_auth(s, "alice");
	session_reply(s, sent_exec(s), &scan.reply, SLICE_NONE, NULL, NULL);
	assert_int_equal(s->db, -1);
	assert_null(session_user(s));
	ANSWER(s, sent_select(s, 1), "+OK\r\n");
	assert_int_equal(s->db, 1);
}

/* Else a client could keep a worker busy for minutes with one transaction. */
TEST(a_long_transaction_settles_in_one_pass)
{
	struct buf reply = BUF_INIT;
	const size_t n = 50000;
	clock_t began;

	transaction_begin(&s->txn);
	buf_printf(&reply, "*%zu\r\n", n);
	for (size_t i = 0; i < n; i++) {
		sent_select(s, (int)(i % 16));
		buf_puts(&reply, "+OK\r\n");
	}
	began = clock();
	answer(s, sent_exec(s), buf_slice(&reply));
	/* One pass takes milliseconds; a pass for each command would take at least ten
	 * seconds. */
	assert_true(clock() - began < 2 * CLOCKS_PER_SEC);
	assert_int_equal(s->db, (n - 1) % 16);
	buf_release(&reply);
}

/* --- watched keys -------------------------------------------------------------------- */

TEST(a_key_is_watched_until_the_transaction)
{
	transaction_watch(&s->txn, s->db, SLICE_LIT("a"));
	transaction_watch(&s->txn, s->db, SLICE_LIT(""));
	transaction_watch(&s->txn, s->db, SLICE_LIT("b\0c"));
	assert_true(transaction_watches(&s->txn, s->db, SLICE_LIT("a")));
	assert_true(transaction_watches(&s->txn, s->db, SLICE_LIT("")));
	assert_true(transaction_watches(&s->txn, s->db, SLICE_LIT("b\0c")));
	assert_false(transaction_watches(&s->txn, s->db, SLICE_LIT("b")));
	transaction_begin(&s->txn);
	assert_true(transaction_watches(&s->txn, s->db, SLICE_LIT("a")));
	assert_null(sent_exec(s));
	assert_false(transaction_watches(&s->txn, s->db, SLICE_LIT("a")));
}

TEST(discard_and_unwatch_end_watching)
{
	transaction_watch(&s->txn, s->db, SLICE_LIT("a"));
	transaction_unwatch(&s->txn);
	assert_false(transaction_watches(&s->txn, s->db, SLICE_LIT("a")));
	transaction_watch(&s->txn, s->db, SLICE_LIT("a"));
	transaction_begin(&s->txn);
	transaction_discard(&s->txn);
	assert_false(transaction_watches(&s->txn, s->db, SLICE_LIT("a")));
}

/* Redis refuses EXEC, and keeps the watches. */
TEST(exec_outside_a_transaction_changes_nothing)
{
	transaction_watch(&s->txn, s->db, SLICE_LIT("a"));
	assert_null(sent_exec(s));
	assert_true(transaction_watches(&s->txn, s->db, SLICE_LIT("a")));
}

TEST(a_key_is_watched_in_its_database)
{
	transaction_watch(&s->txn, s->db, SLICE_LIT("a"));
	ANSWER(s, sent_select(s, 1), "+OK\r\n");
	assert_false(transaction_watches(&s->txn, s->db, SLICE_LIT("a")));
	transaction_watch(&s->txn, s->db, SLICE_LIT("b"));
	assert_true(transaction_watches(&s->txn, s->db, SLICE_LIT("b")));
	ANSWER(s, sent_select(s, 0), "+OK\r\n");
	assert_true(transaction_watches(&s->txn, s->db, SLICE_LIT("a")));
	assert_false(transaction_watches(&s->txn, s->db, SLICE_LIT("b")));
}

TEST(only_so_many_watched_keys_are_remembered)
{
	char key[1000] = { 0 };

	for (int i = 0; i < 1000; i++) {
		memcpy(key, &i, sizeof(i));
		transaction_watch(&s->txn, s->db, slice_of(key, sizeof(key)));
	}
	assert_true(transaction_nbytes(&s->txn) <= 256 * 1024);
	memset(key, 0, sizeof(key));
	assert_true(transaction_watches(&s->txn, s->db, slice_of(key, sizeof(key))));
}

/* --- MULTI --------------------------------------------------------------------------- */

static struct pending_request *sent_multi(struct session *s)
{
	struct pending_request *multi = pending_new(PENDING_MULTI);

	session_await(s, multi);
	transaction_begin(&s->txn);
	return multi;
}

TEST(multi_counts_from_when_it_is_sent)
{
	struct pending_request *multi = sent_multi(s);

	assert_true(session_in_multi(s));
	assert_int_equal(s->nawaited, 1);
	ANSWER(s, multi, "+OK\r\n");
	assert_true(session_in_multi(s));
	assert_int_equal(s->nawaited, 0);
}

/* Redis ran the commands after the refused MULTI at once, and hasp has not read their
 * replies. */
TEST(a_refused_multi_leaves_doubt_about_what_came_behind_it)
{
	struct pending_request *multi;

	transaction_watch(&s->txn, 0, SLICE_LIT("a"));
	multi = sent_multi(s);
	sent_select(s, 3);
	ANSWER(s, multi, "-NOPERM no permissions to run the 'multi' command\r\n");
	assert_false(session_in_multi(s));
	assert_int_equal(s->db, -1);
	assert_int_not_equal(s->certainty, SESSION_CERTAIN);
	assert_null(s->txn.exec);
	/* Redis keeps the watches. */
	assert_true(transaction_watches(&s->txn, 0, SLICE_LIT("a")));
}

/* The client sends the next transaction before the first MULTI is answered. */
TEST(a_refused_multi_leaves_the_next_transaction_open)
{
	struct pending_request *refused = sent_multi(s), *multi;

	assert_null(sent_exec(s));
	multi = sent_multi(s);
	ANSWER(s, refused, "-NOPERM no permissions to run the 'multi' command\r\n");
	assert_true(session_in_multi(s));
	ANSWER(s, multi, "-NOPERM no permissions to run the 'multi' command\r\n");
	assert_false(session_in_multi(s));
}

TEST(exec_pending_is_awaited_though_its_reply_changes_nothing)
{
	struct pending_request *exec;

	transaction_begin(&s->txn);
	sent_other(s);
	exec = session_exec_pending(s);
	assert_int_equal(exec->kind, PENDING_EXEC);
	assert_true(list_empty(&exec->queued));
	assert_false(session_in_multi(s));
	pending_free(exec);
}

/* --- its state ----------------------------------------------------------------------- */

TEST(the_state_changes_only_as_the_diagram_says)
{
	/* A row for each state; columns: NONE, QUEUING, TOO_LONG, ABORTED. */
	static const char *const allowed[TRANSACTION_STATES] = {
		[TRANSACTION_NONE] = "-Q--",
		[TRANSACTION_QUEUING] = "N-TA",
		[TRANSACTION_TOO_LONG] = "N--A",
		[TRANSACTION_ABORTED] = "NQT-",
	};

	assert_int_equal(TRANSACTION_STATES, 4);
	for (int from = 0; from < TRANSACTION_STATES; from++)
		for (int to = 0; to < TRANSACTION_STATES; to++)
			assert_int_equal(transaction_may_become(from, to),
			                 allowed[from][to] != '-');
}

static void assert_state(const struct session *s, enum transaction_state expected)
{
	assert_int_equal(s->txn.state, expected);
}

/* Brings a new transaction into the state `to`. */
static void bring(struct session *s, enum transaction_state to)
{
	if (to == TRANSACTION_NONE)
		return;
	transaction_begin(&s->txn);
	if (to == TRANSACTION_TOO_LONG)
		transaction_keep(&s->txn, 1, SLICE_LIT("too long"), 3);
	else if (to == TRANSACTION_ABORTED)
		transaction_abort(&s->txn);
	assert_state(s, to);
}

TEST(exec_discard_and_a_refused_multi_end_it_from_every_state)
{
	for (int from = 0; from < TRANSACTION_STATES; from++) {
		bring(s, from);
		assert_null(transaction_exec(&s->txn));
		assert_state(s, TRANSACTION_NONE);
		bring(s, from);
		transaction_discard(&s->txn);
		assert_state(s, TRANSACTION_NONE);
		bring(s, from);
		assert_null(transaction_reject(&s->txn));
		assert_state(s, TRANSACTION_NONE);
		assert_int_equal(s->txn.nkept, 0);
	}
}

TEST(multi_inside_a_transaction_leaves_its_state)
{
	for (int from = TRANSACTION_QUEUING; from < TRANSACTION_STATES; from++) {
		bring(s, from);
		sent_other(s);
		transaction_begin(&s->txn);
		assert_state(s, from);
		assert_int_equal(s->txn.nqueued, 1);
		transaction_discard(&s->txn);
	}
}

TEST(a_refused_command_aborts_it)
{
	bring(s, TRANSACTION_TOO_LONG);
	transaction_abort(&s->txn);
	assert_state(s, TRANSACTION_ABORTED);
	transaction_abort(&s->txn);
	assert_state(s, TRANSACTION_ABORTED);
}

TEST(a_refusal_outside_of_a_transaction_changes_nothing)
{
	transaction_abort(&s->txn);
	assert_state(s, TRANSACTION_NONE);
	transaction_begun(&s->txn);
	assert_state(s, TRANSACTION_NONE);
}

/* The refusal before MULTI's answer concerns a command before MULTI. */
TEST(an_earlier_transaction_s_refusal_does_not_count)
{
	struct pending_request *multi = sent_multi(s);

	transaction_abort(&s->txn);
	ANSWER(s, multi, "+OK\r\n");
	assert_state(s, TRANSACTION_QUEUING);
	transaction_keep(&s->txn, 1, SLICE_LIT("too long"), 3);
	transaction_abort(&s->txn);
	transaction_begun(&s->txn);
	assert_state(s, TRANSACTION_TOO_LONG);
}

/* --- the commands that it keeps ------------------------------------------------------ */

TEST(commands_are_kept_in_order_up_to_so_many_bytes)
{
	bring(s, TRANSACTION_QUEUING);
	transaction_keep(&s->txn, 1, SLICE_LIT("one "), 8);
	transaction_keep(&s->txn, 1, SLICE_LIT("two "), 8);
	assert_state(s, TRANSACTION_QUEUING);
	assert_true(slice_eq(buf_slice(&s->txn.kept), SLICE_LIT("one two ")));
	assert_int_equal(s->txn.nkept, 2);
	transaction_keep(&s->txn, 1, SLICE_LIT("3"), 8);
	assert_state(s, TRANSACTION_TOO_LONG);
	assert_int_equal(buf_len(&s->txn.kept), 0);
}

TEST(behind_one_that_was_too_long_none_is_kept)
{
	bring(s, TRANSACTION_TOO_LONG);
	transaction_keep(&s->txn, 1, SLICE_LIT("1"), 8);
	assert_int_equal(buf_len(&s->txn.kept), 0);
	assert_int_equal(s->txn.nkept, 2);
}

TEST(an_aborted_transaction_stays_aborted_when_it_grows_too_long)
{
	bring(s, TRANSACTION_ABORTED);
	transaction_keep(&s->txn, 1, SLICE_LIT("too long"), 3);
	assert_state(s, TRANSACTION_ABORTED);
}

TEST(what_was_kept_and_watched_by_guards_ends_with_it)
{
	bring(s, TRANSACTION_QUEUING);
	s->txn.guards = TRANSACTION_GUARDS_LOST;
	transaction_keep(&s->txn, 1, SLICE_LIT("one"), 8);
	transaction_discard(&s->txn);
	assert_int_equal(buf_len(&s->txn.kept), 0);
	assert_int_equal(s->txn.nkept, 0);
	assert_int_equal(s->txn.guards, TRANSACTION_GUARDS_UNWATCHED);
}

/* --- watched keys, once more --------------------------------------------------------- */

TEST(behind_a_queued_select_no_key_is_known_to_be_watched)
{
	transaction_watch(&s->txn, 0, SLICE_LIT("a"));
	transaction_begin(&s->txn);
	sent_auth(s, "alice");
	assert_true(transaction_watches(&s->txn, 0, SLICE_LIT("a")));
	sent_select(s, 1);
	assert_false(transaction_watches(&s->txn, 0, SLICE_LIT("a")));
	assert_false(transaction_watches(&s->txn, 1, SLICE_LIT("a")));
}

TEST(in_a_database_that_is_not_known_no_key_is_watched)
{
	transaction_watch(&s->txn, -1, SLICE_LIT("a"));
	assert_false(transaction_watches(&s->txn, -1, SLICE_LIT("a")));
}

TEST(exec_and_discard_end_the_application_s_watch)
{
	s->txn.watching = true;
	assert_null(sent_exec(s));
	assert_true(s->txn.watching);
	transaction_begin(&s->txn);
	assert_null(sent_exec(s));
	assert_false(s->txn.watching);
	s->txn.watching = true;
	transaction_begin(&s->txn);
	transaction_discard(&s->txn);
	assert_false(s->txn.watching);
}
