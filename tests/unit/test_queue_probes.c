/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of events that no message reports, which hasp finds by asking Redis: the end of a
 * lease, a lost place, events while hasp was not subscribed.
 */
#define TEST_FIXTURE struct fake_line *f

#include <stdlib.h>
#include <string.h>

#include "tests/unit/fake_line.h"
#include "tests/unit/testing.h"

FIXTURE(fake_line_set_up, fake_line_tear_down);

static size_t nunconfirmed(struct fake_line *f)
{
	return queue_node_of(f->all, SLICE_LIT("key"))->nunconfirmed;
}

/* --- when a lock is probed ---------------------------------------------------------- */

TEST(a_new_line_is_probed_soon_for_its_try_may_have_crossed_a_release)
{
	struct client *c = client_in_line(f, "key", 1);

	expect_quiet(f);
	fake_redis_advance(&f->redis, 0.03);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
	assert_null(strstr(expect_probe(f, c).args, "10000")); /* no lease begins */
	answer_queued(f, 3000);
	client_leave(c);
}

TEST(a_lock_is_probed_when_its_lease_ends)
{
	struct client *c = client_in_line(f, "key", 1);

	fake_redis_advance(&f->redis, 0.03);
	answer_queued(f, 200);
	fake_redis_advance(&f->redis, 0.19);
	expect_quiet(f);
	fake_redis_advance(&f->redis, 0.02);
	(void)expect_probe(f, c);
	answer_queued(f, -1); /* the lock has no expiry */
	fake_redis_advance(&f->redis, 0.8);
	expect_quiet(f);
	client_leave(c);
}

TEST(a_probe_that_is_not_answered_is_followed_by_a_look)
{
	struct client *c = client_in_line(f, "key", 1);

	fake_redis_advance(&f->redis, 0.03);
	fake_redis_break(&f->redis);
	fake_redis_repair(&f->redis);
	expect_quiet(f);
	fake_redis_advance(&f->redis, 1);
	(void)fake_redis_next(&f->redis, SCRIPT_RECHECK);
	client_leave(c);
}

TEST(one_probe_is_under_way_and_one_more_is_asked_for_at_most)
{
	struct client *c = client_in_line(f, "key", 1);

	for (int i = 0; i < 5; i++)
		waiters_probe(f->all, 0, SLICE_LIT("key"), LOCK_KIND_COUNT);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
	answer_queued(f, 3000);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
	answer_queued(f, 3000);
	expect_quiet(f);
	client_leave(c);
}

TEST(a_write_to_a_lock_that_nobody_waits_for_here_hands_it_over)
{
	waiters_probe(f->all, 4, SLICE_LIT("key"), LOCK_KIND_RULE);
	assert_int_equal(expect_probe(f, NULL).db, 4);
	answer_gone(f);
	expect_quiet(f);
}

TEST(only_the_first_of_a_line_is_probed_for)
{
	struct client *second = client_in_line(f, "key", 8),
		      *first = client_in_line(f, "key", 7);

	waiters_probe(f->all, 0, SLICE_LIT("key"), LOCK_KIND_COUNT);
	(void)expect_probe(f, first);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(first), "granted");
	assert_string_equal(client_told(second), "");
	client_leave(first);
	client_leave(second);
}

TEST(when_a_short_lease_was_granted_the_next_is_probed_for_at_its_end)
{
	struct client *a = client_in_line(f, "key", 1), *b = client_in_line(f, "key", 2);

	fake_redis_advance(&f->redis, 0.03);
	answer_queued(f, 60000);
	a->waiter->lease_ms = 100;
	client_notify(a, 31);
	assert_string_equal(client_told(a), "granted");
	fake_redis_advance(&f->redis, 0.09);
	expect_quiet(f);
	fake_redis_advance(&f->redis, 0.02);
	(void)expect_probe(f, b);
	client_leave(a);
	client_leave(b);
}

