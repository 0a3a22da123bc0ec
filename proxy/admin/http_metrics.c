/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/http_internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/metrics.h"
#include "lock/events/stats.h"
#include "worker/worker_metrics.h"

/* How long hasp waits for a worker's answer, in ms. */
#define ASK_TIMEOUT_MS 1000

#define RULES (1u << STATS_LOCK | 1u << STATS_VERBS)
#define LOCKS (RULES | 1u << STATS_QUORUM)
#define GUARDS (1u << STATS_GUARD)

/* --- sections ----------------------------------------------------------------------------- */

/* The histograms of a section. */
enum section_histogram { WAITED, HELD };

/* A metric family with a sample for each section whose kind is in `kinds` (bits). */
struct section_family {
	uint32_t kinds;
	enum metrics_type type;
	int field; /* by `type`: enum stats_field, stats_gauge or section_histogram */
	const char *name, *help;
};

static const struct section_family section_families[] = {
	{ LOCKS, METRICS_COUNTER, STAT_ACQUIRED, "hasp_lock_acquired_total",
	  "Locks that were taken." },
	{ LOCKS, METRICS_COUNTER, STAT_RELEASED, "hasp_lock_released_total",
	  "Locks that their owner released." },
	{ LOCKS, METRICS_COUNTER, STAT_RENEWED, "hasp_lock_renewed_total",
	  "Leases that hasp began again." },
	{ LOCKS, METRICS_COUNTER, STAT_REFUSED, "hasp_lock_refused_total",
	  "Tries that failed at once, because another owner had the lock." },
	{ RULES, METRICS_COUNTER, STAT_WRITES_REFUSED, "hasp_lock_writes_refused_total",
	  "Writes to another owner's lock." },
	{ RULES, METRICS_COUNTER, STAT_DELETES_REFUSED, "hasp_lock_deletes_refused_total",
	  "Releases of another owner's lock." },
	{ LOCKS, METRICS_COUNTER, STAT_WAITED, "hasp_lock_queued_total",
	  "Tries that waited in line." },
	{ LOCKS, METRICS_COUNTER, STAT_HANDED_OVER, "hasp_lock_handed_over_total",
	  "Tries that waited in line and got the lock." },
	{ LOCKS, METRICS_COUNTER, STAT_TIMED_OUT, "hasp_lock_wait_timed_out_total",
	  "Tries that waited in line until their time was over." },
	{ LOCKS, METRICS_COUNTER, STAT_RELEASED_AT_DISCONNECT,
	  "hasp_lock_released_at_disconnect_total",
	  "Locks that hasp released when their connection ended." },
	{ LOCKS, METRICS_COUNTER, STAT_LOST, "hasp_lock_lost_total",
	  "Locks that ended while their owner relied on them." },
	{ RULES | GUARDS, METRICS_COUNTER, STAT_DEADLOCKS, "hasp_deadlocks_total",
	  "Tries that ended with -DEADLOCK: owners waited for each other in a circle." },
	{ GUARDS, METRICS_COUNTER, STAT_ACQUIRED, "hasp_guard_acquired_total",
	  "Guards that were taken." },
	{ GUARDS, METRICS_COUNTER, STAT_RELEASED, "hasp_guard_released_total",
	  "Guards that were released." },
	{ GUARDS, METRICS_COUNTER, STAT_REFUSED, "hasp_guard_refused_total",
	  "Reads that failed at once, because another owner had the guard." },
	{ GUARDS, METRICS_COUNTER, STAT_WRITES_REFUSED, "hasp_guard_writes_refused_total",
	  "Writes to a key whose guard another owner had." },
	{ GUARDS, METRICS_COUNTER, STAT_UPDATES_REFUSED, "hasp_guard_updates_refused_total",
	  "Writes after a read whose guard was lost." },
	{ GUARDS, METRICS_COUNTER, STAT_WAITED, "hasp_guard_waited_total",
	  "Commands that waited in line." },
	{ GUARDS, METRICS_COUNTER, STAT_HANDED_OVER, "hasp_guard_handed_over_total",
	  "Commands that waited in line and got the guard." },
	{ GUARDS, METRICS_COUNTER, STAT_TIMED_OUT, "hasp_guard_wait_timed_out_total",
	  "Commands that waited in line until their time was over." },
	{ GUARDS, METRICS_COUNTER, STAT_RELEASED_AT_DISCONNECT,
	  "hasp_guard_released_at_disconnect_total",
	  "Guards that hasp released when their connection ended." },
	{ LOCKS, METRICS_GAUGE, STAT_HELD, "hasp_locks_held",
	  "Locks of connected clients, as far as hasp knows; a lock that several connections "
	  "share counts once for each." },
	{ LOCKS, METRICS_GAUGE, STAT_WAITERS, "hasp_lock_waiters", "Tries that wait in line." },
	{ GUARDS, METRICS_GAUGE, STAT_WAITERS, "hasp_guard_waiters",
	  "Commands that wait in line." },
	{ LOCKS, METRICS_HISTOGRAM, WAITED, "hasp_lock_wait_seconds",
	  "How long tries waited in line, whether they got the lock or not." },
	{ LOCKS, METRICS_HISTOGRAM, HELD, "hasp_lock_hold_seconds",
	  "How long locks that hasp knows were held; counted when they end." },
	{ GUARDS, METRICS_HISTOGRAM, WAITED, "hasp_guard_wait_seconds",
	  "How long commands waited in line, whether they got the guard or not." },
	{ GUARDS, METRICS_HISTOGRAM, HELD, "hasp_guard_hold_seconds",
	  "How long guards were held: from the read to the write, refused or not, or to "
	  "the end of the lease or the connection." },
};

