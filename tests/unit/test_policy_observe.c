/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is written down about a command on keys that are only observed, until it is answered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/inifile.h"
#include "tests/unit/policy_fixture.h"
#include "watch/observation.h"

#define RULE "[lock orders]\npattern = lock:*\nmode = observe\n"
#define GUARD "[guard stock]\npattern = stock:*\nacquire_on = GET MGET\nmode = observe\n"

/* Passed, and observed with one key, of which `token_and_key` tells. */
static const struct observed_key *assert_observed(struct policy_fixture *f, const char *words,
                                                  const char *token_and_key)
{
	const struct observation *o;

	decide(f, words);
	assert_int_equal(f->d.verdict, DISPATCH_PASS);
	assert_non_null(f->d.pending);
	o = f->d.pending->observation;
	assert_non_null(o);
	assert_int_equal(o->n, 1);
	assert_non_null(o->keys[0].rule);
	assert_true(slice_eq(buf_slice(&o->bytes), slice_str(token_and_key)));
	assert_int_equal(o->keys[0].ntoken + o->keys[0].nkey, buf_len(&o->bytes));
	return &o->keys[0];
}

/* --- keys ---------------------------------------------------------------------------- */

static void a_lock_is_observed_with_its_act_lease_and_owner(void **state)
{
	const struct observed_key *k;

	policy_use(*state, RULE);
	k = assert_observed(*state, "SET lock:a v NX PX 7000", TOKEN_CONNECTION "lock:a");
	assert_int_equal(k->act, EFFECT_ACQUIRE);
	assert_int_equal(k->lease_ms, 7000);
	k = assert_observed(*state, "DEL other lock:a", TOKEN_CONNECTION "lock:a");
	assert_int_equal(k->act, EFFECT_DELETE);
	policy_use(*state, RULE "owner = address\n");
	assert_observed(*state, "SETNX lock:a v", TOKEN_ADDRESS "lock:a");
}

/* What a connection stores is its own. */
static void by_value_the_connection_is_the_owner(void **state)
{
	policy_use(*state, RULE "owner = value\n");
	assert_observed(*state, "SETNX lock:a v", TOKEN_CONNECTION "lock:a");
}

static void a_guard_s_reads_and_writes_are_observed(void **state)
{
	const struct observed_key *k;

	policy_use(*state, GUARD);
	k = assert_observed(*state, "MGET other stock:1", TOKEN_CONNECTION "stock:1");
	assert_int_equal(k->act, EFFECT_READ);
	k = assert_observed(*state, "MSET other a stock:1 b", TOKEN_CONNECTION "stock:1");
	assert_int_equal(k->act, EFFECT_WRITE);
	assert_true(k->releases);
	policy_use(*state, GUARD "release_on = SET\n");
	k = assert_observed(*state, "APPEND stock:1 b", TOKEN_CONNECTION "stock:1");
	assert_false(k->releases);
}

static void an_expiry_is_no_update(void **state)
{
	policy_use(*state, GUARD);
	assert_passed(*state, "EXPIRE stock:1 10");
	assert_passed(*state, "PERSIST stock:1");
	policy_use(*state, RULE);
	assert_int_equal(
		assert_observed(*state, "EXPIRE lock:a 10", TOKEN_CONNECTION "lock:a")->act,
		EFFECT_EXPIRE);
}

static void enforced_rules_are_not_observed(void **state)
{
	policy_use(*state, "[lock a]\npattern = lock:a\n" RULE);
	assert_int_equal(decide(*state, "SETNX lock:a v")->verdict, DISPATCH_CALL);
	assert_observed(*state, "SETNX lock:b v", TOKEN_CONNECTION "lock:b");
}

/* --- time ---------------------------------------------------------------------------- */

static void what_is_queued_has_no_time_yet(void **state)
{
	struct policy_fixture *f = *state;
	const struct pending_request *queued;

	policy_use(f, RULE);
	assert_observed(f, "SETNX lock:a v", TOKEN_CONNECTION "lock:a");
	assert_float_equal(f->d.pending->observation->sent_at, POLICY_NOW, 0.001);
	run(f, "MULTI", "+OK\r\n");
	assert_passed(f, "SETNX lock:a v");
	queued = container_of(f->session.txn.queued.next, struct pending_request, node);
	assert_float_equal(queued->observation->sent_at, 0, 0.001);
}

/* --- the client ---------------------------------------------------------------------- */

static void a_client_is_named_anew_when_its_name_changes(void **state)
{
	struct policy_fixture *f = *state;
	const struct observer *observer;

	policy_use(f, RULE);
	assert_null(f->observer);
	assert_observed(f, "SETNX lock:a v", TOKEN_CONNECTION "lock:a");
	observer = f->observer;
	assert_null(observer->name);
	run(f, "CLIENT SETNAME worker", "+OK\r\n");
	assert_observed(f, "SETNX lock:a v", TOKEN_CONNECTION "lock:a");
	assert_ptr_equal(f->observer, observer);
	assert_string_equal(observer->name, "worker");
}

static void whose_replies_are_not_seen_is_not_observed(void **state)
{
	struct policy_fixture *f = *state;

	policy_use(f, RULE);
	session_make_opaque(&f->session);
	assert_passed(f, "SETNX lock:a v");
	assert_null(f->observer);
}

/* --- long commands ------------------------------------------------------------------- */

static void a_long_write_on_a_guarded_key_is_observed_by_its_beginning(void **state)
{
	struct policy_fixture *f = *state;
	struct decision *d;

	policy_use(f, RULE GUARD);
	d = decide_early(f, "SET stock:1 v", 2);
	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_non_null(d->pending->observation);
	/* What else there is to a lock's command is not to be seen yet. */
	d = decide_early(f, "SET lock:a v", 2);
	assert_int_equal(d->verdict, DISPATCH_PASS);
	assert_null(d->pending);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, policy_set_up, policy_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_lock_is_observed_with_its_act_lease_and_owner),
		TEST(by_value_the_connection_is_the_owner),
		TEST(a_guard_s_reads_and_writes_are_observed),
		TEST(an_expiry_is_no_update),
		TEST(enforced_rules_are_not_observed),
		TEST(what_is_queued_has_no_time_yet),
		TEST(a_client_is_named_anew_when_its_name_changes),
		TEST(whose_replies_are_not_seen_is_not_observed),
		TEST(a_long_write_on_a_guarded_key_is_observed_by_its_beginning),
	};

	return cmocka_run_group_tests(tests, ini_make_dir, ini_remove_dir);
}
