/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fatal.h"

static void on_rd(struct ev_loop *loop, struct ev_io *w, int revents)
{
	struct stream *s = w->data;

	(void)loop;
	(void)revents;
	s->ops->on_readable(s);
}

static void drop_out(struct stream *s)
{
	s->flusher->pending -= buf_len(&s->out);
	buf_release(&s->out);
}

static void append_out(struct stream *s, struct slice bytes)
{
	s->flusher->pending += bytes.n;
	buf_append(&s->out, bytes);
}

/* The connection broke while writing: let the reader find out. */
static void fail(struct stream *s, int error)
{
	if (s->error)
		return;
	s->error = error;
	drop_out(s);
	list_remove(&s->dirty);
	ev_io_stop(s->flusher->loop, &s->wr);
	ev_feed_event(s->flusher->loop, &s->rd, EV_READ);
}

/* Writes what the socket takes. Returns the bytes taken. */
static size_t write_some(struct stream *s, struct slice bytes)
{
	ssize_t n;

	do
		n = send(s->rd.fd, bytes.p, bytes.n, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return (size_t)n;
	if (errno != EAGAIN && errno != EWOULDBLOCK)
		fail(s, errno);
	return 0;
}

static void flush(struct stream *s)
{
	if (!stream_is_open(s) || s->error)
		return;
	if (buf_len(&s->out)) {
		size_t n = write_some(s, buf_slice(&s->out));
		if (s->error)
			return;
		s->flusher->pending -= n;
		buf_consume(&s->out, n);
	}
	if (buf_len(&s->out)) {
		ev_io_start(s->flusher->loop, &s->wr);
		return;
	}
	buf_release(&s->out);
	if (s->shut && shutdown(s->rd.fd, SHUT_WR) < 0)
		fail(s, errno);
}

static void on_wr(struct ev_loop *loop, struct ev_io *w, int revents)
{
	struct stream *s = w->data;

	(void)revents;
	flush(s);
	if (buf_len(&s->out))
		return;
	ev_io_stop(loop, &s->wr);
	if (s->ops->on_drained)
		s->ops->on_drained(s);
}

static void on_prepare(struct ev_loop *loop, struct ev_prepare *w, int revents)
{
	struct stream_flusher *f = w->data;
	struct list *node;

	(void)loop;
	(void)revents;
	while ((node = list_shift(&f->dirty))) {
		struct stream *s = container_of(node, struct stream, dirty);
		flush(s);
		if (stream_is_open(s) && !s->error && buf_len(&s->out) == 0 &&
		    s->ops->on_drained)
			s->ops->on_drained(s);
	}
}

void stream_flusher_init(struct stream_flusher *f, struct ev_loop *loop)
{
	f->loop = loop;
	list_init(&f->dirty);
	ev_prepare_init(&f->prepare, on_prepare);
	f->prepare.data = f;
	ev_prepare_start(loop, &f->prepare);
}

void stream_flusher_fini(struct stream_flusher *f)
{
	HASP_ASSERT(list_empty(&f->dirty));
	ev_prepare_stop(f->loop, &f->prepare);
}

void stream_init(struct stream *s, struct stream_flusher *f, const struct stream_ops *ops,
                 void *owner)
{
	*s = (struct stream){ .flusher = f, .ops = ops, .owner = owner };
	list_init(&s->dirty);
	ev_io_init(&s->rd, on_rd, -1, EV_READ);
	ev_io_init(&s->wr, on_wr, -1, EV_WRITE);
	s->rd.data = s->wr.data = s;
}

void stream_attach(struct stream *s, int fd)
{
	HASP_ASSERT(!stream_is_open(s) && fd >= 0);
	ev_io_set(&s->rd, fd, EV_READ);
	ev_io_set(&s->wr, fd, EV_WRITE);
	if (!s->paused)
		ev_io_start(s->flusher->loop, &s->rd);
	flush(s);
}

void stream_close(struct stream *s)
{
	if (stream_is_open(s)) {
		ev_io_stop(s->flusher->loop, &s->rd);
		ev_io_stop(s->flusher->loop, &s->wr);
		close(s->rd.fd);
		ev_io_set(&s->rd, -1, EV_READ);
		ev_io_set(&s->wr, -1, EV_WRITE);
	}
	list_remove(&s->dirty);
	drop_out(s);
}

ssize_t stream_read(struct stream *s, char *p, size_t n)
{
	ssize_t got;

	do
		got = read(s->rd.fd, p, n);
	while (got < 0 && errno == EINTR);
	if (s->error && got > 0) {
		/* What the peer said before it went is still to be heard. */
		ev_feed_event(s->flusher->loop, &s->rd, EV_READ);
	} else if (s->error) {
		errno = s->error;
		return -1;
	}
	return got;
}

void stream_pause(struct stream *s)
{
	s->paused = true;
	if (stream_is_open(s))
		ev_io_stop(s->flusher->loop, &s->rd);
}

void stream_resume(struct stream *s)
{
	if (!s->paused)
		return;
	s->paused = false;
	if (stream_is_open(s))
		ev_io_start(s->flusher->loop, &s->rd);
}

void stream_send(struct stream *s, struct slice bytes)
{
	size_t n = 0;

	if (s->error || s->shut)
		return;
	if (stream_is_open(s) && buf_len(&s->out) == 0)
		n = write_some(s, bytes);
	if (n == bytes.n || s->error)
		return;
	append_out(s, slice_of(bytes.p + n, bytes.n - n));
	if (stream_is_open(s))
		ev_io_start(s->flusher->loop, &s->wr);
}

void stream_queue(struct stream *s, struct slice bytes)
{
	if (s->error || s->shut || bytes.n == 0)
		return;
	append_out(s, bytes);
	if (stream_is_open(s) && !ev_is_active(&s->wr) && list_empty(&s->dirty))
		list_append(&s->flusher->dirty, &s->dirty);
}

void stream_shutdown(struct stream *s)
{
	if (s->shut)
		return;
	s->shut = true;
	if (stream_is_open(s) && buf_len(&s->out) == 0 && !s->error)
		flush(s);
}
