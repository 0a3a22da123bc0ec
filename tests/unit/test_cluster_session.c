/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the far end of a virtual link: which node gets which request, and the order of the
 * replies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"
#include "upstream/slot.h"

FIXTURE(cluster_set_up, cluster_tear_down);

#define NAME "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n"

#define GET_SPARE "*2\r\n$3\r\nGET\r\n$5\r\nspare\r\n"
#define MONITOR "*1\r\n$7\r\nMONITOR\r\n"
#define LONG_VALUE "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$536870913\r\n"
#define INVALID_LENGTH "-ERR Protocol error: invalid bulk length\r\n"

TEST(requests_go_to_the_nodes_of_their_keys)
{
	client_sends(f, GET_FOO GET_BAR GET_FOO, 3);
	assert_node_got(f, 1, GET_FOO GET_FOO);
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 1, "$1\r\n1\r\n$1\r\n3\r\n");
	node_sends(f, 0, "$1\r\n2\r\n");
	assert_client_got(f, "$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
}

TEST(replies_that_come_early_wait_for_their_turn)
{
	client_sends(f, GET_FOO GET_BAR GET_BAR GET_FOO, 4);
	assert_node_got(f, 0, GET_BAR GET_BAR);
	assert_node_got(f, 1, GET_FOO GET_FOO);
	node_sends(f, 0, "$1\r\n2\r\n$1\r\n3\r\n");
	assert_client_got(f, "");
	assert_true(link_user_nbytes(&f->user) >= 14);
	node_sends(f, 1, "$1\r\n1\r\n");
	assert_client_got(f, "$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
	node_sends(f, 1, "$1\r\n4\r\n");
	assert_client_got(f, "$1\r\n4\r\n");
}

/* The bytes count as the client's memory before the reply is complete. */
TEST(of_long_replies_that_wait_the_client_is_told)
{
	char reply[20000 + 32];
	int n = snprintf(reply, sizeof(reply), "$20000\r\n%020000d\r\n", 0);

	assert_true(n > 20000);
	client_sends(f, GET_FOO GET_BAR, 2);
	assert_node_got(f, 0, GET_BAR);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 0, reply);
	assert_int_equal(f->ncaptured, 1);
	assert_true(link_user_nbytes(&f->user) >= 20000);
}

TEST(of_long_parts_that_wait_for_other_nodes_the_client_is_told)
{
	char reply[20000 + 32];
	int n = snprintf(reply, sizeof(reply), "*1\r\n$20000\r\n%020000d\r\n", 0);

	assert_true(n > 20000);
	client_sends(f, "*3\r\n$4\r\nMGET\r\n$3\r\nfoo\r\n$3\r\nbar\r\n", 1);
	assert_node_got(f, 0, "*2\r\n$4\r\nMGET\r\n$3\r\nbar\r\n");
	assert_node_got(f, 1, "*2\r\n$4\r\nMGET\r\n$3\r\nfoo\r\n");
	node_sends(f, 0, reply);
	assert_int_equal(f->ncaptured, 1);
	assert_true(link_user_nbytes(&f->user) >= 20000);
}

static void send_in_two(struct cluster_fixture *f, size_t node, const char *text, size_t cut)
{
	char first[128];

	snprintf(first, sizeof(first), "%.*s", (int)cut, text);
	node_sends(f, node, first);
	node_sends(f, node, text + cut);
}

TEST(replies_come_in_order_however_they_are_cut)
{
	static const char one[] = "$5\r\nfirst\r\n-ERR two\r\n",
			  other[] = "*2\r\n:7\r\n$-1\r\n";

	for (size_t cut = 0; cut <= sizeof(one) - 1; cut++) {
		client_sends(f, GET_FOO GET_BAR GET_FOO, 3);
		assert_node_got(f, 1, GET_FOO GET_FOO);
		assert_node_got(f, 0, GET_BAR);
		if (cut % 2)
			send_in_two(f, 0, other, cut % sizeof(other));
		send_in_two(f, 1, one, cut);
		if (cut % 2 == 0)
			send_in_two(f, 0, other, cut % sizeof(other));
		assert_client_got(f, "$5\r\nfirst\r\n*2\r\n:7\r\n$-1\r\n-ERR two\r\n");
	}
}

