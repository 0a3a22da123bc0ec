/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of /metrics: about the process, its sections and its servers. The tests play the
 * workers' counters and answers.
 */
#include <stdlib.h>
#include <string.h>

#include "admin/http_internal.h"
#include "lock/events/stats.h"
#include "tests/unit/testing.h"
#include "worker/worker_metrics.h"

/* --- in the place of worker_metrics.c ----------------------------------------------------- */

static struct worker_counts counts;
static struct worker_gauges gauges;
static struct config config;
static const char *not_ready; /* reason why hasp is not ready; NULL: it is ready */

const char *workers_not_ready(struct worker_shared *shared)
{
	(void)shared;
	return not_ready;
}

void workers_count(const struct worker_shared *shared, struct worker_counts *c)
{
	(void)shared;
	*c = counts;
}

void worker_gauges_ask(struct worker_shared *shared, int64_t timeout_ms,
                       struct worker_gauges *g)
{
	(void)shared;
	(void)timeout_ms;
	*g = gauges;
}

void worker_gauges_fini(struct worker_gauges *g)
{
	*g = (struct worker_gauges){ 0 };
}

void workers_each_observed(struct worker_shared *shared, workers_observed_fn *fn, void *arg)
{
	(void)shared;
	fn(arg, "lock", "carts", "lock_lost", 8);
	fn(arg, "guard", "carts", "lost_update", 9);
}

/* --- the fixture -------------------------------------------------------------------------- */

struct fixture {
	struct worker_shared shared;
	struct worker_node_gauges nodes[3];
	struct buf out;
};

static void set_up(struct fixture *f)
{
	f->shared.stats = stats_new(2);
	counts = (struct worker_counts){ 0 };
	gauges = (struct worker_gauges){ .asked = 2, .answered = 2, .nodes = f->nodes };
	for (size_t i = 0; i < 3; i++) {
		strcpy(f->nodes[i].name, (const char *[]){ "a:1", "b:2", "c:3" }[i]);
	}
}

static void tear_down(struct fixture *f)
{
	stats_free(f->shared.stats);
	buf_release(&f->out);
}

STRUCT_FIXTURE(set_up, tear_down);

static struct section_stats *section(struct fixture *f, enum stats_kind kind, const char *name)
{
	return stats_section(f->shared.stats, kind, name, 0);
}

static const char *scrape(struct fixture *f)
{
	buf_clear(&f->out);
	http_metrics_write(&f->shared, &config, &f->out);
	*buf_reserve(&f->out, 1) = '\0';
	return buf_head(&f->out);
}

/* Asserts that there is a line of this text. */
static void assert_line(struct fixture *f, const char *line)
{
	const char *all = scrape(f), *at = strstr(all, line);
	size_t n = strlen(line);

	while (at && ((at > all && at[-1] != '\n') || at[n] != '\n'))
		at = strstr(at + 1, line);
	if (!at)
		fail_msg("no line %s", line);
}

static void assert_nowhere(struct fixture *f, const char *text)
{
	if (strstr(scrape(f), text))
		fail_msg("%s is there", text);
}

/* Asserts a line for each word that is not NULL, with numbers that count up from `n`. */
static void assert_each(struct fixture *f, const char *before, const char *const *words,
                        const char *behind, size_t nwords, size_t n)
{
	for (size_t i = 0; i < nwords; i++) {
		struct buf line = BUF_INIT;

		if (!words[i])
			continue;
		buf_printf(&line, "%s%s%s %zu", before, words[i], behind, n + i);
		buf_append(&line, slice_of("", 1));
		assert_line(f, buf_head(&line));
		buf_release(&line);
	}
}

/* --- the format --------------------------------------------------------------------------- */

/* Returns the length of the sample's family name. */
static size_t family_of(const char *line)
{
	static const char *const ends[] = { "_bucket", "_sum", "_count" };
	size_t n = strcspn(line, "{ ");

	for (size_t i = 0; i < 3; i++) {
		size_t end = strlen(ends[i]);
		if (n > end && memcmp(line + n - end, ends[i], end) == 0)
			return n - end;
	}
	return n;
}

