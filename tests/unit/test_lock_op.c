/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of client/lock_op.c: the action that follows from an answer to a call on a lock.
 */

#define TEST_FIXTURE struct hold_fixture *f

#include "client/op.h"
#include "lock/hold/hold_internal.h"
#include "lock/queue/queue_internal.h"
#include "tests/unit/fake_jobs.h"
#include "tests/unit/hold_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(hold_set_up, hold_tear_down);

static const struct rule rule_with_replicas = { .owner = OWNER_CONNECTION,
	                                        .lease_ms = 30000,
	                                        .replicas_ack = 2,
	                                        .replicas_ack_timeout_ms = 500 };

static double stopped_clock(void *arg)
{
	(void)arg;
	return HOLD_NOW;
}

/* The client's locks. */
static const struct hold_owner nobody, *owner = &nobody;
/* Output of the last step. */
static struct op_out out;

static struct op_action step(struct pending_request *r, const struct op_event *e)
{
	struct op_facts f = { .request = r, .db = 3, .holds = owner, .out = &out };

	out = (struct op_out){ 0 };
	return lock_op_step(&f, e);
}

static struct op_action on_line_of(struct pending_request *r, const char *line)
{
	return step(r, &(struct op_event){ .kind = OP_LINE, .line = slice_str(line) });
}

static void assert_answer(const struct op_action *a, const char *expected)
{
	assert_int_equal(a->answer.n, strlen(expected));
	assert_memory_equal(a->answer.p, expected, a->answer.n);
}

TEST(an_error_is_passed)
{
	struct pending_request *r = sent_take(*state, &rule_by_connection, "worker-1");

	assert_int_equal(on_line_of(r, "-LOCKED lock is held by another owner\r\n").act,
	                 OP_PASS);
}

TEST(a_call_is_sent_again_with_the_text_of_a_script_that_redis_lacks)
{
	struct pending_request *r = sent_take(*state, &rule_by_connection, "worker-1");
	struct op_action a = on_line_of(r, "-NOSCRIPT No matching script.\r\n");

	assert_int_equal(a.act, OP_AGAIN);
	assert_true(a.eval);
	/* The call had the script's text, so the client gets the error. */
	r->by_eval = true;
	assert_int_equal(on_line_of(r, "-NOSCRIPT No matching script.\r\n").act, OP_PASS);
}

TEST(a_short_call_is_sent_again_in_full_if_the_lock_is_busy)
{
	struct pending_request *r = sent_take(*state, &rule_by_connection, "worker-1");

	assert_int_equal(on_line_of(r, "+BUSY\r\n").act, OP_PASS);
	r->is_short = true;
	assert_int_equal(on_line_of(r, "+BUSY\r\n").act, OP_AGAIN);
	assert_false(on_line_of(r, "+BUSY\r\n").eval);
}

TEST(success_is_passed_while_the_lease_is_good_and_confirmed_when_it_is_not)
{
	struct pending_request *r = sent_take(*state, &rule_by_connection, "worker-1");
	struct op_action a;
	struct resp_reply reply;

	assert_int_equal(on_line_of(r, "+OK\r\n").act, OP_PASS);
	r->lock_request->sent_at = HOLD_NOW - 25;
	a = on_line_of(r, "+OK\r\n");
	assert_int_equal(a.act, OP_CONFIRM);
	assert_int_equal(out.lock.lease_ms, 30000);
	assert_true(slice_eq(out.lock.id.key, SLICE_LIT("lock")));
	assert_true(slice_eq(lock_request_kept(r->lock_request, &reply), SLICE_LIT("+OK\r\n")));
	/* A refusal depends on no lease. */
	assert_int_equal(on_line_of(r, "$-1\r\n").act, OP_PASS);
}

/* Answers the call LEASE_LATE_MAX times too late: hasp sends it again each time. */
static void answer_late(struct pending_request *r)
{
	for (int i = 0; i < LEASE_LATE_MAX; i++) {
		r->lock_request->sent_at = HOLD_NOW - 25;
		assert_int_equal(on_line_of(r, ":1\r\n").act, OP_AGAIN);
	}
}

TEST(an_extension_whose_replies_are_all_late_is_given_up)
{
	struct pending_request *r = sent_take(*state, &rule_by_connection, "worker-1");
	struct op_action a;

	r->lock_request->effect = LOCK_EFFECT_EXPIRES;
	r->lock_request->success = LOCK_IF_ONE;
	answer_late(r);
	a = on_line_of(r, ":1\r\n");
	assert_int_equal(a.act, OP_ANSWER);
	assert_answer(&a, ":0\r\n");
	/* Redis has extended the lock, so hasp keeps its hold. */
	assert_true(rewrite_is_success(LOCK_IF_ONE, &a.reply));
	/* Half of the lease is left after the client has got this reply. */
	r->lock_request->sent_at = HOLD_NOW - 15;
	assert_int_equal(on_line_of(r, ":1\r\n").act, OP_PASS);
}

