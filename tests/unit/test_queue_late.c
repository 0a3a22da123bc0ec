/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of waiters that got their lock at once, but whose reply was late; also of grants and
 * answers that do not count, because their numbers are out of range.
 */
#define TEST_FIXTURE struct fake_line *f

#include <stdio.h>
#include <string.h>

#include "lock/queue/queue_internal.h"
#include "tests/unit/fake_line.h"
#include "tests/unit/testing.h"

FIXTURE(fake_line_set_up, fake_line_tear_down);

/* --- locks that are got at once ----------------------------------------------------------- */

static struct client *client_confirming(struct fake_line *f)
{
	struct client *c = client_come(f);

	client_send(c);
	client_answered_late(c, "key");
	assert_int_equal(c->waiter->state, WAITER_CONFIRMING);
	assert_non_null(strstr(expect_probe(f, c).args, " 10000"));
	return c;
}

TEST(a_lock_that_is_told_late_is_had_still_or_lost)
{
	struct client *c = client_confirming(f);
	double asked_at = f->redis.now;

	fake_redis_advance(&f->redis, 0.4 * LEASE_MS / 1000);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "granted");
	assert_true(c->since == asked_at);
	client_leave(c);
	c = client_confirming(f);
	answer_gone(f);
	assert_string_equal(client_told(c), "lost");
	/* The client tries again, and gets the lock again. */
	client_send(c);
	client_answered_late(c, "key");
	(void)expect_probe(f, c);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(a_lock_whose_confirmation_is_late_too_is_confirmed_again)
{
	struct client *c = client_confirming(f);

	f->redis.now += 0.6 * LEASE_MS / 1000;
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "");
	(void)expect_probe(f, c);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(whose_lock_is_always_over_gives_up)
{
	struct client *c = client_confirming(f);

	for (int i = 0; i < 4; i++) {
		f->redis.now += 0.6 * LEASE_MS / 1000;
		assert_string_equal(client_told(c), "");
		(void)expect_probe(f, c);
		answer_granted(f, LEASE_MS);
	}
	assert_string_equal(client_told(c), "timed out");
	assert_non_null(strstr(fake_redis_next(&f->redis, SCRIPT_DEQUEUE).args, " undo"));
	answer_gone(f);
	client_leave(c);
	c = client_confirming(f);
	f->redis.now = c->waiter->deadline;
	for (int i = 0; i < 3; i++) {
		answer_gone(f);
		assert_string_equal(client_told(c), "lost");
		waiter_sent(c->waiter, waiters_ticket(f->all));
		client_answered_late(c, "key");
	}
	answer_gone(f);
	assert_string_equal(client_told(c), "timed out");
	expect_quiet(f);
	client_leave(c);
}

TEST(whose_lock_ended_at_a_past_date_gives_up_before_the_deadline)
{
	struct client *c = client_come(f);
	double deadline = c->waiter->deadline;

	for (int i = 0; i < 4; i++) {
		struct attempt t = { .id = { .kind = LOCK_KIND_COUNT,
			                     .key = SLICE_LIT("key"),
			                     .token = SLICE_LIT("token") } };

		assert_string_equal(client_told(c), i ? "lost" : "");
		client_send(c);
		t.ticket = slice_str(c->waiter->ticket);
		waiter_answered_late(c->waiter, 0, &t);
		(void)expect_probe(f, c);
		answer_gone(f);
	}
	assert_string_equal(client_told(c), "timed out");
	assert_true(deadline > f->redis.now);
	client_leave(c);
}

