/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What workers count is added up, and what only some of them have told is not taken for all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

#include "admin/http_metrics.h"
#include "inifile.h"
#include "worker/worker_ask.h"
#include "worker/worker_internal.h"
#include "worker/worker_metrics.h"
#include "workers_fixture.h"

struct fixture {
	struct workers workers;
	/* Worker 1 stands still between the two. */
	sem_t stuck, go_on;
	pthread_t asker;
	bool asking; /* `asker` runs: worker 1 stands still, or is about to */
};

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	workers_start(&f->workers);
	sem_init(&f->stuck, 0, 0);
	sem_init(&f->go_on, 0, 0);
	*state = f;
	return 0;
}

static void go_on(struct fixture *f)
{
	sem_post(&f->go_on);
	pthread_join(f->asker, NULL);
	f->asking = false;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	/* (A test that failed has not.) */
	if (f->asking)
		go_on(f);
	workers_end(&f->workers);
	sem_destroy(&f->stuck);
	sem_destroy(&f->go_on);
	free(f);
	return 0;
}

static bool stand_still(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	struct fixture *f = *(struct fixture **)arg;

	(void)a;
	if (w->number == 1) {
		sem_post(&f->stuck);
		sem_wait(&f->go_on);
	}
	return true;
}

static void *ask_to_stand_still(void *arg)
{
	struct fixture *f = arg;
	struct worker_answers answers;

	(void)workers_ask(&f->workers.shared, stand_still, &f, sizeof(struct fixture *),
	                  LONG_MS, &answers);
	worker_answers_fini(&answers);
	return NULL;
}

/* From its return on worker 1 does nothing. */
static void stop_one(struct fixture *f)
{
	assert_int_equal(pthread_create(&f->asker, NULL, ask_to_stand_still, f), 0);
	f->asking = true;
	sem_wait(&f->stuck);
}

static void counters_of_all_workers_are_added_up(void **state)
{
	struct fixture *f = *state;
	struct worker_counts counts;

	for (uint64_t i = 0; i < WORKERS; i++) {
		struct client_counters *c = &f->workers.shared.workers[i]->clients.counters;

		metrics_count(&c->commands[COMMAND_GUARDED], 1 + i);
		metrics_count(&c->limits[LIMIT_LINKS], 10);
	}
	workers_count(&f->workers.shared, &counts);
	assert_int_equal(counts.commands[COMMAND_GUARDED], 6);
	assert_int_equal(counts.commands[COMMAND_PASSED], 0);
	assert_int_equal(counts.limits[LIMIT_LINKS], 30);
	assert_int_equal(counts.jobs_given_up, 0);
}

static void server_is_told_once_whatever_the_number_of_workers(void **state)
{
	struct fixture *f = *state;
	struct worker_gauges g;

	worker_gauges_ask(&f->workers.shared, LONG_MS, &g);
	assert_int_equal(g.asked, WORKERS);
	assert_int_equal(g.answered, WORKERS);
	assert_int_equal(g.nnodes, 1);
	assert_string_equal(g.nodes[0].name, "unix:/nowhere");
	assert_false(g.nodes[0].up);
	worker_gauges_fini(&g);
}

static void counters_are_read_though_a_worker_stands_still(void **state)
{
	struct fixture *f = *state;
	struct worker_counts counts;

	stop_one(f);
	metrics_count(&f->workers.shared.workers[1]->clients.counters.commands[COMMAND_PASSED],
	              7);
	workers_count(&f->workers.shared, &counts);
	assert_int_equal(counts.commands[COMMAND_PASSED], 7);
	go_on(f);
}

static bool has(const struct buf *text, const char *what)
{
	return memmem(buf_head(text), buf_len(text), what, strlen(what)) != NULL;
}

static void what_not_all_workers_have_told_is_left_out_and_that_is_said(void **state)
{
	struct fixture *f = *state;
	struct buf text = BUF_INIT;

	stop_one(f);
	http_metrics_write(&f->workers.shared, &text);
	assert_true(has(&text, "\nhasp_workers 3\n"));
	assert_false(has(&text, "\nhasp_workers_answered 3\n"));
	assert_true(has(&text, "\nhasp_workers_answered "));
	assert_true(has(&text, "\nhasp_memory_bytes{what=\"resident\"} "));
	assert_false(has(&text, "what=\"clients\""));
	assert_false(has(&text, "hasp_upstream_up{"));
	assert_false(has(&text, "hasp_links{"));
	assert_true(has(&text, "\nhasp_commands_total{outcome=\"passed\"} 0\n"));
	buf_release(&text);
	go_on(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(counters_of_all_workers_are_added_up, set_up,
		                                tear_down),
		cmocka_unit_test_setup_teardown(
			server_is_told_once_whatever_the_number_of_workers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(counters_are_read_though_a_worker_stands_still,
		                                set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_not_all_workers_have_told_is_left_out_and_that_is_said, set_up,
			tear_down),
	};

	return cmocka_run_group_tests(tests, ini_make_dir, ini_remove_dir);
}
