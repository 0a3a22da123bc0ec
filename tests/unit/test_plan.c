/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of cluster/plan.c: which nodes a request is for, and how hasp splits the request into
 * parts.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "cluster/merge.h"
#include "cluster/plan.h"
#include "tests/unit/testing.h"
#include "tests/unit/wire.h"
#include "upstream/slot.h"

static struct commands *commands;

static int setup(void **state)
{
	(void)state;
	commands = commands_new();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	commands_free(commands);
	return 0;
}

GROUP_FIXTURE(setup, teardown);

#define WORDS_MAX 16

/* A command line; `""` is an empty argument. */
struct line {
	char *text;
	struct slice argv[WORDS_MAX];
	struct resp_view req;
};

static void line_init(struct line *l, const char *text)
{
	l->text = xstrdup(text);
	l->req = (struct resp_view){ 0, l->argv };
	for (char *w = strtok(l->text, " "); w; w = strtok(NULL, " ")) {
		assert_true(l->req.argc < WORDS_MAX);
		l->argv[l->req.argc++] = slice_str(strcmp(w, "\"\"") == 0 ? "" : w);
	}
}

static struct plan plan_of(const char *text)
{
	struct line l;
	struct plan p;

	line_init(&l, text);
	p = plan_request(commands_find(commands, l.argv[0]), &l.req);
	free(l.text);
	return p;
}

static void assert_kind(const char *text, enum plan_kind kind)
{
	if (plan_of(text).kind != kind)
		fail_msg("%s: %d, not %d", text, plan_of(text).kind, kind);
}

static void assert_slot(const char *text, const char *key)
{
	assert_kind(text, PLAN_SLOT);
	assert_int_equal(plan_of(text).slot, slot_of_key(slice_str(key)));
}

static void assert_merge(const char *text, enum plan_kind kind, enum merge_kind merge)
{
	assert_kind(text, kind);
	assert_int_equal(plan_of(text).merge, merge);
}

TEST(test_a_command_goes_where_its_key_is)
{
	assert_slot("get k", "k");
	assert_slot("SET k{a}b v", "a");
	assert_slot("get \"\"", "");
	assert_slot("sort k store k", "k");
	assert_slot("eval text 1 k argument", "k");
	assert_slot("evalsha_ro sha 1 k argument", "k");
	assert_slot("zunionstore {k}d 2 {k}a {k}b", "k");
}

TEST(test_a_command_whose_key_is_behind_words_goes_there_too)
{
	assert_slot("xread streams k 0", "k");
	assert_slot("xread COUNT 1 BLOCK 0 STREAMS {k}a {k}b 0 0", "k");
	assert_slot("xreadgroup GROUP streams streams NOACK STREAMS k >", "k");
	assert_slot("object encoding k", "k");
	assert_slot("memory usage k samples 5", "k");
	assert_slot("xgroup create k g $", "k");
	assert_slot("migrate host 1 k 0 1000 copy", "k");
	assert_slot("migrate host 1 \"\" 0 1000 AUTH2 keys keys KEYS {k}a {k}b", "k");
	assert_slot("migrate host 1 \"\" 0 1000 auth keys REPLACE keys k", "k");
	assert_slot("xinfo stream k", "k");
}

TEST(test_a_command_without_a_key_goes_home)
{
	assert_kind("ping", PLAN_HOME);
	assert_kind("publish channel message", PLAN_HOME);
	assert_kind("subscribe a b", PLAN_HOME);
	assert_kind("eval text 0 argument", PLAN_HOME);
	assert_kind("fcall_ro f 0", PLAN_HOME);
	assert_kind("nosuchcommand k", PLAN_HOME);
	assert_kind("memory doctor", PLAN_HOME);
	assert_kind("object help", PLAN_HOME);
	assert_kind("script debug yes", PLAN_HOME);
	assert_kind("function list", PLAN_HOME);
	assert_kind("pubsub help", PLAN_HOME);
	assert_kind("config get a", PLAN_HOME);
	assert_kind("acl whoami", PLAN_HOME);
	assert_kind("select 1", PLAN_HOME);
	assert_kind("migrate host 1 \"\" 0 1000 copy", PLAN_HOME);
	assert_kind("migrate host 1 \"\" 0 1000 keys", PLAN_HOME);
}

