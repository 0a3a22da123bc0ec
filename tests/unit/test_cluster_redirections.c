/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of events that a client of a cluster does not see: redirections, and nodes that cannot
 * be reached.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(cluster_set_up, cluster_tear_down);

#define MGET_FOO "*3\r\n$4\r\nMGET\r\n$3\r\nfoo\r\n$6\r\n{foo}1\r\n"
#define TRYAGAIN "-TRYAGAIN Multiple keys request\r\n"
#define MOVED_FOO "-MOVED 12182 127.0.0.1:7002\r\n"
#define ASK_FOO "-ASK 12182 127.0.0.1:7002\r\n"

TEST(a_moved_request_goes_to_the_node_that_is_named)
{
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, MOVED_FOO);
	assert_node_got(f, SPARE, GET_FOO);
	node_sends(f, SPARE, ":1\r\n");
	assert_client_got(f, ":1\r\n");
	assert_int_equal(f->nrefreshed, 1);
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, SPARE, GET_FOO);
}

TEST(all_requests_in_flight_are_sent_again_in_their_order)
{
	static const char set[] = "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$1\r\n1\r\n";

	client_sends(f, set, 1);
	client_sends(f, GET_BAR GET_FOO, 2);
	assert_node_got(f, 1, set);
	assert_node_got(f, 1, GET_FOO);
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 0, ":2\r\n");
	node_sends(f, 1, MOVED_FOO MOVED_FOO);
	assert_node_got(f, SPARE, set);
	assert_node_got_nothing(f, SPARE);
	node_sends(f, SPARE, "+OK\r\n");
	assert_node_got(f, SPARE, GET_FOO);
	node_sends(f, SPARE, ":1\r\n");
	assert_client_got(f, "+OK\r\n:2\r\n:1\r\n");
}

#define TOO_LONG                                                                               \
	"-ERR hasp: not carried out, and the request is too long for hasp to send it again: "  \
	"MOVED 12182 127.0.0.1:7002\r\n"

TEST(a_long_request_is_sent_again_whole)
{
	struct buf request = BUF_INIT;
	size_t size = 400000, half = 100000;

	buf_printf(&request, "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$%zu\r\n", size);
	memset(buf_reserve(&request, size), 'x', size);
	buf_added(&request, size);
	buf_append(&request, slice_of("\r\n", 3));
	client_sends_bytes(f, slice_of(buf_head(&request), half), 1);
	client_sends(f, buf_head(&request) + half, 0);
	assert_node_got(f, 1, buf_head(&request));
	assert_true(link_user_nbytes(&f->user) >= size);
	node_sends(f, 1, MOVED_FOO);
	assert_node_got(f, SPARE, buf_head(&request));
	node_sends(f, SPARE, "+OK\r\n");
	assert_client_got(f, "+OK\r\n");
	assert_true(link_user_nbytes(&f->user) < size);
	buf_release(&request);
}

TEST(one_that_is_too_long_to_be_kept_is_not)
{
	static const char head[] = "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$9000000\r\n";
	char request[20001] = { 0 };

	memset(request, 'x', sizeof(request) - 1);
	memcpy(request, head, sizeof(head) - 1);
	client_sends(f, request, 1);
	assert_node_got(f, 1, request);
	assert_true(link_user_nbytes(&f->user) < sizeof(request));
	node_sends(f, 1, MOVED_FOO);
	assert_client_got(f, TOO_LONG);
}

TEST(what_comes_behind_waits_until_the_redirection_is_resolved)
{
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, MOVED_FOO);
	client_sends(f, GET_BAR, 1);
	assert_node_got(f, SPARE, GET_FOO);
	assert_node_got_nothing(f, 0);
	node_sends(f, SPARE, ":1\r\n");
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 0, ":2\r\n");
	assert_client_got(f, ":1\r\n:2\r\n");
}

TEST(requests_routed_by_another_map_are_answered_first)
{
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	node_takes_over(f, SPARE, 1);
	client_sends(f, GET_FOO, 1);
	assert_node_got_nothing(f, SPARE);
	node_sends(f, 1, ":1\r\n");
	assert_node_got(f, SPARE, GET_FOO);
	node_sends(f, SPARE, ":2\r\n");
	assert_client_got(f, ":1\r\n:2\r\n");
}

TEST(an_asked_request_goes_there_behind_asking_and_no_other)
{
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ASK_FOO);
	assert_node_got(f, SPARE, ASKING GET_FOO);
	node_sends(f, SPARE, "+OK\r\n:1\r\n");
	assert_client_got(f, ":1\r\n");
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
}

/* A node refuses a command on several keys of a slot that moves, but may run the next
 * command. */
