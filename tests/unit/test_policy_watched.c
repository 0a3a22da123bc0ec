/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the record of a command on watched keys until its reply.
 */

#include "policy/policy_internal.h"
#include "tests/unit/inifile.h"
#include "tests/unit/policy_fixture.h"
#include "tests/unit/testing.h"
#include "watch/command_sample.h"
#include "watch/tracker_internal.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

FIXTURE(policy_set_up, policy_tear_down);

/* SHA-1 of the text "script". */
#define SCRIPT_SHA1 "cb5346a081dcf654061b7f897ea14d9b43140712"
#define TOKEN_LABEL "127.0.0.1:4711"
#define RULE "[lock orders]\npattern = lock:*\nmode = observe\n"
#define GUARD "[guard stock]\npattern = stock:*\nacquire_on = GET MGET\nmode = observe\n"

/* Asserts that the command passes, and that hasp watches one key. */
static const struct command_sample *assert_watched(struct policy_fixture *f, const char *words,
                                                   const char *key)
{
	const struct command_sample *s;

	decide(f, words);
	assert_int_equal(f->d.verdict, DISPATCH_PASS);
	if (!f->d.pending)
		fail_msg("%s", words);
	s = f->d.pending->command_sample;
	assert_non_null(s);
	assert_int_equal(s->n, 1);
	assert_non_null(s->keys[0].group);
	assert_true(slice_eq(buf_slice(&s->bytes), slice_str(key)));
	assert_int_equal(command_sample_nbytes(s),
	                 sizeof(*s) + sizeof(s->keys[0]) + buf_cap(&s->bytes));
	return s;
}

static uint64_t hash(const struct policy_fixture *f, const char *token)
{
	return tracker_hash(f->env.tracker->tracker, slice_str(token));
}

/* --- keys ---------------------------------------------------------------------------- */

TEST(a_lock_is_watched_with_its_act_lease_and_owner)
{
	const struct command_sample *s;

	policy_use(f, RULE);
	s = assert_watched(f, "SET lock:a v NX PX 7000", "lock:a");
	assert_int_equal(s->effect.act, EFFECT_ACQUIRE);
	assert_int_equal(s->effect.lease_ms, 7000);
	assert_true(s->keys[0].owner == hash(f, TOKEN_CONNECTION));
	s = assert_watched(f, "DEL other lock:a", "lock:a");
	assert_int_equal(s->effect.act, EFFECT_DELETE);
	assert_int_equal(s->nargs, 2);
	policy_use(f, RULE "owner = address\n");
	s = assert_watched(f, "SETNX lock:a v", "lock:a");
	assert_true(s->keys[0].owner == hash(f, TOKEN_ADDRESS));
}

/* A connection owns the values that it stores. */
TEST(by_value_the_connection_is_the_owner)
{
	const struct command_sample *s;

	policy_use(f, RULE "owner = value\n");
	s = assert_watched(f, "SETNX lock:a v", "lock:a");
	assert_true(s->keys[0].owner == hash(f, TOKEN_CONNECTION));
}

TEST(a_script_that_names_a_lock_is_watched_with_its_arguments)
{
	const struct command_sample *s;

	policy_use(f, RULE);
	s = assert_watched(f, "EVAL script 1 lock:a v", "lock:a");
	assert_int_equal(s->kind, COMMAND_SAMPLE_SCRIPT);
	assert_int_equal(s->nscript_args, 1);
	assert_true(s->script_args[0] == hash(f, "v"));
}

TEST(a_guard_s_reads_and_writes_are_watched)
{
	const struct command_sample *s;

	policy_use(*state, GUARD);
	s = assert_watched(*state, "MGET other stock:1", "stock:1");
	assert_int_equal(s->keys[0].use, KEY_GUARD_READ);
	s = assert_watched(*state, "MSET other a stock:1 b", "stock:1");
	assert_int_equal(s->keys[0].use, KEY_GUARD_WRITTEN);
	assert_false(s->keys[0].keeps_read);
	policy_use(*state, GUARD "release_on = SET\n");
	s = assert_watched(*state, "APPEND stock:1 b", "stock:1");
	assert_true(s->keys[0].keeps_read);
}

TEST(an_expiry_is_no_update)
{
	policy_use(*state, GUARD);
	assert_passed(*state, "EXPIRE stock:1 10");
	assert_passed(*state, "PERSIST stock:1");
	policy_use(*state, RULE);
	assert_int_equal(assert_watched(*state, "EXPIRE lock:a 10", "lock:a")->effect.act,
	                 EFFECT_EXPIRE);
}

