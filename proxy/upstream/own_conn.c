/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/own_conn.h"

#include "base/buf.h"
#include "base/fatal.h"
#include "resp/write.h"
#include "upstream/decode.h"

static void own_conn_on_bytes(void *owner, struct slice bytes)
{
	(void)owner;
	(void)bytes;
}

static void own_conn_on_drained(void *owner)
{
	(void)owner;
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

static void own_conn_on_down(void *owner, enum link_end end, const char *reason,
                             size_t inflight)
{
	struct own_conn *c = owner;

	(void)inflight;
	c->ops->on_down(c->owner, end, reason);
}

static const struct link_ops own_conn_link_ops = {
	.on_bytes = own_conn_on_bytes,
	.on_reply = own_conn_on_reply,
	.on_drained = own_conn_on_drained,
	.on_down = own_conn_on_down,
};

void own_conn_init(struct own_conn *c, const struct own_conn_ops *ops, void *owner)
{
	*c = (struct own_conn){ .ops = ops, .owner = owner };
	link_user_init(&c->user, &own_conn_link_ops, c);
}

void own_conn_open(struct own_conn *c, struct link_env *env, const struct link_login *login)
{
	link_join(link_new_own(env, false, login), &c->user);
}

void own_conn_close(struct own_conn *c)
{
	link_close(c->user.link);
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

	resp_write_array(&out, n);
	for (size_t i = 0; i < n; i++)
		resp_write_bulk_str(&out, words[i]);
	own_conn_send(c, buf_slice(&out), 1, tag);
	buf_release(&out);
}

void own_conn_send_auth(struct own_conn *c, const char *user, const char *password, void *tag)
{
	if (user)
		own_conn_send_words(c, (const char *[]){ "AUTH", user, password }, 3, tag);
	else
		own_conn_send_words(c, (const char *[]){ "AUTH", password }, 2, tag);
}

/* --- queries ------------------------------------------------------------------------------ */

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
