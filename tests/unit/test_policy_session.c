/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of decisions about commands that change a connection's state, and commands that block:
 * the link that a command needs, and whether hasp may pass it before it is whole.
 */
#include <limits.h>
#include <string.h>

#include "commands/learn.h"
#include "tests/unit/inifile.h"
#include "tests/unit/policy_fixture.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

FIXTURE(policy_set_up, policy_tear_down);

#define RULE "[lock orders]\npattern = lock:*\n"
#define GUARD "[guard stock]\npattern = stock:*\nacquire_on = GET\n"

/* Asserts that the command passes, and that hasp awaits its reply as one of this kind. */
static struct pending_request *assert_awaited(struct policy_fixture *f, const char *words,
                                              enum pending_kind kind)
{
	struct decision *d = decide(f, words);

	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_false(d->turns_opaque);
	assert_non_null(d->pending);
	assert_int_equal(d->pending->kind, kind);
	return d->pending;
}

/* --- logins -------------------------------------------------------------------------- */

TEST(select_is_awaited_with_its_database)
{
	static const struct {
		const char *words;
		int db; /* -1: not known */
	} rows[] = {
		{ "SELECT 0", 0 },
		{ "SELECT 12", 12 },
		{ "SELECT 2147483647", INT_MAX },
		{ "SELECT 2147483648", -1 },
		{ "SELECT 9999999999", -1 },
		{ "SELECT -1", -1 },
		{ "SELECT zzzzzzzzz", -1 },
		{ "SELECT 1x", -1 },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_int_equal(assert_awaited(*state, rows[i].words, PENDING_SELECT)->db,
		                 rows[i].db);
}

TEST(auth_is_awaited_with_its_user_and_password)
{
	struct pending_request *r = assert_awaited(*state, "AUTH alice secret", PENDING_AUTH);

	assert_string_equal(r->login->texts[TEXT_USER], "alice");
	assert_string_equal(r->login->texts[TEXT_PASSWORD], "secret");
	r = assert_awaited(*state, "AUTH secret", PENDING_AUTH);
	assert_string_equal(r->login->texts[TEXT_USER], "");
	assert_string_equal(r->login->texts[TEXT_PASSWORD], "secret");
}

TEST(hello_is_awaited_with_what_it_names)
{
	struct pending_request *r = assert_awaited(*state, "HELLO", PENDING_HELLO);

	assert_int_equal(r->login->proto, 0);
	assert_null(r->login->texts[TEXT_USER]);
	assert_null(r->login->texts[TEXT_NAME]);
	r = assert_awaited(*state, "hello 3 AUTH alice secret SETNAME worker", PENDING_HELLO);
	assert_int_equal(r->login->proto, 3);
	assert_string_equal(r->login->texts[TEXT_USER], "alice");
	assert_string_equal(r->login->texts[TEXT_PASSWORD], "secret");
	assert_string_equal(r->login->texts[TEXT_NAME], "worker");
}

TEST(of_several_options_of_hello_the_last_counts)
{
	struct pending_request *r = assert_awaited(
		*state, "HELLO 2 AUTH alice a SETNAME one AUTH bob b SETNAME two",
		PENDING_HELLO);

	assert_int_equal(r->login->proto, 2);
	assert_string_equal(r->login->texts[TEXT_USER], "bob");
	assert_string_equal(r->login->texts[TEXT_PASSWORD], "b");
	assert_string_equal(r->login->texts[TEXT_NAME], "two");
}

TEST(client_setname_is_awaited)
{
	assert_string_equal(assert_awaited(*state, "CLIENT SETNAME worker", PENDING_NAME)
	                            ->login->texts[TEXT_NAME],
	                    "worker");
	assert_passed(*state, "CLIENT SETNAME");
	assert_passed(*state, "CLIENT GETNAME");
	assert_passed(*state, "CLIENT");
}

TEST(client_setinfo_is_awaited_with_what_it_names)
{
	struct pending_request *r = assert_awaited(*state, "client setinfo LIB-NAME app",
	                                           PENDING_SETINFO);

	assert_string_equal(r->login->texts[TEXT_LIB_NAME], "app");
	assert_null(r->login->texts[TEXT_LIB_VER]);
	r = assert_awaited(*state, "CLIENT SETINFO lib-ver 1.2", PENDING_SETINFO);
	assert_null(r->login->texts[TEXT_LIB_NAME]);
	assert_string_equal(r->login->texts[TEXT_LIB_VER], "1.2");
	assert_passed(*state, "CLIENT SETINFO lib-other x");
	assert_passed(*state, "CLIENT SETINFO lib-name");
}

TEST(client_cannot_ask_for_the_address_of_the_primary)
{
	assert_int_equal(decide(*state, "client capa Redirect other")->verdict, DISPATCH_CALL);
	assert_rewritten(*state, "client capa none other\n");
	assert_int_equal(decide(*state, "CLIENT CAPA")->verdict, DISPATCH_CALL);
	assert_rewritten(*state, "CLIENT CAPA\n");
}

/* The owner does not get that name, so the connection counts as the owner. */
TEST(a_name_of_more_than_512_bytes_is_none)
{
	char words[15 + 514] = "CLIENT SETNAME ";

	memset(words + 15, 'n', 513);
	words[15 + 513] = '\0';
	assert_string_equal(
		assert_awaited(*state, words, PENDING_NAME)->login->texts[TEXT_NAME], "");
	words[15 + 512] = '\0';
	assert_int_equal(
		strlen(assert_awaited(*state, words, PENDING_NAME)->login->texts[TEXT_NAME]),
		512);
}

TEST(in_multi_what_changes_the_session_waits_for_exec)
{
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "PING");
	assert_passed(f, "SELECT 3");
	assert_int_equal(f->session.txn.nqueued, 2);
	run(f, "EXEC", "*2\r\n+PONG\r\n+OK\r\n");
	assert_int_equal(f->session.db, 3);
}