TEST(enforced_rules_are_not_watched)
{
	policy_use(*state, "[lock a]\npattern = lock:a\n" RULE);
	assert_int_equal(decide(*state, "SETNX lock:a v")->verdict, DISPATCH_CALL);
	assert_watched(*state, "SETNX lock:b v", "lock:b");
}

/* --- what is noted of a command ------------------------------------------------------ */

TEST(each_command_of_a_lock_has_its_kind_way_and_value)
{
	static const struct {
		const char *words;
		enum command_sample_kind kind;
		enum lock_way way;
		enum effect_act act;
		const char *value, *field;
		bool swaps;
	} rows[] = {
		{ "SETNX lock:a v", COMMAND_SAMPLE_EFFECT, WAY_SETNX, EFFECT_ACQUIRE, "v", NULL,
		  false },
		{ "SET lock:a v NX", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_ACQUIRE, "v",
		  NULL, false },
		{ "MSETNX lock:a v", COMMAND_SAMPLE_EFFECT, WAY_SETNX, EFFECT_ACQUIRE, NULL,
		  NULL, false },
		{ "MSETEX 1 lock:a v PX 5 NX", COMMAND_SAMPLE_EFFECT, WAY_SET_NX,
		  EFFECT_ACQUIRE, NULL, NULL, false },
		{ "MSETEX 1 lock:a v PX 5", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_CHANGE,
		  NULL, NULL, false },
		{ "SET lock:a v", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_SET, "v", NULL,
		  false },
		{ "SETEX lock:a 5 v", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_SET, "v", NULL,
		  false },
		{ "PSETEX lock:a 5 v", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_SET, "v", NULL,
		  false },
		{ "GETSET lock:a v", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_SET, "v", NULL,
		  true },
		{ "DEL lock:a", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_DELETE, NULL, NULL,
		  false },
		{ "EXPIRE lock:a 7", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_EXPIRE, NULL,
		  NULL, false },
		{ "PERSIST lock:a", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_PERSIST, NULL,
		  NULL, false },
		{ "APPEND lock:a v", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_CHANGE, NULL,
		  NULL, false },
		{ "HSET lock:a f v", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_CHANGE, "v", "f",
		  false },
		{ "HSET lock:a f v g w", COMMAND_SAMPLE_EFFECT, WAY_SET_NX, EFFECT_CHANGE, NULL,
		  "f", false },
	};

	policy_use(f, RULE);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct command_sample *s = assert_watched(f, rows[i].words, "lock:a");

		if (s->kind != rows[i].kind || s->way != rows[i].way ||
		    s->effect.act != rows[i].act || s->swaps != rows[i].swaps ||
		    s->value != (rows[i].value ? hash(f, rows[i].value) : 0) ||
		    s->fields[0] != (rows[i].field ? hash(f, rows[i].field) : 0) ||
		    s->keys[0].use != KEY_LOCK || s->keys[0].n != 6 || s->watches ||
		    s->under_lock)
			fail_msg("%s: %d %d %d", rows[i].words, (int)s->kind, (int)s->way,
			         (int)s->effect.act);
	}
}

TEST(reads_of_a_lock_s_value_are_watched_and_no_others)
{
	static const char *const others[] = { "EXISTS lock:a", "TTL lock:a",
		                              "STRLEN lock:a", "TYPE lock:a",
		                              "HGET lock:a f", "LRANGE lock:a 0 1" };
	const struct command_sample *s;

	policy_use(f, RULE);
	s = assert_watched(f, "GET lock:a", "lock:a");
	assert_int_equal(s->kind, COMMAND_SAMPLE_READ);
	assert_int_equal(s->how, READ_GET);
	assert_true(s->value == 0 && s->nfields == 0);
	assert_int_equal(assert_watched(f, "MGET other lock:a", "lock:a")->how, READ_MGET);
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++)
		assert_passed(f, others[i]);
}

/* True if the sample has these fields; `letters` has the name of each. */
static bool has_fields(const struct policy_fixture *f, const struct command_sample *s,
                       const char *letters)
{
	for (size_t i = 0; letters[i]; i++)
		if (s->fields[i] !=
		    tracker_hash(f->env.tracker->tracker, slice_of(&letters[i], 1)))
			return false;
	return true;
}