struct section_out {
	const struct section_family *family;
	struct buf *out;
};

/* A rule and the verbs may have the same name, so the kind is a label, too. */
static void section_sample(void *arg, enum stats_kind kind, const char *name,
                           const struct stats_sums *sums)
{
	const struct section_out *s = arg;
	const struct section_family *f = s->family;
	struct metrics_label labels[] = { { "rule", name }, { "kind", stats_kind_word(kind) } };

	if (!(f->kinds >> kind & 1))
		return;
	if (f->type == METRICS_HISTOGRAM)
		metrics_histogram_sample(s->out, f->name, labels, 2,
		                         f->field == HELD ? &sums->held : &sums->waited);
	else if (f->type == METRICS_GAUGE)
		metrics_sample(s->out, f->name, labels, 2,
		               (double)(int64_t)sums->now[f->field]);
	else
		metrics_sample(s->out, f->name, labels, 2, (double)sums->n[f->field]);
}

static void write_section_families(struct stats *stats, struct buf *out)
{
	for (size_t i = 0; i < sizeof(section_families) / sizeof(section_families[0]); i++) {
		struct section_out s = { &section_families[i], out };

		metrics_family(out, s.family->name, s.family->type, s.family->help);
		stats_each(stats, section_sample, &s);
	}
}

static void observed_sample(void *arg, const char *kind, const char *rule, const char *event,
                            uint64_t n)
{
	struct metrics_label labels[] = { { "rule", rule },
		                          { "kind", kind },
		                          { "event", event } };

	metrics_sample(arg, "hasp_observed_total", labels, 3, (double)n);
}

static void write_observed(struct worker_shared *shared, struct buf *out)
{
	metrics_family(out, "hasp_observed_total", METRICS_COUNTER,
	               "Events of rules in mode observe that mode enforce would have "
	               "prevented, and lock_lost.");
	workers_each_observed(shared, observed_sample, out);
}

/* --- the process -------------------------------------------------------------------------- */

/* Returns the resident memory in bytes; 0: unknown. */
static uint64_t memory_resident(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%*u %lu", &pages) != 1)
		pages = 0;
	fclose(f);
	return (uint64_t)pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static double cpu_seconds(void)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) < 0)
		return 0;
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Writes a family with one sample. */
static void write_one(struct buf *out, enum metrics_type type, const char *family,
                      const char *help, double value)
{
	metrics_family(out, family, type, help);
	metrics_sample(out, family, NULL, 0, value);
}

/* Writes the family's samples, each with a label of its own. */
static void write_counts(struct buf *out, const char *family, const char *label,
                         const char *const *values, const uint64_t *counts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct metrics_label l = { label, values[i] };

		metrics_sample(out, family, &l, 1, (double)counts[i]);
	}
}

static void write_memory(const struct worker_gauges *g, struct buf *out)
{
	static const char *const names[] = { "resident", "clients", "holds", "waiters",
		                             "calls" };
	const uint64_t bytes[] = { memory_resident(), g->memory[WORKER_MEMORY_CLIENTS],
		                   g->memory[WORKER_MEMORY_HOLDS],
		                   g->memory[WORKER_MEMORY_WAITERS],
		                   g->memory[WORKER_MEMORY_JOBS] };

	metrics_family(out, "hasp_memory_bytes", METRICS_GAUGE,
	               "Memory of the process, and its parts: clients, as counted for "
	               "memory_limit; locks; waiters; hasp's own calls.");
	write_counts(out, "hasp_memory_bytes", "what", names, bytes,
	             g->answered == g->asked ? 1 + WORKER_MEMORIES : 1);
}

