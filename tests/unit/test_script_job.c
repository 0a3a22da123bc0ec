/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lock/scripts/script_job.c: hasp's own call is repeated until Redis has answered, or
 * until it is too late.
 */
#define TEST_FIXTURE struct fake_redis *f

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "lock/scripts/script_call.h"
#include "resp/write.h"
#include "tests/unit/fake_cluster.h"
#include "tests/unit/fake_redis.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/testing.h"

#define ANY SCRIPT_RELEASE

/* Arguments of the job's callback. */
struct outcome {
	unsigned n;
	char text[32]; /* "none": the callback got NULL */
};

static void on_done(void *arg, const redisReply *reply)
{
	struct outcome *o = arg;

	o->n++;
	if (!reply)
		strcpy(o->text, "none");
	else if (reply->type == REDIS_REPLY_INTEGER)
		snprintf(o->text, sizeof(o->text), "%lld", reply->integer);
	else
		snprintf(o->text, sizeof(o->text), "%s", reply->str);
}

static int set_up(void **state)
{
	struct fake_redis *f = malloc(sizeof(*f));

	fake_redis_init(f);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	fake_redis_fini(*state);
	free(*state);
	return 0;
}

FIXTURE(set_up, tear_down);

static void write_call(struct buf *out, const char *key)
{
	struct rewrite_opts opts = { .eval = false };

	script_call_begin(out, ANY, &opts, 1, 0);
	resp_write_bulk_str(out, key);
}

static void run_about(struct fake_redis *f, const char *key, double until, struct outcome *o)
{
	struct job_call call = script_jobs_call(f->script_jobs, 3);

	call.script = ANY;
	write_call(&call.bytes, key);
	script_job_run(&call, until, on_done, o);
}

static void run(struct fake_redis *f, double until, struct outcome *o)
{
	run_about(f, "key", until, o);
}

TEST(a_job_is_sent_at_once_and_gets_the_answer)
{
	struct outcome o = { 0 };

	run(f, 0, &o);
	assert_int_equal(fake_redis_next(f, ANY).db, 3);
	assert_string_equal(fake_redis_next(f, ANY).args, " key");
	assert_true(script_jobs_are_done(f->script_jobs));
	fake_redis_answer(f, ":7\r\n");
	assert_int_equal(o.n, 1);
	assert_string_equal(o.text, "7");
}

TEST(a_script_that_redis_does_not_know_is_sent_as_text)
{
	struct outcome o = { 0 };

	run(f, 0, &o);
	assert_false(fake_redis_next(f, ANY).eval);
	fake_redis_answer(f, "-NOSCRIPT No matching script.\r\n");
	assert_int_equal(o.n, 0);
	assert_true(fake_redis_next(f, ANY).eval);
	assert_string_equal(fake_redis_next(f, ANY).args, " key");
	fake_redis_answer(f, "-NOSCRIPT again\r\n");
	assert_string_equal(o.text, "NOSCRIPT again");
}

TEST(the_text_of_a_script_is_sent_once_for_all_that_are_in_flight)
{
	struct outcome o = { 0 };

	for (int i = 0; i < 3; i++)
		run(f, 0, &o);
	for (int i = 0; i < 3; i++)
		fake_redis_answer(f, "-NOSCRIPT No matching script.\r\n");
	assert_true(fake_redis_next(f, ANY).eval);
	fake_redis_answer(f, ":1\r\n");
	/* The scripts were flushed once more. */
	for (int i = 0; i < 2; i++) {
		assert_false(fake_redis_next(f, ANY).eval);
		fake_redis_answer(f, "-NOSCRIPT No matching script.\r\n");
	}
	assert_true(fake_redis_next(f, ANY).eval);
	fake_redis_answer(f, ":1\r\n");
	assert_false(fake_redis_next(f, ANY).eval);
	assert_string_equal(fake_redis_next(f, ANY).args, " key");
	fake_redis_answer(f, ":1\r\n");
	assert_int_equal(o.n, 3);
}

TEST(an_error_of_the_script_is_an_answer)
{
	struct outcome o = { 0 };

	run(f, f->now + 60, &o);
	fake_redis_answer(f, "-WRONGTYPE no\r\n");
	assert_string_equal(o.text, "WRONGTYPE no");
}

