/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/http_internal.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "lock/events/stats.h"
#include "net/loop_timers.h"
#include "worker/worker_metrics.h"

/* A sample every two seconds, for five minutes. */
#define STEP_SECONDS 2
#define SAMPLES 151

enum number {
	NUMBER_AT, /* the time, by clock_now() */
	/* Numbers at the time of the sample: */
	NUMBER_CLIENTS,
	NUMBER_HELD,
	NUMBER_WAITING, /* clients that wait in line */
	/* Totals since hasp started: */
	NUMBER_COMMANDS,
	NUMBER_ACQUIRED,
	NUMBER_REFUSED, /* refused tries, writes and updates; waits that timed out */
	NUMBER_WAITED,
	NUMBER_LOST,
	NUMBER_WAITS, /* waits that have ended */
	NUMBER_WAITED_US, /* sum of the lengths of these waits, in microseconds */
	NUMBERS,
};

struct sample {
	double n[NUMBERS];
};

struct http_history {
	struct worker_shared *shared;
	struct loop_timer timer;
	pthread_mutex_t lock; /* protects the fields below */
	size_t n; /* number of samples so far; the last SAMPLES are kept */
	struct sample samples[SAMPLES]; /* sample i is at i % SAMPLES */
};

/* --- taking samples ----------------------------------------------------------------------- */

void http_history_sample(struct http_history *h, double now)
{
	struct stats_sums all = stats_total(h->shared->stats);
	struct sample s = { .n = {
				    [NUMBER_AT] = now,
				    [NUMBER_CLIENTS] = (double)atomic_load(&h->shared->clients),
				    [NUMBER_HELD] = (double)all.now[STAT_HELD],
				    [NUMBER_WAITING] = (double)all.now[STAT_WAITERS],
				    [NUMBER_ACQUIRED] = (double)all.n[STAT_ACQUIRED],
				    [NUMBER_REFUSED] = (double)(all.n[STAT_REFUSED] +
		                                                all.n[STAT_WRITES_REFUSED] +
		                                                all.n[STAT_UPDATES_REFUSED] +
		                                                all.n[STAT_TIMED_OUT]),
				    [NUMBER_WAITED] = (double)all.n[STAT_WAITED],
				    [NUMBER_LOST] = (double)all.n[STAT_LOST],
				    [NUMBER_WAITED_US] = (double)all.waited.total_us,
			    } };
	struct worker_counts counts;

	workers_count(h->shared, &counts);
	for (size_t i = 0; i < COMMAND_OUTCOMES; i++)
		s.n[NUMBER_COMMANDS] += (double)counts.commands[i];
	for (size_t i = 0; i < METRICS_BUCKETS; i++)
		s.n[NUMBER_WAITS] += (double)all.waited.n[i];
	pthread_mutex_lock(&h->lock);
	h->samples[h->n % SAMPLES] = s;
	h->n++;
	pthread_mutex_unlock(&h->lock);
}

static void on_sample_due(void *arg)
{
	http_history_sample(arg, clock_now());
}

struct http_history *http_history_new(struct worker_shared *shared)
{
	struct http_history *h = xcalloc(1, sizeof(*h));

	h->shared = shared;
	pthread_mutex_init(&h->lock, NULL);
	return h;
}

void http_history_start(struct http_history *h, struct ev_loop *loop)
{
	on_sample_due(h);
	loop_timer_init(&h->timer, loop, on_sample_due, h);
	loop_timer_repeat(&h->timer, STEP_SECONDS);
}

void http_history_free(struct http_history *h)
{
	if (!h)
		return;
	pthread_mutex_destroy(&h->lock);
	free(h);
}

/* --- writing the history ------------------------------------------------------------------ */

/* The series that the history shows: ages, present numbers, totals per second, mean waits. */
static const char *const series[] = {
	[NUMBER_AT] = "age_s",          [NUMBER_CLIENTS] = "clients",
	[NUMBER_HELD] = "held",         [NUMBER_WAITING] = "waiting",
	[NUMBER_COMMANDS] = "commands", [NUMBER_ACQUIRED] = "acquired",
	[NUMBER_REFUSED] = "refused",   [NUMBER_WAITED] = "waited",
	[NUMBER_LOST] = "lost",         [NUMBER_WAITS] = "mean_wait_ms",
};

/* Returns the value of a series from two consecutive samples; NAN: no wait ended between
 * them. */
static double value_of(size_t what, const struct sample *before, const struct sample *s,
                       double now)
{
	double change = s->n[what] - before->n[what];

	if (what == NUMBER_AT)
		return now - s->n[what];
	if (what <= NUMBER_WAITING)
		return s->n[what];
	if (what < NUMBER_WAITS)
		return change / (s->n[NUMBER_AT] - before->n[NUMBER_AT]);
	change = change > 0 ? change : NAN;
	return (s->n[NUMBER_WAITED_US] - before->n[NUMBER_WAITED_US]) / change / 1000;
}

void http_history_write(struct http_history *h, double now, struct json *j)
{
	size_t first;

	pthread_mutex_lock(&h->lock);
	first = h->n > SAMPLES ? h->n - SAMPLES : 0;
	json_open(j, "history", '{');
	json_count(j, "step_s", STEP_SECONDS);
	for (size_t what = 0; what < sizeof(series) / sizeof(series[0]); what++) {
		json_open(j, series[what], '[');
		for (size_t i = first + 1; i < h->n; i++)
			json_number(j, NULL,
			            value_of(what, &h->samples[(i - 1) % SAMPLES],
			                     &h->samples[i % SAMPLES], now),
			            what == NUMBER_AT || what > NUMBER_WAITING);
		json_close(j, ']');
	}
	json_close(j, '}');
	pthread_mutex_unlock(&h->lock);
}
