/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of decisions about verbs, and about commands on keys with a [lock] rule.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "policy/policy_internal.h"
#include "policy/policy_env.h"
#include "tests/unit/inifile.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/policy_fixture.h"
#include "tests/unit/testing.h"
#include "watch/command_sample.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

FIXTURE(policy_set_up, policy_tear_down);

#define RULE "[lock orders]\npattern = lock:*\n"
#define BY_VALUE RULE "owner = value\n"

static void assert_call(struct policy_fixture *f, const char *words, const char *call)
{
	assert_int_equal(decide(f, words)->verdict, DISPATCH_CALL);
	assert_rewritten(f, call);
}

/* --- what passes --------------------------------------------------------------------- */

TEST(without_rules_everything_passes)
{
	assert_passed(*state, "GET a");
	assert_passed(*state, "SETNX lock:a v");
	assert_passed(*state, "LOCK a");
	assert_passed(*state, "NO.SUCH.COMMAND lock:a");
}

TEST(other_keys_and_reads_pass)
{
	policy_use(*state, RULE);
	assert_passed(*state, "SETNX other v");
	assert_passed(*state, "GET lock:a");
	assert_passed(*state, "PING");
}

TEST(what_redis_refuses_for_its_length_passes)
{
	policy_use(*state, RULE);
	assert_passed(*state, "SETNX lock:a");
	assert_passed(*state, "DEL");
}

TEST(what_is_observed_passes_and_its_reply_is_looked_at)
{
	struct decision *d;

	policy_use(f, RULE "mode = observe\n");
	d = decide(f, "SETNX lock:a v");
	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_int_equal(d->pending->kind, PENDING_NOTICE);
	assert_non_null(d->pending->command_sample);
	assert_int_equal(d->pending->command_sample->n, 1);
	assert_int_equal(d->pending->command_sample->effect.act, EFFECT_ACQUIRE);
	assert_passed(f, "SETNX other v");
	assert_int_equal(decide(f, "GET lock:a")->pending->command_sample->kind,
	                 COMMAND_SAMPLE_READ);
	assert_passed(f, "STRLEN lock:a");
}

/* Returns a letter for each fact that is true of the command. */
static const char *facts_of(struct policy_fixture *f, const char *words)
{
	static char text[32];
	const struct command_info *w = (route_of(f, words), &f->what);
	const struct {
		char letter;
		bool is;
	} facts[] = {
		{ 'W', w->is_write },       { 'G', w->is_guarded },    { 'A', w->acquires },
		{ 'O', w->is_observed },    { 'D', w->is_discovered }, { 'S', w->is_sampled },
		{ 'Q', w->may_be_quorums }, { 'M', w->is_matched },    { 'V', w->reads_value },
		{ 'P', w->is_plain },       { 'N', w->never_inspect }, { 'B', w->blocks },
		{ 'R', w->may_release },    { 'U', w->is_unknown },
	};
	size_t n = 0;

	for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++)
		if (facts[i].is)
			text[n++] = facts[i].letter;
	text[n] = '\0';
	return text;
}

TEST(what_a_command_needs_follows_from_the_configuration)
{
	static const char *const commands[] = { "GET k",      "MGET a b",    "SET k v",
		                                "DEL k",      "STRLEN k",    "BLPOP k 0",
		                                "EVAL s 1 k", "PUBLISH c m", "NO.SUCH k" };
	static const struct {
		const char *sections;
		const char *facts[sizeof(commands) / sizeof(*commands)];
	} rows[] = { { "", { "PN", "PN", "PR", "PR", "PN", "BR", "R", "PN", "PN" } },
		     { RULE, { "PN", "PN", "WMPR", "WMR", "PN", "BR", "R", "PN", "PN" } },
		     { RULE "mode = observe\n",
		       { "OMP", "OM", "OMPR", "OMR", "PN", "BR", "OMR", "PN", "PN" } },
		     { "[lock values]\npattern = v:*\nowner = value\n",
		       { "VP", "V", "WMPR", "WMR", "PN", "BR", "R", "PN", "PN" } },
		     { "[guard g]\npattern = g:*\nacquire_on = GET\n",
		       { "GAMP", "PN", "GMPR", "GMR", "PN", "BR", "GMR", "GM", "GM" } },
		     { "[guard g]\npattern = g:*\nacquire_on = GET\nmode = observe\n",
		       { "OMP", "OM", "OMPR", "OMR", "PN", "BR", "OMR", "PN", "PN" } },
		     { "[quorum q]\nservers = a:1 b:1 c:1\n[lock q]\npattern = q:*\nquorum = "
		       "q\nmax_lease = 60s\n",
		       { "QMP", "QM", "WQMPR", "WQMR", "QMP", "QMBR", "QMR", "PN", "PN" } },
		     { "[discover]\n",
		       { "DSP", "D", "DSPR", "DR", "DSP", "BR", "DR", "PN", "PN" } } };

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		policy_use(f, rows[i].sections);
		for (size_t j = 0; j < sizeof(commands) / sizeof(*commands); j++)
			if (strcmp(facts_of(f, commands[j]), rows[i].facts[j]) != 0)
				fail_msg("%s: %s", commands[j], facts_of(f, commands[j]));
	}
}

TEST(setnx_takes_the_lock_if_each_client_has_a_link)
{
	policy_use(*state, "[upstream]\npooling = session\n" RULE);
	assert_int_equal(decide(*state, "SETNX lock:a mine")->verdict, DISPATCH_CALL);
}

TEST(a_command_may_have_a_long_name)
{
	size_t n = sizeof(struct classifier); /* ASan sees a write past it */
	char *name = calloc(1, n);

	assert_non_null(name);
	memset(name, 'x', n);
	policy_use(f, RULE);
	assert_null(classifier_find(&f->env, slice_of(name, n)).command);
	free(name);
}

/* --- calls --------------------------------------------------------------------------- */

#define KEYS_OF(key) key " hasp:owner:{" key "} hasp:fence:{" key "}"

