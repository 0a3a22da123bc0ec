/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the locks of a quorum: votes, validity, fencing tokens, renewal and restarts, with a
 * clock that the test sets and five servers whose answers the test chooses.
 */

#include "tests/unit/quorum_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(quorum_fixture_setup, quorum_fixture_teardown);

/* --- votes -------------------------------------------------------------------------------- */

TEST_WITH(majority_is_more_than_half, NULL, NULL)
{
	struct quorum_votes v = { .nservers = 5, .nasked = 5 };

	assert_int_equal(quorum_majority(3), 2);
	assert_int_equal(quorum_majority(5), 3);
	assert_int_equal(quorum_verdict(&v, false, false), QUORUM_OPEN);
	assert_int_equal(quorum_verdict(&v, true, false), QUORUM_UNREACHED);
	v.nyes = 2;
	assert_int_equal(quorum_verdict(&v, false, false), QUORUM_OPEN);
	assert_int_equal(quorum_verdict(&v, true, false), QUORUM_UNREACHED);
	v.nno = 2;
	assert_int_equal(quorum_verdict(&v, false, false), QUORUM_OPEN);
	assert_int_equal(quorum_verdict(&v, true, false), QUORUM_REFUSED);
	v.nno = 3;
	assert_int_equal(quorum_verdict(&v, false, false), QUORUM_REFUSED);
	v = (struct quorum_votes){ .nservers = 5, .nasked = 5, .nyes = 3 };
	assert_int_equal(quorum_verdict(&v, false, false), QUORUM_WON);
	assert_int_equal(quorum_verdict(&v, false, true), QUORUM_OPEN);
	assert_int_equal(quorum_verdict(&v, true, true), QUORUM_WON);
	/* Two votes of the two servers asked are no majority of five. */
	v = (struct quorum_votes){ .nservers = 5, .nasked = 2, .nyes = 2 };
	assert_int_equal(quorum_verdict(&v, false, false), QUORUM_UNREACHED);
	v = (struct quorum_votes){ .nservers = 5, .nasked = 5, .nyes = 1, .nfailed = 3 };
	assert_int_equal(quorum_verdict(&v, false, false), QUORUM_UNREACHED);
}

TEST_WITH(lease_is_good_for_what_is_left_less_drift, NULL, NULL)
{
	assert_true(quorum_good_until(100, 10000) > 109.897);
	assert_true(quorum_good_until(100, 10000) < 109.899);
	assert_true(quorum_good_until(100, 1) < 100);
}

/* --- fencing tokens ----------------------------------------------------------------------- */

#define NOW INT64_C(1800000000000000) /* microseconds since 1970 */
#define HOUR INT64_C(3600000000)
#define LAST_FENCE INT64_C(9007199254740991) /* 2^53 - 1 */

static const struct fence_case {
	int64_t proposals[3];
	int64_t token; /* 0: no token can be chosen */
	int64_t limit;
} fence_cases[] = {
	{ { NOW, NOW - 5, 0 }, NOW, NOW + HOUR },
	{ { 7, 8, 9 }, 9, NOW + HOUR },
	{ { NOW, NOW + HOUR, 0 }, NOW + HOUR, NOW + HOUR },
	/* One server is further ahead. A majority must contradict it. */
	{ { NOW, NOW + HOUR + 1, 0 }, 0, NOW + HOUR },
	{ { NOW, NOW + HOUR + 1, NOW + 1 }, NOW + 1, NOW + HOUR },
	{ { LAST_FENCE, NOW, NOW + 1 }, NOW + 1, NOW + HOUR },
	{ { NOW, NOW + 1, INT64_MAX }, NOW + 1, NOW + HOUR },
	/* A majority is further ahead: its clocks, or hasp's, were set back. */
	{ { NOW + 5 * HOUR, NOW + 6 * HOUR, 0 }, NOW + 6 * HOUR, NOW + 6 * HOUR },
	{ { NOW + 6 * HOUR, NOW, NOW + 5 * HOUR }, NOW + 6 * HOUR, NOW + 6 * HOUR },
	{ { NOW + 5 * HOUR, NOW + 6 * HOUR + 1, 0 }, 0, NOW + 6 * HOUR },
	{ { LAST_FENCE, NOW + 5 * HOUR, NOW + 5 * HOUR }, NOW + 5 * HOUR, NOW + 6 * HOUR },
	/* No token follows the last one. */
	{ { LAST_FENCE, LAST_FENCE - 1, 0 }, LAST_FENCE, LAST_FENCE },
	{ { LAST_FENCE + 1, LAST_FENCE + 1, LAST_FENCE + 1 }, 0, LAST_FENCE },
	{ { INT64_MAX, INT64_MAX, NOW }, 0, LAST_FENCE },
};

