/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the end of a virtual link, by its client or by Redis, and of CLIENT REPLY in front
 * of a cluster.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(cluster_set_up, cluster_tear_down);

#define LONG_VALUE "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$536870913\r\n"
#define INVALID_LENGTH "-ERR Protocol error: invalid bulk length\r\n"
#define SKIP "CLIENT REPLY SKIP\r\n"
#define SUBSCRIBE "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n"
#define ACK "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"
#define BAD "*1\r\n+"

static void assert_it_lasts(struct cluster_fixture *f)
{
	turn_loop(f);
	assert_int_equal(f->ndown, 0);
}

static void assert_it_ends(struct cluster_fixture *f)
{
	turn_loop(f);
	assert_int_equal(f->ndown, 1);
}

TEST(a_quit_that_is_not_answered_leaves_the_end_to_the_client)
{
	client_sends(f, SKIP "QUIT\r\n", 0);
	assert_it_lasts(f);
	client_sends(f, GET_FOO, 0);
	assert_node_got_nothing(f, 1);
	link_shutdown(f->link);
	assert_it_ends(f);
	assert_client_got(f, "");
}

TEST(so_does_a_refusal_that_is_not_told)
{
	client_sends(f, SKIP BAD "x\r\n", 0);
	assert_node_got(f, 0, BAD);
	node_sends(f, 0, "-ERR Protocol error: expected '$', got '+'\r\n");
	node_hangs_up(f, 0);
	assert_it_lasts(f);
	link_shutdown(f->link);
	assert_it_ends(f);
	assert_client_got(f, "");
}

TEST(and_one_of_an_argument_that_is_too_long)
{
	client_sends(f, SKIP LONG_VALUE, 0);
	assert_node_got(f, 1, LONG_VALUE);
	node_sends(f, 1, INVALID_LENGTH);
	node_hangs_up(f, 1);
	assert_it_lasts(f);
	link_shutdown(f->link);
	assert_it_ends(f);
	assert_client_got(f, "");
}

TEST(an_empty_request_is_one_whose_reply_is_skipped)
{
	client_sends(f, SKIP "*0\r\n" GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n");
}

TEST(acknowledgements_are_not_skipped)
{
	client_sends(f, SKIP SUBSCRIBE, 0);
	assert_node_got(f, 0, SUBSCRIBE);
	node_sends(f, 0, ACK);
	assert_client_got(f, ACK);
}

TEST(but_their_errors_are)
{
	client_sends(f, SKIP SUBSCRIBE, 0);
	assert_node_got(f, 0, SUBSCRIBE);
	node_sends(f, 0, "-NOPERM no\r\n");
	assert_passes(f, 1, GET_FOO, 1, ":1\r\n");
}

TEST(a_refusal_comes_behind_what_other_nodes_have_yet_to_answer)
{
	client_sends(f, GET_BAR LONG_VALUE, 2);
	assert_node_got(f, 0, GET_BAR);
	assert_node_got_nothing(f, 1);
	node_sends(f, 0, ":1\r\n");
	assert_client_got(f, ":1\r\n");
	assert_node_got(f, 1, LONG_VALUE);
	node_sends(f, 1, INVALID_LENGTH);
	node_hangs_up(f, 1);
	assert_client_got(f, INVALID_LENGTH);
	assert_it_ends(f);
}

TEST(a_client_that_leaves_in_a_request_has_left)
{
	client_sends(f, GET_FOO "*2\r\n$4\r\nECHO\r\n$20000\r\nx", 1);
	link_shutdown(f->link);
	assert_node_got(f, 1, GET_FOO);
	assert_it_lasts(f);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n");
	assert_it_ends(f);
}

/* HELLO waits until all requests before it are answered. */
TEST(a_blocked_client_that_leaves_is_freed_whatever_it_sent_last)
{
	static const char blpop[] = "*3\r\n$5\r\nBLPOP\r\n$3\r\nfoo\r\n$1\r\n0\r\n";

	client_sends(f, blpop, 1);
	client_sends(f, "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n", 1);
	assert_node_got(f, 1, blpop);
	link_shutdown(f->link);
	turn_loop(f);
	assert_int_equal(recv(f->nodes[1].fd, (char[1]){ 0 }, 1, MSG_DONTWAIT), 0);
}
