/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/admin_internal.h"

#include <math.h>

#include "base/clock.h"
#include "base/quote.h"
#include "client/client.h"
#include "config/config.h"
#include "config/option.h"
#include "lock/events/stats.h"
#include "resp/write.h"
#include "worker/worker_live.h"
#include "worker/worker_metrics.h"

/* --- SHOW LOCKS, SHOW GUARDS, SHOW WAITERS -------------------------------------------- */

static void add_what(struct rows *rows, const struct live_row *row)
{
	rows_add_text(rows, "key", row->key);
	rows_add_int(rows, "key_bytes", (int64_t)row->key_len);
	rows_add_int(rows, "db", row->db);
	rows_add_str(rows, "kind", row->section ? stats_kind_word(row->section->kind) : NULL);
	rows_add_str(rows, "rule", row->section ? row->section->name : NULL);
	rows_add_text(rows, "client", row->client);
	rows_add_int(rows, "client_id", (int64_t)row->client_id);
}

/* `trouble`: why Redis cannot serve; NULL: it can. Quorum locks do not depend on that Redis. */
static void add_lock(struct rows *rows, const struct live_row *row, const char *trouble,
                     double now)
{
	bool of_quorum = row->section && row->section->kind == STATS_QUORUM;

	rows_begin(rows, 14);
	add_what(rows, row);
	rows_add_text(rows, "owner", row->owner);
	rows_add_ms(rows, "held_ms", now - row->since);
	if (isinf(row->until))
		rows_add_int(rows, "lease_ms", -1);
	else
		rows_add_ms(rows, "lease_ms", row->until - now);
	rows_add_str(rows, "renewed", row->renewed ? "yes" : "no");
	rows_add_int(rows, "fence", row->fence);
	rows_add_int(rows, "waiters", (int64_t)row->waiters);
	rows_add_str(rows, "state", trouble && !of_quorum ? "unknown" : "held");
}

static bool show_held(const struct show_env *env, enum live_what what, struct rows *rows)
{
	const char *trouble = workers_upstream_trouble(env->shared);
	struct live live;
	double now;

	workers_live(env->shared, what, SIZE_MAX, CONSOLE_ASK_MS, &live);
	now = clock_now();
	for (size_t i = 0; i < live.held.n; i++)
		add_lock(rows, &live.held.rows[i], trouble, now);
	/* An answer without rows would say that no lock is held, but hasp cannot know. */
	if (live.whole && live.held.n == 0)
		rows->unknown = trouble;
	live_fini(&live);
	return live.whole && !rows->unknown;
}

static bool show_locks(const struct show_env *env, struct rows *rows)
{
	return show_held(env, LIVE_LOCKS, rows);
}

static bool show_guards(const struct show_env *env, struct rows *rows)
{
	return show_held(env, LIVE_GUARDS, rows);
}

static bool show_waiters(const struct show_env *env, struct rows *rows)
{
	struct live live;
	double now;

	workers_live(env->shared, LIVE_WAITING, SIZE_MAX, CONSOLE_ASK_MS, &live);
	now = clock_now();
	for (size_t i = 0; i < live.waiters.n; i++) {
		const struct live_row *row = &live.waiters.rows[i];

		rows_begin(rows, 9);
		add_what(rows, row);
		rows_add_ms(rows, "waited_ms", now - row->since);
		rows_add_ms(rows, "left_ms", row->until - now);
	}
	live_fini(&live);
	return live.whole;
}

/* --- SHOW CLIENTS --------------------------------------------------------------------- */

/* How many clients a worker handles in one step. */
#define CLIENTS_STEP 16

static void add_client(void *arg, const struct client_figures *f)
{
	struct rows *rows = arg;

	rows_begin(rows, 15);
	rows_add_int(rows, "id", (int64_t)f->id);
	rows_add_str(rows, "address", f->address);
	rows_add_str(rows, "name", f->name);
	rows_add_str(rows, "user", f->user);
	rows_add_str(rows, "listener", f->listener);
	rows_add_int(rows, "db", f->db);
	rows_add_int(rows, "protocol", f->protocol);
	rows_add_str(rows, "state", f->state);
	rows_add_ms(rows, "waits_ms", f->waits);
	rows_add_str(rows, "link", f->link);
	rows_add_int(rows, "locks", (int64_t)f->nlocks);
	rows_add_int(rows, "guards", (int64_t)f->nguards);
	rows_add_ms(rows, "idle_ms", f->idle);
	rows_add_ms(rows, "connected_ms", f->connected);
	rows_add_int(rows, "memory", (int64_t)f->nbytes);
}