TEST(a_lock_that_redis_says_nothing_about_is_asked_for_until_the_deadline)
{
	struct client *c = client_confirming(f);

	answer_unknown(f);
	assert_string_equal(client_told(c), "");
	fake_redis_advance(&f->redis, 1.1);
	(void)expect_probe(f, c);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(a_lock_is_confirmed_for_no_longer_than_server_timeout)
{
	struct client *c;

	f->redis.node.settings.server_timeout_ms = 2000;
	c = client_confirming(f);
	fake_redis_advance(&f->redis, 1.9);
	fake_redis_break(&f->redis);
	assert_int_equal(c->waiter->state, WAITER_CONFIRMING);
	fake_redis_advance(
		&f->redis,
		0.6); /* the further time is until hasp looks at the parked attempts */
	assert_int_equal(c->waiter->state, WAITER_QUEUED);
	client_leave(c);
}

/* Redis had lost the script; when it answered so, no time to wait was left. */
TEST(a_lock_is_confirmed_by_the_ticket_that_got_it)
{
	struct client *c = client_come(f);
	char ticket[64];
	struct slice next;

	client_send(c);
	next = waiters_ticket(f->all);
	snprintf(ticket, sizeof(ticket), "%.*s", (int)next.n, next.p);
	client_answered_late_as(c, "key", ticket);
	assert_string_equal(c->waiter->ticket, ticket);
	(void)expect_probe(f, c);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(who_leaves_while_its_lock_is_confirmed_gives_it_back)
{
	struct client *c = client_confirming(f);

	answer_unknown(f);
	waiter_end(c->waiter);
	assert_non_null(strstr(fake_redis_next(&f->redis, SCRIPT_DEQUEUE).args, " undo"));
	answer_gone(f);
	c->waiter = NULL;
	client_leave(c);
}

/* --- several locks, one after the other --------------------------------------------------- */

/* All attempts of one MLOCK have the same ticket. */
TEST(an_answer_about_the_lock_before_says_nothing_of_the_next_one)
{
	struct client *c = client_in_line(f, "key", 1);
	char ticket[TICKET_MAX];

	strcpy(ticket, c->waiter->ticket);
	c->stays = true;
	fake_redis_advance(&f->redis, 0.03);
	client_notify(c, 20);
	assert_string_equal(client_told(c), "granted");
	waiter_sent(c->waiter, slice_str(ticket));
	client_queued(c, "other", 2);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(c), "");
	assert_int_equal(c->waiter->state, WAITER_QUEUED);
	client_leave(c);
}

/* --- numbers that are out of range --- */

TEST(a_grant_whose_numbers_are_out_of_range_is_none)
{
	static const char *const messages[] = {
		"77 -9223372036854775808",
		"77 9223372036854775807",
		"77 99999999999999999999",
		"99999999999999999999 500000",
		"-5 500000",
		"- 1e9",
	};
	struct client *c = client_in_line(f, "key", 1);
	char message[160];

	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
		snprintf(message, sizeof(message), "%s %s %040d", c->waiter->ticket,
		         messages[i], 0);
		fake_redis_publish(f->redis.node.subscriber, NULL, message);
		assert_string_equal(client_told(c), "");
		assert_int_equal(c->waiter->state, WAITER_QUEUED);
	}
	client_leave(c);
}

TEST(an_answer_whose_numbers_are_out_of_range_is_none)
{
	static const char *const answers[] = {
		"*3\r\n$7\r\ngranted\r\n:3000\r\n:-1\r\n",
		"*3\r\n$7\r\ngranted\r\n:3000\r\n:9223372036854775807\r\n",
		"*3\r\n$7\r\ngranted\r\n$1\r\n1\r\n:1\r\n",
	};
	struct client *c = client_in_line(f, "key", 1);

	for (size_t i = 0; i < sizeof(answers) / sizeof(*answers); i++) {
		fake_redis_advance(&f->redis, 1.1);
		while (fake_redis_ncalls(&f->redis))
			fake_redis_answer(&f->redis, answers[i]);
		assert_string_equal(client_told(c), "");
		assert_int_equal(c->waiter->state, WAITER_QUEUED);
	}
	fake_redis_advance(&f->redis, 1.1);
	while (fake_redis_ncalls(&f->redis))
		fake_redis_answer(&f->redis,
		                  "*3\r\n$6\r\nqueued\r\n:9223372036854775807\r\n:0\r\n");
	assert_int_equal(c->waiter->state, WAITER_QUEUED);
	client_leave(c);
}
