/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is kept of a call on a lock until its reply is there, and how the call is undone when
 * the reply never comes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lock/hold/hold_internal.h"
#include "tests/unit/fake_jobs.h"
#include "tests/unit/hold_fixture.h"
#include "tests/unit/session_fixture.h"

/* --- what is kept -------------------------------------------------------------------- */

static struct lock_request *pending_of(struct hold_fixture *f, struct lock_call call,
                                       size_t nkeys)
{
	struct hold_terms terms = { .rule = &rule_by_connection, .token = SLICE_LIT("token") };
	struct slice key = SLICE_LIT("lock");

	return lock_request_new(f->holds, &call, &key, nkeys, &terms);
}

static void a_call_that_cannot_change_a_hold_is_not_kept(void **state)
{
	struct hold_fixture *f = *state;
	struct lock_call none = { .effect = LOCK_EFFECT_NONE };
	struct lock_call takes = { .effect = LOCK_EFFECT_TAKES };
	struct lock_call drops = { .effect = LOCK_EFFECT_DROPS };
	struct lock_call expires = { .effect = LOCK_EFFECT_EXPIRES };

	assert_null(pending_of(f, none, 1));
	assert_null(pending_of(f, takes, 0));
	assert_null(pending_of(f, drops, 1));
	assert_null(pending_of(f, expires, 1));
}

/* It may follow the one that takes the lock, and so be answered behind it. */
static void a_release_is_kept_while_a_take_is_awaited_or_a_lock_is_held(void **state)
{
	struct hold_fixture *f = *state;
	struct lock_call drops = { .effect = LOCK_EFFECT_DROPS };
	struct pending_request *r = sent_take(f, &rule_by_connection, "worker-1");
	struct lock_request *p = pending_of(f, drops, 1);

	assert_non_null(p);
	lock_request_free(p);
	HOLD_ANSWER(f, r, "+OK\r\n");
	assert_int_equal(f->owner.n, 1);
	p = pending_of(f, drops, 1);
	assert_non_null(p);
	lock_request_free(p);
	hold_owner_end(&f->owner, true);
	assert_null(pending_of(f, drops, 1));
}

static void what_a_try_wants_is_kept(void **state)
{
	struct hold_fixture *f = *state;
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1");
	int64_t lease_ms;
	struct attempt t = lock_request_attempt(p, &lease_ms);

	assert_int_equal(lease_ms, 30000);
	assert_int_equal(t.id.kind, LOCK_KIND_RULE);
	assert_true(slice_eq(t.id.key, SLICE_LIT("lock")));
	assert_true(slice_eq(t.id.token, SLICE_LIT("token")));
	assert_int_equal(t.value.n, 0);
	assert_true(slice_eq(t.ticket, SLICE_LIT("worker-1")));
	assert_int_equal(t.place, 0);
	assert_int_equal(lock_request_success(p), LOCK_IF_OK);
	lock_request_free(p);
}

static void with_owner_value_the_value_is_the_token(void **state)
{
	struct hold_fixture *f = *state;
	struct lock_request *p = pending_take(f, &rule_by_value, "worker-1");
	int64_t lease_ms;

	assert_true(slice_eq(lock_request_attempt(p, &lease_ms).id.token, SLICE_LIT("v")));
	assert_true(slice_eq(lock_request_attempt(p, &lease_ms).value, SLICE_LIT("v")));
	lock_request_free(p);
}

/* --- its state ----------------------------------------------------------------------- */

/* Redis, or a client that plays it, may answer what no script of hasp's answers. */
static void an_answer_that_does_not_fit_the_state_is_not_understood(void **state)
{
	struct hold_fixture *f = *state;
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1");
	struct slice line = SLICE_LIT("+QUEUED 1 2 3\r\n");
	int64_t n;

	assert_true(lock_request_queued(p, 0, &line));
	assert_false(lock_request_queued(p, 0, &line));
	assert_false(lock_request_refused(p, SLICE_LIT("+REFUSED 0 1 -"), &n));
	lock_request_locked(p);
	assert_int_equal(p->state, LOCK_REQUEST_QUEUED);
	lock_request_free(p);
}

