/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a link that connects, sends, pauses and ends, with a server that the test plays by
 * hand.
 */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/link_fixture.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(set_up_connected, tear_down);

/* --- connecting ------------------------------------------------------------- */

static void assert_fails(struct link_fixture *f, const char *reason)
{
	begin(f, NULL);
	expect(f, LINK_NOTIFY, "a");
	link_send(f->link, SLICE_LIT("PING\r\n"));
	assert_int_equal(f->ndown, 0);
	while (f->ndown == 0)
		await_event(f);
	settle(f);
	assert_down(f, LINK_UNREACHABLE);
	assert_string_equal(f->reason, reason);
	assert_seen(f, "", "");
}

TEST_WITH(a_socket_that_is_missing_is_told, set_up, tear_down)
{
	strcat(f->at.env.address.host, "/no");
	assert_fails(f, strerror(ENOTDIR));
	free_link(f);
	f->ndown = 0;
	snprintf(f->at.env.address.host, sizeof(f->at.env.address.host), "%s/no", f->at.dir);
	assert_fails(f, strerror(ENOENT));
}

TEST_WITH(a_path_too_long_for_a_socket_is_told, set_up, tear_down)
{
	memset(f->at.env.address.host, 'x', 200);
	f->at.env.address.host[200] = '\0';
	assert_fails(f, strerror(ENAMETOOLONG));
}

TEST_WITH(a_socket_without_a_listener_is_told, set_up, tear_down)
{
	close(f->at.listener);
	f->at.listener = -1;
	assert_fails(f, strerror(ECONNREFUSED));
}

/* The address of a port that no process listens on: it was bound just now. */
TEST_WITH(a_port_without_a_listener_is_told, set_up, tear_down)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	socklen_t len = sizeof(sin);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	sin.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&sin, len), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&sin, &len), 0);
	f->at.env.address = (struct address){ .host = "127.0.0.1" };
	snprintf(f->at.env.address.port, sizeof(f->at.env.address.port), "%d",
	         ntohs(sin.sin_port));
	assert_fails(f, strerror(ECONNREFUSED));
	close(fd);
}

/* Else a user that found the link full during its login would wait for ever. */
TEST_WITH(a_link_that_was_full_while_it_logged_in_says_when_it_is_not, set_up, tear_down)
{
	const struct link_login login = { .proto = 3 };
	char *block = calloc(1, STREAM_HIGH_WATER), got[64];

	begin(f, &login);
	accept_link(f);
	while (server_reads(f, got, sizeof(got)) == 0)
		await_event(f);
	link_send(f->link, slice_of(block, STREAM_HIGH_WATER));
	assert_true(link_is_full(f->link));
	f->ndrained = 0;
	SERVER_SENDS(f, "%0\r\n");
	assert_int_equal(f->ndrained, 1);
	assert_false(link_is_full(f->link));
	free(block);
}

TEST_WITH(what_is_sent_before_the_connection_is_up_waits_for_it, set_up, tear_down)
{
	char got[32];

	begin(f, NULL);
	link_send(f->link, SLICE_LIT("one "));
	link_send(f->link, SLICE_LIT("two"));
	assert_int_equal(link_pending(f->link), 7);
	accept_link(f);
	while (f->ndrained == 0)
		await_event(f);
	assert_int_equal(link_pending(f->link), 0);
	link_send(f->link, SLICE_LIT(" three"));
	assert_int_equal(server_reads(f, got, sizeof(got)), 13);
	assert_memory_equal(got, "one two three", 13);
}

TEST_WITH(a_link_can_be_closed_while_it_connects, set_up, tear_down)
{
	begin(f, NULL);
	link_send(f->link, SLICE_LIT("PING\r\n"));
	link_close(f->link);
	settle(f);
	assert_int_equal(f->ndown, 0);
	assert_int_equal(f->ndrained, 0);
}