TEST(each_sample_is_of_the_family_above_it)
{
	static const char type[] = "# TYPE ";
	const char *family = "";
	size_t n = 0, nsamples = 0;

	gauges.nnodes = 1;
	for (int kind = STATS_LOCK; kind <= STATS_QUORUM; kind++)
		section(f, (enum stats_kind)kind, "carts");
	for (const char *line = scrape(f); *line; line = strchr(line, '\n') + 1) {
		if (strncmp(line, type, strlen(type)) == 0) {
			family = line + strlen(type);
			n = strcspn(family, " ");
		} else if (*line != '#') {
			assert_int_equal(family_of(line), n);
			assert_memory_equal(line, family, n);
			nsamples++;
		}
	}
	assert_true(nsamples > 100);
}

/* --- sections ----------------------------------------------------------------------------- */

TEST(counters_of_a_section_are_added_up_over_the_workers)
{
	metrics_count(&section(f, STATS_LOCK, "carts")->n[STAT_ACQUIRED], 2);
	metrics_count(&stats_section(f->shared.stats, STATS_LOCK, "carts", 1)->n[STAT_ACQUIRED],
	              3);
	assert_line(f, "hasp_lock_acquired_total{rule=\"carts\",kind=\"lock\"} 5");
}

TEST(each_counter_is_of_its_own_field)
{
	static const char *const locks[STATS] = {
		[STAT_ACQUIRED] = "acquired",
		[STAT_RELEASED] = "released",
		[STAT_RENEWED] = "renewed",
		[STAT_REFUSED] = "refused",
		[STAT_WRITES_REFUSED] = "writes_refused",
		[STAT_DELETES_REFUSED] = "deletes_refused",
		[STAT_WAITED] = "queued",
		[STAT_HANDED_OVER] = "handed_over",
		[STAT_TIMED_OUT] = "wait_timed_out",
		[STAT_RELEASED_AT_DISCONNECT] = "released_at_disconnect",
		[STAT_LOST] = "lost",
	};
	struct section_stats *carts = section(f, STATS_LOCK, "carts");

	for (size_t i = 0; i < STATS; i++)
		metrics_count(&carts->n[i], 100 + i);
	assert_each(f, "hasp_lock_", locks, "_total{rule=\"carts\",kind=\"lock\"}", STATS, 100);
	assert_line(f, "hasp_deadlocks_total{rule=\"carts\",kind=\"lock\"} 110");
}

TEST(guards_have_families_of_their_own)
{
	static const char *const guards[STATS] = {
		[STAT_ACQUIRED] = "acquired",
		[STAT_RELEASED] = "released",
		[STAT_REFUSED] = "refused",
		[STAT_WRITES_REFUSED] = "writes_refused",
		[STAT_UPDATES_REFUSED] = "updates_refused",
		[STAT_WAITED] = "waited",
		[STAT_HANDED_OVER] = "handed_over",
		[STAT_TIMED_OUT] = "wait_timed_out",
		[STAT_RELEASED_AT_DISCONNECT] = "released_at_disconnect",
	};
	struct section_stats *stock = section(f, STATS_GUARD, "stock");

	for (size_t i = 0; i < STATS; i++)
		metrics_count(&stock->n[i], 100 + i);
	assert_each(f, "hasp_guard_", guards, "_total{rule=\"stock\",kind=\"guard\"}", STATS,
	            100);
	assert_line(f, "hasp_deadlocks_total{rule=\"stock\",kind=\"guard\"} 110");
	assert_nowhere(f, "hasp_lock_acquired_total{rule=\"stock\"");
}

TEST(quorum_counts_only_what_it_can_refuse)
{
	section(f, STATS_QUORUM, "q");
	section(f, STATS_VERBS, "LOCK");
	assert_line(f, "hasp_lock_refused_total{rule=\"q\",kind=\"quorum\"} 0");
	assert_line(f, "hasp_lock_writes_refused_total{rule=\"LOCK\",kind=\"verbs\"} 0");
	assert_nowhere(f, "hasp_lock_writes_refused_total{rule=\"q\"");
	assert_nowhere(f, "hasp_lock_deletes_refused_total{rule=\"q\"");
	assert_nowhere(f, "hasp_deadlocks_total{rule=\"q\"");
}

