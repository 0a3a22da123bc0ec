/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/watcher_internal.h"

#include "base/fatal.h"

static void query_end(struct query *q, const char *why)
{
	redisReply *replies[QUERY_MAX];
	size_t n = q->nreplies;

	for (size_t i = 0; i < n; i++)
		replies[i] = q->replies[i];
	q->nreplies = 0;
	loop_timer_stop(&q->timer);
	own_conn_close(&q->conn);
	q->done(q->arg, why ? NULL : replies, why);
	for (size_t i = 0; i < n; i++)
		freeReplyObject(replies[i]);
}

/* `tag`: the query, but for AUTH. */
static void query_on_reply(void *owner, void *tag, redisReply **reply)
{
	struct query *q = owner;

	if (!tag)
		return;
	if (!*reply) {
		query_end(q, "its answer is not understood");
		return;
	}
	q->replies[q->nreplies++] = *reply;
	*reply = NULL;
	if (q->nreplies == q->n)
		query_end(q, NULL);
}

static void query_on_down(void *owner, enum link_end end, const char *reason)
{
	(void)end;
	query_end(owner, reason);
}

static const struct own_conn_ops query_conn_ops = { query_on_reply, query_on_down };

static void query_on_timer(void *arg)
{
	query_end(arg, "it does not answer in time");
}

void query_init(struct query *q, struct link_env *env,
                void (*done)(void *arg, redisReply *const *replies, const char *why), void *arg)
{
	*q = (struct query){ .env = env, .done = done, .arg = arg };
	own_conn_init(&q->conn, &query_conn_ops, q);
	loop_timer_init(&q->timer, env->dialer.loop, query_on_timer, q);
}

void query_start(struct query *q, const struct address *address, const char *user,
                 const char *password, struct slice commands, size_t n, int64_t timeout_ms)
{
	HASP_ASSERT(!query_is_running(q) && n > 0 && n <= QUERY_MAX);
	q->n = n;
	q->env->address = *address;
	q->env->dialer.timeout_ms = timeout_ms;
	own_conn_open(&q->conn, q->env, NULL);
	if (password)
		own_conn_send_auth(&q->conn, user, password, NULL);
	own_conn_send(&q->conn, commands, n, q);
	loop_timer_start(&q->timer, (double)timeout_ms / 1000);
}

bool query_is_running(const struct query *q)
{
	/* (A timer that has expired is not active, though its callback has yet to run.) */
	return q->conn.user.link;
}

void query_cancel(struct query *q)
{
	if (!query_is_running(q))
		return;
	loop_timer_stop(&q->timer);
	own_conn_close(&q->conn);
	while (q->nreplies)
		freeReplyObject(q->replies[--q->nreplies]);
}
