/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of decisions about commands on keys whose rule names a quorum, and about verbs whose
 * locks a quorum stores.
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/inifile.h"
#include "tests/unit/policy_fixture.h"
#include "tests/unit/testing.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

FIXTURE(policy_set_up, policy_tear_down);

#define QUORUM "[quorum q]\nservers = a:1 b:1 c:1\n"
#define RULE "[lock orders]\npattern = q:*\nquorum = q\nlease = 30s\nmax_lease = 60s\n"
#define REFUSED(what) "ERR hasp: a quorum stores this lock, " what
#define IN_MULTI                                                                               \
	REFUSED("so it cannot be used in MULTI, or after WATCH, CLIENT REPLY or MONITOR")
#define NOT_ALONE REFUSED("so the command may name no other key")
#define OTHER_COMMAND                                                                          \
	REFUSED("which allows only SETNX, SET NX, DEL, UNLINK, EXPIRE, GET, EXISTS and TTL")
/* The date of policy_fixture, in ms. */
#define DATE INT64_C(1700000000000)

static void use(struct policy_fixture *f, const char *sections)
{
	policy_use(f, sections);
	f->env.quorum_is_there = true;
}

static void assert_asks_quorum(struct policy_fixture *f, const char *words)
{
	struct decision *d = decide(f, words);

	assert_int_equal(d->verdict, DISPATCH_CALL);
	assert_non_null(d->pending);
	assert_int_equal(d->pending->kind, PENDING_QUORUM);
	assert_rewritten(f, "PING\n");
}

static struct quorum_command asked(struct policy_fixture *f, const char *words)
{
	struct quorum_command q;

	assert_asks_quorum(f, words);
	assert_true(quorum_command_read(&f->x, &q));
	return q;
}

/* --- commands ------------------------------------------------------------------------ */

TEST(each_command_of_a_lock_has_an_act)
{
	static const struct {
		const char *words;
		enum quorum_act act;
		int64_t lease_ms; /* 0: the act uses no lease */
		bool leased;
		const char *value;
	} rows[] = {
		{ "SETNX q:a v", QUORUM_ACT_TAKE, 30000, false, "v" },
		{ "SET q:a v NX", QUORUM_ACT_TAKE, 30000, false, "v" },
		{ "SET q:a v NX KEEPTTL", QUORUM_ACT_TAKE, 30000, false, "v" },
		{ "SET q:a v NX PX 1", QUORUM_ACT_TAKE, 1, true, "v" },
		{ "SET q:a v EX 7 NX", QUORUM_ACT_TAKE, 7000, true, "v" },
		{ "SET q:a v NX PXAT 1700000000002", QUORUM_ACT_TAKE, 2, true, "v" },
		{ "SET q:a v NX EXAT 1700000001", QUORUM_ACT_TAKE, 1000, true, "v" },
		/* A date in the past gives the shortest lease. */
		{ "SET q:a v NX PXAT 1700000000000", QUORUM_ACT_TAKE, 1, true, "v" },
		{ "SET q:a v NX EXAT 1", QUORUM_ACT_TAKE, 1, true, "v" },
		{ "DEL q:a", QUORUM_ACT_RELEASE, 0, false, "" },
		{ "UNLINK q:a", QUORUM_ACT_RELEASE, 0, false, "" },
		{ "EXPIRE q:a 7", QUORUM_ACT_EXTEND, 7000, true, "" },
		{ "PEXPIRE q:a 7", QUORUM_ACT_EXTEND, 7, true, "" },
		{ "PEXPIRE q:a 0", QUORUM_ACT_RELEASE, 0, true, "" },
		{ "PEXPIRE q:a -1", QUORUM_ACT_RELEASE, 0, true, "" },
		{ "EXPIREAT q:a 1700000003", QUORUM_ACT_EXTEND, 3000, true, "" },
		{ "PEXPIREAT q:a 1700000000001", QUORUM_ACT_EXTEND, 1, true, "" },
		{ "PEXPIREAT q:a 1699999999999", QUORUM_ACT_RELEASE, 0, true, "" },
		{ "PERSIST q:a", QUORUM_ACT_PERSIST, 0, false, "" },
		{ "GET q:a", QUORUM_ACT_GET, 0, false, "" },
		{ "EXISTS q:a", QUORUM_ACT_EXISTS, 0, false, "" },
		{ "TTL q:a", QUORUM_ACT_TTL, 0, false, "" },
		{ "PTTL q:a", QUORUM_ACT_PTTL, 0, false, "" },
	};

	use(f, QUORUM RULE);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct quorum_command q = asked(f, rows[i].words);

		if (q.act != rows[i].act ||
		    (rows[i].lease_ms && q.call.lease_ms != rows[i].lease_ms) ||
		    q.call.leased != rows[i].leased || !slice_is(q.call.value, rows[i].value) ||
		    !slice_is(q.call.key, "q:a") || !slice_is(q.call.owner, TOKEN_CONNECTION) ||
		    q.key.rule != f->env.config->rules[0])
			fail_msg("%s: act %d, lease %jd", rows[i].words, (int)q.act,
			         (intmax_t)q.call.lease_ms);
	}
}