TEST(requests_may_come_in_pieces)
{
	static const char text[] = GET_FOO "PING\r\n" GET_BAR;
	bool begun = false;

	for (size_t cut = 0; cut <= sizeof(text) - 1; cut++) {
		client_sends_bytes(f, slice_of(text, cut), 3);
		turn_loop(f);
		client_sends(f, text + cut, 0);
		/* The first primary of the map is the default node. */
		assert_node_got(f, 0, "PING\r\n" GET_BAR);
		assert_node_got(f, 1, GET_FOO);
		node_sends(f, 0, "+PONG\r\n:0\r\n");
		node_sends(f, 1, ":1\r\n");
		assert_client_got(f, ":1\r\n+PONG\r\n:0\r\n");
		begun = true;
	}
	assert_true(begun);
}

TEST(keys_in_several_slots_are_refused_in_their_place)
{
	client_sends(f, GET_FOO "*3\r\n$6\r\nRENAME\r\n$3\r\nfoo\r\n$3\r\nbar\r\n" GET_FOO, 3);
	assert_node_got(f, 1, GET_FOO GET_FOO);
	assert_client_got(f, "");
	node_sends(f, 1, ":1\r\n:2\r\n");
	assert_client_got(
		f, ":1\r\n-CROSSSLOT Keys in request don't hash to the same slot\r\n:2\r\n");
}

TEST(a_link_that_breaks_with_requests_in_flight_ends_the_virtual_link)
{
	client_sends(f, GET_FOO GET_BAR, 2);
	assert_node_got(f, 1, GET_FOO);
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 1, ":1\r\n");
	node_hangs_up(f, 0);
	assert_client_got(f, ":1\r\n");
	assert_int_equal(f->ndown, 1);
	assert_int_equal(f->end, LINK_BROKEN);
	assert_int_equal(f->inflight, 1);
	assert_string_equal(f->reason, "127.0.0.1:7000: closed by the server");
}

TEST(what_the_client_sends_when_its_link_is_breaking_goes_nowhere)
{
	slot_map_move(&f->map, slot_of_key(SLICE_LIT("spare")), &f->nodes[SPARE].node);
	client_sends(f, GET_FOO GET_BAR, 2);
	assert_node_got(f, 1, GET_FOO);
	assert_node_got(f, 0, GET_BAR);
	f->goes_on = GET_SPARE;
	/* Both replies arrive in one loop iteration. */
	node_sends_unseen(f, 1, ":1\r\n");
	node_hangs_up(f, 0);
	assert_client_got(f, ":1\r\n");
	assert_int_equal(f->ndown, 1);
	assert_node_got_nothing(f, SPARE);
}

TEST(a_stream_is_asked_for_when_all_before_is_answered)
{
	client_sends(f, GET_FOO MONITOR "QUIT\r\n", 3);
	assert_node_got(f, 1, GET_FOO);
	assert_node_got_nothing(f, 0);
	node_sends(f, 1, ":1\r\n");
	assert_node_got(f, 0, MONITOR);
	/* hasp cannot know yet which node the next bytes are for. */
	assert_node_got_nothing(f, 0);
	node_sends(f, 0, "+OK\r\n+1 [0] \"PING\"\r\n");
	assert_node_got(f, 0, "QUIT\r\n");
	assert_client_got(f, ":1\r\n+OK\r\n+1 [0] \"PING\"\r\n");
}

TEST(after_monitor_a_request_waits_until_it_is_whole)
{
	assert_passes(f, 0, MONITOR, 1, "+OK\r\n");
	client_sends(f, "\r\n*1\r\n$4\r\nqu", 0);
	assert_node_got_nothing(f, 0);
	client_sends(f, "it\r\n" GET_FOO, 0);
	assert_node_got(f, 0, "*1\r\n$4\r\nquit\r\n");
	/* Redis answers nothing after QUIT. */
	assert_node_got_nothing(f, 0);
	assert_node_got_nothing(f, 1);
	node_sends(f, 0, "+1 [0] \"PING\"\r\n+OK\r\n");
	assert_client_got(f, "+1 [0] \"PING\"\r\n+OK\r\n");
	assert_int_equal(f->ndown, 0);
	node_hangs_up(f, 0);
	assert_int_equal(f->ndown, 1);
}

TEST(client_reply_skip_drops_the_reply_to_monitor)
{
	client_sends(f, "CLIENT REPLY SKIP\r\n" MONITOR, 0);
	assert_node_got(f, 0, MONITOR);
	node_sends(f, 0, "+O");
	node_sends(f, 0, "K\r\n+1 [0] \"PING\"\r\n");
	node_sends(f, 0, "+2 [0] \"PING\"\r\n");
	assert_client_got(f, "+1 [0] \"PING\"\r\n+2 [0] \"PING\"\r\n");
}

