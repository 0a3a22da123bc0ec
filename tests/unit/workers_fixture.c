/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/testing.h"
#include "workers_fixture.h"

#include "config/config.h"
#include "inifile.h"
#include "worker/worker_ask.h"

void workers_start(struct workers *w)
{
	w->config = load("[hasp]\nworkers = 3\n[upstream]\naddress = unix:/nowhere\n");
	workers_init(&w->shared, w->config);
	sem_init(&w->stuck, 0, 0);
	sem_init(&w->go_on, 0, 0);
	w->asking = false;
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(worker_start(worker_new(i, w->config, NULL, 0, &w->shared)),
		                 0);
}

void workers_end(struct workers *w)
{
	/* A test that failed may have left a worker standing still. */
	if (w->asking)
		workers_go_on(w);
	for (size_t i = 0; i < WORKERS; i++)
		worker_stop(w->shared.workers[i]);
	for (size_t i = 0; i < WORKERS; i++)
		worker_join(w->shared.workers[i]);
	workers_fini(&w->shared);
	sem_destroy(&w->stuck);
	sem_destroy(&w->go_on);
	config_unref(w->config);
}

static bool stand_still(const struct worker_view *view, void *arg, struct worker_answer *a)
{
	struct workers *w = *(struct workers **)arg;

	(void)a;
	if (view->number == 1) {
		sem_post(&w->stuck);
		sem_wait(&w->go_on);
	}
	return true;
}

static void *ask_to_stand_still(void *arg)
{
	struct workers *w = arg;
	struct worker_answers answers;

	(void)workers_ask(&w->shared, stand_still, &w, sizeof(w), LONG_MS, &answers);
	worker_answers_fini(&answers);
	return NULL;
}

void workers_stop_one(struct workers *w)
{
	assert_int_equal(pthread_create(&w->asker, NULL, ask_to_stand_still, w), 0);
	w->asking = true;
	sem_wait(&w->stuck);
}

void workers_go_on(struct workers *w)
{
	sem_post(&w->go_on);
	pthread_join(w->asker, NULL);
	w->asking = false;
}