TEST(max_lease_limits_what_the_application_asks_for)
{
	static const struct {
		const char *words;
		int64_t lease_ms;
	} rows[] = {
		{ "SET q:a v NX PX 59999", 59999 },
		{ "SET q:a v NX PX 60000", 60000 },
		{ "SET q:a v NX PX 60001", 60000 },
		{ "SET q:a v NX EXAT 1700000090", 60000 },
		{ "EXPIRE q:a 60", 60000 },
		{ "EXPIRE q:a 61", 60000 },
		{ "PEXPIREAT q:a 1700000090000", 60000 },
	};

	use(f, QUORUM RULE);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		if (asked(f, rows[i].words).call.lease_ms != rows[i].lease_ms)
			fail_msg("%s", rows[i].words);
}

TEST(the_rule_names_the_owner)
{
	use(f, QUORUM RULE "owner = address\n");
	assert_true(slice_is(asked(f, "SETNX q:a v").call.owner, TOKEN_ADDRESS));
	use(f, QUORUM RULE "owner = value\n");
	assert_int_equal(asked(f, "SETNX q:a v").call.owner.n, 0);
}

/* Redis gets these commands unchanged, and refuses them. */
TEST(what_redis_refuses_passes)
{
	static const char *const words[] = {
		"SETNX q:a",
		"SETNX q:a v more",
		"SET q:a v NX XX",
		"SET q:a v NX PX",
		"SET q:a v NX PX 0",
		"SET q:a v NX PX -1",
		"SET q:a v NX PX word",
		"SET q:a v NX EX 9223372036854775807",
		"SET q:a v NX EXAT 9223372036854775807",
		"SET q:a v NX EXAT 0",
		"EXPIRE q:a word",
		"EXPIRE q:a 9223372036854775807",
		"EXPIREAT q:a 9223372036854775807",
		"PEXPIREAT q:a 1.5",
		"GET q:a more",
		"PERSIST q:a more",
	};
	struct quorum_command q;

	use(f, QUORUM RULE);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		assert_passed(f, words[i]);
		if (quorum_command_read(&f->x, &q))
			fail_msg("%s", words[i]);
	}
}

TEST(other_commands_on_such_a_key_are_refused)
{
	static const char *const words[] = {
		"SET q:a v",      "SET q:a v XX",    "SET q:a v NX GET",
		"SET q:a v PX 5", "EXPIRE q:a 7 NX", "PEXPIREAT q:a 7 GT",
		"APPEND q:a v",   "INCR q:a",        "GETEX q:a PERSIST",
		"STRLEN q:a",     "LPUSH q:a v",     "EVAL text 1 q:a mine",
	};
	struct quorum_command q;

	use(f, QUORUM RULE);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		assert_refused(f, words[i], OTHER_COMMAND);
		assert_false(quorum_command_read(&f->x, &q));
	}
}

