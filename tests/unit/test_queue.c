/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of a client that waits for a lock: it gets the lock, or an error in time.
 */
#define TEST_FIXTURE struct fake_line *f

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fake_line.h"
#include "tests/unit/testing.h"

FIXTURE(fake_line_set_up, fake_line_tear_down);

/* --- granted ------------------------------------------------------------------------- */

TEST(a_waiter_is_granted_the_lock_by_a_message)
{
	struct client *c = client_in_line(f, "key", 1);

	assert_int_equal(c->waiter->state, WAITER_QUEUED);
	assert_true(waiters_for(f->all, 0, SLICE_LIT("key")));
	fake_redis_advance(&f->redis, 0.01);
	client_notify(c, 5);
	assert_string_equal(client_told(c), "granted");
	assert_int_equal(c->fence, 77);
	assert_true(c->since <= f->redis.now - 0.0049 && c->since >= f->redis.now - 0.0051);
	assert_false(waiters_any(f->all));
	client_leave(c);
	expect_quiet(f);
}

TEST(a_waiter_counts_while_it_stands_in_line)
{
	struct section_stats section = { .kind = STATS_LOCK };
	struct client *one = client_come(f), *other = client_come(f);

	client_send(one);
	client_send(other);
	waiter_count_at(one->waiter, &section);
	waiter_count_at(other->waiter, &section);
	assert_int_equal(metrics_counted(&section.now[STAT_WAITERS]), 0);
	client_queued(one, "key", 1);
	client_queued(other, "key", 2);
	assert_int_equal(metrics_counted(&section.now[STAT_WAITERS]), 2);
	assert_int_equal(waiters_nbytes(f->all),
	                 waiter_nbytes(one->waiter) + waiter_nbytes(other->waiter));
	client_notify(one, 1);
	assert_int_equal(metrics_counted(&section.now[STAT_WAITERS]), 1);
	client_leave(one);
	client_leave(other);
	assert_int_equal(metrics_counted(&section.now[STAT_WAITERS]), 0);
	assert_int_equal(waiters_nbytes(f->all), 0);
}

TEST(a_grant_that_comes_before_the_answer_to_the_try_counts)
{
	struct client *c = client_come(f);

	client_send(c);
	fake_redis_advance(&f->redis, 0.01);
	client_notify(c, 1);
	assert_int_equal(c->waiter->state, WAITER_GRANTED_EARLY);
	assert_string_equal(client_told(c), "");
	client_queued(c, "key", 1);
	assert_string_equal(client_told(c), "granted");
	assert_int_equal(c->fence, 77);
	client_leave(c);
}

TEST(a_grant_is_not_older_than_the_message_that_tells_it_nor_newer_than_now)
{
	struct client *c = client_in_line(f, "key", 1);

	fake_redis_advance(&f->redis, 0.005);
	client_notify(c, 4000); /* Redis' clock is ahead */
	assert_string_equal(client_told(c), "granted");
	assert_true(c->since == f->redis.now);
	client_leave(c);
}

TEST(a_stale_grant_begins_its_lease_again_before_the_client_has_it)
{
	struct client *c = client_in_line(f, "key", 1);

	fake_redis_advance(&f->redis, 0.5);
	while (fake_redis_ncalls(&f->redis))
		answer_queued(f, 3000);
	fake_redis_advance(&f->redis, 1.2);
	while (fake_redis_ncalls(&f->redis))
		answer_unknown(f);
	client_notify(c, 100); /* more than a tenth of the lease ago */
	assert_string_equal(client_told(c), "");
	assert_int_equal(c->waiter->state, WAITER_CONFIRMING);
	assert_non_null(strstr(expect_probe(f, c).args, " 10000"));
	fake_redis_advance(&f->redis, 0.25);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "granted");
	assert_int_equal(c->fence, 78);
	assert_true(c->since <= f->redis.now - 0.249);
	client_leave(c);
}

