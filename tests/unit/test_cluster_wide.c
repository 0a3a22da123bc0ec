/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of requests for several nodes of a cluster: the part for each node, and the single
 * reply.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/scan_cursor.h"
#include "resp/write.h"
#include "tests/unit/cluster_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(cluster_set_up, cluster_tear_down);

/* Returns a request of these words, which stays valid for the next three calls. */
static const char *req(const char *words)
{
	static struct buf texts[4];
	static unsigned next;
	struct buf *out = &texts[next++ % 4];
	struct slice argv[16], rest = slice_str(words), word;
	size_t n = 0;

	while (slice_cut(&rest, ' ', &word))
		argv[n++] = word;
	buf_clear(out);
	resp_write_request(out, argv, n);
	buf_append(out, slice_of("", 1));
	return buf_head(out);
}

TEST(values_are_asked_of_each_slots_node)
{
	client_sends(f, req("MGET foo bar {foo}2 a"), 1);
	assert_node_got(f, 0, req("MGET bar"));
	assert_node_got(f, 1, req("MGET foo {foo}2"));
	assert_node_got(f, 1, req("MGET a"));
	node_sends(f, 1, "*2\r\n$1\r\n1\r\n$-1\r\n");
	assert_client_got(f, "");
	node_sends(f, 0, "*1\r\n$1\r\n2\r\n");
	node_sends(f, 1, "*1\r\n$1\r\n4\r\n");
	assert_client_got(f, "*4\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n$1\r\n4\r\n");
}

TEST(pairs_and_counts_are_split_too)
{
	client_sends(f, req("MSET foo 1 bar 2"), 1);
	client_sends(f, req("DEL bar foo"), 1);
	assert_node_got(f, 0, req("MSET bar 2"));
	assert_node_got(f, 0, req("DEL bar"));
	assert_node_got(f, 1, req("MSET foo 1"));
	assert_node_got(f, 1, req("DEL foo"));
	node_sends(f, 0, "+OK\r\n:1\r\n");
	node_sends(f, 1, "+OK\r\n:1\r\n");
	assert_client_got(f, "+OK\r\n:2\r\n");
}

TEST(long_pairs_are_split_too)
{
	enum { N = 30000 };
	static char value[N + 1], text[2 * N + 128], one[N + 128];

	memset(value, 'x', N);
	snprintf(text, sizeof(text),
	         "*5\r\n$4\r\nMSET\r\n$3\r\nfoo\r\n$%d\r\n%s\r\n$3\r\nbar\r\n$%d\r\n%s\r\n", N,
	         value, N, value);
	client_sends_bytes(f, slice_of(text, 25000), 1);
	turn_loop(f);
	client_sends(f, text + 25000, 0);
	snprintf(one, sizeof(one), "*3\r\n$4\r\nMSET\r\n$3\r\nbar\r\n$%d\r\n%s\r\n", N, value);
	assert_node_got(f, 0, one);
	memcpy(strstr(one, "bar"), "foo", 3);
	assert_node_got(f, 1, one);
	node_sends(f, 0, "+OK\r\n");
	node_sends(f, 1, "+OK\r\n");
	assert_client_got(f, "+OK\r\n");
}

TEST(the_first_error_is_the_reply)
{
	client_sends(f, req("EXISTS foo bar a"), 1);
	client_sends(f, GET_BAR, 1);
	assert_node_got(f, 1, req("EXISTS foo"));
	assert_node_got(f, 1, req("EXISTS a"));
	assert_node_got(f, 0, req("EXISTS bar"));
	assert_node_got(f, 0, GET_BAR);
	node_sends(f, 1, ":1\r\n-NOPERM a\r\n");
	node_sends(f, 0, "-NOPERM bar\r\n$1\r\n9\r\n");
	assert_client_got(f, "-NOPERM bar\r\n$1\r\n9\r\n");
}

TEST(a_part_that_is_redirected_is_sent_again)
{
	client_sends(f, req("TOUCH foo bar"), 1);
	assert_node_got(f, 0, req("TOUCH bar"));
	assert_node_got(f, 1, req("TOUCH foo"));
	node_sends(f, 0, "-MOVED 5061 127.0.0.1:7002\r\n");
	node_sends(f, 1, ":1\r\n");
	assert_node_got(f, 2, req("TOUCH bar"));
	node_sends(f, 2, ":1\r\n");
	assert_client_got(f, ":2\r\n");
}

