/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of subscriptions in front of a cluster. The user of the virtual link sees the frames as
 * they come; the link reports no replies to subscriptions here, so the user expects none.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"

#define SUBSCRIBE "*3\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n$1\r\nb\r\n"
#define UNSUBSCRIBE "*1\r\n$11\r\nUNSUBSCRIBE\r\n"
#define SSUBSCRIBE_FOO "*2\r\n$10\r\nSSUBSCRIBE\r\n$3\r\nfoo\r\n"
#define SSUBSCRIBE_BAR "*2\r\n$10\r\nSSUBSCRIBE\r\n$3\r\nbar\r\n"
#define SUNSUBSCRIBE "*1\r\n$12\r\nSUNSUBSCRIBE\r\n"
#define RESET "*1\r\n$5\r\nRESET\r\n"
#define PING "*1\r\n$4\r\nPING\r\n"
#define EXEC "*1\r\n$4\r\nEXEC\r\n"
#define CLIENT_ID "*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n"
#define CLIENT_REPLY "*3\r\n$6\r\nCLIENT\r\n$5\r\nREPLY\r\n$3\r\nOFF\r\n"
#define HELLO_3 "*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n"

#define ACK(t, n, channel, i) t "3\r\n$9\r\nsubscribe\r\n$" n "\r\n" channel "\r\n:" i "\r\n"
#define UNACK(channel, i) "*3\r\n$11\r\nunsubscribe\r\n$1\r\n" channel "\r\n:" i "\r\n"
#define SACK(channel, i) "*3\r\n$10\r\nssubscribe\r\n$3\r\n" channel "\r\n:" i "\r\n"
#define SUNACK(channel, i) "*3\r\n$12\r\nsunsubscribe\r\n$3\r\n" channel "\r\n:" i "\r\n"
#define MESSAGE(t) t "3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n"

#define TRACKING "*3\r\n$6\r\nCLIENT\r\n$8\r\nTRACKING\r\n$2\r\nON\r\n"
#define FORGET ">2\r\n$10\r\ninvalidate\r\n_\r\n"
#define INVALIDATED(key) ">2\r\n$10\r\ninvalidate\r\n*1\r\n$3\r\n" key "\r\n"

#define SUBSCRIBE_EVENTS "*2\r\n$9\r\nSUBSCRIBE\r\n$18\r\n__keyevent@0__:set\r\n"
#define EVENTS_ACK ACK("*", "18", "__keyevent@0__:set", "1")
#define EVENTS_UNACK "*3\r\n$11\r\nunsubscribe\r\n$18\r\n__keyevent@0__:set\r\n:0\r\n"
#define EVENT(key) "*3\r\n$7\r\nmessage\r\n$18\r\n__keyevent@0__:set\r\n$1\r\n" key "\r\n"
#define PMESSAGE "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$2\r\nhi\r\n"
#define PEVENT "*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$14\r\n__keyspace@0__\r\n$3\r\nset\r\n"

#define REFUSED                                                                                \
	"-ERR Can't execute 'get': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / "    \
	"RESET are "                                                                           \
	"allowed in this context\r\n"

/* A set-up in which the subscriber's bytes pass uninspected. */
static int set_up(void **state)
{
	struct cluster_fixture *f;

	(void)cluster_set_up(state);
	f = *state;
	link_make_opaque(f->link);
	return 0;
}

FIXTURE(set_up, cluster_tear_down);

