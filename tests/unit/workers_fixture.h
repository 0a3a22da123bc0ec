/* SPDX-License-Identifier: BSD-3-Clause
 *
 * workers_fixture: running workers without a server, for tests that ask workers from other
 * threads.
 */
#ifndef HASP_TESTS_UNIT_WORKERS_FIXTURE_H
#define HASP_TESTS_UNIT_WORKERS_FIXTURE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>

#include "worker/worker.h"

#define WORKERS 3
/* In milliseconds: longer than any test may take. */
#define LONG_MS (3600 * 1000)

struct workers {
	struct config *config;
	struct worker_shared shared;
	/* `stuck` is posted when worker 1 stands still, `go_on` when it may go on. */
	sem_t stuck, go_on;
	pthread_t asker;
	bool asking; /* `asker` runs: worker 1 stands still, or is about to */
};

void workers_start(struct workers *w);
/* Stops and joins all workers, also one that stands still. */
void workers_end(struct workers *w);

/* When this returns, worker 1 stands still. */
void workers_stop_one(struct workers *w);
/* Worker 1 goes on. */
void workers_go_on(struct workers *w);

#endif
