/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of replies that arrive before the first one, for which node 0 is slow:
 * client_output_limit bounds their bytes.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"
#include "upstream/slot.h"

FIXTURE(cluster_set_up, cluster_tear_down);

#define NREPLIES 40
#define VALUE_SIZE ((size_t)65536)
#define LIMIT ((size_t)256 * 1024)
#define PROOF "*1\r\n$8\r\nREPLCONF\r\n"
#define NAME "*3\r\n$6\r\nCLIENT\r\n$7\r\nSETNAME\r\n$1\r\nx\r\n"
#define MGET_BAR "*2\r\n$4\r\nMGET\r\n$3\r\nbar\r\n"
#define MGET_FOO "*2\r\n$4\r\nMGET\r\n$3\r\nfoo\r\n"
#define MGET_FOO_BAR "*3\r\n$4\r\nMGET\r\n$3\r\nfoo\r\n$3\r\nbar\r\n"
#define GET_SPARE "*2\r\n$3\r\nGET\r\n$5\r\nspare\r\n"
#define OVER "replies that must wait for other nodes' replies exceed client_output_limit"

/* Returns `text` once for each reply; the caller frees it. */
static char *repeated(const char *text)
{
	size_t n = strlen(text);
	char *all = malloc(NREPLIES * n + 1);

	for (size_t i = 0; i < NREPLIES; i++)
		memcpy(all + i * n, text, n + 1);
	return all;
}

static struct buf replies_of_node_1(void)
{
	struct buf all = BUF_INIT;

	for (size_t i = 0; i < NREPLIES; i++) {
		buf_printf(&all, "$%zu\r\n", VALUE_SIZE);
		memset(buf_reserve(&all, VALUE_SIZE), 'x', VALUE_SIZE);
		buf_added(&all, VALUE_SIZE);
		buf_puts(&all, "\r\n");
	}
	return all;
}

/* The node sends as many of the bytes as the session reads. */
static void sends_on(struct cluster_fixture *f, size_t node, struct buf *bytes)
{
	ssize_t n = 1;

	while (n > 0 && buf_len(bytes)) {
		n = send(f->nodes[node].fd, buf_head(bytes), buf_len(bytes),
		         MSG_NOSIGNAL | MSG_DONTWAIT);
		if (n > 0)
			buf_consume(bytes, (size_t)n);
		turn_loop(f);
	}
}

/* The link ends while the node sends the bytes. */
static void assert_exceeds_limit(struct cluster_fixture *f, size_t node, struct buf *bytes)
{
	time_t began = time(NULL);

	while (!f->ndown) {
		sends_on(f, node, bytes);
		nap(f, began);
	}
	assert_string_equal(f->reason, OVER);
}

/* The client sends many requests to node 1, which answers. Returns the replies that node 1
 * could not send. */
static struct buf node_1_answers(struct cluster_fixture *f)
{
	struct buf bytes = replies_of_node_1();
	char *requests = repeated(GET_FOO);

	cluster_set_limits(f->cluster, 10000, LIMIT);
	client_sends(f, requests, NREPLIES);
	assert_node_got(f, 1, requests);
	free(requests);
	sends_on(f, 1, &bytes);
	return bytes;
}

/* As node_1_answers(), after a request to node 0. */
static struct buf run_ahead(struct cluster_fixture *f)
{
	client_sends(f, GET_BAR, 1);
	assert_node_got(f, 0, GET_BAR);
	return node_1_answers(f);
}

/* As node_1_answers(), after a command that is split. Node 1 has answered its part. */
static struct buf run_ahead_of_a_split_command(struct cluster_fixture *f)
{
	client_sends(f, MGET_FOO_BAR, 1);
	assert_node_got(f, 0, MGET_BAR);
	assert_node_got(f, 1, MGET_FOO);
	node_sends(f, 1, "*1\r\n$3\r\nfoo\r\n");
	return node_1_answers(f);
}

/* Node 1 sends the rest, and the client gets `first` and then all replies of node 1. */
static void assert_client_gets_all(struct cluster_fixture *f, const char *first,
                                   struct buf *rest)
{
	struct buf expected = BUF_INIT, all = replies_of_node_1();

	while (buf_len(rest) && !f->ndown)
		sends_on(f, 1, rest);
	buf_puts(&expected, first);
	buf_append(&expected, buf_slice(&all));
	buf_append(&expected, SLICE_LIT("\0"));
	assert_client_got(f, buf_head(&expected));
	buf_release(&expected);
	buf_release(&all);
	buf_release(rest);
}

/* Node 1 could send less than half of its replies. Then node 0 answers. */
static void node_0_answers(struct cluster_fixture *f, struct buf *rest)
{
	assert_true(buf_len(rest) > NREPLIES * VALUE_SIZE / 2);
	assert_int_equal(f->ndown, 0);
	node_sends(f, 0, ":1\r\n");
	assert_client_gets_all(f, ":1\r\n", rest);
}

TEST(a_link_of_its_own_is_read_no_further)
{
	struct buf rest = run_ahead(f);

	node_0_answers(f, &rest);
}