TEST(when_replies_are_not_seen_the_session_assumes)
{
	session_make_opaque(&f->session);
	assert_passed(f, "CLIENT SETNAME worker");
	assert_string_equal(session_text(&f->session, TEXT_NAME), "worker");
	assert_passed(f, "SELECT 3");
	assert_int_equal(f->session.db, -1);
}

/* --- transactions -------------------------------------------------------------------- */

TEST(multi_counts_from_now_on)
{
	assert_awaited(f, "MULTI", PENDING_MULTI);
	assert_true(session_in_multi(&f->session));
	/* Redis refuses a MULTI inside MULTI, which changes nothing. */
	assert_passed(f, "MULTI");
	assert_true(session_in_multi(&f->session));
	assert_int_equal(f->session.txn.nqueued, 0);
}

TEST(what_redis_refuses_for_its_arguments_changes_nothing)
{
	assert_passed(f, "MULTI x");
	assert_false(session_in_multi(&f->session));
	(void)sent_command(f, "MULTI");
	assert_passed(f, "DISCARD x");
	assert_passed(f, "RESET x");
	assert_true(session_in_multi(&f->session));
}

TEST(exec_with_an_argument_ends_the_transaction)
{
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "SELECT 1");
	f->session.txn.watching = true;
	assert_ends_transaction(f, "EXEC x");
	assert_false(session_in_transaction(&f->session));
	assert_ends_transaction(f, "EXEC");
}

TEST(exec_is_awaited_only_if_its_reply_changes_something)
{
	assert_ends_transaction(f, "EXEC");
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "PING");
	assert_ends_transaction(f, "EXEC");
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "SELECT 1");
	assert_awaited(f, "EXEC", PENDING_EXEC);
}

TEST(watch_is_known_until_unwatch_exec_or_discard)
{
	static const char *const ends[] = { "UNWATCH", "EXEC", "DISCARD" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		assert_passed(f, "WATCH a");
		assert_true(f->session.txn.watching);
		if (i)
			run(f, "MULTI", "+OK\r\n");
		run(f, ends[i], "+OK\r\n");
		assert_false(f->session.txn.watching);
	}
}

TEST(in_multi_watch_and_unwatch_do_nothing)
{
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "WATCH a");
	assert_false(f->session.txn.watching);
	run(f, "DISCARD", "+OK\r\n");
	assert_passed(f, "WATCH a");
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "UNWATCH");
	assert_true(f->session.txn.watching);
}

TEST(discard_and_reset_end_nothing_if_redis_refuses_them)
{
	static const char *const ends[] = { "DISCARD", "RESET" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++) {
		run(f, "MULTI", "+OK\r\n");
		run(f, ends[i], "-NOPERM\r\n");
		assert_int_equal(f->session.txn.state, TRANSACTION_ABORTED);
		run(f, "EXEC", "-EXECABORT\r\n");
	}
	assert_passed(f, "WATCH a");
	run(f, "UNWATCH", "-NOPERM\r\n");
	assert_true(f->session.txn.watching);
}