TEST(a_job_that_redis_cannot_run_for_now_is_run_again)
{
	static const char *const errors[] = { "-LOADING a\r\n",    "-BUSY b\r\n",
		                              "-MASTERDOWN c\r\n", "-READONLY d\r\n",
		                              "-NOREPLICAS e\r\n", "-OOM f\r\n",
		                              "-MISCONF g\r\n" };
	struct outcome o = { 0 };

	run(f, f->now + 60, &o);
	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++) {
		fake_redis_answer(f, errors[i]);
		assert_int_equal(fake_redis_ncalls(f), 0);
		assert_false(script_jobs_are_done(f->script_jobs));
		fake_redis_advance(f, 0.6);
		assert_int_equal(fake_redis_ncalls(f), 1);
	}
	fake_redis_answer(f, ":1\r\n");
	assert_int_equal(o.n, 1);
	assert_string_equal(o.text, "1");
}

TEST(a_job_without_a_connection_is_run_when_redis_is_back)
{
	struct outcome o = { 0 };

	fake_redis_break(f);
	assert_false(script_jobs_are_up(f->script_jobs, SLICE_LIT("key")));
	run(f, f->now + 60, &o);
	fake_redis_advance(f, 5);
	assert_int_equal(o.n, 0);
	fake_redis_repair(f);
	fake_redis_answer(f, ":1\r\n");
	assert_string_equal(o.text, "1");
	fake_redis_advance(f, 1);
	assert_int_equal(f->timers.n, 0);
}

TEST(a_job_whose_answer_was_lost_is_run_again)
{
	struct outcome o = { 0 };

	run(f, f->now + 60, &o);
	fake_redis_break(f);
	assert_int_equal(o.n, 0);
	fake_redis_repair(f);
	fake_redis_answer(f, ":1\r\n");
	assert_string_equal(o.text, "1");
}

TEST(a_job_whose_time_is_over_is_given_up)
{
	struct outcome o = { 0 }, never_again = { 0 };

	fake_redis_break(f);
	run(f, 0, &never_again);
	assert_string_equal(never_again.text, "none");
	run(f, f->now + 2, &o);
	fake_redis_advance(f, 1.9);
	assert_int_equal(o.n, 0);
	fake_redis_advance(f, 0.7);
	assert_int_equal(o.n, 1);
	assert_string_equal(o.text, "none");
}

/* covers: script_job_given_up */
TEST(jobs_that_take_too_much_memory_are_given_up)
{
	static struct outcome few, many,
		later; /* static, because some jobs wait until the test ends */

	log_fixture_open();
	log_set_level(LOG_SEV_WARNING);
	fake_redis_break(f);
	script_jobs_set_max(f->script_jobs, 64 * 1024);
	run(f, f->now + 60, &few);
	for (int i = 0; i < 1000; i++)
		run(f, f->now + 60, &many);
	assert_int_equal(few.n, 0);
	assert_true(many.n > 500 && many.n < 1000);
	assert_logged("script_job_given_up queued_bytes=");
	log_fixture_close();
	log_set_level(LOG_SEV_ERROR);
	assert_string_equal(many.text, "none");
	fake_redis_advance(f, 61);
	assert_int_equal(many.n, 1000);
	run(f, f->now + 60, &later);
	assert_int_equal(later.n, 0);
}

/* Each loop iteration runs some of the jobs, until all have run. */
TEST(many_jobs_do_not_run_all_at_once)
{
	static struct outcome o; /* static, because the jobs are answered at the end */
	const size_t n = 5000;
	size_t first;

	fake_redis_break(f);
	for (size_t i = 0; i < n; i++)
		run(f, f->now + 60, &o);
	fake_redis_repair(f);
	first = fake_redis_ncalls(f);
	assert_true(first > 0 && first < n / 2);
	for (int i = 0; i < 10; i++)
		fake_redis_advance(f, 0.01);
	assert_int_equal(fake_redis_ncalls(f), n);
	assert_true(script_jobs_are_done(f->script_jobs));
}

static void repeat(struct fake_redis *f, double sent, double until)
{
	struct job_call call = script_jobs_call(f->script_jobs, 0);

	call.script = ANY;
	write_call(&call.bytes, "key");
	script_job_repeat(&call, 0, sent, until);
}

/* Returns when the job runs in the next `seconds`, counted from `f->now`; each call gets the
 * answer. */
