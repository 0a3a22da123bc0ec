/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link_replies: reads the replies on a link: finds where each reply ends and which user gets
 * it, and does what its flags of link_expect() say.
 *
 *   stream -> link_on_readable() -> scan_replies()
 *                                     |-- skip_plain() -- whole, simple, LINK_PASS --.
 *                                     |                                               |
 *                                     '-- begin_reply() ... end_reply()               |
 *                                            |          '-> on_line(), on_reply() ... |
 *                                            v                                        v
 *                                        on_bytes() <------- segment: as many bytes as belong
 *                                                            to one user and lie together
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "upstream/link_internal.h"

/* Begins a frame, which answers the oldest request, `head`, unless the frame is a push. */
static void begin_reply(struct link *l, const struct inflight *head, char type)
{
	struct link_reply *r = &l->reply;
	bool is_intercepted;

	r->flags = LINK_PASS;
	r->overflowed = false;
	r->begun = false;
	r->to = link_sole_user(l);
	if (!head || type == '>')
		return;
	r->to = head->user;
	r->flags = head->flags;
	is_intercepted = type == '-' || (type == '+' && (r->flags & LINK_INTERCEPT_STATUS));
	if (!is_intercepted)
		r->flags &= (uint16_t)~LINK_INTERCEPT;
}

static bool is_captured(const struct link_reply *r)
{
	return r->flags & (LINK_CAPTURE | LINK_INTERCEPT);
}

/* Captures `bytes` if the flags ask for it. Returns false if hasp cannot keep an intercepted
 * line, so that the user would get no reply. */
static bool capture_bytes(struct link_reply *r, char type, struct slice bytes)
{
	if (!is_captured(r) || r->overflowed || bytes.n == 0)
		return true;
	if (buf_len(&r->captured) + bytes.n <= LINK_CAPTURE_MAX &&
	    buf_try_append(&r->captured, bytes))
		return true;
	r->overflowed = true;
	buf_release(&r->captured);
	return !(r->flags & LINK_INTERCEPT) || (type != '-' && type != '+');
}

/* True if the frame that ended answers no request. */
static bool is_out_of_band(struct link *l)
{
	bool push = l->scan.reply.type == '>';
	struct link_user *u = link_sole_user(l);

	/* Drop pushes on a shared link: no user can have asked for them. */
	if (link_is_shared(l))
		return push;
	if (!u || !u->ops->on_frame || (!l->watched && !push))
		return false;
	return u->ops->on_frame(u->owner, &l->scan);
}

/* --- the end of a reply -------------------------------------------------------- */

static void finish_login(struct link *l)
{
	link_end_opening(l);
	link_set_state(l, l->state == LINK_LOGGING_IN ? LINK_OPEN : LINK_TURNING_OPAQUE);
	stream_send(&l->stream, buf_slice(&l->held_back));
	buf_release(&l->held_back);
	if (l->shutdown_due)
		stream_shutdown(&l->stream);
	link_on_drained(&l->stream);
	link_notify_ready(l);
}

static bool is_harmless(const char *const *harmless, struct slice error)
{
	for (; *harmless; harmless++)
		if (slice_starts(error, slice_str(*harmless)))
			return true;
	return false;
}

/* Handles the reply to a command of the link's own login. */
static void on_login_reply(struct link *l, const char *const *harmless, struct slice answer)
{
	char reason[256];

	if (resp_reply_is_error(&l->scan.reply) && !is_harmless(harmless, answer)) {
		/* Leave out the dash and the end of the line. */
		size_t n = answer.n > 3 ? answer.n - 3 : 0;
		snprintf(reason, sizeof(reason), "%.*s", (int)n, answer.p + 1);
		link_go_down(l, LINK_REFUSED, reason);
		return;
	}
	if (--l->logins_due == 0)
		finish_login(l);
}

/* Calls on_idle() if the user asked for it, and no reply is due to the user any more. Does not
 * use `u` if the link is closed: the user may have been freed. */
static void notify_idle(struct link *l, struct link_user *u)
{
	if (l->state == LINK_CLOSED || u->link != l || !u->await_idle || u->inflight)
		return;
	u->await_idle = false;
	u->ops->on_idle(u->owner);
}

/* Calls the user's callbacks for a reply. In each, the user may leave or close the link. */
static void deliver_reply(struct link *l, const struct inflight *run, struct slice captured)
{
	struct link_user *u = run->user;
	bool answered = true;

	if (run->flags & LINK_LOGIN) {
		on_login_reply(l, run->tag, captured);
		return;
	}
	if (!u)
		return;
	u->inflight--;
	if (l->reply.flags & LINK_INTERCEPT) {
		answered = u->ops->on_line(u->owner, run->tag, captured);
		if (answered && u->link == l)
			u->ops->on_bytes(u->owner, captured);
	}
	if ((run->flags & LINK_NOTIFY) && answered && u->link == l)
		u->ops->on_reply(u->owner, run->tag, &l->scan.reply,
		                 run->flags & LINK_CAPTURE ? captured : SLICE_NONE);
	notify_idle(l, u);
}