TEST(the_default_node_node_acknowledges_each_channel)
{
	client_sends(f, SUBSCRIBE PING, 0);
	assert_node_got(f, 0, SUBSCRIBE);
	/* Node 0 gets the second command only after node 1's answer. */
	assert_node_got_nothing(f, 0);
	node_sends(f, 0, ACK("*", "1", "a", "1"));
	assert_client_got(f, ACK("*", "1", "a", "1"));
	node_sends(f, 0, MESSAGE("*") ACK("*", "1", "b", "2"));
	assert_client_got(f, MESSAGE("*") ACK("*", "1", "b", "2"));
	assert_node_got(f, 0, PING);
	node_sends(f, 0, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
	assert_client_got(f, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
	node_sends(f, 0, MESSAGE("*"));
	assert_client_got(f, MESSAGE("*"));
}

TEST(a_further_channel_is_acknowledged_once)
{
	static const char subscribe_c[] = "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n";

	client_sends(f, SUBSCRIBE, 0);
	assert_node_got(f, 0, SUBSCRIBE);
	node_sends(f, 0, ACK("*", "1", "a", "1") ACK("*", "1", "b", "2"));
	assert_client_got(f, ACK("*", "1", "a", "1") ACK("*", "1", "b", "2"));
	client_sends(f, subscribe_c, 0);
	assert_node_got(f, 0, subscribe_c);
	node_sends(f, 0, ACK("*", "1", "c", "3"));
	assert_client_got(f, ACK("*", "1", "c", "3"));
	client_sends(f, PING GET_FOO, 0);
	assert_node_got(f, 0, PING);
	node_sends(f, 0, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
	assert_client_got(f, "*2\r\n$4\r\npong\r\n$0\r\n\r\n" REFUSED);
}

TEST(a_subscriber_of_resp2_gets_nothing_else)
{
	client_sends(f, SUBSCRIBE GET_FOO GET_BAR "*1\r\n$5\r\nMULTI\r\n", 0);
	assert_node_got(f, 0, SUBSCRIBE);
	node_sends(f, 0, ACK("*", "1", "a", "1") ACK("*", "1", "b", "2"));
	assert_client_got(f, ACK("*", "1", "a", "1") ACK("*", "1", "b", "2") REFUSED REFUSED
	                  "-ERR Can't execute 'multi': only (P|S)SUBSCRIBE / "
	                  "(P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
	                  "context\r\n");
	assert_node_got_nothing(f, 1);
	client_sends(f, UNSUBSCRIBE GET_FOO, 0);
	assert_node_got(f, 0, UNSUBSCRIBE);
	node_sends(f, 0, UNACK("a", "1") UNACK("b", "0"));
	assert_client_got(f, UNACK("a", "1") UNACK("b", "0"));
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, "$-1\r\n");
	assert_client_got(f, "$-1\r\n");
}

TEST(what_only_redis_words_is_asked_of_the_subscribed_node)
{
	client_sends(f, SUBSCRIBE EXEC CLIENT_ID CLIENT_REPLY, 0);
	assert_node_got(f, 0, SUBSCRIBE);
	node_sends(f, 0, ACK("*", "1", "a", "1") ACK("*", "1", "b", "2"));
	assert_client_got(f, ACK("*", "1", "a", "1") ACK("*", "1", "b", "2"));
	assert_node_got(f, 0, EXEC CLIENT_ID);
	node_sends(f, 0, "-EXECABORT it\r\n-ERR Can't\r\n");
	assert_client_got(f, "-EXECABORT it\r\n-ERR Can't\r\n"
	                     "-ERR Can't execute 'client|reply': only (P|S)SUBSCRIBE / "
	                     "(P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this "
	                     "context\r\n");
}

TEST(an_exec_that_is_refused_ends_what_is_watched)
{
	static const char watch[] = "*2\r\n$5\r\nWATCH\r\n$3\r\nfoo\r\n";

	client_sends(f, watch, 0);
	assert_node_got(f, 1, watch);
	node_sends(f, 1, "+OK\r\n");
	client_sends(f, SUBSCRIBE EXEC, 0);
	assert_node_got(f, 0, SUBSCRIBE);
	node_sends(f, 0, ACK("*", "1", "a", "1") ACK("*", "1", "b", "2"));
	assert_node_got(f, 0, EXEC);
	assert_node_got(f, 1, "*1\r\n$7\r\nUNWATCH\r\n");
	node_sends(f, 0, "-EXECABORT it\r\n");
	node_sends(f, 1, "+OK\r\n");
	assert_client_got(f, "+OK\r\n" ACK("*", "1", "a", "1")
	                             ACK("*", "1", "b", "2") "-EXECABORT it\r\n");
}

/* Redis refuses UNWATCH of a subscriber. */
TEST(a_refused_exec_unwatches_at_a_node_with_subscriptions)
{
	static const char watch[] = "*2\r\n$5\r\nWATCH\r\n$3\r\nfoo\r\n";

	assert_passes(f, 0, PING, 0, "+PONG\r\n");
	assert_passes(f, 1, watch, 0, "+OK\r\n");
	assert_passes(f, 0, SSUBSCRIBE_BAR, 0, SACK("bar", "1"));
	client_sends(f, SSUBSCRIBE_FOO, 0);
	assert_node_got(f, 1, SSUBSCRIBE_FOO);
	node_sends(f, 1, SACK("foo", "1"));
	assert_client_got(f, SACK("foo", "2"));
	assert_passes(f, 1, EXEC, 0, "-EXECABORT it\r\n");
	assert_node_got_nothing(f, 0);
	assert_node_got_nothing(f, 1);
	assert_passes(f, 0, EXEC, 0, "-EXECABORT it\r\n");
	assert_int_equal(f->ndown, 0);
}

TEST(one_of_resp3_gets_replies_between_pushes)
{
	assert_passes(f, 0, HELLO_3, 0, "%0\r\n");
	client_sends(f, SUBSCRIBE GET_BAR, 0);
	assert_node_got(f, 0, SUBSCRIBE);
	node_sends(f, 0, ACK(">", "1", "a", "1") ACK(">", "1", "b", "2"));
	assert_client_got(f, ACK(">", "1", "a", "1") ACK(">", "1", "b", "2"));
	assert_node_got(f, 0, GET_BAR);
	/* All frames arrive in one read. */
	node_sends(f, 0, MESSAGE(">") "$1\r\n1\r\n" MESSAGE(">"));
	assert_client_got(f, MESSAGE(">") "$1\r\n1\r\n" MESSAGE(">"));
}

TEST(pushes_do_not_disturb_the_order)
{
	assert_passes(f, 0, HELLO_3, 0, "%0\r\n");
	client_sends(f, GET_FOO GET_BAR, 0);
	assert_node_got(f, 1, HELLO_3);
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 1, "%0\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 0, MESSAGE(">") "$1\r\n2\r\n");
	assert_client_got(f, MESSAGE(">"));
	node_sends(f, 1, "$1\r\n1\r\n");
	assert_client_got(f, "$1\r\n1\r\n$1\r\n2\r\n");
}

TEST(no_reply_comes_between_the_pieces_of_a_push)
{
	assert_passes(f, 0, HELLO_3, 0, "%0\r\n");
	client_sends(f, SUBSCRIBE, 0);
	assert_node_got(f, 0, SUBSCRIBE);
	node_sends(f, 0, ACK(">", "1", "a", "1") ACK(">", "1", "b", "2"));
	assert_client_got(f, ACK(">", "1", "a", "1") ACK(">", "1", "b", "2"));
	client_sends(f, GET_FOO, 0);
	assert_node_got(f, 1, HELLO_3);
	node_sends(f, 1, "%0\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 0, ">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nh");
	turn_loop(f);
	node_sends(f, 1, "$1\r\n1\r\n");
	assert_client_got(f, "$1\r\n1\r\n");
	node_sends(f, 0, "i\r\n");
	assert_client_got(f, MESSAGE(">"));
}

TEST(an_invalidation_comes_again_after_a_reply_that_waited)
{
	assert_passes(f, 0, HELLO_3, 0, "%0\r\n");
	assert_passes(f, 0, TRACKING, 0, "+OK\r\n");
	client_sends(f, GET_FOO GET_BAR, 0);
	assert_node_got(f, 1, HELLO_3);
	node_sends(f, 1, "%0\r\n");
	assert_node_got(f, 1, TRACKING);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, GET_FOO);
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 0, INVALIDATED("baz") "$1\r\n2\r\n" INVALIDATED("bar"));
	assert_client_got(f, INVALIDATED("baz") INVALIDATED("bar"));
	node_sends(f, 1, "$1\r\n1\r\n");
	assert_client_got(f, "$1\r\n1\r\n$1\r\n2\r\n" INVALIDATED("bar"));
	node_sends(f, 0, INVALIDATED("bar"));
	assert_client_got(f, INVALIDATED("bar"));
}

/* The old node would report a key that moves, but not one that was created at the new node. */
TEST(when_a_slot_moves_a_client_drops_all_that_it_has_cached)
{
	assert_passes(f, 0, HELLO_3, 0, "%0\r\n");
	assert_passes(f, 0, TRACKING, 0, "+OK\r\n");
	client_sends(f, GET_BAR, 0);
	assert_node_got(f, 0, GET_BAR);
	node_takes_over(f, SPARE, 1);
	assert_client_got(f, FORGET);
	node_sends(f, 0, "_\r\n");
	assert_client_got(f, "_\r\n" FORGET);
	assert_passes(f, 0, GET_BAR, 0, "_\r\n");
}

TEST(shard_channels_are_at_their_slots_nodes)
{
	client_sends(f, SSUBSCRIBE_FOO, 0);
	assert_node_got(f, 1, SSUBSCRIBE_FOO);
	node_sends(f, 1, SACK("foo", "1"));
	client_sends(f, SSUBSCRIBE_BAR "*3\r\n$10\r\nSSUBSCRIBE\r\n$3\r\nfoo\r\n$3\r\nbar\r\n",
	             0);
	assert_node_got(f, 0, SSUBSCRIBE_BAR);
	node_sends(f, 0, SACK("bar", "1"));
	assert_client_got(
		f, SACK("foo", "1") SACK(
			   "bar",
			   "2") "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
	client_sends(f, SUNSUBSCRIBE, 0);
	assert_node_got(f, 0, SUNSUBSCRIBE);
	assert_node_got(f, 1, SUNSUBSCRIBE);
	node_sends(f, 0, SUNACK("bar", "0"));
	node_sends(f, 1, SUNACK("foo", "0"));
	assert_client_got(f, SUNACK("foo", "1") SUNACK("bar", "0"));
	client_sends(f, GET_FOO, 0);
	assert_node_got(f, 1, GET_FOO);
}

TEST(an_acknowledgement_without_a_number_is_passed_as_it_is)
{
	static const char strange[] = "*3\r\n$10\r\nssubscribe\r\n$3\r\nfoo\r\n$1\r\n1\r\n";

	client_sends(f, SSUBSCRIBE_FOO, 0);
	assert_node_got(f, 1, SSUBSCRIBE_FOO);
	node_sends(f, 1, strange);
	assert_client_got(f, strange);
	client_sends(f, GET_FOO, 0);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, "$-1\r\n");
	assert_client_got(f, "$-1\r\n");
}

/* Sends the frames in pieces of every size. */
static void node_sends_bytes(struct cluster_fixture *f, size_t node, const char *frames)
{
	for (; *frames; frames++) {
		node_sends(f, node, (const char[]){ *frames, '\0' });
		turn_loop(f);
	}
}

static void every_node_gets(struct cluster_fixture *f, const char *request)
{
	client_sends(f, request, 0);
	for (size_t i = 0; i < SPARE; i++)
		assert_node_got(f, i, request);
}

TEST(keyspace_notifications_are_subscribed_at_every_node)
{
	every_node_gets(f, SUBSCRIBE_EVENTS);
	client_sends(f, PING, 0);
	node_sends_bytes(f, 0, EVENTS_ACK EVENT("k"));
	assert_client_got(f, "");
	node_sends_bytes(f, 1, EVENTS_ACK EVENT("l"));
	assert_client_got(f, EVENTS_ACK EVENT("k") EVENT("l"));
	assert_node_got(f, 0, PING);
	node_sends(f, 0, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
	assert_client_got(f, "*2\r\n$4\r\npong\r\n$0\r\n\r\n");
	/* Every node publishes notifications. */
	node_sends_bytes(f, 1, MESSAGE("*") PMESSAGE EVENT("m") PEVENT);
	assert_client_got(f, EVENT("m") PEVENT);
	node_sends_bytes(f, 0, MESSAGE("*") PMESSAGE EVENT("m") PEVENT);
	assert_client_got(f, MESSAGE("*") PMESSAGE EVENT("m") PEVENT);
	every_node_gets(f, UNSUBSCRIBE);
	client_sends(f, GET_FOO, 0);
	node_sends_bytes(f, 1, EVENT("n"));
	node_sends_bytes(f, 0, EVENTS_UNACK);
	node_sends_bytes(f, 1, EVENT("o") EVENTS_UNACK);
	assert_client_got(f, EVENT("n") EVENTS_UNACK);
	assert_node_got(f, 1, GET_FOO);
}

TEST(notifications_that_come_before_the_reply_to_reset_precede_it)
{
	every_node_gets(f, SUBSCRIBE_EVENTS);
	node_sends(f, 0, EVENTS_ACK);
	node_sends(f, 1, EVENTS_ACK);
	assert_client_got(f, EVENTS_ACK);
	client_sends(f, RESET GET_FOO, 0);
	assert_node_got(f, 0, RESET);
	node_sends(f, 0, EVENT("k"));
	node_sends(f, 1, EVENT("l"));
	node_sends(f, 0, "+RESET\r\n");
	assert_client_got(f, EVENT("k") EVENT("l") "+RESET\r\n");
	node_hangs_up(f, 1);
	assert_node_got(f, 1, GET_FOO);
}

TEST(a_subscription_that_all_nodes_refuse_is_refused)
{
	every_node_gets(f, SUBSCRIBE_EVENTS);
	client_sends(f, GET_FOO, 0);
	node_sends(f, 1, "-NOPERM b\r\n");
	node_sends(f, 0, "-NOPERM a\r\n");
	assert_client_got(f, "-NOPERM a\r\n");
	assert_node_got(f, 1, GET_FOO);
	assert_int_equal(f->ndown, 0);
}

TEST(a_subscription_that_one_node_refuses_ends_the_link)
{
	every_node_gets(f, SUBSCRIBE_EVENTS);
	node_sends(f, 1, "-NOPERM b\r\n");
	node_sends(f, 0, EVENTS_ACK);
	turn_loop(f);
	assert_client_got(f, "");
	assert_int_equal(f->ndown, 1);
}

/* The client must notice the loss and subscribe again. */
TEST(subscriptions_that_are_lost_end_the_link)
{
	assert_passes(f, 0, SUBSCRIBE, 0, ACK("*", "1", "a", "1") ACK("*", "1", "b", "2"));
	node_hangs_up(f, 0);
	turn_loop(f);
	assert_int_equal(f->ndown, 1);
}
