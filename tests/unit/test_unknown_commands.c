/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of commands that the table lacks: how often hasp asks the server about them, and what
 * the answers change.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "commands/learn.h"
#include "tests/unit/testing.h"
#include "upstream/decode.h"

struct fixture {
	struct unknown_commands unknown_commands;
	struct commands *commands;
};

static void set_up(struct fixture *f)
{
	log_set_level(LOG_SEV_ERROR);
	f->commands = commands_new();
}

static void tear_down(struct fixture *f)
{
	commands_free(f->commands);
}

STRUCT_FIXTURE(set_up, tear_down);

static void note(struct fixture *f, const char *name)
{
	unknown_commands_add(&f->unknown_commands, slice_str(name));
}

static void assert_asks(struct fixture *f, double now, const char *expected)
{
	struct buf out = BUF_INIT;

	assert_true(unknown_commands_query(&f->unknown_commands, &out, now));
	if (!slice_eq(buf_slice(&out), slice_str(expected)))
		fail_msg("\"%.*s\" instead of \"%s\"", (int)buf_len(&out), buf_head(&out),
		         expected);
	buf_release(&out);
}

static bool ask(struct fixture *f, double now)
{
	struct buf out = BUF_INIT;
	bool asked = unknown_commands_query(&f->unknown_commands, &out, now);

	buf_release(&out);
	return asked;
}

static size_t answer(struct fixture *f, const char *frame)
{
	redisReply *reply = reply_decode(slice_str(frame));
	size_t n;

	assert_non_null(reply);
	n = unknown_commands_learn(&f->unknown_commands, f->commands, reply);
	freeReplyObject(reply);
	return n;
}

static size_t learn(struct fixture *f, const char *frame)
{
	size_t n = answer(f, frame);

	unknown_commands_forget(&f->unknown_commands);
	return n;
}

static const struct command *known(const struct fixture *f, const char *name)
{
	return commands_get(f->commands, slice_str(name));
}

#define INFO_A "*3\r\n$7\r\nCOMMAND\r\n$4\r\nINFO\r\n$1\r\na\r\n"
#define INFO_AB "*4\r\n$7\r\nCOMMAND\r\n$4\r\nINFO\r\n$1\r\na\r\n$1\r\nb\r\n"
#define ENTRY(name) "*6\r\n+" name "\r\n:3\r\n*1\r\n+write\r\n:1\r\n:1\r\n:1\r\n"

TEST(nothing_is_asked_about_no_name)
{
	assert_false(ask(f, 100));
}

TEST(a_name_is_asked_about_once_however_often_it_comes)
{
	note(f, "A");
	note(f, "b");
	note(f, "a");
	assert_asks(f, 100, INFO_AB);
}

TEST(there_is_one_question_at_a_time)
{
	note(f, "b");
	ask(f, 100);
	note(f, "a");
	assert_false(ask(f, 200));
	learn(f, "*1\r\n*-1\r\n");
	assert_asks(f, 200, INFO_A);
}

TEST(questions_are_a_second_apart)
{
	note(f, "a");
	ask(f, 100);
	learn(f, "*1\r\n*-1\r\n");
	note(f, "a");
	assert_false(ask(f, 100.99));
	assert_asks(f, 101, INFO_A);
}

TEST(a_name_that_is_awaited_is_asked_about_at_once)
{
	note(f, "b");
	ask(f, 100);
	assert_true(unknown_commands_await(&f->unknown_commands, SLICE_LIT("A")));
	assert_true(unknown_commands_await(&f->unknown_commands, SLICE_LIT("a")));
	assert_false(ask(f, 100));
	learn(f, "*1\r\n*-1\r\n");
	assert_asks(f, 100, INFO_A);
	learn(f, "*1\r\n*-1\r\n");
	note(f, "a");
	assert_false(ask(f, 100));
}