TEST(another_key_beside_it_is_refused_wherever_it_is)
{
	static const char *const words[] = { "DEL q:a q:b",          "DEL q:a other",
		                             "DEL other q:a",        "EXISTS x y q:a",
		                             "MSET x v q:a v",       "RENAME q:a other",
		                             "EVAL text 2 other q:a" };

	use(f, QUORUM RULE);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		assert_refused(f, words[i], NOT_ALONE);
}

TEST(a_value_has_a_longest_length)
{
	static char words[65536 + 32];
	int n = snprintf(words, sizeof(words), "SETNX q:a ");

	use(f, QUORUM RULE);
	memset(words + n, 'v', 65536);
	assert_int_equal(asked(f, words).call.value.n, 65536);
	words[n + 65536] = 'v';
	assert_refused(f, words, REFUSED("so its value may have at most 65536 bytes"));
}

/* A rule in mode observe takes no locks. */
TEST(other_keys_and_rules_do_not_concern_the_quorum)
{
	static const char *const words[] = { "SETNX other v", "DEL x y", "GET other", "PING" };
	struct quorum_command q;

	use(f, QUORUM RULE "[lock plain]\npattern = p:*\n");
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		assert_passed(f, words[i]);
		assert_false(quorum_command_read(&f->x, &q));
	}
	assert_int_equal(decide(f, "SETNX p:a v")->pending->kind, PENDING_LOCK);
	assert_false(quorum_command_read(&f->x, &q));
	use(f, QUORUM RULE "mode = observe\n");
	assert_int_equal(decide(f, "SETNX q:a v")->verdict, DISPATCH_PASS);
	assert_false(quorum_command_read(&f->x, &q));
	use(f, QUORUM RULE "[verbs]\n");
	decide(f, "UNLOCK q:a");
	assert_false(quorum_command_read(&f->x, &q));
}

TEST(after_a_reload_the_rule_s_quorum_needs_a_restart)
{
	policy_use(f, QUORUM RULE);
	assert_refused(f, "SETNX q:a v",
	               "ERR hasp: a reload gave the key's rule a quorum, which hasp uses only "
	               "after a restart");
}

/* --- the session --------------------------------------------------------------------- */

TEST(MULTI_and_WATCH_allow_no_such_key)
{
	use(f, QUORUM RULE);
	assert_refused(f, "WATCH q:a", IN_MULTI);
	assert_refused(f, "WATCH x q:a", IN_MULTI);
	assert_int_equal(decide(f, "WATCH x")->verdict, DISPATCH_PASS);
	f->session.quitting = true;
	assert_refused(f, "GET q:a", IN_MULTI);
	f->session.quitting = false;
	f->session.opaque = true;
	assert_refused(f, "GET q:a", IN_MULTI);
	f->session.opaque = false;
	assert_asks_quorum(f, "GET q:a");
	run(f, "MULTI", "+OK\r\n");
	assert_refused(f, "GET q:a", IN_MULTI);
}

TEST(such_a_command_waits_for_the_replies_that_may_matter)
{
	struct pending_request *r;

	use(f, QUORUM RULE);
	r = sent_command(f, "SELECT 3");
	assert_deferred(f, "GET q:a");
	answered(f, r, "+OK\r\n");
	assert_asks_quorum(f, "GET q:a");
}

TEST(a_subscriber_s_command_passes)
{
	use(f, QUORUM RULE);
	f->session.subscriptions = (struct subscriptions){ .channels = 1, .any = true };
	assert_int_equal(decide(f, "GET q:a")->verdict, DISPATCH_PASS);
}

/* --- verbs --------------------------------------------------------------------------- */

#define VERBS QUORUM "[verbs]\nquorum = q\nreentrant = no\nmax_lease = 60s\n"

