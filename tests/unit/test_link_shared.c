/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a link that several users share, and of its login: each user gets only its own
 * replies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "tests/unit/link_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(set_up, tear_down);

/* --- shared links ------------------------------------------------------------- */

TEST(each_user_gets_the_replies_to_its_own_requests)
{
	static const char stream[] =
		"+a1\r\n$2\r\nb1\r\n+c1\r\n+c2\r\n*1\r\n:1\r\n-ERR b3\r\n+a3\r\n";

	AT_EVERY_SPLIT(stream, cut)
	{
		invite(f, NULL);
		ask(f, 0, LINK_PASS, NULL);
		ask(f, 1, LINK_NOTIFY, "b1");
		ask(f, 2, LINK_PASS, NULL);
		ask(f, 2, LINK_PASS, NULL);
		ask(f, 0, LINK_NOTIFY, "a2");
		ask(f, 1, LINK_NOTIFY | LINK_INTERCEPT, "b3");
		ask(f, 0, LINK_PASS, NULL);
		server_sends_split(f, SLICE_LIT(stream), cut);
		assert_guest(&f->guest[0], "+a1\r\n*1\r\n:1\r\n+a3\r\n", "a2 *\n");
		assert_guest(&f->guest[1], "$2\r\nb1\r\n-ERR b3\r\n",
		             "b1 $\nerror b3 -ERR b3\r\nb3 -\n");
		assert_guest(&f->guest[2], "+c1\r\n+c2\r\n", "");
		for (size_t i = 0; i < NGUESTS; i++)
			assert_int_equal(f->guest[i].user.inflight, 0);
	}
}

TEST(link_counts_by_whose_it_is)
{
	const size_t *n = f->at.env.nopen;
	struct link *own;

	invite(f, NULL);
	assert_int_equal(n[LINK_KIND_SHARED], 1);
	own = link_new(&f->at.env, LINK_KIND_OWN, NULL);
	assert_int_equal(n[LINK_KIND_OWN], 1);
	for (size_t i = 1; i < NGUESTS; i++)
		link_leave(&f->guest[i].user);
	link_make_private(f->link);
	assert_int_equal(n[LINK_KIND_SHARED], 0);
	assert_int_equal(n[LINK_KIND_PRIVATE], 1);
	link_close(own);
	link_close(f->link);
	for (size_t kind = 0; kind < LINK_KINDS; kind++)
		assert_int_equal(n[kind], 0);
}

TEST(user_claims_a_link_on_which_no_other_awaits_a_reply)
{
	struct link_user *u = &f->guest[0].user;

	invite(f, NULL);
	ask(f, 0, LINK_PASS, NULL);
	ask(f, 1, LINK_PASS, NULL);
	link_claim(u);
	assert_false(u->claimed || u->outdated);
	SERVER_SENDS(f, "+a\r\n+b\r\n");
	ask(f, 0, LINK_PASS, NULL);
	ask(f, 0, LINK_NOTIFY, "a");
	link_claim(u);
	assert_true(u->claimed && u->outdated && f->guest[1].user.outdated);
	assert_false(f->guest[1].user.claimed);
	link_pause(f->link);
	SERVER_SENDS(f, "+a\r\n+a\r\n");
	assert_guest(&f->guest[0], "+a\r\n", "");
	assert_false(link_is_idle(f->link));
	/* The link must not resume a user that has left. */
	link_leave(u);
	assert_false(u->claimed);
	settle(f);
	assert_true(link_is_idle(f->link));
}

TEST(reply_that_is_hushed_is_swallowed)
{
	static const char stream[] = "*2\r\n$2\r\na2\r\n+x\r\n+b1\r\n:3\r\n";

	AT_EVERY_SPLIT(stream, cut)
	{
		invite(f, NULL);
		ask(f, 0, LINK_DISCARD | LINK_NOTIFY, "a1");
		ask(f, 0, LINK_NOTIFY, "a2");
		ask(f, 1, LINK_PASS, NULL);
		ask(f, 0, LINK_NOTIFY, "a3");
		server_sends(f, SLICE_LIT("$-1\r\n"));
		link_discard_head(&f->guest[0].user);
		server_sends_split(f, SLICE_LIT(stream), cut);
		assert_guest(&f->guest[0], ":3\r\n", "a1 $\na3 :\n");
		assert_guest(&f->guest[1], "+b1\r\n", "");
		assert_int_equal(f->guest[0].user.inflight, 0);
	}
}

