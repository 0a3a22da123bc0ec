/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of session/: hasp's knowledge of a connection's state follows Redis' replies, and ends
 * when the state cannot be known.
 */
#define TEST_FIXTURE struct session *s

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "tests/unit/session_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(session_set_up, session_tear_down);

/* --- what replies make true ---------------------------------------------------------- */

TEST(a_new_connection_is_the_default_user_s_in_database_0)
{
	assert_int_equal(s->db, 0);
	assert_int_equal(s->proto, 2);
	assert_string_equal(session_user(s), "default");
	assert_null(session_text(s, TEXT_NAME));
	assert_false(session_is_subscribed(s));
}

TEST(select_counts_from_its_reply)
{
	struct pending_request *first = sent_select(s, 3), *second = sent_select(s, 4);

	assert_int_equal(s->db, 0);
	assert_int_equal(s->nawaited, 2);
	ANSWER(s, first, "+OK\r\n");
	assert_int_equal(s->db, 3);
	ANSWER(s, second, "-ERR DB index is out of range\r\n");
	assert_int_equal(s->db, 3);
	assert_int_equal(s->nawaited, 0);
}

/* Else another link would log in as the default user. */
TEST(a_user_without_a_password_logs_in_with_an_empty_one)
{
	struct pending_request *r = pending_new(PENDING_AUTH);

	assert_null(session_text(s, TEXT_PASSWORD));
	r->login->texts[TEXT_USER] = xstrdup("alice");
	r->login->texts[TEXT_PASSWORD] = xstrdup("");
	ANSWER(s, sent(s, r), "+OK\r\n");
	assert_string_equal(session_text(s, TEXT_USER), "alice");
	assert_string_equal(session_text(s, TEXT_PASSWORD), "");
}

TEST(auth_counts_from_its_reply)
{
	ANSWER(s, sent_auth(s, "alice"), "+OK\r\n");
	assert_string_equal(session_user(s), "alice");
	ANSWER(s, sent_auth(s, "bob"), "-WRONGPASS invalid username-password pair\r\n");
	assert_string_equal(session_user(s), "alice");
	ANSWER(s, sent_auth(s, ""), "+OK\r\n");
	assert_string_equal(session_user(s), "default");
}

TEST(hello_changes_what_it_names)
{
	ANSWER(s, sent_hello(s, 3, "alice", "worker"), "%1\r\n+proto\r\n:3\r\n");
	assert_int_equal(s->proto, 3);
	assert_string_equal(session_user(s), "alice");
	assert_string_equal(session_text(s, TEXT_NAME), "worker");
	ANSWER(s, sent_hello(s, 0, NULL, NULL), "%1\r\n+proto\r\n:3\r\n");
	assert_int_equal(s->proto, 3);
	assert_string_equal(session_user(s), "alice");
	assert_string_equal(session_text(s, TEXT_NAME), "worker");
	ANSWER(s, sent_hello(s, 2, NULL, NULL), "*2\r\n+proto\r\n:2\r\n");
	assert_int_equal(s->proto, 2);
}

TEST(hello_refused_changes_no_protocol)
{
	ANSWER(s, sent_hello(s, 3, NULL, NULL), "-NOAUTH HELLO must be called ...\r\n");
	assert_int_equal(s->proto, 2);
	assert_string_equal(session_user(s), "default");
}

/* Redis 7.0 logs in before it finds that a later option is wrong. */
TEST(hello_refused_may_have_logged_in)
{
	ANSWER(s, sent_auth(s, "alice"), "+OK\r\n");
	ANSWER(s, sent_hello(s, 3, "bob", NULL), "-ERR Syntax error in HELLO option 'x'\r\n");
	assert_null(session_user(s));
	ANSWER(s, sent_auth(s, "alice"), "+OK\r\n");
	assert_string_equal(session_user(s), "alice");
}