TEST(test_what_redis_refuses_goes_where_it_can)
{
	assert_kind("get", PLAN_HOME);
	assert_kind("mget", PLAN_HOME);
	assert_kind("mset a", PLAN_HOME);
	assert_kind("scan", PLAN_HOME);
	assert_kind("cluster", PLAN_HOME);
	assert_kind("asking now", PLAN_HOME);
	assert_kind("script", PLAN_HOME);
	assert_kind("eval text x k", PLAN_HOME);
	assert_kind("eval_ro text x k", PLAN_HOME);
	assert_kind("eval_ro text -1 k", PLAN_HOME);
	assert_kind("fcall_ro f 99999999999 k", PLAN_HOME);
	assert_kind("xread streams", PLAN_HOME);
	assert_kind("xread block", PLAN_HOME);
	assert_kind("xread bogus streams k 0", PLAN_HOME);
	assert_slot("xread streams {k}a {k}b 0", "k");
}

TEST(test_keys_in_several_slots_are_refused)
{
	assert_kind("rename a b", PLAN_CROSSSLOT);
	assert_kind("msetnx a 1 b 2", PLAN_CROSSSLOT);
	assert_kind("eval text 2 a b", PLAN_CROSSSLOT);
	assert_kind("fcall_ro f 2 a b", PLAN_CROSSSLOT);
	assert_kind("sinterstore {a}d {a}a b", PLAN_CROSSSLOT);
	assert_kind("xread streams a b 0 0", PLAN_CROSSSLOT);
	assert_kind("blpop a b 0", PLAN_CROSSSLOT);
	assert_kind("ssubscribe a b", PLAN_CROSSSLOT);
	assert_kind("watch a b", PLAN_CROSSSLOT);
	assert_slot("rename {a}1 {a}2", "a");
}

TEST(test_some_are_split_if_they_have_to_be)
{
	assert_slot("mget {a}1 {a}2 a", "a");
	assert_slot("del a", "a");
	assert_merge("mget a b", PLAN_SPLIT, MERGE_VALUES);
	assert_merge("mset a 1 b 2", PLAN_SPLIT, MERGE_SAME);
	assert_merge("DEL a b", PLAN_SPLIT, MERGE_SUM);
	assert_merge("unlink a b", PLAN_SPLIT, MERGE_SUM);
	assert_merge("exists a b", PLAN_SPLIT, MERGE_SUM);
	assert_merge("touch a b", PLAN_SPLIT, MERGE_SUM);
}

TEST(test_some_are_for_all_primaries)
{
	assert_merge("dbsize", PLAN_EACH, MERGE_SUM);
	assert_merge("keys *", PLAN_EACH, MERGE_LIST);
	assert_merge("flushall async", PLAN_EACH, MERGE_SAME);
	assert_merge("flushdb", PLAN_EACH, MERGE_SAME);
	assert_merge("script load text", PLAN_EACH, MERGE_SAME);
	assert_merge("SCRIPT FLUSH SYNC", PLAN_EACH, MERGE_SAME);
	assert_merge("script exists a b", PLAN_EACH, MERGE_LEAST);
	assert_merge("script kill", PLAN_EACH, MERGE_ANY);
	assert_merge("function load text", PLAN_EACH, MERGE_SAME);
	assert_merge("function delete f", PLAN_EACH, MERGE_SAME);
	assert_merge("function flush", PLAN_EACH, MERGE_SAME);
	assert_merge("function restore dump", PLAN_EACH, MERGE_SAME);
	assert_merge("function kill", PLAN_EACH, MERGE_ANY);
	assert_merge("wait 1 0", PLAN_EACH, MERGE_LEAST);
	assert_merge("pubsub channels", PLAN_EACH, MERGE_NAMES);
	assert_merge("PUBSUB SHARDCHANNELS a*", PLAN_EACH, MERGE_NAMES);
	assert_merge("pubsub numsub a b", PLAN_EACH, MERGE_COUNTS);
	assert_merge("pubsub shardnumsub a", PLAN_EACH, MERGE_COUNTS);
	assert_merge("pubsub numpat", PLAN_EACH, MERGE_SUM);
	assert_merge("acl setuser u on", PLAN_EACH, MERGE_SAME);
	assert_merge("acl deluser u", PLAN_EACH, MERGE_SAME);
	assert_merge("acl load", PLAN_EACH, MERGE_SAME);
	assert_merge("acl save", PLAN_EACH, MERGE_SAME);
	assert_merge("config set a b", PLAN_EACH, MERGE_SAME);
	assert_merge("config resetstat", PLAN_EACH, MERGE_SAME);
	assert_merge("config rewrite", PLAN_EACH, MERGE_SAME);
	assert_kind("scan 0 count 10", PLAN_SCAN);
	assert_merge("randomkey", PLAN_EACH, MERGE_FOUND);
}

