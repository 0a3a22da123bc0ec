/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the rounds of a request to a quorum: an answer counts only in the round in which
 * hasp asked the server.
 */

#include "tests/unit/quorum_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(quorum_fixture_setup, quorum_fixture_teardown);

TEST(vote_for_an_earlier_try_does_not_count_for_a_later_one)
{
	ask_quorum(f, QUORUM_LOCK, 5000);
	for (size_t i = 0; i < 3; i++)
		answer_number(f, i, 0);
	/* Ends the pause after the first attempt. */
	answer_number(f, 3, 5);
	assert_false(f->is_done);
	advance(f, 0.2);
	answer_number(f, 4, 5);
	/* All servers release the first attempt; these were sent the second one since. */
	for (size_t i = 0; i < SERVERS; i++) {
		answer_number(f, i, 0);
		assert_int_equal(due_at(f, i), 1);
	}
	answer_number(f, 0, 6);
	answer_number(f, 1, 6);
	assert_int_equal(f->nsent, 15);
	answer_number(f, 2, 6);
	/* hasp sends CONFIRM to the three that granted the second attempt. */
	assert_int_equal(f->nsent, 18);
	answer_number(f, 0, 1);
	answer_number(f, 1, 1);
	assert_false(f->is_done);
	answer_number(f, 2, 1);
	expect_done(f, QUORUM_WON);
	assert_int_equal(f->result.lock.fence, 6);
}

TEST(confirmation_is_asked_of_those_that_granted_this_try)
{
	ask_quorum(f, QUORUM_LOCK, 5000);
	for (size_t i = 0; i < SERVERS; i++)
		answer_number(f, i, i < 2 ? 9 : 0);
	answer_all(f, 0);
	advance(f, 0.2);
	assert_int_equal(f->nsent, 15);
	for (size_t i = 2; i < SERVERS; i++)
		answer_number(f, i, 5);
	assert_int_equal(f->nsent, 18);
	for (size_t i = 2; i < SERVERS; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_WON);
	/* The token of the first attempt was undone with it. */
	assert_int_equal(f->result.lock.fence, 5);
}

TEST(vote_to_take_a_lock_does_not_count_for_its_confirmation)
{
	ask_quorum(f, QUORUM_LOCK, 0);
	for (size_t i = 0; i < 3; i++)
		answer_number(f, i, 5);
	answer_number(f, 3, 9);
	answer_number(f, 4, 9);
	answer_number(f, 0, 1);
	answer_number(f, 1, 1);
	assert_false(f->is_done);
	answer_number(f, 2, 1);
	expect_done(f, QUORUM_WON);
	/* This is the token that the servers were asked to confirm. */
	assert_int_equal(f->result.lock.fence, 5);
}

/* Three servers name this client as the owner; the other two answer late. */
static void read_mine(struct fake_quorum *f, enum quorum_request request)
{
	ask_quorum(f, request, 0);
	for (size_t i = 0; i < 3; i++)
		answer_row(f, i, MINE);
	assert_int_equal(f->nsent, 10);
	for (size_t i = 3; i < SERVERS; i++) {
		answer_row(f, i, MINE);
		assert_int_equal(due_at(f, i), 1);
	}
	assert_false(f->is_done);
}

TEST(late_read_does_not_count_for_extend)
{
	read_mine(f, QUORUM_EXTEND);
	answer_number(f, 0, 1);
	answer_number(f, 1, 1);
	assert_false(f->is_done);
	answer_number(f, 2, 1);
	expect_done(f, QUORUM_WON);
}

TEST(late_read_does_not_count_for_unlock)
{
	read_mine(f, QUORUM_UNLOCK);
	answer_number(f, 0, 1);
	answer_number(f, 1, 1);
	assert_false(f->is_done);
	answer_number(f, 2, 1);
	expect_done(f, QUORUM_WON);
}

TEST(late_read_without_the_lock_does_not_refuse_extend)
{
	ask_quorum(f, QUORUM_EXTEND, 0);
	for (size_t i = 0; i < 3; i++)
		answer_row(f, i, MINE);
	for (size_t i = 3; i < SERVERS; i++)
		answer_one(f, i, &(redisReply){ .type = REDIS_REPLY_NIL });
	answer_number(f, 0, 0);
	assert_false(f->is_done);
	for (size_t i = 1; i < 4; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_WON);
}

TEST(late_renewal_does_not_count_after_extend)
{
	struct hold *hold;

	take(f);
	advance(f, 3.4);
	hold = voted_find(f->holds, &f->owner, SLICE_LIT("key"), SLICE_LIT("me"));
	assert_non_null(hold);
	voted_extend(hold, f->now + 20, 20000);
	assert_int_equal(held_of(hold).lease_ms, 20000);
	/* The renewal was sent before the extension: the servers did not have the lock
	 * then. */
	answer_all(f, -1);
	for (size_t i = 0; i < SERVERS; i++)
		assert_int_equal(due_at(f, i), 0);
	advance(f, 19);
	/* hasp does not renew a lock that the client has extended. */
	assert_int_equal(due_at(f, 0), 0);
	assert_int_equal(f->owner.n, 1);
	advance(f, 1.1);
	assert_int_equal(f->owner.n, 0);
}