TEST(replies_to_a_user_that_has_left_are_swallowed)
{
	static const char stream[] = "+a1\r\n+b1\r\n$2\r\nb2\r\n-ERR b3\r\n+c1\r\n+a2\r\n";

	AT_EVERY_SPLIT(stream, cut)
	{
		invite(f, NULL);
		ask(f, 0, LINK_PASS, NULL);
		ask(f, 1, LINK_PASS, NULL);
		ask(f, 1, LINK_NOTIFY | LINK_CAPTURE, "b2");
		ask(f, 1, LINK_NOTIFY | LINK_INTERCEPT, "b3");
		ask(f, 2, LINK_NOTIFY, "c1");
		ask(f, 0, LINK_PASS, NULL);
		link_leave(&f->guest[1].user);
		link_leave(&f->guest[1].user);
		assert_int_equal(link_users(f->link), NGUESTS - 1);
		server_sends_split(f, SLICE_LIT(stream), cut);
		assert_guest(&f->guest[0], "+a1\r\n+a2\r\n", "");
		assert_guest(&f->guest[1], "", "");
		assert_guest(&f->guest[2], "+c1\r\n", "c1 +\n");
	}
}

TEST(replies_to_plain_requests_of_a_user_that_has_left_are_swallowed)
{
	invite(f, NULL);
	link_expect_plain(&f->guest[1].user, 1);
	ask(f, 0, LINK_PASS, NULL);
	link_expect_plain(&f->guest[1].user, 2);
	link_leave(&f->guest[1].user);
	SERVER_SENDS(f, "+b1\r\n+a1\r\n+b2\r\n+b3\r\n");
	assert_guest(&f->guest[0], "+a1\r\n", "");
	assert_guest(&f->guest[1], "", "");
	assert_int_equal(f->guest[1].user.inflight, 0);
}

/* The user's requests lie between those of others, and some are answered. Then the user comes
 * back. */
TEST(who_leaves_takes_all_of_its_own_and_no_other_s)
{
	struct buf expected = BUF_INIT;

	for (size_t answered = 0; answered < 2 * 50; answered += 7) {
		invite(f, NULL);
		buf_clear(&expected);
		for (size_t i = 0; i < 50; i++) {
			ask(f, 0, LINK_PASS, NULL);
			ask(f, 1, LINK_NOTIFY, "b");
			buf_puts(&expected, "+a\r\n");
		}
		for (size_t i = 0; i < answered; i++)
			server_sends(f, i % 2 ? SLICE_LIT("+b\r\n") : SLICE_LIT("+a\r\n"));
		buf_clear(&f->guest[1].bytes);
		buf_clear(&f->guest[1].told);
		link_leave(&f->guest[1].user);
		link_join(f->link, &f->guest[1].user);
		ask(f, 1, LINK_NOTIFY, "again");
		for (size_t i = answered; i < 2 * 50; i++)
			server_sends(f, i % 2 ? SLICE_LIT("+b\r\n") : SLICE_LIT("+a\r\n"));
		SERVER_SENDS(f, "+again\r\n");
		assert_true(slice_eq(buf_slice(&f->guest[0].bytes), buf_slice(&expected)));
		assert_guest(&f->guest[1], "+again\r\n", "again +\n");
	}
	buf_release(&expected);
}