TEST(what_redis_does_without_a_login_counts_until_the_login)
{
	session_set_admission(s, LOGIN_REFUSED);
	assert_int_equal(s->login, LOGIN_REFUSED);
	session_set_admission(s, LOGIN_ADMITTED);
	assert_int_equal(s->login, LOGIN_ADMITTED);
	ANSWER(s, sent_auth(s, "alice"), "-WRONGPASS invalid username-password pair\r\n");
	assert_int_equal(s->login, LOGIN_ADMITTED);
	ANSWER(s, sent_auth(s, "alice"), "+OK\r\n");
	assert_int_equal(s->login, LOGIN_DONE);
	session_set_admission(s, LOGIN_REFUSED);
	assert_int_equal(s->login, LOGIN_DONE);
	ANSWER(s, sent(s, pending_new(PENDING_RESET)), "+RESET\r\n");
	assert_int_equal(s->login, LOGIN_UNKNOWN);
}

TEST(a_name_counts_from_its_reply_and_can_be_taken_off)
{
	struct pending_request *r = sent_name(s, "worker");

	assert_null(session_text(s, TEXT_NAME));
	ANSWER(s, r, "+OK\r\n");
	assert_string_equal(session_text(s, TEXT_NAME), "worker");
	ANSWER(s, sent_name(s, "a b"), "-ERR Client names cannot contain spaces\r\n");
	assert_string_equal(session_text(s, TEXT_NAME), "worker");
	ANSWER(s, sent_name(s, ""), "+OK\r\n");
	assert_null(session_text(s, TEXT_NAME));
}

TEST(the_clients_library_counts_from_its_reply_and_outlives_reset)
{
	struct pending_request *r = pending_new(PENDING_SETINFO);

	r->login->texts[TEXT_LIB_NAME] = xstrdup("app");
	(void)sent(s, r);
	assert_null(session_text(s, TEXT_LIB_NAME));
	ANSWER(s, r, "+OK\r\n");
	assert_string_equal(session_text(s, TEXT_LIB_NAME), "app");
	r = pending_new(PENDING_SETINFO);
	r->login->texts[TEXT_LIB_VER] = xstrdup("1 2");
	ANSWER(s, sent(s, r), "-ERR lib-ver cannot contain spaces\r\n");
	assert_null(session_text(s, TEXT_LIB_VER));
	ANSWER(s, sent_reset(s), "+RESET\r\n");
	assert_string_equal(session_text(s, TEXT_LIB_NAME), "app");
	r = pending_new(PENDING_SETINFO);
	r->login->texts[TEXT_LIB_NAME] = xstrdup("");
	ANSWER(s, sent(s, r), "+OK\r\n");
	assert_null(session_text(s, TEXT_LIB_NAME));
}

TEST(reset_makes_the_connection_new)
{
	ANSWER(s, sent_hello(s, 3, "alice", "worker"), "%0\r\n");
	ANSWER(s, sent_select(s, 5), "+OK\r\n");
	transaction_watch(&s->txn, s->db, SLICE_LIT("key"));
	transaction_begin(&s->txn);
	sent_select(s, 6);
	s->subscriptions = (struct subscriptions){ .patterns = 2, .any = true };
	ANSWER(s, sent_reset(s), "+RESET\r\n");
	assert_int_equal(s->db, 0);
	assert_int_equal(s->proto, 2);
	assert_string_equal(session_user(s), "default");
	assert_null(session_text(s, TEXT_NAME));
	assert_false(session_in_multi(s));
	assert_false(transaction_watches(&s->txn, s->db, SLICE_LIT("key")));
	assert_false(session_is_subscribed(s));
	assert_int_equal(s->nawaited, 0);
}

/* --- opaque -------------------------------------------------------------------------- */