static void a_reply_is_kept_once_until_it_is_fetched(void **state)
{
	struct hold_fixture *f = *state;
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1");
	struct resp_reply one = { .type = ':', .integer = 1 }, r = { 0 };

	assert_int_equal(lock_request_kept(p, &r).n, 0);
	assert_int_equal(r.type, 0);
	lock_request_keep(p, &one, SLICE_LIT(":1\r\n"));
	/* It may be kept once more, for another reason. */
	lock_request_keep(p, &one, lock_request_kept(p, &r));
	assert_true(slice_eq(lock_request_kept(p, &r), SLICE_LIT(":1\r\n")));
	assert_int_equal(r.integer, 1);
	lock_request_free(p);
}

static void states_follow_each_other_as_the_diagram_says(void **state)
{
	/* clang-format off */
	/* to:                  SENT QUEUED GRANTED RETRIED UNDONE KEPT LOCKED REFUSED ABANDONED */
	static const bool allowed[LOCK_REQUEST_STATES][LOCK_REQUEST_STATES] = {
		[LOCK_REQUEST_SENT]      = { 0, 1, 0, 1, 0, 1, 1, 1, 1 },
		[LOCK_REQUEST_QUEUED]    = { 0, 0, 1, 1, 1, 1, 0, 0, 1 },
		[LOCK_REQUEST_GRANTED]   = { 0, 1, 0, 1, 0, 1, 0, 0, 1 },
		[LOCK_REQUEST_RETRIED]   = { 0, 1, 0, 1, 0, 1, 0, 0, 1 },
		[LOCK_REQUEST_UNDONE]    = { 0, 0, 0, 0, 0, 1, 0, 0, 1 },
		[LOCK_REQUEST_KEPT]      = { 0, 0, 0, 1, 0, 1, 0, 0, 1 },
		[LOCK_REQUEST_LOCKED]    = { 0, 0, 0, 0, 0, 0, 0, 0, 0 },
		[LOCK_REQUEST_REFUSED]   = { 0, 0, 0, 0, 0, 0, 0, 0, 0 },
		[LOCK_REQUEST_ABANDONED] = { 0, 0, 0, 0, 0, 0, 0, 0, 0 },
	};
	/* clang-format on */

	(void)state;
	for (int from = 0; from < LOCK_REQUEST_STATES; from++)
		for (int to = 0; to < LOCK_REQUEST_STATES; to++)
			assert_int_equal(lock_request_allows((enum lock_request_state)from,
			                                     (enum lock_request_state)to),
			                 allowed[from][to]);
}

/* --- what is undone ------------------------------------------------------------------ */

static void a_try_that_was_not_answered_is_undone_by_its_ticket(void **state)
{
	struct hold_fixture *f = *state;

	HOLD_ANSWER(f, sent_select(&f->s, 3), "+OK\r\n");
	HOLD_ANSWER(f, sent_take(f, &rule_by_address, "worker-1"), "+OK\r\n");
	sent_take(f, &rule_by_address, "worker-2");
	hold_undo_awaited(f);
	assert_int_equal(fake_jobs_count("dequeue"), 1);
	assert_int_equal(fake_jobs_count("3 again dequeue "), 1);
	assert_int_equal(fake_jobs_count("worker-2"), 1);
	assert_int_equal(fake_jobs_count("undo"), 1);
	/* Once is enough. */
	hold_undo_awaited(f);
	assert_int_equal(fake_jobs_count("dequeue"), 1);
}

/* Also if another client has the same token, or stores the same value. */
static void by_its_ticket_a_try_of_any_owner_is_undone(void **state)
{
	struct hold_fixture *f = *state;

	sent_take(f, &rule_by_connection, "worker-1");
	sent_take(f, &rule_by_value, "worker-2");
	sent_take(f, &rule_by_address, "worker-3");
	HOLD_ANSWER(f, sent_take(f, &rule_by_connection, "worker-4"), "+OK\r\n");
	sent_take(f, &rule_by_connection, "worker-5");
	hold_undo_awaited(f);
	assert_int_equal(fake_jobs_count("dequeue"), 4);
	assert_int_equal(fake_jobs_count("worker-4"), 0);
}

