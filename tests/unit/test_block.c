/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of transactions in front of a cluster: which commands hasp answers at once, and which
 * node gets the others.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "cluster/block.h"
#include "resp/write.h"
#include "tests/unit/testing.h"
#include "tests/unit/wire.h"
#include "upstream/slot.h"

#define CROSSSLOT "-CROSSSLOT Keys in request don't hash to the same slot\r\n"
#define EXECABORT "-EXECABORT Transaction discarded because of previous errors.\r\n"

static struct commands *commands;
static struct block block;
static struct block_answer last; /* the answer of block.c to the last command line. */

/* Sets up a block; the server has reported all commands that the tests use. */
static int setup(void **state)
{
	static const char *const told[] = { "publish", "ping", "select", "get", "set", "mget" };

	(void)state;
	commands = commands_new();
	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++) {
		const struct command *known = commands_find(commands, slice_str(told[i]));
		struct command c = { .keys = KEYS_NONE, .arity = -1 };

		if (known)
			c = *known;
		assert_true(command_set_name(&c, slice_str(told[i])));
		c.flags = COMMAND_FROM_SERVER;
		commands_put(commands, &c);
	}
	block_init(&block);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	block_reset(&block);
	buf_release(&last.behind);
	commands_free(commands);
	return 0;
}

FIXTURE(setup, teardown);

static void send(const char *line, int proto)
{
	struct slice argv[8];
	struct resp_view req = { 0, argv };
	char *copy = xstrdup(line);
	struct buf bytes = BUF_INIT;
	const struct command *c;
	struct plan p;

	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		argv[req.argc++] = slice_str(w);
	resp_write_request(&bytes, argv, req.argc);
	c = commands_find(commands, argv[0]);
	p = plan_request(c, &req);
	buf_release(&last.behind);
	block_take(&block, c, &req, &p, buf_slice(&bytes), proto, &last);
	buf_release(&bytes);
	free(copy);
}

static void assert_answer(const char *line, const char *reply)
{
	send(line, 2);
	assert_int_equal(last.step, BLOCK_ANSWER);
	if (!slice_eq(last.reply, slice_str(reply)))
		fail_msg("%s: %.*s", line, (int)last.reply.n, last.reply.p);
}

/* Asserts that the transaction is at the node of `key`; NULL: at the default node. */
static void assert_slot_is(const char *key)
{
	assert_int_equal(last.slot, key ? slot_of_key(slice_str(key)) : -1);
}

static void assert_sent(const char *line, const char *key)
{
	send(line, 2);
	assert_int_equal(last.step, BLOCK_SEND);
	assert_slot_is(key);
}

static void assert_begins(const char *line, const char *key, size_t n, const char *behind)
{
	send(line, 2);
	assert_int_equal(last.step, BLOCK_SEND_BEHIND);
	assert_slot_is(key);
	assert_int_equal(last.nbehind, n);
	assert_wire(buf_slice(&last.behind), behind);
}

static void assert_passes(const char *line)
{
	send(line, 2);
	assert_int_equal(last.step, BLOCK_PASS);
}

static void assert_replaced(const char *line, const char *key, const char *request,
                            const char *reply)
{
	send(line, 2);
	assert_int_equal(last.step, BLOCK_REPLACE);
	assert_slot_is(key);
	assert_wire(last.request, request);
	assert_true(slice_eq(last.reply, slice_str(reply)));
}

TEST(test_multi_goes_with_the_first_key_to_its_node)
{
	assert_passes("get a");
	assert_answer("multi", "+OK\r\n");
	assert_begins("set a 1", "a", 1, "MULTI\n");
	assert_sent("get {a}2", "a");
	assert_sent("publish c m", "a");
	assert_sent("exec", "a");
	assert_true(last.is_exec && !last.watched);
	assert_wire(buf_slice(&last.behind), "MULTI\nset a 1\nget {a}2\npublish c m\n");
	assert_passes("get b");
	assert_false(block_is_tied(&block));
}