TEST(an_mlock_whose_replies_are_all_late_gives_its_locks_back)
{
	const struct lock_call mlock = { .script = SCRIPT_MLOCK,
		                         .effect = LOCK_EFFECT_TAKES,
		                         .kind = LOCK_KIND_RULE,
		                         .success = LOCK_IF_POSITIVE,
		                         .key = SLICE_LIT("lock"),
		                         .leased = true,
		                         .lease_ms = 30000,
		                         .ticket = SLICE_LIT("worker-1") };
	struct pending_request *r = sent_call(*state, &rule_by_connection, &mlock);
	struct section_stats stats = { .kind = STATS_LOCK };

	r->lock_request->check_if_late = true;
	r->lock_request->stats = &stats;
	answer_late(r);
	assert_int_not_equal(r->lock_request->state, LOCK_REQUEST_UNDONE);
	assert_int_equal(on_line_of(r, ":1\r\n").act, OP_AGAIN);
	assert_int_equal(metrics_counted(&stats.n[STAT_TIMED_OUT]), 1);
	assert_int_equal(r->lock_request->state, LOCK_REQUEST_UNDONE);
	/* The reply to the call that gave the locks back. */
	assert_int_equal(on_line_of(r, "$-1\r\n").act, OP_PASS);
}

TEST(replicas_are_asked_before_success_is_told)
{
	struct pending_request *r = sent_take(*state, &rule_with_replicas, "worker-1");
	struct op_action a = on_line_of(r, "+OK\r\n");

	assert_int_equal(a.act, OP_ASK_REPLICAS);
	assert_int_equal(out.terms.replicas, 2);
	assert_int_equal(out.terms.timeout_ms, 500);
	assert_int_equal(out.terms.db, 3);
	assert_true(out.terms.releases);
	a = step(r, &(struct op_event){ .kind = OP_ACKED, .enough = true });
	assert_int_equal(a.act, OP_ANSWER);
	assert_int_equal(a.reply.type, '+');
	assert_answer(&a, "+OK\r\n");
}

TEST(too_few_replicas_are_an_error)
{
	struct pending_request *r = sent_take(*state, &rule_with_replicas, "worker-1");
	struct op_action a = step(r, &(struct op_event){ .kind = OP_ACKED });

	assert_int_equal(a.act, OP_DONE);
	assert_answer(&a, OP_NOREPLICAS);
	/* The question to the replicas has released the lock. */
	assert_jobs("");
}

TEST(too_few_replicas_do_not_end_a_hold_that_the_call_has_refreshed)
{
	struct pending_request *r;
	struct op_action a;

	f->s.db = 3;
	r = sent_take(f, &rule_with_replicas, "worker-1");
	HOLD_ANSWER(f, r, "+OK\r\n");
	r = sent_take(f, &rule_with_replicas, "worker-2");
	owner = &f->owner;
	assert_int_equal(on_line_of(r, "+OK\r\n").act, OP_ASK_REPLICAS);
	a = step(r, &(struct op_event){ .kind = OP_ACKED });
	owner = &nobody;
	assert_int_equal(a.act, OP_ANSWER);
	assert_answer(&a, OP_NOREPLICAS);
	/* The hold gets the lease of the call. */
	assert_int_equal(a.reply.type, '+');
}

/* The question to the replicas was about one of the locks only. */
TEST(if_too_few_replicas_have_one_of_joined_locks_all_are_undone)
{
	struct pending_request *r = sent_take(f, &rule_with_replicas, "worker-1");
	struct op_action a;

	r->lock_request = lock_request_join(pending_take(f, &rule_with_replicas, "worker-2"),
	                                    r->lock_request);
	a = step(r, &(struct op_event){ .kind = OP_ACKED });
	assert_int_equal(a.act, OP_DONE);
	assert_answer(&a, OP_NOREPLICAS);
	assert_int_equal(fake_jobs_count("3 again dequeue "), 2);
	assert_int_equal(fake_jobs_count("worker-1"), 1);
	assert_int_equal(fake_jobs_count("worker-2"), 1);
}

TEST(a_refused_delete_is_answered_by_the_number_of_keys_that_are_gone)
{
	struct pending_request *taken = sent_take(f, &rule_by_connection, "worker-1");
	struct lock_call drops = { .effect = LOCK_EFFECT_DROPS, .key = SLICE_LIT("lock") };
	struct pending_request *r = sent_call(f, &rule_by_connection, &drops);
	struct op_action a = on_line_of(r, "+REFUSED 4 1 -\r\n");

	(void)taken;
	assert_int_equal(a.act, OP_ANSWER);
	assert_int_equal(a.reply.integer, 4);
	assert_answer(&a, ":4\r\n");
	assert_int_equal(on_line_of(r, "+REFUSED\r\n").act, OP_PASS);
	assert_int_equal(on_line_of(r, "+REFUSED x\r\n").act, OP_CLOSE);
}

/* Redis may also confirm a late reply: then the client has not waited. */
TEST(a_grant_counts_as_a_wait_if_the_client_was_in_line)
{
	struct pending_request *r = sent_take(*state, &rule_by_connection, "worker-1");
	struct section_stats stats = { .kind = STATS_LOCK };
	struct timers timers = { .clock = stopped_clock };
	struct waiters all = { .timers = &timers };
	struct waiter waiter = { .all = &all, .began = HOLD_NOW - 2 };
	struct op_facts facts = { .request = r, .db = 3, .waiter = &waiter, .out = &out };
	const struct op_event granted = { .kind = OP_GRANTED, .fence = 7, .since = HOLD_NOW };

	r->lock_request->stats = &stats;
	for (int64_t place = 0; place < 2; place++) {
		struct op_action a;
		out = (struct op_out){ 0 };
		waiter.place = place;
		a = lock_op_step(&facts, &granted);
		assert_int_equal(a.act, OP_ANSWER);
		assert_answer(&a, "+OK\r\n");
		assert_int_equal(metrics_counted(&stats.n[STAT_HANDED_OVER]), place);
	}
	r->lock_request->stats = NULL;
}