TEST(what_redis_would_refuse_one_node_refuses)
{
	client_sends(f, req("MSET foo 1 bar"), 1);
	assert_node_got(f, 1, req("MSET foo 1 foo"));
	node_sends(f, 1, "-ERR wrong number of arguments for 'mset' command\r\n");
	assert_client_got(f, "-ERR wrong number of arguments for 'mset' command\r\n");
	client_sends(f, req("RENAME foo bar"), 1);
	assert_client_got(f, "-CROSSSLOT Keys in request don't hash to the same slot\r\n");
}

/* If a node refuses the transaction, FLUSHALL must not run before it. */
TEST(what_is_for_all_primaries_comes_behind_a_transaction)
{
	/* A key of slot 0, and a key of a later slot. */
	static const char *const gets[] = { "GET 06S", "GET foo" };

	for (size_t i = 0; i < 2; i++) {
		client_sends(f, req("MULTI"), 1);
		client_sends(f, req(gets[i]), 1);
		client_sends(f, req("EXEC"), 1);
		client_sends(f, req("FLUSHALL"), 1);
		assert_node_got(f, i, req("MULTI"));
		assert_node_got(f, i, req(gets[i]));
		assert_node_got(f, i, req("EXEC"));
		assert_node_got_nothing(f, i);
		node_sends(f, i, "+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n");
		for (size_t node = 0; node < 2; node++) {
			assert_node_got(f, node, req("FLUSHALL"));
			node_sends(f, node, "+OK\r\n");
		}
		assert_client_got(f, "+OK\r\n+QUEUED\r\n*1\r\n$-1\r\n+OK\r\n");
	}
}

TEST(all_primaries_are_asked)
{
	client_sends(f, req("DBSIZE"), 1);
	client_sends(f, req("KEYS *"), 1);
	client_sends(f, req("FLUSHALL"), 1);
	for (size_t i = 0; i < 2; i++) {
		assert_node_got(f, i, req("DBSIZE"));
		assert_node_got(f, i, req("KEYS *"));
		assert_node_got(f, i, req("FLUSHALL"));
	}
	node_sends(f, 0, ":2\r\n*1\r\n$3\r\nbar\r\n+OK\r\n");
	node_sends(f, 1, ":3\r\n*1\r\n$3\r\nfoo\r\n+OK\r\n");
	assert_client_got(f, ":5\r\n*2\r\n$3\r\nbar\r\n$3\r\nfoo\r\n+OK\r\n");
	assert_node_got_nothing(f, SPARE);
}

/* Makes all slots belong to no node, or to the nodes 0 and 1, and reports the new map. */
static void set_nodes_known(struct cluster_fixture *f, bool known)
{
	for (unsigned slot = 0; slot < SLOTS; slot++)
		slot_map_move(&f->map, slot, known ? &f->nodes[slot >= SLOTS / 2].node : NULL);
	cluster_map_changed(f->cluster);
}

TEST(all_primaries_are_asked_when_they_are_known)
{
	set_nodes_known(f, false);
	client_sends(f, req("SCRIPT FLUSH"), 1);
	time_passes(f, 1);
	assert_node_got_nothing(f, 0);
	assert_true(f->nrefreshed > 0);
	set_nodes_known(f, true);
	time_passes(f, 1);
	for (size_t i = 0; i < 2; i++) {
		assert_node_got(f, i, req("SCRIPT FLUSH"));
		node_sends(f, i, "+OK\r\n");
	}
	assert_client_got(f, "+OK\r\n");
}

/* The client sends a KEYS in two pieces, of which the session gathers the first. Returns the
 * whole request. */
static const char *send_long_keys(struct cluster_fixture *f)
{
	static char text[30000];
	int n = snprintf(text, sizeof(text), "*2\r\n$4\r\nKEYS\r\n$20000\r\n%020000d\r\n", 0);

	client_sends_bytes(f, slice_of(text, 18000), 1);
	turn_loop(f);
	client_sends_bytes(f, slice_of(text + 18000, (size_t)n - 18000), 0);
	return text;
}