TEST(a_stale_grant_that_is_none_any_more_waits_on_in_its_place)
{
	struct client *c = client_in_line(f, "key", 1);

	f->redis.now += 2;
	client_notify(c, 100);
	(void)expect_probe(f, c);
	answer_queued(f, 3000);
	assert_int_equal(c->waiter->state, WAITER_QUEUED);
	assert_string_equal(client_told(c), "");
	client_notify(c, 1990);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(a_deadline_that_passes_while_a_grant_is_confirmed_is_kept_then)
{
	struct client *c = client_in_line(f, "key", 1);

	f->redis.now += 2;
	client_notify(c, 100);
	(void)expect_probe(f, c);
	fake_redis_advance(&f->redis, 4);
	assert_string_equal(client_told(c), "");
	answer_queued(f, 3000);
	fake_redis_advance(&f->redis, 0);
	assert_int_equal(c->waiter->state, WAITER_LEAVING);
	fake_redis_advance(&f->redis, GRACE);
	assert_string_equal(client_told(c), "timed out");
	client_leave(c);
}

TEST(a_message_to_a_waiter_that_has_ended_is_ignored)
{
	struct subscriber *s = f->redis.node.subscriber;

	fake_redis_publish(s, NULL, "0123456789abcdef-1 5 500000");
	fake_redis_publish(s, NULL, "nonsense");
	fake_redis_publish(s, NULL, "");
	expect_quiet(f);
}

/* --- what proves nothing --------------------------------------------------------------- */

TEST(a_grant_that_no_script_of_this_process_has_proved_only_makes_hasp_ask)
{
	struct client *c = client_in_line(f, "key", 1);

	client_forge(c, 1);
	assert_string_equal(client_told(c), "");
	assert_int_equal(c->waiter->state, WAITER_QUEUED);
	(void)expect_probe(f, c);
	answer_queued(f, 3000);
	assert_string_equal(client_told(c), "");
	client_forge(c, 2);
	(void)expect_probe(f, c);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(a_grant_of_another_lock_or_in_another_database_proves_nothing)
{
	struct client *c = client_in_line(f, "key", 1);

	client_notify_as(c, 1, "another", 0);
	client_notify_as(c, 1, "key", 1);
	assert_string_equal(client_told(c), "");
	(void)expect_probe(f, c);
	answer_queued(f, 3000);
	(void)expect_probe(f, c); /* a message about it comes while hasp asks Redis */
	answer_queued(f, 3000);
	expect_quiet(f);
	client_notify_as(c, 1, "key", 0);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(many_forged_grants_make_one_call_at_a_time)
{
	struct client *c = client_in_line(f, "key", 1);

	for (int i = 0; i < 100; i++)
		client_forge(c, i);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
	client_leave(c);
}

TEST(a_forged_grant_before_the_answer_to_the_try_keeps_out_no_true_one)
{
	struct client *c = client_come(f);

	client_send(c);
	client_forge(c, 1);
	assert_int_equal(c->waiter->state, WAITER_GRANTED_EARLY);
	client_notify(c, 1);
	client_queued(c, "key", 1);
	assert_string_equal(client_told(c), "");
	assert_int_equal(c->waiter->state, WAITER_QUEUED);
	fake_redis_advance(&f->redis, 0.002);
	(void)expect_probe(f, c);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

/* --- not granted ----------------------------------------------------------------------- */

TEST(a_waiter_whose_time_is_over_leaves_the_queue_and_is_told)
{
	struct client *c = client_in_line(f, "key", 1);

	c->stays = true;
	fake_redis_break(&f->redis); /* hasp cannot probe */
	fake_redis_advance(&f->redis, (double)WAIT_MS / 1000 - 0.6);
	fake_redis_repair(&f->redis);
	assert_int_equal(c->waiter->state, WAITER_QUEUED);
	fake_redis_advance(&f->redis, 0.61);
	while (fake_redis_ncalls(&f->redis) > 1)
		answer_queued(f, 3000);
	assert_int_equal(c->waiter->state, WAITER_LEAVING);
	assert_string_equal(client_told(c), "");
	(void)expect_leave(f, c, false);
	answer_gone(f);
	assert_string_equal(client_told(c), "timed out");
	assert_int_equal(c->waiter->state, WAITER_IDLE);
	client_leave(c);
	expect_quiet(f);
}

TEST(a_waiter_that_is_granted_the_lock_as_it_leaves_has_it)
{
	struct client *c = client_in_line(f, "key", 1);

	f->redis.now += (double)WAIT_MS / 1000;
	fake_redis_advance(&f->redis, 0);
	assert_int_equal(c->waiter->state, WAITER_LEAVING);
	while (fake_redis_ncalls(&f->redis) > 1)
		answer_unknown(f);
	answer_granted(f, LEASE_MS - 1);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(a_waiter_is_told_soon_even_if_redis_does_not_answer)
{
	struct client *c = client_in_line(f, "key", 1);

	fake_redis_advance(&f->redis, (double)WAIT_MS / 1000 + GRACE);
	assert_string_equal(client_told(c), "timed out");
	while (fake_redis_ncalls(&f->redis) > 2)
		answer_unknown(f);
	/* The waiter asked for the message, and, when it ended, for the undoing of a grant. */
	answer_gone(f);
	assert_non_null(strstr(fake_redis_next(&f->redis, SCRIPT_DEQUEUE).args, " undo"));
	client_leave(c);
}

TEST(a_client_that_goes_takes_its_waiter_out_of_the_queue)
{
	struct client *c = client_in_line(f, "key", 1);

	(void)c;
	fake_redis_break(&f->redis);
	client_leave(c);
	assert_false(waiters_any(f->all));
	fake_redis_advance(&f->redis, 59);
	fake_redis_repair(&f->redis);
	assert_non_null(strstr(fake_redis_next(&f->redis, SCRIPT_DEQUEUE).args, " undo"));
}

TEST(what_a_waiter_has_left_of_its_time_counts_from_when_it_came)
{
	struct client *c = client_come(f);

	assert_int_equal(waiter_left_ms(c->waiter), WAIT_MS);
	fake_redis_advance(&f->redis, 2);
	assert_in_range(waiter_left_ms(c->waiter), WAIT_MS - 2001, WAIT_MS - 1999);
	fake_redis_advance(&f->redis, 20);
	assert_int_equal(waiter_left_ms(c->waiter), 0);
	client_leave(c);
}

TEST(an_answer_that_is_no_place_in_the_queue_is_not_understood)
{
	static const char *const lines[] = {
		"+QUEUED",
		"+QUEUED 1 2",
		"+QUEUED a b c",
		"",
		"+QUEUED -1 500000 3000\r\n",
		"+QUEUED 1 -500000 3000\r\n",
		"+QUEUED 99999999999999999999 500000 3000\r\n",
		"+QUEUED 1 9223372036854775807 3000\r\n",
		"+QUEUED 1 5e5 3000\r\n",
	};
	struct client *c = client_come(f);
	struct attempt t = { .id = { .kind = LOCK_KIND_COUNT,
		                     .key = SLICE_LIT("key"),
		                     .token = SLICE_LIT("c") } };

	assert_int_equal(waiter_queued(c->waiter, 0, &t, SLICE_LIT("+QUEUED 1 500000 9")), -1);
	client_send(c);
	for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
		assert_int_equal(waiter_queued(c->waiter, 0, &t, slice_str(lines[i])), -1);
	/* A lock that was taken past hasp may last as long as Redis can count. */
	assert_int_equal(waiter_queued(c->waiter, 0, &t,
	                               slice_str("+QUEUED 1 500000 9.2233720368548e+18\r\n")),
	                 0);
	client_leave(c);
}

/* --- the subscriber -------------------------------------------------------------------- */

TEST(a_try_is_not_sent_before_the_subscriber_is_up)
{
	struct client *c = client_come(f);
	struct subscriber *s = f->redis.node.subscriber;

	fake_redis_subscriber_down(s);
	assert_int_equal(waiter_ready(c->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	assert_true(subscriber_was_opened(s));
	assert_int_equal(c->waiter->state, WAITER_UNSENT);
	fake_redis_subscriber_up(s);
	assert_string_equal(client_told(c), "ready");
	assert_int_equal(c->waiter->state, WAITER_IDLE);
	assert_int_equal(waiter_ready(c->waiter, SLICE_LIT("key")), TRY_READY);
	client_leave(c);
}

TEST(a_try_that_could_not_be_sent_in_time_is_to_be_given_up)
{
	struct client *c = client_come(f);

	fake_redis_subscriber_down(f->redis.node.subscriber);
	assert_int_equal(waiter_ready(c->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	fake_redis_advance(&f->redis, (double)WAIT_MS / 1000);
	assert_string_equal(client_told(c), "ready");
	assert_int_equal(waiter_left_ms(c->waiter), 0);
	client_leave(c);
}

TEST(when_redis_cannot_be_reached_a_try_is_sent_all_the_same)
{
	struct client *c = client_come(f);
	struct subscriber *s = f->redis.node.subscriber;

	fake_redis_subscriber_down(s);
	assert_int_equal(waiter_ready(c->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	fake_redis_subscriber_failed(s, NULL);
	assert_string_equal(client_told(c), "ready");
	assert_int_equal(waiter_ready(c->waiter, SLICE_LIT("key")), TRY_READY);
	client_send(c);
	/* A second attempt is a separate case. */
	assert_int_equal(waiter_ready(c->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	client_leave(c);
}

TEST(tickets_are_counted_in_hexadecimal)
{
	char expected[32];

	for (unsigned i = 0; i < 0x1234; i++) {
		struct slice ticket = waiters_ticket(f->all), worker;
		assert_true(slice_cut(&ticket, '-', &worker));
		assert_int_equal(worker.n, 16);
		snprintf(expected, sizeof(expected), "%x", i);
		assert_true(slice_eq(ticket, slice_str(expected)));
	}
}

TEST(a_try_that_finds_redis_again_has_the_time_that_its_client_gave)
{
	struct client *c = client_come(f);
	struct subscriber *s = f->redis.node.subscriber;

	fake_redis_subscriber_down(s);
	assert_int_equal(waiter_ready(c->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	fake_redis_subscriber_failed(s, NULL);
	assert_int_equal(waiter_left_ms(c->waiter), WAIT_MS);
	waiter_sent(c->waiter, waiters_ticket(f->all));
	client_queued(c, "key", 5);
	/* hasp missed messages that were published before the subscriber was up. */
	fake_redis_subscriber_up(s);
	(void)expect_probe(f, c);
	answer_queued(f, 3000);
	expect_quiet(f);
	(void)client_told(c);
	fake_redis_advance(&f->redis, 0.5);
	assert_string_equal(client_told(c), "");
	client_notify(c, 10);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(what_redis_refuses_is_told_to_those_that_would_wait)
{
	struct client *c = client_come(f);
	struct subscriber *s = f->redis.node.subscriber;

	fake_redis_subscriber_down(s);
	assert_int_equal(waiter_ready(c->waiter, SLICE_LIT("key")), TRY_NOT_YET);
	fake_redis_subscriber_failed(s, "NOPERM");
	assert_string_equal(client_told(c), "ready");
	assert_int_equal(waiter_ready(c->waiter, SLICE_LIT("key")), TRY_REFUSED);
	assert_string_equal(waiter_refusal(c->waiter), "NOPERM");
	assert_true(waiter_left_ms(c->waiter) > 0);
	client_leave(c);
}

TEST(a_try_may_be_sent_again_under_another_ticket)
{
	struct client *c = client_come(f);
	char first[TICKET_MAX];

	client_send(c);
	strcpy(first, c->waiter->ticket);
	client_send(c);
	assert_string_not_equal(c->waiter->ticket, first);
	assert_null(waiter_find(f->all, slice_str(first)));
	assert_ptr_equal(waiter_find(f->all, slice_str(c->waiter->ticket)), c->waiter);
	client_leave(c);
}

TEST(a_waiter_may_be_made_for_a_try_that_was_sent_before)
{
	struct client *c = client_come(f);
	struct waiter *late;

	fake_redis_advance(&f->redis, 1);
	late = waiter_new_sent(f->all, WAIT_MS, f->redis.now - 0.5, waiters_ticket(f->all), c);
	assert_in_range(waiter_left_ms(late), WAIT_MS - 501, WAIT_MS - 499);
	waiter_end(c->waiter);
	c->waiter = late;
	client_queued(c, "key", 1);
	client_notify(c, 500);
	assert_string_equal(client_told(c), "granted");
	assert_true(c->since == f->redis.now);
	client_leave(c);
}

/* --- states ----------------------------------------------------------------------------- */

TEST(a_waiter_changes_its_state_only_as_it_may)
{
	/* A row for each state; columns: IDLE, UNSENT, SENT, GRANTED_EARLY, QUEUED,
	 * CONFIRMING, LEAVING. */
	static const bool allowed[WAITER_STATES][WAITER_STATES] = {
		[WAITER_IDLE] = { 0, 1, 1, 0, 0, 0, 0 },
		[WAITER_UNSENT] = { 1, 0, 0, 0, 0, 0, 0 },
		[WAITER_SENT] = { 0, 1, 1, 1, 1, 1, 0 },
		[WAITER_GRANTED_EARLY] = { 0, 1, 1, 0, 1, 1, 0 },
		[WAITER_QUEUED] = { 1, 0, 0, 0, 0, 1, 1 },
		[WAITER_CONFIRMING] = { 1, 0, 0, 0, 1, 1, 0 },
		[WAITER_LEAVING] = { 1, 0, 0, 0, 1, 0, 0 },
	};

	for (int from = 0; from < WAITER_STATES; from++)
		for (int to = 0; to < WAITER_STATES; to++)
			assert_int_equal(
				waiter_allows((enum waiter_state)from, (enum waiter_state)to),
				allowed[from][to]);
}