TEST(test_commands_without_a_key_wait_for_it)
{
	assert_answer("MULTI", "+OK\r\n");
	assert_answer("publish c m", "+QUEUED\r\n");
	assert_answer("ping", "+QUEUED\r\n");
	assert_begins("get a", "a", 3, "MULTI\npublish c m\nping\n");
	assert_sent("exec", "a");
}

TEST(test_a_transaction_without_keys_is_for_the_home_node)
{
	assert_answer("multi", "+OK\r\n");
	assert_answer("ping", "+QUEUED\r\n");
	assert_begins("exec", NULL, 2, "MULTI\nping\n");
	assert_answer("multi", "+OK\r\n");
	assert_begins("exec", NULL, 1, "MULTI\n");
	assert_passes("exec");
}

TEST(test_what_only_redis_can_judge_goes_home)
{
	assert_answer("multi", "+OK\r\n");
	assert_begins("nosuch a", NULL, 1, "MULTI\n");
	assert_sent("get", NULL);
	assert_answer("get a", CROSSSLOT);
	assert_replaced("exec", NULL, "DISCARD\n", EXECABORT);
	assert_answer("multi", "+OK\r\n");
	/* Redis refuses this EXEC, and nothing is left of the transaction. */
	assert_sent("exec now", NULL);
	assert_answer("multi", "+OK\r\n");
}

TEST(test_keys_of_another_slot_abort_it)
{
	assert_answer("multi", "+OK\r\n");
	assert_begins("get a", "a", 1, "MULTI\n");
	assert_answer("get b", CROSSSLOT);
	assert_sent("get a", "a");
	assert_replaced("exec", "a", "DISCARD\n", EXECABORT);
	/* The next transaction succeeds. */
	assert_answer("multi", "+OK\r\n");
	assert_answer("mget a b", CROSSSLOT);
	assert_answer("exec", EXECABORT);
	assert_answer("multi", "+OK\r\n");
	assert_begins("exec", NULL, 1, "MULTI\n");
}

TEST(test_what_concerns_all_nodes_is_refused)
{
	static const char *const lines[] = { "dbsize",   "keys *",       "scan 0",
		                             "flushall", "script flush", "cluster info",
		                             "hello 3",  "subscribe a",  "client reply off",
		                             "auth x" };

	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		assert_answer("multi", "+OK\r\n");
		send(lines[i], 2);
		assert_int_equal(last.step, BLOCK_ANSWER);
		if (*last.reply.p != '-')
			fail_msg("%s", lines[i]);
		assert_answer("exec", EXECABORT);
	}
}

TEST(test_discard_ends_it)
{
	assert_passes("discard");
	assert_answer("multi", "+OK\r\n");
	assert_answer("ping", "+QUEUED\r\n");
	assert_answer("discard", "+OK\r\n");
	assert_answer("multi", "+OK\r\n");
	assert_begins("get a", "a", 1, "MULTI\n");
	assert_replaced("discard", "a", "DISCARD\n", "+OK\r\n");
	assert_passes("get b");
}

TEST(test_reset_and_quit_end_it)
{
	assert_answer("multi", "+OK\r\n");
	assert_passes("reset");
	assert_passes("ping");
	assert_answer("multi", "+OK\r\n");
	assert_passes("quit");
	assert_passes("ping");
}

TEST(test_another_multi_or_watch_inside_is_refused_and_aborts_nothing)
{
	assert_answer("multi", "+OK\r\n");
	assert_answer("multi", "-ERR MULTI calls can not be nested\r\n");
	assert_answer("watch a", "-ERR WATCH inside MULTI is not allowed\r\n");
	assert_begins("exec", NULL, 1, "MULTI\n");
}

/* Valkey 8 refuses these commands inside MULTI, too. */
TEST(test_what_is_not_allowed_inside_aborts_it)
{
	struct command watch = *commands_find(commands, SLICE_LIT("watch"));

	watch.flags = COMMAND_FROM_SERVER | COMMAND_NO_MULTI;
	commands_put(commands, &watch);
	assert_answer("multi", "+OK\r\n");
	assert_begins("watch a", NULL, 1, "MULTI\n");
	assert_sent("exec", NULL);
	assert_sent("watch a", "a");
}