/* The user gets the bytes that have arrived; nobody gets the rest of the reply. */
TEST(who_leaves_in_the_middle_of_a_reply_hears_no_more_of_it)
{
	static const char reply[] = "*2\r\n$5\r\nhello\r\n$5\r\nworld\r\n";

	for (size_t cut = 1; cut < sizeof(reply) - 1; cut++) {
		invite(f, NULL);
		ask(f, 0, LINK_NOTIFY, "a1");
		ask(f, 0, LINK_PASS, NULL);
		ask(f, 1, LINK_PASS, NULL);
		server_sends(f, slice_of(reply, cut));
		assert_int_equal(buf_len(&f->guest[0].bytes), cut);
		link_leave(&f->guest[0].user);
		server_sends(f, slice_of(reply + cut, sizeof(reply) - 1 - cut));
		SERVER_SENDS(f, "+a2\r\n+b1\r\n");
		assert_int_equal(buf_len(&f->guest[0].bytes), cut);
		assert_buf(&f->guest[0].told, "");
		assert_guest(&f->guest[1], "+b1\r\n", "");
	}
}

TEST_SHARED(a_user_can_leave_in_its_callback)
{
	f->guest[0].leaves_on = "a1";
	ask(f, 0, LINK_NOTIFY, "a1");
	ask(f, 0, LINK_PASS, NULL);
	ask(f, 1, LINK_PASS, NULL);
	SERVER_SENDS(f, "+a1\r\n+a2\r\n+b1\r\n");
	assert_guest(&f->guest[0], "+a1\r\n", "a1 +\n");
	assert_guest(&f->guest[1], "+b1\r\n", "");
}

TEST_SHARED(who_comes_back_does_not_get_the_replies_of_before)
{
	ask(f, 0, LINK_PASS, NULL);
	link_leave(&f->guest[0].user);
	link_join(f->link, &f->guest[0].user);
	ask(f, 0, LINK_PASS, NULL);
	assert_int_equal(f->guest[0].user.inflight, 1);
	SERVER_SENDS(f, "+before\r\n+now\r\n");
	assert_guest(&f->guest[0], "+now\r\n", "");
}

TEST_SHARED(pushes_on_a_shared_link_are_nobodys)
{
	ask(f, 0, LINK_PASS, NULL);
	ask(f, 1, LINK_PASS, NULL);
	SERVER_SENDS(f, ">1\r\n+p\r\n+a1\r\n>1\r\n+q\r\n+b1\r\n");
	assert_guest(&f->guest[0], "+a1\r\n", "");
	assert_guest(&f->guest[1], "+b1\r\n", "");
}

TEST(who_waits_for_idle_is_told_behind_its_last_byte)
{
	static const char stream[] = "+a1\r\n+b1\r\n+a2\r\n+b2\r\n";

	AT_EVERY_SPLIT(stream, cut)
	{
		invite(f, NULL);
		ask(f, 0, LINK_PASS, NULL);
		ask(f, 1, LINK_PASS, NULL);
		ask(f, 0, LINK_PASS, NULL);
		ask(f, 1, LINK_PASS, NULL);
		f->guest[0].user.await_idle = true;
		server_sends_split(f, SLICE_LIT(stream), cut);
		assert_guest(&f->guest[0], "+a1\r\n+a2\r\n", "idle after 10 bytes\n");
		assert_guest(&f->guest[1], "+b1\r\n+b2\r\n", "");
		/* The user is notified only once. */
		ask(f, 0, LINK_PASS, NULL);
		SERVER_SENDS(f, "+a3\r\n");
		assert_int_equal(f->guest[0].nidle, 1);
	}
}

TEST_SHARED(a_user_that_comes_back_does_not_wait_for_idle_any_more)
{
	struct link_user *user = &f->guest[0].user;

	ask(f, 0, LINK_PASS, NULL);
	user->await_idle = true;
	link_leave(user);
	link_join(f->link, user);
	ask(f, 0, LINK_PASS, NULL);
	SERVER_SENDS(f, "+lost\r\n+a1\r\n");
	assert_guest(&f->guest[0], "+a1\r\n", "");
}

TEST_SHARED(a_link_that_breaks_tells_each_user_what_it_had_in_flight)
{
	ask(f, 0, LINK_PASS, NULL);
	ask(f, 0, LINK_PASS, NULL);
	ask(f, 1, LINK_NOTIFY, "b1");
	ask(f, 0, LINK_NOTIFY, "a3");
	server_sends_and_hangs_up(f, SLICE_LIT("+a1\r\n+a"));
	assert_guest(&f->guest[0], "+a1\r\n+a", "");
	for (size_t i = 0; i < NGUESTS; i++) {
		assert_int_equal(f->guest[i].ndown, 1);
		/* Only the user whose reply was cut off gets LINK_CUT. */
		assert_int_equal(f->guest[i].end, i == 0 ? LINK_CUT : LINK_BROKEN);
	}
	assert_int_equal(f->guest[0].inflight, 2);
	assert_int_equal(f->guest[1].inflight, 1);
	assert_int_equal(f->guest[2].inflight, 0);
}