TEST(discovery_sees_fields_elements_and_absence_too)
{
	static const struct {
		const char *words;
		enum command_sample_kind kind;
		int detail; /* READ: how it reads; LOOK: the reply if the key does not exist */
		const char *fields; /* a letter for each */
		const char *value;
	} rows[] = {
		{ "HGET k f", COMMAND_SAMPLE_READ, READ_HGET, "f", NULL },
		{ "HSET k f v", COMMAND_SAMPLE_EFFECT, 0, "f", "v" },
		{ "HSET k f v g w", COMMAND_SAMPLE_EFFECT, 0, "fg", NULL },
		{ "HSET k a 1 b 1 c 1 d 1 e 1 f 1 g 1 h 1 i 1", COMMAND_SAMPLE_EFFECT, 0,
		  "abcdefgh", NULL },
		{ "HINCRBY k f 5", COMMAND_SAMPLE_EFFECT, 0, "f", NULL },
		{ "HSETNX k f v", COMMAND_SAMPLE_EFFECT, 0, "f", NULL },
		{ "HDEL k f g", COMMAND_SAMPLE_EFFECT, 0, "fg", NULL },
		{ "LRANGE k 0 1", COMMAND_SAMPLE_LIST, 0, "", NULL },
		{ "GET k", COMMAND_SAMPLE_READ, READ_GET, "", NULL },
		{ "EXISTS k", COMMAND_SAMPLE_LOOK, 0, "", NULL },
		{ "TTL k", COMMAND_SAMPLE_LOOK, -2, "", NULL },
		{ "PTTL k", COMMAND_SAMPLE_LOOK, -2, "", NULL },
		{ "SET k v", COMMAND_SAMPLE_EFFECT, 0, "", "v" },
		{ "SISMEMBER k m", COMMAND_SAMPLE_OTHER, 0, "", NULL },
		{ "HGETALL k", COMMAND_SAMPLE_OTHER, 0, "", NULL },
	};

	policy_use(f, "[discover]\n");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct command_sample *s;

		assert_non_null(decide(f, rows[i].words)->pending);
		s = f->d.pending->command_sample;
		if (s->kind != rows[i].kind || s->keys[0].use != KEY_ANY || s->keys[0].group ||
		    (s->kind == COMMAND_SAMPLE_READ && (int)s->how != rows[i].detail) ||
		    (s->kind == COMMAND_SAMPLE_LOOK && s->absent != rows[i].detail) ||
		    s->value != (rows[i].value ? hash(f, rows[i].value) : 0) ||
		    s->nfields != strlen(rows[i].fields) || !has_fields(f, s, rows[i].fields))
			fail_msg("%s: %d", rows[i].words, (int)s->kind);
		assert_int_equal(atomic_load(&f->env.tracker->commands), i + 1);
	}
	assert_null(f->watched->label);
}

/* A script's number is that of its SHA-1 or of the function's name; its arguments follow its
 * keys. */
TEST(a_script_has_a_number_and_arguments)
{
	static const struct {
		const char *words;
		const char *number;
		size_t nargs;
		const char *args[2];
	} rows[] = {
		{ "EVAL script 1 lock:a v w", SCRIPT_SHA1, 2, { "v", "w" } },
		{ "EVALSHA " SCRIPT_SHA1 " 1 lock:a v", SCRIPT_SHA1, 1, { "v" } },
		{ "FCALL name 1 lock:a", "name", 0, { NULL } },
		{ "EVAL script 2 other lock:a v", SCRIPT_SHA1, 1, { "v" } },
	};
	const struct command_sample *s;

	policy_use(f, RULE);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		s = assert_watched(f, rows[i].words, "lock:a");
		assert_int_equal(s->kind, COMMAND_SAMPLE_SCRIPT);
		assert_true(s->script == hash(f, rows[i].number));
		assert_int_equal(s->nscript_args, rows[i].nargs);
		for (size_t j = 0; j < rows[i].nargs; j++)
			assert_true(s->script_args[j] == hash(f, rows[i].args[j]));
	}
	s = assert_watched(f, "EVAL script 1 lock:a 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17",
	                   "lock:a");
	assert_int_equal(s->nscript_args, COMMAND_SAMPLE_ARGS_MAX);
}

