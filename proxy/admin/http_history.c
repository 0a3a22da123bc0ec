/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/http_internal.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "lock/events/stats.h"
#include "net/loop_timers.h"
#include "worker/worker_metrics.h"

/* Together five minutes. */
#define STEP_SECONDS 2
#define SAMPLES 151

/* Totals, which only rise. */
enum total {
	TOTAL_COMMANDS,
	TOTAL_ACQUIRED,
	TOTAL_REFUSED, /* tries, writes and updates */
	TOTAL_WAITED,
	TOTAL_LOST,
	TOTAL_WAITS, /* waits that have ended */
	TOTAL_WAITED_US, /* sum of their lengths, in microseconds */
};
#define TOTALS (TOTAL_WAITED_US + 1)

struct sample {
	double at; /* time of the clock, in seconds */
	long clients;
	uint64_t held, waiting; /* locks held, clients waiting in line */
	uint64_t totals[TOTALS]; /* by enum total */
};

struct http_history {
	struct worker_shared *shared;
	struct loop_timer timer;
	pthread_mutex_t lock; /* protects the fields below */
	size_t n; /* samples so far, of which the last SAMPLES are kept */
	struct sample samples[SAMPLES]; /* sample i at i % SAMPLES */
};

/* --- taking samples ----------------------------------------------------------------------- */

void http_history_sample(struct http_history *h, double now)
{
	struct sample s = { .at = now, .clients = atomic_load(&h->shared->clients) };
	struct stats_sums all = stats_total(h->shared->stats);
	struct worker_counts counts;

	workers_count(h->shared, &counts);
	for (size_t i = 0; i < COMMAND_OUTCOMES; i++)
		s.totals[TOTAL_COMMANDS] += counts.commands[i];
	s.held = all.now[STAT_HELD];
	s.waiting = all.now[STAT_WAITERS];
	s.totals[TOTAL_ACQUIRED] = all.n[STAT_ACQUIRED];
	s.totals[TOTAL_REFUSED] = all.n[STAT_REFUSED] + all.n[STAT_WRITES_REFUSED] +
	                          all.n[STAT_UPDATES_REFUSED] + all.n[STAT_TIMED_OUT];
	s.totals[TOTAL_WAITED] = all.n[STAT_WAITED];
	s.totals[TOTAL_LOST] = all.n[STAT_LOST];
	for (size_t i = 0; i < METRICS_BUCKETS; i++)
		s.totals[TOTAL_WAITS] += all.waited.n[i];
	s.totals[TOTAL_WAITED_US] = all.waited.total_us;
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

static double per_second(const struct sample *before, const struct sample *s, enum total what)
{
	return (double)(s->totals[what] - before->totals[what]) / (s->at - before->at);
}

/* Returns the mean length of the waits that ended between the samples, in ms; NAN: none. */
static double mean_wait(const struct sample *before, const struct sample *s)
{
	uint64_t n = s->totals[TOTAL_WAITS] - before->totals[TOTAL_WAITS];
	uint64_t us = s->totals[TOTAL_WAITED_US] - before->totals[TOTAL_WAITED_US];

	return n ? (double)us / (double)n / 1000 : NAN;
}

/* The series of the history; each value compares two consecutive samples. */
enum series {
	SERIES_AGE,
	SERIES_CLIENTS,
	SERIES_HELD,
	SERIES_WAITING,
	SERIES_COMMANDS,
	SERIES_ACQUIRED,
	SERIES_REFUSED,
	SERIES_WAITED,
	SERIES_LOST,
	SERIES_WAIT
};

static const struct {
	const char *name;
	int digits;
} series[] = {
	[SERIES_HELD] = { "held", 0 },         [SERIES_WAITING] = { "waiting", 0 },
	[SERIES_COMMANDS] = { "commands", 1 }, [SERIES_AGE] = { "age_s", 1 },
	[SERIES_CLIENTS] = { "clients", 0 },   [SERIES_ACQUIRED] = { "acquired", 1 },
	[SERIES_REFUSED] = { "refused", 1 },   [SERIES_WAITED] = { "waited", 1 },
	[SERIES_LOST] = { "lost", 1 },         [SERIES_WAIT] = { "mean_wait_ms", 1 },
};

static double value_of(enum series what, const struct sample *before, const struct sample *s,
                       double now)
{
	switch (what) {
	case SERIES_AGE:
		return now - s->at;
	case SERIES_CLIENTS:
		return (double)s->clients;
	case SERIES_HELD:
		return (double)s->held;
	case SERIES_WAITING:
		return (double)s->waiting;
	case SERIES_COMMANDS:
		return per_second(before, s, TOTAL_COMMANDS);
	case SERIES_ACQUIRED:
		return per_second(before, s, TOTAL_ACQUIRED);
	case SERIES_REFUSED:
		return per_second(before, s, TOTAL_REFUSED);
	case SERIES_WAITED:
		return per_second(before, s, TOTAL_WAITED);
	case SERIES_LOST:
		return per_second(before, s, TOTAL_LOST);
	default:
		return mean_wait(before, s);
	}
}

void http_history_write(struct http_history *h, double now, struct json *j)
{
	size_t first;

	pthread_mutex_lock(&h->lock);
	first = h->n > SAMPLES ? h->n - SAMPLES : 0;
	json_open(j, "history", '{');
	json_count(j, "step_s", STEP_SECONDS);
	for (size_t what = 0; what < sizeof(series) / sizeof(series[0]); what++) {
		json_open(j, series[what].name, '[');
		for (size_t i = first + 1; i < h->n; i++)
			json_number(j, NULL,
			            value_of((enum series)what, &h->samples[(i - 1) % SAMPLES],
			                     &h->samples[i % SAMPLES], now),
			            series[what].digits);
		json_close(j, ']');
	}
	json_close(j, '}');
	pthread_mutex_unlock(&h->lock);
}
