/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ask: a link on a loop of its own, which lives as long as ask_server() runs.
 */
#include "upstream/ask.h"

#include <ev.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/quote.h"
#include "net/mailbox.h"
#include "net/resolve.h"
#include "net/stream.h"
#include "net/watch.h"
#include "resp/write.h"
#include "upstream/decode.h"
#include "upstream/link.h"

#define ASK_SCRATCH ((size_t)64 * 1024)

struct ask_session {
	struct ev_loop *loop;
	struct mailbox mailbox;
	struct stream_flusher flusher;
	struct link_env env;
	struct link_user user;
	struct ev_timer timer; /* ask.timeout_ms */
	const struct ask *how;
	bool done; /* all was answered */
	bool auth_due; /* the next reply is AUTH's */
	size_t nanswered; /* requests */
	struct buf said; /* the error that came last, the login's included; empty: none did */
	struct buf *why; /* the caller's */
};

/* The end of the link and the time-out, which may be due in the same turn of the loop, tell
 * nothing more. */
static void ask_end(struct ask_session *a, const char *why)
{
	if (why)
		buf_puts(a->why, why);
	ev_timer_stop(a->loop, &a->timer);
	link_close(a->user.link);
	ev_break(a->loop, EVBREAK_ALL);
}

static void ask_on_auth(struct ask_session *a, const redisReply *reply)
{
	a->auth_due = false;
	if (reply && reply->type == REDIS_REPLY_ERROR && a->how->refusal)
		quote_append(a->how->refusal, slice_of(reply->str, (size_t)reply->len));
}

static void ask_on_answer(struct ask_session *a, const redisReply *reply)
{
	if (!reply) {
		ask_end(a, "its answer is not understood");
		return;
	}
	a->how->on_reply(a->how->arg, a->nanswered++, reply);
	if (a->nanswered < a->how->nrequests)
		return;
	a->done = true;
	ask_end(a, NULL);
}

static void ask_on_reply(void *owner, void *tag, const struct resp_reply *r,
                         struct slice captured)
{
	struct ask_session *a = owner;
	redisReply *reply = reply_decode(captured);

	(void)tag;
	(void)r;
	if (reply && reply->type == REDIS_REPLY_ERROR) {
		buf_clear(&a->said);
		quote_append(&a->said, slice_of(reply->str, (size_t)reply->len));
	}
	if (a->auth_due)
		ask_on_auth(a, reply);
	else
		ask_on_answer(a, reply);
	if (reply)
		freeReplyObject(reply);
}

static void ask_on_bytes(void *owner, struct slice bytes)
{
	(void)owner;
	(void)bytes;
}

static void ask_on_drained(void *owner)
{
	(void)owner;
}

/* A server that refuses a connection says why to whatever was asked first, and closes. */
static void ask_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct ask_session *a = owner;

	(void)end;
	(void)inflight;
	ask_end(a, reason);
	if (buf_len(&a->said))
		buf_printf(a->why, ", and said: %.*s", (int)buf_len(&a->said),
		           buf_head(&a->said));
}

static const struct link_ops ask_link_ops = {
	.on_bytes = ask_on_bytes,
	.on_reply = ask_on_reply,
	.on_drained = ask_on_drained,
	.on_down = ask_on_down,
};

static void ask_on_timer(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	(void)loop;
	(void)revents;
	ask_end(t->data, "it does not answer in time");
}

static void ask_send(struct ask_session *a, struct slice request)
{
	link_send(a->user.link, request);
	link_expect(&a->user, LINK_NOTIFY | LINK_CAPTURE | LINK_DISCARD, NULL);
}

static void ask_log_in(struct ask_session *a, const struct ask *how)
{
	struct slice words[3] = { SLICE_LIT("AUTH") };
	struct buf out = BUF_INIT;
	size_t n = 1;

	if (how->user)
		words[n++] = slice_str(how->user);
	words[n++] = slice_str(how->password);
	resp_write_request(&out, words, n);
	ask_send(a, buf_slice(&out));
	buf_release(&out);
	a->auth_due = true;
}

static void ask_session_init(struct ask_session *a, const struct ask *how)
{
	a->loop = watch_loop_new(EVFLAG_AUTO);
	HASP_ASSERT(a->loop);
	mailbox_init(&a->mailbox, a->loop);
	stream_flusher_init(&a->flusher, a->loop);
	a->env = (struct link_env){
		.flusher = &a->flusher,
		.dialer = { .loop = a->loop,
		            .resolver = resolver_new(&a->mailbox),
		            .timeout_ms = how->timeout_ms,
		            .tls = how->tls },
		.clock = clock_now,
		.address = how->address,
		.scratch = xmalloc(ASK_SCRATCH),
		.scratch_size = ASK_SCRATCH,
	};
	links_init(&a->env);
	link_user_init(&a->user, &ask_link_ops, a);
	ev_timer_init(&a->timer, ask_on_timer, (double)how->timeout_ms / 1000, 0);
	a->timer.data = a;
	ev_timer_start(a->loop, &a->timer);
}

static void ask_session_fini(struct ask_session *a)
{
	links_reap(&a->env);
	resolver_free(a->env.dialer.resolver);
	mailbox_fini(&a->mailbox);
	stream_flusher_fini(&a->flusher);
	watch_loop_free(a->loop);
	tls_resume_clear(&a->env.tls_resume);
	free(a->env.scratch);
	buf_release(&a->said);
}

int ask_server(const struct ask *how, struct buf *why)
{
	struct ask_session a = { .how = how,
		                 .said = BUF_INIT,
		                 .why = why };

	HASP_ASSERT(how->nrequests > 0);
	ask_session_init(&a, how);
	link_join(link_new_own(&a.env, false, NULL), &a.user);
	if (how->password)
		ask_log_in(&a, how);
	for (size_t i = 0; i < how->nrequests; i++)
		ask_send(&a, how->requests[i]);
	ev_run(a.loop, 0);
	ask_session_fini(&a);
	return a.done ? 0 : -1;
}

/* The result of ask_commands() so far. */
struct ask_learning {
	const struct ask_learner *learner;
	size_t n; /* commands */
	struct buf error; /* that answered; empty: none did */
};

static void ask_on_commands(void *arg, size_t i, const redisReply *reply)
{
	struct ask_learning *l = arg;

	(void)i;
	l->n = l->learner->on_commands(l->learner->arg, reply);
	if (reply->type == REDIS_REPLY_ERROR)
		quote_append(&l->error, slice_of(reply->str, (size_t)reply->len));
}

int ask_commands(const struct ask *where, const struct ask_learner *learner, struct buf *why)
{
	struct ask_learning l = { .learner = learner, .error = BUF_INIT };
	struct buf refusal = BUF_INIT;
	struct slice request = SLICE_LIT("*1\r\n$7\r\nCOMMAND\r\n");
	struct ask how = *where;
	int rc;

	how.requests = &request;
	how.nrequests = 1;
	how.on_reply = ask_on_commands;
	how.arg = &l;
	how.refusal = &refusal;
	rc = ask_server(&how, why);
	if (rc == 0 && l.n == 0) {
		/* A Redis without a password refuses AUTH, and answers COMMAND all the same. */
		if (buf_len(&refusal))
			buf_append(why, buf_slice(&refusal));
		else if (buf_len(&l.error))
			buf_append(why, buf_slice(&l.error));
		else
			buf_puts(why, "COMMAND's answer is not understood");
		rc = -1;
	}
	buf_release(&refusal);
	buf_release(&l.error);
	return rc;
}
