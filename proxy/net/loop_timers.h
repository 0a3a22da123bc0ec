/* SPDX-License-Identifier: BSD-3-Clause
 *
 * loop_timers: timers on a libev loop, by the machine's clock. A struct loop_timer is a single
 * timer. A struct loop_timers runs the timers of base/timers.h by one timer of the loop, which
 * fires when the earliest is due. Stopping a timer, or starting one that is not the earliest,
 * does not change the loop's timer, so most locks come and go without touching the loop.
 */
#ifndef HASP_NET_LOOP_TIMERS_H
#define HASP_NET_LOOP_TIMERS_H

#include <ev.h>
#include <stdbool.h>

#include "base/timers.h"

/* A single timer of a loop, for users that have few. */
struct loop_timer {
	struct ev_timer watcher;
	struct ev_loop *loop;
	void (*fn)(void *arg);
};

/* `fn` may free the timer. */
void loop_timer_init(struct loop_timer *t, struct ev_loop *loop, void (*fn)(void *arg),
                     void *arg);
/* Runs `fn` once, `seconds` from now; this replaces an earlier start. */
void loop_timer_start(struct loop_timer *t, double seconds);
/* Runs `fn` every `seconds`; 0: never. Does nothing if the timer already runs with that
 * period. */
void loop_timer_repeat(struct loop_timer *t, double seconds);
/* Stops the timer. Does nothing if it does not run. */
void loop_timer_stop(struct loop_timer *t);
bool loop_timer_is_running(const struct loop_timer *t);

struct loop_timers {
	struct timers timers;
	struct ev_loop *loop;
	struct ev_timer watcher;
	double watches_for; /* clock_now() when the watcher fires; INFINITY: it does not run */
};

/* The struct must not move in memory until loop_timers_fini(). */
void loop_timers_init(struct loop_timers *t, struct ev_loop *loop);
void loop_timers_fini(struct loop_timers *t);

#endif
