/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The far end of a virtual link: which node gets what, and the order of the replies.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/cluster_fixture.h"
#include "upstream/slot.h"

#define GET_SPARE "*2\r\n$3\r\nGET\r\n$5\r\nspare\r\n"
#define MONITOR "*1\r\n$7\r\nMONITOR\r\n"
#define LONG_VALUE "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$536870913\r\n"
#define INVALID_LENGTH "-ERR Protocol error: invalid bulk length\r\n"

static void requests_go_to_the_nodes_of_their_keys(void **state)
{
	struct cluster_fixture *f = *state;

	client_sends(f, GET_FOO GET_BAR GET_FOO, 3);
	assert_node_got(f, 1, GET_FOO GET_FOO);
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 1, "$1\r\n1\r\n$1\r\n3\r\n");
	node_sends(f, 0, "$1\r\n2\r\n");
	assert_client_got(f, "$1\r\n1\r\n$1\r\n2\r\n$1\r\n3\r\n");
}

static void replies_that_come_early_wait_for_their_turn(void **state)
{
	struct cluster_fixture *f = *state;

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

/* Their bytes count as the client's memory before the reply is whole. */
static void of_long_replies_that_wait_the_client_is_told(void **state)
{
	struct cluster_fixture *f = *state;
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

static void send_in_two(struct cluster_fixture *f, size_t node, const char *text, size_t cut)
{
	char first[128];

	snprintf(first, sizeof(first), "%.*s", (int)cut, text);
	node_sends(f, node, first);
	node_sends(f, node, text + cut);
}

static void replies_come_in_order_however_they_are_cut(void **state)
{
	static const char one[] = "$5\r\nfirst\r\n-ERR two\r\n",
			  other[] = "*2\r\n:7\r\n$-1\r\n";
	struct cluster_fixture *f = *state;

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

static void requests_may_come_in_pieces(void **state)
{
	static const char text[] = GET_FOO "PING\r\n" GET_BAR;
	struct cluster_fixture *f = *state;
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

static void keys_in_several_slots_are_refused_in_their_place(void **state)
{
	struct cluster_fixture *f = *state;

	client_sends(f, GET_FOO "*3\r\n$6\r\nRENAME\r\n$3\r\nfoo\r\n$3\r\nbar\r\n" GET_FOO, 3);
	assert_node_got(f, 1, GET_FOO GET_FOO);
	assert_client_got(f, "");
	node_sends(f, 1, ":1\r\n:2\r\n");
	assert_client_got(
		f, ":1\r\n-CROSSSLOT Keys in request don't hash to the same slot\r\n:2\r\n");
}

static void a_link_that_breaks_with_requests_in_flight_ends_the_virtual_link(void **state)
{
	struct cluster_fixture *f = *state;

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

static void what_the_client_sends_when_its_link_is_breaking_goes_nowhere(void **state)
{
	struct cluster_fixture *f = *state;

	slot_map_move(&f->map, slot_of_key(SLICE_LIT("spare")), &f->nodes[SPARE].node);
	client_sends(f, GET_FOO GET_BAR, 2);
	assert_node_got(f, 1, GET_FOO);
	assert_node_got(f, 0, GET_BAR);
	f->goes_on = GET_SPARE;
	/* Both are there in one turn of the loop. */
	node_sends_unseen(f, 1, ":1\r\n");
	node_hangs_up(f, 0);
	assert_client_got(f, ":1\r\n");
	assert_int_equal(f->ndown, 1);
	assert_node_got_nothing(f, SPARE);
}

static void a_stream_is_asked_for_when_all_before_is_answered(void **state)
{
	struct cluster_fixture *f = *state;

	client_sends(f, GET_FOO MONITOR "QUIT\r\n", 3);
	assert_node_got(f, 1, GET_FOO);
	assert_node_got_nothing(f, 0);
	node_sends(f, 1, ":1\r\n");
	assert_node_got(f, 0, MONITOR);
	/* It is not known yet to whom what follows is said. */
	assert_node_got_nothing(f, 0);
	node_sends(f, 0, "+OK\r\n+1 [0] \"PING\"\r\n");
	assert_node_got(f, 0, "QUIT\r\n");
	assert_client_got(f, ":1\r\n+OK\r\n+1 [0] \"PING\"\r\n");
}

static void behind_a_stream_that_is_refused_all_goes_on(void **state)
{
	struct cluster_fixture *f = *state;

	client_sends(f, MONITOR MONITOR GET_FOO, 3);
	assert_node_got(f, 0, MONITOR);
	node_sends(f, 0, "-NOPERM\r\n");
	assert_node_got(f, 0, MONITOR);
	node_sends(f, 0, "-NOPERM\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, "-NOPERM\r\n-NOPERM\r\n:1\r\n");
}

static void a_link_that_breaks_in_a_reply_is_cut(void **state)
{
	struct cluster_fixture *f = *state;

	assert_passes(f, 1, GET_FOO, 1, "$10\r\n12345");
	node_hangs_up(f, 1);
	assert_int_equal(f->end, LINK_CUT);
}

static void a_link_that_breaks_with_nothing_in_flight_is_opened_again(void **state)
{
	struct cluster_fixture *f = *state;

	assert_passes(f, 1, GET_FOO, 1, ":1\r\n");
	node_hangs_up(f, 1);
	assert_int_equal(f->nrefreshed, 1);
	assert_passes(f, 1, GET_FOO, 1, ":2\r\n");
	assert_int_equal(f->ndown, 0);
}

static void a_session_command_is_in_force_on_every_node(void **state)
{
	static const char hello[] = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";
	struct cluster_fixture *f = *state;

	client_sends(f, hello, 1);
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 0, hello);
	assert_node_got_nothing(f, 1);
	node_sends(f, 0, "%0\r\n");
	assert_client_got(f, "%0\r\n");
	assert_node_got(f, 1, hello);
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, "%0\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, "_\r\n");
	assert_client_got(f, "_\r\n");
}

static void a_session_command_reaches_the_nodes_that_are_there(void **state)
{
	static const char name[] = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n";
	struct cluster_fixture *f = *state;

	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ":1\r\n");
	client_sends(f, name, 1);
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 0, name);
	node_sends(f, 0, "+OK\r\n");
	assert_node_got(f, 1, name);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, "+OK\r\n:2\r\n");
	assert_client_got(f, ":1\r\n+OK\r\n:2\r\n");
}

static void of_setinfo_the_last_of_each_attribute_is_repeated_also_after_reset(void **state)
{
#define SETINFO(attribute, value)                                                              \
	"*4\r\n$6\r\nCLIENT\r\n$7\r\nSETINFO\r\n" attribute "$1\r\n" value "\r\n"
#define LIB_NAME "$8\r\nlib-name\r\n"
#define LIB_VER "$7\r\nlib-ver\r\n"
	static const char *const commands[] = {
		SETINFO(LIB_NAME, "a"),  SETINFO(LIB_VER, "1"),
		SETINFO(LIB_NAME, "b"),  "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n",
		"*1\r\n$5\r\nRESET\r\n",
	};
	struct cluster_fixture *f = *state;

	for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++)
		assert_passes(f, 0, commands[i], 1, "+OK\r\n");
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, SETINFO(LIB_VER, "1"));
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, SETINFO(LIB_NAME, "b"));
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, GET_FOO);
}