TEST(what_is_in_flight_is_in_doubt_once_replies_are_not_seen)
{
	ANSWER(s, sent_name(s, "worker"), "+OK\r\n");
	sent_select(s, 3);
	sent_auth(s, "alice");
	sent_name(s, "other");
	session_make_opaque(s);
	assert_true(s->opaque);
	assert_int_equal(s->nawaited, 0);
	assert_int_equal(s->db, -1);
	assert_null(session_user(s));
	assert_null(session_text(s, TEXT_NAME));
}

TEST(a_protocol_counts_as_accepted_once_replies_are_not_seen)
{
	transaction_begin(&s->txn);
	sent_hello(s, 3, NULL, NULL);
	session_make_opaque(s);
	assert_int_equal(s->proto, 3);
	session_assume(s, sent_hello(s, 2, NULL, NULL));
	assert_int_equal(s->proto, 2);
	session_assume(s, sent_hello(s, 3, NULL, NULL));
	session_assume(s, sent_hello(s, 0, "alice", NULL));
	assert_int_equal(s->proto, 3);
	session_assume(s, sent_reset(s));
	assert_int_equal(s->proto, 2);
}

TEST(what_was_known_stays_known_when_nothing_is_in_flight)
{
	ANSWER(s, sent_select(s, 3), "+OK\r\n");
	ANSWER(s, sent_auth(s, "alice"), "+OK\r\n");
	session_make_opaque(s);
	assert_int_equal(s->db, 3);
	assert_string_equal(session_user(s), "alice");
}

TEST(a_transaction_in_flight_is_in_doubt_too)
{
	transaction_begin(&s->txn);
	sent_select(s, 3);
	sent_auth(s, "alice");
	assert_non_null(sent_exec(s));
	session_make_opaque(s);
	assert_int_equal(s->nawaited, 0);
	assert_int_equal(s->db, -1);
	assert_null(session_user(s));
}

/* Redis refuses lock commands to a subscribed client only in RESP2. */
TEST(after_an_exec_whose_reply_was_too_long_the_protocol_of_its_hello_is_unknown)
{
	struct reply_scan scan = scanned(SLICE_LIT("*1\r\n+OK\r\n"));

	transaction_begin(&s->txn);
	sent_hello(s, 3, NULL, NULL);
	s->subscriptions = (struct subscriptions){ .channels = 1, .any = true };
	assert_true(session_is_muted(s));
	session_reply(s, sent_exec(s), &scan.reply, SLICE_NONE, NULL, NULL);
	assert_int_equal(s->proto, 0);
	assert_false(session_is_muted(s));
	transaction_begin(&s->txn);
	sent_hello(s, 2, NULL, NULL);
	ANSWER(s, sent_exec(s), "*1\r\n*0\r\n");
	assert_true(session_is_muted(s));
}

/* hasp will not see the reply to this EXEC, so it must not wait for it. */
TEST(a_transaction_that_goes_on_unseen_is_not_awaited)
{
	transaction_begin(&s->txn);
	sent_select(s, 3);
	session_make_opaque(s);
	assert_int_equal(s->db, -1);
	assert_null(sent_exec(s));
	assert_int_equal(s->nawaited, 0);
	assert_false(session_in_multi(s));
}

TEST(an_unseen_request_leaves_doubt)
{
	struct pending_request *r;

	session_make_opaque(s);
	r = pending_new(PENDING_SELECT);
	r->db = 3;
	session_assume(s, r);
	assert_int_equal(s->db, -1);
	r = pending_new(PENDING_AUTH);
	r->login->texts[TEXT_USER] = xstrdup("alice");
	session_assume(s, r);
	assert_null(session_user(s));
	assert_int_equal(s->nawaited, 0);
}