static const char *times_of_calls(struct fake_redis *f, double seconds, const char *answer)
{
	static char out[128];
	double begin = f->now;
	int n = 0;

	out[0] = 0;
	for (; f->now <= begin + seconds; fake_redis_advance(f, 0.25)) {
		if (!fake_redis_ncalls(f))
			continue;
		n += snprintf(out + n, sizeof(out) - (size_t)n, "%.1f ", f->now - begin);
		fake_redis_answer(f, answer);
	}
	return out;
}

TEST(a_repeated_job_is_run_until_its_time_is_over)
{
	repeat(f, f->now, f->now + 5);
	assert_string_equal(times_of_calls(f, 60, ":1\r\n"), "0.0 0.5 1.5 3.5 5.0 ");
	assert_true(script_jobs_are_done(f->script_jobs));
	repeat(f, f->now, f->now + 0.5);
	assert_string_equal(times_of_calls(f, 60, "-ERR what\r\n"), "0.0 0.5 ");
	assert_true(script_jobs_are_done(f->script_jobs));
}

/* Redis hung, and only now runs the call that the job has to undo. */
TEST(its_time_counts_from_the_first_answer)
{
	repeat(f, f->now - 4, f->now + 1);
	fake_redis_advance(f, 20);
	assert_string_equal(times_of_calls(f, 60, ":1\r\n"), "0.0 0.5 1.5 3.5 5.0 ");
	repeat(f, f->now - 4, f->now + 1);
	fake_redis_break(f);
	fake_redis_advance(f, 20);
	fake_redis_repair(f);
	assert_string_equal(times_of_calls(f, 60, ":1\r\n"), "0.0 0.5 1.5 3.5 5.0 ");
}

TEST(for_want_of_space_what_was_answered_is_given_up_first)
{
	struct outcome o = { 0 };

	repeat(f, f->now, f->now + 5);
	fake_redis_answer(f, ":1\r\n");
	script_jobs_set_max(f->script_jobs, script_jobs_nbytes(f->script_jobs));
	run(f, f->now + 60, &o);
	assert_int_equal(script_jobs_given_up(f->script_jobs), 0);
	assert_string_equal(times_of_calls(f, 60, ":7\r\n"), "0.0 ");
	assert_string_equal(o.text, "7");
}

TEST(stopping_gives_up_what_is_to_be_repeated)
{
	repeat(f, f->now, f->now + 5);
	fake_redis_answer(f, ":1\r\n");
	assert_false(script_jobs_are_done(f->script_jobs));
	script_jobs_stop(f->script_jobs);
	assert_true(script_jobs_are_done(f->script_jobs));
	assert_int_equal(script_jobs_nbytes(f->script_jobs), 0);
}

static void write_time(void *arg, struct buf *out)
{
	const struct fake_redis *f = arg;
	char key[32];

	snprintf(key, sizeof(key), "%.0f", f->now);
	write_call(out, key);
}

TEST(a_written_job_is_written_anew_for_each_try)
{
	script_job_run_written(f->script_jobs, 0, ANY, write_time, f->now + 60, NULL, f);
	assert_string_equal(fake_redis_next(f, ANY).args, " 1000");
	fake_redis_advance(f, 5);
	fake_redis_break(f);
	fake_redis_repair(f);
	assert_string_equal(fake_redis_next(f, ANY).args, " 1005");
	fake_redis_answer(f, ":1\r\n");
}

TEST(stopping_gives_up_what_waits_and_what_is_not_answered)
{
	struct outcome waits = { 0 }, in_flight = { 0 };

	run(f, f->now + 60, &in_flight);
	run(f, f->now + 60, &waits);
	fake_redis_answer(f, "-BUSY in_flight\r\n");
	script_jobs_stop(f->script_jobs);
	assert_string_equal(in_flight.text, "none");
	assert_int_equal(waits.n, 0);
	fake_redis_answer(f, "-BUSY and no time left\r\n");
	assert_string_equal(waits.text, "BUSY and no time left");
}

/* --- several nodes ------------------------------------------------------------------ */

static struct fake_cluster two;

static int set_up_two(void **state)
{
	(void)set_up(state);
	fake_cluster_init(&two, *state);
	return 0;
}

static int tear_down_two(void **state)
{
	fake_cluster_fini(&two);
	return tear_down(state);
}

