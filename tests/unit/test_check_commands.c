/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the commands that a guard may name, by the server's COMMAND or by the built-in
 * table.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lock/guard/check_commands.h"
#include "resp/write.h"
#include "tests/unit/inifile.h"
#include "tests/unit/testing.h"
#include "upstream/decode.h"
#include "commands/learn.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

/* A reply of Redis 7 to COMMAND, to which tests append commands. */
struct telling {
	struct buf entries;
	size_t n;
};

/* Begins a command's entry, up to its subcommands. `flags` are separated by blanks. */
static void print_entry(struct buf *b, const char *name, const char *flags, int first, int step)
{
	char words[64], *save = NULL;
	struct buf list = BUF_INIT;
	size_t n = 0;

	snprintf(words, sizeof(words), "%s", flags);
	for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save), n++)
		buf_printf(&list, "+%s\r\n", w);
	resp_write_array(b, 10);
	resp_write_bulk_str(b, name);
	buf_printf(b, ":-2\r\n*%zu\r\n%.*s:%d\r\n:%d\r\n:%d\r\n*0\r\n*0\r\n*0\r\n", n,
	           (int)buf_len(&list), n ? buf_head(&list) : "", first, first, step);
	buf_release(&list);
}

static void notify(struct telling *t, const char *name, const char *flags, int first)
{
	print_entry(&t->entries, name, flags, first, first);
	buf_puts(&t->entries, "*0\r\n");
	t->n++;
}

/* Appends a command with one subcommand. */
static void tell_container(struct telling *t, const char *name, const char *sub,
                           const char *sub_flags, int sub_first)
{
	print_entry(&t->entries, name, "", 0, 0);
	buf_puts(&t->entries, "*1\r\n");
	print_entry(&t->entries, sub, sub_flags, sub_first, sub_first);
	buf_puts(&t->entries, "*0\r\n");
	t->n++;
}

static void learn(struct telling *t, struct commands *commands)
{
	struct buf frame = BUF_INIT;
	redisReply *reply;

	resp_write_array(&frame, t->n);
	buf_append(&frame, buf_slice(&t->entries));
	reply = reply_decode(buf_slice(&frame));
	assert_non_null(reply);
	assert_int_equal(learn_commands(commands, reply), t->n);
	freeReplyObject(reply);
	buf_release(&frame);
	buf_release(&t->entries);
}

static struct commands *learned(void)
{
	struct commands *commands = commands_new();
	struct telling t = { BUF_INIT, 0 };

	notify(&t, "get", "readonly fast", 1);
	notify(&t, "set", "write denyoom", 1);
	notify(&t, "getdel", "write fast", 1);
	notify(&t, "ping", "fast", 0);
	notify(&t, "eval", "noscript movablekeys", 0);
	notify(&t, "watch", "noscript fast", 1);
	notify(&t, "blpop", "write noscript blocking", 1);
	notify(&t, "blmpop", "write blocking movablekeys", 0);
	notify(&t, "migrate", "write movablekeys", 3);
	notify(&t, "zunion", "readonly movablekeys", 0);
	notify(&t, "sort_ro", "readonly movablekeys", 1);
	notify(&t, "graph.query", "readonly movablekeys", 1);
	notify(&t, "graph.list", "readonly movablekeys", 0);
	notify(&t, "JSON.GET", "readonly", 1);
	notify(&t, "post", "readonly loading stale", 0);
	notify(&t, "host:", "readonly loading stale", 0);
	tell_container(&t, "object", "object|freq", "readonly", 2);
	tell_container(&t, "memory", "memory|usage", "readonly movablekeys", 0);
	tell_container(&t, "client", "client|info", "noscript", 0);
	learn(&t, commands);
	return commands;
}

/* Asserts the faults of a guard with these lists; the first list is in line 3 of the file. */
static void assert_unfit(const struct commands *commands, const char *acquire_on,
                         const char *release_on, const char *expected)
{
	struct buf text = BUF_INIT, faults = BUF_INIT;
	struct config *c;
	size_t nlines = 0;

	buf_printf(&text, "[guard stock]\npattern = a\nacquire_on = %s\n", acquire_on);
	if (release_on)
		buf_printf(&text, "release_on = %s\n", release_on);
	buf_append(&text, slice_of("", 1));
	c = load(buf_head(&text));
	for (const char *p = expected; (p = strchr(p, '\n')); p++)
		nlines++;
	assert_int_equal(check_commands(c, commands, &faults), nlines);
	assert_lines(&faults, expected);
	config_unref(c);
	buf_release(&text);
	buf_release(&faults);
}

TEST(whatever_has_a_key_can_be_guarded)
{
	assert_unfit(*state, "get GETDEL Json.Get zunion sort_ro SET", "set getdel", "");
}

TEST(commands_without_a_key_cannot)
{
	assert_unfit(*state, "GET\n\tPING CLIENT", "SET PING",
	             "4: 'PING' in 'acquire_on' of [guard stock] has no key; expected commands "
	             "that name one, such as GET\n"
	             "4: 'CLIENT' in 'acquire_on' of [guard stock] has no key; expected "
	             "commands that name one, such as GET\n"
	             "5: 'PING' in 'release_on' of [guard stock] has no key; expected commands "
	             "that name one, such as SET\n");
}