/* CLIENT SETNAME fails for one reason only, which hasp can check beforehand. */
TEST(a_name_set_unseen_is_known_if_redis_takes_it)
{
	struct pending_request *r;

	session_make_opaque(s);
	r = pending_new(PENDING_NAME);
	r->login->texts[TEXT_NAME] = xstrdup("worker");
	session_assume(s, r);
	assert_string_equal(session_text(s, TEXT_NAME), "worker");
	r = pending_new(PENDING_NAME);
	r->login->texts[TEXT_NAME] = xstrdup("a b");
	session_assume(s, r);
	assert_string_equal(session_text(s, TEXT_NAME), "worker");
	r = pending_new(PENDING_RESET);
	session_assume(s, r);
	assert_null(session_text(s, TEXT_NAME));
	assert_int_equal(s->db, -1);
}

/* --- requests in flight -------------------------------------------------------------- */

TEST(a_notice_is_awaited_without_keeping_others_waiting)
{
	struct pending_request *notice = sent(s, pending_new(PENDING_NOTICE));

	assert_int_equal(s->nawaited, 0);
	assert_false(list_empty(&s->awaited));
	ANSWER(s, notice, "$-1\r\n");
	assert_int_equal(s->nawaited, 0);
	assert_true(list_empty(&s->awaited));
}

TEST(a_request_that_is_withdrawn_is_not_awaited_and_may_be_again)
{
	struct pending_request *r = sent_select(s, 3);

	session_withdraw(s, r);
	assert_int_equal(s->nawaited, 0);
	assert_true(list_empty(&s->awaited));
	session_withdraw(s, r);
	assert_int_equal(s->nawaited, 0);
	session_await(s, r);
	assert_int_equal(s->nawaited, 1);
	ANSWER(s, r, "+OK\r\n");
	assert_int_equal(s->db, 3);
}

TEST(a_request_that_is_completed_without_a_reply_changes_nothing)
{
	session_complete(s, sent_select(s, 3));
	assert_int_equal(s->nawaited, 0);
	assert_int_equal(s->db, 0);
}

TEST(a_request_that_blocks_is_known_until_it_is_answered)
{
	struct pending_request *r;

	sent_select(s, 1);
	assert_false(session_may_be_blocked(s));
	r = sent(s, pending_new(PENDING_NOTICE));
	r->blocks = true;
	sent_select(s, 2);
	assert_true(session_may_be_blocked(s));
	ANSWER(s, r, "*-1\r\n");
	assert_false(session_may_be_blocked(s));
}

/* --- who hears of answers ------------------------------------------------------------ */

/* Writes "KIND:DB:TYPE ". */
static void note_done(void *arg, struct pending_request *r, int db,
                      const struct resp_reply *reply, struct slice frame)
{
	(void)frame;
	buf_printf(arg, "%d:%d:%c ", r->kind, db, reply->type);
}

static void answer_noted(struct session *s, struct pending_request *r, struct slice frame,
                         const char *expected)
{
	struct reply_scan scan = scanned(frame);
	struct buf done = BUF_INIT;

	session_reply(s, r, &scan.reply, frame, note_done, &done);
	buf_append(&done, slice_of("", 1));
	assert_string_equal(buf_head(&done), expected);
	buf_release(&done);
}

TEST(a_reply_is_told_before_it_comes_true)
{
	assert_int_equal(PENDING_SELECT, 0);
	answer_noted(s, sent_select(s, 3), SLICE_LIT("+OK\r\n"), "0:0:+ ");
	answer_noted(s, sent_select(s, 4), SLICE_LIT("-ERR\r\n"), "0:3:- ");
}

TEST(each_reply_in_exec_s_is_told_with_its_database)
{
	transaction_begin(&s->txn);
	sent(s, pending_new(PENDING_RESET));
	sent_other(s);
	sent_select(s, 5);
	sent_select(s, 6);
	assert_int_equal(PENDING_RESET, 4);
	answer_noted(s, sent_exec(s), SLICE_LIT("*4\r\n-ERR\r\n:1\r\n+OK\r\n+OK\r\n"),
	             "4:0:- 0:0:+ 0:5:+ ");
}