TEST(requests_of_a_slot_on_its_way_are_sent_one_by_one)
{
	static const char rename[] = "*3\r\n$6\r\nRENAME\r\n$3\r\nfoo\r\n$6\r\n{foo}1\r\n";
	static const char incr[] = "*2\r\n$4\r\nINCR\r\n$3\r\nfoo\r\n";

	client_sends(f, rename, 1);
	client_sends(f, incr, 1);
	assert_node_got(f, 1, rename);
	/* The node may refuse this command on several keys, and run the next one. */
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, TRYAGAIN);
	client_sends(f, GET_FOO GET_BAR, 2);
	time_passes(f, 0.1);
	assert_node_got(f, 1, rename);
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, incr);
	node_sends(f, 1, ASK_FOO);
	assert_node_got(f, SPARE, ASKING);
	assert_node_got(f, SPARE, incr);
	assert_node_got_nothing(f, 1);
	node_sends(f, SPARE, "+OK\r\n:1\r\n");
	assert_node_got(f, 1, GET_FOO);
	assert_node_got(f, 0, GET_BAR);
	client_sends(f, GET_FOO, 1);
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, ":2\r\n");
	node_sends(f, 0, ":3\r\n");
	assert_node_got(f, 1, GET_FOO);
	assert_client_got(f, "+OK\r\n:1\r\n:2\r\n:3\r\n");
}

TEST(reads_do_not_wait_for_a_request_of_several_keys)
{
	client_sends(f, MGET_FOO GET_FOO MGET_FOO, 3);
	assert_node_got(f, 1, MGET_FOO GET_FOO MGET_FOO);
	node_sends(f, 1, "*1\r\n:1\r\n:2\r\n*1\r\n:3\r\n");
	assert_client_got(f, "*1\r\n:1\r\n:2\r\n*1\r\n:3\r\n");
}

TEST(what_was_read_behind_one_that_is_refused_is_read_anew)
{
	client_sends(f, MGET_FOO GET_FOO MGET_FOO GET_FOO, 4);
	assert_node_got(f, 1, MGET_FOO GET_FOO MGET_FOO GET_FOO);
	node_sends(f, 1, TRYAGAIN ":1\r\n" TRYAGAIN "-WRONGTYPE no\r\n");
	client_sends(f, GET_FOO, 1);
	assert_client_got(f, "");
	time_passes(f, 0.1);
	assert_node_got(f, 1, MGET_FOO);
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, "*1\r\n:2\r\n");
	assert_node_got(f, 1, GET_FOO);
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, ":2\r\n");
	assert_node_got(f, 1, MGET_FOO);
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, "*1\r\n:3\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ":4\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ":5\r\n");
	assert_client_got(f, "*1\r\n:2\r\n:2\r\n*1\r\n:3\r\n:4\r\n:5\r\n");
}

TEST(what_was_read_behind_one_that_is_refused_twice_is_read_anew)
{
	static const char del[] = "*3\r\n$3\r\nDEL\r\n$3\r\nfoo\r\n$6\r\n{foo}1\r\n";

	client_sends(f, del, 1);
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, del);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ASK_FOO ":1\r\n");
	assert_node_got(f, SPARE, ASKING);
	assert_node_got(f, SPARE, del);
	node_sends(f, SPARE, "+OK\r\n" TRYAGAIN);
	assert_node_got_nothing(f, 1);
	time_passes(f, 0.1);
	assert_node_got(f, 1, del);
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, ":2\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, "$-1\r\n");
	assert_client_got(f, ":2\r\n$-1\r\n");
}

TEST(writes_that_are_sent_to_and_fro_stay_in_their_order)
{
	static const char one[] = "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$1\r\n1\r\n",
			  two[] = "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$1\r\n2\r\n";

	client_sends(f, one, 1);
	client_sends(f, two, 1);
	assert_node_got(f, 1, one);
	assert_node_got(f, 1, two);
	node_sends(f, 1, MOVED_FOO MOVED_FOO);
	assert_node_got(f, SPARE, one);
	node_sends(f, SPARE, "-MOVED 12182 127.0.0.1:7001\r\n");
	assert_node_got_nothing(f, 1);
	time_passes(f, 0.1);
	assert_node_got(f, 1, one);
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, two);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got_nothing(f, SPARE);
	assert_client_got(f, "+OK\r\n+OK\r\n");
}

TEST(nor_do_they_overtake_each_other_when_the_map_changes)
{
	static const char one[] = "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$1\r\n1\r\n",
			  two[] = "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$1\r\n2\r\n";

	client_sends(f, one, 1);
	client_sends(f, two, 1);
	assert_node_got(f, 1, one);
	assert_node_got(f, 1, two);
	node_sends(f, 1, ASK_FOO ASK_FOO);
	assert_node_got(f, SPARE, ASKING);
	assert_node_got(f, SPARE, one);
	node_takes_over(f, 0, 1);
	assert_node_got_nothing(f, SPARE);
	assert_node_got_nothing(f, 0);
	node_sends(f, SPARE, "+OK\r\n+OK\r\n");
	assert_node_got(f, 0, two);
	node_sends(f, 0, "+OK\r\n");
	assert_client_got(f, "+OK\r\n+OK\r\n");
}

