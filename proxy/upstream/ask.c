/* SPDX-License-Identifier: BSD-3-Clause
 *
 * ask: a link on a loop of its own, which lives as long as ask_commands() runs.
 */
#include "upstream/ask.h"

#include <ev.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
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
	bool auth_due; /* the next reply is AUTH's */
	struct buf refusal; /* the error that answered AUTH; empty: none did */
	struct buf *why; /* the caller's */
	bool learned;
};

static void ask_end(struct ask_session *a, const char *why)
{
	if (why)
		buf_puts(a->why, why);
	ev_break(a->loop, EVBREAK_ALL);
}

static void ask_on_auth(struct ask_session *a, const redisReply *reply)
{
	a->auth_due = false;
	/* A Redis without a password refuses AUTH, and answers COMMAND all the same. */
	if (reply && reply->type == REDIS_REPLY_ERROR)
		buf_append(&a->refusal, slice_of(reply->str, (size_t)reply->len));
}

static void ask_on_command(struct ask_session *a, const redisReply *reply)
{
	if (reply && a->how->on_commands(a->how->arg, reply) > 0) {
		a->learned = true;
		ask_end(a, NULL);
	} else if (buf_len(&a->refusal)) {
		buf_append(a->why, buf_slice(&a->refusal));
		ask_end(a, NULL);
	} else if (reply && reply->type == REDIS_REPLY_ERROR) {
		ask_end(a, reply->str);
	} else {
		ask_end(a, "COMMAND's answer is not understood");
	}
}

static void ask_on_reply(void *owner, void *tag, const struct resp_reply *r,
                         struct slice captured)
{
	struct ask_session *a = owner;
	redisReply *reply = reply_decode(captured);

	(void)tag;
	(void)r;
	if (a->auth_due)
		ask_on_auth(a, reply);
	else
		ask_on_command(a, reply);
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

static void ask_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	(void)end;
	(void)inflight;
	ask_end(owner, reason);
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

static void ask_send_bytes(struct ask_session *a, struct slice request)
{
	link_send(a->user.link, request);
	link_expect(&a->user, LINK_NOTIFY | LINK_CAPTURE | LINK_DISCARD, NULL);
}

static void ask_send(struct ask_session *a, const struct slice *argv, size_t n)
{
	struct buf out = BUF_INIT;

	resp_write_request(&out, argv, n);
	ask_send_bytes(a, buf_slice(&out));
	buf_release(&out);
}

static void ask_send_all(struct ask_session *a, const struct ask *how)
{
	struct slice words[3] = { SLICE_LIT("AUTH") };
	size_t n = 1;

	if (how->password) {
		if (how->user)
			words[n++] = slice_str(how->user);
		words[n++] = slice_str(how->password);
		ask_send(a, words, n);
		a->auth_due = true;
	}
	words[0] = SLICE_LIT("COMMAND");
	if (how->request.n)
		ask_send_bytes(a, how->request);
	else
		ask_send(a, words, 1);
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
		            .timeout_ms = how->timeout_ms },
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
	link_close(a->user.link);
	links_reap(&a->env);
	ev_timer_stop(a->loop, &a->timer);
	resolver_free(a->env.dialer.resolver);
	mailbox_fini(&a->mailbox);
	stream_flusher_fini(&a->flusher);
	watch_loop_free(a->loop);
	free(a->env.scratch);
	buf_release(&a->refusal);
}

int ask_commands(const struct ask *how, struct buf *why)
{
	struct ask_session a = { .how = how, .why = why };

	ask_session_init(&a, how);
	link_join(link_new_own(&a.env, false, NULL), &a.user);
	ask_send_all(&a, how);
	ev_run(a.loop, 0);
	ask_session_fini(&a);
	return a.learned ? 0 : -1;
}