/* Handles the end of a frame. `whole`: the frame if it came in one read; else empty. */
static void end_reply(struct link *l, struct slice whole)
{
	struct inflight *head;
	struct inflight run;
	struct buf captured = l->reply.captured;

	l->reply.captured = BUF_INIT;
	if (!is_captured(&l->reply) || whole.n > LINK_CAPTURE_MAX)
		whole = SLICE_NONE;
	if (is_out_of_band(l)) {
		struct link_user *u = link_sole_user(l);

		/* NULL on a shared link, or if on_frame() has removed the user. */
		if (u)
			notify_idle(l, u);
	} else if ((head = fifo_head(&l->fifo))) {
		run = *head;
		fifo_pop(&l->fifo, 1);
		deliver_reply(l, &run, whole.n ? whole : buf_slice(&captured));
		link_try_opaque(l);
	}
	buf_release(&captured);
}

/* --- forwarding ----------------------------------------------------------------- */

/* The beginning of adjacent bytes for one user that are not forwarded yet. */
struct segment {
	struct link_user *to; /* NULL: the bytes are discarded */
	const char *from;
};

/* Forwards the bytes before `p`. */
static void forward_segment(struct link *l, struct segment *g, const char *p)
{
	struct link_user *u = g->to;

	if (u && u->link == l && p > g->from)
		u->ops->on_bytes(u->owner, slice_of(g->from, (size_t)(p - g->from)));
	g->from = p;
}

/* Begins a segment for `to` at `p`. */
static void switch_segment(struct link *l, struct segment *g, struct link_user *to,
                           const char *p)
{
	if (to != g->to)
		forward_segment(l, g, p);
	g->to = to;
}

/* True if the link must forward the reply's bytes before the callbacks at its end. */
static bool is_notified(const struct link_reply *r)
{
	return (r->flags & (LINK_NOTIFY | LINK_NOTIFY_FIRST)) == LINK_NOTIFY ||
	       (r->to && r->to->await_idle);
}

static void notify_early(const struct link *l)
{
	const struct inflight *head = fifo_head(&l->fifo);

	/* On a watched link, this frame may be a message that answers no request. */
	if ((l->reply.flags & LINK_NOTIFY_EARLY) && !l->watched && head && head->user)
		head->user->ops->on_answered(head->user->owner, head->tag, &l->scan.reply);
}

/* True if the link need only forward a reply that begins at `p`. */
static bool is_only_forwarded(const struct inflight *head, const char *p)
{
	return head->flags == LINK_PASS || (head->flags == LINK_INTERCEPT && *p == '+');
}

/* Skips whole and simple replies to the oldest run, `head`, if the link only forwards them.
 * Returns their user, and sets *used to their length; NULL: no such reply. */