/* --- WATCH --- */

TEST(test_watch_decides_the_node)
{
	assert_sent("watch a", "a");
	assert_true(block_is_tied(&block));
	assert_passes("get b");
	assert_sent("watch {a}1 {a}2", "a");
	assert_answer("watch b", CROSSSLOT);
	assert_answer("watch a b", CROSSSLOT);
	assert_answer("multi", "+OK\r\n");
	assert_begins("ping", "a", 1, "MULTI\n");
	assert_answer("get b", CROSSSLOT);
	assert_replaced("exec", "a", "DISCARD\n", EXECABORT);
	assert_sent("watch b", "b");
}

/* Slot 0 decides the node like any other slot; 06S is a key of slot 0. */
TEST(test_slot_0_decides_it_too)
{
	assert_int_equal(slot_of_key(SLICE_LIT("06S")), 0);
	assert_sent("watch 06S", "06S");
	assert_answer("multi", "+OK\r\n");
	assert_begins("ping", "06S", 1, "MULTI\n");
	assert_answer("get b", CROSSSLOT);
	assert_replaced("exec", "06S", "DISCARD\n", EXECABORT);
}

TEST(test_what_is_watched_is_forgotten_with_the_transaction)
{
	assert_sent("watch a", "a");
	assert_sent("unwatch", "a");
	assert_passes("unwatch");
	assert_sent("watch b", "b");
	assert_answer("multi", "+OK\r\n");
	assert_replaced("discard", "b", "UNWATCH\n", "+OK\r\n");
	assert_sent("watch c", "c");
	assert_answer("multi", "+OK\r\n");
	assert_begins("exec", "c", 1, "MULTI\n");
	assert_true(last.watched);
	assert_false(block_is_tied(&block));
}

/* --- the slot is moved --- */

TEST(test_an_open_transaction_begins_again_elsewhere)
{
	assert_answer("multi", "+OK\r\n");
	assert_begins("set a 1", "a", 1, "MULTI\n");
	assert_sent("get a", "a");
	block_close(&block);
	assert_begins("ping", "a", 3, "MULTI\nset a 1\nget a\n");
	block_close(&block);
	assert_begins("exec", "a", 4, "MULTI\nset a 1\nget a\nping\n");
}

TEST(test_watched_keys_that_move_count_as_changed)
{
	assert_sent("watch a", "a");
	block_close(&block);
	assert_answer("multi", "+OK\r\n");
	assert_begins("set a 1", "a", 1, "MULTI\n");
	assert_replaced("exec", "a", "DISCARD\n", "*-1\r\n");
	assert_sent("watch a", "a");
	block_close(&block);
	assert_answer("multi", "+OK\r\n");
	send("exec", 3);
	assert_int_equal(last.step, BLOCK_ANSWER);
	assert_true(slice_eq(last.reply, SLICE_LIT("_\r\n")));
	/* UNWATCH ends it. */
	assert_sent("watch a", "a");
	block_close(&block);
	assert_passes("unwatch");
	assert_answer("multi", "+OK\r\n");
	assert_begins("exec", NULL, 1, "MULTI\n");
}

TEST(test_a_transaction_that_is_too_long_cannot_begin_again)
{
	char *line = xmalloc(BLOCK_KEPT_MAX + 64);

	strcpy(line, "set a ");
	memset(line + 6, 'x', BLOCK_KEPT_MAX);
	line[6 + BLOCK_KEPT_MAX] = '\0';
	assert_answer("multi", "+OK\r\n");
	assert_begins(line, "a", 1, "MULTI\n");
	send("exec", 2);
	assert_int_equal(last.nbehind, 0);
	assert_answer("multi", "+OK\r\n");
	assert_begins(line, "a", 1, "MULTI\n");
	block_close(&block);
	assert_answer("exec", EXECABORT);
	/* A PING cannot be held back either. */
	memcpy(line, "ping  ", 6);
	assert_answer("multi", "+OK\r\n");
	send(line, 2);
	assert_int_equal(last.step, BLOCK_ANSWER);
	assert_answer("exec", EXECABORT);
	free(line);
}
