/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/http_internal.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "config/config.h"
#include "lock/events/stats.h"
#include "worker/worker_live.h"
#include "worker/worker_metrics.h"

/* The most entries in each list. */
#define LIVE_MAX_SHOWN 200
#define CONTENDED_MAX_SHOWN 30
#define NODES_MAX_SHOWN 50
/* How long a worker may take to answer. */
#define ASK_MS 1000

/* --- the configuration -------------------------------------------------------------------- */

static const char *owner_word(enum owner_kind owner)
{
	static const char *const words[] = {
		[OWNER_CONNECTION] = "connection",
		[OWNER_ADDRESS] = "address",
		[OWNER_NAME] = "name",
		[OWNER_USER] = "user",
		[OWNER_VALUE] = "value",
	};

	return words[owner];
}

static void write_mean(struct json *j, const char *name, const struct metrics_sums *sums)
{
	uint64_t n = 0;

	for (size_t i = 0; i < METRICS_BUCKETS; i++)
		n += sums->n[i];
	if (n)
		json_number(j, name, (double)sums->total_us / (double)n / 1000, 2);
	else
		json_word(j, name, NULL);
}

/* The section whose totals write_totals() writes. */
struct wanted {
	enum stats_kind kind;
	const char *name;
	struct json *j;
};

static void write_totals(void *arg, enum stats_kind kind, const char *name,
                         const struct stats_sums *sums)
{
	const struct wanted *w = arg;

	if (kind != w->kind || !slice_same_str(name, w->name))
		return;
	json_open(w->j, "totals", '{');
	for (size_t i = 0; i < STATS; i++)
		if (stats_field_counts((enum stats_field)i, kind))
			json_count(w->j, stats_field_word((enum stats_field)i), sums->n[i]);
	json_close(w->j, '}');
	if (kind != STATS_GUARD)
		json_count(w->j, "held", sums->now[STAT_HELD]);
	json_count(w->j, "waiting", sums->now[STAT_WAITERS]);
	write_mean(w->j, "mean_wait_ms", &sums->waited);
	write_mean(w->j, "mean_hold_ms", &sums->held);
}

static void write_event(void *arg, const char *kind, const char *rule, const char *event,
                        uint64_t n)
{
	const struct wanted *w = arg;

	if (slice_same_str(kind, stats_kind_word(w->kind)) && slice_same_str(rule, w->name))
		json_count(w->j, event, n);
}

struct section_facts {
	enum stats_kind kind;
	const char *name;
	const struct strings *patterns; /* NULL: the section has no patterns */
	enum owner_kind owner;
	enum rule_mode mode;
	int64_t lease_ms, wait_ms, max_hold_ms;
};

static void write_section(struct json *j, struct worker_shared *shared,
                          const struct section_facts *f)
{
	struct wanted w = { f->kind, f->name, j };

	json_open(j, NULL, '{');
	json_word(j, "kind", stats_kind_word(f->kind));
	json_word(j, "name", f->name);
	json_open(j, "patterns", '[');
	for (size_t i = 0; f->patterns && i < f->patterns->n; i++)
		json_text(j, NULL, strings_at(f->patterns, i));
	json_close(j, ']');
	json_word(j, "owner", owner_word(f->owner));
	json_word(j, "mode", f->mode == MODE_OBSERVE ? "observe" : "enforce");
	json_count(j, "lease_ms", (uint64_t)f->lease_ms);
	json_count(j, "wait_ms", (uint64_t)f->wait_ms);
	json_count(j, "max_hold_ms", (uint64_t)f->max_hold_ms);
	stats_each(shared->stats, write_totals, &w);
	if (f->mode == MODE_OBSERVE) {
		json_open(j, "observed", '{');
		workers_each_observed(shared, write_event, &w);
		json_close(j, '}');
	}
	json_close(j, '}');
}