/* --- sending ---------------------------------------------------------------- */

TEST(only_a_user_that_found_the_link_full_hears_that_it_is_not)
{
	char got[8];

	f->ndrained = 0;
	for (int i = 0; i < 2; i++) {
		link_queue(f->link, SLICE_LIT("PING\r\n"));
		assert_false(link_is_full(f->link));
		settle(f);
		assert_int_equal(server_reads(f, got, sizeof(got)), 6);
		assert_int_equal(link_pending(f->link), 0);
		assert_int_equal(f->ndrained, 0);
	}
}

TEST(what_the_server_does_not_read_waits)
{
	const size_t total = 4 * 1024 * 1024;
	char *block = calloc(1, total);
	size_t got = 0;

	f->ndrained = 0;
	for (size_t i = 0; i < total; i++)
		block[i] = (char)(i * 7 + i / 256);
	link_send(f->link, slice_of(block, total));
	assert_true(link_pending(f->link) > total / 2);
	assert_true(link_is_full(f->link));
	settle(f);
	assert_int_equal(f->ndrained, 0);
	while (got < total) {
		char part[65536];
		size_t n = server_reads(f, part, sizeof(part));
		assert_memory_equal(part, block + got, n);
		got += n;
		settle(f);
	}
	assert_int_equal(f->ndrained, 1);
	assert_int_equal(link_pending(f->link), 0);
	free(block);
}

TEST(shutting_down_ends_what_is_sent_and_not_what_is_read)
{
	char got[16];

	expect(f, LINK_NOTIFY, "a");
	link_send(f->link, SLICE_LIT("PING\r\n"));
	link_shutdown(f->link);
	link_send(f->link, SLICE_LIT("more"));
	settle(f);
	assert_int_equal(server_reads(f, got, sizeof(got)), 6);
	assert_int_equal(recv(f->server, got, sizeof(got), MSG_DONTWAIT), 0);
	SERVER_SENDS(f, "+PONG\r\n");
	assert_seen(f, "+PONG\r\n", "reply a +\n");
	assert_int_equal(f->ndown, 0);
}

/* --- what is queued ----------------------------------------------------------- */

static size_t count_server_reads(struct link_fixture *f)
{
	char got[8192];

	return server_reads(f, got, sizeof(got));
}

TEST(what_is_queued_leaves_at_the_turns_end)
{
	char bytes[4096] = "";

	link_queue(f->link, slice_of(bytes, sizeof(bytes)));
	assert_int_equal(count_server_reads(f), 0);
	settle(f);
	assert_int_equal(count_server_reads(f), sizeof(bytes));
}

TEST(a_few_calls_do_not_wait_for_the_turns_end)
{
	char call[256] = "";

	for (int i = 0; i < 15; i++)
		link_queue_call(f->link, slice_of(call, sizeof(call)));
	assert_int_equal(count_server_reads(f), 0);
	link_queue_call(f->link, slice_of(call, sizeof(call)));
	assert_int_equal(count_server_reads(f), 16 * sizeof(call));
	link_queue_call(f->link, slice_of(call, sizeof(call)));
	assert_int_equal(count_server_reads(f), 0);
	settle(f);
	assert_int_equal(count_server_reads(f), sizeof(call));
}

/* --- pausing ---------------------------------------------------------------- */

TEST(a_paused_link_reads_nothing)
{
	expect(f, LINK_NOTIFY, "a");
	link_pause(f->link);
	SERVER_SENDS(f, "+1\r\n");
	assert_seen(f, "", "");
	link_resume(f->link);
	settle(f);
	assert_seen(f, "+1\r\n", "reply a +\n");
}

TEST_WITH(a_link_can_be_paused_before_it_is_up, set_up, tear_down)
{
	begin(f, NULL);
	link_pause(f->link);
	accept_link(f);
	while (f->ndrained == 0)
		await_event(f);
	SERVER_SENDS(f, "+1\r\n");
	assert_seen(f, "", "");
	link_resume(f->link);
	settle(f);
	assert_seen(f, "+1\r\n", "");
}

