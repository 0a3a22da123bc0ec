/* SPDX-License-Identifier: BSD-3-Clause
 *
 * timers: a clock, and functions that run when the clock reaches their time. There is no event
 * loop: the owner of the timers asks when the first timer is due, and then runs all that are
 * due.
 *
 *   net/loop_timers (a libev loop and the machine's clock), or a unit test (a clock of its own)
 *         |                        ^
 *   timers_first(), timers_run()   | on_earlier()
 *         v                        |
 *   struct timers <-- timers_now(), timer_start(), timer_stop() -- lock/
 *
 * The timers are in a heap, the earliest first: if a timer is due after all others, as most
 * timers of leases are, its start costs one comparison.
 */
#ifndef HASP_BASE_TIMERS_H
#define HASP_BASE_TIMERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct timer;

/* `now`: the argument of timers_run(). The function may restart the timer, and may free it
 * after timer_stop(). */
typedef void timer_fn(struct timer *t, double now);

/* Embedded in the struct that uses the timer. Initialize it with zeros: it does not run. */
struct timer {
	timer_fn *fn;
	double at; /* when the timer is due */
	float every; /* seconds from one run to the next; 0: the timer runs only once */
	uint32_t slot; /* index in timers.heap; 0: the timer does not run */
};

struct timers {
	double (*clock)(void *arg); /* returns seconds; never goes back */
	/* Called when a timer is started that is due before all others; `at`: when it is due.
	 * May be NULL. */
	void (*on_earlier)(void *arg, double at);
	void *arg; /* argument of both callbacks */
	struct timer **heap; /* entries 1 to n are used */
	uint32_t n, size;
};

/* Frees the heap. Does not touch timers that still run. */
void timers_fini(struct timers *ts);

static inline double timers_now(const struct timers *ts)
{
	return ts->clock(ts->arg);
}

/* Runs `fn` at the time `at`, or in the next timers_run() if `at` has passed; then every
 * `every` seconds, unless `every` is 0. Restarts a timer that is running. */
void timer_start(struct timers *ts, struct timer *t, timer_fn *fn, double at, double every);
/* Stops the timer. Does nothing if it does not run. */
void timer_stop(struct timers *ts, struct timer *t);

static inline bool timer_is_running(const struct timer *t)
{
	return t->slot != 0;
}

/* Returns when the first timer is due; INFINITY: none runs. */
double timers_first(const struct timers *ts);
/* Runs all timers that are due at `now`, in order. A timer_fn must not call it. */
void timers_run(struct timers *ts, double now);

#endif