TEST(discard_and_reset_of_an_opaque_session_count_at_once)
{
	(void)sent_command(f, "MULTI");
	session_make_opaque(&f->session);
	assert_passed(f, "DISCARD");
	assert_false(session_in_multi(&f->session));
}

TEST(reset_ends_everything)
{
	run(f, "SELECT 3", "+OK\r\n");
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "SELECT 4");
	run(f, "RESET", "+RESET\r\n");
	assert_false(session_in_multi(&f->session));
	assert_int_equal(f->session.db, 0);
}

/* --- subscriptions ------------------------------------------------------------------ */

TEST(subscriptions_are_awaited_by_their_kind)
{
	static const struct {
		const char *words;
		struct acks acks;
	} cases[] = {
		{ "SUBSCRIBE a b", { SESSION_SUBSCRIBE, 2 } },
		{ "PSUBSCRIBE a*", { SESSION_PSUBSCRIBE, 1 } },
		{ "SSUBSCRIBE a", { SESSION_SSUBSCRIBE, 1 } },
		{ "UNSUBSCRIBE", { SESSION_UNSUBSCRIBE, 0 } },
		{ "PUNSUBSCRIBE a* b* c*", { SESSION_PUNSUBSCRIBE, 3 } },
		{ "SUNSUBSCRIBE a", { SESSION_SUNSUBSCRIBE, 1 } },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct pending_request *r = assert_awaited(*state, cases[i].words,
		                                           PENDING_SUBSCRIBE);
		assert_int_equal(r->acks.of, cases[i].acks.of);
		assert_int_equal(r->acks.due, cases[i].acks.due);
	}
}

/* --- what cannot be followed -------------------------------------------------------- */

static void assert_followed(struct policy_fixture *f, const char *words, bool is_followed)
{
	struct decision *d = decide(f, words);

	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_int_equal(d->turns_opaque, !is_followed);
	assert_null(d->pending);
}

TEST(behind_some_commands_replies_cannot_be_followed)
{
	assert_followed(*state, "CLIENT REPLY OFF", false);
	assert_followed(*state, "client reply skip", false);
	assert_followed(*state, "CLIENT REPLY ON", true);
	assert_followed(*state, "SCRIPT DEBUG YES", false);
	assert_followed(*state, "SCRIPT LOAD x", true);
	assert_followed(*state, "REPLCONF listening-port 1", true);
	assert_followed(*state, "REPLCONF listening-port 1 ACK 2", false);
	assert_followed(*state, "REPLCONF getack *", false);
}

TEST(redis_is_asked_first_whether_it_would_refuse_them)
{
	f->must_log_in = true;
	assert_int_equal(decide(f, "CLIENT REPLY OFF")->verdict, DISPATCH_ASK_LOGIN);
	assert_passed(f, "CLIENT REPLY ON");
	assert_non_null(sent_command(f, "AUTH secret"));
	assert_deferred(f, "CLIENT REPLY OFF");
}

TEST(redis_says_whether_a_stream_begins)
{
	assert_false(assert_awaited(*state, "MONITOR", PENDING_STREAM)->raw);
	assert_true(assert_awaited(*state, "SYNC", PENDING_STREAM)->raw);
	assert_true(assert_awaited(*state, "PSYNC ? -1", PENDING_STREAM)->raw);
	run(*state, "MULTI", "+OK\r\n");
	assert_followed(*state, "MONITOR", false);
	assert_followed(*state, "SYNC", true);
}

TEST(words_of_client_reply_that_redis_refuses_change_nothing)
{
	assert_followed(*state, "CLIENT REPLY MAYBE", true);
	assert_followed(*state, "CLIENT REPLY OFF NOW", true);
	run(*state, "MULTI", "+OK\r\n");
	assert_followed(*state, "CLIENT REPLY MAYBE", true);
}

TEST(wait_comes_after_a_write_if_its_link_does_not_cover_all)
{
	assert_passed(f, "WAIT 1 0");
	f->needs_wait_ping = true;
	assert_int_equal(decide(f, "WAIT 1 0")->verdict, DISPATCH_COUNT_WRITES);
	assert_int_equal(decide(f, "WAITAOF 1 0 0")->verdict, DISPATCH_COUNT_WRITES);
	assert_int_equal(decide(f, "BLPOP a 0")->verdict, DISPATCH_PASS);
	run(f, "MULTI", "+OK\r\n");
	assert_true(decide(f, "WAIT 1 0")->is_refusal);
}