/* --- the end ---------------------------------------------------------------- */

TEST(a_server_that_hangs_up_takes_the_link_down)
{
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	server_sends_and_hangs_up(f, SLICE_LIT("+1\r\n$5\r\nab"));
	assert_down(f, LINK_CUT);
	assert_string_equal(f->reason, "closed by the server");
	assert_seen(f, "+1\r\n$5\r\nab", "reply a +\n");
}

/* The owner can send an error instead of the missing reply. */
TEST(a_link_that_goes_down_between_two_replies_has_cut_none)
{
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	server_sends_and_hangs_up(f, SLICE_LIT("+1\r\n"));
	assert_down(f, LINK_BROKEN);
	assert_int_equal(f->inflight, 1);
	assert_seen(f, "+1\r\n", "reply a +\n");
}

TEST_WITH(what_is_not_forwarded_is_not_cut, set_up, tear_down)
{
	static const struct {
		unsigned flags;
		const char *begun;
	} cases[] = {
		{ LINK_NOTIFY | LINK_DISCARD, "$5\r\nab" },
		{ LINK_NOTIFY | LINK_INTERCEPT, "-ERR" },
		{ LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, "+QUEUED 1" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t n = strlen(cases[i].begun);
		connect_anew(f);
		expect(f, cases[i].flags, "a");
		server_sends_and_hangs_up(f, slice_of(cases[i].begun, n));
		assert_down(f, LINK_BROKEN);
		assert_seen(f, "", "");
	}
}

/* The owner must not take part of the error for the whole. */
TEST(an_error_held_back_goes_down_with_the_link)
{
	expect(f, LINK_NOTIFY | LINK_INTERCEPT, "a");
	server_sends_and_hangs_up(f, SLICE_LIT("-ERR"));
	assert_int_equal(f->ndown, 1);
	assert_seen(f, "", "");
}

TEST(a_connection_that_is_reset_says_so)
{
	char block[65536] = { 0 };

	log_fixture_open();
	/* Closing a socket with unread bytes resets the connection. */
	link_send(f->link, slice_of(block, sizeof(block)));
	settle(f);
	hang_up(f);
	settle(f);
	assert_down(f, LINK_BROKEN);
	assert_string_equal(f->reason, strerror(ECONNRESET));
	assert_nothing_logged();
	log_fixture_close();
}

TEST(garbage_takes_the_link_down_behind_the_last_good_reply)
{
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	SERVER_SENDS(f, "+1\r\n*2\r\n+x\r\nHTTP/1.1 400 Bad Request\r\n");
	assert_int_equal(f->ndown, 1);
	assert_int_not_equal(f->end, LINK_UNREACHABLE);
	assert_string_equal(f->reason, "it sent bytes that are not a RESP reply");
	assert_seen(f, "+1\r\n", "reply a +\n");
}

TEST(a_link_that_is_closed_tells_nothing_more)
{
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	SERVER_SENDS(f, "+1");
	link_close(f->link);
	link_close(f->link);
	link_send(f->link, SLICE_LIT("PING\r\n"));
	assert_int_equal(send(f->server, "\r\n", 2, MSG_NOSIGNAL) < 0, 1);
	settle(f);
	assert_seen(f, "+1", "");
	assert_int_equal(f->ndown, 0);
}

TEST(a_link_can_be_closed_inside_its_callback)
{
	f->closes_on_reply = true;
	f->takes_frames = true;
	expect(f, LINK_NOTIFY, "a");
	expect(f, LINK_NOTIFY, "b");
	SERVER_SENDS(f, "+1\r\n>1\r\n+p\r\n+2\r\n");
	assert_buf(&f->told, "reply a +\n");
	assert_int_equal(f->ndown, 0);
}
