/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the sum of the workers' counters, and that the answers of only some workers do not
 * count as the sum.
 */

#define TEST_FIXTURE struct workers *w

#include <stdlib.h>
#include <string.h>

#include "admin/http_internal.h"
#include "inifile.h"
#include "tests/unit/testing.h"
#include "worker/worker_ask.h"
#include "worker/worker_internal.h"
#include "worker/worker_metrics.h"
#include "workers_fixture.h"

GROUP_FIXTURE(ini_make_dir, ini_remove_dir);

static int set_up(void **state)
{
	struct workers *w = calloc(1, sizeof(*w));

	workers_start(w);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct workers *w = *state;

	workers_end(w);
	free(w);
	return 0;
}

FIXTURE(set_up, tear_down);

TEST(counters_of_all_workers_are_added_up)
{
	struct worker_counts counts;

	for (uint64_t i = 0; i < WORKERS; i++) {
		struct client_counters *c = &w->shared.workers[i]->clients.counters;

		metrics_count(&c->commands[COMMAND_GUARDED], 1 + i);
		metrics_count(&c->limits[LIMIT_LINKS], 10);
	}
	workers_count(&w->shared, &counts);
	assert_int_equal(counts.commands[COMMAND_GUARDED], 6);
	assert_int_equal(counts.commands[COMMAND_PASSED], 0);
	assert_int_equal(counts.limits[LIMIT_LINKS], 30);
	assert_int_equal(counts.jobs_given_up, 0);
}

TEST(server_is_told_once_whatever_the_number_of_workers)
{
	struct worker_gauges g;

	worker_gauges_ask(&w->shared, LONG_MS, &g);
	assert_int_equal(g.asked, WORKERS);
	assert_int_equal(g.answered, WORKERS);
	assert_int_equal(g.nnodes, 1);
	assert_string_equal(g.nodes[0].name, "unix:/nowhere");
	assert_string_equal(g.nodes[0].quorum, "");
	assert_int_equal(g.nodes[0].state, WORKER_NODE_DOWN);
	worker_gauges_fini(&g);
}

TEST(counters_are_read_though_a_worker_stands_still)
{
	struct worker_counts counts;

	workers_stop_one(w);
	metrics_count(&w->shared.workers[1]->clients.counters.commands[COMMAND_PASSED], 7);
	workers_count(&w->shared, &counts);
	assert_int_equal(counts.commands[COMMAND_PASSED], 7);
	workers_go_on(w);
}

static bool has(const struct buf *text, const char *what)
{
	return memmem(buf_head(text), buf_len(text), what, strlen(what)) != NULL;
}

TEST(what_not_all_workers_have_told_is_left_out_and_that_is_said)
{
	struct buf text = BUF_INIT;

	workers_stop_one(w);
	http_metrics_write(&w->shared, w->config, &text);
	assert_true(has(&text, "\nhasp_workers 3\n"));
	assert_false(has(&text, "\nhasp_workers_answered 3\n"));
	assert_true(has(&text, "\nhasp_workers_answered "));
	assert_true(has(&text, "\nhasp_memory_bytes{what=\"resident\"} "));
	assert_false(has(&text, "what=\"clients\""));
	assert_false(has(&text, "hasp_upstream_up{"));
	assert_false(has(&text, "hasp_links{"));
	assert_true(has(&text, "\nhasp_commands_total{outcome=\"passed\"} 0\n"));
	buf_release(&text);
	workers_go_on(w);
}
