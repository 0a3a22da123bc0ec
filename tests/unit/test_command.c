/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of commands/command.c: the table, and the positions of keys. e2e/test_commands.py
 * compares both with the server's COMMAND.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "commands/command.h"
#include "commands/learn.h"
#include "tests/unit/testing.h"

#define ARGS_MAX 16

static int setup(void **state)
{
	*state = commands_new();
	return 0;
}

static int teardown(void **state)
{
	commands_free(*state);
	return 0;
}

FIXTURE(setup, teardown);

/* Asserts that the keys of the command line are the arguments `expected`, such as "1 3 5". */
static void assert_keys(const struct commands *t, const char *line, const char *expected)
{
	struct slice argv[ARGS_MAX];
	struct resp_view req = { 0, argv };
	size_t at[ARGS_MAX], n, used = 0;
	char *copy = xstrdup(line), found[128] = "";

	for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
		argv[req.argc++] = slice_str(w);
	n = command_key_args(commands_get(t, argv[0]), &req, at, ARGS_MAX);
	for (size_t i = 0; i < n; i++)
		used += (size_t)snprintf(found + used, sizeof(found) - used, "%s%zu",
		                         i ? " " : "", at[i]);
	if (strcmp(found, expected) != 0)
		fail_msg("%s: keys at %s, not %s", line, found, expected);
	free(copy);
}

TEST(test_names_are_found_in_any_case)
{
	const struct command *c = commands_get(*state, SLICE_LIT("SeTnX"));

	assert_non_null(c);
	assert_string_equal(c->name, "setnx");
	assert_int_equal(c->flags, COMMAND_WRITE);
	assert_null(commands_get(*state, SLICE_LIT("ping")));
	assert_null(commands_get(*state, SLICE_LIT("")));
	assert_null(commands_get(*state, SLICE_LIT("a-name-that-is-longer-than-the-table")));
	assert_null(commands_get(*state, SLICE_LIT("set\0nx")));
}

TEST(test_what_the_server_tells_counts)
{
	struct command c = { .name = "Set",
		             .flags = COMMAND_WRITE | COMMAND_BLOCKING,
		             .keys = KEYS_RANGE,
		             .first = 2,
		             .last = 2,
		             .step = 1 };

	commands_put(*state, &c);
	assert_keys(*state, "set a b", "2");
	assert_int_equal(commands_get(*state, SLICE_LIT("SET"))->arity, -3);
	c.arity = 7;
	commands_put(*state, &c);
	assert_int_equal(commands_get(*state, SLICE_LIT("SET"))->arity, 7);
}

TEST(test_what_the_server_does_not_tell_stays)
{
	struct command told = { .name = "setnx", .flags = COMMAND_WRITE | COMMAND_FROM_SERVER };
	const struct command *c;

	commands_put(*state, &told);
	c = commands_get(*state, SLICE_LIT("setnx"));
	assert_int_equal(c->flags, COMMAND_WRITE | COMMAND_FROM_SERVER);
	assert_int_equal(c->facts.rule, RULE_SETNX);
	assert_int_equal(c->facts.act, EFFECT_ACQUIRE);
	assert_int_equal(c->facts.noop, NOOP_ZERO);
}

TEST(test_of_some_only_facts_are_known_until_the_server_tells)
{
	struct command told = { .name = "watch",
		                .flags = COMMAND_NOSCRIPT | COMMAND_FROM_SERVER };

	assert_null(commands_get(*state, SLICE_LIT("watch")));
	assert_int_equal(commands_find(*state, SLICE_LIT("Watch"))->facts.session,
	                 SESSION_WATCH);
	commands_put(*state, &told);
	assert_int_equal(commands_get(*state, SLICE_LIT("watch"))->facts.session,
	                 SESSION_WATCH);
	assert_null(commands_find(*state, SLICE_LIT("echo")));
}

TEST(test_a_command_without_a_row_has_no_facts)
{
	struct command told = { .name = "json.set",
		                .flags = COMMAND_WRITE | COMMAND_FROM_SERVER };
	const struct command_facts none = { .writes = WRITES_ALL,
		                            .lua = LUA_LOSSY,
		                            .when_long = LONG_REFUSED,
		                            .rule = RULE_CHECK,
		                            .act = EFFECT_CHANGE,
		                            .noop = NOOP_NIL,
		                            .expiry = EXPIRY_NONE,
		                            .session = SESSION_DEFAULT };

	commands_put(*state, &told);
	assert_memory_equal(&commands_get(*state, SLICE_LIT("json.set"))->facts, &none,
	                    sizeof(none));
}

TEST(test_the_table_grows)
{
	struct command c = { .flags = COMMAND_WRITE, .first = 1, .last = 1, .step = 1 };
	char name[24];

	for (int i = 0; i < 5000; i++) {
		snprintf(c.name, sizeof(c.name), "module.%d", i);
		c.arity = (int16_t)(i + 1);
		commands_put(*state, &c);
	}
	for (int i = 0; i < 5000; i++) {
		snprintf(name, sizeof(name), "MODULE.%d", i);
		assert_int_equal(commands_get(*state, slice_str(name))->arity, i + 1);
	}
	assert_non_null(commands_get(*state, SLICE_LIT("zunionstore")));
}

TEST(test_a_command_that_is_put_again_takes_no_more_room)
{
	struct command c = { .name = "get", .arity = 2 };
	const struct command *before = commands_get(*state, SLICE_LIT("get"));

	assert_non_null(before);
	for (int i = 0; i < 5000; i++)
		commands_put(*state, &c);
	/* The table has not grown, so the command has not moved. */
	assert_ptr_equal(commands_get(*state, SLICE_LIT("get")), before);
}

