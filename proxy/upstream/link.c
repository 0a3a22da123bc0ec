/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

#define FIFO_MIN 4

/* A run of requests in flight that are to be treated alike. Runs of more than one
 * have no tag. */
struct inflight {
	void *tag;
	uint32_t count;
	uint8_t flags;
};

/* A ring. */
struct fifo {
	struct inflight *runs;
	uint32_t cap; /* a power of two, or 0 */
	uint32_t head;
	uint32_t nruns;
	size_t requests;
};

struct link {
	const struct link_env *env;
	const struct link_ops *ops;
	void *owner;
	struct dial *dial; /* NULL: connected, or closed */
	struct stream stream;
	struct reply_scan scan;
	struct fifo fifo;
	struct buf kept;
	uint8_t treat; /* flags for the reply being read */
	bool closed;
	bool opaque;
	bool watched;
	bool overflowed; /* the reply being kept is too long */
};

static struct inflight *fifo_head(struct fifo *f)
{
	return f->nruns ? &f->runs[f->head] : NULL;
}

static void fifo_grow(struct fifo *f)
{
	uint32_t cap = f->cap ? f->cap * 2 : FIFO_MIN;
	struct inflight *runs = xmalloc(cap * sizeof(*runs));

	for (uint32_t i = 0; f->runs && i < f->nruns; i++)
		runs[i] = f->runs[(f->head + i) & (f->cap - 1)];
	free(f->runs);
	f->runs = runs;
	f->cap = cap;
	f->head = 0;
}

static void fifo_push(struct fifo *f, unsigned flags, void *tag)
{
	struct inflight *last = NULL;

	f->requests++;
	if (f->nruns)
		last = &f->runs[(f->head + f->nruns - 1) & (f->cap - 1)];
	if (last && flags == LINK_PASS && last->flags == LINK_PASS &&
	    last->count < UINT32_MAX) {
		last->count++;
		return;
	}
	if (f->nruns == f->cap)
		fifo_grow(f);
	f->runs[(f->head + f->nruns++) & (f->cap - 1)] =
		(struct inflight){ tag, 1, (uint8_t)flags };
}

static void fifo_clear(struct fifo *f)
{
	free(f->runs);
	*f = (struct fifo){ 0 };
}

static void fifo_pop(struct fifo *f)
{
	f->requests--;
	if (--f->runs[f->head].count)
		return;
	f->head = (f->head + 1) & (f->cap - 1);
	if (--f->nruns == 0 && f->cap > FIFO_MIN)
		fifo_clear(f);
}

static void on_readable(struct stream *s);
static void on_drained(struct stream *s);

static const struct stream_ops stream_ops = { on_readable, on_drained };

static void go_down(struct link *l, const char *reason, bool was_up)
{
	if (l->closed)
		return;
	link_close(l);
	l->ops->on_down(l->owner, reason, was_up);
}

static void on_dialled(void *arg, int fd, const char *reason)
{
	struct link *l = arg;

	l->dial = NULL;
	if (fd < 0) {
		go_down(l, reason, false);
		return;
	}
	stream_attach(&l->stream, fd);
	if (stream_pending(&l->stream) == 0)
		l->ops->on_drained(l->owner);
}

struct link *link_new(const struct link_env *env, const struct link_ops *ops,
                      void *owner)
{
	struct link *l = xcalloc(1, sizeof(*l));

	l->env = env;
	l->ops = ops;
	l->owner = owner;
	stream_init(&l->stream, env->flusher, &stream_ops, l);
	l->dial = dial(&env->dialer, &env->address, on_dialled, l);
	return l;
}

void link_close(struct link *l)
{
	if (l->closed)
		return;
	l->closed = true;
	if (l->dial)
		dial_cancel(l->dial);
	l->dial = NULL;
	stream_close(&l->stream);
}

void link_free(struct link *l)
{
	if (!l)
		return;
	link_close(l);
	fifo_clear(&l->fifo);
	buf_release(&l->kept);
	free(l);
}

/* The frame that begins now answers the head of the FIFO, unless it is a push. */
static void begin_frame(struct link *l, char type)
{
	struct inflight *head = fifo_head(&l->fifo);

	l->treat = LINK_PASS;
	l->overflowed = false;
	if (!head || type == '>')
		return;
	l->treat = head->flags;
	if ((l->treat & LINK_ASK) && type != '-')
		l->treat &= (uint8_t)~LINK_ASK;
}