TEST_WITH(fencing_token_far_ahead_needs_a_majority, NULL, NULL)
{
	for (size_t i = 0; i < sizeof(fence_cases) / sizeof(*fence_cases); i++) {
		const struct fence_case *c = &fence_cases[i];
		struct quorum_fence fence;
		bool is_chosen = quorum_fence_choose(&fence, c->proposals, 3, NOW);

		assert_int_equal(is_chosen ? fence.token : 0, c->token);
		assert_int_equal(fence.limit, c->limit);
	}
}

TEST_WITH(server_counts_when_what_it_forgot_is_over, NULL, NULL)
{
	assert_true(quorum_counts_from(100, 0, 30000, false) == 130);
	assert_true(quorum_counts_from(100, 1, 30000, false) == 130);
	assert_true(quorum_counts_from(100, 11, 30000, false) == 120);
	assert_true(quorum_counts_from(100, 1000, 30000, false) < 100);
	/* Another server at that address may have been promoted, however long it has been
	 * running. */
	assert_true(quorum_counts_from(100, 1000, 30000, true) == 130);
	assert_true(quorum_counts_from(100, 0, 0, true) == 0);
}

/* --- taking ------------------------------------------------------------------------------- */

TEST(lock_is_got_when_a_majority_has_its_fencing_token)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	answer_number(f, 0, 5);
	answer_number(f, 1, 9);
	assert_int_equal(f->nsent, 5);
	answer_number(f, 2, 6);
	/* hasp asks the servers that granted the lock to keep the greatest token. */
	assert_int_equal(f->nsent, 8);
	answer_number(f, 0, 1);
	answer_number(f, 1, 1);
	assert_false(f->is_done);
	answer_number(f, 2, 1);
	expect_done(f, QUORUM_WON);
	assert_int_equal(f->result.lock.fence, 9);
	assert_true(f->result.lock.good_until == quorum_good_until(1000, LEASE_MS));
	assert_int_equal(
		held_of(voted_find(f->holds, &f->owner, SLICE_LIT("key"), SLICE_NONE)).fence,
		9);
}

/* The fixture's servers report a time of 1,000 seconds after 1970. */
#define FAR_AHEAD INT64_C(9007199254740991)

static void grant_far_ahead(struct fake_quorum *f)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	answer_number(f, 0, FAR_AHEAD);
	answer_number(f, 1, 5);
	answer_number(f, 2, 6);
	/* A majority granted the lock, and two servers contradict one. */
	assert_int_equal(f->nsent, 5);
	assert_false(f->is_done);
}

TEST(token_far_ahead_is_contradicted_by_a_majority)
{
	grant_far_ahead(f);
	answer_number(f, 3, 7);
	assert_int_equal(f->nsent, 9);
	for (size_t i = 0; i < 3; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_WON);
	assert_int_equal(f->result.lock.fence, 7);
}

TEST(token_far_ahead_that_too_few_contradict_takes_no_lock)
{
	grant_far_ahead(f);
	answer_number(f, 3, 0);
	go_down(f, 4);
	expect_done(f, QUORUM_UNREACHED);
	/* hasp releases the lock at the four servers. */
	assert_int_equal(f->nsent, 9);
}

TEST(token_far_ahead_waits_for_others_until_the_time_is_over)
{
	grant_far_ahead(f);
	advance(f, 1.1);
	expect_done(f, QUORUM_UNREACHED);
}

TEST(minority_is_released_everywhere)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	answer_number(f, 0, 5);
	answer_number(f, 1, 5);
	answer_number(f, 2, 0);
	answer_number(f, 3, 0);
	assert_false(f->is_done);
	answer_number(f, 4, 0);
	expect_done(f, QUORUM_REFUSED);
	assert_int_equal(f->nsent, 10);
	answer_all(f, 0);
}