TEST(setnx_takes_the_lock)
{
	policy_use(f, RULE);
	assert_call(f, "SETNX lock:a v",
	            "take 3 " KEYS_OF("lock:a") " " TOKEN_CONNECTION " v 30000 SETNX \"\"\n");
	assert_int_equal(f->d.pending->kind, PENDING_LOCK);
	assert_non_null(f->d.pending->lock_request);
	assert_int_equal(f->d.pending->lock_request->success, LOCK_IF_ONE);
	assert_int_equal(f->d.wait_ms, 0);
}

TEST(set_nx_takes_it_with_its_own_lease)
{
	policy_use(f, RULE);
	assert_call(f, "SET lock:a v NX EX 7",
	            "take 3 " KEYS_OF("lock:a") " " TOKEN_CONNECTION " v 7000 SET \"\"\n");
	assert_int_equal(f->d.pending->lock_request->success, LOCK_IF_OK);
}

TEST(del_drops_the_lock)
{
	policy_use(f, RULE);
	assert_call(f, "DEL other lock:a",
	            "del 4 " KEYS_OF("lock:a") " other \"\" DEL 1 " TOKEN_CONNECTION
	                                       " \"\" \"\"\n");
	/* This connection holds no lock that the DEL could end, but the DEL counts. */
	assert_non_null(f->d.pending->lock_request);
	run(f, "SETNX lock:a v", ":1\r\n");
	assert_int_equal(f->locks->holds.n, 1);
	decide(f, "DEL lock:a");
	assert_non_null(f->d.pending->lock_request);
	run(f, "DEL lock:a", ":1\r\n");
	assert_int_equal(f->locks->holds.n, 0);
}

TEST(other_writes_are_checked)
{
	policy_use(f, RULE);
	decide(f, "APPEND lock:a v");
	assert_int_equal(f->d.verdict, DISPATCH_CALL);
	assert_int_equal(f->d.pending->kind, PENDING_LOCK);
	assert_non_null(f->d.pending->lock_request);
}

TEST(the_rule_names_the_owner)
{
	policy_use(f, RULE "owner = address\n");
	assert_call(f, "SETNX lock:a v",
	            "take 3 " KEYS_OF("lock:a") " " TOKEN_ADDRESS " v 30000 SETNX \"\"\n");
	policy_use(f, RULE "owner = user\n");
	assert_call(f, "SETNX lock:a v",
	            "take 3 " KEYS_OF("lock:a") " user:default v 30000 SETNX \"\"\n");
	policy_use(f, RULE "owner = name\n");
	run(f, "CLIENT SETNAME worker", "+OK\r\n");
	assert_call(f, "SETNX lock:a v",
	            "take 3 " KEYS_OF("lock:a") " name:worker v 30000 SETNX \"\"\n");
}

/* A connection without a name, or whose user is unknown, is its own owner. */
TEST(an_owner_that_is_not_known_is_the_connection)
{
	policy_use(f, RULE "owner = name\n");
	assert_call(f, "SETNX lock:a v",
	            "take 3 " KEYS_OF("lock:a") " " TOKEN_CONNECTION " v 30000 SETNX \"\"\n");
	policy_use(f, RULE "owner = user\n");
	f->session.certainty = SESSION_USER_UNCERTAIN;
	assert_call(f, "SETNX lock:a v",
	            "take 3 " KEYS_OF("lock:a") " " TOKEN_CONNECTION " v 30000 SETNX \"\"\n");
}

TEST(by_value_the_owner_is_what_this_connection_stored)
{
	policy_use(f, RULE "owner = value\n");
	assert_call(f, "SET lock:a mine NX",
	            "take 3 lock:a lock:a hasp:fence:{lock:a} \"\" mine 30000 SET \"\"\n");
	run(f, "SET lock:a mine NX", "+OK\r\n");
	assert_call(f, "DEL lock:a",
	            "del 3 lock:a lock:a hasp:fence:{lock:a} \"\" DEL 1 mine \"\" \"\"\n");
	assert_call(f, "DEL lock:b",
	            "del 3 lock:b lock:b hasp:fence:{lock:b} \"\" DEL 1 \"\" \"\" foreign\n");
}

/* Redis compares the value, so DEL is safe though hasp does not know whether SET has stored it.
 */
TEST(by_value_the_owner_is_what_this_connection_sent_if_no_reply_is_seen)
{
	policy_use(f, BY_VALUE);
	run(f, "SET lock:f mine NX", "+OK\r\n");
	session_make_opaque(&f->session);
	decide(f, "SET lock:f other NX"); /* Redis refuses it */
	assert_call(f, "DEL lock:f",
	            "del 3 lock:f lock:f hasp:fence:{lock:f} \"\" DEL 1 mine \"\" \"\"\n");
	decide(f, "SET lock:a mine NX");
	assert_call(f, "DEL lock:a",
	            "del 3 lock:a lock:a hasp:fence:{lock:a} \"\" DEL 1 mine \"\" \"\"\n");
	decide(f, "MSETNX lock:b first lock:c second");
	assert_call(f, "DEL lock:c",
	            "del 3 lock:c lock:c hasp:fence:{lock:c} \"\" DEL 1 second \"\" \"\"\n");
	decide(f, "SET lock:e \"\" NX"); /* the script could not compare an empty value */
	assert_call(f, "DEL lock:e",
	            "del 3 lock:e lock:e hasp:fence:{lock:e} \"\" DEL 1 \"\" \"\" foreign\n");
	policy_use(f, BY_VALUE "foreign_del = allow\n");
	decide(f, "SET lock:d mine NX");
	assert_call(f, "DEL lock:d",
	            "del 3 lock:d lock:d hasp:fence:{lock:d} \"\" DEL 1 \"\" \"\" \"\"\n");
}

/* Returns whether hasp has noted that the connection reads `key`. */
static bool is_read_noted(struct policy_fixture *f, const char *key)
{
	return seen_values_read_at(f->locks->holds.seen, 0, slice_str(key)) >= 0;
}

