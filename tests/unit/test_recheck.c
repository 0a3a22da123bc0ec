/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the check each second: the awaited locks are held, and the first waiters have their
 * places; one call checks many locks.
 */
#define TEST_FIXTURE struct fake_line *f

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/fake_line.h"
#include "tests/unit/testing.h"

FIXTURE(fake_line_set_up, fake_line_tear_down);

#define MANY 100

/* Returns a client that waits for a lock whose lease is known to be long. */
static struct client *quiet_client(struct fake_line *f, const char *key, int place)
{
	struct client *c = client_in_line(f, key, place);

	fake_redis_advance(&f->redis, 0.03);
	answer_queued(f, 60000);
	return c;
}

static void expect_recheck(struct fake_line *f, const char *args)
{
	assert_string_equal(fake_redis_next(&f->redis, SCRIPT_RECHECK).args, args);
}

static void answer_nothing_new(struct fake_line *f)
{
	fake_redis_answer(&f->redis, "*0\r\n");
}

TEST(a_lock_is_looked_at_each_second)
{
	struct client *c = quiet_client(f, "key", 7);

	for (int i = 0; i < 3; i++) {
		fake_redis_advance(&f->redis, 0.85);
		expect_quiet(f);
		fake_redis_advance(&f->redis, 0.15);
		expect_recheck(f, " key hasp:queue:{key} 7");
		answer_nothing_new(f);
		expect_quiet(f);
	}
	client_leave(c);
}

static int locks_in(const char *args)
{
	int n = 0;

	while ((args = strstr(args, " hasp:queue:"))) {
		args++;
		n++;
	}
	return n;
}

TEST(many_locks_share_a_call)
{
	struct client *clients[MANY];
	char key[16];

	for (int i = 0; i < MANY; i++) {
		snprintf(key, sizeof(key), "key%d", i);
		clients[i] = client_in_line(f, key, i + 1);
	}
	fake_redis_advance(&f->redis, 0.03);
	for (int i = 0; i < MANY; i++)
		answer_queued(f, 60000);
	fake_redis_advance(&f->redis, 1);
	assert_int_equal(fake_redis_ncalls(&f->redis), 2);
	assert_int_equal(locks_in(fake_redis_next(&f->redis, SCRIPT_RECHECK).args), 64);
	answer_nothing_new(f);
	assert_int_equal(locks_in(fake_redis_next(&f->redis, SCRIPT_RECHECK).args), MANY - 64);
	answer_nothing_new(f);
	for (int i = 0; i < MANY; i++)
		client_leave(clients[i]);
}

TEST(in_a_cluster_only_locks_of_a_slot_share_a_call)
{
	struct client *a = quiet_client(f, "{a}1", 1), *b = quiet_client(f, "b", 2),
		      *c = quiet_client(f, "{a}2", 3);

	script_jobs_set_naming(f->redis.script_jobs, KEY_NAMING_CLUSTER);
	fake_redis_advance(&f->redis, 1);
	expect_recheck(f, " {a}1 {a}2 hasp:queue:{a}1: hasp:queue:{a}2: 1 3");
	answer_nothing_new(f);
	expect_recheck(f, " b hasp:queue:{b} 2");
	answer_nothing_new(f);
	expect_quiet(f);
	client_leave(a);
	client_leave(b);
	client_leave(c);
}

TEST(only_the_locks_of_which_something_is_new_are_probed)
{
	struct client *a = quiet_client(f, "a", 1), *b = quiet_client(f, "b", 2);

	fake_redis_advance(&f->redis, 1);
	expect_recheck(f, " a b hasp:queue:{a} hasp:queue:{b} 1 2");
	fake_redis_answer(&f->redis, "*2\r\n:2\r\n:-2\r\n");
	(void)expect_probe(f, b);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(b), "granted");
	assert_string_equal(client_told(a), "");
	expect_quiet(f);
	client_leave(a);
	client_leave(b);
}

TEST(a_lock_that_is_soon_over_is_probed_then)
{
	struct client *c = quiet_client(f, "key", 1);

	fake_redis_advance(&f->redis, 1);
	expect_recheck(f, " key hasp:queue:{key} 1");
	fake_redis_answer(&f->redis, "*2\r\n:1\r\n:200\r\n");
	fake_redis_advance(&f->redis, 0.19);
	expect_quiet(f);
	fake_redis_advance(&f->redis, 0.02);
	(void)expect_probe(f, c);
	client_leave(c);
}