TEST_WITH(a_job_goes_to_the_node_that_serves_its_key, set_up_two, tear_down_two)
{
	struct outcome a = { 0 }, b = { 0 };

	run_about(two.a, "a1", 0, &a);
	run_about(two.a, "b1", 0, &b);
	assert_string_equal(fake_redis_next(two.a, ANY).args, " a1");
	assert_string_equal(fake_redis_next(two.b, ANY).args, " b1");
	fake_redis_answer(two.b, ":2\r\n");
	fake_redis_answer(two.a, ":1\r\n");
	assert_string_equal(a.text, "1");
	assert_string_equal(b.text, "2");
}

/* The job is sent to the other node even after its deadline, because no node has run it. */
TEST_WITH(a_job_follows_redirections, set_up_two, tear_down_two)
{
	struct outcome o = { 0 };

	run_about(two.a, "b1", 0, &o);
	fake_redis_answer(two.b, "-MOVED 1 127.0.0.1:1\r\n");
	assert_string_equal(fake_redis_next(two.a, ANY).args, " b1");
	fake_redis_answer(two.a, "-ASK 1 127.0.0.1:2\r\n");
	assert_string_equal(fake_redis_next(two.b, SCRIPT_COUNT).args, "ASKING");
	fake_redis_answer(two.b, "+OK\r\n");
	assert_string_equal(fake_redis_next(two.b, ANY).args, " b1");
	fake_redis_answer(two.b, "-NOSCRIPT no\r\n");
	assert_true(fake_redis_next(two.b, ANY).eval);
	fake_redis_answer(two.b, ":3\r\n");
	assert_string_equal(o.text, "3");
}

TEST_WITH(a_job_that_is_sent_to_and_fro_waits, set_up_two, tear_down_two)
{
	struct outcome o = { 0 };
	int n = 0;

	run_about(two.a, "b1", two.a->now + 60, &o);
	for (; fake_redis_ncalls(two.b); n++) {
		fake_redis_answer(two.b, "-MOVED 1 127.0.0.1:1\r\n");
		if (fake_redis_ncalls(two.a))
			fake_redis_answer(two.a, "-MOVED 1 127.0.0.1:2\r\n");
	}
	assert_true(n > 1 && n < 10);
	fake_redis_advance(two.a, 0.6);
	fake_redis_answer(two.b, ":1\r\n");
	assert_string_equal(o.text, "1");
}

TEST_WITH(a_job_whose_slot_is_on_its_way_is_run_again, set_up_two, tear_down_two)
{
	static const char *const errors[] = { "-TRYAGAIN keys\r\n", "-CLUSTERDOWN slot\r\n" };
	struct outcome o = { 0 };

	run_about(two.a, "b1", two.a->now + 60, &o);
	for (int i = 0; i < 2; i++) {
		fake_redis_answer(two.b, errors[i]);
		assert_int_equal(fake_redis_ncalls(two.b), 0);
		fake_redis_advance(two.a, 0.6);
	}
	fake_redis_answer(two.b, ":1\r\n");
	assert_string_equal(o.text, "1");
}

TEST_WITH(a_node_that_is_away_keeps_no_job_of_another_waiting, set_up_two, tear_down_two)
{
	const int n = 5000;
	static struct outcome b;
	struct outcome a = { 0 };

	fake_redis_break(two.b);
	for (int i = 0; i < n; i++)
		run_about(two.a, "b1", two.a->now + 60, &b);
	fake_redis_break(two.a);
	run_about(two.a, "a1", two.a->now + 60, &a);
	fake_redis_repair(two.a);
	assert_int_equal(fake_redis_ncalls(two.a), 1);
	fake_redis_answer(two.a, ":1\r\n");
	assert_string_equal(a.text, "1");
	fake_redis_advance(two.a, 5);
	assert_int_equal(fake_redis_ncalls(two.a), 0);
	assert_int_equal(b.n, 0);
}

TEST_WITH(when_nobody_serves_its_key_a_job_waits_until_the_map_says_so, set_up_two,
          tear_down_two)
{
	struct outcome o = { 0 };

	two.b_is_gone = true;
	run_about(two.a, "b1", two.a->now + 60, &o);
	fake_redis_advance(two.a, 5);
	assert_int_equal(fake_redis_ncalls(two.a) + fake_redis_ncalls(two.b), 0);
	two.moved = "b1";
	fake_redis_advance(two.a, 1);
	fake_redis_answer(two.a, ":1\r\n");
	assert_string_equal(o.text, "1");
}