static void use_verbs(struct policy_fixture *f, const char *sections)
{
	use(f, sections);
	f->env.verbs_quorum = true;
}

TEST(verbs_ask_the_quorum)
{
	static const struct {
		const char *words;
		int64_t lease_ms, wait_ms;
		bool leased;
	} rows[] = {
		{ "LOCK a", 30000, 0, false },
		{ "LOCK a PX 7", 7, 0, true },
		{ "LOCK a WAIT 700", 30000, 700, false },
		{ "UNLOCK a", 0, 0, false },
		{ "LOCK.EXTEND a PX 9", 9, 0, true },
	};

	use_verbs(f, VERBS);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct lock_call call = asked(f, rows[i].words).call;

		if (!slice_is(call.key, "a") || !slice_is(call.owner, TOKEN_CONNECTION) ||
		    call.lease_ms != rows[i].lease_ms || call.wait_ms != rows[i].wait_ms ||
		    call.leased != rows[i].leased)
			fail_msg("%s: lease %jd, wait %jd", rows[i].words,
			         (intmax_t)call.lease_ms, (intmax_t)call.wait_ms);
	}
}

TEST(verbs_that_a_quorum_does_not_have_are_refused)
{
	static const char *const together[] = { "LOCK.LIST", "MLOCK 1 a", "MUNLOCK 1 a" };
	static const char *const kinds[] = { "LOCK a SHARED", "LOCK a EXCLUSIVE",
		                             "LOCK a LIMIT 3" };

	use_verbs(f, VERBS);
	for (size_t i = 0; i < sizeof(together) / sizeof(*together); i++)
		assert_refused(f, together[i],
		               "ERR hasp: a quorum stores these locks, so they cannot be "
		               "taken together or listed");
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		assert_refused(f, kinds[i], "ERR hasp: a quorum stores only plain locks");
}

TEST(verbs_are_refused_inside_MULTI)
{
	static const char error[] = "ERR hasp: a quorum stores these locks, so they cannot be "
				    "taken inside MULTI, or after CLIENT REPLY or MONITOR";

	use_verbs(f, VERBS);
	f->session.quitting = true;
	assert_refused(f, "LOCK a", error);
	f->session.quitting = false;
	f->session.opaque = true;
	assert_refused(f, "LOCK a", error);
	f->session.opaque = false;
	run(f, "MULTI", "+OK\r\n");
	assert_refused(f, "LOCK a", error);
}

/* Errors, and LOCK.INFO's report of a rule's lock, are the same as without a quorum. */
TEST(other_calls_of_verbs_are_as_without_a_quorum)
{
	struct quorum_command q;

	use_verbs(f, VERBS RULE "[lock plain]\npattern = p:*\n"
	                        "[lock observed]\npattern = o:*\nmode = observe\n"
	                        "[guard g]\npattern = g:*\nacquire_on = GET\n");
	decide(f, "LOCK a WAIT word");
	assert_int_equal(f->d.verdict, DISPATCH_CALL);
	assert_int_not_equal(f->d.pending->kind, PENDING_QUORUM);
	assert_rewritten(f, "error 0 ERR timeout is not an integer or out of range\n");
	decide(f, "LOCK.INFO p:a");
	assert_int_equal(f->d.verdict, DISPATCH_CALL);
	assert_int_not_equal(f->d.pending->kind, PENDING_QUORUM);
	assert_false(quorum_command_read(&f->x, &q));
	decide(f, "LOCK.INFO g:a");
	assert_int_not_equal(f->d.pending->kind, PENDING_QUORUM);
	decide(f, "LOCK.INFO o:a");
	assert_int_not_equal(f->d.pending->kind, PENDING_QUORUM);
	assert_asks_quorum(f, "UNLOCK o:a");
	assert_asks_quorum(f, "LOCK.INFO a");
	assert_int_equal(asked(f, "LOCK.INFO q:a").act, QUORUM_ACT_INFO);
}
