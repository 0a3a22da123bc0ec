/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of timers: they run at their times and in their order, on a clock that a test moves and
 * on a loop's clock.
 */
#define TEST_FIXTURE struct timers *ts

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/timers.h"
#include "net/loop_timers.h"
#include "tests/unit/testing.h"

#define MANY 1000

struct alarm {
	struct timer timer;
	char name;
	struct timers *timers;
	struct alarm *stops,
		*starts; /* alarms to stop and to start when this one rings; NULL: none */
};

static char rung[MANY + 1];
static size_t nrung;

static void ring(struct timer *t, double now)
{
	struct alarm *a = container_of(t, struct alarm, timer);

	assert_true(now >= t->at || t->every > 0);
	rung[nrung++] = a->name;
	if (a->stops)
		timer_stop(a->timers, &a->stops->timer);
	if (a->starts)
		timer_start(a->timers, &a->starts->timer, ring, now + 1, 0);
}

static int set_up(void **state)
{
	*state = calloc(1, sizeof(struct timers));
	memset(rung, 0, sizeof(rung));
	nrung = 0;
	return 0;
}

static int tear_down(void **state)
{
	timers_fini(*state);
	free(*state);
	return 0;
}

FIXTURE(set_up, tear_down);

static struct alarm alarm_at(struct timers *ts, char name)
{
	return (struct alarm){ .name = name, .timers = ts };
}

TEST(timers_run_in_the_order_of_their_times)
{
	struct alarm a = alarm_at(ts, 'a'), b = alarm_at(ts, 'b'), c = alarm_at(ts, 'c');

	timer_start(ts, &b.timer, ring, 2, 0);
	timer_start(ts, &c.timer, ring, 3, 0);
	timer_start(ts, &a.timer, ring, 1, 0);
	assert_true(timers_first(ts) == 1);
	timers_run(ts, 0.5);
	assert_string_equal(rung, "");
	timers_run(ts, 2);
	assert_string_equal(rung, "ab");
	assert_false(timer_is_running(&a.timer));
	assert_true(timer_is_running(&c.timer));
	assert_true(timers_first(ts) == 3);
	timers_run(ts, 10);
	assert_string_equal(rung, "abc");
	assert_true(isinf(timers_first(ts)));
}

TEST(a_timer_that_was_stopped_does_not_run)
{
	struct alarm a = alarm_at(ts, 'a'), b = alarm_at(ts, 'b');

	timer_stop(ts, &a.timer); /* the timer never ran */
	timer_start(ts, &a.timer, ring, 1, 0);
	timer_start(ts, &b.timer, ring, 2, 0);
	timer_stop(ts, &a.timer);
	timer_stop(ts, &a.timer);
	timers_run(ts, 5);
	assert_string_equal(rung, "b");
}

TEST(a_timer_that_is_started_again_runs_only_at_its_new_time)
{
	struct alarm a = alarm_at(ts, 'a');

	timer_start(ts, &a.timer, ring, 1, 0);
	timer_start(ts, &a.timer, ring, 4, 0);
	timers_run(ts, 2);
	assert_string_equal(rung, "");
	timers_run(ts, 4);
	assert_string_equal(rung, "a");
}

TEST(a_repeated_timer_runs_each_time_until_it_is_stopped)
{
	struct alarm a = alarm_at(ts, 'a');

	timer_start(ts, &a.timer, ring, 1, 2);
	for (double now = 0; now < 6; now++)
		timers_run(ts, now);
	assert_string_equal(rung, "aaa");
	timer_stop(ts, &a.timer);
	timers_run(ts, 20);
	assert_string_equal(rung, "aaa");
}

TEST(what_a_repeated_timer_has_missed_is_not_made_up_for)
{
	struct alarm a = alarm_at(ts, 'a');

	timer_start(ts, &a.timer, ring, 1, 1);
	timers_run(ts, 100.5);
	assert_true(nrung <= 2);
	assert_true(timers_first(ts) > 100.5);
}

TEST(a_timer_may_stop_and_start_others_when_it_runs)
{
	struct alarm a = alarm_at(ts, 'a'), b = alarm_at(ts, 'b'), c = alarm_at(ts, 'c');

	a.stops = &b;
	a.starts = &c;
	timer_start(ts, &a.timer, ring, 1, 0);
	timer_start(ts, &b.timer, ring, 1, 0);
	timers_run(ts, 1);
	assert_string_equal(rung, "a");
	timers_run(ts, 2);
	assert_string_equal(rung, "ac");
}

TEST(of_many_timers_in_any_order_each_runs_in_its_turn)
{
	struct alarm *all = calloc(MANY, sizeof(*all));
	size_t left = 0;
	double last = 0;

	srand(1);
	for (size_t i = 0; i < MANY; i++) {
		all[i] = alarm_at(ts, 'x');
		timer_start(ts, &all[i].timer, ring, rand() % 500, 0);
	}
	for (size_t i = 0; i < MANY; i += 3)
		timer_stop(ts, &all[i].timer);
	for (size_t i = 1; i < MANY; i += 3)
		timer_start(ts, &all[i].timer, ring, rand() % 500, 0);
	while (ts->n) {
		double first = timers_first(ts);
		size_t before = nrung, due = 0;
		assert_true(first >= last);
		for (size_t i = 0; i < MANY; i++)
			due += timer_is_running(&all[i].timer) && all[i].timer.at <= first;
		timers_run(ts, first);
		assert_int_equal(nrung - before, due);
		left += due;
		last = first;
	}
	assert_int_equal(left, MANY - (MANY + 2) / 3);
	free(all);
}

static double earliest;

static void note_earlier(void *arg, double at)
{
	(void)arg;
	earliest = at;
}

TEST(the_owner_is_told_of_a_timer_that_is_due_before_all_others)
{
	struct alarm a = alarm_at(ts, 'a'), b = alarm_at(ts, 'b'), c = alarm_at(ts, 'c');

	ts->on_earlier = note_earlier;
	timer_start(ts, &a.timer, ring, 5, 0);
	assert_true(earliest == 5);
	timer_start(ts, &b.timer, ring, 7, 0);
	assert_true(earliest == 5);
	timer_start(ts, &c.timer, ring, 3, 0);
	assert_true(earliest == 3);
}

/* --- on a loop ---------------------------------------------------------------------- */

TEST(a_loop_runs_its_timers_in_order_and_none_too_early)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);
	struct loop_timers lt;
	struct alarm a = { .name = 'a' }, b = { .name = 'b' }, never = { .name = 'n' };
	double now;

	loop_timers_init(&lt, loop);
	a.timers = b.timers = &lt.timers;
	now = timers_now(&lt.timers);
	timer_start(&lt.timers, &b.timer, ring, now + 0.02, 0);
	timer_start(&lt.timers, &a.timer, ring, now + 0.01, 0);
	timer_start(&lt.timers, &never.timer, ring, now + 0.005, 0);
	timer_stop(&lt.timers, &never.timer);
	/* ev_run() returns when no watcher is left: ring() has checked that none ran too
	 * early. */
	ev_run(loop, 0);
	assert_string_equal(rung, "ab");
	timer_start(&lt.timers, &a.timer, ring, now, 0);
	ev_run(loop, 0);
	assert_string_equal(rung, "aba");
	loop_timers_fini(&lt);
	ev_loop_destroy(loop);
}