static struct slice own_value(const struct fake_quorum *f)
{
	struct hold *hold = voted_find(f->holds, &f->owner, SLICE_LIT("key"), SLICE_LIT("me"));

	assert_non_null(hold);
	return voted_value(hold);
}

/* Another worker's connection with the same owner has released the lock in between. */
TEST(lock_that_is_granted_again_replaces_the_earlier_hold)
{
	struct buf earlier = BUF_INIT;

	take(f);
	for (size_t i = 3; i < SERVERS; i++)
		go_down(f, i);
	buf_append(&earlier, own_value(f));
	ask_quorum(f, QUORUM_LOCK, 0);
	for (int step = 0; step < 2; step++)
		for (size_t i = 0; i < 3; i++)
			answer_number(f, i, 8);
	expect_done(f, QUORUM_WON);
	assert_int_equal(f->owner.n, 1);
	assert_false(slice_eq(own_value(f), buf_slice(&earlier)));
	/* hasp releases the earlier value, also at servers that are away. */
	assert_int_equal(due_at(f, 0), 1);
	assert_true(quorum_on_up(f->q, 4, "first", OLD) == 0);
	assert_int_equal(due_at(f, 4), 1);
	buf_release(&earlier);
}

/* --- answers that are no votes ---------------------------------------------------------- */

static void answer_error(struct fake_quorum *f, size_t server)
{
	answer_one(f, server, &(redisReply){ .type = REDIS_REPLY_ERROR });
}

TEST(release_that_a_majority_answers_by_an_error_is_not_refused)
{
	read_mine(f, QUORUM_UNLOCK);
	for (size_t i = 0; i < 3; i++)
		answer_error(f, i);
	expect_done(f, QUORUM_UNREACHED);
}

/* Releases a lock whose value hasp knows. */
static void unlock_mine(struct fake_quorum *f)
{
	const struct quorum_ask unlock = {
		.request = QUORUM_UNLOCK,
		.key = SLICE_LIT("key"),
		.claim = { .owner = SLICE_LIT("me") },
		.value = SLICE_LIT(MINE),
		.lease_ms = LEASE_MS,
		.done = on_done,
		.arg = f,
	};

	ask_for(f, &unlock);
}

TEST(release_is_not_refused_by_servers_that_have_no_vote_yet)
{
	for (size_t i = 0; i < 3; i++) {
		go_down(f, i);
		assert_true(quorum_on_up(f->q, i, "second", 0) > 0);
	}
	unlock_mine(f);
	for (size_t i = 0; i < SERVERS; i++)
		answer_number(f, i, i >= 3);
	expect_done(f, QUORUM_UNREACHED);
}

TEST(release_goes_on_at_servers_that_have_not_confirmed_it)
{
	go_down(f, 4);
	unlock_mine(f);
	answer_error(f, 3);
	for (size_t i = 0; i < 3; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_WON);
	advance(f, 1);
	quorum_tick(f->q);
	assert_int_equal(due_at(f, 3), 1);
	assert_true(quorum_on_up(f->q, 4, "first", OLD) == 0);
	assert_int_equal(due_at(f, 4), 1);
}

TEST(release_goes_on_at_a_server_that_failed_while_another_is_mute)
{
	unlock_mine(f);
	for (size_t i = 0; i < 3; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_WON);
	answer_error(f, 3);
	advance(f, 1);
	quorum_tick(f->q);
	assert_int_equal(due_at(f, 3), 1);
	assert_int_equal(due_at(f, 4), 1);
}

TEST(release_is_not_repeated_at_servers_that_confirm_it_late)
{
	unlock_mine(f);
	for (size_t i = 0; i < SERVERS; i++)
		answer_number(f, i, 1);
	expect_done(f, QUORUM_WON);
	advance(f, 1);
	quorum_tick(f->q);
	for (size_t i = 0; i < SERVERS; i++)
		assert_int_equal(due_at(f, i), 0);
}

TEST(read_without_a_majority_ends_by_its_time_out)
{
	ask_quorum(f, QUORUM_INFO, 0);
	answer_row(f, 0, OTHERS);
	answer_row(f, 1, OTHERS);
	answer_row(f, 2, MINE);
	answer_row(f, 3, MINE);
	assert_false(f->is_done);
	advance(f, 1.1);
	expect_done(f, QUORUM_REFUSED);
}

TEST(read_that_a_majority_answers_by_an_error_ends_at_once)
{
	ask_quorum(f, QUORUM_INFO, 0);
	for (size_t i = 0; i < 3; i++)
		answer_error(f, i);
	expect_done(f, QUORUM_UNREACHED);
}

TEST(renewal_waits_for_servers_that_may_lack_the_lock)
{
	take(f);
	advance(f, 3.4);
	for (size_t i = 0; i < 4; i++)
		answer_number(f, i, 1);
	answer_number(f, 4, -1);
	assert_int_equal(due_at(f, 4), 1);
}
