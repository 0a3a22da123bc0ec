/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fatal.h"

/* What is kept to be used again is no larger. */
#define SPARE_MAX (2 * STREAM_HIGH_WATER)

/* recv() and send() as the kernel has them. The C library's are points at which a thread may be
 * cancelled, which none of ours ever is; the books it keeps of that, in a process with several
 * threads, are an eighth of the instructions that passing a short request on takes. */
static ssize_t receive(int fd, char *p, size_t n)
{
	return syscall(SYS_recvfrom, fd, p, n, 0, NULL, NULL);
}

static ssize_t transmit(int fd, struct slice bytes)
{
	return syscall(SYS_sendto, fd, bytes.p, bytes.n, MSG_NOSIGNAL, NULL, 0);
}

/* What the loop is to tell of the socket has changed, or may have. */
static void watch(struct stream *s)
{
	int events = (s->paused ? 0 : EV_READ) | (s->writing ? EV_WRITE : 0);

	if (!stream_is_open(s) || (s->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(s->flusher->loop, &s->io);
	ev_io_set(&s->io, s->io.fd, events);
	if (events)
		ev_io_start(s->flusher->loop, &s->io);
}

static void write_later(struct stream *s, bool writing)
{
	s->writing = writing;
	watch(s);
}

/* Gives the memory of `out` back, or keeps it for the next one who queues: he need not grow his
 * step by step in every turn. Who is slow to take his bytes gets none of it. */
static void release_out(struct stream *s)
{
	struct buf *freelist_node = &s->flusher->freelist_node;

	if (buf_cap(&s->out) <= buf_cap(freelist_node) || buf_cap(&s->out) > SPARE_MAX) {
		buf_release(&s->out);
		return;
	}
	buf_release(freelist_node);
	*freelist_node = s->out;
	buf_clear(freelist_node);
	s->out = BUF_INIT;
}

static void drop_out(struct stream *s)
{
	s->flusher->pending -= buf_len(&s->out);
	release_out(s);
}

static void append_out(struct stream *s, struct slice bytes)
{
	s->flusher->pending += bytes.n;
	buf_append(&s->out, bytes);
}

/* The connection broke while writing: let the reader find out. */
static void stream_fail(struct stream *s, int error)
{
	if (s->error)
		return;
	s->error = error;
	drop_out(s);
	list_remove(&s->dirty);
	write_later(s, false);
	ev_feed_event(s->flusher->loop, &s->io, EV_READ);
}

/* Writes what the socket takes. Returns the bytes taken. */
static size_t write_some(struct stream *s, struct slice bytes)
{
	ssize_t n;

	do
		n = transmit(s->io.fd, bytes);
	while (n < 0 && errno == EINTR);
	if (n >= 0)
		return (size_t)n;
	if (errno != EAGAIN && errno != EWOULDBLOCK)
		stream_fail(s, errno);
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
		write_later(s, true);
		return;
	}
	if (buf_cap(&s->out))
		release_out(s);
	if (s->shut && shutdown(s->io.fd, SHUT_WR) < 0)
		stream_fail(s, errno);
}

static void stream_on_writable(struct stream *s)
{
	flush(s);
	if (buf_len(&s->out))
		return;
	write_later(s, false);
	if (s->ops->on_drained)
		s->ops->on_drained(s);
}

static void on_event(struct ev_loop *loop, struct ev_io *w, int revents)
{
	struct stream *s = container_of(w, struct stream, io);

	(void)loop;
	if ((revents & EV_WRITE) && s->writing)
		stream_on_writable(s);
	/* What was done then may have ended it, or filled somebody up. */
	if ((revents & EV_READ) && stream_is_open(s) && (!s->paused || s->error))
		s->ops->on_readable(s);
}

static void on_prepare(struct ev_loop *loop, struct ev_prepare *w, int revents)
{
	struct stream_flusher *f = w->data;
	struct list *node;

	(void)loop;
	(void)revents;
	while ((node = list_shift(&f->dirty))) {
		struct stream *s = container_of(node, struct stream, dirty);
		if (!s->writing)
			flush(s);
		if (stream_is_open(s) && !s->error && buf_len(&s->out) == 0 &&
		    s->ops->on_drained)
			s->ops->on_drained(s);
	}
}

void stream_flusher_init(struct stream_flusher *f, struct ev_loop *loop)
{
	f->loop = loop;
	f->pending = 0;
	f->freelist_node = BUF_INIT;
	list_init(&f->dirty);
	ev_prepare_init(&f->prepare, on_prepare);
	f->prepare.data = f;
	ev_prepare_start(loop, &f->prepare);
}

void stream_flusher_fini(struct stream_flusher *f)
{
	HASP_ASSERT(list_empty(&f->dirty));
	ev_prepare_stop(f->loop, &f->prepare);
	buf_release(&f->freelist_node);
}

void stream_init(struct stream *s, struct stream_flusher *f, const struct stream_ops *ops,
                 void *owner)
{
	*s = (struct stream){ .flusher = f, .ops = ops };
	list_init(&s->dirty);
	ev_io_init(&s->io, on_event, -1, 0);
	s->io.data = owner;
}

void stream_attach(struct stream *s, int fd)
{
	HASP_ASSERT(!stream_is_open(s) && fd >= 0);
	ev_io_set(&s->io, fd, 0);
	watch(s);
	flush(s);
}

void stream_close(struct stream *s)
{
	if (stream_is_open(s)) {
		ev_io_stop(s->flusher->loop, &s->io);
		close(s->io.fd);
		ev_io_set(&s->io, -1, 0);
	}
	list_remove(&s->dirty);
	drop_out(s);
}

ssize_t stream_read(struct stream *s, char *p, size_t n)
{
	ssize_t got;

	do
		got = receive(s->io.fd, p, n);
	while (got < 0 && errno == EINTR);
	if (s->error && got > 0) {
		/* What the peer said before it went is still to be heard. */
		ev_feed_event(s->flusher->loop, &s->io, EV_READ);
	} else if (s->error) {
		errno = s->error;
		return -1;
	}
	return got;
}

void stream_pause(struct stream *s)
{
	s->paused = true;
	watch(s);
}

void stream_resume(struct stream *s)
{
	if (!s->paused)
		return;
	s->paused = false;
	watch(s);
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
		write_later(s, true);
}

void stream_queue(struct stream *s, struct slice bytes)
{
	if (s->error || s->shut || bytes.n == 0)
		return;
	if (buf_cap(&s->out) == 0) {
		s->out = s->flusher->freelist_node;
		s->flusher->freelist_node = BUF_INIT;
	}
	append_out(s, bytes);
	if (!stream_is_open(s) || s->writing)
		return;
	if (list_empty(&s->dirty))
		list_append(&s->flusher->dirty, &s->dirty);
	/* Whoever fills it would have to be paused, and may not if the socket takes this. */
	if (buf_len(&s->out) >= STREAM_HIGH_WATER)
		flush(s);
}

void stream_flush(struct stream *s)
{
	if (!s->writing)
		flush(s);
}

void stream_shutdown(struct stream *s)
{
	if (s->shut)
		return;
	s->shut = true;
	if (stream_is_open(s) && buf_len(&s->out) == 0 && !s->error)
		flush(s);
}
