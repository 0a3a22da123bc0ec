/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/admin_internal.h"
#include "base/quote.h"
#include "client/client.h"
#include "commands/args.h"

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

bool console_show_clients(const struct show_env *env, struct rows *rows)
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

struct kill {
	uint64_t id;
	char by[128];
};

static bool kill_client(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	const struct kill *k = arg;
	char reason[160];

	if (client_list_worker(k->id) != w->number)
		return true;
	snprintf(reason, sizeof(reason), "killed by %s", k->by);
	(void)client_list_kill(w->clients, k->id, reason, &a->out);
	return true;
}

static void kill_by_id(const struct show_env *env, const void *arg, struct buf *out)
{
	const struct kill *k = arg;
	struct worker_answers answers;
	size_t n = workers_ask(env->shared, kill_client, k, sizeof(*k), CONSOLE_ASK_MS,
	                       &answers);

	for (size_t i = 0; i < answers.n; i++) {
		struct slice client = buf_slice(&answers.v[i].out);

		if (client.n == 0)
			continue;
		buf_puts(out, "+OK\r\n");
		log_info("console command=\"KILL CLIENT %lld\" client=%s by=\"%s\"",
		         (long long)k->id, QUOTE(client), k->by);
	}
	if (buf_len(out) == 0 && n < answers.n)
		buf_puts(out, "-ERR not all workers answered\r\n");
	else if (buf_len(out) == 0)
		buf_printf(out, "-ERR no client has the id %lld\r\n", (long long)k->id);
	worker_answers_fini(&answers);
}

void console_kill(struct console *c, const struct resp_view *req, struct buf *out)
{
	struct kill k = { 0 };
	int64_t id;

	if (!slice_is(req->argv[1], "client") || !args_integer(req->argv[2], &id) || id < 0) {
		buf_puts(out, "-ERR syntax error; expected KILL CLIENT id\r\n");
		return;
	}
	k.id = (uint64_t)id;
	snprintf(k.by, sizeof(k.by), "%s", c->peer);
	console_job_begin(c, kill_by_id, &k, sizeof(k));
}