TEST(a_line_without_waiters_ends_after_a_while)
{
	struct client *c = client_in_line(f, "key", 1);

	client_leave(c);
	answer_unknown(f); /* the answer to the leave */
	fake_redis_advance(&f->redis, 9);
	assert_int_equal(f->all->by_key.n, 1);
	fake_redis_advance(&f->redis, 1.1);
	assert_int_equal(f->all->by_key.n, 0);
	expect_quiet(f);
}

/* The line lingers from the answer on. */
TEST(a_line_without_waiters_ends_even_if_a_probe_is_answered_late_and_by_an_error)
{
	struct client *c = client_in_line(f, "key", 1);

	fake_redis_advance(&f->redis, 0.03);
	client_leave(c);
	fake_redis_advance(&f->redis, 11);
	assert_int_equal(f->all->by_key.n, 1);
	answer_unknown(f);
	answer_unknown(f); /* the answer to the leave */
	fake_redis_advance(&f->redis, 11);
	assert_int_equal(f->all->by_key.n, 0);
	expect_quiet(f);
}

/* --- what a probe finds --------------------------------------------------------------- */

TEST(a_waiter_that_has_the_lock_learns_it_by_a_probe)
{
	struct client *c = client_in_line(f, "key", 1);

	fake_redis_advance(&f->redis, 0.03);
	answer_granted(f, LEASE_MS - 500);
	assert_string_equal(client_told(c), "granted");
	assert_int_equal(c->fence, 78);
	assert_true(c->since < f->redis.now - 0.4);
	client_leave(c);
}