TEST(what_exec_did_not_carry_out_is_not_told)
{
	transaction_begin(&s->txn);
	sent_select(s, 5);
	answer_noted(s, sent_exec(s), SLICE_LIT("*-1\r\n"), "");
	transaction_begin(&s->txn);
	sent_select(s, 5);
	answer_noted(s, sent_exec(s), SLICE_LIT("-EXECABORT\r\n"), "");
}

/* Writes "KIND:DB ". */
static void note_awaited(void *arg, struct pending_request *r, int db)
{
	buf_printf(arg, "%d:%d ", r->kind, db);
}

TEST(awaited_requests_are_told_in_order_with_the_database_that_they_will_see)
{
	struct buf told = BUF_INIT;

	sent_auth(s, "alice");
	sent_select(s, 3);
	transaction_begin(&s->txn);
	sent_select(s, 4);
	assert_non_null(sent_exec(s));
	sent_auth(s, "bob");
	/* A command that is only queued is not in flight. */
	transaction_begin(&s->txn);
	sent_select(s, 9);
	assert_int_equal(PENDING_AUTH, 1);
	assert_int_equal(PENDING_EXEC, 7);
	session_each_awaited(s, note_awaited, &told);
	assert_true(slice_eq(buf_slice(&told), SLICE_LIT("1:0 0:3 7:3 0:4 1:4 ")));
	buf_release(&told);
}

/* --- what links and policy must know ------------------------------------------------ */

TEST(what_hello_asks_for_comes_true_together)
{
	struct pending_request *r = pending_new(PENDING_HELLO);

	r->login->proto = 3;
	r->login->texts[TEXT_USER] = xstrdup("alice");
	r->login->texts[TEXT_PASSWORD] = xstrdup("secret");
	r->login->texts[TEXT_NAME] = xstrdup("worker");
	sent(s, r);
	assert_int_equal(s->login, LOGIN_UNKNOWN);
	ANSWER(s, r, "%0\r\n");
	ANSWER(s, sent_select(s, 5), "+OK\r\n");
	assert_int_equal(s->login, LOGIN_DONE);
	assert_int_equal(s->db, 5);
	assert_int_equal(s->proto, 3);
	assert_string_equal(session_text(s, TEXT_USER), "alice");
	assert_string_equal(session_text(s, TEXT_PASSWORD), "secret");
	assert_string_equal(session_text(s, TEXT_NAME), "worker");
}

TEST(only_a_resp2_session_that_is_followed_is_muted_by_a_subscription)
{
	assert_false(session_is_muted(s));
	s->subscriptions = (struct subscriptions){ .shards = 1, .any = true };
	assert_true(session_is_muted(s));
	ANSWER(s, sent_hello(s, 3, NULL, NULL), "%0\r\n");
	assert_false(session_is_muted(s));
	ANSWER(s, sent_hello(s, 2, NULL, NULL), "*0\r\n");
	assert_true(session_is_muted(s));
	session_make_opaque(s);
	assert_false(session_is_muted(s));
}

/* --- requests that say nothing about the connection ---------------------------------- */

TEST(what_is_about_locks_leaves_no_doubt_when_it_is_not_answered)
{
	static const enum pending_kind kinds[] = {
		PENDING_PROBE, PENDING_LOCK,  PENDING_INFO,
		PENDING_LIST,  PENDING_GUARD, PENDING_NOTICE
	};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		sent(s, pending_new(kinds[i]));
	session_make_opaque(s);
	assert_int_equal(s->certainty, SESSION_CERTAIN);
	assert_int_equal(s->db, 0);
}

TEST(what_is_about_the_connection_leaves_doubt)
{
	static const enum pending_kind kinds[] = { PENDING_MULTI, PENDING_SUBSCRIBE };

	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
		s->certainty = SESSION_CERTAIN;
		sent(s, pending_new(kinds[i]));
		session_make_opaque(s);
		assert_int_not_equal(s->certainty, SESSION_CERTAIN);
	}
}