TEST(answers_that_come_late_do_not_count)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	answer_number(f, 0, 5);
	answer_number(f, 1, 5);
	advance(f, 1.1);
	expect_done(f, QUORUM_UNREACHED);
	assert_int_equal(f->result.nanswered, 2);
	f->is_done = false;
	for (size_t i = 2; i < SERVERS; i++) {
		answer_number(f, i, 5);
		/* A server that grants the lock late gets the release then. */
		assert_int_equal(due_at(f, i), 1);
	}
	assert_false(f->is_done);
	assert_int_equal(f->owner.n, 0);
}

TEST(lock_whose_lease_was_over_meanwhile_is_not_got)
{
	const struct quorum_ask opts = {
		.request = QUORUM_LOCK,
		.key = SLICE_LIT("key"),
		.claim = { .owner = SLICE_LIT("me") },
		.lease_ms = 1500,
		.done = on_done,
		.arg = f,
	};

	ask_for(f, &opts);
	advance(f, 0.9);
	answer_all(f, 5);
	advance(f, 0.9);
	for (size_t i = 0; i < 3; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_REFUSED);
	assert_int_equal(f->owner.n, 0);
	assert_int_equal(due_at(f, 0), 1);
}

/* Else the client would get a lock that it has hardly any time for. */
TEST(lock_whose_lease_is_half_over_is_begun_again)
{
	const struct quorum_ask opts = {
		.request = QUORUM_LOCK,
		.key = SLICE_LIT("key"),
		.claim = { .owner = SLICE_LIT("me") },
		.lease_ms = 1500,
		.done = on_done,
		.arg = f,
	};

	ask_for(f, &opts);
	advance(f, 0.7);
	answer_all(f, 5);
	for (size_t i = 0; i < 3; i++)
		answer_number(f, i, 1);
	assert_false(f->is_done);
	answer_all(f, 1);
	expect_done(f, QUORUM_WON);
	assert_true(f->result.lock.good_until > quorum_good_until(1000.6, 1500));
}

TEST(try_that_is_not_confirmed_is_released)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	answer_all(f, 5);
	for (size_t i = 0; i < 3; i++)
		go_down(f, i);
	expect_done(f, QUORUM_UNREACHED);
	assert_int_equal(due_at(f, 3), 1);
	assert_int_equal(due_at(f, 4), 1);
	/* The server's ID is unknown: the same, when hasp can ask it again. */
	quorum_on_up(f->q, 0, "first", OLD);
	assert_int_equal(due_at(f, 0), 1);
}

TEST(without_enough_servers_nobody_waits)
{
	for (size_t i = 0; i < 3; i++)
		go_down(f, i);
	ask_quorum(f, QUORUM_LOCK, 0);
	expect_done(f, QUORUM_UNREACHED);
	assert_int_equal(f->result.nanswered, 2);
}

TEST(wait_is_tried_again_after_a_pause)
{
	ask_quorum(f, QUORUM_LOCK, 5000);
	answer_all(f, 0);
	assert_false(f->is_done);
	answer_all(f, 0);
	assert_int_equal(f->nsent, 10);
	advance(f, 0.2);
	assert_int_equal(f->nsent, 15);
	answer_all(f, 5);
	for (size_t i = 0; i < 3; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_WON);
	assert_true(f->result.lock.good_until > quorum_good_until(1000.1, LEASE_MS));
}

static void wait_in_vain(struct fake_quorum *f)
{
	ask_quorum(f, QUORUM_LOCK, 150);
	for (int i = 0; i < 20 && !f->is_done; i++) {
		answer_all(f, 0);
		answer_all(f, 0);
		advance(f, 0.11);
	}
	expect_done(f, QUORUM_REFUSED);
}

TEST(wait_has_an_end)
{
	wait_in_vain(*state);
}

TEST(who_goes_while_it_waits_releases_what_it_may_have_got)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	answer_number(f, 0, 5);
	end_owner(f, false);
	for (size_t i = 1; i < SERVERS; i++) {
		answer_number(f, i, 5);
		assert_int_equal(due_at(f, i), 1);
	}
	assert_false(f->is_done);
}

/* --- what is counted ---------------------------------------------------------------------- */

static void note_contention(void *arg, const struct top_key *key,
                            const struct top_key_counts *counts)
{
	struct top_key_counts *sum = arg;

	(void)key;
	for (size_t i = 0; i < TOP_KEYS_KINDS; i++)
		sum->n[i] += counts->n[i];
}