static void a_session_command_that_was_refused_is_not_repeated(void **state)
{
	static const char auth[] = "*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n";
	struct cluster_fixture *f = *state;

	client_sends(f, auth, 1);
	assert_node_got(f, 0, auth);
	node_sends(f, 0, "-WRONGPASS no\r\n");
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	assert_client_got(f, "-WRONGPASS no\r\n");
}

static void what_one_node_accepts_and_another_refuses_ends_the_link(void **state)
{
	static const char auth[] = "*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n";
	struct cluster_fixture *f = *state;

	client_sends(f, auth, 1);
	assert_node_got(f, 0, auth);
	node_sends(f, 0, "+OK\r\n");
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, auth);
	node_sends(f, 1, "-WRONGPASS no\r\n");
	assert_client_got(f, "+OK\r\n");
	assert_int_equal(f->ndown, 1);
	assert_string_equal(f->reason, "127.0.0.1:7001: WRONGPASS no");
}

static void client_reply_off_drops_replies_and_on_is_answered(void **state)
{
	struct cluster_fixture *f = *state;

	client_sends(f, "CLIENT REPLY OFF\r\n" GET_FOO "CLIENT REPLY ON\r\n", 1);
	client_sends(f, GET_FOO "CLIENT REPLY SKIP\r\n" GET_FOO GET_FOO, 2);
	assert_node_got(f, 1, GET_FOO GET_FOO GET_FOO GET_FOO);
	node_sends(f, 1, ":1\r\n:2\r\n:3\r\n:4\r\n");
	assert_client_got(f, "+OK\r\n:2\r\n:4\r\n");
}

