/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the commands that change the state of a connection, in front of a cluster: which of
 * them a session repeats on its links to other nodes.
 */
#include <string.h>

#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(cluster_set_up, cluster_tear_down);

/* The home node accepts the client's session commands. */
static void assert_accepted(struct cluster_fixture *f, const char *const *commands, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_passes(f, 0, commands[i], 1, "+OK\r\n");
}

/* Another node gets these session commands before the client's request. */
static void assert_replayed(struct cluster_fixture *f, const char *const *commands, size_t n)
{
	client_sends(f, GET_FOO, 1);
	for (size_t i = 0; i < n; i++) {
		assert_node_got(f, 1, commands[i]);
		assert_node_got_nothing(f, 1);
		node_sends(f, 1, "+OK\r\n");
	}
	assert_node_got(f, 1, GET_FOO);
}

TEST(a_session_command_is_in_force_on_every_node)
{
	static const char hello[] = "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n";

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

TEST(a_session_command_reaches_the_nodes_that_are_there)
{
	static const char name[] = "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n";

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

TEST(of_setinfo_the_last_of_each_attribute_is_repeated_also_after_reset)
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

	assert_accepted(f, commands, 5);
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, SETINFO(LIB_VER, "1"));
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, SETINFO(LIB_NAME, "b"));
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, GET_FOO);
}

#define WORD(n, text) "$" #n "\r\n" text "\r\n"

TEST(login_and_name_of_a_hello_outlast_the_next_hello)
{
	static const char *const commands[] = {
		"*3\r\n" WORD(4, "AUTH") WORD(1, "u") WORD(1, "p"),
		"*4\r\n" WORD(5, "HELLO") WORD(1, "3") WORD(7, "SETNAME") WORD(1, "n"),
		"*2\r\n" WORD(5, "HELLO") WORD(1, "2"),
	};

	assert_passes(f, 0, "HELLO 3 SETNAME x AUTH v q AUTH u p SETNAME n\r\n", 1, "%0\r\n");
	assert_passes(f, 0, "HELLO 2\r\n", 1, "*0\r\n");
	assert_replayed(f, commands, 3);
}

TEST(a_user_that_logs_in_again_does_so_before_later_commands)
{
	static const char *const commands[] = { "AUTH p2\r\n",
		                                "*2\r\n" WORD(5, "HELLO") WORD(1, "3") };

	assert_passes(f, 0, "AUTH p1\r\n", 1, "+OK\r\n");
	assert_passes(f, 0, "HELLO 3\r\n", 1, "%0\r\n");
	assert_passes(f, 0, "AUTH p2\r\n", 1, "+OK\r\n");
	assert_replayed(f, commands, 2);
}

TEST(the_login_under_which_a_command_was_accepted_is_repeated_before_it)
{
	static const char *const commands[] = { "AUTH a p2\r\n", "CLIENT SETNAME x\r\n",
		                                "AUTH c p\r\n", "CLIENT NO-EVICT ON\r\n",
		                                "AUTH a p2\r\n" };
	static const char *const sent[] = { "AUTH a p1\r\n",          "CLIENT SETNAME x\r\n",
		                            "AUTH b p\r\n",           "AUTH c p\r\n",
		                            "CLIENT NO-EVICT ON\r\n", "AUTH a p2\r\n" };

	assert_accepted(f, sent, 6);
	assert_replayed(f, commands, 5);
}

TEST(a_login_under_which_no_command_is_in_force_is_not_repeated)
{
	static const char *const commands[] = { "AUTH b p\r\n", "CLIENT SETNAME y\r\n" };
	static const char *const sent[] = { "AUTH a p\r\n", "CLIENT SETNAME x\r\n",
		                            "AUTH b p\r\n", "CLIENT SETNAME y\r\n" };

	assert_accepted(f, sent, 4);
	assert_replayed(f, commands, 2);
}

TEST(a_session_command_that_was_refused_is_not_repeated)
{
	static const char auth[] = "*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n";

	client_sends(f, auth, 1);
	assert_node_got(f, 0, auth);
	node_sends(f, 0, "-WRONGPASS no\r\n");
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	assert_client_got(f, "-WRONGPASS no\r\n");
}