/* Asserts the count since the test began. */
static void assert_counted(const struct fake_quorum *f, enum stats_field what, uint64_t n)
{
	assert_int_equal(metrics_counted(&f->section->n[what]), n);
}

static void assert_contended(struct fake_quorum *f, uint64_t nrefused, uint64_t nwaited)
{
	struct top_key_counts sum = { .missed = 0 };

	top_keys_each(stats_contended_keys(f->stats, 0), f->now, note_contention, &sum);
	assert_int_equal(sum.n[CONTENTION_REFUSED], nrefused);
	assert_int_equal(sum.n[CONTENTION_WAITED], nwaited);
}

TEST(what_becomes_of_a_try_is_counted)
{
	take(f);
	assert_counted(f, STAT_ACQUIRED, 1);
	assert_contended(f, 0, 0);
	ask_quorum(f, QUORUM_LOCK, 0);
	answer_all(f, 0);
	expect_done(f, QUORUM_REFUSED);
	assert_counted(f, STAT_REFUSED, 1);
	assert_counted(f, STAT_WAITED, 0);
	assert_contended(f, 1, 0);
}

TEST(a_try_that_waited_counts_by_its_end)
{
	ask_quorum(f, QUORUM_LOCK, 5000);
	answer_all(f, 0);
	answer_all(f, 0);
	assert_false(f->is_done);
	advance(f, 0.11);
	answer_all(f, 7);
	for (size_t i = 0; i < 3; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_WON);
	assert_counted(f, STAT_WAITED, 1);
	assert_counted(f, STAT_HANDED_OVER, 1);
	assert_counted(f, STAT_TIMED_OUT, 0);
	assert_counted(f, STAT_REFUSED, 0);
	assert_contended(f, 0, 1);
}

TEST(a_try_that_waited_in_vain_counts_as_timed_out)
{
	wait_in_vain(f);
	assert_counted(f, STAT_WAITED, 1);
	assert_counted(f, STAT_TIMED_OUT, 1);
	assert_counted(f, STAT_HANDED_OVER, 0);
	assert_counted(f, STAT_REFUSED, 0);
}

/* --- servers ------------------------------------------------------------------------------ */

TEST(server_that_was_started_anew_does_not_vote)
{
	for (size_t i = 0; i < 3; i++) {
		go_down(f, i);
		assert_true(quorum_on_up(f->q, i, "second", 0) == 30);
	}
	ask_quorum(f, QUORUM_LOCK, 0);
	expect_done(f, QUORUM_UNREACHED);
	assert_int_equal(due_at(f, 0), 0);
	answer_number(f, 3, 5);
	answer_number(f, 3, 1);
	answer_number(f, 4, 5);
	answer_number(f, 4, 1);
	advance(f, 30.5);
	take(f);
}

TEST(vote_of_a_server_that_was_started_anew_since_is_void)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	answer_number(f, 0, 5);
	answer_number(f, 1, 5);
	go_down(f, 2);
	quorum_on_up(f->q, 2, "second", 0);
	answer_number(f, 3, 0);
	answer_number(f, 4, 0);
	expect_done(f, QUORUM_REFUSED);
}

TEST(server_that_was_only_cut_off_counts_at_once)
{
	go_down(f, 0);
	assert_true(quorum_on_up(f->q, 0, "first", 0) == 0);
}

TEST(server_that_does_not_answer_is_not_asked)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	for (size_t i = 0; i < 4; i++)
		answer_number(f, i, 0);
	expect_done(f, QUORUM_REFUSED);
	for (size_t i = 0; i < 4; i++)
		answer_number(f, i, 0);
	advance(f, 1.1);
	assert_int_equal(due_at(f, 4), 2);
	ask_quorum(f, QUORUM_LOCK, 0);
	assert_int_equal(due_at(f, 4), 2);
	for (size_t i = 0; i < 4; i++)
		answer_number(f, i, 0);
	expect_done(f, QUORUM_REFUSED);
}