TEST(semaphores_are_in_another_call_with_their_limits)
{
	struct client *a = quiet_client(f, "a", 1), *b = client_come(f);
	struct attempt t = { .id = { .kind = LOCK_KIND_LIMIT,
		                     .key = SLICE_LIT("b"),
		                     .token = SLICE_LIT("token") },
		             .limit = 3,
		             .lease_ms = LEASE_MS };

	client_send(b);
	assert_int_equal(waiter_queued(b->waiter, 0, &t, SLICE_LIT("+QUEUED 9 1000 60000\r\n")),
	                 0);
	fake_redis_advance(&f->redis, 0.03);
	answer_queued(f, 60000);
	fake_redis_advance(&f->redis, 1);
	expect_recheck(f, " a hasp:queue:{a} 1");
	answer_nothing_new(f);
	expect_recheck(f, " b hasp:queue:{b} 9 3");
	fake_redis_answer(&f->redis, "*2\r\n:1\r\n:-2\r\n");
	(void)expect_probe(f, b);
	answer_granted(f, LEASE_MS);
	assert_string_equal(client_told(b), "granted");
	client_leave(a);
	client_leave(b);
	answer_unknown(f); /* the answer to the leave */
}

TEST(locks_of_another_database_are_in_another_call)
{
	struct client *a = quiet_client(f, "key", 1), *b = client_come(f);
	struct attempt t = { .id = { .kind = LOCK_KIND_TOKEN,
		                     .key = SLICE_LIT("key"),
		                     .token = SLICE_LIT("token") },
		             .lease_ms = LEASE_MS };

	client_send(b);
	assert_int_equal(waiter_queued(b->waiter, 5, &t, SLICE_LIT("+QUEUED 9 1000 60000")), 0);
	fake_redis_advance(&f->redis, 0.03);
	answer_queued(f, 60000);
	fake_redis_advance(&f->redis, 1);
	assert_int_equal(fake_redis_next(&f->redis, SCRIPT_RECHECK).db, 0);
	answer_nothing_new(f);
	assert_int_equal(fake_redis_next(&f->redis, SCRIPT_RECHECK).db, 5);
	expect_recheck(f, " key hasp:queue:{key} 9");
	answer_nothing_new(f);
	client_leave(a);
	client_leave(b);
}

TEST(when_redis_refuses_the_call_each_lock_is_probed)
{
	struct client *a = quiet_client(f, "a", 1), *b = quiet_client(f, "b", 2);

	fake_redis_advance(&f->redis, 1);
	fake_redis_answer(&f->redis, "-NOPERM zcount\r\n");
	(void)expect_probe(f, a);
	answer_queued(f, 60000);
	(void)expect_probe(f, b);
	answer_queued(f, 60000);
	expect_quiet(f);
	client_leave(a);
	client_leave(b);
}

TEST(without_an_answer_there_is_another_look)
{
	struct client *c = quiet_client(f, "key", 1);

	fake_redis_advance(&f->redis, 1);
	fake_redis_break(&f->redis);
	fake_redis_repair(&f->redis);
	expect_quiet(f);
	fake_redis_advance(&f->redis, 1);
	expect_recheck(f, " key hasp:queue:{key} 1");
	client_leave(c);
}

TEST(a_probe_meanwhile_takes_the_place_of_a_look)
{
	struct client *c = quiet_client(f, "key", 1);

	fake_redis_advance(&f->redis, 1);
	waiters_probe(f->all, 0, SLICE_LIT("key"), LOCK_KIND_COUNT);
	fake_redis_answer(&f->redis, "*2\r\n:1\r\n:-2\r\n");
	(void)expect_probe(f, c);
	answer_queued(f, 60000);
	expect_quiet(f);
	client_leave(c);
}

/* The line's last waiter has left, and a write is about to hand the lock off; Redis is
 * slow. */
TEST(a_line_without_waiters_is_not_looked_at)
{
	client_leave(client_in_line(f, "key", 1));
	answer_gone(f);
	waiters_probe(f->all, 0, SLICE_LIT("key"), LOCK_KIND_COUNT);
	fake_redis_advance(&f->redis, 2);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
	(void)expect_probe(f, NULL);
	answer_gone(f);
	fake_redis_advance(&f->redis, 2);
	expect_quiet(f);
}

TEST(a_line_may_end_while_it_is_looked_at)
{
	struct client *a = quiet_client(f, "a", 1);

	fake_redis_advance(&f->redis, 1);
	client_leave(a);
	fake_redis_advance(&f->redis, 11);
	assert_int_equal(f->all->by_key.n, 0);
	fake_redis_answer(&f->redis, "*2\r\n:1\r\n:-2\r\n");
	answer_unknown(f); /* the answer to the leave */
	expect_quiet(f);
}