static void assert_fails_without_map(struct cluster_fixture *f)
{
	for (int i = 0; i < 12; i++)
		time_passes(f, 1);
	assert_client_got(
		f, "-ERR hasp: no primary for commands to all nodes: hasp knows no node\r\n");
}

/* The session gathers a long request, and has it when no primary is known yet. */
TEST(a_long_command_to_all_primaries_waits_until_they_are_known)
{
	const char *text;

	set_nodes_known(f, false);
	text = send_long_keys(f);
	client_sends(f, GET_FOO, 1);
	time_passes(f, 1);
	assert_client_got(f, "");
	set_nodes_known(f, true);
	time_passes(f, 1);
	assert_node_got(f, 0, text);
	assert_node_got(f, 1, text);
	assert_node_got(f, 1, GET_FOO);
	node_sends(f, 0, "*1\r\n$3\r\nbar\r\n");
	node_sends(f, 1, "*0\r\n$1\r\n1\r\n");
	assert_client_got(f, "*1\r\n$3\r\nbar\r\n$1\r\n1\r\n");
}

TEST(a_long_command_to_all_primaries_fails_without_a_map)
{
	set_nodes_known(f, false);
	(void)send_long_keys(f);
	assert_fails_without_map(f);
}

TEST(without_a_map_a_command_to_all_primaries_fails)
{
	set_nodes_known(f, false);
	client_sends(f, req("SCRIPT FLUSH"), 1);
	assert_fails_without_map(f);
	assert_node_got_nothing(f, 0);
}

TEST(a_replica_that_takes_over_is_asked_instead)
{
	node_vanishes(f, 0);
	client_sends(f, req("SCRIPT EXISTS a b"), 1);
	assert_node_got(f, 1, req("SCRIPT EXISTS a b"));
	node_sends(f, 1, "*2\r\n:1\r\n:1\r\n");
	turn_loop(f);
	node_takes_over(f, SPARE, 0);
	assert_node_got(f, SPARE, req("SCRIPT EXISTS a b"));
	node_sends(f, SPARE, "*2\r\n:0\r\n:1\r\n");
	assert_client_got(f, "*2\r\n:0\r\n:1\r\n");
}

/* Sends WAIT after a write to each node, because WAIT covers the writes of its own
 * connection. */
static void send_wait(struct cluster_fixture *f)
{
	client_sends(f, req("WAIT 1 100"), 1);
	for (unsigned i = 0; i < 2; i++) {
		struct slice tag = slot_tag((uint16_t)(i * (SLOTS / 2)));
		char words[64];

		snprintf(words, sizeof(words), "SET hasp:ack{%.*s} 1 PX 60000", (int)tag.n,
		         tag.p);
		assert_node_got(f, i, req(words));
		snprintf(words, sizeof(words), "DEL hasp:ack{%.*s}", (int)tag.n, tag.p);
		assert_node_got(f, i, req(words));
		assert_node_got(f, i, req("WAIT 1 100"));
	}
}

TEST(wait_speaks_of_what_was_written_everywhere)
{
	send_wait(f);
	node_sends(f, 0, "+OK\r\n:1\r\n:2\r\n");
	node_sends(f, 1, "+OK\r\n:1\r\n:1\r\n");
	assert_client_got(f, ":1\r\n");
}

TEST(wait_tells_no_number_if_a_node_refuses_the_write_before_it)
{
	send_wait(f);
	node_sends(f, 0, "+OK\r\n:1\r\n:2\r\n");
	node_sends(f, 1, "-NOPERM no\r\n:0\r\n:2\r\n");
	assert_client_got(f, "-ERR hasp: WAIT cannot cover earlier writes: a node refused to "
	                     "SET hasp:ack{...}\r\n");
}

TEST(a_key_is_found_at_any_node)
{
	client_sends(f, req("RANDOMKEY"), 1);
	for (size_t i = 0; i < 2; i++)
		assert_node_got(f, i, req("RANDOMKEY"));
	node_sends(f, 0, "$-1\r\n");
	node_sends(f, 1, "$3\r\nfoo\r\n");
	assert_client_got(f, "$3\r\nfoo\r\n");
}