TEST(a_stale_grant_that_a_probe_finds_is_confirmed)
{
	struct client *c = client_in_line(f, "key", 1);

	fake_redis_advance(&f->redis, 0.03);
	answer_granted(f, LEASE_MS / 2);
	assert_string_equal(client_told(c), "");
	assert_non_null(strstr(expect_probe(f, c).args, " 10000"));
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(when_the_first_has_lost_its_place_each_is_asked_for)
{
	struct client *a = client_in_line(f, "key", 1), *b = client_in_line(f, "key", 2);

	fake_redis_advance(&f->redis, 0.03);
	answer_gone(f);
	assert_int_equal(nunconfirmed(f), 2);
	(void)expect_probe(f, a);
	answer_gone(f);
	assert_string_equal(client_told(a), "lost");
	assert_int_equal(waiter_place(a->waiter), 1);
	(void)expect_probe(f, b);
	answer_queued(f, 3000);
	assert_string_equal(client_told(b), "");
	assert_int_equal(nunconfirmed(f), 1);
	/* The waiter goes back to its place, before all others. */
	client_send(a);
	client_queued(a, "key", 1);
	assert_int_equal(nunconfirmed(f), 0);
	assert_ptr_equal(line_first(a->waiter->line), a->waiter);
	client_leave(a);
	client_leave(b);
}

TEST(newcomers_are_not_sent_while_a_waiter_is_unconfirmed)
{
	struct client *a = client_in_line(f, "key", 1), *newcomer = client_come(f);

	fake_redis_advance(&f->redis, 0.03);
	answer_gone(f);
	assert_false(waiters_are_ready(f->all, SLICE_LIT("key")));
	assert_int_equal(waiter_ready(newcomer->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	answer_gone(f);
	assert_string_equal(client_told(a), "lost");
	assert_string_equal(client_told(newcomer), "");
	client_send(a);
	client_queued(a, "key", 1);
	/* The newcomer is not resumed inside the callback. */
	assert_string_equal(client_told(newcomer), "");
	fake_redis_advance(&f->redis, 0);
	assert_string_equal(client_told(newcomer), "ready");
	client_leave(a);
	client_leave(newcomer);
}

TEST(newcomers_are_sent_when_the_unconfirmed_waiter_ends)
{
	struct client *a = client_in_line(f, "key", 1), *newcomer = client_come(f);

	fake_redis_advance(&f->redis, 0.03);
	answer_gone(f);
	assert_int_equal(waiter_ready(newcomer->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	client_leave(a);
	fake_redis_advance(&f->redis, 0);
	assert_string_equal(client_told(newcomer), "ready");
	client_leave(newcomer);
}

TEST(newcomers_go_on_waiting_when_another_waiter_is_unconfirmed_by_then)
{
	struct client *a = client_in_line(f, "key", 1), *b = client_in_line(f, "other", 1);
	struct client *newcomer = client_come(f);

	waiters_probe(f->all, 0, SLICE_LIT("key"), LOCK_KIND_COUNT);
	answer_gone(f);
	assert_int_equal(waiter_ready(newcomer->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	answer_gone(f);
	client_leave(a);
	waiters_probe(f->all, 0, SLICE_LIT("other"), LOCK_KIND_COUNT);
	answer_gone(f);
	fake_redis_advance(&f->redis, 0);
	assert_string_equal(client_told(newcomer), "");
	(void)expect_probe(f, b);
	answer_queued(f, 3000);
	fake_redis_advance(&f->redis, 0);
	assert_string_equal(client_told(newcomer), "ready");
	client_leave(b);
	client_leave(newcomer);
}

TEST(newcomers_that_wait_for_the_subscriber_too_go_on_waiting)
{
	struct client *a = client_in_line(f, "key", 1), *newcomer = client_come(f);

	fake_redis_advance(&f->redis, 0.03);
	answer_gone(f);
	assert_int_equal(waiter_ready(newcomer->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	fake_redis_subscriber_down(f->redis.node.subscriber);
	client_leave(a);
	fake_redis_advance(&f->redis, 0);
	assert_string_equal(client_told(newcomer), "");
	fake_redis_subscriber_up(f->redis.node.subscriber);
	assert_string_equal(client_told(newcomer), "ready");
	client_leave(newcomer);
}

/* --- the subscriber --------------------------------------------------------------------- */

TEST(after_the_subscriber_was_down_each_waiter_is_asked_for)
{
	struct client *a = client_in_line(f, "key", 1), *b = client_in_line(f, "key", 2);
	struct subscriber *s = f->redis.node.subscriber;

	assert_string_equal(fake_redis_channels(s), "+redisson_lock__channel:{key} ");
	fake_redis_subscriber_down(s);
	fake_redis_subscriber_up(s);
	assert_string_equal(fake_redis_channels(s), "+redisson_lock__channel:{key} ");
	assert_int_equal(fake_redis_ncalls(&f->redis), 2);
	(void)expect_probe(f, a);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(a), "granted");
	(void)expect_probe(f, b);
	answer_queued(f, 3000);
	assert_int_equal(nunconfirmed(f), 0);
	client_leave(a);
	client_leave(b);
}

/* hasp hears Redis again, but cannot send calls yet. */
static struct client *client_in_doubt(struct fake_line *f, const char *key, int place)
{
	struct client *c = client_in_line(f, key, place);
	struct subscriber *s = f->redis.node.subscriber;

	fake_redis_break(&f->redis);
	fake_redis_subscriber_down(s);
	fake_redis_subscriber_up(s);
	return c;
}

TEST(newcomers_wait_until_hasp_s_own_connection_tells_the_places)
{
	struct client *a = client_in_doubt(f, "key", 1), *newcomer = client_come(f);

	assert_int_equal(waiter_ready(newcomer->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	fake_redis_advance(&f->redis, 1.4);
	fake_redis_repair(&f->redis);
	script_jobs_resume(f->redis.script_jobs, &f->redis.node);
	(void)expect_probe(f, a);
	answer_gone(f);
	assert_string_equal(client_told(a), "lost");
	client_send(a);
	client_queued(a, "key", 1);
	fake_redis_advance(&f->redis, 0);
	assert_string_equal(client_told(newcomer), "ready");
	client_leave(a);
	client_leave(newcomer);
}

TEST(a_place_that_cannot_be_asked_for_keeps_newcomers_no_longer_than_its_waiter)
{
	struct client *a = client_in_doubt(f, "key", 1), *newcomer = client_come(f);

	assert_int_equal(waiter_ready(newcomer->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	client_leave(a);
	fake_redis_advance(&f->redis, 0);
	assert_string_equal(client_told(newcomer), "ready");
	client_leave(newcomer);
}

TEST(a_place_is_asked_for_once_however_often_the_subscriber_comes_and_goes)
{
	struct client *a = client_in_doubt(f, "key", 1);
	struct subscriber *s = f->redis.node.subscriber;

	for (int i = 0; i < 10; i++) {
		fake_redis_subscriber_down(s);
		fake_redis_subscriber_up(s);
	}
	fake_redis_repair(&f->redis);
	script_jobs_resume(f->redis.script_jobs, &f->redis.node);
	(void)expect_probe(f, a);
	answer_queued(f, 3000);
	expect_quiet(f);
	assert_int_equal(nunconfirmed(f), 0);
	client_leave(a);
}

TEST(an_answer_that_may_be_older_than_the_loss_of_a_place_confirms_nothing)
{
	struct client *a = client_in_line(f, "key", 1);
	struct subscriber *s = f->redis.node.subscriber;

	for (int i = 0; i < 2; i++) {
		fake_redis_subscriber_down(s);
		fake_redis_subscriber_up(s);
	}
	(void)expect_probe(f, a);
	answer_queued(f, 3000);
	assert_int_equal(nunconfirmed(f), 1);
	(void)expect_probe(f, a);
	answer_gone(f);
	assert_string_equal(client_told(a), "lost");
	assert_int_equal(nunconfirmed(f), 1);
	client_send(a);
	client_queued(a, "key", 1);
	assert_int_equal(nunconfirmed(f), 0);
	client_leave(a);
}

TEST(a_place_that_redis_refuses_to_tell_keeps_nobody)
{
	struct client *a = client_in_line(f, "key", 1);
	struct subscriber *s = f->redis.node.subscriber;

	fake_redis_subscriber_down(s);
	fake_redis_subscriber_up(s);
	(void)expect_probe(f, a);
	answer_unknown(f);
	assert_int_equal(nunconfirmed(f), 0);
	assert_int_equal(a->waiter->state, WAITER_QUEUED);
	client_leave(a);
}

TEST(a_release_by_redisson_s_clients_is_heard)
{
	struct client *a = client_in_line(f, "key", 1), *other = client_in_line(f, "{b}c", 1);
	struct subscriber *s = f->redis.node.subscriber;

	assert_string_equal(fake_redis_channels(s),
	                    "+redisson_lock__channel:{key} +redisson_lock__channel:{b}c ");
	fake_redis_publish(s, "redisson_lock__channel:{key}", "0");
	(void)expect_probe(f, a);
	answer_queued(f, 3000);
	expect_quiet(f);
	fake_redis_publish(s, "redisson_lock__channel:{b}c", "0");
	(void)expect_probe(f, other);
	answer_queued(f, 3000);
	/* hasp missed messages that were published before it subscribed to the channel. */
	fake_redis_subscribed(s, "redisson_lock__channel:{key}");
	(void)expect_probe(f, a);
	answer_queued(f, 3000);
	fake_redis_publish(s, "redisson_lock__channel:{unknown}", "0");
	fake_redis_publish(s, "another", "0");
	expect_quiet(f);
	client_leave(a);
	client_leave(other);
}

TEST(redisson_s_channel_is_left_when_the_line_ends)
{
	struct client *c = client_in_line(f, "key", 1);
	struct subscriber *s = f->redis.node.subscriber;

	(void)fake_redis_channels(s);
	client_leave(c);
	assert_string_equal(fake_redis_channels(s), "");
	fake_redis_advance(&f->redis, 11);
	assert_string_equal(fake_redis_channels(s), "-redisson_lock__channel:{key} ");
}

/* --- states ----------------------------------------------------------------------------- */

TEST(a_line_is_asked_for_again_only_while_an_answer_is_due)
{
	static const bool allowed[3][3] = {
		[LINE_UNPROBED] = { 0, 1, 0 },
		[LINE_PROBED] = { 1, 0, 1 },
		[LINE_PROBED_AGAIN] = { 1, 0, 1 },
	};

	for (int from = 0; from < 3; from++)
		for (int to = 0; to < 3; to++)
			assert_int_equal(
				line_allows((enum line_probing)from, (enum line_probing)to),
				allowed[from][to]);
}