TEST(a_client_s_locks_and_watched_keys_are_noted)
{
	const struct pending_request *queued;

	policy_use(f, RULE "[verbs]\n");
	run(f, "LOCK mine", ":7\r\n");
	assert_true(assert_watched(f, "SETNX lock:a v", "lock:a")->under_lock);
	run(f, "UNLOCK mine", ":1\r\n");
	run(f, "WATCH lock:b", "+OK\r\n");
	assert_false(assert_watched(f, "SETNX lock:a v", "lock:a")->watches);
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "SETNX lock:a v");
	queued = container_of(f->session.txn.exec->queued.next, struct pending_request, node);
	assert_true(queued->command_sample->watches);
	assert_false(queued->command_sample->under_lock);
}

TEST(commands_that_concern_the_tracker)
{
	static const struct {
		const char *name;
		bool concerns, may_sample;
	} rows[] = {
		{ "get", true, true },    { "set", true, true },     { "mget", true, false },
		{ "hget", true, true },   { "exists", true, false }, { "ttl", true, true },
		{ "append", true, true }, { "del", true, false },    { "expire", true, false },
		{ "strlen", true, true }, { "eval", true, false },   { "blpop", false, false },
		{ "incr", true, false },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct command *c = commands_get(f->env.commands,
		                                       slice_str(rows[i].name));

		if (watched_concerns(c) != rows[i].concerns ||
		    (rows[i].concerns && watched_may_sample(c) != rows[i].may_sample))
			fail_msg("%s: %d %d", rows[i].name, watched_concerns(c),
			         watched_may_sample(c));
	}
}

/* For keys without a sign of a lock, hasp watches only commands that may take a lock. */
TEST(of_dull_keys_only_SET_NX_is_wanted)
{
	static const struct {
		const char *words;
		bool wanted;
	} rows[] = {
		{ "SET k v NX", true },      { "SET k v nx", true },
		{ "SET k v EX 5 NX", true }, { "SET k v", false },
		{ "SET k NX", false },       { "SET k v XX", false },
		{ "SET k v N", false },      { "SET k v KEEPTTL", false },
		{ "APPEND k v NX", false },  { "SET other v", true },
	};

	sampling_place(f->env.tracker->sampling, SLICE_LIT("k"))->n = SAMPLING_WHOLE;
	policy_use(f, "[discover]\n");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		decide(f, rows[i].words);
		if (watched_wants(f->env.tracker, f->what.command, f->view.argv,
		                  f->view.argc) != rows[i].wanted)
			fail_msg("%s", rows[i].words);
	}
}

/* --- time ---------------------------------------------------------------------------- */

TEST(what_is_queued_runs_later)
{
	const struct pending_request *queued;

	policy_use(f, RULE);
	assert_watched(f, "SETNX lock:a v", "lock:a");
	assert_float_equal(f->d.pending->command_sample->sent_at, POLICY_NOW, 0.001);
	assert_false(f->d.pending->command_sample->is_queued);
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "SETNX lock:a v");
	queued = container_of(f->session.txn.exec->queued.next, struct pending_request, node);
	assert_true(queued->command_sample->is_queued);
}

/* --- the client ---------------------------------------------------------------------- */

TEST(a_client_gets_a_new_label_when_its_name_changes)
{
	const struct tracker_client *client;

	policy_use(f, RULE);
	assert_null(f->watched);
	assert_watched(f, "SETNX lock:a v", "lock:a");
	client = f->watched;
	assert_string_equal(client->label->text, TOKEN_LABEL);
	assert_true(client->name == 0);
	run(f, "CLIENT SETNAME worker", "+OK\r\n");
	assert_watched(f, "SETNX lock:a v", "lock:a");
	assert_ptr_equal(f->watched, client);
	assert_true(client->name == hash(f, "worker"));
	assert_string_equal(client->label->text, TOKEN_LABEL " worker");
}

TEST(whose_replies_are_not_seen_is_not_watched)
{
	policy_use(f, RULE);
	session_make_opaque(&f->session);
	assert_passed(f, "SETNX lock:a v");
	assert_null(f->watched);
}

/* --- long commands ------------------------------------------------------------------- */

TEST(a_long_write_on_a_guarded_key_is_watched_by_its_beginning)
{
	struct decision *d;

	policy_use(f, RULE GUARD);
	d = decide_early(f, "SET stock:1 v", 2);
	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_non_null(d->pending->command_sample);
	/* The arguments after the value have not arrived yet. */
	d = decide_early(f, "SET lock:a v", 2);
	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_null(d->pending);
}
