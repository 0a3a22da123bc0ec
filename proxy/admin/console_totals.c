/* SPDX-License-Identifier: BSD-3-Clause
 *
 * console_totals: SHOW STATS, NODES and LINKS: numbers of all workers together, as in /metrics.
 */
#include "admin/admin_internal.h"
#include "lock/events/stats.h"
#include "worker/worker_metrics.h"

/* --- SHOW STATS -------------------------------------------------------------------------- */

bool console_show_stats(const struct show_env *env, struct rows *rows)
{
	static const char *const outcomes[COMMAND_OUTCOMES] = {
		[COMMAND_PASSED] = "commands_passed",
		[COMMAND_REWRITTEN] = "commands_rewritten",
		[COMMAND_GUARDED] = "commands_guarded",
		[COMMAND_REFUSED] = "commands_refused",
	};
	struct worker_shared *shared = env->shared;
	struct worker_counts counts;
	struct stats_sums t = stats_total(shared->stats); /* each kind counts other events */

	workers_count(shared, &counts);
	rows_begin(rows, COMMAND_OUTCOMES + STATS + 5);
	rows_add_int(rows, "clients", (int64_t)atomic_load(&shared->clients));
	for (size_t i = 0; i < COMMAND_OUTCOMES; i++)
		rows_add_int(rows, outcomes[i], (int64_t)counts.commands[i]);
	rows_add_int(rows, "held", (int64_t)t.now[STAT_HELD]);
	rows_add_int(rows, "waiting", (int64_t)t.now[STAT_WAITERS]);
	for (size_t i = 0; i < STATS; i++)
		rows_add_int(rows, stats_field_word((enum stats_field)i), (int64_t)t.n[i]);
	rows_add_int(rows, "waited_us", (int64_t)t.waited.total_us);
	rows_add_int(rows, "held_us", (int64_t)t.held.total_us);
	return true;
}

/* --- SHOW NODES, SHOW LINKS --------------------------------------------------------------- */

typedef void node_rows_fn(struct rows *rows, const struct worker_node_gauges *n);

static bool each_node(const struct show_env *env, struct rows *rows, node_rows_fn *fn)
{
	struct worker_gauges g;
	bool whole;

	worker_gauges_ask(env->shared, CONSOLE_ASK_MS, &g);
	whole = g.answered == g.asked;
	for (size_t i = 0; i < g.nnodes; i++)
		fn(rows, &g.nodes[i]);
	worker_gauges_fini(&g);
	return whole;
}

static void add_server(struct rows *rows, const struct worker_node_gauges *n)
{
	static const char *const states[] = {
		[WORKER_NODE_DOWN] = "down",
		[WORKER_NODE_UNCOUNTED] = "uncounted",
		[WORKER_NODE_UP] = "up",
	};
	uint64_t links = 0, calls = 0;

	for (size_t i = 0; i < LINK_KINDS; i++)
		links += n->links[i];
	for (size_t i = 0; i < METRICS_BUCKETS; i++)
		calls += n->latency.n[i];
	rows_begin(rows, 7);
	rows_add_str(rows, "node", n->name);
	rows_add_str(rows, "quorum", n->quorum);
	rows_add_str(rows, "state", states[n->state]);
	rows_add_int(rows, "links", (int64_t)links);
	rows_add_int(rows, "checks", (int64_t)calls);
	rows_add_int(rows, "mean_latency_us",
	             calls ? (int64_t)(n->latency.total_us / calls) : 0);
	rows_add_str(rows, "evicts", n->evicts);
}

bool console_show_nodes(const struct show_env *env, struct rows *rows)
{
	return each_node(env, rows, add_server);
}

static void add_links(struct rows *rows, const struct worker_node_gauges *n)
{
	static const char *const kinds[LINK_KINDS] = {
		[LINK_KIND_SHARED] = "shared",
		[LINK_KIND_PRIVATE] = "own",
		[LINK_KIND_OWN] = "hasp",
	};

	for (size_t i = 0; i < LINK_KINDS; i++) {
		rows_begin(rows, 4);
		rows_add_str(rows, "node", n->name);
		rows_add_str(rows, "quorum", n->quorum);
		rows_add_str(rows, "kind", kinds[i]);
		rows_add_int(rows, "links", (int64_t)n->links[i]);
	}
}

bool console_show_links(const struct show_env *env, struct rows *rows)
{
	return each_node(env, rows, add_links);
}