static void of_the_session_commands_only_reset_ends_client_reply_off(void **state)
{
	static const char name[] = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n";
	static const char reset[] = "*1\r\n$5\r\nRESET\r\n";
	static const char reset_x[] = "*2\r\n$5\r\nRESET\r\n$1\r\nx\r\n";
	struct cluster_fixture *f = *state;

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

static void quit_is_answered_behind_all_replies_and_ends_the_link(void **state)
{
	struct cluster_fixture *f = *state;

	client_sends(f, GET_FOO "QUIT\r\n", 2);
	assert_node_got(f, 1, GET_FOO);
	turn_loop(f);
	assert_int_equal(f->ndown, 0);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n+OK\r\n");
	turn_loop(f);
	assert_int_equal(f->ndown, 1);
}

static void a_half_closed_link_ends_when_all_is_answered(void **state)
{
	struct cluster_fixture *f = *state;

	client_sends(f, GET_FOO, 1);
	link_shutdown(f->link);
	assert_node_got(f, 1, GET_FOO);
	assert_int_equal(f->ndown, 0);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n");
	turn_loop(f);
	assert_int_equal(f->ndown, 1);
}

static void a_client_that_runs_ahead_is_not_read(void **state)
{
	struct cluster_fixture *f = *state;
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

static void a_long_request_streams(void **state)
{
	struct cluster_fixture *f = *state;
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

static void a_node_that_is_not_known_is_asked_for(void **state)
{
	struct cluster_fixture *f = *state;

	serve_slots(f, false);
	client_sends(f, GET_FOO, 1);
	assert_int_equal(f->nrefreshed, 1);
	serve_slots(f, true);
	time_passes(f, 1);
	assert_node_got(f, 1, GET_FOO);
}

/* As Valkey 8, which refuses MULTI inside MULTI by a flag. */
static void a_server_may_take_READONLY_of_any_client(void **state)
{
	static const char *const told[] = { "readonly", "readwrite", "cluster", "multi" };
	static const char readonly[] = "*1\r\n$8\r\nREADONLY\r\n";
	static const char readwrite[] = "*1\r\n$9\r\nREADWRITE\r\n";
	static const char slots[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";
	static const char disabled[] = "-ERR This instance has cluster support disabled\r\n";
	struct cluster_fixture *f = *state;
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

/* As when a client comes before the first map. */
static void a_long_request_waits_until_its_node_is_known(void **state)
{
	static char request[300000];
	struct cluster_fixture *f = *state;
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

static void without_a_map_a_long_request_is_refused(void **state)
{
	static char request[100000];
	struct cluster_fixture *f = *state;

	snprintf(request, sizeof(request),
	         "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$200000\r\n%090000d", 0);
	serve_slots(f, false);
	client_sends(f, request, 1);
	time_passes(f, 60);
	turn_loop(f);
	assert_true(buf_len(&f->bytes) > 0);
	assert_int_equal(*buf_head(&f->bytes), '-');
}

static void what_is_no_request_is_refused_by_redis(void **state)
{
	struct cluster_fixture *f = *state;

	client_sends(f, "*1\r\n+x\r\n", 0);
	assert_node_got(f, 0, "*1\r\n+");
	node_sends(f, 0, "-ERR Protocol error: expected '$', got '+'\r\n");
	node_hangs_up(f, 0);
	assert_client_got(f, "-ERR Protocol error: expected '$', got '+'\r\n");
	assert_int_equal(f->ndown, 1);
}

static void an_argument_that_redis_refuses_is_told_before_it_comes(void **state)
{
	struct cluster_fixture *f = *state;

	assert_passes(f, 1, LONG_VALUE, 1, INVALID_LENGTH);
}

/* One that hasp has to keep whole goes to no node. */
static void one_of_a_command_to_be_split_is_refused_by_hasp(void **state)
{
	struct cluster_fixture *f = *state;

	client_sends(f, "*3\r\n$4\r\nMGET\r\n$536870913\r\n", 1);
	assert_client_got(f, INVALID_LENGTH);
	assert_node_got_nothing(f, 0);
}

static void a_session_that_shares_uses_the_nodes_pools(void **state)
{
	static const char proof[] = "*1\r\n$8\r\nREPLCONF\r\n";
	struct cluster_fixture *f = *state;

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

/* A node refuses the login that the others have accepted. */
static void a_session_that_a_node_refuses_ends(void **state)
{
	static const char proof[] = "*1\r\n$8\r\nREPLCONF\r\n";
	struct cluster_fixture *f = *state;

	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, proof);
	node_sends(f, 1, "-NOAUTH Authentication required.\r\n");
	assert_client_got(f, "");
	assert_int_equal(f->ndown, 1);
	assert_string_equal(f->reason, "NOAUTH Authentication required.");
}

static void a_session_that_is_closed_leaves_no_reply_to_others(void **state)
{
	static const char proof[] = "*1\r\n$8\r\nREPLCONF\r\n";
	struct cluster_fixture *f = *state;

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLUSTER_TEST(requests_go_to_the_nodes_of_their_keys),
		CLUSTER_TEST(replies_that_come_early_wait_for_their_turn),
		CLUSTER_TEST(of_long_replies_that_wait_the_client_is_told),
		CLUSTER_TEST(replies_come_in_order_however_they_are_cut),
		CLUSTER_TEST(requests_may_come_in_pieces),
		CLUSTER_TEST(keys_in_several_slots_are_refused_in_their_place),
		CLUSTER_TEST(a_link_that_breaks_with_requests_in_flight_ends_the_virtual_link),
		CLUSTER_TEST(what_the_client_sends_when_its_link_is_breaking_goes_nowhere),
		CLUSTER_TEST(a_stream_is_asked_for_when_all_before_is_answered),
		CLUSTER_TEST(behind_a_stream_that_is_refused_all_goes_on),
		CLUSTER_TEST(a_link_that_breaks_in_a_reply_is_cut),
		CLUSTER_TEST(a_link_that_breaks_with_nothing_in_flight_is_opened_again),
		CLUSTER_TEST(a_session_command_is_in_force_on_every_node),
		CLUSTER_TEST(a_session_command_reaches_the_nodes_that_are_there),
		CLUSTER_TEST(
			of_setinfo_the_last_of_each_attribute_is_repeated_also_after_reset),
		CLUSTER_TEST(a_session_command_that_was_refused_is_not_repeated),
		CLUSTER_TEST(what_one_node_accepts_and_another_refuses_ends_the_link),
		CLUSTER_TEST(client_reply_off_drops_replies_and_on_is_answered),
		CLUSTER_TEST(of_the_session_commands_only_reset_ends_client_reply_off),
		CLUSTER_TEST(quit_is_answered_behind_all_replies_and_ends_the_link),
		CLUSTER_TEST(a_half_closed_link_ends_when_all_is_answered),
		CLUSTER_TEST(a_client_that_runs_ahead_is_not_read),
		CLUSTER_TEST(a_long_request_streams),
		CLUSTER_TEST(a_node_that_is_not_known_is_asked_for),
		CLUSTER_TEST(a_server_may_take_READONLY_of_any_client),
		CLUSTER_TEST(a_long_request_waits_until_its_node_is_known),
		CLUSTER_TEST(without_a_map_a_long_request_is_refused),
		CLUSTER_TEST(what_is_no_request_is_refused_by_redis),
		CLUSTER_TEST(an_argument_that_redis_refuses_is_told_before_it_comes),
		CLUSTER_TEST(one_of_a_command_to_be_split_is_refused_by_hasp),
		CLUSTER_TEST_SHARED(a_session_that_shares_uses_the_nodes_pools),
		CLUSTER_TEST_SHARED(a_session_that_a_node_refuses_ends),
		CLUSTER_TEST_SHARED(a_session_that_is_closed_leaves_no_reply_to_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