TEST(the_next_is_sent_when_the_one_before_it_is_answered)
{
	client_sends(f, GET_BAR GET_FOO GET_FOO, 3);
	assert_node_got(f, 0, GET_BAR);
	assert_node_got(f, 1, GET_FOO GET_FOO);
	node_sends(f, 1, MOVED_FOO MOVED_FOO);
	assert_node_got(f, SPARE, GET_FOO);
	assert_node_got_nothing(f, SPARE);
	node_sends(f, SPARE, ":1\r\n");
	assert_node_got(f, SPARE, GET_FOO);
	node_sends(f, SPARE, ":2\r\n");
	node_sends(f, 0, ":3\r\n");
	assert_client_got(f, ":3\r\n:1\r\n:2\r\n");
}

TEST(a_slot_that_is_moved_is_read_anew_in_order)
{
	client_sends(f, MGET_FOO GET_FOO, 2);
	assert_node_got(f, 1, MGET_FOO GET_FOO);
	node_sends(f, 1, MOVED_FOO ":1\r\n");
	assert_node_got(f, SPARE, MGET_FOO);
	assert_node_got_nothing(f, SPARE);
	node_sends(f, SPARE, "*1\r\n:2\r\n");
	assert_node_got(f, SPARE, GET_FOO);
	node_sends(f, SPARE, ":3\r\n");
	assert_client_got(f, "*1\r\n:2\r\n:3\r\n");
}

#define DOWN "-CLUSTERDOWN The cluster is down\r\n"
#define OVERTAKEN                                                                              \
	"-ERR hasp: not carried out: the node refused it, but has accepted a later "           \
	"request\r\n"
#define SET_FOO(value) "*3\r\n$3\r\nSET\r\n$3\r\nfoo\r\n$1\r\n" value "\r\n"

/* In between, the node has learnt that it serves the slot. */
TEST(a_write_is_not_sent_again_behind_one_that_was_carried_out)
{
	client_sends(f, SET_FOO("1") SET_FOO("2") GET_BAR, 3);
	assert_node_got(f, 1, SET_FOO("1") SET_FOO("2"));
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 1, DOWN);
	/* hasp does not send it before the other request is answered. */
	time_passes(f, 0.1);
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, "+OK\r\n");
	assert_client_got(f, OVERTAKEN "+OK\r\n");
	node_sends(f, 0, ":1\r\n");
	assert_client_got(f, ":1\r\n");
	time_passes(f, 0.1);
	assert_node_got_nothing(f, 1);
}

TEST(nor_a_read_behind_a_write_of_the_future)
{
	client_sends(f, GET_FOO SET_FOO("2"), 2);
	assert_node_got(f, 1, GET_FOO SET_FOO("2"));
	node_sends(f, 1, MOVED_FOO "+OK\r\n");
	assert_client_got(f, OVERTAKEN "+OK\r\n");
	assert_node_got_nothing(f, SPARE);
}

TEST(reads_may_come_in_any_order)
{
	client_sends(f, GET_FOO GET_FOO, 2);
	assert_node_got(f, 1, GET_FOO GET_FOO);
	node_sends(f, 1, DOWN ":2\r\n");
	time_passes(f, 0.1);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n:2\r\n");
}

/* The slot of this key moves; the slot of the other key does not. */
TEST(what_is_asked_for_elsewhere_is_not_overtaken)
{
	static const char other[] = "*3\r\n$3\r\nSET\r\n$6\r\n{foo}1\r\n$1\r\n1\r\n";

	client_sends(f, SET_FOO("1"), 1);
	client_sends(f, other, 1);
	assert_node_got(f, 1, SET_FOO("1"));
	assert_node_got(f, 1, other);
	node_sends(f, 1, ASK_FOO "+OK\r\n");
	assert_node_got(f, SPARE, "*1\r\n$6\r\nASKING\r\n");
	assert_node_got(f, SPARE, SET_FOO("1"));
	node_sends(f, SPARE, "+OK\r\n+OK\r\n");
	assert_client_got(f, "+OK\r\n+OK\r\n");
}

TEST(what_concerns_all_nodes_waits_for_a_request_of_several_keys)
{
	static const char flushall[] = "*1\r\n$8\r\nFLUSHALL\r\n";

	client_sends(f, MGET_FOO, 1);
	client_sends(f, flushall, 1);
	assert_node_got(f, 1, MGET_FOO);
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, "*1\r\n:1\r\n");
	assert_node_got(f, 1, flushall);
}