static void *read_reply(const char *text)
{
	redisReader *reader = redisReaderCreate();
	void *reply = NULL;

	assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
	assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
	assert_non_null(reply);
	redisReaderFree(reader);
	return reply;
}

TEST(test_what_is_no_flag_is_passed_over)
{
	redisReply *reply = read_reply("*2\r\n"
	                               "*6\r\n$5\r\nmod.a\r\n:-2\r\n*4\r\n:7\r\n$-1\r\n"
	                               "+write\r\n+module\r\n:1\r\n:1\r\n:1\r\n"
	                               "*6\r\n$5\r\nmod.b\r\n:-2\r\n*1\r\n+nonsense\r\n"
	                               ":1\r\n:1\r\n:1\r\n");

	assert_int_equal(learn_commands(*state, reply), 2);
	assert_true(commands_get(*state, SLICE_LIT("mod.a"))->flags & COMMAND_WRITE);
	assert_false(commands_get(*state, SLICE_LIT("mod.b"))->flags & COMMAND_WRITE);
	/* A module's errors may be any text. */
	assert_true(command_may_forge(commands_get(*state, SLICE_LIT("mod.a"))));
	assert_false(command_may_forge(commands_get(*state, SLICE_LIT("mod.b"))));
	freeReplyObject(reply);
}

TEST(test_names_that_do_not_fit_are_passed_over)
{
	struct command c = { .flags = COMMAND_WRITE };

	commands_put(*state, &c);
	memset(c.name, 'x', sizeof(c.name));
	commands_put(*state, &c);
	assert_null(commands_get(*state, SLICE_LIT("")));
	assert_null(commands_get(*state, slice_of(c.name, sizeof(c.name))));
	assert_null(commands_get(*state, slice_of(c.name, sizeof(c.name) - 1)));
}

TEST(test_ranges)
{
	assert_keys(*state, "set a b", "1");
	assert_keys(*state, "set", "");
	assert_keys(*state, "del a b c", "1 2 3");
	assert_keys(*state, "mset a 1 b 2", "1 3");
	assert_keys(*state, "mset a 1 b", "1 3");
	assert_keys(*state, "blpop a b 0", "1 2");
	assert_keys(*state, "blpop", "");
	assert_keys(*state, "bitop and d a b", "2 3 4");
	assert_keys(*state, "rename a", "1");
}

TEST(test_ranges_that_make_no_sense_name_no_keys)
{
	struct command c = {
		.name = "mod.a", .keys = KEYS_RANGE, .first = -1, .last = -1, .step = 1
	};

	commands_put(*state, &c);
	assert_keys(*state, "mod.a a b", "");
	c.first = 1;
	c.step = 0;
	commands_put(*state, &c);
	assert_keys(*state, "mod.a a b", "");
}

TEST(test_counted_keys)
{
	assert_keys(*state, "lmpop 2 a b left", "2 3");
	assert_keys(*state, "blmpop 0 1 a left", "3");
	assert_keys(*state, "zunionstore d 2 a b weights 1 2", "1 3 4");
	assert_keys(*state, "zunionstore d 1 a", "1 3");
}

TEST(test_a_wrong_count_names_no_keys)
{
	assert_keys(*state, "lmpop 4 a b left", "");
	assert_keys(*state, "lmpop 0 a left", "");
	assert_keys(*state, "lmpop -1 a left", "");
	assert_keys(*state, "lmpop 1x a left", "");
	assert_keys(*state, "lmpop 99999999999999999999999 a left", "");
	assert_keys(*state, "lmpop", "");
	assert_keys(*state, "zunionstore d 3 a b", "1");
}

TEST(test_keys_behind_store)
{
	assert_keys(*state, "sort a", "1");
	assert_keys(*state, "sort a alpha STORE b", "1 4");
	assert_keys(*state, "sort a store b store c", "1 5");
	assert_keys(*state, "sort a by store get store", "1");
	assert_keys(*state, "sort a limit store 1 store b", "1 6");
	assert_keys(*state, "sort a store", "1");
	assert_keys(*state, "georadius a 1 2 3 km storedist b", "1 7");
	assert_keys(*state, "georadius 1 2 3 4 km", "1");
	assert_keys(*state, "georadiusbymember a m 3 km store b", "1 6");
}

TEST(test_more_keys_than_room_are_counted)
{
	struct slice argv[] = { SLICE_LIT("del"), SLICE_LIT("a"), SLICE_LIT("b"),
		                SLICE_LIT("c") };
	struct resp_view req = { 4, argv };
	size_t at[2] = { 0, 0 };

	assert_int_equal(command_key_args(commands_get(*state, argv[0]), &req, at, 1), 3);
	assert_int_equal(at[0], 1);
	assert_int_equal(at[1], 0);
}

TEST(test_single_keys)
{
	assert_true(command_single_key(commands_get(*state, SLICE_LIT("set"))));
	assert_false(command_single_key(commands_get(*state, SLICE_LIT("del"))));
	assert_false(command_single_key(commands_get(*state, SLICE_LIT("sort"))));
	assert_false(command_single_key(commands_get(*state, SLICE_LIT("pfdebug"))));
	assert_false(command_single_key(commands_get(*state, SLICE_LIT("migrate"))));
}

TEST(test_arity)
{
	struct command unknown = { .arity = 0 };
	const struct command *set = commands_get(*state, SLICE_LIT("set"));
	const struct command *incr = commands_get(*state, SLICE_LIT("incr"));

	assert_false(command_arity_ok(set, 2));
	assert_true(command_arity_ok(set, 3));
	assert_true(command_arity_ok(set, 9));
	assert_false(command_arity_ok(incr, 1));
	assert_true(command_arity_ok(incr, 2));
	assert_false(command_arity_ok(incr, 3));
	assert_true(command_arity_ok(&unknown, 1));
}