TEST(what_one_node_accepts_and_another_refuses_ends_the_link)
{
	static const char auth[] = "*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n";

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

/* The client sends `last` before the other node's link ends. Returns how often the client's own
 * link has ended. */
static unsigned count_ends(struct cluster_fixture *f, const char *last)
{
	static const char *const commands[] = { "CLIENT TRACKING ON\r\n" };

	assert_passes(f, 0, commands[0], 1, "+OK\r\n");
	assert_replayed(f, commands, 1);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n");
	if (last) {
		assert_passes(f, 0, last, 1, "+OK\r\n");
		assert_node_got(f, 1, last);
		node_sends(f, 1, "+OK\r\n");
	}
	node_hangs_up(f, 1);
	turn_loop(f);
	return f->ndown;
}

/* The node forgets what the client has read, so the client would keep old values. */
TEST(a_client_that_tracks_keys_ends_with_the_link_to_their_node)
{
	assert_int_equal(count_ends(*state, NULL), 1);
}

TEST(a_client_that_has_ended_tracking_outlasts_a_link)
{
	assert_int_equal(count_ends(*state, "CLIENT TRACKING OFF\r\n"), 0);
}

TEST(a_client_that_has_reset_its_tracking_outlasts_a_link)
{
	assert_int_equal(count_ends(*state, "RESET\r\n"), 0);
}

/* Each node reports only its own keys, and the client has used few nodes. */
TEST(client_tracking_with_bcast_is_refused)
{
	client_sends(f, "CLIENT TRACKING ON bcast PREFIX a\r\n", 1);
	assert_client_got(f, "-ERR hasp: in front of a cluster, CLIENT TRACKING with BCAST is "
	                     "not possible\r\n");
	assert_node_got_nothing(f, 0);
}

/* --- requests before a login -------------------------------------------------------------- */

#define REPLCONF "*1\r\n$8\r\nREPLCONF\r\n"
#define NOAUTH "-NOAUTH Authentication required.\r\n"

static void require_login(struct cluster_fixture *f)
{
	link_note_login(&f->virtual, true, f->virtual.login_checked_at);
}

TEST(without_a_login_hasp_answers_no_request_itself)
{
	static const char *const requests[] = {
		"MULTI\r\n",
		"CLIENT REPLY ON\r\n",
		"CLIENT REPLY OFF\r\n",
		"CLIENT REPLY SKIP\r\n",
		"CLIENT CACHING YES\r\n",
		"SYNC\r\n",
		"RENAME foo bar\r\n",
		"CLUSTER INFO\r\n",
	};

	require_login(f);
	for (size_t i = 0; i < sizeof(requests) / sizeof(*requests); i++) {
		client_sends(f, requests[i], 1);
		assert_node_got(f, 0, REPLCONF);
		node_sends(f, 0, NOAUTH);
		assert_client_got(f, NOAUTH);
	}
	/* The refused MULTI began no transaction. */
	assert_passes(f, 1, GET_FOO, 1, NOAUTH);
}

TEST(a_node_that_serves_clients_without_a_login_is_asked_once)
{
	require_login(f);
	client_sends(f, "MULTI\r\nDISCARD\r\nMULTI\r\n", 3);
	assert_node_got(f, 0, REPLCONF);
	assert_client_got(f, "");
	node_sends(f, 0, "-NOPERM no\r\n");
	assert_client_got(f, "+OK\r\n+OK\r\n+OK\r\n");
	assert_node_got_nothing(f, 0);
}

TEST(after_a_login_hasp_answers_until_reset)
{
	require_login(f);
	assert_passes(f, 0, "AUTH p\r\n", 1, "+OK\r\n");
	client_sends(f, "MULTI\r\n", 1);
	assert_client_got(f, "+OK\r\n");
	assert_passes(f, 0, "RESET\r\n", 1, "+RESET\r\n");
	client_sends(f, "MULTI\r\n", 1);
	assert_node_got(f, 0, REPLCONF);
	node_sends(f, 0, NOAUTH);
	assert_client_got(f, NOAUTH);
}

TEST(a_login_that_is_refused_does_not_count)
{
	require_login(f);
	client_sends(f, "AUTH x\r\nMULTI\r\n", 2);
	assert_node_got(f, 0, "AUTH x\r\n");
	assert_node_got_nothing(f, 0);
	node_sends(f, 0, "-WRONGPASS no\r\n");
	assert_node_got(f, 0, REPLCONF);
	node_sends(f, 0, NOAUTH);
	assert_client_got(f, "-WRONGPASS no\r\n" NOAUTH);
}

TEST(a_request_whose_login_cannot_be_checked_gets_an_error)
{
	require_login(f);
	node_vanishes(f, 0);
	client_sends(f, "MULTI\r\n", 1);
	turn_loop(f);
	for (int i = 0; i < 110; i++)
		time_passes(f, 0.1);
	assert_client_got(f, "-ERR hasp: no primary for commands without a key: it cannot be "
	                     "reached\r\n");
}
