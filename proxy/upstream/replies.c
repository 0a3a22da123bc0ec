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
#include "upstream/link_parts.h"

/* The frame that begins now answers the head of the FIFO, unless it is a push. */
static void begin_frame(struct link *l, char type)
{
	struct inflight *head = fifo_head(&l->fifo);

	l->treat = LINK_PASS;
	l->overflowed = false;
	l->begun = false;
	l->to = link_sole_user(l);
	if (!head || type == '>')
		return;
	l->to = head->user;
	l->treat = head->flags;
	if ((l->treat & LINK_ASK) && type != '-' &&
	    !((l->treat & LINK_ASK_STATUS) && type == '+'))
		l->treat &= (uint8_t)~LINK_ASK;
}

static bool is_kept(const struct link *l)
{
	return l->treat & (LINK_KEEP | LINK_ASK);
}

static void keep(struct link *l, struct slice bytes)
{
	if (!is_kept(l) || l->overflowed)
		return;
	if (buf_len(&l->kept) + bytes.n > LINK_KEEP_MAX) {
		l->overflowed = true;
		buf_release(&l->kept);
		return;
	}
	buf_append(&l->kept, bytes);
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
static void tell(struct link *l, const struct inflight *run, struct slice kept)
{
	struct link_user *u = run->user;
	bool answered = true;

	if (run->flags & LINK_LOGIN) {
		end_login(l, kept);
		return;
	}
	if (!u)
		return;
	u->inflight--;
	if (l->treat & LINK_ASK) {
		answered = u->ops->on_line(u->owner, run->tag, kept);
		if (answered && u->link == l)
			u->ops->on_bytes(u->owner, kept);
	}
	if ((run->flags & LINK_TELL) && answered && u->link == l)
		u->ops->on_reply(u->owner, run->tag, &l->scan.reply,
		                 run->flags & LINK_KEEP ? kept : SLICE_NONE);
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
	    (head && (!head->user || head->flags == LINK_QUIET)))
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
	struct buf kept = l->kept;

	l->kept = BUF_INIT;
	if (!is_kept(l) || whole.n > LINK_KEEP_MAX)
		whole = SLICE_NONE;
	if (!is_out_of_band(l) && (head = fifo_head(&l->fifo))) {
		run = *head;
		fifo_pop(&l->fifo, 1);
		tell(l, &run, whole.n ? whole : buf_slice(&kept));
		link_try_opaque(l);
	}
	buf_release(&kept);
}

/* Bytes read that belong to one user and are not handed on yet. */
struct segment {
	struct link_user *to; /* NULL: to be dropped */
	const char *from;
};

/* Hands on what lies before `p`. */
static void hand_on(struct link *l, struct segment *g, const char *p)
{
	struct link_user *u = g->to;

	if (u && u->link == l && p > g->from)
		u->ops->on_bytes(u->owner, slice_of(g->from, (size_t)(p - g->from)));
	g->from = p;
}

/* What begins at `p` belongs to another, or the same. */
static void turn_to(struct link *l, struct segment *g, struct link_user *to, const char *p)
{
	if (to != g->to)
		hand_on(l, g, p);
	g->to = to;
}

/* Does the end of this reply call back? Then its bytes must be with the user before. */
static bool is_told(const struct link *l)
{
	return (l->treat & LINK_TELL) || (l->to && l->to->await_idle);
}

static void tell_soon(const struct link *l)
{
	const struct inflight *head = fifo_head(&l->fifo);

	/* (While they are watched, it might answer no request.) */
	if ((l->treat & LINK_SOON) && !l->watched && head && head->user)
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
			turn_to(l, &g, to, p);
			p += used;
			continue;
		}
		if (at_start)
			begin_frame(l, *p);
		turn_to(l, &g, link_forwards(l) ? l->to : NULL, p);
		r = reply_scan(&l->scan, p, (size_t)(end - p), &used);
		if (r == RESP_BAD) {
			/* Whole replies before it are still good. */
			hand_on(l, &g, p);
			link_go_down(l, LINK_BROKEN, "it sent bytes that are no RESP reply");
			return;
		}
		whole = at_start && r == RESP_OK ? slice_of(p, used) : SLICE_NONE;
		if (!whole.n)
			keep(l, slice_of(p, used));
		p += used;
		if (r == RESP_OK) {
			if (l->scan.reply.type == '-' && used > 7 &&
			    memcmp(p - used, "-NOAUTH", 7) == 0)
				l->env->login_required = true;
			tell_soon(l);
			if (is_told(l))
				hand_on(l, &g, p);
			end_frame(l, whole);
		}
	}
	hand_on(l, &g, p);
	l->begun = !reply_scan_at_start(&l->scan);
	if (l->opaque) {
		g.to = link_sole_user(l);
		hand_on(l, &g, end);
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
		hand_on(l, &g, scratch + n);
	} else {
		scan_replies(l, scratch, (size_t)n);
	}
}