static bool is_forwarded(const struct link *l)
{
	return !(l->treat & (LINK_QUIET | LINK_ASK));
}

static void keep(struct link *l, struct slice bytes)
{
	if (!(l->treat & (LINK_KEEP | LINK_ASK)) || l->overflowed)
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
	if (!l->ops->on_frame || (!l->watched && l->scan.reply.type != '>'))
		return false;
	return l->ops->on_frame(l->owner, &l->scan);
}

static void end_frame(struct link *l)
{
	struct inflight *head;
	struct inflight run;
	struct buf kept = l->kept;
	bool forward = true;

	l->kept = BUF_INIT;
	if (is_out_of_band(l) || !(head = fifo_head(&l->fifo))) {
		buf_release(&kept);
		return;
	}
	run = *head;
	fifo_pop(&l->fifo);
	if (l->treat & LINK_ASK) {
		forward = l->ops->on_error(l->owner, run.tag, buf_slice(&kept));
		if (forward && !l->closed)
			l->ops->on_bytes(l->owner, buf_slice(&kept));
	}
	if ((run.flags & LINK_TELL) && forward && !l->closed)
		l->ops->on_reply(l->owner, run.tag, &l->scan.reply,
		                 run.flags & LINK_KEEP ? buf_slice(&kept) : SLICE_NONE);
	buf_release(&kept);
}

static void forward(struct link *l, const char *from, const char *to)
{
	if (to > from && !l->closed)
		l->ops->on_bytes(l->owner, slice_of(from, (size_t)(to - from)));
}

static void scan_replies(struct link *l, const char *p, size_t n)
{
	const char *end = p + n, *from = p, *frame = p;
	enum resp_result r = RESP_OK;

	while (p < end && !l->opaque && !l->closed && r != RESP_BAD) {
		size_t used;
		if (reply_scan_at_start(&l->scan)) {
			begin_frame(l, *p);
			frame = p;
		}
		r = reply_scan(&l->scan, p, (size_t)(end - p), &used);
		keep(l, slice_of(p, used));
		if (!is_forwarded(l)) {
			forward(l, from, p);
			from = p + used;
		}
		p += used;
		if (r == RESP_OK)
			end_frame(l);
	}
	if (r == RESP_BAD) {
		forward(l, from, frame);
		go_down(l, "it sent bytes that are no RESP reply", true);
		return;
	}
	forward(l, from, l->opaque ? end : p);
}

static void on_readable(struct stream *s)
{
	struct link *l = s->owner;
	char *scratch = l->env->scratch;
	ssize_t n = stream_read(s, scratch, l->env->scratch_size);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		return;
	if (n <= 0)
		go_down(l, n < 0 ? strerror(errno) : "closed by the server", true);
	else if (l->opaque)
		forward(l, scratch, scratch + n);
	else
		scan_replies(l, scratch, (size_t)n);
}

static void on_drained(struct stream *s)
{
	struct link *l = s->owner;

	l->ops->on_drained(l->owner);
}

void link_send(struct link *l, struct slice bytes)
{
	if (!l->closed)
		stream_send(&l->stream, bytes);
}

void link_shutdown(struct link *l)
{
	stream_shutdown(&l->stream);
}

size_t link_pending(const struct link *l)
{
	return stream_pending(&l->stream);
}

void link_expect(struct link *l, unsigned flags, void *tag)
{
	if (!l->opaque)
		fifo_push(&l->fifo, flags, tag);
}

size_t link_inflight(const struct link *l)
{
	return l->fifo.requests;
}

void *link_head(const struct link *l)
{
	return l->fifo.nruns ? l->fifo.runs[l->fifo.head].tag : NULL;
}

void link_drop_head(struct link *l)
{
	HASP_ASSERT(l->fifo.nruns);
	fifo_pop(&l->fifo);
}

void link_watch(struct link *l, bool on)
{
	l->watched = on;
}

void link_make_opaque(struct link *l)
{
	l->opaque = true;
	fifo_clear(&l->fifo);
}

void link_pause(struct link *l)
{
	stream_pause(&l->stream);
}

void link_resume(struct link *l)
{
	stream_resume(&l->stream);
}
