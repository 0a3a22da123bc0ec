/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/watcher_internal.h"

#include "base/buf.h"
#include "base/fatal.h"
#include "resp/write.h"
#include "upstream/decode.h"

static void query_end(struct query *q, const char *why)
{
	redisReply *replies[QUERY_MAX];
	size_t n = q->nreplies;

	for (size_t i = 0; i < n; i++)
		replies[i] = q->replies[i];
	q->nreplies = 0;
	ev_timer_stop(q->env->dialer.loop, &q->timer);
	link_close(q->user.link);
	q->done(q->arg, why ? NULL : replies, why);
	for (size_t i = 0; i < n; i++)
		freeReplyObject(replies[i]);
}

/* `tag`: the query, but for AUTH. */
static void query_on_reply(void *owner, void *tag, const struct resp_reply *r,
                           struct slice captured)
{
	struct query *q = owner;
	redisReply *reply;

	(void)r;
	if (!tag)
		return;
	reply = reply_decode(captured);
	if (!reply) {
		query_end(q, "its answer is not understood");
		return;
	}
	q->replies[q->nreplies++] = reply;
	if (q->nreplies == q->n)
		query_end(q, NULL);
}

static void query_on_bytes(void *owner, struct slice bytes)
{
	(void)owner;
	(void)bytes;
}

static void query_on_drained(void *owner)
{
	(void)owner;
}

static void query_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	(void)end;
	(void)inflight;
	query_end(owner, reason);
}

static const struct link_ops query_link_ops = {
	.on_bytes = query_on_bytes,
	.on_reply = query_on_reply,
	.on_drained = query_on_drained,
	.on_down = query_on_down,
};

static void query_on_timer(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	(void)loop;
	(void)revents;
	query_end(t->data, "it does not answer in time");
}

void query_init(struct query *q, struct link_env *env,
                void (*done)(void *arg, redisReply *const *replies, const char *why), void *arg)
{
	*q = (struct query){ .env = env, .done = done, .arg = arg };
	link_user_init(&q->user, &query_link_ops, q);
	ev_timer_init(&q->timer, query_on_timer, 0, 0);
	q->timer.data = q;
}

static void query_send_auth(struct query *q, const char *user, const char *password)
{
	struct slice argv[3] = { SLICE_LIT("AUTH") };
	struct buf out = BUF_INIT;
	size_t n = 1;

	if (user)
		argv[n++] = slice_str(user);
	argv[n++] = slice_str(password);
	resp_write_request(&out, argv, n);
	link_send(q->user.link, buf_slice(&out));
	buf_release(&out);
	link_expect(&q->user, LINK_DISCARD, NULL);
}

void query_start(struct query *q, const struct address *address, const char *user,
                 const char *password, struct slice commands, size_t n, int64_t timeout_ms)
{
	HASP_ASSERT(!query_is_running(q) && n > 0 && n <= QUERY_MAX);
	q->n = n;
	q->env->address = *address;
	q->env->dialer.timeout_ms = timeout_ms;
	link_join(link_new_own(q->env, false, NULL), &q->user);
	if (password)
		query_send_auth(q, user, password);
	link_send(q->user.link, commands);
	for (size_t i = 0; i < n; i++)
		link_expect(&q->user, LINK_NOTIFY | LINK_CAPTURE | LINK_DISCARD, q);
	ev_timer_set(&q->timer, (double)timeout_ms / 1000, 0);
	ev_timer_start(q->env->dialer.loop, &q->timer);
}

bool query_is_running(const struct query *q)
{
	/* (A timer that has expired is not active, though its callback has yet to run.) */
	return q->user.link;
}

void query_cancel(struct query *q)
{
	if (!query_is_running(q))
		return;
	ev_timer_stop(q->env->dialer.loop, &q->timer);
	link_close(q->user.link);
	while (q->nreplies)
		freeReplyObject(q->replies[--q->nreplies]);
}
