/* SPDX-License-Identifier: BSD-3-Clause
 *
 * timers: a clock, and functions that run when the clock reaches a certain time. They use no
 * event loop and never sleep: their owner asks when the first timer is due, and runs those that
 * are due.
 *
 *   net/loop_timers (a libev loop and the machine's clock), or a unit test (a clock of its own)
 *         |                        ^
 *   timers_first(), timers_run()   | on_earlier()
 *         v                        |
 *   struct timers <-- timers_now(), timer_start(), timer_stop() -- lock/
 *
 * A heap of pointers, the earliest first: a timer that is due after all others, as those of
 * leases mostly are, costs one comparison. Times are seconds of the clock, not of the day.
 */
#ifndef HASP_BASE_TIMERS_H
#define HASP_BASE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer;

/* `now`: the time for which timers_run() was called. The timer may be started again, and its
 * memory may be freed. */
typedef void timer_fn(struct timer *t, double now);

/* Embedded in what it is for. All zero: a timer that does not run. */
struct timer {
	timer_fn *fn;
	double at; /* when it is due */
	float every; /* seconds from one time to the next; 0: it is due only once */
	uint32_t slot; /* in timers.heap; 0: it does not run */
};

struct timers {
	double (*clock)(void *arg); /* seconds; never goes back */
	/* A timer was started that is due first of all, at `at`. NULL: not needed. */
	void (*on_earlier)(void *arg, double at);
	void *arg; /* of both */
	struct timer **heap; /* from 1 to n */
	uint32_t n, size;
};

/* The memory of the timers that still run is not touched. */
void timers_fini(struct timers *ts);

static inline double timers_now(const struct timers *ts)
{
	return ts->clock(ts->arg);
}

/* Runs `fn` at the time `at`, or as soon as possible if that is over; then every `every`
 * seconds, if that is not 0. A timer that runs is started again. */
void timer_start(struct timers *ts, struct timer *t, timer_fn *fn, double at, double every);
/* Harmless when it does not run. */
void timer_stop(struct timers *ts, struct timer *t);

static inline bool timer_is_running(const struct timer *t)
{
	return t->slot != 0;
}

/* When the first timer is due; INFINITY: none runs. */
double timers_first(const struct timers *ts);
/* Runs all timers that are due at `now`, in the order of their times. Not from a timer_fn. */
void timers_run(struct timers *ts, double now);

#endif