static void retried_a_little_later(struct cluster_fixture *f, const char *error)
{
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	for (int i = 0; i < 3; i++) {
		node_sends(f, 1, error);
		assert_node_got_nothing(f, 1);
		time_passes(f, 0.1);
		assert_node_got(f, 1, GET_FOO);
	}
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n");
}

TEST(tryagain_is_tried_again)
{
	retried_a_little_later(*state, "-TRYAGAIN Multiple keys request during rehashing of "
	                               "slot\r\n");
}

TEST(clusterdown_is_waited_for)
{
	retried_a_little_later(*state, "-CLUSTERDOWN The cluster is down\r\n");
}

TEST(nodes_that_disagree_are_not_asked_in_a_circle)
{
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, MOVED_FOO);
	assert_node_got(f, SPARE, GET_FOO);
	node_sends(f, SPARE, "-MOVED 12182 127.0.0.1:7001\r\n");
	assert_node_got_nothing(f, 1);
	time_passes(f, 0.1);
	assert_node_got(f, 1, GET_FOO);
}

TEST(in_vain_for_failover_wait_is_an_error_that_says_why)
{
	cluster_set_limits(f->cluster, 3000, SIZE_MAX);
	client_sends(f, GET_FOO GET_BAR, 2);
	assert_node_got(f, 1, GET_FOO);
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 0, ":2\r\n");
	node_sends(f, 1, "-CLUSTERDOWN Hash slot not served\r\n");
	time_passes(f, 2.9);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, "-CLUSTERDOWN Hash slot not served\r\n");
	assert_client_got(f, "");
	time_passes(f, 0.2);
	assert_client_got(f,
	                  "-ERR hasp: no primary for slot 12182 (127.0.0.1:7001): the cluster "
	                  "is down\r\n:2\r\n");
	client_sends(f, GET_BAR, 1);
	assert_node_got(f, 0, GET_BAR);
}

TEST(an_ordinary_error_is_the_reply)
{
	client_sends(f, GET_FOO GET_BAR GET_FOO, 3);
	assert_node_got(f, 1, GET_FOO GET_FOO);
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 0, "-MOVEDX 1 2\r\n");
	node_sends(f, 1, "-WRONGTYPE no\r\n-ERR\r\n");
	assert_client_got(f, "-WRONGTYPE no\r\n-MOVEDX 1 2\r\n-ERR\r\n");
}

TEST(what_a_dead_node_did_not_get_goes_to_its_successor)
{
	node_vanishes(f, 1);
	client_sends(f, GET_FOO, 1);
	turn_loop(f);
	time_passes(f, 1);
	assert_client_got(f, "");
	assert_true(f->nrefreshed > 0);
	node_takes_over(f, SPARE, 1);
	assert_node_got(f, SPARE, GET_FOO);
	node_sends(f, SPARE, ":1\r\n");
	assert_client_got(f, ":1\r\n");
}

TEST(a_dead_node_without_successor_is_told_of)
{
	node_vanishes(f, 1);
	client_sends(f, GET_FOO, 1);
	turn_loop(f);
	for (int i = 0; i < 110; i++)
		time_passes(f, 0.1);
	assert_client_got(f,
	                  "-ERR hasp: no primary for slot 12182 (127.0.0.1:7001): it cannot be "
	                  "reached\r\n");
	assert_int_equal(f->ndown, 0);
}

CLUSTER_TEST_SHARED(a_node_that_does_not_answer_is_waited_for_no_longer)
{
	client_sends(f, GET_FOO, 1);
	/* The connection is open, but Redis has not accepted it yet. */
	assert_node_got(f, 1, "*1\r\n$8\r\nREPLCONF\r\n");
	time_passes(f, 11);
	assert_client_got(f,
	                  "-ERR hasp: no primary for slot 12182 (127.0.0.1:7001): it does not "
	                  "answer\r\n");
}

CLUSTER_TEST_SHARED(what_waits_for_a_slow_login_goes_to_the_new_primary)
{
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, "*1\r\n$8\r\nREPLCONF\r\n");
	node_takes_over(f, SPARE, 1);
	assert_node_got(f, SPARE, "*1\r\n$8\r\nREPLCONF\r\n");
	node_sends(f, SPARE, "+OK\r\n");
	assert_node_got(f, SPARE, GET_FOO);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got_nothing(f, 1);
}

TEST(a_node_that_is_no_primary_any_more_gets_nothing)
{
	assert_passes(f, 1, GET_FOO, 1, ":1\r\n");
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	node_takes_over(f, SPARE, 1);
	cluster_forget_node(f->cluster, &f->nodes[1].node);
	assert_client_got(f, "");
	assert_int_equal(f->ndown, 1);
	assert_int_equal(f->inflight, 1);
	assert_string_equal(f->reason,
	                    "127.0.0.1:7001: it is not a primary of the cluster any more");
}
