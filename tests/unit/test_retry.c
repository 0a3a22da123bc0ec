/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the delay before a connection is tried again: none, short or long, depending on how
 * it ended. The test sets the clock.
 */
#include <stdlib.h>

#include "tests/unit/surroundings.h"
#include "tests/unit/testing.h"
#include "upstream/own_conn.h"

#define SOON 0.02

static void pass(double seconds)
{
	now_s += seconds;
}

struct fixture {
	struct link_env env;
	struct retry retry;
	int ntries;
};

static void on_try(void *arg)
{
	struct fixture *f = arg;

	f->ntries++;
}

static void setup(struct fixture *f)
{
	f->env.dialer.loop = ev_loop_new(EVFLAG_AUTO);
	use_test_clock(&f->env);
	retry_init(&f->retry, &f->env, SOON, on_try, f);
}

static void teardown(struct fixture *f)
{
	retry_stop(&f->retry);
	ev_loop_destroy(f->env.dialer.loop);
}

STRUCT_FIXTURE(setup, teardown);

static void assert_next_in(struct fixture *f, double seconds)
{
	double left = ev_timer_remaining(f->env.dialer.loop, &f->retry.timer.watcher);

	assert_true(loop_timer_is_running(&f->retry.timer));
	assert_int_equal((int)(left * 1000 + 0.5), (int)(seconds * 1000 + 0.5));
}

static void assert_again_in(struct fixture *f, enum link_end end, double seconds)
{
	retry_later(&f->retry, end);
	assert_next_in(f, seconds);
}

TEST(what_had_worked_for_a_while_is_tried_at_once)
{
	retry_worked(&f->retry);
	pass(2 * SOON);
	assert_again_in(f, LINK_BROKEN, 0);
}

TEST(what_fails_again_at_once_waits)
{
	retry_worked(&f->retry);
	pass(2 * SOON);
	retry_later(&f->retry, LINK_BROKEN);
	assert_again_in(f, LINK_UNREACHABLE, SOON);
	assert_again_in(f, LINK_UNREACHABLE, 2 * SOON);
}

TEST(a_server_that_closes_each_time_is_not_tried_without_a_pause)
{
	for (int i = 0; i < 3; i++) {
		retry_worked(&f->retry);
		pass(SOON / 2);
		assert_again_in(f, LINK_BROKEN, SOON);
	}
}

TEST(what_never_worked_waits)
{
	pass(2 * SOON);
	assert_again_in(f, LINK_BROKEN, SOON);
}

TEST(a_server_that_is_away_is_tried_every_second)
{
	for (int i = 0; i < 20; i++)
		retry_later(&f->retry, LINK_UNREACHABLE);
	assert_again_in(f, LINK_UNREACHABLE, 1);
	assert_again_in(f, LINK_BROKEN, 1);
}

TEST(a_server_that_refuses_is_tried_every_five_seconds)
{
	for (int i = 0; i < 20; i++)
		retry_later(&f->retry, LINK_REFUSED);
	assert_again_in(f, LINK_REFUSED, 5);
}

TEST(another_address_is_tried_at_once_and_soon_again)
{
	for (int i = 0; i < 20; i++)
		retry_later(&f->retry, LINK_UNREACHABLE);
	retry_restart(&f->retry);
	assert_next_in(f, 0);
	assert_again_in(f, LINK_UNREACHABLE, SOON);
}

TEST(only_a_server_that_was_away_is_tried_at_once_when_it_is_there)
{
	retry_later(&f->retry, LINK_REFUSED);
	retry_now(&f->retry);
	assert_next_in(f, SOON);
	retry_later(&f->retry, LINK_UNREACHABLE);
	retry_now(&f->retry);
	assert_next_in(f, 0);
}

TEST(a_try_that_is_due_is_made_once)
{
	retry_restart(&f->retry);
	retry_restart(&f->retry);
	assert_int_equal(f->ntries, 0);
	for (int i = 0; i < 3; i++)
		ev_run(f->env.dialer.loop, EVRUN_NOWAIT);
	assert_int_equal(f->ntries, 1);
}

TEST(a_try_that_was_stopped_is_not_made)
{
	retry_later(&f->retry, LINK_UNREACHABLE);
	retry_stop(&f->retry);
	assert_false(loop_timer_is_running(&f->retry.timer));
	/* The news that the server is back does not start it either. */
	retry_now(&f->retry);
	assert_false(loop_timer_is_running(&f->retry.timer));
}
