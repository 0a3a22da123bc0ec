/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is noted of a command on watched keys until it is answered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/inifile.h"
#include "tests/unit/policy_fixture.h"
#include "watch/command_sample.h"
#include "watch/tracker_internal.h"

#define TOKEN_LABEL "127.0.0.1:4711"
#define RULE "[lock orders]\npattern = lock:*\nmode = observe\n"
#define GUARD "[guard stock]\npattern = stock:*\nacquire_on = GET MGET\nmode = observe\n"

/* Passed, and watched at one key. */
static const struct command_sample *assert_watched(struct policy_fixture *f, const char *words,
                                                   const char *key)
{
	const struct command_sample *s;

	decide(f, words);
	assert_int_equal(f->d.verdict, DISPATCH_PASS);
	assert_non_null(f->d.pending);
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

static void a_lock_is_watched_with_its_act_lease_and_owner(void **state)
{
	struct policy_fixture *f = *state;
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

/* What a connection stores is its own. */
static void by_value_the_connection_is_the_owner(void **state)
{
	struct policy_fixture *f = *state;
	const struct command_sample *s;

	policy_use(f, RULE "owner = value\n");
	s = assert_watched(f, "SETNX lock:a v", "lock:a");
	assert_true(s->keys[0].owner == hash(f, TOKEN_CONNECTION));
}

static void a_script_that_names_a_lock_is_watched_with_its_arguments(void **state)
{
	struct policy_fixture *f = *state;
	const struct command_sample *s;

	policy_use(f, RULE);
	s = assert_watched(f, "EVAL script 1 lock:a v", "lock:a");
	assert_int_equal(s->kind, COMMAND_SAMPLE_SCRIPT);
	assert_int_equal(s->nscript_args, 1);
	assert_true(s->script_args[0] == hash(f, "v"));
}

static void a_guard_s_reads_and_writes_are_watched(void **state)
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

static void an_expiry_is_no_update(void **state)
{
	policy_use(*state, GUARD);
	assert_passed(*state, "EXPIRE stock:1 10");
	assert_passed(*state, "PERSIST stock:1");
	policy_use(*state, RULE);
	assert_int_equal(assert_watched(*state, "EXPIRE lock:a 10", "lock:a")->effect.act,
	                 EFFECT_EXPIRE);
}

static void enforced_rules_are_not_watched(void **state)
{
	policy_use(*state, "[lock a]\npattern = lock:a\n" RULE);
	assert_int_equal(decide(*state, "SETNX lock:a v")->verdict, DISPATCH_CALL);
	assert_watched(*state, "SETNX lock:b v", "lock:b");
}

/* --- time ---------------------------------------------------------------------------- */

static void what_is_queued_has_no_time_yet(void **state)
{
	struct policy_fixture *f = *state;
	const struct pending_request *queued;

	policy_use(f, RULE);
	assert_watched(f, "SETNX lock:a v", "lock:a");
	assert_float_equal(f->d.pending->command_sample->sent_at, POLICY_NOW, 0.001);
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "SETNX lock:a v");
	queued = container_of(f->session.txn.exec->queued.next, struct pending_request, node);
	assert_float_equal(queued->command_sample->sent_at, 0, 0.001);
}

/* --- the client ---------------------------------------------------------------------- */

static void a_client_gets_a_new_label_when_its_name_changes(void **state)
{
	struct policy_fixture *f = *state;
	const struct tracker_client *client;

	policy_use(f, RULE);
	assert_null(f->watched);
	assert_watched(f, "SETNX lock:a v", "lock:a");
	client = f->watched;
	assert_string_equal(client->label->text, TOKEN_LABEL);
	run(f, "CLIENT SETNAME worker", "+OK\r\n");
	assert_watched(f, "SETNX lock:a v", "lock:a");
	assert_ptr_equal(f->watched, client);
	assert_string_equal(client->label->text, TOKEN_LABEL " worker");
}

static void whose_replies_are_not_seen_is_not_watched(void **state)
{
	struct policy_fixture *f = *state;

	policy_use(f, RULE);
	session_make_opaque(&f->session);
	assert_passed(f, "SETNX lock:a v");
	assert_null(f->watched);
}

/* --- long commands ------------------------------------------------------------------- */

static void a_long_write_on_a_guarded_key_is_watched_by_its_beginning(void **state)
{
	struct policy_fixture *f = *state;
	struct decision *d;

	policy_use(f, RULE GUARD);
	d = decide_early(f, "SET stock:1 v", 2);
	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_non_null(d->pending->command_sample);
	/* What else there is to a lock's command is not to be seen yet. */
	d = decide_early(f, "SET lock:a v", 2);
	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_null(d->pending);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, policy_set_up, policy_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_lock_is_watched_with_its_act_lease_and_owner),
		TEST(by_value_the_connection_is_the_owner),
		TEST(a_script_that_names_a_lock_is_watched_with_its_arguments),
		TEST(a_guard_s_reads_and_writes_are_watched),
		TEST(an_expiry_is_no_update),
		TEST(enforced_rules_are_not_watched),
		TEST(what_is_queued_has_no_time_yet),
		TEST(a_client_gets_a_new_label_when_its_name_changes),
		TEST(whose_replies_are_not_seen_is_not_watched),
		TEST(a_long_write_on_a_guarded_key_is_watched_by_its_beginning),
	};

	return cmocka_run_group_tests(tests, ini_make_dir, ini_remove_dir);
}