TEST_SHARED(a_user_can_close_a_link_that_is_not_full_any_more)
{
	const size_t total = 4 * 1024 * 1024;
	char *block = calloc(1, total);

	link_send(f->link, slice_of(block, total));
	assert_true(link_is_full(f->link));
	for (size_t i = 0; i < NGUESTS; i++)
		f->guest[i].ndrained = 0;
	f->guest[1].closes_on_drained = true;
	while (f->guest[1].user.link) {
		(void)server_reads(f, block, total);
		settle(f);
	}
	/* Users after it are not on the link any more. */
	assert_int_equal(f->guest[0].ndrained, 1);
	assert_int_equal(f->guest[1].ndrained, 1);
	assert_int_equal(f->guest[2].ndrained, 0);
	assert_null(f->guest[2].user.link);
	free(block);
}

/* --- logging in --------------------------------------------------------------- */

static const struct link_login alice = {
	.db = 3,
	.proto = 2,
	.user = "alice",
	.password = "wonder",
	.name = "app",
};

#define ALICE                                                                                  \
	"*3\r\n$4\r\nAUTH\r\n$5\r\nalice\r\n$6\r\nwonder\r\n"                                  \
	"*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$3\r\napp\r\n*2\r\n$6\r\nSELECT\r\n$"          \
	"1\r\n3\r\n"

TEST(nothing_is_sent_before_the_login_is_accepted)
{
	invite(f, &alice);
	link_queue(f->link, SLICE_LIT("GET a\r\n"));
	ask(f, 0, LINK_PASS, NULL);
	link_send(f->link, SLICE_LIT("GET b\r\n"));
	ask(f, 1, LINK_PASS, NULL);
	assert_server_reads(f, ALICE);
	SERVER_SENDS(f, "+OK\r\n+OK\r\n");
	assert_server_reads(f, "");
	SERVER_SENDS(f, "+OK\r\n");
	assert_server_reads(f, "GET a\r\nGET b\r\n");
	link_send(f->link, SLICE_LIT("GET c\r\n"));
	ask(f, 0, LINK_PASS, NULL);
	assert_server_reads(f, "GET c\r\n");
	SERVER_SENDS(f, "+1\r\n+2\r\n+3\r\n");
	assert_guest(&f->guest[0], "+1\r\n+3\r\n", "");
	assert_guest(&f->guest[1], "+2\r\n", "");
}

TEST(a_login_that_is_refused_is_told_and_nothing_is_sent)
{
	for (int accepted = 0; accepted < 3; accepted += 2) {
		invite(f, &alice);
		link_send(f->link, SLICE_LIT("FLUSHALL\r\n"));
		ask(f, 0, LINK_PASS, NULL);
		for (int i = 0; i < accepted; i++)
			SERVER_SENDS(f, "+OK\r\n");
		SERVER_SENDS(f, "-WRONGPASS invalid pair\r\n");
		assert_server_reads(f, ALICE);
		for (size_t i = 0; i < NGUESTS; i++) {
			assert_int_equal(f->guest[i].ndown, 1);
			assert_int_equal(f->guest[i].end, LINK_REFUSED);
			assert_string_equal(f->guest[i].reason, "WRONGPASS invalid pair");
			assert_false(f->guest[i].user.waiting);
			assert_guest(&f->guest[i], "", "");
		}
		assert_int_equal(f->guest[0].inflight, 1);
		assert_int_equal(f->guest[1].inflight, 0);
	}
}

static void assert_harmless(struct link_fixture *f, struct link_login login, const char *error)
{
	invite(f, &login);
	assert_true(f->guest[0].user.waiting);
	server_sends(f, slice_str(error));
	assert_int_equal(f->guest[0].ndown, 0);
	assert_false(f->guest[0].user.waiting);
	assert_true(link_is_ready(f->link));
}