/* Node 0 must answer the session's command before it gets the first request. */
TEST(a_link_that_still_opens_is_read_on)
{
	struct buf rest = replies_of_node_1();
	char *requests = repeated(GET_FOO);

	f->nodes[0].health = NODE_UNSURE;
	assert_passes(f, 1, NAME, 1, "+OK\r\n");
	cluster_set_limits(f->cluster, 10000, LIMIT);
	client_sends(f, GET_BAR, 1);
	client_sends(f, requests, NREPLIES);
	assert_node_got(f, 0, NAME);
	assert_node_got(f, 1, requests);
	sends_on(f, 1, &rest);
	node_sends(f, 0, "+OK\r\n");
	assert_node_got(f, 0, GET_BAR);
	node_0_answers(f, &rest);
	free(requests);
}

/* If hasp did not read the answer to the session's command, it would take the node for one that
 * does not answer. */
TEST(a_link_that_still_opens_is_read_on_for_a_later_request_too)
{
	struct buf rest;

	slot_map_move(&f->map, slot_of_key(SLICE_LIT("spare")), &f->nodes[SPARE].node);
	assert_passes(f, 0, NAME, 1, "+OK\r\n");
	client_sends(f, GET_FOO, 1);
	assert_node_got(f, 1, NAME);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 1, ":0\r\n");
	assert_client_got(f, ":0\r\n");
	client_sends(f, GET_BAR GET_SPARE, 2);
	assert_node_got(f, SPARE, NAME);
	assert_node_got(f, 0, GET_BAR);
	rest = node_1_answers(f);
	assert_true(buf_len(&rest) > NREPLIES * VALUE_SIZE / 2);
	node_sends(f, SPARE, "+OK\r\n");
	assert_node_got(f, SPARE, GET_SPARE);
	node_sends(f, 0, ":1\r\n");
	node_sends(f, SPARE, ":2\r\n");
	assert_client_gets_all(f, ":1\r\n:2\r\n", &rest);
}

TEST(a_client_that_does_not_read_holds_its_node_up)
{
	struct buf rest = replies_of_node_1();
	char *requests = repeated(GET_FOO);

	client_sends(f, requests, NREPLIES);
	assert_node_got(f, 1, requests);
	link_pause(f->link);
	sends_on(f, 1, &rest);
	assert_true(buf_len(&rest) > NREPLIES * VALUE_SIZE / 2);
	assert_int_equal(buf_len(&f->bytes), 0);
	link_resume(f->link);
	assert_client_gets_all(f, "", &rest);
	free(requests);
}

TEST(a_first_reply_that_comes_behind_too_much_ends_the_link)
{
	struct buf rest = run_ahead(f);

	node_sends(f, 0, "-MOVED 5061 127.0.0.1:7001\r\n");
	assert_exceeds_limit(f, 1, &rest);
	buf_release(&rest);
}

TEST(a_split_command_ends_though_later_replies_reach_the_limit)
{
	struct buf rest = run_ahead_of_a_split_command(f);

	assert_true(buf_len(&rest) > NREPLIES * VALUE_SIZE / 2);
	node_sends(f, 0, "*1\r\n$3\r\nbar\r\n");
	assert_client_gets_all(f, "*2\r\n$3\r\nfoo\r\n$3\r\nbar\r\n", &rest);
}

TEST(a_split_command_whose_own_reply_exceeds_the_limit_ends_the_link)
{
	struct buf rest = run_ahead_of_a_split_command(f);
	struct buf value = BUF_INIT;

	buf_printf(&value, "*1\r\n$%zu\r\n", 2 * LIMIT);
	memset(buf_reserve(&value, LIMIT), 'x', LIMIT);
	buf_added(&value, LIMIT);
	assert_exceeds_limit(f, 0, &value);
	buf_release(&value);
	buf_release(&rest);
}

CLUSTER_TEST_SHARED(over_a_shared_link_so_much_ends_the_session)
{
	struct buf bytes = replies_of_node_1();
	char *requests = repeated(GET_FOO);

	client_sends(f, GET_BAR, 1);
	client_sends(f, requests, NREPLIES);
	assert_node_got(f, 0, PROOF);
	assert_node_got(f, 1, PROOF);
	node_sends(f, 0, "+OK\r\n");
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, requests);
	cluster_set_limits(f->cluster, 10000, LIMIT);
	assert_exceeds_limit(f, 1, &bytes);
	free(requests);
	buf_release(&bytes);
}

/* At first, hasp does not know how long replies are. */
CLUSTER_TEST_SHARED(over_shared_links_little_is_asked_for_at_first)
{
	char *requests = repeated(GET_FOO);
	size_t first = 20;

	cluster_set_limits(f->cluster, 10000, first * 256 * 1024);
	client_sends(f, requests, NREPLIES);
	assert_node_got(f, 1, PROOF);
	node_sends(f, 1, "+OK\r\n");
	assert_node_got(f, 1, requests + (NREPLIES - first) * strlen(GET_FOO));
	assert_node_got_nothing(f, 1);
	node_sends(f, 1, ":1\r\n");
	assert_client_got(f, ":1\r\n");
	assert_node_got(f, 1, GET_FOO);
	free(requests);
}
