/* SPDX-License-Identifier: BSD-3-Clause
 *
 * outlet: what comes back over a client's link: replies are handed on, what they mean for the
 * session is noted, a missing script is made good.
 */
#include "client/connection.h"

#include <stdio.h>

#include "base/fatal.h"

/* A client this far behind gets a link of its own as soon as no reply is due, so that it can be
 * waited for. */
#define SETTLE_BEHIND ((size_t)1024 * 1024)

/* A client on a shared link that does not read cannot stop the link: it is given room, and
 * closed when that is full. */
static void check_limits(struct client *c)
{
	const struct config *config = c->env->config;
	size_t pending = stream_pending(&c->stream);

	if (pending > SETTLE_BEHIND)
		c->settled = true;
	if (pending > (size_t)config->client_output_limit)
		client_close(c, "client_output_limit");
	else if (c->env->flusher->pending > (size_t)(config->memory_limit / config->workers))
		client_close(c, "memory_limit");
}

static void on_bytes(void *owner, struct slice bytes)
{
	struct client *c = client_of(owner);

	client_touch(c);
	stream_send(&c->stream, bytes);
	if (stream_pending(&c->stream) < STREAM_HIGH_WATER)
		return;
	if (c->shared)
		check_limits(c);
	else
		link_pause(c->user.link);
	client_steer_reading(c);
}

void client_on_drained(struct stream *s)
{
	struct client *c = client_of(s->owner);

	if (c->closing) {
		if (c->eof)
			client_close(c, "done");
		return;
	}
	if (c->user.link && !c->shared)
		link_resume(c->user.link);
	client_steer_reading(c);
}

/* No reply is due any more, and that was waited for. */
static void on_idle(void *owner)
{
	struct client *c = client_of(owner);

	if (c->waiting == WAIT_IDLE || c->eof)
		client_go_on(c);
}

static void on_link_drained(void *owner)
{
	struct client *c = client_of(owner);

	client_steer_reading(c);
}

/* The rewritten request at the head of `in` is answered: what is behind it goes on. */
static void end_call(struct client *c)
{
	buf_consume(&c->in, c->scanned);
	c->scanned = 0;
	client_go_on(c);
}

static void on_reply(void *owner, void *tag, const struct resp_reply *reply, struct slice kept)
{
	struct client *c = client_of(owner);
	struct request *r = tag;
	bool was_reset = r->kind == REQUEST_RESET;

	if (r->note && c->stream.error)
		hold_note_orphan(r->note);
	session_reply(&c->session, r, reply, kept, c->env->holds, &c->holds);
	if (was_reset)
		link_watch(c->user.link, session_is_subscribed(&c->session));
	if (c->waiting == WAIT_REPLY)
		end_call(c);
	else if (c->waiting == WAIT_AWAITED && c->session.nawaited == 0)
		client_go_on(c);
}

/* The reply to a rewritten request is an error. When Redis does not have the script, the same
 * request goes out again with its text. */
static bool on_error(void *owner, void *tag, struct slice line)
{
	struct client *c = client_of(owner);
	struct dispatch_from from = client_dispatch_from(c);
	struct resp_view view;
	const struct resolved *what;
	struct decision d;
	bool whole;

	if (!slice_starts(line, SLICE_LIT("-NOSCRIPT")))
		return true;
	session_forget(&c->session, tag);
	view = request_view(&c->env->args, buf_head(&c->in), c->scanned, &whole);
	what = dispatch_resolve(c->env, view.argv[0]);
	d = dispatch(&from, &view, what, true);
	if (d.verdict == DISPATCH_CALL) {
		client_send_up(c, buf_slice(&c->env->call));
	} else {
		/* The rule is gone since. */
		HASP_ASSERT(d.verdict == DISPATCH_PASS && d.turn == TURN_NONE);
		client_send_up(c, slice_of(buf_head(&c->in), c->scanned));
		if (!d.request) {
			d.treat = LINK_TELL;
			d.request = request_new(REQUEST_LOCK);
			session_track(&c->session, d.request);
		}
	}
	client_expect(c, &d);
	return false;
}

static bool on_frame(void *owner, const struct reply_scan *frame)
{
	struct client *c = client_of(owner);
	struct request *head = link_head(&c->user);
	bool ended;

	if (!session_frame(&c->session, frame, head, &ended))
		return false;
	if (ended) {
		link_drop_head(c->user.link);
		session_forget(&c->session, head);
		if (c->session.nawaited == 0)
			link_watch(c->user.link, session_is_subscribed(&c->session));
		if (c->waiting == WAIT_AWAITED && c->session.nawaited == 0)
			client_go_on(c);
	}
	return true;
}

static void on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct client *c = client_of(owner);
	char error[512];

	/* Whoever had nothing to do with the shared link just takes another; that this one was
	 * full is no reason any more not to be read from. */
	if (c->shared && !inflight && c->waiting != WAIT_REPLY && !c->eof) {
		client_steer_reading(c);
		return;
	}
	if (end == LINK_UNREACHABLE)
		snprintf(error, sizeof(error), "-ERR hasp: upstream %s: %s\r\n",
		         c->env->links->name, reason);
	else if (end == LINK_REFUSED)
		snprintf(error, sizeof(error), "-%s\r\n", reason);
	if (end != LINK_BROKEN)
		stream_send(&c->stream, slice_str(error));
	client_finish(c, reason);
}

const struct link_ops client_link_ops = {
	.on_bytes = on_bytes,
	.on_reply = on_reply,
	.on_error = on_error,
	.on_frame = on_frame,
	.on_drained = on_link_drained,
	.on_idle = on_idle,
	.on_down = on_down,
};