static void tries_in_a_transaction_that_was_not_answered_are_undone(void **state)
{
	struct hold_fixture *f = *state;

	transaction_begin(&f->s.txn);
	sent_take(f, &rule_by_address, "worker-1");
	sent_other(&f->s);
	sent_take(f, &rule_by_address, "worker-2");
	/* What Redis has only queued it forgets by itself. */
	hold_undo_awaited(f);
	assert_int_equal(fake_jobs_count("dequeue"), 0);
	assert_non_null(sent_exec(&f->s));
	hold_undo_awaited(f);
	assert_int_equal(fake_jobs_count("dequeue"), 2);
}

static void in_a_database_that_is_not_known_nothing_is_undone(void **state)
{
	struct hold_fixture *f = *state;

	sent_select(&f->s, 3);
	session_make_opaque(&f->s);
	f->s.opaque = false;
	sent_take(f, &rule_by_address, "worker-1");
	hold_undo_awaited(f);
	assert_jobs("");
}

static void what_takes_no_lock_is_not_undone(void **state)
{
	struct hold_fixture *f = *state;
	struct lock_request *p;

	HOLD_ANSWER(f, sent_take(f, &rule_by_connection, "worker-1"), "+OK\r\n");
	p = pending_of(f, (struct lock_call){ .effect = LOCK_EFFECT_DROPS }, 1);
	assert_non_null(p);
	lock_request_undo(p, 0);
	lock_request_undo(NULL, 0);
	assert_jobs("");
}

/* --- for how long -------------------------------------------------------------------- */

/* Undoes a try that was sent at HOLD_NOW. */
static double undone_until(struct hold_fixture *f, int64_t lease_ms, int64_t wait_ms)
{
	struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
		                  .kind = LOCK_KIND_RULE,
		                  .lease_ms = lease_ms,
		                  .wait_ms = wait_ms,
		                  .ticket = SLICE_LIT("worker-1") };
	struct lock_request *p = pending_of(f, call, 1);

	lock_request_undo(p, 0);
	assert_int_equal(fake_jobs_count("dequeue"), 1);
	fake_jobs_clear();
	return fake_jobs_until();
}

static void a_try_is_undone_as_long_as_what_it_took_may_last(void **state)
{
	struct hold_fixture *f = *state;

	assert_float_equal(undone_until(f, 8000, 0), HOLD_NOW + 8, 0.001);
	assert_float_equal(undone_until(f, 8000, 4000), HOLD_NOW + 12, 0.001);
	/* The application named the end as a date: the rule's lease stands for it. */
	assert_float_equal(undone_until(f, 0, 0), HOLD_NOW + 30, 0.001);
}

static void since_a_grant_it_lasts_from_there(void **state)
{
	struct hold_fixture *f = *state;
	struct lock_request *p = pending_take(f, &rule_by_address, "worker-1");

	lock_request_since(p, HOLD_NOW + 7);
	lock_request_undo(p, 0);
	assert_float_equal(fake_jobs_until(), HOLD_NOW + 37, 0.001);
}

static void but_no_longer_than_an_hour(void **state)
{
	struct hold_fixture *f = *state;

	assert_float_equal(undone_until(f, INT64_MAX / 4, 0), HOLD_NOW + 3600, 0.001);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, hold_set_up, hold_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_call_that_cannot_change_a_hold_is_not_kept),
		TEST(a_release_is_kept_while_a_take_is_awaited_or_a_lock_is_held),
		TEST(what_a_try_wants_is_kept),
		TEST(with_owner_value_the_value_is_the_token),
		TEST(an_answer_that_does_not_fit_the_state_is_not_understood),
		TEST(a_reply_is_kept_once_until_it_is_fetched),
		TEST(states_follow_each_other_as_the_diagram_says),
		TEST(a_try_that_was_not_answered_is_undone_by_its_ticket),
		TEST(by_its_ticket_a_try_of_any_owner_is_undone),
		TEST(tries_in_a_transaction_that_was_not_answered_are_undone),
		TEST(in_a_database_that_is_not_known_nothing_is_undone),
		TEST(what_takes_no_lock_is_not_undone),
		TEST(a_try_is_undone_as_long_as_what_it_took_may_last),
		TEST(since_a_grant_it_lasts_from_there),
		TEST(but_no_longer_than_an_hour),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