static void write_process(struct worker_shared *shared, struct buf *out)
{
	metrics_family(out, "hasp_build_info", METRICS_GAUGE,
	               "Always 1; the label has the version.");
	write_counts(out, "hasp_build_info", "version", (const char *[]){ PACKAGE_VERSION },
	             (uint64_t[]){ 1 }, 1);
	write_one(out, METRICS_GAUGE, "hasp_clients", "Clients that are connected.",
	          (double)atomic_load(&shared->clients));
	write_one(out, METRICS_COUNTER, "hasp_cpu_seconds_total", "CPU time of the process.",
	          cpu_seconds());
	write_one(out, METRICS_GAUGE, "hasp_ready", "1: /readyz answers 200; 0: it does not.",
	          !workers_not_ready(shared));
	write_one(out, METRICS_GAUGE, "hasp_paused",
	          "1: PAUSE at the console holds requests back.",
	          atomic_load(&shared->task) == WORKERS_PAUSE);
	write_one(out, METRICS_GAUGE, "hasp_start_time_seconds",
	          "When the process was started, in seconds since 1970.", shared->started_at);
}

static void write_limits(const struct config *c, struct buf *out)
{
	static const char *const names[] = { "max_clients", "memory_limit",
		                             "client_output_limit", "max_request",
		                             "links_max" };
	const uint64_t limits[] = { (uint64_t)c->max_clients, (uint64_t)c->memory_limit,
		                    (uint64_t)c->client_output_limit, (uint64_t)c->max_request,
		                    (uint64_t)c->links_max };
	/* links_max, the last, may be 0: there is no limit. */
	size_t n = sizeof(limits) / sizeof(*limits) - (c->links_max == 0);

	metrics_family(out, "hasp_limit", METRICS_GAUGE,
	               "The value of the option with that name: clients, bytes, or links to "
	               "one server.");
	write_counts(out, "hasp_limit", "limit", names, limits, n);
}

/* --- the workers' counters ---------------------------------------------------------------- */

static void write_bytes(const struct worker_counts *counts, struct buf *out)
{
	static const char *const peers[STREAM_KINDS] = {
		[STREAM_CLIENT] = "client",
		[STREAM_UPSTREAM] = "upstream",
	};

	metrics_family(out, "hasp_bytes_total", METRICS_COUNTER,
	               "Bytes that the workers read from and wrote to clients and Redis, "
	               "without the overhead of TLS.");
	for (size_t i = STREAM_CLIENT; i < STREAM_KINDS; i++) {
		struct metrics_label labels[] = { { "peer", peers[i] },
			                          { "direction", "read" } };

		metrics_sample(out, "hasp_bytes_total", labels, 2,
		               (double)counts->bytes[i].read);
		labels[1].value = "written";
		metrics_sample(out, "hasp_bytes_total", labels, 2,
		               (double)counts->bytes[i].written);
	}
}

static void write_commands(const struct worker_shared *shared, struct buf *out)
{
	static const char *const outcomes[COMMAND_OUTCOMES] = {
		[COMMAND_PASSED] = "passed",
		[COMMAND_REWRITTEN] = "rewritten",
		[COMMAND_GUARDED] = "guarded",
		[COMMAND_REFUSED] = "refused",
	};
	static const char *const own_limits[] = { "calls", "console", "http" };
	static const char *const kinds[] = { "unreachable", "refused", "broken" };
	struct worker_counts counts;

	workers_count(shared, &counts);
	metrics_family(out, "hasp_commands_total", METRICS_COUNTER,
	               "Commands: passed unchanged, rewritten, carried out under a guard, or "
	               "refused by hasp before Redis saw them.");
	write_counts(out, "hasp_commands_total", "outcome", outcomes, counts.commands,
	             COMMAND_OUTCOMES);
	metrics_family(out, "hasp_limit_reached_total", METRICS_COUNTER,
	               "Clients, requests, links and calls of hasp's own that a limit has "
	               "stopped.");
	write_counts(out, "hasp_limit_reached_total", "limit", limit_words, counts.limits,
	             LIMITS);
	write_counts(out, "hasp_limit_reached_total", "limit", own_limits,
	             (uint64_t[]){ counts.jobs_given_up, atomic_load(&shared->console_full),
	                           atomic_load(&shared->http_full) },
	             3);
	counts.link_ends[LINK_BROKEN] += counts.link_ends[LINK_CUT];
	metrics_family(
		out, "hasp_upstream_errors_total", METRICS_COUNTER,
		"Connections to Redis that could not be made, that broke, or whose login "
		"Redis refused.");
	write_counts(out, "hasp_upstream_errors_total", "kind", kinds, counts.link_ends,
	             sizeof(kinds) / sizeof(*kinds));
	write_one(out, METRICS_COUNTER, "hasp_accept_failures_total",
	          "Connections of clients that could not be accepted.",
	          (double)counts.accept_failures);
	write_bytes(&counts, out);
}

