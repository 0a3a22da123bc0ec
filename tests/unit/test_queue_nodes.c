/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of queues at several nodes: an event at one node delays no waiter at another, and when
 * another node serves a lock, its line moves there.
 */
#define TEST_FIXTURE struct fixture *t

#include <stdlib.h>
#include <string.h>

#include "tests/unit/fake_cluster.h"
#include "tests/unit/fake_line.h"
#include "tests/unit/testing.h"

struct fixture {
	struct fake_line f; /* the waiters at the first node */
	struct fake_cluster c;
};

static struct subscriber *subscriber_a(struct fixture *t)
{
	return t->f.redis.node.subscriber;
}

static struct subscriber *subscriber_b(struct fixture *t)
{
	return t->c.b->node.subscriber;
}

static void set_up(struct fixture *t)
{
	fake_redis_init(&t->f.redis);
	fake_cluster_init(&t->c, &t->f.redis);
	t->f.all = waiters_new(&t->f.redis.timers, &t->c.topology, t->f.redis.script_jobs,
	                       &t->f.board, &fake_line_ops);
	fake_redis_subscriber_up(subscriber_a(t));
	fake_redis_subscriber_up(subscriber_b(t));
}

static void tear_down(struct fixture *t)
{
	script_jobs_stop(t->f.redis.script_jobs);
	fake_redis_break(&t->f.redis);
	fake_redis_break(t->c.b);
	assert_int_equal(t->f.board.total, 0);
	waiters_free(t->f.all);
	fake_cluster_fini(&t->c);
	fake_redis_fini(&t->f.redis);
}

STRUCT_FIXTURE(set_up, tear_down);

/* Node b's next call is a probe for `c`; the node answers. */
static void b_answers(struct fixture *t, const char *reply)
{
	(void)fake_redis_next(t->c.b, SCRIPT_POLL);
	fake_redis_answer(t->c.b, reply);
}

#define QUEUED_LONG "*3\r\n$6\r\nqueued\r\n:60000\r\n:0\r\n"

/* Queues a client for `key`, a lock at node b whose lease is long. */
static struct client *client_at_b(struct fixture *t, const char *key, int place)
{
	struct client *c = client_in_line(&t->f, key, place);

	fake_redis_advance(&t->f.redis, 0.03);
	if (fake_redis_ncalls(t->c.b))
		b_answers(t, QUEUED_LONG);
	return c;
}

static enum try_readiness readiness(struct client *c, const char *key)
{
	return waiter_ready(c->waiter, slice_str(key));
}

/* --- a node that is away ------------------------------------------------------------------ */

TEST(who_waits_anywhere_listens_everywhere)
{
	struct client *c = client_come(&t->f);

	assert_false(subscriber_was_opened(subscriber_b(t)));
	assert_int_equal(readiness(c, "a1"), TRY_READY);
	assert_true(subscriber_was_opened(subscriber_a(t)));
	assert_true(subscriber_was_opened(subscriber_b(t)));
	client_leave(c);
}

TEST(scripts_see_by_its_number_that_a_worker_listens_to_several)
{
	assert_int_equal(waiters_ticket(t->f.all).p[0], 'n');
}

TEST(only_the_node_of_the_lock_has_to_be_heard)
{
	struct client *a = client_come(&t->f), *b = client_come(&t->f);

	fake_redis_subscriber_down(subscriber_b(t));
	assert_int_equal(readiness(a, "a1"), TRY_READY);
	assert_int_equal(readiness(b, "b1"), TRY_NOT_YET);
	fake_redis_subscriber_up(subscriber_a(t));
	assert_string_equal(client_told(b), "");
	fake_redis_subscriber_up(subscriber_b(t));
	assert_string_equal(client_told(b), "ready");
	client_leave(a);
	client_leave(b);
}

TEST(what_a_node_refuses_concerns_its_locks)
{
	struct client *a = client_come(&t->f), *b = client_come(&t->f);

	fake_redis_subscriber_failed(subscriber_b(t), "NOPERM");
	assert_int_equal(readiness(a, "a1"), TRY_READY);
	assert_int_equal(readiness(b, "b1"), TRY_REFUSED);
	assert_string_equal(waiter_refusal(b->waiter), "NOPERM");
	client_leave(a);
	client_leave(b);
}

