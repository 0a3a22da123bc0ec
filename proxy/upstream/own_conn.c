/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/own_conn.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "resp/write.h"
#include "upstream/decode.h"
#include "upstream/link_internal.h"

/* The longest delays, in seconds. MAX_SECONDS is short, because waiters are not notified of
 * free locks while the subscriber is down. After a refusal hasp waits longer, because only an
 * administrator can end the refusal. */
#define MAX_SECONDS 1.0
#define REFUSED_MAX_SECONDS 5.0

static void own_conn_on_bytes(void *owner, struct slice bytes)
{
	struct own_conn *c = owner;

	if (c->ops->on_bytes)
		c->ops->on_bytes(c->owner, bytes);
}

static void own_conn_on_reply(void *owner, void *tag, const struct resp_reply *r,
                              struct slice captured)
{
	struct own_conn *c = owner;
	redisReply *reply = reply_decode(captured);

	(void)r;
	c->ops->on_reply(c->owner, tag, &reply);
	if (reply)
		freeReplyObject(reply);
}

/* Schedules the next connect(). `end`: how the connection ended, or the try to make it. */
static void own_conn_retry(struct own_conn *c, enum link_end end)
{
	double max = end == LINK_REFUSED ? REFUSED_MAX_SECONDS : MAX_SECONDS;
	/* Wait if the server accepts each connection and soon closes it. */
	bool lasted = c->worked_at > 0 && c->env->clock() - c->worked_at >= c->min_seconds;

	c->unreachable = end == LINK_UNREACHABLE;
	c->worked_at = 0;
	if (lasted) {
		loop_timer_start(&c->retry, 0);
		return;
	}
	if (c->seconds > max)
		c->seconds = max;
	loop_timer_start(&c->retry, c->seconds);
	c->seconds *= 2;
}

static void own_conn_on_down(void *owner, enum link_end end, const char *reason,
                             size_t inflight)
{
	struct own_conn *c = owner;

	(void)inflight;
	if (c->min_seconds > 0)
		own_conn_retry(c, end);
	c->ops->on_down(c->owner, end, reason);
}

static const struct link_ops own_conn_link_ops = {
	.on_bytes = own_conn_on_bytes,
	.on_reply = own_conn_on_reply,
	.on_down = own_conn_on_down,
};

void own_conn_init(struct own_conn *c, struct link_env *env, double min_seconds,
                   const struct own_conn_ops *ops, void *owner)
{
	*c = (struct own_conn){
		.env = env,
		.ops = ops,
		.owner = owner,
		.min_seconds = min_seconds,
		.seconds = min_seconds,
	};
	link_user_init(&c->user, &own_conn_link_ops, c);
	loop_timer_init(&c->retry, env->dialer.loop, ops->connect, owner);
	list_init(&c->node);
	if (min_seconds > 0)
		list_append(&env->own_conns, &c->node);
}

void own_conn_open(struct own_conn *c, const struct link_login *login)
{
	link_join(link_new(c->env, LINK_KIND_OWN, login), &c->user);
}

void own_conn_close(struct own_conn *c)
{
	list_remove(&c->node);
	loop_timer_stop(&c->retry);
	link_close(c->user.link);
}

void own_conn_fail(struct own_conn *c, enum link_end end, const char *reason)
{
	link_close(c->user.link);
	own_conn_on_down(c, end, reason, 0);
}

void own_conn_reconnect(struct own_conn *c, const char *reason)
{
	if (c->user.link)
		own_conn_fail(c, LINK_BROKEN, reason);
	c->seconds = c->min_seconds;
	loop_timer_start(&c->retry, 0);
}

void own_conn_worked(struct own_conn *c)
{
	c->seconds = c->min_seconds;
	c->worked_at = c->env->clock();
}

void own_conns_retry_now(struct link_env *env)
{
	list_each (struct own_conn, c, &env->own_conns, node)
		if (c->unreachable && loop_timer_is_running(&c->retry))
			loop_timer_start(&c->retry, 0);
}

bool own_conn_is_made(const struct own_conn *c)
{
	return c->user.link && stream_is_open(&c->user.link->stream);
}

void own_conn_send(struct own_conn *c, struct slice requests, size_t n, void *tag)
{
	link_send(c->user.link, requests);
	while (n--)
		link_expect(&c->user, LINK_NOTIFY | LINK_CAPTURE | LINK_DISCARD, tag);
}

void own_conn_send_words(struct own_conn *c, const char *const *words, size_t n, void *tag)
{
	struct buf out = BUF_INIT;

	resp_write_words(&out, words, n);
	own_conn_send(c, buf_slice(&out), 1, tag);
	buf_release(&out);
}

/* --- queries ------------------------------------------------------------------------------ */

static void query_end(struct query *q, const char *why)
{
	redisReply **replies = q->replies;
	size_t n = q->nreplies;

	q->replies = NULL;
	loop_timer_stop(&q->timer);
	own_conn_close(&q->conn);
	q->done(q->arg, why ? NULL : replies, why);
	for (size_t i = 0; i < n; i++)
		freeReplyObject(replies[i]);
	free(replies);
}

/* Handles a reply. `tag`: NULL for the reply to AUTH; else the query. */
static void query_on_reply(void *owner, void *tag, redisReply **reply)
{
	struct query *q = owner;

	if (!tag) {
		if (*reply && (*reply)->type == REDIS_REPLY_ERROR)
			snprintf(q->refusal, sizeof(q->refusal), "%s", (*reply)->str);
		return;
	}
	if (!*reply) {
		query_end(q, "hasp does not understand its reply");
		return;
	}
	q->replies[q->nreplies++] = *reply;
	*reply = NULL;
	if (q->nreplies == q->n)
		query_end(q, NULL);
}

static void query_on_down(void *owner, enum link_end end, const char *reason)
{
	struct query *q = owner;

	(void)end;
	q->said = *q->refusal ? q->refusal : NULL;
	for (size_t i = 0; i < q->nreplies; i++)
		if (q->replies[i]->type == REDIS_REPLY_ERROR)
			q->said = q->replies[i]->str;
	query_end(q, reason);
}

static const struct own_conn_ops query_conn_ops = {
	.on_reply = query_on_reply,
	.on_down = query_on_down,
};

static void query_on_timer(void *arg)
{
	query_end(arg, "it does not answer in time");
}

void query_init(struct query *q, struct link_env *env,
                void (*done)(void *arg, redisReply *const *replies, const char *why), void *arg)
{
	*q = (struct query){ .done = done, .arg = arg };
	own_conn_init(&q->conn, env, 0, &query_conn_ops, q);
	loop_timer_init(&q->timer, env->dialer.loop, query_on_timer, q);
}

void query_start(struct query *q, const struct address *address, const char *user,
                 const char *password, struct slice commands, size_t n, int64_t timeout_ms)
{
	HASP_ASSERT(!query_is_running(q) && n > 0);
	q->n = n;
	q->nreplies = 0;
	q->replies = xcalloc(n, sizeof(redisReply *));
	*q->refusal = '\0';
	q->said = NULL;
	q->conn.env->address = *address;
	q->conn.env->dialer.timeout_ms = timeout_ms;
	own_conn_open(&q->conn, q->login);
	if (password)
		own_conn_send_words(&q->conn, (const char *[]){ "AUTH", user, password }, 3,
		                    NULL);
	own_conn_send(&q->conn, commands, n, q);
	loop_timer_start(&q->timer, (double)timeout_ms / 1000);
}

bool query_is_running(const struct query *q)
{
	/* Do not ask the timer: it stops before its callback runs. */
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
	free(q->replies);
	q->replies = NULL;
}