TEST(client_reply_off_drops_what_monitor_shows)
{
	client_sends(f, "CLIENT REPLY OFF\r\n" MONITOR, 0);
	assert_node_got(f, 0, MONITOR);
	node_sends(f, 0, "+OK\r\n+1 [0] \"PING\"\r\n");
	assert_client_got(f, "");
	client_sends(f, "QUIT\r\n", 0);
	assert_node_got(f, 0, "QUIT\r\n");
	node_sends(f, 0, "+OK\r\n");
	assert_client_got(f, "");
}

static void assert_ends_after_monitor(struct cluster_fixture *f, const char *request)
{
	assert_passes(f, 0, MONITOR, 1, "+OK\r\n");
	node_sends_unseen(f, 0, "+1 [0] \"PING\"\r\n+2");
	client_sends(f, request, 1);
	turn_loop(f);
	assert_int_equal(f->ndown, 1);
	assert_string_equal(f->reason, "the client sent a request after MONITOR");
	assert_node_got_nothing(f, 1);
	assert_node_was_left(f, 0);
}

TEST(a_request_after_monitor_ends_the_client)
{
	assert_ends_after_monitor(*state, GET_FOO);
}

TEST(reset_after_monitor_ends_the_client)
{
	assert_ends_after_monitor(*state, "*1\r\n$5\r\nRESET\r\n");
}

TEST(a_malformed_request_after_monitor_ends_the_client)
{
	assert_ends_after_monitor(*state, "*1\r\nQUIT\r\n");
}

TEST(behind_a_stream_that_is_refused_all_goes_on)
{
	client_sends(f, MONITOR MONITOR GET_FOO, 3);
	assert_node_got(f, 0, MONITOR);
	node_sends(f, 0, "-NOPERM\r\n");
	assert_node_got(f, 0, MONITOR);
	node_sends(f, 0, "-NOPERM\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, "-NOPERM\r\n-NOPERM\r\n:1\r\n");
}

TEST(a_link_that_breaks_in_a_reply_is_cut)
{
	assert_passes(f, 1, GET_FOO, 1, "$10\r\n12345");
	node_hangs_up(f, 1);
	assert_int_equal(f->end, LINK_CUT);
}

TEST(a_link_that_breaks_with_nothing_in_flight_is_opened_again)
{
	assert_passes(f, 1, GET_FOO, 1, ":1\r\n");
	node_hangs_up(f, 1);
	assert_int_equal(f->nrefreshed, 1);
	assert_passes(f, 1, GET_FOO, 1, ":2\r\n");
	assert_int_equal(f->ndown, 0);
}

TEST(client_reply_off_drops_replies_and_on_is_answered)
{
	client_sends(f, "CLIENT REPLY OFF\r\n" GET_FOO "CLIENT REPLY ON\r\n", 1);
	client_sends(f, GET_FOO "CLIENT REPLY SKIP\r\n" GET_FOO GET_FOO, 2);
	assert_node_got(f, 1, GET_FOO GET_FOO GET_FOO GET_FOO);
	node_sends(f, 1, ":1\r\n:2\r\n:3\r\n:4\r\n");
	assert_client_got(f, "+OK\r\n:2\r\n:4\r\n");
}

TEST(of_the_session_commands_only_reset_ends_client_reply_off)
{
	static const char name[] = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n";
	static const char reset[] = "*1\r\n$5\r\nRESET\r\n";
	static const char reset_x[] = "*2\r\n$5\r\nRESET\r\n$1\r\nx\r\n";

	client_sends(f, "CLIENT REPLY OFF\r\n", 0);
	client_sends(f, name, 0);
	assert_node_got(f, 0, name);
	node_sends(f, 0, "+OK\r\n");
	client_sends(f, reset_x, 0);
	assert_node_got(f, 0, reset_x);
	node_sends(f, 0, "-ERR wrong number of arguments for 'reset' command\r\n");
	assert_client_got(f, "");
	client_sends(f, reset, 1);
	assert_node_got(f, 0, reset);
	node_sends(f, 0, "+RESET\r\n");
	assert_client_got(f, "+RESET\r\n");
}

/* Redis clears CLIENT REPLY SKIP only after RESET. */
TEST(client_reply_skip_drops_the_reply_to_reset)
{
	static const char reset[] = "*1\r\n$5\r\nRESET\r\n";

	client_sends(f, "CLIENT REPLY SKIP\r\n", 0);
	client_sends(f, reset, 0);
	assert_node_got(f, 0, reset);
	node_sends(f, 0, "+RESET\r\n");
	assert_client_got(f, "");
	assert_passes(f, 1, GET_FOO, 1, ":1\r\n");
}

TEST(quit_is_answered_behind_all_replies_and_ends_the_link)
{
	client_sends(f, GET_FOO "QUIT\r\n", 2);
	assert_node_got(f, 1, GET_FOO);
	turn_loop(f);
	assert_int_equal(f->ndown, 0);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n+OK\r\n");
	turn_loop(f);
	assert_int_equal(f->ndown, 1);
}

TEST(a_half_closed_link_ends_when_all_is_answered)
{
	client_sends(f, GET_FOO, 1);
	link_shutdown(f->link);
	assert_node_got(f, 1, GET_FOO);
	assert_int_equal(f->ndown, 0);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n");
	turn_loop(f);
	assert_int_equal(f->ndown, 1);
}

TEST(a_client_that_runs_ahead_is_not_read)
{
	struct buf many = BUF_INIT;

	cluster_set_limits(f->cluster, 10000, 10);
	client_sends(f, GET_FOO GET_BAR, 2);
	assert_node_got(f, 0, GET_BAR);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 0, "$10\r\n1234567890\r\n");
	for (int i = 0; i < 20000; i++)
		buf_puts(&many, GET_BAR);
	client_sends_bytes(f, buf_slice(&many), 20000);
	assert_node_got_nothing(f, 0);
	assert_true(link_is_full(f->link));
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n$10\r\n1234567890\r\n");
	assert_node_got(f, 0, GET_BAR);
	buf_release(&many);
}