/* If the connection then reads the lock, hasp's log hints at owner = value. */
TEST(after_a_refused_release_reads_of_the_lock_are_noted)
{
	struct pending_request *r;
	int64_t n;

	log_fixture_open();
	policy_use(f, RULE);
	run(f, "GET lock:a", "$5\r\nyours\r\n");
	r = sent_command(f, "DEL lock:a");
	assert_true(lock_request_refused(r->lock_request, SLICE_LIT("+REFUSED 0 1 other"), &n));
	answered(f, r, ":0\r\n");
	policy_note_reads(&f->env);
	assert_logged("event=delete_refused");
	assert_false(is_read_noted(f, "lock:a"));
	run(f, "GET lock:a", "$5\r\nyours\r\n");
	run(f, "GET other", "$5\r\nyours\r\n");
	assert_true(is_read_noted(f, "lock:a"));
	assert_false(is_read_noted(f, "other"));
	/* With owner = value, hasp keeps the value, and needs no hint. */
	policy_use(f, RULE "owner = value\n");
	run(f, "GET lock:b", "$5\r\nyours\r\n");
	assert_false(is_read_noted(f, "lock:b"));
	log_fixture_close();
}

/* With a pool, one connection may release a lock that another one has taken. */
TEST(by_value_it_may_be_what_this_connection_has_read)
{
	policy_use(f, RULE "owner = value\n");
	run(f, "GET lock:a", "$5\r\nyours\r\n");
	assert_call(f, "DEL lock:a",
	            "del 3 lock:a lock:a hasp:fence:{lock:a} \"\" DEL 1 yours \"\" \"\"\n");
	run(f, "GET lock:c", "$0\r\n\r\n"); /* the script could not compare an empty value */
	assert_call(f, "DEL lock:c",
	            "del 3 lock:c lock:c hasp:fence:{lock:c} \"\" DEL 1 \"\" \"\" foreign\n");
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "PING");
	decide(f, "GET lock:b");
	assert_null(f->d.pending); /* EXEC's reply contains this reply */
	run(f, "EXEC", "*2\r\n+PONG\r\n$6\r\ntheirs\r\n");
	assert_call(f, "DEL lock:b",
	            "del 3 lock:b lock:b hasp:fence:{lock:b} \"\" DEL 1 theirs \"\" \"\"\n");
}

/* Redis compares the value itself, which proves that the connection knows the owner. A
 * connection that knows no value counts as another owner. */
TEST(by_value_a_condition_stands_for_the_owner)
{
	static const struct {
		const char *words;
		const char *token; /* token of a connection that has read "mine" */
		const char *unread; /* token of a connection that has read nothing */
	} rows[] = {
		{ "SET v:1 new IFEQ mine", "\"\" 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 shared" },
		{ "SET v:1 new IFEQ other", "\"\" 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 shared" },
		{ "SET v:1 new IFNE mine", "mine 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 foreign" },
		{ "SET v:1 new IFNE IFEQ", "mine 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 foreign" },
		{ "SET v:1 IFEQ new", "mine 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 foreign" },
		{ "DELEX v:1 IFEQ mine", "\"\" 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 shared" },
		{ "DELEX v:1 IFEQ other", "\"\" 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 shared" },
		{ "DELIFEQ v:1 mine", "\"\" 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 shared" },
		{ "DELIFEQ v:1 other", "\"\" 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 shared" },
		{ "APPEND v:1 IFEQ", "mine 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 foreign" },
		{ "GETEX v:1 PX 5", "mine 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 foreign" },
		{ "GETEX v:1", "mine 30000 1000000000000000 shared",
		  "\"\" 30000 1000000000000000 shared" },
	};
	char call[160];

	policy_use(f, "[lock values]\npattern = v:*\nowner = value\n");
	for (int read = 0; read < 2; read++) {
		for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
			snprintf(call, sizeof(call),
			         "write 3 v:1 v:1 hasp:fence:{v:1} 1 2 %s %s\n",
			         read ? rows[i].token : rows[i].unread, rows[i].words);
			assert_call(f, rows[i].words, call);
		}
		run(f, "GET v:1", "$4\r\nmine\r\n");
	}
}

TEST(a_try_under_wait_may_stand_in_line)
{
	policy_use(f, RULE "wait = 4s\n");
	f->opts = (struct rewrite_opts){ .ticket = SLICE_LIT("worker-1"),
		                         .wait_max_ms = INT64_MAX };
	assert_call(f, "SETNX lock:a v",
	            "take_wait 5 lock:a hasp:fence:{lock:a} hasp:queue:{lock:a} "
	            "hasp:fence hasp:owner:{lock:a} \"\" " TOKEN_CONNECTION
	            " 30000 worker-1 4000 v SETNX\n");
	assert_int_equal(f->d.wait_ms, 4000);
	f->opts.wait_max_ms = 0;
	decide(f, "SETNX lock:a v");
	assert_int_equal(f->d.wait_ms, 0);
}

/* --- verbs --------------------------------------------------------------------------- */

TEST(verbs_are_calls_by_their_configured_names)
{
	policy_use(f, "[verbs]\nlock = TAKE\n");
	decide(f, "take a");
	assert_int_equal(f->d.verdict, DISPATCH_CALL);
	assert_int_equal(f->d.pending->kind, PENDING_LOCK);
	assert_int_equal(f->d.pending->lock_request->success, LOCK_IF_POSITIVE);
	decide(f, "UNLOCK a");
	assert_int_equal(f->d.verdict, DISPATCH_CALL);
	assert_non_null(f->d.pending->lock_request);
	/* LOCK.INFO changes nothing, so hasp counts nothing. */
	decide(f, "LOCK.INFO a");
	assert_int_equal(f->d.verdict, DISPATCH_CALL);
	assert_null(f->d.pending->lock_request);
	assert_passed(f, "LOCK a");
}

TEST(a_verb_that_waits_says_for_how_long)
{
	policy_use(f, "[verbs]\n");
	f->opts = (struct rewrite_opts){ .ticket = SLICE_LIT("worker-1"),
		                         .wait_max_ms = INT64_MAX };
	decide(f, "LOCK a WAIT 700");
	assert_int_equal(f->d.wait_ms, 700);
	decide(f, "LOCK a");
	assert_int_equal(f->d.wait_ms, 0);
}

