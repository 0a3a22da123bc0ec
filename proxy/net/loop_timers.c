/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/loop_timers.h"

#include <math.h>

#include "base/clock.h"
#include "base/list.h"

static double loop_clock(void *arg)
{
	(void)arg;
	return clock_now();
}

static void loop_timers_on_earlier(void *arg, double at)
{
	struct loop_timers *t = arg;
	double left;

	if (at >= t->watches_for)
		return;
	t->watches_for = at;
	left = at - clock_now();
	/* Without this call, libev would count the delay from the start of the loop's turn. */
	ev_now_update(t->loop);
	ev_timer_stop(t->loop, &t->watcher);
	ev_timer_set(&t->watcher, left > 0 ? left : 0, 0);
	ev_timer_start(t->loop, &t->watcher);
}

static void loop_timers_on_watcher(struct ev_loop *loop, struct ev_timer *watcher, int revents)
{
	struct loop_timers *t = watcher->data;

	(void)loop;
	(void)revents;
	t->watches_for = INFINITY;
	timers_run(&t->timers, clock_now());
	loop_timers_on_earlier(t, timers_first(&t->timers));
}

void loop_timers_init(struct loop_timers *t, struct ev_loop *loop)
{
	*t = (struct loop_timers){
		.timers = { .clock = loop_clock,
		            .on_earlier = loop_timers_on_earlier,
		            .arg = t },
		.loop = loop,
		.watches_for = INFINITY,
	};
	ev_timer_init(&t->watcher, loop_timers_on_watcher, 0, 0);
	t->watcher.data = t;
}

void loop_timers_fini(struct loop_timers *t)
{
	ev_timer_stop(t->loop, &t->watcher);
	timers_fini(&t->timers);
}

/* --- a single timer ----------------------------------------------------------------------- */

static void loop_timer_on_watcher(struct ev_loop *loop, struct ev_timer *watcher, int revents)
{
	const struct loop_timer *t = container_of(watcher, struct loop_timer, watcher);

	(void)loop;
	(void)revents;
	t->fn(watcher->data);
}

void loop_timer_init(struct loop_timer *t, struct ev_loop *loop, void (*fn)(void *arg),
                     void *arg)
{
	t->loop = loop;
	t->fn = fn;
	ev_timer_init(&t->watcher, loop_timer_on_watcher, 0, 0);
	t->watcher.data = arg;
}

void loop_timer_start(struct loop_timer *t, double seconds)
{
	ev_timer_stop(t->loop, &t->watcher);
	ev_timer_set(&t->watcher, seconds, 0);
	ev_timer_start(t->loop, &t->watcher);
}

bool loop_timer_is_running(const struct loop_timer *t)
{
	return ev_is_active(&t->watcher);
}

void loop_timer_repeat(struct loop_timer *t, double seconds)
{
	if (loop_timer_is_running(t) && t->watcher.repeat == seconds)
		return;
	ev_timer_stop(t->loop, &t->watcher);
	ev_timer_set(&t->watcher, seconds, seconds);
	if (seconds > 0)
		ev_timer_start(t->loop, &t->watcher);
}

void loop_timer_stop(struct loop_timer *t)
{
	ev_timer_stop(t->loop, &t->watcher);
}