/* --- the workers' answers ----------------------------------------------------------------- */

static void write_links(const struct worker_gauges *g, struct buf *out)
{
	static const char *const kinds[LINK_KINDS] = {
		[LINK_KIND_SHARED] = "shared",
		[LINK_KIND_PRIVATE] = "private",
		[LINK_KIND_OWN] = "own",
	};

	metrics_family(out, "hasp_links", METRICS_GAUGE,
	               "Connections to Redis: shared by clients, of one client, or of hasp "
	               "itself.");
	for (size_t i = 0; i < g->nnodes; i++)
		for (size_t kind = 0; kind < LINK_KINDS && !*g->nodes[i].quorum; kind++) {
			struct metrics_label labels[] = { { "node", g->nodes[i].name },
				                          { "kind", kinds[kind] } };

			metrics_sample(out, "hasp_links", labels, 2,
			               (double)g->nodes[i].links[kind]);
		}
}

static bool node_is_up(const struct worker_node_gauges *n)
{
	return n->state == WORKER_NODE_UP;
}

static bool node_answers(const struct worker_node_gauges *n)
{
	return n->state >= WORKER_NODE_UNCOUNTED;
}

static bool node_evicts(const struct worker_node_gauges *n)
{
	return *n->evicts;
}

/* If `of_quorum`, writes a sample for each server of a quorum, else for each other server. `is`
 * returns the sample's value; NULL: writes the latency. */
static void write_node_family(const struct worker_gauges *g, bool of_quorum, const char *family,
                              const char *help, bool (*is)(const struct worker_node_gauges *n),
                              struct buf *out)
{
	metrics_family(out, family, is ? METRICS_GAUGE : METRICS_HISTOGRAM, help);
	for (size_t i = 0; i < g->nnodes; i++) {
		const struct worker_node_gauges *n = &g->nodes[i];
		struct metrics_label labels[] = { { "quorum", n->quorum },
			                          { "node", n->name } };

		if (of_quorum != (*n->quorum != '\0'))
			continue;
		if (is)
			metrics_sample(out, family, labels + !of_quorum, 1 + of_quorum, is(n));
		else
			metrics_histogram_sample(out, family, labels + 1, 1, &n->latency);
	}
}

static void write_nodes(const struct worker_gauges *g, struct buf *out)
{
	bool any_quorum = false;

	write_node_family(g, false, "hasp_upstream_up",
	                  "1: hasp's own connections to that server are up; 0: not all.",
	                  node_is_up, out);
	write_node_family(g, false, "hasp_upstream_evicts",
	                  "1: that server may evict locks when its memory is full: its "
	                  "maxmemory-policy is not noeviction; 0: no, or not known.",
	                  node_evicts, out);
	write_node_family(g, false, "hasp_upstream_latency_seconds",
	                  "How long that server took to answer hasp's PING, each "
	                  "server_check_delay.",
	                  NULL, out);
	write_links(g, out);
	for (size_t i = 0; i < g->nnodes; i++)
		any_quorum |= *g->nodes[i].quorum != 0;
	if (!any_quorum)
		return;
	write_node_family(g, true, "hasp_quorum_server_up",
	                  "1: that server of the quorum answers each worker; 0: not all.",
	                  node_answers, out);
	write_node_family(g, true, "hasp_quorum_server_counted",
	                  "1: that server of the quorum votes; 0: it is down, or started "
	                  "less than restart_delay ago.",
	                  node_is_up, out);
}

/* Writes the gauges of all workers. If a worker does not answer, leaves out the sums, which
 * would be too low. */
static void write_gauges(struct worker_shared *shared, struct buf *out)
{
	struct worker_gauges g;

	worker_gauges_ask(shared, ASK_TIMEOUT_MS, &g);
	write_one(out, METRICS_GAUGE, "hasp_workers", "Worker threads.", (double)g.asked);
	write_one(out, METRICS_GAUGE, "hasp_workers_answered",
	          "Worker threads that answered within a second; if some did not, these "
	          "families are missing: hasp_upstream_*, hasp_links, and hasp_memory_bytes "
	          "except resident.",
	          (double)g.answered);
	write_memory(&g, out);
	if (g.answered == g.asked)
		write_nodes(&g, out);
	worker_gauges_fini(&g);
}

void http_metrics_write(struct worker_shared *shared, const struct config *config,
                        struct buf *out)
{
	write_process(shared, out);
	write_limits(config, out);
	write_gauges(shared, out);
	write_commands(shared, out);
	write_section_families(shared->stats, out);
	write_observed(shared, out);
}
