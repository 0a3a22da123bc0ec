/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A connection is tried again at once, soon or late, by what became of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "upstream/retry.h"

#define SOON 0.02

static void on_retry(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	(void)loop;
	(void)t;
	(void)revents;
}

static int setup(void **state)
{
	struct retry *r = malloc(sizeof(*r));

	assert_non_null(r);
	retry_init(r, ev_loop_new(EVFLAG_AUTO), SOON, on_retry, NULL);
	*state = r;
	return 0;
}

static int teardown(void **state)
{
	struct retry *r = *state;

	retry_stop(r);
	ev_loop_destroy(r->loop);
	free(r);
	return 0;
}

/* The loop's time goes on by at least so much. */
static void pass(struct retry *r, double seconds)
{
	struct timespec pause = { .tv_nsec = (long)(seconds * 1e9) };

	assert_int_equal(nanosleep(&pause, NULL), 0);
	ev_now_update(r->loop);
}

static void assert_next_in(struct retry *r, double seconds)
{
	assert_true(ev_is_active(&r->timer));
	assert_int_equal((int)(ev_timer_remaining(r->loop, &r->timer) * 1000 + 0.5),
	                 (int)(seconds * 1000 + 0.5));
}

static void assert_again_in(struct retry *r, enum link_end end, double seconds)
{
	retry_later(r, end);
	assert_next_in(r, seconds);
}

static void what_had_worked_for_a_while_is_tried_at_once(void **state)
{
	retry_worked(*state);
	pass(*state, 2 * SOON);
	assert_again_in(*state, LINK_BROKEN, 0);
}

static void what_fails_again_at_once_waits(void **state)
{
	retry_worked(*state);
	pass(*state, 2 * SOON);
	retry_later(*state, LINK_BROKEN);
	assert_again_in(*state, LINK_UNREACHABLE, SOON);
	assert_again_in(*state, LINK_UNREACHABLE, 2 * SOON);
}

static void whoever_hangs_up_on_us_each_time_is_not_called_without_end(void **state)
{
	for (int i = 0; i < 3; i++) {
		retry_worked(*state);
		assert_again_in(*state, LINK_BROKEN, SOON);
	}
}

static void what_never_worked_waits(void **state)
{
	pass(*state, 2 * SOON);
	assert_again_in(*state, LINK_BROKEN, SOON);
}

static void nobody_who_waits_is_deaf_for_longer_than_a_second(void **state)
{
	for (int i = 0; i < 20; i++)
		retry_later(*state, LINK_UNREACHABLE);
	assert_again_in(*state, LINK_UNREACHABLE, 1);
	assert_again_in(*state, LINK_BROKEN, 1);
}

static void who_is_refused_asks_ever_more_seldom(void **state)
{
	for (int i = 0; i < 20; i++)
		retry_later(*state, LINK_REFUSED);
	assert_again_in(*state, LINK_REFUSED, 5);
}

static void another_address_is_tried_at_once_and_soon_again(void **state)
{
	struct retry *r = *state;

	for (int i = 0; i < 20; i++)
		retry_later(r, LINK_UNREACHABLE);
	retry_restart(r);
	assert_next_in(r, 0);
	assert_again_in(r, LINK_UNREACHABLE, SOON);
}

static void who_was_not_reached_is_tried_at_once_when_it_is_there(void **state)
{
	struct retry *r = *state;

	retry_later(r, LINK_REFUSED);
	retry_now(r);
	assert_next_in(r, SOON);
	retry_later(r, LINK_UNREACHABLE);
	retry_now(r);
	assert_next_in(r, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_had_worked_for_a_while_is_tried_at_once),
		TEST(what_fails_again_at_once_waits),
		TEST(whoever_hangs_up_on_us_each_time_is_not_called_without_end),
		TEST(what_never_worked_waits),
		TEST(nobody_who_waits_is_deaf_for_longer_than_a_second),
		TEST(who_is_refused_asks_ever_more_seldom),
		TEST(another_address_is_tried_at_once_and_soon_again),
		TEST(who_was_not_reached_is_tried_at_once_when_it_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