static struct link_user *skip_plain(struct link *l, const struct inflight *head, const char *p,
                                    size_t n, size_t *used)
{
	struct link_user *u = head ? head->user : NULL;
	uint32_t count;

	if (!u || !is_only_forwarded(head, p) || l->watched || u->await_idle)
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

/* Handles the end, at `p`, of a reply. `used`: number of its bytes in this read. */
static void on_reply_end(struct link *l, struct segment *g, const char *p, size_t used,
                         bool is_whole)
{
	struct slice tail = slice_of(p - used, used);

	notify_early(l);
	if (is_notified(&l->reply) || l->watched || l->scan.reply.type == '>')
		forward_segment(l, g, p);
	/* The user may have closed the link. */
	if (l->state != LINK_CLOSED)
		end_reply(l, is_whole ? tail : SLICE_NONE);
}

/* Intercepts a late reply, or an incomplete one-line reply, because its rest may be late. */
static void intercept_late(struct link *l, const struct inflight *head, char type, bool whole)
{
	bool is_line = type != '$' && type != '*' && type != '%' && type != '~';

	if (!(l->reply.flags & LINK_INTERCEPT_LATE) || !head->user)
		return;
	if ((is_line && !whole) || head->user->ops->is_late(head->user->owner, head->tag))
		l->reply.flags |= LINK_INTERCEPT;
}

#define READONLY "-READONLY "
#define READONLY_LEN (sizeof(READONLY) - 1)

/* Compares the next bytes of an error with READONLY, by which a replica refuses writes. */
static void match_readonly(struct link *l, const char *p, size_t n)
{
	size_t left = READONLY_LEN - l->nreadonly;

	n = n < left ? n : left;
	l->nreadonly = memcmp(p, &READONLY[l->nreadonly], n) == 0 ? l->nreadonly + (uint8_t)n
	                                                          : 0;
	if (l->nreadonly < READONLY_LEN)
		return;
	l->nreadonly = 0;
	if (l->env->on_alarm)
		l->env->on_alarm(l->env->arg, LINK_READONLY);
}

/* Scans one reply, or a part of it. `head`: the oldest request. Returns the number of bytes
 * scanned; 0: the link is closed, by a user or because the bytes are no reply. */
static size_t scan_one(struct link *l, struct segment *g, const struct inflight *head,
                       const char *p, size_t n, bool at_start)
{
	enum resp_result r;
	bool is_whole;
	size_t used;

	if (at_start) {
		begin_reply(l, head, *p);
		l->nreadonly = 0;
	}
	r = reply_scan(&l->scan, p, n, &used);
	if (at_start && r != RESP_BAD)
		intercept_late(l, head, *p, r == RESP_OK);
	switch_segment(l, g, link_forwards(l) ? l->reply.to : NULL, p);
	if (l->state == LINK_CLOSED)
		return 0;
	if (r == RESP_BAD) {
		/* Whole replies before the fault are valid. */
		forward_segment(l, g, p);
		link_go_down(l, LINK_BROKEN, "it sent bytes that are not a RESP reply");
		return 0;
	}
	is_whole = at_start && r == RESP_OK;
	if (at_start ? *p == '-' : l->nreadonly > 0)
		match_readonly(l, p, used);
	if ((l->reply.flags & LINK_PIECES) && l->reply.to)
		l->reply.to->ops->on_piece(l->reply.to->owner, head->tag, slice_of(p, used),
		                           r == RESP_OK);
	if (!is_whole && !capture_bytes(&l->reply, l->scan.reply.type, slice_of(p, used))) {
		link_go_down(l, LINK_BROKEN, "no memory for a reply, or it is too long");
		return 0;
	}
	if (r == RESP_OK)
		on_reply_end(l, g, p + used, used, is_whole);
	else if (buf_len(&l->reply.captured) && l->reply.to && l->reply.to->ops->on_captured)
		l->reply.to->ops->on_captured(l->reply.to->owner);
	return used;
}

/* True if an endless stream, not a reply, begins at `p`. An error there is a reply; an array or
 * a push is a message before the stream. */
static bool begins_stream(const struct inflight *head, const char *p)
{
	return head && (head->flags & LINK_BEGINS_STREAM) && head->user && *p != '-' &&
	       *p != '*' && *p != '>';
}

static void start_stream(struct link *l)
{
	struct inflight head = *fifo_head(&l->fifo);

	link_set_state(l, LINK_TURNING_OPAQUE);
	link_turn_opaque(l);
	head.user->ops->on_stream(head.user->owner, head.tag);
}

static void scan_replies(struct link *l, const char *p, size_t n)
{
	const char *end = p + n;
	struct segment g = { NULL, p };
	struct link_user *to;
	size_t used;

	while (p < end && link_scans_replies(l)) {
		bool at_start = reply_scan_at_start(&l->scan);
		const struct inflight *head = fifo_head(&l->fifo);
		size_t left = (size_t)(end - p);

		if (at_start && (to = skip_plain(l, head, p, left, &used))) {
			switch_segment(l, &g, to, p);
		} else if (at_start && begins_stream(head, p)) {
			forward_segment(l, &g, p);
			/* The callback may have removed the user, or closed the link. */
			if (!link_scans_replies(l) || !begins_stream(fifo_head(&l->fifo), p))
				continue;
			start_stream(l);
			break;
		} else if ((used = scan_one(l, &g, head, p, left, at_start)) == 0) {
			return;
		}
		p += used;
	}
	forward_segment(l, &g, p);
	l->reply.begun = !reply_scan_at_start(&l->scan);
	if (l->state == LINK_OPAQUE) {
		/* The remaining bytes are no replies. */
		g.to = link_sole_user(l);
		forward_segment(l, &g, end);
	}
}

/* True for errors by which the kernel, not Redis, ends a connection. */
static bool is_lost(int error)
{
	return error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH ||
	       error == EHOSTDOWN || error == ENETDOWN;
}

static void take_bytes(struct link *l, const char *p, size_t n)
{
	struct segment g = { link_sole_user(l), p };

	if (l->state == LINK_OPAQUE)
		forward_segment(l, &g, p + n);
	else
		scan_replies(l, p, n);
}

void link_receive(struct link *l, struct slice bytes)
{
	if (l->state != LINK_CLOSED)
		take_bytes(l, bytes.p, bytes.n);
}

void link_on_readable(struct stream *s)
{
	struct link *l = container_of(s, struct link, stream);
	char *scratch = l->env->scratch, reason[256];
	ssize_t n = stream_read(s, scratch, l->env->scratch_size);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	l->nreads++;
	if (n < 0 && is_lost(errno)) {
		link_fail(l, strerror(errno));
	} else if (n < 0) {
		/* Copy the reason, because link_go_down() frees the stream. */
		snprintf(reason, sizeof(reason), "%s", stream_strerror(s, errno));
		link_go_down(l, LINK_BROKEN, reason);
	} else if (n == 0) {
		link_go_down(l, LINK_BROKEN, "closed by the server");
	} else {
		take_bytes(l, scratch, (size_t)n);
	}
}