TEST(newcomers_wait_for_the_places_at_their_own_node)
{
	struct client *b = client_at_b(t, "b1", 5), *to_a = client_come(&t->f),
		      *to_b = client_come(&t->f);

	fake_redis_subscriber_down(subscriber_b(t));
	fake_redis_subscriber_up(subscriber_b(t));
	expect_quiet(&t->f);
	assert_int_equal(readiness(to_a, "a1"), TRY_READY);
	assert_int_equal(readiness(to_b, "b2"), TRY_NOT_YET);
	b_answers(t, QUEUED_LONG);
	fake_redis_subscriber_up(subscriber_a(t));
	assert_int_equal(fake_redis_ncalls(t->c.b), 0);
	fake_redis_advance(&t->f.redis, 0);
	assert_string_equal(client_told(to_b), "ready");
	client_leave(b);
	client_leave(to_a);
	client_leave(to_b);
}

/* --- a lock that moves -------------------------------------------------------------------- */

static void move(struct fixture *t, const char *key)
{
	t->c.moved = key;
	waiters_rerouted(t->f.all);
}

TEST(a_line_whose_lock_moves_asks_for_its_places_at_the_new_node)
{
	struct client *one = client_at_b(t, "b1", 5), *two = client_at_b(t, "b1", 6),
		      *stays = client_at_b(t, "b2", 7), *newcomer = client_come(&t->f);

	move(t, "b1");
	assert_int_equal(fake_redis_ncalls(t->c.b), 0);
	assert_int_equal(readiness(newcomer, "b1"), TRY_NOT_YET);
	(void)expect_probe(&t->f, one);
	answer_queued(&t->f, 60000);
	(void)expect_probe(&t->f, two);
	answer_queued(&t->f, 60000);
	expect_quiet(&t->f);
	fake_redis_advance(&t->f.redis, 0);
	assert_string_equal(client_told(newcomer), "ready");
	assert_string_equal(client_told(one), "");
	client_leave(one);
	client_leave(two);
	client_leave(stays);
	client_leave(newcomer);
}

TEST(who_has_no_place_at_the_new_node_takes_its_old_one)
{
	struct client *one = client_at_b(t, "b1", 5), *two = client_at_b(t, "b1", 6),
		      *newcomer = client_come(&t->f);

	move(t, "b1");
	(void)expect_probe(&t->f, one);
	answer_gone(&t->f);
	(void)expect_probe(&t->f, two);
	answer_gone(&t->f);
	assert_string_equal(client_told(one), "lost");
	assert_string_equal(client_told(two), "lost");
	assert_int_equal(readiness(newcomer, "b1"), TRY_NOT_YET);
	assert_int_equal(waiter_place(one->waiter), 5);
	assert_int_equal(readiness(two, "b1"), TRY_READY);
	assert_int_equal(readiness(one, "b1"), TRY_READY);
	waiter_sent(two->waiter, waiters_ticket(t->f.all));
	waiter_sent(one->waiter, waiters_ticket(t->f.all));
	client_queued(two, "b1", 6);
	fake_redis_advance(&t->f.redis, 0);
	assert_string_equal(client_told(newcomer), "");
	client_queued(one, "b1", 5);
	fake_redis_advance(&t->f.redis, 0);
	assert_string_equal(client_told(newcomer), "ready");
	client_leave(one);
	client_leave(two);
	client_leave(newcomer);
}

TEST(a_grant_is_heard_by_whichever_node)
{
	struct client *c = client_in_line(&t->f, "key", 5);

	assert_ptr_equal(c->waiter->at->node, &t->c.b->node);
	c->waiter->at = queue_node_of(t->f.all, SLICE_LIT("a"));
	client_notify(c, 10);
	assert_string_equal(client_told(c), "granted");
	client_leave(c);
}

TEST(redissons_channel_is_heard_where_the_lock_is)
{
	struct client *c = client_at_b(t, "b1", 5);

	assert_string_equal(fake_redis_channels(subscriber_a(t)), "");
	assert_string_equal(fake_redis_channels(subscriber_b(t)),
	                    "+redisson_lock__channel:{b1} s+redisson_lock__channel:{b1} ");
	move(t, "b1");
	assert_string_equal(fake_redis_channels(subscriber_a(t)),
	                    "+redisson_lock__channel:{b1} s+redisson_lock__channel:{b1} ");
	assert_string_equal(fake_redis_channels(subscriber_b(t)),
	                    "-redisson_lock__channel:{b1} s-redisson_lock__channel:{b1} ");
	client_leave(c);
}

/* --- nodes that go ------------------------------------------------------------------------ */

