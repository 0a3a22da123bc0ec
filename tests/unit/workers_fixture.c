/* SPDX-License-Identifier: BSD-3-Clause */
#include "workers_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "config/config.h"
#include "inifile.h"

void workers_start(struct workers *w)
{
	w->config = load("[hasp]\nworkers = 3\n[upstream]\naddress = unix:/nowhere\n");
	workers_init(&w->shared, w->config);
	for (int i = 0; i < WORKERS; i++)
		assert_int_equal(
			worker_start(worker_new(i, w->config, NULL, NULL, 0, &w->shared)), 0);
}

void workers_end(struct workers *w)
{
	for (size_t i = 0; i < WORKERS; i++)
		worker_stop(w->shared.workers[i]);
	for (size_t i = 0; i < WORKERS; i++)
		worker_join(w->shared.workers[i]);
	workers_fini(&w->shared);
	config_unref(w->config);
}