static void write_sections(struct json *j, struct worker_shared *shared, const struct config *c)
{
	const struct quorum_settings *quorum = config_quorum(c);

	json_open(j, "sections", '[');
	for (size_t i = 0; i < c->nrules; i++) {
		const struct rule *r = c->rules[i];
		write_section(j, shared,
		              &(struct section_facts){ STATS_LOCK, r->section.name,
		                                       &r->section.patterns, r->owner, r->mode,
		                                       r->lease_ms, r->wait_ms,
		                                       r->max_hold_ms });
	}
	for (size_t i = 0; i < c->nguards; i++) {
		const struct guard *g = c->guards[i];
		write_section(j, shared,
		              &(struct section_facts){ STATS_GUARD, g->section.name,
		                                       &g->section.patterns, OWNER_CONNECTION,
		                                       g->mode, g->lease_ms, g->wait_ms, 0 });
	}
	if (quorum)
		write_section(j, shared,
		              &(struct section_facts){ STATS_QUORUM, quorum->section.name, NULL,
		                                       c->verbs.owner, MODE_ENFORCE,
		                                       c->verbs.lease_ms, 0, 0 });
	if (c->verbs.enabled)
		write_section(j, shared,
		              &(struct section_facts){ STATS_VERBS, c->verbs.names[VERB_LOCK],
		                                       NULL, c->verbs.owner, MODE_ENFORCE,
		                                       c->verbs.lease_ms, 0,
		                                       c->verbs.max_hold_ms });
	json_close(j, ']');
}

static void write_servers(struct json *j, struct worker_shared *shared)
{
	struct worker_gauges g;

	worker_gauges_ask(shared, ASK_MS, &g);
	json_open(j, "nodes", '[');
	for (size_t i = 0, nshown = 0; i < g.nnodes && nshown < NODES_MAX_SHOWN; i++) {
		if (*g.nodes[i].quorum)
			continue;
		nshown++;
		json_open(j, NULL, '{');
		json_word(j, "name", g.nodes[i].name);
		json_bool(j, "up", g.nodes[i].state == WORKER_NODE_UP);
		write_mean(j, "mean_latency_ms", &g.nodes[i].latency);
		json_word(j, "evicts", *g.nodes[i].evicts ? g.nodes[i].evicts : NULL);
		json_close(j, '}');
	}
	json_close(j, ']');
	worker_gauges_fini(&g);
}

static void write_upstream(struct json *j, struct worker_shared *shared, const struct config *c)
{
	const struct strings *seeds = c->master ? &c->sentinels : &c->cluster;

	json_open(j, "upstream", '{');
	json_word(j, "kind", c->master ? "sentinels" : c->cluster.n ? "cluster" : "server");
	json_word(j, "master", c->master);
	json_open(j, "addresses", '[');
	for (size_t i = 0; i < seeds->n; i++)
		json_text(j, NULL, strings_at(seeds, i));
	if (seeds->n == 0)
		json_word(j, NULL, c->address);
	json_close(j, ']');
	json_word(j, "trouble", workers_upstream_trouble(shared));
	write_servers(j, shared);
	json_close(j, '}');
}

/* Writes the progress of discovery, or null if hasp does not discover. */
static void write_discover(struct json *j, struct worker_shared *shared, const struct config *c)
{
	if (!c->discover) {
		json_word(j, "discover", NULL);
		return;
	}
	json_open(j, "discover", '{');
	workers_discover_write(shared, j);
	json_close(j, '}');
}

/* --- the workers' answers ----------------------------------------------------------------- */

static void write_row(struct json *j, const struct live_row *row, double now)
{
	const struct section_stats *s = row->section;
	double held = now - row->since, left = row->until - now;

	json_text(j, "key", row->key);
	json_count(j, "key_bytes", row->key_len);
	json_number(j, "db", row->db, 0);
	json_word(j, "kind", s ? stats_kind_word(s->kind) : NULL);
	json_word(j, "section", s ? s->name : NULL);
	json_text(j, "client", row->client);
	json_number(j, "since_ms", held > 0 ? held * 1000 : 0, 0);
	json_number(j, "left_ms", left > 0 ? left * 1000 : 0, 0);
}