/* Each owner that AS names has its own place, although the connection is the same. */
TEST(one_that_has_a_lock_as_too_many_owners_does_not_wait_for_it)
{
	char words[64];

	policy_use(f, "[verbs]\n");
	f->opts = (struct rewrite_opts){ .ticket = SLICE_LIT("worker-1"),
		                         .wait_max_ms = INT64_MAX };
	for (int i = 0; i < OWN_TOKENS_MAX; i++) {
		snprintf(words, sizeof(words), "LOCK a LIMIT 99 AS owner-%d", i);
		run(f, words, ":7\r\n");
	}
	decide(f, "LOCK a WAIT 700");
	assert_int_equal(f->x.opts.nown, OWN_TOKENS_MAX);
	assert_int_equal(f->d.wait_ms, 700);
	run(f, "LOCK a LIMIT 99 AS another", ":7\r\n");
	decide(f, "LOCK a WAIT 700");
	assert_int_equal(f->x.opts.nown, 0);
	assert_int_equal(f->d.wait_ms, 0);
}

/* A renewal that finds the lock gone after such a command reports no loss. */
TEST(only_what_may_release_a_lock_is_noted_as_a_release)
{
	static struct release_board board;
	struct slice a = SLICE_LIT("a"), owner = SLICE_LIT(TOKEN_CONNECTION);

	board = (struct release_board){ 0 };
	policy_use(f, "[verbs]\n");
	holds_set_releases(f->env.holds, &board);
	decide(f, "LOCK a");
	decide(f, "LOCK.EXTEND a");
	assert_true(release_board_at(&board, 0, a, owner) == 0);
	decide(f, "UNLOCK a");
	assert_true(release_board_at(&board, 0, a, owner) > 0);
	assert_true(release_board_at(&board, 1, a, owner) == 0);
	holds_set_releases(f->env.holds, NULL);
}

TEST(a_command_on_a_rule_s_key_is_noted_if_it_may_end_its_owner_s_lock)
{
	static struct release_board board;
	static const struct {
		const char *rule, *first, *words, *token;
		bool noted;
	} rows[] = {
		{ RULE, NULL, "SETNX lock:a v", TOKEN_CONNECTION, false },
		{ RULE, NULL, "SET lock:a v", TOKEN_CONNECTION, false },
		{ RULE, NULL, "INCR lock:a", TOKEN_CONNECTION, false },
		{ RULE, NULL, "APPEND lock:a v", TOKEN_CONNECTION, true },
		{ RULE, NULL, "DEL lock:a", TOKEN_CONNECTION, true },
		/* Another connection may have taken the lock, with a later expiry. */
		{ RULE, NULL, "EXPIRE lock:a 10", TOKEN_CONNECTION, true },
		{ RULE, "SET lock:a v NX", "EXPIRE lock:a 10", TOKEN_CONNECTION, false },
		/* A new value ends the lock of the old one. */
		{ BY_VALUE, "SET lock:a old NX", "SET lock:a new", "old", true },
		{ BY_VALUE, "SET lock:a old NX", "SET lock:a new NX", "old", false },
		{ BY_VALUE, NULL, "SET lock:a new", "", false },
		/* The command names the old value, which any connection may have stored. */
		{ BY_VALUE, NULL, "SET lock:a new IFEQ old", "old", true },
		{ BY_VALUE, NULL, "DELEX lock:a IFEQ old", "old", true },
		{ BY_VALUE, NULL, "DELIFEQ lock:a old", "old", true },
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		bool noted;

		policy_use(f, rows[i].rule);
		if (rows[i].first)
			run(f, rows[i].first, "+OK\r\n");
		board = (struct release_board){ 0 };
		holds_set_releases(f->env.holds, &board);
		decide(f, rows[i].words);
		noted = release_board_at(&board, 0, SLICE_LIT("lock:a"),
		                         slice_str(rows[i].token)) > 0;
		if (noted != rows[i].noted)
			fail_msg("%s is noted: %d", rows[i].words, noted);
		holds_set_releases(f->env.holds, NULL);
		run(f, "DEL lock:a", ":1\r\n");
	}
}