TEST(while_nobody_serves_a_lock_no_try_is_sent)
{
	struct client *c = client_come(&t->f);

	t->c.b_is_gone = true;
	assert_int_equal(readiness(c, "b1"), TRY_NOT_YET);
	fake_redis_advance(&t->f.redis, 1);
	assert_string_equal(client_told(c), "");
	move(t, "b1");
	assert_string_equal(client_told(c), "ready");
	assert_int_equal(readiness(c, "b1"), TRY_READY);
	client_leave(c);
}

/* The attempt may be delayed on its way to a node, and so may the owner's reaction. */
TEST(whose_time_is_over_before_the_try_is_answered_is_told_until_it_is)
{
	struct client *c = client_come(&t->f);

	assert_int_equal(readiness(c, "b1"), TRY_READY);
	client_send(c);
	fake_redis_advance(&t->f.redis, WAIT_MS / 1000.0 - 0.01);
	assert_string_equal(client_told(c), "");
	fake_redis_advance(&t->f.redis, 0.02);
	assert_string_equal(client_told(c), "overdue");
	fake_redis_advance(&t->f.redis, 0.1);
	assert_string_equal(client_told(c), "overdue");
	client_queued(c, "b1", 1);
	fake_redis_advance(&t->f.redis, 0.1);
	assert_string_equal(client_told(c), "timed out");
	fake_redis_advance(&t->f.redis, 0.1);
	assert_string_equal(client_told(c), "");
	client_leave(c);
}

/* The client lost the lock before hasp could report it, and its time to wait was over. */
TEST(what_is_sent_again_then_is_watched_too)
{
	struct client *c = client_come(&t->f);

	assert_int_equal(readiness(c, "a1"), TRY_READY);
	client_send(c);
	fake_redis_advance(&t->f.redis, WAIT_MS / 1000.0 - 0.01);
	client_answered_late(c, "a1");
	fake_redis_advance(&t->f.redis, 0.1);
	assert_string_equal(client_told(c), "");
	answer_gone(&t->f);
	assert_string_equal(client_told(c), "lost");
	client_send(c);
	fake_redis_advance(&t->f.redis, 0.1);
	assert_string_equal(client_told(c), "overdue");
	client_leave(c);
}

TEST(who_could_not_be_sent_in_time_is_told_too)
{
	struct client *c = client_come(&t->f);

	fake_redis_subscriber_down(subscriber_b(t));
	assert_int_equal(readiness(c, "b1"), TRY_NOT_YET);
	fake_redis_advance(&t->f.redis, WAIT_MS / 1000.0 + 0.01);
	assert_string_equal(client_told(c), "ready");
	fake_redis_advance(&t->f.redis, 0.1);
	assert_string_equal(client_told(c), "overdue");
	client_leave(c);
}

TEST(a_node_that_comes_is_listened_to)
{
	struct client *c = client_come(&t->f);
	struct node third = { 0 };

	assert_int_equal(readiness(c, "a1"), TRY_READY);
	waiters_listen_at(t->f.all, &third);
	assert_true(subscriber_was_opened(third.subscriber));
	client_leave(c);
	subscriber_free(third.subscriber);
}

TEST(a_try_for_a_node_that_is_no_more_is_sent_to_its_successor)
{
	struct client *c = client_come(&t->f);

	fake_redis_subscriber_down(subscriber_b(t));
	assert_int_equal(readiness(c, "b1"), TRY_NOT_YET);
	t->c.b_is_gone = true;
	t->c.moved = "b1";
	waiters_forget(t->f.all, &t->c.b->node);
	assert_string_equal(client_told(c), "ready");
	assert_null(queue_node_find(t->f.all, &t->c.b->node));
	assert_null(t->c.b->node.subscriber);
	/* hasp need not send the attempt in vain, as it does when it cannot reach Redis. */
	assert_false(c->waiter->unheard);
	assert_int_equal(readiness(c, "b1"), TRY_READY);
	client_leave(c);
}

TEST(a_node_that_goes_takes_its_timer_along)
{
	struct client *b = client_at_b(t, "b1", 5), *newcomer = client_come(&t->f);
	size_t ntimers;

	fake_redis_subscriber_down(subscriber_b(t));
	fake_redis_subscriber_up(subscriber_b(t));
	assert_int_equal(readiness(newcomer, "b2"), TRY_NOT_YET);
	b_answers(t, QUEUED_LONG);
	move(t, "b1");
	answer_queued(&t->f, 60000);
	ntimers = t->f.redis.timers.n;
	t->c.b_is_gone = true;
	waiters_forget(t->f.all, &t->c.b->node);
	assert_int_equal(t->f.redis.timers.n, ntimers - 1);
	client_leave(b);
	client_leave(newcomer);
}
