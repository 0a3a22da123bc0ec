/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the node for commands without keys: node 0 here, if it answers.
 */

#include <stdio.h>

#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(cluster_set_up, cluster_tear_down);

#define PING "*1\r\n$4\r\nPING\r\n"
#define NAME "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$2\r\nme\r\n"
#define SUBSCRIBE "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n"
#define ACK "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
#define PROOF "*1\r\n$8\r\nREPLCONF\r\n"

static void ping_passes(struct cluster_fixture *f, size_t node)
{
	assert_passes(f, node, PING, 1, "+PONG\r\n");
}

/* The shared link to node 1 proves that Redis accepts it, and sends the PING that node 0 did
 * not answer. */
static void ping_moves_to_node_1(struct cluster_fixture *f)
{
	time_passes(f, 0.1);
	assert_node_got(f, 1, PROOF);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, PING);
}

TEST(it_is_one_that_answers)
{
	f->nodes[0].health = NODE_UNSURE;
	ping_passes(f, 1);
}

/* hasp sends the request on before it has all of it. The tables do not have the command. */
TEST(it_gets_long_requests_of_unknown_commands)
{
	static const char first[] = "*2\r\n$4\r\nLONG\r\n$200000\r\n";
	static char rest[200003];

	f->nodes[0].health = NODE_UNSURE;
	snprintf(rest, sizeof(rest), "%0200000d\r\n", 0);
	client_sends_bytes(f, SLICE_LIT(first), 1);
	client_sends_bytes(f, slice_of(rest, 100000), 0);
	assert_node_got(f, 1, first);
	client_sends_bytes(f, slice_of(rest + 100000, 100002), 0);
	assert_node_got(f, 1, rest);
	node_sends(f, 1, "+OK\r\n");
	assert_client_got(f, "+OK\r\n");
}

TEST(it_is_any_if_none_answers)
{
	for (size_t i = 0; i < NODES; i++)
		f->nodes[i].health = NODE_SILENT;
	ping_passes(f, 0);
	ping_passes(f, 0);
}

TEST(a_moment_without_an_answer_changes_nothing)
{
	ping_passes(f, 0);
	f->nodes[0].health = NODE_UNSURE;
	ping_passes(f, 0);
}

TEST(one_that_falls_silent_is_left_for_good)
{
	ping_passes(f, 0);
	f->nodes[0].health = NODE_SILENT;
	ping_passes(f, 1);
	f->nodes[0].health = NODE_ANSWERS;
	ping_passes(f, 1);
	node_hangs_up(f, 0);
	assert_int_equal(f->ndown, 0);
}

TEST(it_is_not_left_while_a_reply_is_due)
{
	ping_passes(f, 0);
	client_sends(f, GET_BAR, 1);
	assert_node_got(f, 0, GET_BAR);
	f->nodes[0].health = NODE_SILENT;
	client_sends(f, PING, 1);
	assert_node_got(f, 0, PING);
	node_sends(f, 0, "$-1\r\n+PONG\r\n");
	assert_client_got(f, "$-1\r\n+PONG\r\n");
	ping_passes(f, 1);
}

TEST(it_is_not_left_by_a_subscriber)
{
	assert_passes(f, 0, SUBSCRIBE, 1, ACK);
	f->nodes[0].health = NODE_SILENT;
	assert_passes(f, 0, PING, 1, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
}

TEST(a_node_that_cannot_be_reached_is_left)
{
	node_vanishes(f, 0);
	client_sends(f, PING, 1);
	turn_loop(f);
	f->nodes[0].health = NODE_SILENT;
	time_passes(f, 0.1);
	assert_node_got(f, 1, PING);
	node_sends(f, 1, "+PONG\r\n");
	assert_client_got(f, "+PONG\r\n");
}

CLUSTER_TEST_SHARED(what_is_held_moves_on)
{
	client_sends(f, PING, 1);
	assert_node_got(f, 0, PROOF);
	f->nodes[0].health = NODE_SILENT;
	ping_moves_to_node_1(f);
	node_sends(f, 1, "+PONG\r\n");
	assert_client_got(f, "+PONG\r\n");
}

CLUSTER_TEST_SHARED(what_comes_behind_it_does_not_overtake_it)
{
	static const char echo[] = "*2\r\n$4\r\nECHO\r\n$1\r\n2\r\n";

	client_sends(f, PING, 1);
	assert_node_got(f, 0, PROOF);
	f->nodes[0].health = NODE_SILENT;
	client_sends(f, echo, 1);
	assert_node_got_nothing(f, 1);
	ping_moves_to_node_1(f);
	assert_node_got(f, 1, echo);
}

/* A PING changes nothing, so hasp may send it twice. */
TEST(a_ping_in_flight_is_asked_of_another)
{
	ping_passes(f, 0);
	client_sends(f, PING, 1);
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 0, PING);
	f->nodes[0].health = NODE_SILENT;
	time_passes(f, 0.1);
	assert_node_got(f, 1, GET_FOO PING);
	node_sends(f, 1, "$-1\r\n+PONG\r\n");
	assert_client_got(f, "+PONG\r\n$-1\r\n");
	assert_int_equal(f->ndown, 0);
}

CLUSTER_TEST_SHARED(what_the_first_one_answers_late_is_dropped)
{
	client_sends(f, PING, 1);
	assert_node_got(f, 0, PROOF);
	node_sends(f, 0, "+OK\r\n");
	assert_node_got(f, 0, PING);
	f->nodes[0].health = NODE_SILENT;
	ping_moves_to_node_1(f);
	node_sends(f, 0, "-LATE\r\n");
	node_sends(f, 1, "+PONG\r\n");
	assert_client_got(f, "+PONG\r\n");
	assert_int_equal(f->ndown, 0);
}

TEST(what_does_something_is_not)
{
	static const char publish[] = "*3\r\n$7\r\nPUBLISH\r\n$1\r\na\r\n$1\r\nm\r\n";

	ping_passes(f, 0);
	client_sends(f, publish, 1);
	client_sends(f, PING, 1);
	assert_node_got(f, 0, publish);
	assert_node_got(f, 0, PING);
	f->nodes[0].health = NODE_SILENT;
	time_passes(f, 0.1);
	assert_node_got_nothing(f, 1);
	node_sends(f, 0, ":0\r\n+PONG\r\n");
	assert_client_got(f, ":0\r\n+PONG\r\n");
}

TEST(a_reply_that_has_begun_is_waited_for)
{
	static const char ping[] = "*2\r\n$4\r\nPING\r\n$2\r\n12\r\n";

	ping_passes(f, 0);
	client_sends(f, ping, 1);
	assert_node_got(f, 0, ping);
	node_sends(f, 0, "$2\r\n1");
	f->nodes[0].health = NODE_SILENT;
	time_passes(f, 0.1);
	node_sends(f, 0, "2\r\n");
	assert_client_got(f, "$2\r\n12\r\n");
}

/* The next link repeats the session's commands. */
TEST(a_node_that_dies_before_it_has_taken_session_commands_breaks_nothing)
{
	assert_passes(f, 0, NAME, 1, "+OK\r\n");
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, NAME);
	node_hangs_up(f, 1);
	time_passes(f, 0.1);
	assert_node_got(f, 1, NAME);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, "$-1\r\n");
	assert_client_got(f, "$-1\r\n");
}