TEST(a_release_is_noted_by_all_bytes_of_its_lock)
{
	static struct release_board board;
	static const struct {
		const char *key, *token;
	} rows[] = {
		{ "xlock:orders:17", "worker:4711/23" }, { "lock:orders:18", "worker:4711/23" },
		{ "lock:orders:17", "xorker:4711/23" },  { "lock:orders:17", "worker:4711/24" },
		{ "lock:orders:1", "7worker:4711/23" },  { "lock:orders:17w", "orker:4711/23" },
		{ "lock:Orders:17", "worker:4711/23" },  { "k", "worker:4711/23" },
	};
	struct slice key = SLICE_LIT("lock:orders:17"), token = SLICE_LIT("worker:4711/23");

	release_board_note(&board, 3, key, token, 12.5);
	assert_true(release_board_at(&board, 3, key, token) == 12.5);
	assert_true(release_board_at(&board, 2, key, token) == 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		assert_true(release_board_at(&board, 3, slice_str(rows[i].key),
		                             slice_str(rows[i].token)) == 0);
	/* The note of another command is kept. */
	release_board_forget(&board, 3, key, token, 12);
	assert_true(release_board_at(&board, 3, key, token) == 12.5);
	release_board_forget(&board, 3, key, token, 12.5);
	assert_true(release_board_at(&board, 3, key, token) == 0);
}

static void assert_followed(struct policy_fixture *f, const char *words, bool followed)
{
	decide(f, words);
	assert_int_equal(f->d.verdict, DISPATCH_PASS);
	assert_int_equal(f->d.is_followed, followed);
	assert_int_equal(f->d.pending && f->d.pending->lock_request, followed);
}

TEST(a_script_that_names_one_lock_by_value_is_followed)
{
	policy_use(f, "[lock values]\npattern = v:*\nowner = value\n"
	              "[lock watched]\npattern = w:*\nowner = value\nmode = observe\n" RULE);
	assert_followed(f, "EVAL text 1 v:1 mine 30000", true);
	assert_followed(f, "EVALSHA sha 1 v:1", true);
	assert_followed(f, "FCALL name 1 v:1 mine", true);
	assert_followed(f, "EVAL text 3 other v:1 lock:a mine", true);
	assert_followed(f, "EVAL text 2 v:1 v:2 mine", false);
	assert_followed(f, "EVAL text 1 lock:a mine", false);
	assert_followed(f, "EVAL text 1 w:1 mine", false);
	assert_followed(f, "EVAL text 0 v:1", false);
	assert_followed(f, "EVAL text 9 v:1", false);
}

TEST(a_script_is_not_followed_where_that_would_be_seen)
{
	static const char *const before[] = {
		"MULTI",           "QUIT", "ASKING", "CLIENT TRACKING ON", "CLIENT CACHING YES",
		"CLIENT REPLY OFF"
	};

	policy_use(f, "[lock values]\npattern = v:*\nowner = value\n");
	for (size_t i = 0; i < sizeof(before) / sizeof(*before); i++) {
		session_fini(&f->session);
		session_init(&f->session);
		assert_followed(f, "EVAL text 1 v:1 mine", true);
		(void)sent_command(f, before[i]);
		if (f->d.turns_opaque)
			session_make_opaque(&f->session);
		assert_followed(f, "EVAL text 1 v:1 mine", false);
	}
	session_fini(&f->session);
	session_init(&f->session);
	f->session.subscriptions = (struct subscriptions){ .channels = 1, .any = true };
	assert_followed(f, "EVAL text 1 v:1 mine", false);
	f->session.proto = 3;
	assert_followed(f, "EVAL text 1 v:1 mine", true);
	f->must_log_in = true;
	assert_followed(f, "EVAL text 1 v:1 mine", false);
}

TEST(a_verb_with_wrong_arguments_is_answered_by_an_error_in_its_place)
{
	policy_use(f, "[verbs]\n");
	decide(f, "LOCK");
	assert_int_equal(f->d.verdict, DISPATCH_CALL);
	assert_null(f->d.pending->lock_request);
	assert_rewritten(f, "error 0 ERR wrong number of arguments for 'lock' command\n");
}

TEST(a_verb_does_not_take_the_lock_of_a_rule_nor_mlock_one_of_several)
{
	static const char *const lines[] = { "LOCK lock:a", "MLOCK 2 a lock:b" };

	policy_use(f, RULE "[verbs]\n");
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
		assert_call(f, lines[i],
		            "error 0 ERR the key has a [lock] rule: SET takes its lock, DEL "
		            "releases it, EXPIRE extends it\n");
		assert_null(f->d.pending->lock_request);
	}
}

TEST(locks_are_listed_outside_MULTI_only)
{
	static const char in_multi[] =
		"ERR locks cannot be listed inside MULTI, or after CLIENT "
		"REPLY or MONITOR";
	static char words[4200 + sizeof("LOCK.LIST ")] = "LOCK.LIST ";

	policy_use(f, "[verbs]\n");
	assert_call(f, "LOCK.LIST", "PING\n");
	assert_int_equal(f->d.pending->kind, PENDING_LIST);
	assert_call(f, "LOCK.LIST a*", "PING\n");
	decide(f, "LOCK.LIST a b");
	assert_int_equal(f->d.pending->kind, PENDING_LOCK);
	memset(words + strlen(words), 'p', 1024);
	assert_call(f, words, "PING\n");
	words[strlen(words)] = 'p';
	assert_refused(f, words, "ERR the pattern is too long");
	f->session.quitting = true;
	assert_refused(f, "LOCK.LIST", in_multi);
	f->session.quitting = false;
	f->session.opaque = true;
	assert_refused(f, "LOCK.LIST", in_multi);
	f->session.opaque = false;
	run(f, "MULTI", "+OK\r\n");
	assert_refused(f, "LOCK.LIST", in_multi);
}

/* hasp adds fields to the reply of LOCK.INFO, which is an array in RESP3, too. */
TEST(info_is_of_the_verbs_a_rule_or_a_guard)
{
	policy_use(f, RULE "[lock observed]\npattern = o:*\nmode = observe\n"
	                   "[verbs]\n[guard g]\npattern = g:*\nacquire_on = GET\n");
	f->opts.resp3 = true;
	decide(f, "LOCK.INFO lock:a");
	assert_false(f->x.opts.resp3);
	assert_rewritten(f, "info 4 lock:a hasp:fence:{lock:a} hasp:queue:{lock:a} "
	                    "hasp:owner:{lock:a} 2 r\n");
	decide(f, "LOCK.INFO g:a");
	assert_rewritten(f, "info 4 hasp:guard:{g:a} hasp:fence:hasp:guard:{g:a}: "
	                    "hasp:queue:hasp:guard:{g:a}: hasp:owner:hasp:guard:{g:a}: 2 "
	                    "g\n");
	decide(f, "LOCK.INFO o:a");
	assert_rewritten(f, "info 4 o:a hasp:fence:{o:a} hasp:queue:{o:a} "
	                    "hasp:owner:{o:a} 2 h\n");
	f->session.opaque = true;
	decide(f, "LOCK.INFO lock:a");
	assert_true(f->x.opts.resp3);
}

TEST(own_keys_may_be_locked_by_no_verb)
{
	static const char error[] = "error 0 NOPERM hasp: keys that begin with hasp: are "
				    "reserved; clients may only read them\n";

	policy_use(f, "[verbs]\n");
	assert_call(f, "LOCK hasp:fence:{a}", error);
	assert_call(f, "MLOCK 2 a hasp:owner:{a}", error);
	decide(f, "LOCK.INFO hasp:fence:{a}");
	assert_non_null(f->d.pending);
}

/* AS cannot name an owner that hasp made for a client. */
TEST(AS_may_not_name_another_client_s_owner)
{
	static const char error[] = "error 0 ERR AS names the owner of another client\n";

	policy_use(f, "[verbs]\n");
	assert_call(f, "LOCK a AS connection:127.0.0.1:1/0/c0ffee", error);
	assert_call(f, "MLOCK 1 a AS address:10.0.0.1", error);
	decide(f, "LOCK a AS " TOKEN_ADDRESS);
	assert_non_null(f->d.pending->lock_request);
	decide(f, "LOCK a AS job-7");
	assert_non_null(f->d.pending->lock_request);
}

