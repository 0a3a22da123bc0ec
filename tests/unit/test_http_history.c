/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the data of the page's graphs. The tests set the times of the samples, and play the
 * workers' counters.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/http_internal.h"
#include "lock/events/stats.h"
#include "tests/unit/testing.h"
#include "worker/worker_metrics.h"

#define START 1000.0
#define STEP 2.0
/* The history covers five minutes. */
#define INTERVALS 150

static struct worker_counts counts;

/* --- in the place of worker_metrics.c ----------------------------------------------------- */

void workers_count(const struct worker_shared *shared, struct worker_counts *c)
{
	(void)shared;
	*c = counts;
}

/* --- the fixture -------------------------------------------------------------------------- */

struct fixture {
	struct worker_shared shared;
	struct section_stats *lock, *guard;
	struct http_history *history;
	struct buf out;
};

static void set_up(struct fixture *f)
{
	counts = (struct worker_counts){ 0 };
	f->shared.stats = stats_new(1);
	f->lock = stats_section(f->shared.stats, STATS_LOCK, "carts", 0);
	f->guard = stats_section(f->shared.stats, STATS_GUARD, "stock", 0);
	f->history = http_history_new(&f->shared);
}

static void tear_down(struct fixture *f)
{
	http_history_free(f->history);
	stats_free(f->shared.stats);
	buf_release(&f->out);
}

STRUCT_FIXTURE(set_up, tear_down);

static const char *written(struct fixture *f, double now)
{
	struct json j = { &f->out, false };

	buf_clear(&f->out);
	json_open(&j, NULL, '{');
	http_history_write(f->history, now, &j);
	json_close(&j, '}');
	*buf_reserve(&f->out, 1) = '\0';
	return buf_head(&f->out);
}

/* Asserts that the member is written as `text`. */
static void assert_written(struct fixture *f, double now, const char *text)
{
	const char *all = written(f, now);

	if (!strstr(all, text))
		fail_msg("no %s in %s", text, all);
}

/* --- tests -------------------------------------------------------------------------------- */

TEST(first_sample_has_nothing_to_compare_with)
{
	static const char empty[] = "{\"history\":{\"step_s\":2,\"age_s\":[],\"clients\":[],"
				    "\"held\":[],\"waiting\":[],\"commands\":[],"
				    "\"acquired\":[],\"refused\":[],\"waited\":[],"
				    "\"lost\":[],\"mean_wait_ms\":[]}}";

	assert_string_equal(written(f, START), empty);
	http_history_sample(f->history, START);
	assert_string_equal(written(f, START), empty);
}

TEST(numbers_of_the_moment_are_written_with_their_age)
{
	http_history_sample(f->history, START);
	f->shared.clients = 7;
	stats_change(f->lock, STAT_HELD, true);
	stats_change(f->lock, STAT_WAITERS, true);
	stats_change(f->guard, STAT_WAITERS, true);
	http_history_sample(f->history, START + STEP);
	assert_written(f, START + STEP + 0.5,
	               "\"age_s\":[0.5],\"clients\":[7],\"held\":[1],"
	               "\"waiting\":[2],");
	f->shared.clients = 6;
	stats_change(f->lock, STAT_HELD, false);
	http_history_sample(f->history, START + 2 * STEP);
	assert_written(f, START + 2 * STEP,
	               "\"age_s\":[2.0,0.0],\"clients\":[7,6],"
	               "\"held\":[1,0],\"waiting\":[2,2],");
}

TEST(totals_are_written_as_rates_per_second)
{
	counts.commands[COMMAND_PASSED] = 1000;
	metrics_count(&f->lock->n[STAT_ACQUIRED], 100);
	http_history_sample(f->history, START);
	counts.commands[COMMAND_PASSED] += 10;
	counts.commands[COMMAND_REFUSED] += 1;
	counts.limits[0] += 100; /* counts no commands */
	metrics_count(&f->lock->n[STAT_ACQUIRED], 3);
	metrics_count(&f->guard->n[STAT_ACQUIRED], 4);
	metrics_count(&f->lock->n[STAT_WAITED], 5);
	metrics_count(&f->lock->n[STAT_LOST], 1);
	http_history_sample(f->history, START + STEP);
	/* The loop was late. */
	http_history_sample(f->history, START + STEP + 4);
	assert_written(f, START,
	               "\"commands\":[5.5,0.0],\"acquired\":[3.5,0.0],"
	               "\"refused\":[0.0,0.0],\"waited\":[2.5,0.0],"
	               "\"lost\":[0.5,0.0],");
	metrics_count(&f->lock->n[STAT_LOST], 6);
	http_history_sample(f->history, START + STEP + 8);
	assert_written(f, START, "\"lost\":[0.5,0.0,1.5],");
}

/* Refusals at once and refusals after a wait count as one rate. */
TEST(all_that_was_refused_is_one_rate)
{
	static const enum stats_field refused[] = { STAT_REFUSED, STAT_WRITES_REFUSED,
		                                    STAT_UPDATES_REFUSED, STAT_TIMED_OUT };

	http_history_sample(f->history, START);
	for (size_t i = 0; i < 4; i++)
		metrics_count(&f->guard->n[refused[i]], 2);
	http_history_sample(f->history, START + STEP);
	assert_written(f, START, "\"refused\":[4.0],\"waited\":[0.0],\"lost\":[0.0]");
}

TEST(mean_wait_is_that_of_the_waits_which_ended_in_between)
{
	stats_waited(f->lock, 100);
	http_history_sample(f->history, START);
	stats_waited(f->lock, 0.01);
	stats_waited(f->guard, 0.04);
	http_history_sample(f->history, START + STEP);
	http_history_sample(f->history, START + 2 * STEP);
	assert_written(f, START, "\"mean_wait_ms\":[25.0,null]");
}

static size_t count_of(const char *text, char c)
{
	size_t n = 0;

	for (; *text; text++)
		n += *text == c;
	return n;
}

TEST(last_five_minutes_are_kept_and_no_more)
{
	double now = START;
	const char *clients;
	char *end;

	for (int i = 0; i <= 3 * INTERVALS; i++) {
		f->shared.clients = i;
		http_history_sample(f->history, now);
		now += STEP;
	}
	clients = strstr(written(f, now), "\"clients\":[");
	end = strchr(clients, ']');
	*end = '\0';
	assert_int_equal(count_of(clients, ',') + 1, INTERVALS);
	assert_int_equal(strtol(clients + strlen("\"clients\":["), NULL, 10),
	                 2 * INTERVALS + 1);
	assert_int_equal(strtol(strrchr(clients, ',') + 1, NULL, 10), 3 * INTERVALS);
}

TEST(sample_is_taken_when_the_history_starts)
{
	struct ev_loop *loop = ev_loop_new(EVFLAG_AUTO);

	http_history_sample(f->history, 0);
	f->shared.clients = 3;
	http_history_start(f->history, loop);
	ev_loop_destroy(loop);
	assert_written(f, START, "\"clients\":[3]");
}