TEST(replies_that_are_kept_count)
{
	size_t asked;

	client_sends(f, req("KEYS *"), 1);
	assert_node_got(f, 0, req("KEYS *"));
	assert_node_got(f, 1, req("KEYS *"));
	asked = link_user_nbytes(&f->user);
	node_sends(f, 0, "*1\r\n$100\r\n");
	for (size_t i = 0; i < 10; i++)
		node_sends(f, 0, "0123456789");
	assert_true(link_user_nbytes(&f->user) >= asked + 100);
	node_sends(f, 0, "\r\n");
	node_sends(f, 1, "*0\r\n");
	turn_loop(f);
	buf_clear(&f->bytes);
	assert_true(link_user_nbytes(&f->user) <= asked);
}

TEST(replies_that_are_too_long_end_the_link)
{
	cluster_set_limits(f->cluster, 10000, 64);
	client_sends(f, req("KEYS *"), 1);
	assert_node_got(f, 0, req("KEYS *"));
	node_sends(f, 0, "*1\r\n$100\r\n");
	for (size_t i = 0; i < 10 && !f->ndown; i++)
		node_sends(f, 0, "0123456789");
	assert_int_equal(f->ndown, 1);
}

/* --- SCAN --- */

/* Returns the cursor that the client gets for the node's cursor `at`. */
static unsigned long long cursor(uint64_t at, unsigned slot, size_t node)
{
	char address[32];

	snprintf(address, sizeof(address), "127.0.0.1:%zu", 7000 + node);
	return at << 20 | (unsigned long long)scan_cursor_mark(slice_str(address)) << 14 | slot;
}

static const char *scan_of(unsigned long long v)
{
	char words[64];

	snprintf(words, sizeof(words), "SCAN %llu COUNT 5", v);
	return req(words);
}

static void assert_scanned(struct cluster_fixture *f, unsigned long long v)
{
	char digits[32], text[96];

	snprintf(digits, sizeof(digits), "%llu", v);
	snprintf(text, sizeof(text), "*2\r\n$%zu\r\n%s\r\n*1\r\n$1\r\nk\r\n", strlen(digits),
	         digits);
	assert_client_got(f, text);
}

TEST(scan_goes_through_the_nodes_one_by_one)
{
	client_sends(f, scan_of(0), 1);
	assert_node_got(f, 0, scan_of(0));
	node_sends(f, 0, "*2\r\n$2\r\n17\r\n*1\r\n$1\r\nk\r\n");
	assert_scanned(f, cursor(17, 0, 0));
	client_sends(f, scan_of(cursor(17, 0, 0)), 1);
	assert_node_got(f, 0, scan_of(17));
	node_sends(f, 0, "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n");
	assert_scanned(f, cursor(0, SLOTS / 2, 1));
	client_sends(f, scan_of(cursor(0, SLOTS / 2, 1)), 1);
	assert_node_got(f, 1, scan_of(0));
	node_sends(f, 1, "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n");
	assert_scanned(f, 0);
}

TEST(another_server_is_scanned_from_its_beginning)
{
	node_takes_over(f, SPARE, 0);
	client_sends(f, scan_of(cursor(17, 0, 0)), 1);
	assert_node_got(f, SPARE, scan_of(0));
	node_sends(f, SPARE, "*2\r\n$1\r\n3\r\n*1\r\n$1\r\nk\r\n");
	assert_scanned(f, cursor(3, 0, SPARE));
}

/* hasp sent the cursor while another node served the slot. */
TEST(one_that_takes_over_meanwhile_is_begun_anew)
{
	node_vanishes(f, 0);
	client_sends(f, scan_of(cursor(17, 0, 0)), 1);
	turn_loop(f);
	node_takes_over(f, SPARE, 0);
	assert_node_got(f, SPARE, scan_of(17));
	node_sends(f, SPARE, "*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n");
	assert_scanned(f, cursor(0, 0, SPARE));
}

TEST(what_is_no_cursor_redis_refuses)
{
	assert_passes(f, 0, req("SCAN x"), 1, "-ERR invalid cursor\r\n");
	assert_passes(f, 0, req("SCAN 0 COUNT x"), 1,
	              "-ERR value is not an integer or out of range\r\n");
}