/* MLOCK sends the client's owner once for each key. */
TEST(a_client_s_own_locks_are_named_by_MLOCK)
{
	static const struct {
		const char *words;
		unsigned nown;
	} rows[] = {
		{ "LOCK a WAIT 5", 1 },
		{ "LOCK b WAIT 5", 1 },
		{ "LOCK c WAIT 5", 0 },
		{ "MLOCK 2 a b WAIT 5", 2 },
		{ "MLOCK 1 a WAIT 5", 1 },
		{ "MLOCK 2 c b WAIT 5", 1 },
		{ "MLOCK 65 a b WAIT 5", 0 },
		{ "MLOCK x a b WAIT 5", 0 },
		{ "MLOCK", 0 },
		{ "UNLOCK a", 0 },
	};

	policy_use(f, "[verbs]\n");
	f->opts = (struct rewrite_opts){ .ticket = SLICE_LIT("worker-1"),
		                         .wait_max_ms = INT64_MAX };
	run(f, "LOCK a AS one", ":7\r\n");
	run(f, "LOCK b AS two", ":7\r\n");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		decide(f, rows[i].words);
		if (f->x.opts.nown != rows[i].nown)
			fail_msg("%s: %u", rows[i].words, (unsigned)f->x.opts.nown);
	}
}

/* Returns a DEL of `n` keys, of which the last is `last`. */
static const char *del_many(size_t n, const char *last)
{
	static char words[2 * (COMMAND_KEYS_MAX + 16) + 32];
	size_t at = 3;

	memcpy(words, "DEL", at);
	for (; n > 1; n--, at += 2)
		memcpy(words + at, " x", 2);
	snprintf(words + at, sizeof(words) - at, " %s", last);
	return words;
}

/* hasp allocates no memory for each key before it finds one that has a rule. */
TEST(of_very_many_keys_none_may_have_a_rule)
{
	static const char error[] =
		"ERR hasp: the command names too many keys, and one of them has a [lock] rule";

	policy_use(f, RULE);
	assert_int_equal(decide(f, del_many(COMMAND_KEYS_MAX, "lock:a"))->verdict,
	                 DISPATCH_CALL);
	assert_non_null(f->d.pending->lock_request);
	assert_refused(f, del_many(COMMAND_KEYS_MAX + 1, "lock:a"), error);
	assert_passed(f, del_many(COMMAND_KEYS_MAX + 1, "other"));
	policy_use(f, RULE "mode = observe\n");
	assert_int_equal(decide(f, del_many(COMMAND_KEYS_MAX + 1, "lock:a"))->verdict,
	                 DISPATCH_PASS);
}

TEST(a_key_that_is_only_read_needs_no_call)
{
	policy_use(f, RULE);
	assert_passed(f, "SUNIONSTORE other lock:a");
	assert_int_equal(decide(f, "SUNIONSTORE lock:a other")->verdict, DISPATCH_CALL);
}

/* With owner = value, each of a script's arguments may be the value that releases the lock;
 * only the first few short ones count. */
TEST(what_a_script_may_release_is_noted)
{
	static struct release_board board;
	static const struct {
		const char *key, *token;
		bool noted;
	} rows[] = {
		{ "lock:a", TOKEN_CONNECTION, true },
		{ "lock:a", "1", false },
		{ "v:a", TOKEN_CONNECTION, false },
		{ "v:a", "2", true },
		{ "v:a", "4", true },
		{ "v:a", "14", true },
		{ "v:a", "15", false },
		{ "v:a", "text", false },
	};
	static char words[5000];
	int at = snprintf(words, sizeof(words), "EVAL text 1 v:a ");

	policy_use(f, RULE "[lock values]\npattern = v:*\nowner = value\n");
	board = (struct release_board){ 0 };
	holds_set_releases(f->env.holds, &board);
	decide(f, "EVAL text 2 v:a lock:a 1 2 \"\" 4 5 6 7 8 9 10 11 12 13 14 15 16");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if ((release_board_at(&board, 0, slice_str(rows[i].key),
		                      slice_str(rows[i].token)) > 0) != rows[i].noted)
			fail_msg("%s %s", rows[i].key, rows[i].token);
	for (size_t n = 4096; n <= 4097; n++) {
		memset(words + at, 'v', n);
		words[(size_t)at + n] = '\0';
		decide(f, words);
		assert_int_equal(release_board_at(&board, 0, SLICE_LIT("v:a"),
		                                  slice_of(words + at, n)) > 0,
		                 n == 4096);
	}
	holds_set_releases(f->env.holds, NULL);
}

/* The call sends the ticket of this connection's own hold, and the last fencing token that its
 * owner can have got before the lease of 30 s ended. */
TEST(an_owner_with_several_connections_gives_its_own_hold_back)
{
	static const struct {
		const char *words, *given_back;
	} rows[] = {
		{ "UNLOCK a AS one", "worker-1 29999007," },
		{ "MUNLOCK 1 a AS one", "worker-1 29999007,,," },
		{ "MUNLOCK 2 a b AS one", "worker-1 29999007,,,," },
		{ "UNLOCK a AS other", "," },
		{ "UNLOCK b AS one", "," },
		{ "UNLOCK a", "" },
		{ "LOCK a AS one", "" },
		{ "MUNLOCK 1 b AS one", ",,," },
		{ "UNLOCK", "" },
	};

	policy_use(f, "[verbs]\n");
	f->opts = (struct rewrite_opts){ .ticket = SLICE_LIT("worker-1"),
		                         .wait_max_ms = INT64_MAX };
	run(f, "LOCK a AS one", ":7\r\n");
	f->opts.ticket = SLICE_LIT("worker-2");
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		decide(f, rows[i].words);
		if (!slice_is(f->x.opts.given_back, rows[i].given_back))
			fail_msg("%s", rows[i].words);
	}
	run(f, "LOCK b AS one", ":8\r\n");
	decide(f, "MUNLOCK 2 b a AS one");
	assert_true(slice_is(f->x.opts.given_back, "worker-2 29999008,worker-1 29999007,,,"));
	assert_rewritten(f, "munlock 9 a hasp:fence:{a} hasp:queue:{a} hasp:owner:{a} "
	                    "b hasp:fence:{b} hasp:queue:{b} hasp:owner:{b} hasp:fence "
	                    "\"\" one hash worker-1 29999007 worker-2 29999008\n");
	policy_use(f, "[verbs]\nowner = address\n");
	f->opts.ticket = SLICE_LIT("worker-3");
	run(f, "LOCK a", ":7\r\n");
	decide(f, "UNLOCK a");
	assert_true(slice_is(f->x.opts.given_back, "worker-3 29999007,"));
}