/* A draining worker waits for no other servers. */
TEST(answers_are_due_from_servers_that_answer)
{
	assert_false(quorum_is_asked(f->q));
	ask_quorum(f, QUORUM_LOCK, 0);
	assert_true(quorum_is_asked(f->q));
	for (size_t i = 1; i < SERVERS; i++)
		answer_number(f, i, 0);
	expect_done(f, QUORUM_REFUSED);
	for (size_t i = 1; i < SERVERS; i++)
		answer_number(f, i, 0);
	assert_true(quorum_is_asked(f->q));
	advance(f, 1.1);
	assert_int_equal(due_at(f, 0), 2);
	assert_false(quorum_is_asked(f->q));
}

/* --- holds -------------------------------------------------------------------------------- */

TEST(hold_is_renewed_each_third_of_its_lease)
{
	take(f);
	for (int n = 0; n < 10; n++) {
		size_t before = f->nsent;
		advance(f, 3.4);
		assert_int_equal(f->nsent - before, 5);
		answer_all(f, 1);
	}
	assert_int_equal(f->owner.n, 1);
	assert_counted(f, STAT_LOST, 0);
}

static void renew_twice(struct fake_quorum *f)
{
	for (int n = 0; n < 2; n++) {
		advance(f, 3.4);
		answer_all(f, 1);
	}
}

TEST(max_hold_ends_renewal_and_the_lease_runs_out)
{
	f->max_hold_ms = 9000;
	take(f);
	renew_twice(f);
	advance(f, 3.4);
	for (size_t i = 0; i < SERVERS; i++)
		assert_int_equal(due_at(f, i), 0);
	advance(f, 6);
	assert_int_equal(f->owner.n, 1);
	advance(f, 1);
	assert_int_equal(f->owner.n, 0);
	assert_counted(f, STAT_LOST, 0);
}

TEST(hold_whose_lease_the_client_named_is_not_renewed)
{
	size_t nsent;

	f->leased = true;
	take(f);
	assert_int_equal(metrics_counted(&f->section->now[STAT_HELD]), 1);
	nsent = f->nsent;
	advance(f, 9.8);
	assert_int_equal(f->nsent, nsent);
	assert_int_equal(f->owner.n, 1);
	advance(f, 0.2);
	assert_int_equal(f->owner.n, 0);
	assert_int_equal(metrics_counted(&f->section->now[STAT_HELD]), 0);
	assert_counted(f, STAT_LOST, 0);
}

TEST(hold_that_no_majority_renews_is_lost_when_its_lease_is_over)
{
	take(f);
	for (size_t i = 0; i < 3; i++)
		go_down(f, i);
	for (int n = 0; n < 98; n++)
		advance(f, 0.1);
	assert_counted(f, STAT_LOST, 0);
	advance(f, 0.1);
	assert_counted(f, STAT_LOST, 1);
	assert_int_equal(f->owner.n, 0);
}

TEST(hold_that_a_majority_does_not_have_is_lost_at_once)
{
	take(f);
	advance(f, 3.4);
	answer_number(f, 0, -1);
	answer_number(f, 1, 0);
	answer_number(f, 2, -1);
	answer_number(f, 3, 1);
	answer_number(f, 4, 1);
	assert_counted(f, STAT_LOST, 1);
}

TEST(server_without_the_lock_gets_it_by_renewal)
{
	take(f);
	advance(f, 3.4);
	answer_number(f, 0, -1);
	answer_number(f, 1, 0);
	for (size_t i = 2; i < SERVERS; i++)
		answer_number(f, i, 1);
	assert_int_equal(due_at(f, 0), 1);
	assert_int_equal(due_at(f, 1), 0);
	answer_number(f, 0, 8);
	assert_counted(f, STAT_LOST, 0);
}

TEST(renewal_that_comes_too_late_does_not_save_the_hold)
{
	take(f);
	advance(f, 3.4);
	/* hasp was stopped, so it reads the answers before it runs timers. */
	f->now += 7;
	answer_all(f, 1);
	assert_counted(f, STAT_LOST, 1);
}

TEST(hold_is_released_when_its_owner_goes)
{
	take(f);
	end_owner(f, true);
	assert_int_equal(f->owner.n, 0);
	assert_int_equal(due_at(f, 0), 1);
	assert_int_equal(due_at(f, 4), 1);
}