/* A full link has the client's last bytes, of which the session leaves the beginning of a
 * request: the client must send the rest. */
TEST(a_link_drains_although_the_session_leaves_part_of_a_request)
{
	struct buf many = BUF_INIT;

	assert_passes(f, 0, GET_BAR, 1, ":1\r\n");
	client_sends(f, NAME, 1);
	assert_node_got(f, 0, NAME);
	for (int i = 0; i < 300; i++)
		buf_printf(&many, "*2\r\n$4\r\nECHO\r\n$1000\r\n%01000d\r\n", 0);
	buf_puts(&many, "*2\r\n$3\r\nGET");
	client_sends_bytes(f, buf_slice(&many), 300);
	assert_true(link_is_full(f->link));
	f->ndrained = 0;
	node_sends(f, 0, "+OK\r\n");
	assert_client_got(f, "+OK\r\n");
	turn_loop(f);
	assert_false(link_is_full(f->link));
	assert_int_equal(f->ndrained, 1);
	buf_release(&many);
}

TEST(a_long_request_streams)
{
	struct buf request = BUF_INIT;
	size_t size = 400000, half = 100000;

	assert_passes(f, 1, GET_FOO, 1, ":1\r\n");
	buf_printf(&request, "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$%zu\r\n", size);
	memset(buf_reserve(&request, size), 'x', size);
	buf_added(&request, size);
	buf_puts(&request, "\r\n");
	*buf_reserve(&request, 1) = '\0';
	client_sends_bytes(f, slice_of(buf_head(&request), half), 1);
	buf_head(&request)[half] = '\0';
	assert_node_got(f, 1, buf_head(&request));
	buf_head(&request)[half] = 'x';
	client_sends_bytes(f, slice_of(buf_head(&request) + half, buf_len(&request) - half), 0);
	assert_node_got(f, 1, buf_head(&request) + half);
	client_sends(f, GET_BAR, 1);
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 0, ":2\r\n");
	node_sends(f, 1, "+OK\r\n");
	assert_client_got(f, "+OK\r\n:2\r\n");
	buf_release(&request);
}

static void serve_slots(struct cluster_fixture *f, bool are_served)
{
	for (unsigned slot = 0; slot < SLOTS; slot++)
		slot_map_move(&f->map, slot,
		              are_served ? &f->nodes[slot >= SLOTS / 2].node : NULL);
	cluster_map_changed(f->cluster);
}

TEST(a_node_that_is_not_known_is_asked_for)
{
	serve_slots(f, false);
	client_sends(f, GET_FOO, 1);
	assert_int_equal(f->nrefreshed, 1);
	serve_slots(f, true);
	time_passes(f, 1);
	assert_node_got(f, 1, GET_FOO);
}

