/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What is asked of workers from another thread: each answers for itself, step by step, and
 * neither a late worker nor one that has ended keeps the caller.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "client/client_env.h"
#include "inifile.h"
#include "worker/worker_ask.h"
#include "workers_fixture.h"

static int setup(void **state)
{
	struct workers *w = calloc(1, sizeof(*w));

	workers_start(w);
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct workers *w = *state;

	workers_end(w);
	free(w);
	return 0;
}

static bool tell_number(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	(void)arg;
	buf_printf(&a->out, "worker %d has %zu clients", w->number, w->clients->n);
	return true;
}

static void test_each_worker_answers_for_itself(void **state)
{
	static const char *const expected[] = { "worker 0 has 0 clients",
		                                "worker 1 has 0 clients",
		                                "worker 2 has 0 clients" };
	struct workers *w = *state;
	struct worker_answers answers;

	assert_int_equal(workers_ask(&w->shared, tell_number, NULL, 0, LONG_MS, &answers),
	                 WORKERS);
	assert_int_equal(answers.n, WORKERS);
	for (size_t i = 0; i < WORKERS; i++) {
		assert_true(answers.v[i].whole);
		assert_true(slice_is(buf_slice(&answers.v[i].out), expected[i]));
	}
	worker_answers_fini(&answers);
}

/* `arg`: how many steps it takes, an int. */
static bool count_steps(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	int *left = arg;

	(void)w;
	buf_printf(&a->out, "%d ", (int)a->cursor++);
	return --*left == 0;
}

static void test_a_step_goes_on_where_the_one_before_stopped(void **state)
{
	struct workers *w = *state;
	struct worker_answers answers;
	int steps = 4;

	assert_int_equal(
		workers_ask(&w->shared, count_steps, &steps, sizeof(steps), LONG_MS, &answers),
		WORKERS);
	assert_int_equal(steps, 4);
	for (size_t i = 0; i < WORKERS; i++)
		assert_true(slice_is(buf_slice(&answers.v[i].out), "0 1 2 3 "));
	worker_answers_fini(&answers);
}

static atomic_bool told_to_end;

static bool wait_to_be_told(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	(void)w;
	(void)arg;
	(void)a;
	return told_to_end;
}

static bool tell_to_end(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	(void)w;
	(void)arg;
	(void)a;
	told_to_end = true;
	return true;
}

static void *ask_long(void *arg)
{
	struct worker_answers answers;
	size_t n = workers_ask(arg, wait_to_be_told, NULL, 0, LONG_MS, &answers);

	worker_answers_fini(&answers);
	return (void *)n;
}

static void test_between_two_steps_a_worker_does_other_things(void **state)
{
	struct workers *w = *state;
	struct worker_answers answers;
	pthread_t other;
	void *n;

	told_to_end = false;
	assert_int_equal(pthread_create(&other, NULL, ask_long, &w->shared), 0);
	assert_int_equal(workers_ask(&w->shared, tell_to_end, NULL, 0, LONG_MS, &answers),
	                 WORKERS);
	worker_answers_fini(&answers);
	assert_int_equal(pthread_join(other, &n), 0);
	assert_int_equal((size_t)n, WORKERS);
}

/* Worker 1 is never done. */
static bool one_is_never_done(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	(void)arg;
	buf_puts(&a->out, "something");
	return w->number != 1;
}

static void test_nobody_waits_for_a_late_worker_for_longer_than_that(void **state)
{
	struct workers *w = *state;
	struct worker_answers answers;
	size_t n = 0;

	/* The others may be late, too, on a busy machine. */
	while (n < WORKERS - 1) {
		n = workers_ask(&w->shared, one_is_never_done, NULL, 0, 20, &answers);
		assert_false(answers.v[1].whole);
		assert_int_equal(buf_len(&answers.v[1].out), 0);
		worker_answers_fini(&answers);
	}
	/* It is not asked that question any more. */
	assert_int_equal(workers_ask(&w->shared, tell_number, NULL, 0, LONG_MS, &answers),
	                 WORKERS);
	worker_answers_fini(&answers);
}

static void test_a_worker_that_has_ended_is_not_waited_for(void **state)
{
	struct workers *w = *state;
	struct worker_answers answers;

	worker_stop(w->shared.workers[2]);
	/* It may still answer before it ends. */
	while (workers_ask(&w->shared, tell_number, NULL, 0, LONG_MS, &answers) == WORKERS)
		worker_answers_fini(&answers);
	assert_true(answers.v[0].whole);
	assert_true(answers.v[1].whole);
	assert_false(answers.v[2].whole);
	worker_answers_fini(&answers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_worker_answers_for_itself, setup,
		                                teardown),
		cmocka_unit_test_setup_teardown(
			test_a_step_goes_on_where_the_one_before_stopped, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_between_two_steps_a_worker_does_other_things, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_nobody_waits_for_a_late_worker_for_longer_than_that, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_a_worker_that_has_ended_is_not_waited_for,
		                                setup, teardown),
	};
	return cmocka_run_group_tests(tests, ini_make_dir, ini_remove_dir);
}