TEST(MSETNX_takes_the_lock_of_each_key)
{
	policy_use(f, RULE "[lock short]\npattern = short:*\nlease = 5s\n");
	run(f, "MSETNX lock:a v other w short:b x", ":1\r\n");
	assert_int_equal(f->locks->holds.n, 2);
	run(f, "DEL lock:a", ":1\r\n");
	run(f, "DEL short:b", ":1\r\n");
	assert_int_equal(f->locks->holds.n, 0);
	decide(f, "MSETNX lock:a v other w short:b x");
	assert_non_null(f->d.pending->lock_request->next);
	assert_true(slice_is(lock_request_key(f->d.pending->lock_request), "short:b"));
	decide(f, "MSETNX other w short:b x");
	assert_null(f->d.pending->lock_request->next);
	run(f, "MSETNX lock:a v other w short:b x", ":0\r\n");
	assert_int_equal(f->locks->holds.n, 0);
}

TEST(MSETEX_with_NX_takes_the_lock_of_each_key)
{
	policy_use(f, RULE "[lock short]\npattern = short:*\nlease = 5s\n");
	run(f, "MSETEX 2 lock:a v short:b x EX 9", ":1\r\n");
	assert_int_equal(f->locks->holds.n, 0);
	run(f, "MSETEX 2 lock:a v short:b x EX 9 NX", ":1\r\n");
	assert_int_equal(f->locks->holds.n, 2);
}

TEST(MSETEX_with_NX_limits_each_lease_by_its_own_rule)
{
	struct slice token = SLICE_LIT(TOKEN_CONNECTION);
	struct held held;

	policy_use(f, RULE "[lock short]\npattern = short:*\nlease = 3s\nmax_lease = 5s\n");
	run(f, "MSETEX 2 short:b x lock:a v EX 9 NX", ":1\r\n");
	assert_true(held_find(f->env.holds, 0, SLICE_LIT("lock:a"), token, 0, 0, &held));
	assert_int_equal(held.lease_ms, 9000);
	assert_true(held_find(f->env.holds, 0, SLICE_LIT("short:b"), token, 0, 0, &held));
	assert_int_equal(held.lease_ms, 5000);
}

/* --- when the answer is not known yet ----------------------------------------------- */

TEST(calls_wait_until_nothing_is_awaited)
{
	struct pending_request *r;

	policy_use(f, RULE "[verbs]\n");
	r = sent_command(f, "SELECT 3");
	assert_deferred(f, "SETNX lock:a v");
	assert_deferred(f, "LOCK a");
	assert_passed(f, "SETNX other v");
	answered(f, r, "+OK\r\n");
	assert_int_equal(decide(f, "SETNX lock:a v")->verdict, DISPATCH_CALL);
	assert_int_equal(decide(f, "LOCK a")->verdict, DISPATCH_CALL);
}

/* Redis refuses all other commands. */
TEST(on_a_subscribed_resp2_connection_nothing_is_rewritten)
{
	policy_use(f, RULE "[verbs]\n");
	f->session.subscriptions = (struct subscriptions){ .channels = 1, .any = true };
	assert_passed(f, "SETNX lock:a v");
	assert_passed(f, "LOCK a");
	(void)sent_command(f, "UNSUBSCRIBE");
	assert_deferred(f, "SETNX lock:a v");
	assert_deferred(f, "LOCK a");
}

TEST(when_replies_are_not_seen_calls_are_made_all_the_same)
{
	policy_use(f, RULE);
	session_make_opaque(&f->session);
	assert_int_equal(decide(f, "SETNX lock:a v")->verdict, DISPATCH_CALL);
	assert_null(f->d.pending);
}

/* --- transactions ------------------------------------------------------------------- */

TEST(in_multi_a_call_is_queued_and_known_until_exec)
{
	struct pending_request *exec;

	policy_use(f, RULE);
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "GET a");
	decide(f, "SETNX lock:a v");
	assert_int_equal(f->d.verdict, DISPATCH_CALL);
	assert_null(f->d.pending);
	assert_int_equal(f->session.txn.nqueued, 2);
	assert_non_null(f->session.txn.exec);
	exec = sent_command(f, "EXEC");
	assert_int_equal(exec->kind, PENDING_EXEC);
	answered(f, exec, "*2\r\n$-1\r\n:1\r\n");
	assert_int_equal(f->locks->holds.n, 1);
}

TEST(a_watched_key_s_commands_stay_as_they_are)
{
	policy_use(f, RULE);
	assert_passed(f, "WATCH other lock:a");
	assert_passed(f, "SET lock:a v");
	assert_int_equal(decide(f, "SET lock:b v")->verdict, DISPATCH_CALL);
	run(f, "UNWATCH", "+OK\r\n");
	assert_int_equal(decide(f, "SET lock:a v")->verdict, DISPATCH_CALL);
}

TEST(watch_and_its_key_wait_until_the_database_is_known)
{
	struct pending_request *r;

	policy_use(f, RULE);
	r = sent_command(f, "SELECT 1");
	assert_deferred(f, "WATCH lock:a");
	assert_passed(f, "WATCH other");
	answered(f, r, "+OK\r\n");
	assert_passed(f, "WATCH lock:a");
	(void)sent_command(f, "SELECT 2");
	assert_deferred(f, "SET lock:a v");
}