/* Valkey 8 refuses MULTI inside MULTI by a flag. */
TEST(a_server_may_take_READONLY_of_any_client)
{
	static const char *const told[] = { "readonly", "readwrite", "cluster", "multi" };
	static const char readonly[] = "*1\r\n$8\r\nREADONLY\r\n";
	static const char readwrite[] = "*1\r\n$9\r\nREADWRITE\r\n";
	static const char slots[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
	static const char disabled[] = "-ERR This instance has cluster support disabled\r\n";
	struct command c = { .flags = COMMAND_FROM_SERVER };

	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++) {
		assert_true(command_set_name(&c, slice_str(told[i])));
		commands_put(f->commands, &c);
	}
	client_sends(f, readonly, 1);
	assert_client_got(f, disabled);
	c.flags |= COMMAND_NO_MULTI;
	commands_put(f->commands, &c);
	client_sends(f, readonly, 1);
	client_sends(f, readwrite, 1);
	assert_client_got(f, "+OK\r\n+OK\r\n");
	client_sends(f, slots, 1);
	assert_client_got(f, disabled);
}

/* The client comes before the first map. */
TEST(a_long_request_waits_until_its_node_is_known)
{
	static char request[300000];
	int n = snprintf(request, sizeof(request),
	                 "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$200000\r\n%0200000d\r\n", 0);

	serve_slots(f, false);
	client_sends_bytes(f, slice_of(request, 100000), 1);
	time_passes(f, 1);
	assert_int_equal(f->ndown, 0);
	assert_true(f->nrefreshed > 0);
	assert_client_got(f, "");
	serve_slots(f, true);
	time_passes(f, 1);
	client_sends_bytes(f, slice_of(request + 100000, (size_t)n - 100000), 0);
	assert_node_got(f, 1, request);
	node_sends(f, 1, "+OK\r\n");
	assert_client_got(f, "+OK\r\n");
}

TEST(without_a_map_a_long_request_is_refused)
{
	static char request[100000];

	snprintf(request, sizeof(request),
	         "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$200000\r\n%090000d", 0);
	serve_slots(f, false);
	client_sends(f, request, 1);
	time_passes(f, 60);
	turn_loop(f);
	assert_true(buf_len(&f->bytes) > 0);
	assert_int_equal(*buf_head(&f->bytes), '-');
}

TEST(what_is_no_request_is_refused_by_redis)
{
	client_sends(f, "*1\r\n+x\r\n", 0);
	assert_node_got(f, 0, "*1\r\n+");
	node_sends(f, 0, "-ERR Protocol error: expected '$', got '+'\r\n");
	node_hangs_up(f, 0);
	assert_client_got(f, "-ERR Protocol error: expected '$', got '+'\r\n");
	assert_int_equal(f->ndown, 1);
}

TEST(an_argument_that_redis_refuses_is_told_before_it_comes)
{
	assert_passes(f, 1, LONG_VALUE, 1, INVALID_LENGTH);
}

/* If hasp must keep a request whole, no node gets it. */
TEST(one_of_a_command_to_be_split_is_refused_by_hasp)
{
	client_sends(f, "*3\r\n$4\r\nMGET\r\n$536870913\r\n", 1);
	assert_client_got(f, INVALID_LENGTH);
	assert_node_got_nothing(f, 0);
}

CLUSTER_TEST_SHARED(a_session_that_shares_uses_the_nodes_pools)
{
	static const char proof[] = "*1\r\n$8\r\nREPLCONF\r\n";

	client_sends(f, GET_FOO GET_BAR, 2);
	assert_node_got(f, 1, proof);
	assert_node_got_nothing(f, 1);
	assert_node_got(f, 0, proof);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n");
	node_sends(f, 0, "+OK\r\n");
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 0, ":2\r\n");
	assert_client_got(f, ":2\r\n");
}

CLUSTER_TEST_SHARED(a_session_that_a_node_refuses_ends)
{
	static const char proof[] = "*1\r\n$8\r\nREPLCONF\r\n";

	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, proof);
	node_sends(f, 1, "-NOAUTH Authentication required.\r\n");
	assert_client_got(f, "");
	assert_int_equal(f->ndown, 1);
	assert_string_equal(f->reason, "NOAUTH Authentication required.");
}

CLUSTER_TEST_SHARED(a_session_that_is_closed_leaves_no_reply_to_others)
{
	static const char proof[] = "*1\r\n$8\r\nREPLCONF\r\n";

	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, proof);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, GET_FOO);
	link_close(f->link);
	turn_loop(f);
	f->link = link_new_accepted(&f->virtual, &(struct link_login){ .proto = 2 });
	link_join(f->link, &f->user);
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ":1\r\n:2\r\n");
	assert_client_got(f, ":2\r\n");
}
