/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/redis_internal.h"

#include <stdlib.h>

/* --- WATCH -------------------------------------------------------------------------------- */

void redis_watch_touch(struct sim_redis *s, int db, struct slice name)
{
	for (struct list *at = s->conns.next; at != &s->conns; at = at->next) {
		struct sim_redis_conn *c = container_of(at, struct sim_redis_conn, node);
		for (size_t i = 0; i < c->watched.n; i++)
			if (c->watched.v[i].score == db && slice_eq(c->watched.v[i].name, name))
				c->watch_failed = true;
	}
}

void redis_watch_end(struct sim_redis_conn *c)
{
	redis_items_clear(&c->watched);
	c->watch_failed = false;
}

static void redis_watch(struct redis_call *x)
{
	struct redis_items *watched = &x->c->watched;

	if (x->c->in_multi) {
		redis_reply_error(x, "ERR WATCH inside MULTI is not allowed");
		return;
	}
	for (size_t i = 1; i < x->argc; i++) {
		redis_key_find(x, x->argv[i]); /* deletes it now if it has expired */
		redis_items_add(watched, watched->n, x->argv[i])->score = *x->db;
	}
	redis_reply_ok(x);
}

static void redis_unwatch(struct redis_call *x)
{
	redis_watch_end(x->c);
	redis_reply_ok(x);
}

/* --- MULTI -------------------------------------------------------------------------------- */

void redis_multi_end(struct sim_redis_conn *c)
{
	for (size_t i = 0; i < c->nqueued; i++) {
		for (size_t k = 0; k < c->queue[i].argc; k++)
			free((char *)(uintptr_t)c->queue[i].argv[k].p);
		free(c->queue[i].argv);
	}
	free(c->queue);
	c->queue = NULL;
	c->nqueued = 0;
	c->in_multi = c->multi_failed = false;
}

void redis_multi_queue(struct redis_call *x)
{
	struct sim_redis_conn *c = x->c;
	struct redis_queued *q;

	c->queue = xrealloc(c->queue, (c->nqueued + 1) * sizeof(*c->queue));
	q = &c->queue[c->nqueued++];
	q->argc = x->argc;
	q->argv = xcalloc(x->argc, sizeof(*q->argv));
	for (size_t i = 0; i < x->argc; i++)
		redis_bytes_set(&q->argv[i], x->argv[i]);
	redis_reply_status(x, "QUEUED");
}

static void redis_multi(struct redis_call *x)
{
	if (x->c->in_multi) {
		redis_reply_error(x, "ERR MULTI calls can not be nested");
		return;
	}
	x->c->in_multi = true;
	redis_reply_ok(x);
}

static void redis_discard(struct redis_call *x)
{
	if (!x->c->in_multi) {
		redis_reply_error(x, "ERR DISCARD without MULTI");
		return;
	}
	redis_multi_end(x->c);
	redis_watch_end(x->c);
	redis_reply_ok(x);
}

static void run_queued(struct redis_call *x)
{
	struct sim_redis_conn *c = x->c;

	redis_reply_array(x, c->nqueued);
	for (size_t i = 0; i < c->nqueued; i++) {
		struct redis_call each = *x;
		each.argv = c->queue[i].argv;
		each.argc = c->queue[i].argc;
		each.resp = c->resp;
		each.command = redis_command_find(each.argv, each.argc, NULL);
		redis_call_run(&each);
	}
}

static void redis_exec(struct redis_call *x)
{
	struct sim_redis_conn *c = x->c;

	if (!c->in_multi) {
		redis_reply_error(x, "ERR EXEC without MULTI");
		return;
	}
	for (size_t i = 0; i < c->watched.n; i++) {
		struct redis_call in_db = *x;
		int db = (int)c->watched.v[i].score;
		in_db.db = &db;
		redis_key_find(&in_db, c->watched.v[i].name); /* notes if it has expired */
	}
	if (c->multi_failed) {
		redis_reply_error(
			x, "EXECABORT Transaction discarded because of previous errors.");
	} else if (c->watch_failed) {
		redis_reply_nil_array(x);
	} else {
		run_queued(x);
	}
	redis_multi_end(c);
	redis_watch_end(c);
}

const struct redis_command redis_transaction_commands[] = {
	{ "watch", -2, REDIS_NOSCRIPT, 1, -1, 1, redis_watch, 0 },
	{ "unwatch", 1, REDIS_NOSCRIPT, 0, 0, 0, redis_unwatch, 0 },
	{ "multi", 1, REDIS_NOSCRIPT, 0, 0, 0, redis_multi, 0 },
	{ "discard", 1, REDIS_NOSCRIPT, 0, 0, 0, redis_discard, 0 },
	{ "exec", 1, REDIS_NOSCRIPT, 0, 0, 0, redis_exec, 0 },
	{ 0 },
};