TEST(test_the_cluster_itself_is_not_for_clients)
{
	assert_kind("cluster slots", PLAN_DISABLED);
	assert_kind("READONLY", PLAN_DISABLED);
	assert_kind("readwrite", PLAN_DISABLED);
	assert_kind("asking", PLAN_DISABLED);
}

TEST(test_a_malformed_mset_is_so_at_one_node)
{
	struct line l;
	struct plan p;

	assert_slot("mset {a}1 1 {a}2", "a"); /* the command is sent unchanged */
	line_init(&l, "mset a 1 b 2 c");
	p = plan_request(commands_find(commands, l.argv[0]), &l.req);
	assert_int_equal(p.kind, PLAN_MALFORMED);
	assert_int_equal(p.slot, slot_of_key(SLICE_LIT("a")));
	free(l.text);
}

/* --- parts --- */

/* `expected` has a line for each request. */
static void assert_split(const char *text, uint8_t step, const char *expected)
{
	struct buf out = BUF_INIT;
	struct split s;
	struct line l;

	line_init(&l, text);
	split_init(&s, &l.req, step);
	for (uint32_t i = 0; i < s.nparts; i++) {
		size_t before = buf_len(&out);
		split_write(&s, i, &l.req, &out);
		assert_true(buf_len(&out) > before);
	}
	assert_wire(buf_slice(&out), expected);
	split_fini(&s);
	buf_release(&out);
	free(l.text);
}

TEST(test_a_part_has_the_keys_of_one_slot)
{
	assert_split("mget a b {a}2 c", 1, "mget a {a}2\nmget b\nmget c\n");
	assert_split("DEL {a}2 a a", 1, "DEL {a}2 a a\n");
	assert_split("mset a 1 b 2 a 3", 2, "mset a 1 a 3\nmset b 2\n");
	assert_split("touch a \"\"", 1, "touch a\ntouch \"\"\n");
}

/* More keys than hasp searches one by one. */
TEST(test_many_keys_find_their_slots)
{
	enum { N = 3000 };
	static char names[N][8];
	static struct slice argv[1 + N];
	struct resp_view req = { 1 + N, argv };
	struct split s;
	uint32_t seen = 0;

	argv[0] = SLICE_LIT("mget");
	for (size_t i = 0; i < N; i++) {
		snprintf(names[i], sizeof(names[i]), "%zu", i);
		argv[1 + i] = slice_str(names[i]);
	}
	split_init(&s, &req, 1);
	assert_int_equal(s.nkeys, N);
	for (uint32_t p = 0; p < s.nparts; p++) {
		uint32_t key = s.parts[p].first;
		for (uint32_t i = 0; i < s.parts[p].nkeys; i++, key = s.keys[key].next) {
			assert_int_equal(s.keys[key].part, p);
			assert_int_equal(slot_of_key(argv[1 + key]), s.parts[p].slot);
			seen++;
		}
	}
	assert_int_equal(seen, N);
	split_fini(&s);
}