TEST(numbers_of_the_moment_rise_and_fall)
{
	struct section_stats *carts = section(f, STATS_LOCK, "carts");
	struct section_stats *stock = section(f, STATS_GUARD, "stock");

	stats_change(carts, STAT_HELD, true);
	stats_change(carts, STAT_HELD, true);
	stats_change(carts, STAT_WAITERS, true);
	stats_change(stock, STAT_WAITERS, true);
	assert_line(f, "hasp_locks_held{rule=\"carts\",kind=\"lock\"} 2");
	assert_line(f, "hasp_lock_waiters{rule=\"carts\",kind=\"lock\"} 1");
	assert_line(f, "hasp_guard_waiters{rule=\"stock\",kind=\"guard\"} 1");
	assert_nowhere(f, "hasp_lock_waiters{rule=\"stock\"");
	assert_nowhere(f, "hasp_locks_held{rule=\"stock\"");
	stats_change(carts, STAT_HELD, false);
	assert_line(f, "hasp_locks_held{rule=\"carts\",kind=\"lock\"} 1");
	/* Another worker may have counted down before this worker counts up. */
	stats_change(carts, STAT_WAITERS, false);
	stats_change(carts, STAT_WAITERS, false);
	assert_line(f, "hasp_lock_waiters{rule=\"carts\",kind=\"lock\"} -1");
}

TEST(waits_and_holds_are_histograms_of_their_own)
{
	struct section_stats *carts = section(f, STATS_LOCK, "carts");
	struct section_stats *stock = section(f, STATS_GUARD, "stock");

	stats_waited(carts, 0.25);
	stats_held(carts, 1);
	stats_held(carts, 2);
	stats_waited(stock, 4);
	stats_held(stock, 8);
	assert_line(f, "hasp_lock_wait_seconds_sum{rule=\"carts\",kind=\"lock\"} 0.250000");
	assert_line(f, "hasp_lock_hold_seconds_sum{rule=\"carts\",kind=\"lock\"} 3.000000");
	assert_line(f, "hasp_lock_hold_seconds_count{rule=\"carts\",kind=\"lock\"} 2");
	assert_line(f, "hasp_guard_wait_seconds_sum{rule=\"stock\",kind=\"guard\"} 4.000000");
	assert_line(f, "hasp_guard_hold_seconds_sum{rule=\"stock\",kind=\"guard\"} 8.000000");
	assert_nowhere(f, "hasp_lock_wait_seconds_sum{rule=\"stock\"");
}

/* --- workers ------------------------------------------------------------------------------ */

TEST(commands_and_limits_are_counted_by_their_names)
{
	static const char *const outcomes[COMMAND_OUTCOMES] = {
		[COMMAND_PASSED] = "passed",
		[COMMAND_REWRITTEN] = "rewritten",
		[COMMAND_GUARDED] = "guarded",
		[COMMAND_REFUSED] = "refused",
	};
	static const char *const limits[LIMITS] = {
		[LIMIT_MAX_CLIENTS] = "max_clients",
		[LIMIT_CLIENT_OUTPUT] = "client_output_limit",
		[LIMIT_MEMORY] = "memory_limit",
		[LIMIT_NO_MEMORY] = "memory",
		[LIMIT_IDLE] = "client_idle_timeout",
		[LIMIT_LOGIN] = "client_login_timeout",
		[LIMIT_REQUEST] = "max_request",
		[LIMIT_LINKS] = "links_max",
	};

	for (size_t i = 0; i < COMMAND_OUTCOMES; i++)
		counts.commands[i] = 10 + i;
	for (size_t i = 0; i < LIMITS; i++)
		counts.limits[i] = 20 + i;
	counts.jobs_given_up = 99;
	f->shared.clients = 7;
	assert_line(f, "hasp_clients 7");
	assert_each(f, "hasp_commands_total{outcome=\"", outcomes, "\"}", COMMAND_OUTCOMES, 10);
	assert_each(f, "hasp_limit_reached_total{limit=\"", limits, "\"}", LIMITS, 20);
	assert_line(f, "hasp_limit_reached_total{limit=\"calls\"} 99");
}