TEST(a_name_is_awaited_until_it_is_answered)
{
	assert_true(unknown_commands_await(&f->unknown_commands, SLICE_LIT("a")));
	ask(f, 100);
	assert_true(unknown_commands_await(&f->unknown_commands, SLICE_LIT("a")));
	assert_true(unknown_commands_await(&f->unknown_commands, SLICE_LIT("b")));
	answer(f, "*1\r\n*-1\r\n");
	assert_false(unknown_commands_await(&f->unknown_commands, SLICE_LIT("A")));
	assert_true(unknown_commands_await(&f->unknown_commands, SLICE_LIT("b")));
	unknown_commands_forget(&f->unknown_commands);
	/* A module may have been loaded since. */
	assert_true(unknown_commands_await(&f->unknown_commands, SLICE_LIT("a")));
}

TEST(names_for_which_there_was_no_place_are_awaited_and_asked_about_later)
{
	char name[16];

	for (int i = 0; i < UNKNOWN_COMMANDS_MAX; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		note(f, name);
	}
	assert_true(unknown_commands_await(&f->unknown_commands, SLICE_LIT("a")));
	ask(f, 100);
	assert_int_equal(unknown_commands_learn(&f->unknown_commands, f->commands, NULL), 0);
	assert_true(unknown_commands_await(&f->unknown_commands, SLICE_LIT("a")));
	unknown_commands_forget(&f->unknown_commands);
	assert_asks(f, 100, INFO_A);
}

TEST(nothing_is_awaited_of_a_name_that_no_command_can_have)
{
	assert_false(unknown_commands_await(&f->unknown_commands, SLICE_LIT("")));
	assert_false(unknown_commands_await(&f->unknown_commands, SLICE_LIT("a\0b")));
	assert_false(ask(f, 100));
}

TEST(a_question_has_a_longest_length)
{
	char name[16];

	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		note(f, name);
	}
	assert_int_equal(f->unknown_commands.n, UNKNOWN_COMMANDS_MAX);
}

TEST(a_name_that_no_command_can_have_is_not_asked_about)
{
	char longest[COMMAND_NAME_SIZE + 1] = { 0 };

	memset(longest, 'x', COMMAND_NAME_SIZE);
	note(f, longest);
	note(f, "");
	unknown_commands_add(&f->unknown_commands, SLICE_LIT("a\0b"));
	assert_false(ask(f, 100));
	note(f, longest + 1);
	assert_true(ask(f, 100));
}

TEST(what_the_server_has_is_known_and_the_rest_is_not)
{
	note(f, "a");
	note(f, "b");
	ask(f, 100);
	assert_int_equal(learn(f, "*2\r\n*-1\r\n" ENTRY("b")), 1);
	assert_null(known(f, "a"));
	assert_int_equal(known(f, "B")->flags,
	                 COMMAND_WRITE | COMMAND_FROM_SERVER | COMMAND_STATELESS);
	assert_true(command_single_key(known(f, "b")));
}

TEST(a_renamed_command_is_a_write_that_no_script_of_its_own_replaces)
{
	note(f, "a");
	ask(f, 100);
	assert_int_equal(learn(f, "*1\r\n" ENTRY("setex")), 1);
	assert_int_equal(known(f, "a")->facts.rule, RULE_CHECK);
	assert_int_equal(known(f, "a")->facts.lua, LUA_SAFE);
	assert_int_equal(known(f, "setex")->facts.rule, RULE_SETEX);
}

TEST(what_a_renamed_command_does_to_its_connection_is_not_followed)
{
	note(f, "a");
	ask(f, 100);
	assert_int_equal(learn(f, "*1\r\n" ENTRY("select")), 1);
	assert_int_equal(known(f, "a")->facts.session, SESSION_OWN_LINK);
	assert_false(known(f, "a")->flags & COMMAND_STATELESS);
}

TEST(an_answer_of_another_shape_teaches_nothing)
{
	static const char *const answers[] = {
		"-NOPERM\r\n",        "*0\r\n", "*2\r\n" ENTRY("a") ENTRY("b"),
		"*1\r\n*1\r\n+a\r\n", ":1\r\n",
	};

	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		note(f, "a");
		ask(f, 100 + 2 * (double)i);
		assert_int_equal(learn(f, answers[i]), 0);
		assert_null(known(f, "a"));
		assert_int_equal(f->unknown_commands.n, 0);
	}
}