/* Writes the rows of some clients. `arg`: the protocol, an int. a->n: the number of rows. */
static bool tell_clients(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	struct rows rows;

	rows_init(&rows, *(const int *)arg);
	rows.bytes = a->out;
	a->cursor = client_list_walk(w->clients, a->cursor, CLIENTS_STEP, add_client, &rows);
	a->out = rows.bytes;
	a->n += rows.n;
	return a->cursor == 0;
}

static bool show_clients(const struct show_env *env, struct rows *rows)
{
	struct worker_answers answers;
	size_t n = workers_ask(env->shared, tell_clients, &rows->protocol,
	                       sizeof(rows->protocol), CONSOLE_ASK_MS, &answers);
	bool whole = n == answers.n;

	for (size_t i = 0; i < answers.n; i++)
		rows_append(rows, answers.v[i].n, buf_slice(&answers.v[i].out));
	worker_answers_fini(&answers);
	return whole;
}

/* --- SHOW STATS -------------------------------------------------------------------------- */

static bool show_stats(const struct show_env *env, struct rows *rows)
{
	static const char *const outcomes[COMMAND_OUTCOMES] = {
		[COMMAND_PASSED] = "commands_passed",
		[COMMAND_REWRITTEN] = "commands_rewritten",
		[COMMAND_GUARDED] = "commands_guarded",
		[COMMAND_REFUSED] = "commands_refused",
	};
	struct worker_shared *shared = env->shared;
	struct worker_counts counts;
	struct stats_sums t = stats_total(shared->stats); /* counts each event once */

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

static bool show_nodes(const struct show_env *env, struct rows *rows)
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

static bool show_links(const struct show_env *env, struct rows *rows)
{
	return each_node(env, rows, add_links);
}

/* --- other answers -------------------------------------------------------------------- */

/* Writes the rows. Returns false if the rows are not known; see rows.unknown. */
typedef bool show_fn(const struct show_env *env, struct rows *rows);

struct show {
	const char *name;
	const char *help;
	show_fn *run; /* NULL: show_discovered(), which has no rows */
	bool asks; /* `run` asks the workers, so it runs as a job */
};

static bool show_version(const struct show_env *env, struct rows *rows)
{
	(void)env;
	rows_begin(rows, 1);
	rows_add_str(rows, "version", "hasp " PACKAGE_VERSION);
	return true;
}

static void add_option(void *arg, const char *section, const struct option *o, const void *base)
{
	struct rows *rows = arg;
	struct buf value = BUF_INIT;

	option_print(o, base, &value);
	rows_begin(rows, 5);
	rows_add_str(rows, "section", section);
	rows_add_str(rows, "option", o->name);
	rows_add_text(rows, "value", buf_slice(&value));
	rows_add_str(rows, "default", o->def);
	rows_add_str(rows, "changes", o->reloadable ? "reload" : "restart");
	buf_release(&value);
}

static bool show_config(const struct show_env *env, struct rows *rows)
{
	config_each_option(env->config, add_option, rows);
	return true;
}

static void add_section(void *arg, enum stats_kind kind, const char *name,
                        const struct stats_sums *sums)
{
	struct rows *rows = arg;
	size_t n = 0;

	for (int i = 0; i < STATS; i++)
		n += stats_field_counts((enum stats_field)i, kind);
	rows_begin(rows, 2 + n);
	rows_add_str(rows, "kind", stats_kind_word(kind));
	rows_add_str(rows, "name", name);
	for (int i = 0; i < STATS; i++) {
		if (stats_field_counts((enum stats_field)i, kind))
			rows_add_int(rows, stats_field_word((enum stats_field)i),
			             (int64_t)sums->n[i]);
	}
}

static bool show_rules(const struct show_env *env, struct rows *rows)
{
	stats_each(env->shared->stats, add_section, rows);
	return true;
}

/* One worker's answer to SHOW MEMORY. */
struct worker_figures {
	size_t clients, memory, memory_limit, closed_for_memory;
};

static bool tell_figures(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	const struct client_env *env = w->clients;
	struct worker_figures f = {
		.clients = env->n,
		.memory = env->account.total,
		.memory_limit = env->account.limit,
		.closed_for_memory = (size_t)env->nover,
	};

	(void)arg;
	buf_append(&a->out, slice_of(&f, sizeof(f)));
	return true;
}

static bool show_workers(const struct show_env *env, struct rows *rows)
{
	struct worker_answers answers;

	workers_ask(env->shared, tell_figures, NULL, 0, CONSOLE_ASK_MS, &answers);
	for (size_t i = 0; i < answers.n; i++) {
		struct worker_figures f = { 0 };

		if (answers.v[i].whole)
			memcpy(&f, buf_head(&answers.v[i].out), sizeof(f));
		rows_begin(rows, 6);
		rows_add_int(rows, "worker", (int64_t)i);
		rows_add_str(rows, "answers", answers.v[i].whole ? "yes" : "no");
		rows_add_int(rows, "clients", (int64_t)f.clients);
		rows_add_int(rows, "memory", (int64_t)f.memory);
		rows_add_int(rows, "memory_limit", (int64_t)f.memory_limit);
		rows_add_int(rows, "closed_for_memory", (int64_t)f.closed_for_memory);
	}
	worker_answers_fini(&answers);
	return true;
}

/* Answers with the text of an ini file. Runs on the admin thread, because a job's low priority
 * could make workers wait for the tracker's lock. */
static void show_discovered(const struct show_env *env, int protocol, struct buf *out)
{
	struct buf ini = BUF_INIT;

	if (!env->config->discover) {
		buf_puts(out, "-ERR hasp does not discover: use --discover or a section "
		              "[discover]\r\n");
		return;
	}
	workers_discovered(env->shared, env->config, true, &ini);
	if (protocol == 3) {
		buf_printf(out, "=%zu\r\ntxt:", buf_len(&ini) + strlen("txt:"));
		buf_append(out, buf_slice(&ini));
		buf_puts(out, "\r\n");
	} else {
		resp_write_bulk(out, buf_slice(&ini));
	}
	buf_release(&ini);
}

static const struct show shows[] = {
	{ "VERSION", "This hasp's version.", show_version, false },
	{ "LOCKS", "The locks that clients have, the longest held first.", show_locks, true },
	{ "WAITERS", "The clients that wait for a lock or a guard.", show_waiters, true },
	{ "GUARDS", "The guarded keys that clients have read and may write.", show_guards,
	  true },
	{ "STATS", "Counters of all commands, and of all rules together.", show_stats, false },
	{ "NODES", "The servers that hasp connects to.", show_nodes, true },
	{ "LINKS", "The number of links to each server, by kind.", show_links, true },
	{ "CLIENTS", "Each client, with its state, locks and memory.", show_clients, true },
	{ "CONFIG", "The options in force; secrets are ***.", show_config, false },
	{ "RULES", "Each rule and guard, with counters of its keys' commands.", show_rules,
	  false },
	{ "MEMORY", "Each worker, with its clients and their memory.", show_workers, true },
	{ "DISCOVERED", "The sections that discovery proposes so far, as a file.", NULL,
	  false },
};
#define NSHOWS (sizeof(shows) / sizeof(shows[0]))

const char *console_show_name(size_t i, const char **help)
{
	if (i >= NSHOWS)
		return NULL;
	*help = shows[i].help;
	return shows[i].name;
}

struct show_run {
	show_fn *fn;
	size_t protocol; /* version of RESP: 2 or 3 */
};

/* Appends the answer. `arg`: a struct show_run. */
static void show_write(const struct show_env *env, const void *arg, struct buf *out)
{
	const struct show_run *run = arg;
	struct rows rows;

	rows_init(&rows, (int)run->protocol);
	if (run->fn(env, &rows))
		rows_end(&rows, out);
	else if (rows.unknown)
		buf_printf(out, "-ERR unknown: %s\r\n", rows.unknown);
	else
		buf_puts(out, "-ERR not all workers answered\r\n");
	rows_fini(&rows);
}

void console_show(struct console *c, const struct resp_view *req, struct buf *out)
{
	const struct show_env env = { c->admin->shared, c->admin->config };

	for (size_t i = 0; i < NSHOWS; i++) {
		const struct show_run run = { shows[i].run, (size_t)c->protocol };

		if (!slice_is(req->argv[1], shows[i].name))
			continue;
		if (!shows[i].run)
			show_discovered(&env, c->protocol, out);
		else if (shows[i].asks)
			console_job_begin(c, show_write, &run, sizeof(run));
		else
			show_write(&env, &run, out);
		return;
	}
	buf_printf(out, "-ERR unknown SHOW %s; try SHOW HELP\r\n", QUOTE(req->argv[1]));
}
