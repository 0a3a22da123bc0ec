/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replies: what comes back over a link: where each reply ends, whose it is, and how it is
 * treated.
 *
 *   Redis -> scan_replies() -> take_plain() --whole, simple, only to be forwarded--> on_bytes()
 *                   `-> begin_frame() ... end_frame() --> on_bytes(), on_reply() ...
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/fatal.h"
#include "upstream/link_internal.h"

/* The frame that begins now answers the head of the FIFO, unless it is a push. */
static void begin_frame(struct link *l, char type)
{
	struct inflight *head = fifo_head(&l->fifo);

	l->reply_flags = LINK_PASS;
	l->overflowed = false;
	l->begun = false;
	l->to = link_sole_user(l);
	if (!head || type == '>')
		return;
	l->to = head->user;
	l->reply_flags = head->flags;
	if ((l->reply_flags & LINK_INTERCEPT) && type != '-' &&
	    !((l->reply_flags & LINK_INTERCEPT_STATUS) && type == '+'))
		l->reply_flags &= (uint8_t)~LINK_INTERCEPT;
}

static bool is_captured(const struct link *l)
{
	return l->reply_flags & (LINK_CAPTURE | LINK_INTERCEPT);
}

static void capture_bytes(struct link *l, struct slice bytes)
{
	if (!is_captured(l) || l->overflowed)
		return;
	if (buf_len(&l->captured) + bytes.n > LINK_CAPTURE_MAX) {
		l->overflowed = true;
		buf_release(&l->captured);
		return;
	}
	buf_append(&l->captured, bytes);
}

static bool is_out_of_band(struct link *l)
{
	bool push = l->scan.reply.type == '>';
	struct link_user *u = link_sole_user(l);

	/* Nobody on a shared link can have asked for it. */
	if (l->shared)
		return push;
	if (!u || !u->ops->on_frame || (!l->watched && !push))
		return false;
	return u->ops->on_frame(u->owner, &l->scan);
}

/* Our login was answered. */
static void end_login(struct link *l, struct slice answer)
{
	char reason[256];

	if (resp_reply_is_error(&l->scan.reply)) {
		size_t n = answer.n > 3 ? answer.n - 3 : 0;
		snprintf(reason, sizeof(reason), "%.*s", (int)n, answer.p + 1);
		link_go_down(l, LINK_REFUSED, reason);
		return;
	}
	if (--l->logins == 0) {
		stream_send(&l->stream, buf_slice(&l->gated));
		buf_release(&l->gated);
		if (l->shut)
			stream_shutdown(&l->stream);
		link_on_drained(&l->stream);
	}
}

/* The user may leave the link, or close it, in any of the callbacks. */
static void notify(struct link *l, const struct inflight *run, struct slice captured)
{
	struct link_user *u = run->user;
	bool answered = true;

	if (run->flags & LINK_LOGIN) {
		end_login(l, captured);
		return;
	}
	if (!u)
		return;
	u->inflight--;
	if (l->reply_flags & LINK_INTERCEPT) {
		answered = u->ops->on_line(u->owner, run->tag, captured);
		if (answered && u->link == l)
			u->ops->on_bytes(u->owner, captured);
	}
	if ((run->flags & LINK_NOTIFY) && answered && u->link == l)
		u->ops->on_reply(u->owner, run->tag, &l->scan.reply,
		                 run->flags & LINK_CAPTURE ? captured : SLICE_NONE);
	if (u->link == l && u->await_idle && u->inflight == 0) {
		u->await_idle = false;
		u->ops->on_idle(u->owner);
	}
}

/* What is for nobody, or for the link itself, is in front of what its user is to see. */
void link_try_opaque(struct link *l)
{
	struct inflight *head = fifo_head(&l->fifo);
	struct link_user *u = link_sole_user(l);

	if (!l->to_be_opaque || l->opaque ||
	    (head && (!head->user || head->flags == LINK_DISCARD)))
		return;
	l->opaque = true;
	fifo_clear(&l->fifo);
	if (u)
		u->inflight = 0;
}

/* `whole`: the reply, when it came in one piece; else it has been kept. */
static void end_frame(struct link *l, struct slice whole)
{
	struct inflight *head;
	struct inflight run;
	struct buf captured = l->captured;

	l->captured = BUF_INIT;
	if (!is_captured(l) || whole.n > LINK_CAPTURE_MAX)
		whole = SLICE_NONE;
	if (!is_out_of_band(l) && (head = fifo_head(&l->fifo))) {
		run = *head;
		fifo_pop(&l->fifo, 1);
		notify(l, &run, whole.n ? whole : buf_slice(&captured));
		link_try_opaque(l);
	}
	buf_release(&captured);
}

/* Bytes read that belong to one user and are not handed on yet. */
struct segment {
	struct link_user *to; /* NULL: to be dropped */
	const char *from;
};

/* Hands on what lies before `p`. */
static void forward_segment(struct link *l, struct segment *g, const char *p)
{
	struct link_user *u = g->to;

	if (u && u->link == l && p > g->from)
		u->ops->on_bytes(u->owner, slice_of(g->from, (size_t)(p - g->from)));
	g->from = p;
}

/* What begins at `p` belongs to another, or the same. */
static void switch_segment(struct link *l, struct segment *g, struct link_user *to,
                           const char *p)
{
	if (to != g->to)
		forward_segment(l, g, p);
	g->to = to;
}

/* Does the end of this reply call back? Then its bytes must be with the user before. */
static bool is_notified(const struct link *l)
{
	return (l->reply_flags & LINK_NOTIFY) || (l->to && l->to->await_idle);
}

static void notify_early(const struct link *l)
{
	const struct inflight *head = fifo_head(&l->fifo);

	/* (While they are watched, it might answer no request.) */
	if ((l->reply_flags & LINK_NOTIFY_EARLY) && !l->watched && head && head->user)
		head->user->ops->on_answered(head->user->owner, head->tag, &l->scan.reply);
}

/* Takes replies that are only to be forwarded, to one user and one as the other, as long as
 * they are whole and easily told. Returns the user, NULL when there are none; *used is their
 * length. */
static struct link_user *take_plain(struct link *l, const char *p, size_t n, size_t *used)
{
	const struct inflight *head = fifo_head(&l->fifo);
	struct link_user *u = head ? head->user : NULL;
	uint32_t count;

	if (!u || head->flags != LINK_PASS || l->watched || u->await_idle)
		return NULL;
	if (head->count == 1 && reply_is_alike(&l->alike, p, n)) {
		count = 1;
		*used = l->alike.len;
	} else {
		count = reply_skip_simple(&l->alike, p, n, head->count, used);
	}
	if (count == 0)
		return NULL;
	u->inflight -= count;
	fifo_pop(&l->fifo, count);
	return u;
}

static void scan_replies(struct link *l, const char *p, size_t n)
{
	const char *end = p + n;
	struct segment g = { NULL, p };

	while (p < end && !l->opaque && !l->closed) {
		struct link_user *to;
		struct slice whole;
		enum resp_result r;
		size_t used;
		bool at_start = reply_scan_at_start(&l->scan);
		if (at_start && (to = take_plain(l, p, (size_t)(end - p), &used))) {
			switch_segment(l, &g, to, p);
			p += used;
			continue;
		}
		if (at_start)
			begin_frame(l, *p);
		switch_segment(l, &g, link_forwards(l) ? l->to : NULL, p);
		r = reply_scan(&l->scan, p, (size_t)(end - p), &used);
		if (r == RESP_BAD) {
			/* Whole replies before it are still good. */
			forward_segment(l, &g, p);
			link_go_down(l, LINK_BROKEN, "it sent bytes that are no RESP reply");
			return;
		}
		whole = at_start && r == RESP_OK ? slice_of(p, used) : SLICE_NONE;
		if (!whole.n)
			capture_bytes(l, slice_of(p, used));
		p += used;
		if (r == RESP_OK) {
			if (l->scan.reply.type == '-' && used > 7 &&
			    memcmp(p - used, "-NOAUTH", 7) == 0)
				l->env->login_required = true;
			notify_early(l);
			if (is_notified(l))
				forward_segment(l, &g, p);
			end_frame(l, whole);
		}
	}
	forward_segment(l, &g, p);
	l->begun = !reply_scan_at_start(&l->scan);
	if (l->opaque) {
		g.to = link_sole_user(l);
		forward_segment(l, &g, end);
	}
}

void link_on_readable(struct stream *s)
{
	struct link *l = stream_owner(s);
	char *scratch = l->env->scratch;
	ssize_t n = stream_read(s, scratch, l->env->scratch_size);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0) {
		link_go_down(l, LINK_BROKEN, n < 0 ? strerror(errno) : "closed by the server");
	} else if (l->opaque) {
		struct segment g = { link_sole_user(l), scratch };
		forward_segment(l, &g, scratch + n);
	} else {
		scan_replies(l, scratch, (size_t)n);
	}
}