TEST(errors_that_leave_the_link_as_it_should_be_do_not_matter)
{
	assert_harmless(f, (struct link_login){ .proto = 2, .password = "gone" },
	                "-ERR AUTH <password> called without any password configured for the "
	                "default user. Are you sure your configuration is correct?\r\n");
	assert_harmless(f, (struct link_login){ .proto = 2, .name = "n" },
	                "-NOPERM no permission\r\n");
	assert_harmless(f, (struct link_login){ .proto = 2, .probe_noauth = true },
	                "-NOPERM no permission\r\n");
}

TEST(a_link_that_proves_is_refused_without_a_login)
{
	invite(f, &(struct link_login){ .proto = 2, .probe_noauth = true });
	SERVER_SENDS(f, "-NOAUTH Authentication required.\r\n");
	assert_int_equal(f->guest[0].end, LINK_REFUSED);
}

TEST(who_leaves_before_the_login_is_accepted_hears_nothing)
{
	invite(f, &alice);
	link_send(f->link, SLICE_LIT("GET a\r\nGET b\r\n"));
	ask(f, 0, LINK_PASS, NULL);
	ask(f, 1, LINK_PASS, NULL);
	link_leave(&f->guest[0].user);
	SERVER_SENDS(f, "+OK\r\n+OK\r\n+OK\r\n+1\r\n+2\r\n");
	assert_guest(&f->guest[0], "", "");
	assert_guest(&f->guest[1], "+2\r\n", "");
}

TEST(each_login_is_said_as_redis_knows_it)
{
	static const struct {
		struct link_login login;
		const char *sent;
	} cases[] = {
		{ { .proto = 2, .password = "pw" }, "*2\r\n$4\r\nAUTH\r\n$2\r\npw\r\n" },
		{ { .proto = 2, .user = "u", .password = "" },
		  "*3\r\n$4\r\nAUTH\r\n$1\r\nu\r\n$0\r\n\r\n" },
		{ { .proto = 3 }, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n" },
		/* HELLO sets the name also for users that may not call CLIENT. */
		{ { .proto = 3, .password = "pw", .name = "n" },
		  "*7\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$2\r\npw\r\n"
		  "$7\r\nSETNAME\r\n$1\r\nn\r\n" },
		{ { .proto = 2, .db = 15 }, "*2\r\n$6\r\nSELECT\r\n$2\r\n15\r\n" },
		{ { .proto = 2, .name = "n", .by_hello = true },
		  "*4\r\n$5\r\nHELLO\r\n$1\r\n2\r\n$7\r\nSETNAME\r\n$1\r\nn\r\n" },
		{ { .proto = 2, .db = 1, .lib_name = "app", .lib_ver = "1.2" },
		  "*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n"
		  "*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$8\r\nLIB-NAME\r\n$3\r\napp\r\n"
		  "*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n$7\r\nLIB-VER\r\n$3\r\n1.2\r\n" },
		{ { .proto = 2, .by_hello = true, .probe_noauth = true },
		  "*1\r\n$8\r\nREPLCONF\r\n" },
		{ { .proto = 2, .db = 15, .probe_noauth = true },
		  "*2\r\n$6\r\nSELECT\r\n$2\r\n15\r\n" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		invite(f, &cases[i].login);
		assert_server_reads(f, cases[i].sent);
	}
}

TEST(a_half_close_waits_for_what_the_login_holds_back)
{
	char got[16];

	invite(f, &alice);
	link_send(f->link, SLICE_LIT("GET a\r\n"));
	ask(f, 0, LINK_PASS, NULL);
	link_shutdown(f->link);
	assert_server_reads(f, ALICE);
	SERVER_SENDS(f, "+OK\r\n+OK\r\n+OK\r\n");
	assert_server_reads(f, "GET a\r\n");
	assert_int_equal(recv(f->server, got, sizeof(got), MSG_DONTWAIT), 0);
	SERVER_SENDS(f, "+1\r\n");
	assert_guest(&f->guest[0], "+1\r\n", "");
}