/* Servers before Redis 7.2 have no WAITAOF. */
TEST(wait_comes_after_a_ping_where_there_is_no_waitaof)
{
	policy_learn(f);
	f->needs_wait_ping = true;
	assert_true(decide(f, "WAIT 1 0")->follows_ping);
	assert_false(decide(f, "BLPOP a 0")->follows_ping);
	run(f, "MULTI", "+OK\r\n");
	assert_false(decide(f, "WAIT 1 0")->follows_ping);
}

/* In RESP2, Redis refuses WAIT while the client is subscribed. */
TEST(wait_of_a_subscriber_comes_after_nothing_of_hasps)
{
	struct pending_request *r = sent_command(f, "SUBSCRIBE a");

	policy_learn(f);
	f->needs_wait_ping = true;
	assert_int_equal(decide(f, "WAIT 1 0")->verdict, DISPATCH_DEFER);
	session_complete(&f->session, r);
	f->session.subscriptions = (struct subscriptions){ .channels = 1, .any = true };
	assert_passed(f, "WAIT 1 0");
	assert_false(decide(f, "WAIT 1 0")->follows_ping);
	assert_false(decide(f, "CLIENT REPLY OFF")->turns_opaque);
}

/* hasp could not find the frames in EXEC's reply. */
TEST(in_multi_neither_can_subscriptions_nor_client_reply)
{
	run(*state, "MULTI", "+OK\r\n");
	assert_followed(*state, "SUBSCRIBE a", false);
	assert_followed(*state, "UNSUBSCRIBE", false);
	assert_followed(*state, "CLIENT REPLY ON", false);
}

TEST(quit_is_remembered)
{
	assert_false(f->session.quitting);
	assert_passed(f, "QUIT");
	assert_true(f->session.quitting);
}

/* --- commands that block ------------------------------------------------------------ */

TEST(a_command_that_may_block_is_noted)
{
	assert_true(assert_awaited(f, "BLPOP a 0", PENDING_NOTICE)->blocks);
	run(f, "MULTI", "+OK\r\n");
	/* BLPOP does not block inside MULTI. */
	assert_passed(f, "BLPOP a 0");
	run(f, "DISCARD", "+OK\r\n");
	session_make_opaque(&f->session);
	assert_passed(f, "BLPOP a 0");
}

TEST(one_that_could_end_a_lock_blocks_as_its_probe)
{
	policy_use(f, "[verbs]\n");
	policy_waits_for("a");
	assert_true(assert_awaited(f, "BLPOP a 0", PENDING_PROBE)->blocks);
}

/* --- routes ------------------------------------------------------------------------- */

static void assert_route(struct policy_fixture *f, const char *words, enum route route)
{
	if (route_of(f, words) != route)
		fail_msg("%s: %d", words, route_of(f, words));
}

TEST(what_changes_no_connection_shares_a_link)
{
	policy_use(*state, "[verbs]\n");
	/* Redis must report first which commands may share a link. */
	assert_route(*state, "GET a", ROUTE_DEDICATED);
	policy_learn(*state);
	assert_route(*state, "GET a", ROUTE_SHARED);
	assert_route(*state, "SET a v", ROUTE_SHARED);
	assert_route(*state, "LOCK a", ROUTE_SHARED);
	assert_route(*state, "SCRIPT LOAD x", ROUTE_SHARED);
}

TEST(what_can_be_replayed_has_a_link_while_it_is_in_flight)
{
	assert_route(*state, "SELECT 1", ROUTE_DEDICATED);
	assert_route(*state, "HELLO 3", ROUTE_DEDICATED);
	assert_route(*state, "CLIENT SETNAME a", ROUTE_DEDICATED);
	assert_route(*state, "CLIENT GETNAME", ROUTE_DEDICATED);
	assert_route(*state, "CLIENT SETINFO lib-name a", ROUTE_DEDICATED);
	assert_route(*state, "CLIENT KILL TYPE normal", ROUTE_DEDICATED);
	assert_route(*state, "CLIENT UNBLOCK 4", ROUTE_DEDICATED);
	assert_route(*state, "CLIENT PAUSE 4", ROUTE_DEDICATED);
	assert_route(*state, "CLIENT UNPAUSE", ROUTE_DEDICATED);
	assert_route(*state, "RESET", ROUTE_DEDICATED);
}