#define HIDDEN(name)                                                                           \
	"3: '" name                                                                            \
	"' in 'acquire_on' of [guard stock] has keys in positions that Redis does "            \
	"not report; expected commands with keys in fixed positions, such as GET\n"

TEST(commands_whose_keys_nobody_tells_cannot)
{
	const char *classifier = "graph.query graph.list object memory migrate";
	const char *faults = HIDDEN("graph.query") HIDDEN("graph.list") HIDDEN("object")
		HIDDEN("memory") HIDDEN("migrate");
	struct telling again = { BUF_INIT, 0 };

	assert_unfit(*state, classifier, NULL, faults);
	notify(&again, "graph.query", "readonly movablekeys", 1);
	notify(&again, "sort_ro", "readonly movablekeys", 1);
	learn(&again, *state);
	assert_unfit(*state, classifier, NULL, faults);
	assert_unfit(*state, "sort_ro", NULL, "");
}

/* Redis closes a connection that sends the first words of HTTP. */
TEST(the_first_words_of_http_share_no_link)
{
	const struct commands *told = *state;

	assert_true(commands_get(told, SLICE_LIT("PING"))->flags & COMMAND_STATELESS);
	assert_false(commands_get(told, SLICE_LIT("POST"))->flags & COMMAND_STATELESS);
	assert_false(commands_get(told, SLICE_LIT("Host:"))->flags & COMMAND_STATELESS);
}

TEST(commands_that_may_block_cannot)
{
	assert_unfit(*state, "BLPOP", "blmpop",
	             "3: 'BLPOP' in 'acquire_on' of [guard stock] may block; expected commands "
	             "that answer at once, such as GET\n"
	             "4: 'blmpop' in 'release_on' of [guard stock] may block; expected "
	             "commands that answer at once, such as SET\n");
}

TEST(commands_forbidden_in_scripts_cannot)
{
	assert_unfit(
		*state, "EVAL WATCH", NULL,
		"3: 'EVAL' in 'acquire_on' of [guard stock] is forbidden in scripts, which "
		"guards use; expected commands that scripts may call, such as GET\n"
		"3: 'WATCH' in 'acquire_on' of [guard stock] is forbidden in scripts, which "
		"guards use; expected commands that scripts may call, such as GET\n");
}

TEST(what_releases_must_write)
{
	assert_unfit(*state, "GET", "SET GET",
	             "4: 'GET' in 'release_on' of [guard stock] does not write; expected "
	             "commands that do, such as SET\n");
}

/* HGET is in the built-in table, but this server does not report it. */
TEST(what_the_server_does_not_have_cannot)
{
	assert_unfit(*state, "GTE HGET", "a-name-that-is-longer-than-the-table",
	             "3: 'GTE' in 'acquire_on' of [guard stock] is unknown to Redis; expected "
	             "commands that it has, such as GET\n"
	             "3: 'HGET' in 'acquire_on' of [guard stock] is unknown to Redis; expected "
	             "commands that it has, such as GET\n"
	             "4: 'a-name-that-is-longer-than-the-table' in 'release_on' of [guard "
	             "stock] is unknown to Redis; expected commands that it has, such as "
	             "SET\n");
}

TEST(without_the_server_only_the_built_in_table_can_tell)
{
	struct commands *builtin = commands_new();

	assert_unfit(builtin, "GTE PING HGET BLPOP MIGRATE", "JSON.SET HGET",
	             "3: 'BLPOP' in 'acquire_on' of [guard stock] may block; expected commands "
	             "that answer at once, such as GET\n" HIDDEN(
			     "MIGRATE") "4: 'HGET' in 'release_on' of [guard stock] does not "
	                                "write; expected "
	                                "commands that do, such as SET\n");
	commands_free(builtin);
}

TEST(every_guard_is_checked)
{
	struct config *c = load("[guard a]\npattern = a\nacquire_on = PING\n"
	                        "[guard b]\npattern = b\nacquire_on = GET\nrelease_on = GET\n");
	struct buf faults = BUF_INIT;

	assert_int_equal(check_commands(c, *state, &faults), 2);
	assert_lines(&faults, "3: 'PING' in 'acquire_on' of [guard a] has no key; expected "
	                      "commands that name one, such as GET\n"
	                      "7: 'GET' in 'release_on' of [guard b] does not write; expected "
	                      "commands that do, such as SET\n");
	config_unref(c);
	buf_release(&faults);
}

TEST(a_verb_has_no_name_of_redis)
{
	struct config *c = load("[verbs]\nlock = SET\nmunlock = FREE\n");
	struct buf faults = BUF_INIT;

	assert_int_equal(check_verbs(c, &faults), 1);
	assert_lines(&faults, "2: 'SET' in 'lock' of [verbs] is a command of Redis; expected a "
	                      "name that Redis does not use, such as LOCK\n");
	config_unref(c);
	buf_release(&faults);
}

static int setup(void **state)
{
	*state = learned();
	return 0;
}

static int teardown(void **state)
{
	commands_free(*state);
	return 0;
}

FIXTURE(setup, teardown);