TEST(a_question_without_an_answer_is_asked_when_the_name_comes_again)
{
	note(f, "a");
	ask(f, 100);
	assert_int_equal(unknown_commands_learn(&f->unknown_commands, f->commands, NULL), 0);
	unknown_commands_forget(&f->unknown_commands);
	assert_false(ask(f, 200));
	note(f, "a");
	assert_asks(f, 200, INFO_A);
}

#define INDEX(i)                                                                               \
	"$12\r\nbegin_search\r\n*4\r\n+type\r\n+index\r\n+spec\r\n*2\r\n+index\r\n:" i "\r\n"
#define KEYNUM_STEP(first, step)                                                               \
	"+find_keys\r\n*4\r\n+type\r\n+keynum\r\n+spec\r\n*6\r\n+keynumidx\r\n:0\r\n"          \
	"+firstkey\r\n:" first "\r\n+keystep\r\n:" step "\r\n"
#define KEYNUM(first) KEYNUM_STEP(first, "1")
#define ONE_KEY                                                                                \
	"+find_keys\r\n*4\r\n+type\r\n+range\r\n+spec\r\n*6\r\n+lastkey\r\n:0\r\n"             \
	"+keystep\r\n:1\r\n+limit\r\n:0\r\n"
#define SPEC(index, find) "*4\r\n" INDEX(index) find
#define MOVABLE(first, specs)                                                                  \
	"*1\r\n*9\r\n+a\r\n:-3\r\n*2\r\n+write\r\n+movablekeys\r\n:" first "\r\n:" first       \
	"\r\n:" first "\r\n*0\r\n*0\r\n" specs

/* Commands like EVAL, ZUNIONSTORE and MSETEX. */
TEST(keys_that_are_counted_are_found_by_their_specifications)
{
	static const struct {
		const char *frame;
		size_t keys[4]; /* keys of the arguments "a 2 1 x y" */
		bool hidden;
	} cases[] = {
		{ MOVABLE("0", "*1\r\n" SPEC("1", KEYNUM("1"))), { 2, 3 }, false },
		{ MOVABLE("0", "*1\r\n" SPEC("2", KEYNUM("1"))), { 3 }, false },
		{ MOVABLE("1", "*2\r\n" SPEC("1", ONE_KEY) SPEC("2", KEYNUM("1"))),
		  { 1, 3 },
		  false },
		{ MOVABLE("0", "*1\r\n" SPEC("2", KEYNUM_STEP("1", "2"))), { 3 }, false },
		{ MOVABLE("0", "*1\r\n" SPEC("1", KEYNUM_STEP("1", "2"))), { 0 }, false },
		{ MOVABLE("0", "*1\r\n" SPEC("1", KEYNUM_STEP("1", "0"))), { 0 }, true },
		{ MOVABLE("0", "*1\r\n" SPEC("1", KEYNUM("2"))), { 0 }, true },
		{ MOVABLE("0", "*1\r\n" SPEC("0", KEYNUM("1"))), { 0 }, true },
		{ MOVABLE("0", "*2\r\n" SPEC("1", KEYNUM("1")) SPEC("3", KEYNUM("1"))),
		  { 0 },
		  true },
		{ MOVABLE("0", "*1\r\n" SPEC("1", KEYNUM_STEP("1", "32767"))), { 0 }, false },
		{ MOVABLE("0", "*1\r\n" SPEC("1", KEYNUM_STEP("1", "32768"))), { 0 }, true },
		{ MOVABLE("0", "*1\r\n" SPEC("-1", KEYNUM("1"))), { 0 }, true },
		{ MOVABLE("0", "*0\r\n"), { 0 }, true },
	};
	struct slice argv[] = { SLICE_LIT("a"), SLICE_LIT("2"), SLICE_LIT("1"), SLICE_LIT("x"),
		                SLICE_LIT("y") };
	struct resp_view req = { 5, argv };

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		size_t found[4] = { 0 };
		commands_free(f->commands);
		f->commands = commands_new();
		note(f, "a");
		ask(f, 100 + (double)i);
		assert_int_equal(learn(f, cases[i].frame), 1);
		assert_int_equal(!!(known(f, "a")->flags & COMMAND_HIDDEN_KEYS),
		                 cases[i].hidden);
		(void)command_key_args(known(f, "a"), &req, found, 4);
		assert_memory_equal(found, cases[i].keys, sizeof(found));
	}
}