TEST(what_needs_nothing_replayed_may_do_without)
{
	policy_learn(*state);
	assert_route(*state, "AUTH secret", ROUTE_BARE);
	assert_route(*state, "HELLO 3 SETNAME a AUTH b c", ROUTE_BARE);
	assert_route(*state, "SCRIPT KILL", ROUTE_BARE);
	assert_route(*state, "FUNCTION KILL", ROUTE_BARE);
	assert_route(*state, "FUNCTION STATS", ROUTE_BARE);
	assert_route(*state, "FUNCTION LIST", ROUTE_PINNED);
	assert_route(*state, "SHUTDOWN NOSAVE", ROUTE_BARE);
}

TEST(what_cannot_be_replayed_keeps_its_link)
{
	static const char *const lines[] = {
		"SUBSCRIBE a",  "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE",
		"SUNSUBSCRIBE", "QUIT",       "CLIENT ID",  "CLIENT INFO", "CLIENT LIST",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_route(*state, lines[i], ROUTE_PINNED);
}

TEST(what_blocks_needs_its_link_for_a_while)
{
	policy_learn(*state);
	assert_route(*state, "BLPOP a 0", ROUTE_LINGERING);
}

TEST(transaction_keeps_its_link_until_it_ends)
{
	static const char *const lines[] = { "MULTI", "EXEC", "DISCARD", "WATCH a", "UNWATCH" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_route(*state, lines[i], ROUTE_TRANSACTION);
}

TEST(what_the_session_does_not_tell_of_binds_its_client_to_the_link)
{
	static const char *const lines[] = {
		"MONITOR",      "REPLCONF",     "SYNC",
		"PSYNC",        "CLIENT REPLY", "CLIENT",
		"SCRIPT DEBUG", "READONLY",     "CLIENT TRACKING on",
	};

	policy_learn(*state);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_route(*state, lines[i], ROUTE_STICKY);
	/* The previous command's argument does not count. */
	assert_route(*state, "CLIENT ID", ROUTE_PINNED);
	assert_route(*state, "CLIENT", ROUTE_STICKY);
}

TEST(nor_can_what_is_too_long_to_be_kept)
{
	char words[8 + 514] = "AUTH a ";

	memset(words + 7, 'p', 513);
	words[7 + 513] = '\0';
	assert_route(*state, words, ROUTE_STICKY);
	words[7 + 512] = '\0';
	assert_route(*state, words, ROUTE_BARE);
	assert_route(*state, "HELLO 3 1 2 3 4 5 6 7 8 9 10 11 12 13 14", ROUTE_DEDICATED);
	assert_route(*state, "HELLO 3 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15", ROUTE_STICKY);
}

TEST(an_unknown_command_keeps_its_link_once_redis_has_told_the_others)
{
	assert_route(*state, "NO.SUCH.COMMAND", ROUTE_DEDICATED);
	policy_learn(*state);
	assert_route(*state, "NO.SUCH.COMMAND", ROUTE_STICKY);
}

TEST(a_guard_s_transaction_keeps_its_link)
{
	policy_learn(*state);
	policy_use(*state, GUARD);
	assert_route(*state, "SET stock:1 v", ROUTE_SHARED);
	/* No script can return this reply. */
	assert_route(*state, "INCR stock:1", ROUTE_PINNED);
	assert_route(*state, "INCR other", ROUTE_SHARED);
	policy_use(*state, "[guard stock]\npattern = stock:*\nacquire_on = GETEX\n");
	assert_route(*state, "GETEX stock:1", ROUTE_PINNED);
	assert_route(*state, "GETEX other", ROUTE_SHARED);
}

/* --- before a command is whole ------------------------------------------------------ */

static void assert_early(struct policy_fixture *f, const char *words, size_t nargs,
                         enum verdict expected)
{
	if (decide_early(f, words, nargs)->verdict != expected)
		fail_msg("%s", words);
}

TEST(what_no_rule_can_concern_need_not_be_whole)
{
	assert_early(*state, "SET a v", 2, DISPATCH_PASS);
	assert_early(*state, "SET a v", 1, DISPATCH_PASS);
	policy_use(*state, RULE);
	assert_early(*state, "SET a v", 2, DISPATCH_PASS);
	assert_early(*state, "SET lock:a v", 2, DISPATCH_NEED_MORE);
	assert_early(*state, "SET a v", 1, DISPATCH_NEED_MORE);
	assert_early(*state, "MSET a v", 2, DISPATCH_NEED_MORE);
	assert_early(*state, "GET lock:a", 1, DISPATCH_PASS);
	assert_early(*state, "ECHO x", 1, DISPATCH_PASS);
}

/* hasp looks at the beginning of a long command repeatedly. */
TEST(keys_that_more_may_follow_are_not_searched_yet)
{
	policy_use(f, RULE);
	assert_early(f, "MSET a v lock:b v", 3, DISPATCH_NEED_MORE);
	assert_int_equal(f->x.keys.n, 0);
	assert_early(f, "SET a v", 2, DISPATCH_PASS);
	assert_int_equal(f->x.keys.n, 1);
}

TEST(session_commands_and_verbs_must_be_whole)
{
	policy_use(*state, "[verbs]\n");
	assert_early(*state, "SELECT 1", 1, DISPATCH_NEED_MORE);
	assert_early(*state, "LOCK a", 2, DISPATCH_NEED_MORE);
}

TEST(a_guarded_command_must_be_whole)
{
	policy_use(*state, GUARD);
	assert_early(*state, "GET stock:1", 2, DISPATCH_NEED_MORE);
	assert_early(*state, "GET other", 2, DISPATCH_PASS);
	assert_early(*state, "GET other", 1, DISPATCH_NEED_MORE);
	assert_early(*state, "STRLEN stock:1", 1, DISPATCH_PASS);
	run(*state, "MULTI", "+OK\r\n");
	/* hasp may have to send the command again. */
	assert_early(*state, "STRLEN stock:1", 1, DISPATCH_NEED_MORE);
}

TEST(of_an_unknown_command_redis_is_asked_first)
{
	struct buf question = BUF_INIT;

	policy_use(f, RULE);
	assert_passed(f, "LATE a v");
	policy_learn(f);
	assert_int_equal(decide(f, "LATE a v")->verdict, DISPATCH_LEARN);
	assert_early(f, "LATE a v", 1, DISPATCH_LEARN);
	assert_true(unknown_commands_query(f->env.unknown_commands, &question, 0));
	assert_int_equal(decide(f, "LATE a v")->verdict, DISPATCH_LEARN);
	assert_int_equal(unknown_commands_learn(f->env.unknown_commands, f->env.commands, NULL),
	                 0);
	assert_passed(f, "LATE a v");
	unknown_commands_forget(f->env.unknown_commands);
	assert_int_equal(decide(f, "LATE a v")->verdict, DISPATCH_LEARN);
	buf_release(&question);
}

TEST(where_nothing_is_checked_an_unknown_command_does_not_wait)
{
	policy_learn(f);
	assert_passed(f, "LATE a v");
	policy_use(f, RULE "mode = observe\n");
	assert_passed(f, "LATE a v");
}

TEST(of_a_name_that_is_not_there_yet_only_the_length_is_known)
{
	struct command_info what;

	decide(f, "PING");
	f->view.argc = 0;
	memset(&what, 0xff, sizeof(what));
	assert_int_equal(dispatch_early(&f->x, &f->view, &what, false).verdict,
	                 DISPATCH_NEED_MORE);
	assert_int_equal(dispatch_early(&f->x, &f->view, &what, true).verdict, DISPATCH_PASS);
	assert_null(what.command);
	assert_false(what.is_unknown);
}

/* If Redis refuses MULTI, it runs the command at once. */
TEST(in_multi_a_command_for_the_session_waits_for_the_answer_to_multi)
{
	struct pending_request *multi = sent_command(f, "MULTI");

	assert_deferred(f, "SELECT 3");
	assert_deferred(f, "CLIENT SETNAME worker");
	answered(f, multi, "+OK\r\n");
	assert_passed(f, "SELECT 3");
	assert_non_null(f->session.txn.exec);
}

TEST(in_multi_what_passes_early_counts_as_queued)
{
	run(f, "MULTI", "+OK\r\n");
	assert_early(f, "SET a v", 2, DISPATCH_PASS);
	assert_int_equal(f->session.txn.nqueued, 1);
}