TEST(process_tells_its_state_and_its_limits)
{
	f->shared.started_at = 1700000000;
	config = (struct config){ .max_clients = 10, .memory_limit = 4096 };
	counts.link_ends[LINK_UNREACHABLE] = 1;
	counts.link_ends[LINK_REFUSED] = 2;
	counts.link_ends[LINK_BROKEN] = 3;
	counts.link_ends[LINK_CUT] = 4;
	counts.accept_failures = 5;
	counts.bytes[STREAM_CLIENT].read = 6;
	counts.bytes[STREAM_UPSTREAM].written = 7;
	assert_line(f, "hasp_ready 1");
	assert_line(f, "hasp_paused 0");
	assert_line(f, "hasp_start_time_seconds 1700000000");
	assert_line(f, "hasp_limit{limit=\"max_clients\"} 10");
	assert_line(f, "hasp_limit{limit=\"memory_limit\"} 4096");
	assert_nowhere(f, "hasp_limit{limit=\"links_max\"}");
	assert_line(f, "hasp_upstream_errors_total{kind=\"unreachable\"} 1");
	assert_line(f, "hasp_upstream_errors_total{kind=\"refused\"} 2");
	assert_line(f, "hasp_upstream_errors_total{kind=\"broken\"} 7");
	assert_line(f, "hasp_accept_failures_total 5");
	assert_line(f, "hasp_bytes_total{peer=\"client\",direction=\"read\"} 6");
	assert_line(f, "hasp_bytes_total{peer=\"upstream\",direction=\"written\"} 7");
	not_ready = "no server is reachable";
	f->shared.task = WORKERS_PAUSE;
	assert_line(f, "hasp_ready 0");
	assert_line(f, "hasp_paused 1");
	not_ready = NULL;
}

TEST(observed_events_are_told_by_rule_and_kind)
{
	assert_line(*state,
	            "hasp_observed_total{rule=\"carts\",kind=\"lock\",event=\"lock_lost\"} 8");
	assert_line(
		*state,
		"hasp_observed_total{rule=\"carts\",kind=\"guard\",event=\"lost_update\"} 9");
}

TEST(memory_of_the_workers_is_written_if_all_have_answered)
{
	gauges.memory[WORKER_MEMORY_CLIENTS] = 1000;
	gauges.memory[WORKER_MEMORY_JOBS] = 2000;
	assert_line(f, "hasp_memory_bytes{what=\"clients\"} 1000");
	assert_line(f, "hasp_memory_bytes{what=\"calls\"} 2000");
	gauges.answered = 1;
	assert_line(f, "hasp_workers 2");
	assert_line(f, "hasp_workers_answered 1");
	assert_nowhere(f, "hasp_memory_bytes{what=\"clients\"}");
	assert_nowhere(f, "hasp_memory_bytes{what=\"resident\"} 0\n");
}

TEST(servers_are_told_apart)
{
	f->nodes[0].state = WORKER_NODE_UP;
	f->nodes[0].links[LINK_KIND_SHARED] = 4;
	f->nodes[0].links[LINK_KIND_PRIVATE] = 5;
	f->nodes[0].links[LINK_KIND_OWN] = 6;
	f->nodes[0].latency.n[0] = 3;
	f->nodes[0].latency.total_us = 1500000;
	gauges.nnodes = 2;
	assert_line(f, "hasp_upstream_up{node=\"a:1\"} 1");
	assert_line(f, "hasp_upstream_up{node=\"b:2\"} 0");
	assert_line(f, "hasp_links{node=\"a:1\",kind=\"shared\"} 4");
	assert_line(f, "hasp_links{node=\"a:1\",kind=\"private\"} 5");
	assert_line(f, "hasp_links{node=\"a:1\",kind=\"own\"} 6");
	assert_line(f, "hasp_upstream_latency_seconds_sum{node=\"a:1\"} 1.500000");
	assert_line(f, "hasp_upstream_latency_seconds_count{node=\"b:2\"} 0");
	assert_nowhere(f, "hasp_quorum_server");
	gauges.answered = 1;
	assert_nowhere(f, "# TYPE hasp_upstream_up ");
	assert_nowhere(f, "# TYPE hasp_links ");
}

TEST(server_of_a_quorum_is_up_before_it_counts)
{
	static const enum worker_node_state states[] = { WORKER_NODE_DOWN,
		                                         WORKER_NODE_UNCOUNTED,
		                                         WORKER_NODE_UP };

	gauges.nnodes = 3;
	for (size_t i = 0; i < 3; i++) {
		strcpy(f->nodes[i].quorum, "q");
		f->nodes[i].state = states[i];
	}
	assert_line(f, "hasp_quorum_server_up{quorum=\"q\",node=\"a:1\"} 0");
	assert_line(f, "hasp_quorum_server_up{quorum=\"q\",node=\"b:2\"} 1");
	assert_line(f, "hasp_quorum_server_up{quorum=\"q\",node=\"c:3\"} 1");
	assert_line(f, "hasp_quorum_server_counted{quorum=\"q\",node=\"b:2\"} 0");
	assert_line(f, "hasp_quorum_server_counted{quorum=\"q\",node=\"c:3\"} 1");
	assert_nowhere(f, "hasp_upstream_up{");
	assert_nowhere(f, "hasp_links{");
}