TEST(an_observed_key_s_commands_in_multi_are_looked_at_by_exec)
{
	policy_use(f, RULE "mode = observe\n");
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "SETNX lock:a v");
	assert_non_null(f->session.txn.exec);
}

/* --- locks that are waited for ------------------------------------------------------ */

static void note_key(void *arg, struct slice key)
{
	buf_append(arg, key);
	buf_puts(arg, " ");
}

static void assert_probes(struct policy_fixture *f, const char *words, enum pending_kind kind,
                          const char *keys)
{
	struct decision *d = decide(f, words);
	struct buf told = BUF_INIT;

	assert_non_null(d->pending);
	assert_int_equal(d->pending->kind, kind);
	pending_each_probe_key(d->pending, note_key, &told);
	assert_true(slice_eq(buf_slice(&told), slice_str(keys)));
	buf_release(&told);
}

TEST(a_lock_that_is_waited_for_is_probed_after_a_plain_write)
{
	policy_use(f, "[verbs]\n");
	assert_passed(f, "DEL a b");
	policy_waits_for("b");
	assert_probes(f, "DEL a b", PENDING_PROBE, "b ");
	assert_passed(f, "DEL a");
	assert_passed(f, "GET b");
	assert_false(dispatch_may_release(&f->env, &f->session, &f->what, &f->view));
	decide(f, "DEL a b");
	assert_true(dispatch_may_release(&f->env, &f->session, &f->what, &f->view));
}

TEST(a_lock_under_wait_is_probed_after_a_write_that_does_not_hand_it_over)
{
	policy_use(f, RULE "wait = 4s\n");
	f->opts = (struct rewrite_opts){ .ticket = SLICE_LIT("worker-1"),
		                         .wait_max_ms = INT64_MAX };
	assert_probes(f, "APPEND lock:a v", PENDING_LOCK, "lock:a ");
	assert_probes(f, "DEL lock:a", PENDING_LOCK, "");
	assert_probes(f, "SETNX lock:a v", PENDING_LOCK, "");
}

TEST(in_multi_the_probe_waits_for_exec)
{
	policy_use(f, "[verbs]\n");
	policy_waits_for("b");
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "DEL b");
	assert_probes(f, "EXEC", PENDING_EXEC, "b ");
}

/* --- once more ---------------------------------------------------------------------- */

TEST(a_call_can_be_written_again_with_the_script_s_text)
{
	policy_use(f, RULE "[verbs]\n");
	decide(f, "SETNX lock:a v");
	f->x.opts.eval = true;
	assert_int_equal(lock_rewrite(&f->x, f->d.pending), 0);
	assert_rewritten(f, "EVAL take 3 " KEYS_OF("lock:a") " " TOKEN_CONNECTION
	                                                     " v 30000 SETNX \"\"\n");
	assert_non_null(f->d.pending->lock_request);
	decide(f, "UNLOCK a");
	f->x.opts.eval = true;
	lock_rewrite(&f->x, f->d.pending);
	assert_rewritten(f, "EVAL unlock 5 a hasp:fence:{a} hasp:queue:{a} hasp:fence "
	                    "hasp:owner:{a} \"\" " TOKEN_CONNECTION " hash \"\"\n");
}

/* Redis may lack the script, and answer so after the lease. */
TEST(an_UNLOCK_that_is_sent_again_gives_the_same_hold_back)
{
	policy_use(f, "[verbs]\n");
	f->opts = (struct rewrite_opts){ .ticket = SLICE_LIT("worker-1") };
	run(f, "LOCK a AS one", ":7\r\n");
	decide(f, "UNLOCK a AS one");
	hold_owner_end(&f->locks->holds, false);
	f->x.opts = f->opts;
	lock_rewrite(&f->x, f->d.pending);
	assert_rewritten(f, "unlock 5 a hasp:fence:{a} hasp:queue:{a} hasp:fence "
	                    "hasp:owner:{a} \"\" one hash \"\" \"\" worker-1 29999007\n");
}

TEST(a_lock_that_nobody_waits_for_gets_a_short_call)
{
	policy_use(f, RULE "[verbs]\n");
	f->opts = (struct rewrite_opts){ .ticket = SLICE_LIT("worker-1"),
		                         .report_refusal = true };
	assert_call(f, "UNLOCK a",
	            "unlock 5 a hasp:fence:{a} hasp:queue:{a} hasp:fence "
	            "hasp:owner:{a} " TOKEN_CONNECTION "\n");
	assert_true(f->d.pending->is_short);
	f->x.opts = f->opts;
	lock_rewrite(&f->x, f->d.pending);
	assert_rewritten(f, "unlock 5 a hasp:fence:{a} hasp:queue:{a} hasp:fence "
	                    "hasp:owner:{a} \"\" " TOKEN_CONNECTION " hash \"\" tell\n");
	assert_false(f->d.pending->is_short);
	assert_call(f, "DEL lock:a", "del 3 " KEYS_OF("lock:a") " DEL " TOKEN_CONNECTION "\n");
	assert_true(f->d.pending->is_short);
	decide(f, "DEL lock:a lock:b");
	assert_false(f->d.pending->is_short);
}

/* The script needs the secret, to hand the lock off. */
TEST(a_lock_that_is_waited_for_gets_a_full_call)
{
	policy_use(f, RULE "[verbs]\n");
	f->opts = (struct rewrite_opts){ .ticket = SLICE_LIT("worker-1"),
		                         .report_refusal = true };
	policy_waits_for("a");
	decide(f, "UNLOCK a");
	assert_false(f->d.pending->is_short);
	decide(f, "LOCK a");
	assert_false(f->d.pending->is_short);
	policy_waits_for("lock:a");
	decide(f, "DEL lock:a");
	assert_false(f->d.pending->is_short);
}

TEST(a_call_whose_answer_is_not_followed_is_full)
{
	policy_use(f, "[verbs]\n");
	f->opts = (struct rewrite_opts){ .ticket = SLICE_LIT("worker-1") };
	decide(f, "UNLOCK a");
	assert_false(f->d.pending->is_short);
	f->opts.report_refusal = f->opts.eval = true;
	decide(f, "UNLOCK a");
	assert_false(f->d.pending->is_short);
}
