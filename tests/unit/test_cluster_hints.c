/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of redirections that a script may have forged.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(cluster_set_up, cluster_tear_down);

#define TRYAGAIN "-TRYAGAIN Multiple keys request\r\n"
#define MOVED_FOO "-MOVED 12182 127.0.0.1:7002\r\n"
#define ASK_FOO "-ASK 12182 127.0.0.1:7002\r\n"
#define EVAL_FOO "*4\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n1\r\n$3\r\nfoo\r\n"
#define DOWN "-CLUSTERDOWN The cluster is down\r\n"

/* A script made this error: the node does serve the slot. */
TEST(a_script_s_redirection_is_its_reply)
{
	static const char *const errors[] = { MOVED_FOO, ASK_FOO, TRYAGAIN, DOWN };

	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		client_sends(f, EVAL_FOO, 1);
		assert_node_got(f, 1, EVAL_FOO);
		node_sends(f, 1, errors[i]);
		/* The next request waits until hasp knows whether the slot has moved. */
		client_sends(f, GET_BAR, 1);
		time_passes(f, 1);
		assert_node_got_nothing(f, 0);
		assert_client_got(f, "");
		node_is_asked(f, 1, false);
		assert_client_got(f, errors[i]);
		assert_node_got(f, 0, GET_BAR);
		node_sends(f, 0, ":1\r\n");
		assert_client_got(f, ":1\r\n");
		assert_node_got_nothing(f, 1);
		assert_node_got_nothing(f, SPARE);
	}
	/* Other requests still go to the same node, in the same way. */
	assert_passes(f, 1, GET_FOO, 1, ":2\r\n");
	assert_false(slot_map_is_migrating(&f->map, 12182));
}

/* No node redirects a request without a key, or to a slot that none of its keys has. */
TEST(what_no_node_says_is_a_script_s_reply_at_once)
{
	static const char keyless[] = "*3\r\n$4\r\nEVAL\r\n$8\r\nreturn 1\r\n$1\r\n0\r\n";

	assert_passes(f, 1, EVAL_FOO, 1, "-MOVED 12183 127.0.0.1:7002\r\n");
	assert_passes(f, 1, EVAL_FOO, 1, "-ASK 12183 127.0.0.1:7002\r\n");
	assert_passes(f, 1, EVAL_FOO, 1, "-MOVED\r\n");
	assert_passes(f, 0, keyless, 1, MOVED_FOO);
	assert_passes(f, 0, keyless, 1, DOWN);
	assert_null(f->unverified);
}

TEST(a_script_is_sent_again_when_the_map_says_that_its_slot_has_moved)
{
	client_sends(f, EVAL_FOO, 1);
	assert_node_got(f, 1, EVAL_FOO);
	node_sends(f, 1, "-MOVED 12182 127.0.0.1:9999\r\n");
	slot_map_move(&f->map, 12182, &f->nodes[SPARE].node);
	node_is_asked(f, 1, false);
	assert_node_got(f, SPARE, EVAL_FOO);
	node_sends(f, SPARE, ":1\r\n");
	assert_client_got(f, ":1\r\n");
}

TEST(a_script_is_asked_of_the_node_that_gets_its_slot)
{
	client_sends(f, EVAL_FOO, 1);
	assert_node_got(f, 1, EVAL_FOO);
	node_sends(f, 1, ASK_FOO);
	slot_map_note_migrating(&f->map, 12182);
	node_is_asked(f, 1, false);
	assert_node_got(f, SPARE, ASKING EVAL_FOO);
	node_sends(f, SPARE, "+OK\r\n" TRYAGAIN);
	node_is_asked(f, SPARE, false);
	time_passes(f, 0.1);
	assert_node_got(f, 1, EVAL_FOO);
	node_sends(f, 1, "-ASK 12182 127.0.0.1:9999\r\n");
	/* The map does not have that node. */
	node_is_asked(f, 1, false);
	assert_client_got(f, "-ASK 12182 127.0.0.1:9999\r\n");
}

TEST(a_script_waits_while_the_cluster_is_down)
{
	client_sends(f, EVAL_FOO, 1);
	assert_node_got(f, 1, EVAL_FOO);
	for (int i = 0; i < 2; i++) {
		node_sends(f, 1, DOWN);
		node_is_asked(f, 1, true);
		assert_node_got_nothing(f, 1);
		time_passes(f, 0.1);
		assert_node_got(f, 1, EVAL_FOO);
	}
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n");
}

TEST(a_hint_waits_for_an_answer_that_was_asked_for_since)
{
	client_sends(f, EVAL_FOO, 1);
	assert_node_got(f, 1, EVAL_FOO);
	node_sends(f, 1, MOVED_FOO);
	cluster_node_answered(f->cluster, &f->nodes[1].node, f->nverified - 1, false);
	cluster_node_answered(f->cluster, &f->nodes[0].node, f->nverified, false);
	turn_loop(f);
	assert_client_got(f, "");
	time_passes(f, 10);
	assert_client_got(f, MOVED_FOO);
}

TEST(a_hint_of_a_node_that_leaves_the_map_is_true)
{
	client_sends(f, EVAL_FOO, 1);
	assert_node_got(f, 1, EVAL_FOO);
	node_sends(f, 1, MOVED_FOO);
	cluster_forget_node(f->cluster, &f->nodes[1].node);
	node_takes_over(f, SPARE, 1);
	assert_node_got(f, SPARE, EVAL_FOO);
	node_sends(f, SPARE, ":1\r\n");
	assert_client_got(f, ":1\r\n");
}

TEST(a_hint_that_is_overtaken_is_the_reply)
{
	client_sends(f, EVAL_FOO, 1);
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, EVAL_FOO);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, MOVED_FOO ":1\r\n");
	assert_client_got(f, MOVED_FOO ":1\r\n");
}

TEST(a_node_that_is_named_for_the_first_time_is_looked_for_in_the_map)
{
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, "-MOVED 12182 127.0.0.1:9999\r\n");
	assert_ptr_equal(f->unverified, &f->nodes[1].node);
	assert_node_got_nothing(f, 1);
	slot_map_move(&f->map, 12182, &f->nodes[SPARE].node);
	node_is_asked(f, 1, false);
	assert_node_got(f, SPARE, GET_FOO);
	node_sends(f, SPARE, ":1\r\n");
	assert_client_got(f, ":1\r\n");
}