TEST(hold_is_released_at_a_server_that_was_away)
{
	take(f);
	go_down(f, 0);
	go_down(f, 1);
	end_owner(f, true);
	advance(f, 1);
	quorum_tick(f->q);
	quorum_on_up(f->q, 0, "first", OLD);
	assert_int_equal(due_at(f, 0), 1);
	/* The lease has ended at each server by now, even if it was renewed just before. */
	advance(f, 2.0 * LEASE_MS / 1000);
	quorum_tick(f->q);
	quorum_on_up(f->q, 1, "first", OLD);
	assert_int_equal(due_at(f, 1), 0);
}

TEST(hold_is_released_again_at_a_server_that_refused)
{
	take(f);
	end_owner(f, true);
	answer_one(f, 0, NULL);
	for (size_t i = 1; i < SERVERS; i++)
		answer_number(f, i, 1);
	quorum_tick(f->q);
	assert_int_equal(due_at(f, 0), 0);
	for (int i = 0; i < 2; i++) {
		advance(f, 1);
		quorum_tick(f->q);
		assert_int_equal(due_at(f, 0), 1);
	}
	assert_int_equal(due_at(f, 1), 0);
	answer_number(f, 0, 1);
	advance(f, 1);
	quorum_tick(f->q);
	assert_int_equal(due_at(f, 0), 0);
}

/* --- others' ------------------------------------------------------------------------------ */

TEST(lock_of_the_owner_is_released_wherever_it_was_taken)
{
	ask_quorum(f, QUORUM_UNLOCK, 0);
	for (size_t i = 0; i < 3; i++)
		answer_row(f, i, MINE);
	answer_row(f, 3, OTHERS);
	answer_one(f, 4, &(redisReply){ .type = REDIS_REPLY_NIL });
	answer_number(f, 0, 1);
	answer_number(f, 1, 1);
	answer_number(f, 2, 1);
	expect_done(f, QUORUM_WON);
}

TEST(lock_of_another_owner_is_not_released)
{
	ask_quorum(f, QUORUM_UNLOCK, 0);
	for (size_t i = 0; i < 3; i++)
		answer_row(f, i, OTHERS);
	expect_done(f, QUORUM_REFUSED);
	assert_int_equal(f->nsent, 5);
	ask_quorum(f, QUORUM_UNLOCK, 0);
	answer_row(f, 3, OTHERS);
	answer_row(f, 4, OTHERS);
	for (size_t i = 0; i < SERVERS; i++)
		answer_row(f, i, i % 2 ? MINE : OTHERS);
	expect_done(f, QUORUM_REFUSED);
}

TEST(who_has_it_is_what_a_majority_says)
{
	ask_quorum(f, QUORUM_INFO, 0);
	answer_row(f, 0, OTHERS);
	answer_row(f, 1, MINE);
	answer_row(f, 2, OTHERS);
	assert_false(f->is_done);
	answer_row(f, 3, OTHERS);
	expect_done(f, QUORUM_WON);
	assert_int_equal(f->result.lease_ms, 5000);
}

/* --- many releases ------------------------------------------------------------------------ */

#define RELEASES_MAX 10000

static void give_up_a_try(struct fake_quorum *f)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	quorum_op_cancel(f->op);
	f->op = NULL;
	lock_request_free(f->lock_request);
	f->lock_request = NULL;
}

static void on_released_give_up_a_try(void *arg, const struct quorum_result *r)
{
	struct fake_quorum *f = arg;

	give_up_a_try(f);
	on_done(f, r);
}

TEST(release_that_is_pushed_out_while_it_is_told_ends_once)
{
	const struct quorum_ask unlock = {
		.request = QUORUM_UNLOCK,
		.key = SLICE_LIT("key"),
		.claim = { .owner = SLICE_LIT("me") },
		.value = SLICE_LIT(MINE),
		.lease_ms = LEASE_MS,
		.done = on_released_give_up_a_try,
		.arg = f,
	};

	ask_for(f, &unlock);
	for (size_t i = 1; i < RELEASES_MAX; i++)
		give_up_a_try(f);
	/* The third server that agrees is the last one to answer. */
	answer_number(f, 0, 0);
	answer_number(f, 1, 0);
	for (size_t i = 2; i < SERVERS; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_WON);
	for (size_t i = 0; i < 2; i++)
		give_up_a_try(f);
	go_down(f, 4);
	assert_true(quorum_on_up(f->q, 4, "first", OLD) == 0);
	assert_int_equal(due_at(f, 4), RELEASES_MAX);
}