/* `trouble`: why Redis cannot serve, and may have lost the locks; NULL: Redis can serve. */
static void write_locks(struct json *j, const struct live_list *locks, const char *trouble,
                        double now)
{
	json_open(j, "locks", '{');
	json_count(j, "total", locks->total);
	json_bool(j, "known", !trouble);
	json_open(j, "rows", '[');
	for (size_t i = 0; i < locks->n; i++) {
		const struct live_row *row = &locks->rows[i];

		json_open(j, NULL, '{');
		write_row(j, row, now);
		json_text(j, "owner", row->owner);
		json_bool(j, "renewed", row->renewed);
		json_count(j, "fence", (uint64_t)row->fence);
		json_count(j, "waiters", row->waiters);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

static void write_waiters(struct json *j, const struct live_list *waiters, double now)
{
	json_open(j, "waiters", '{');
	json_count(j, "total", waiters->total);
	json_open(j, "rows", '[');
	for (size_t i = 0; i < waiters->n; i++) {
		json_open(j, NULL, '{');
		write_row(j, &waiters->rows[i], now);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

static void write_contended(struct json *j, struct worker_shared *shared)
{
	struct contended_key keys[CONTENDED_MAX_SHOWN];
	size_t n = workers_contended(shared, keys, CONTENDED_MAX_SHOWN, ASK_MS);

	json_open(j, "contended", '{');
	json_number(j, "window_s", 2 * TOP_KEYS_SECONDS, 0);
	json_open(j, "rows", '[');
	for (size_t i = 0; i < n; i++) {
		const struct top_key *k = &keys[i].key;
		size_t shown = k->len < TOP_KEYS_HEAD ? k->len : TOP_KEYS_HEAD;

		json_open(j, NULL, '{');
		json_text(j, "key", slice_of(k->head, shown));
		json_count(j, "key_bytes", k->len);
		json_number(j, "db", (double)k->db, 0);
		json_word(j, "kind", stats_kind_word(keys[i].kind));
		json_word(j, "section", keys[i].section);
		json_count(j, "refused", keys[i].counts.n[CONTENTION_REFUSED]);
		json_count(j, "waited", keys[i].counts.n[CONTENTION_WAITED]);
		json_count(j, "missed", keys[i].counts.missed);
		json_close(j, '}');
	}
	json_close(j, ']');
	json_close(j, '}');
}

static void write_live(struct json *j, struct worker_shared *shared)
{
	struct live live;
	double now;

	workers_live(shared, LIVE_HELD, LIVE_MAX_SHOWN, ASK_MS, &live);
	now = clock_now();
	json_bool(j, "whole", live.whole);
	write_locks(j, &live.held, workers_upstream_trouble(shared), now);
	write_waiters(j, &live.waiters, now);
	live_fini(&live);
}

void http_status_write(struct worker_shared *shared, const struct config *config,
                       struct http_history *history, double started, struct buf *out)
{
	struct json j = { out, false };

	json_open(&j, NULL, '{');
	json_word(&j, "version", PACKAGE_VERSION);
	json_number(&j, "uptime_s", clock_now() - started, 0);
	json_word(&j, "not_ready", workers_not_ready(shared));
	json_count(&j, "workers", shared->nworkers);
	json_count(&j, "clients", (uint64_t)atomic_load(&shared->clients));
	write_upstream(&j, shared, config);
	write_sections(&j, shared, config);
	write_discover(&j, shared, config);
	write_live(&j, shared);
	write_contended(&j, shared);
	http_history_write(history, clock_now(), &j);
	json_close(&j, '}');
	buf_puts(out, "\n");
}
