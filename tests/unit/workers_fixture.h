/* SPDX-License-Identifier: BSD-3-Clause
 *
 * workers_fixture: workers that run and have no server to reach, for those that are asked from
 * other threads.
 */
#ifndef HASP_TESTS_UNIT_WORKERS_FIXTURE_H
#define HASP_TESTS_UNIT_WORKERS_FIXTURE_H

#include "worker/worker.h"

#define WORKERS 3
/* In milliseconds: longer than any test may take. */
#define LONG_MS (3600 * 1000)

struct workers {
	struct config *config;
	struct worker_shared shared;
};

void workers_start(struct workers *w);
/* Stops and joins all of them. */
void workers_end(struct workers *w);

#endif
