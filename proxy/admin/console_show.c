/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/admin_internal.h"
#include "base/quote.h"
#include "client/client.h"
#include "config/config.h"
#include "config/option.h"
#include "lock/events/stats.h"
#include "resp/write.h"
#include "worker/worker_ask.h"

struct show {
	const char *name;
	const char *help;
	console_show_fn *run; /* NULL: show_discovered(), which has no rows */
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
	{ "LOCKS", "The locks that clients have, the longest held first.", console_show_locks,
	  true },
	{ "WAITERS", "The clients that wait for a lock or a guard.", console_show_waiters,
	  true },
	{ "GUARDS", "The guarded keys that clients have read and may write.",
	  console_show_guards, true },
	{ "STATS", "Counters of all commands, and of all rules together.", console_show_stats,
	  false },
	{ "NODES", "The servers that hasp connects to.", console_show_nodes, true },
	{ "LINKS", "The number of links to each server, by kind.", console_show_links, true },
	{ "CLIENTS", "Each client, with its state, locks and memory.", console_show_clients,
	  true },
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
	console_show_fn *fn;
	size_t protocol; /* 2 or 3 */
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
