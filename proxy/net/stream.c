/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/stream.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fatal.h"

/* The most memory that a flusher keeps in `spare`, in bytes. */
#define SPARE_MAX (2 * STREAM_HIGH_WATER)

/* True if the stream may write to its socket or peer. */
static bool is_ready(const struct stream *s)
{
	return stream_is_open(s) && !s->shaking;
}

/* Sets the events that the watch awaits. Call this after each change of a field that decides
 * about them. */
static void update_events(struct stream *s)
{
	bool reads = s->shaking || !(s->paused || (s->tls && s->tls->read_wants_write));
	int events = (reads ? EV_READ : 0) | (s->writing ? EV_WRITE : 0);

	if (stream_is_open(s) && !s->peer)
		watch_change(s->flusher->loop, &s->watch, events);
}

static void set_writing(struct stream *s, bool writing)
{
	s->writing = writing;
	update_events(s);
}

/* Frees the memory of `out`, or keeps it as the flusher's spare: the next stream that queues
 * bytes takes the spare, so that its buffer need not grow step by step. */
static void release_out(struct stream *s)
{
	struct buf *spare = &s->flusher->spare;

	if (buf_cap(&s->out) <= buf_cap(spare) || buf_cap(&s->out) > SPARE_MAX) {
		buf_release(&s->out);
		return;
	}
	buf_release(spare);
	*spare = s->out;
	buf_clear(spare);
	s->out = BUF_INIT;
}

/* Makes the next turn read decrypted bytes, unless the stream is paused. */
static void stream_note_decrypted(struct stream *s)
{
	struct stream_flusher *f = s->flusher;

	if (!s->tls || s->paused || !list_empty(&s->tls->node) || !s->tls->has_more)
		return;
	list_append(&f->decrypted, &s->tls->node);
	ev_check_start(f->loop, &f->check);
	ev_idle_start(f->loop, &f->idle);
}

/* Updates the awaited events after bytes were encrypted or decrypted. */
static void stream_note_tls(struct stream *s)
{
	stream_note_decrypted(s);
	s->unsent = (uint32_t)buf_len(&s->tls->unsent);
	if (s->unsent && !s->error)
		s->writing = true;
	update_events(s);
}

/* Not inline, so that callers save fewer registers on the paths without TLS. */
__attribute__((noinline)) static ssize_t read_encrypted(struct stream *s, char *p, size_t n)
{
	ssize_t got = tls_read(s->tls, p, n);

	stream_note_tls(s);
	return got;
}

__attribute__((noinline)) static ssize_t write_encrypted(struct stream *s, struct slice bytes)
{
	ssize_t taken = tls_write(s->tls, bytes);

	stream_note_tls(s);
	return taken;
}

/* Records that a write failed. stream_read() reports the failure. */
static void stream_fail(struct stream *s, int error)
{
	if (s->error)
		return;
	s->error = error;
	s->shaking = false;
	release_out(s);
	list_remove(&s->dirty);
	set_writing(s, false);
	watch_feed(s->flusher->loop, &s->watch);
}

/* Writes as much as the socket or peer takes. Returns the number of bytes taken. */
static size_t write_some(struct stream *s, struct slice bytes)
{
	ssize_t n;

	if (s->peer) {
		n = (ssize_t)s->peer->ops->take(s->peer, bytes);
	} else {
		n = s->tls ? write_encrypted(s, bytes) : socket_transmit(stream_fd(s), bytes);
		if (n < 0 && errno != EAGAIN)
			stream_fail(s, errno);
		if (n < 0)
			return 0;
		metrics_count(&s->bytes->written, (uint64_t)n);
	}
	s->taken += (uint32_t)n;
	return (size_t)n;
}

static void write_out(struct stream *s)
{
	if (!is_ready(s) || s->error)
		return;
	if (stream_pending(s)) {
		size_t n = write_some(s, buf_slice(&s->out));
		if (s->error)
			return;
		buf_consume(&s->out, n);
	}
	if (s->shut && s->peer)
		s->peer->ops->on_shutdown(s->peer);
	if (s->shut && s->tls && stream_pending(s) == 0) {
		tls_shutdown(s->tls);
		s->unsent = (uint32_t)buf_len(&s->tls->unsent);
	}
	if (stream_pending(s)) {
		set_writing(s, true);
		return;
	}
	if (buf_cap(&s->out))
		release_out(s);
	if (s->shut && !s->peer && shutdown(stream_fd(s), SHUT_WR) < 0)
		stream_fail(s, errno);
}

static void stream_on_writable(struct stream *s)
{
	write_out(s);
	if (stream_pending(s))
		return;
	set_writing(s, false);
	if (s->ops->on_drained)
		s->ops->on_drained(s);
}

/* Not inline: see read_encrypted(). */
__attribute__((noinline)) static void stream_shake_hands(struct stream *s)
{
	enum tls_progress progress = tls_handshake(s->tls);

	s->unsent = (uint32_t)buf_len(&s->tls->unsent);
	switch (progress) {
	case TLS_DONE:
		s->shaking = false;
		set_writing(s, false);
		stream_note_decrypted(s);
		write_out(s);
		if (!s->error && stream_pending(s) == 0 && s->ops->on_drained)
			s->ops->on_drained(s);
		break;
	case TLS_WANTS_READ:
		set_writing(s, false);
		break;
	case TLS_WANTS_WRITE:
		set_writing(s, true);
		break;
	case TLS_FAILED:
		stream_fail(s, EPROTO);
		break;
	}
}

/* False if the stream is paused or memory is over its limit: a later turn reads the bytes. */
static bool may_read(const struct stream *s)
{
	const struct account *a = s->flusher->account;

	return !s->paused && !(a && account_is_over(a));
}

static void stream_on_ready(struct watch *w, int events)
{
	struct stream *s = container_of(w, struct stream, watch);

	if (s->shaking) {
		stream_shake_hands(s);
		return;
	}
	if ((events & EV_WRITE) && s->writing) {
		stream_on_writable(s);
		/* on_drained() may have closed or paused the stream. */
		if (!stream_is_open(s))
			return;
	}
	if (!(events & EV_READ))
		return;
	if (may_read(s) || s->error)
		s->ops->on_readable(s);
	/* The owner may have read nothing, for example for lack of memory. */
	stream_note_decrypted(s);
}

static void flusher_on_check(struct ev_loop *loop, struct ev_check *w, int revents)
{
	struct stream_flusher *f = w->data;

	(void)revents;
	list_shift_each (struct tls, t, &f->decrypted, node)
		watch_feed(loop, &((struct stream *)t->owner)->watch);
	ev_check_stop(loop, &f->check);
	ev_idle_stop(loop, &f->idle);
}

/* Does nothing: the idle watcher only keeps the loop from waiting. */
static void flusher_on_idle(struct ev_loop *loop, struct ev_idle *w, int revents)
{
	(void)loop;
	(void)w;
	(void)revents;
}

void stream_flusher_run(struct stream_flusher *f)
{
	list_shift_each (struct stream, s, &f->dirty, dirty) {
		if (!s->writing)
			write_out(s);
		if (stream_is_open(s) && !s->error && stream_pending(s) == 0 &&
		    s->ops->on_drained)
			s->ops->on_drained(s);
	}
}

static void flusher_on_prepare(struct ev_loop *loop, struct ev_prepare *w, int revents)
{
	(void)loop;
	(void)revents;
	stream_flusher_run(w->data);
}

void stream_flusher_init(struct stream_flusher *f, struct ev_loop *loop)
{
	f->loop = loop;
	f->account = NULL;
	f->spare = BUF_INIT;
	memset(f->bytes, 0, sizeof(f->bytes));
	list_init(&f->dirty);
	ev_prepare_init(&f->prepare, flusher_on_prepare);
	f->prepare.data = f;
	ev_prepare_start(loop, &f->prepare);
	list_init(&f->decrypted);
	ev_check_init(&f->check, flusher_on_check);
	f->check.data = f;
	ev_idle_init(&f->idle, flusher_on_idle);
}

void stream_flusher_fini(struct stream_flusher *f)
{
	HASP_ASSERT(list_empty(&f->dirty) && list_empty(&f->decrypted));
	ev_prepare_stop(f->loop, &f->prepare);
	ev_check_stop(f->loop, &f->check);
	ev_idle_stop(f->loop, &f->idle);
	buf_release(&f->spare);
}

void stream_init(struct stream *s, struct stream_flusher *f, const struct stream_ops *ops)
{
	*s = (struct stream){ .flusher = f, .ops = ops, .bytes = &f->bytes[ops->kind] };
	list_init(&s->dirty);
	watch_init(&s->watch, stream_on_ready);
}

void stream_attach(struct stream *s, int fd, struct tls *tls)
{
	if (tls) {
		s->tls = tls;
		tls->owner = s;
		s->shaking = !tls_is_ready(tls);
		s->unsent = (uint32_t)buf_len(&tls->unsent);
	}
	watch_start(s->flusher->loop, &s->watch, fd, 0);
	update_events(s);
	stream_note_decrypted(s);
	write_out(s);
}

void stream_attach_peer(struct stream *s, struct stream_peer *peer)
{
	s->peer = peer;
	write_out(s);
}

void stream_peer_ready(struct stream *s)
{
	if (!s->writing)
		return;
	stream_on_writable(s);
	/* A peer leaves the beginning of a request in `out` until more of it comes. */
	if (stream_pending(s) && s->ops->on_drained)
		s->ops->on_drained(s);
}

void stream_close(struct stream *s)
{
	int fd = watch_stop(s->flusher->loop, &s->watch);
	struct stream_peer *peer = s->peer;

	tls_free(s->tls);
	s->tls = NULL;
	s->unsent = 0;
	s->shaking = false;
	if (fd >= 0)
		close(fd);
	s->peer = NULL;
	if (peer)
		peer->ops->on_close(peer);
	list_remove(&s->dirty);
	release_out(s);
}

/* Not inline: see read_encrypted(). */
__attribute__((noinline)) static ssize_t read_broken(struct stream *s, ssize_t got)
{
	if (got <= 0) {
		errno = s->error;
		return -1;
	}
	/* Read on, for the bytes that the peer sent before it closed. */
	watch_feed(s->flusher->loop, &s->watch);
	return got;
}

ssize_t stream_read(struct stream *s, char *p, size_t n)
{
	ssize_t got = s->tls ? read_encrypted(s, p, n) : socket_receive(stream_fd(s), p, n);

	if (got > 0)
		metrics_count(&s->bytes->read, (uint64_t)got);
	return s->error ? read_broken(s, got) : got;
}

const char *stream_strerror(const struct stream *s, int error)
{
	return stream_tls_failed(s) ? s->tls->reason : strerror(error);
}

void stream_expect_input(struct stream *s)
{
	watch_feed(s->flusher->loop, &s->watch);
}

bool stream_has_input(const struct stream *s)
{
	char byte;

	if (s->tls && tls_has_input(s->tls))
		return true;
	return stream_is_open(s) && recv(stream_fd(s), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void stream_pause(struct stream *s)
{
	s->paused = true;
	update_events(s);
	if (s->peer)
		s->peer->ops->on_pause(s->peer, true);
}

void stream_resume(struct stream *s)
{
	if (!s->paused)
		return;
	s->paused = false;
	update_events(s);
	stream_note_decrypted(s);
	if (s->peer)
		s->peer->ops->on_pause(s->peer, false);
}

/* Not inline: see read_encrypted(). */
__attribute__((noinline)) static void keep_unsent(struct stream *s, struct slice rest)
{
	if (!buf_try_append(&s->out, rest)) {
		stream_fail(s, ENOMEM);
		return;
	}
	if (s->peer)
		stream_on_writable(s);
	else if (is_ready(s))
		set_writing(s, true);
}

void stream_send(struct stream *s, struct slice bytes)
{
	size_t n = 0;

	if (s->error || s->shut)
		return;
	if (is_ready(s) && buf_len(&s->out) == 0)
		n = write_some(s, bytes);
	if (n < bytes.n && !s->error)
		keep_unsent(s, slice_of(bytes.p + n, bytes.n - n));
}

void stream_queue(struct stream *s, struct slice bytes)
{
	if (s->error || s->shut || bytes.n == 0)
		return;
	if (buf_cap(&s->out) == 0) {
		/* Bytes for a peer cost no system call, so queueing would save nothing. */
		if (s->peer) {
			stream_send(s, bytes);
			return;
		}
		s->out = s->flusher->spare;
		s->flusher->spare = BUF_INIT;
	}
	if (!buf_try_append(&s->out, bytes)) {
		stream_fail(s, ENOMEM);
		return;
	}
	if (!is_ready(s) || s->writing) {
		if (s->peer)
			stream_on_writable(s);
		return;
	}
	if (list_empty(&s->dirty))
		list_append(&s->flusher->dirty, &s->dirty);
	/* Write now, because the owner pauses if `out` has so many bytes. */
	if (buf_len(&s->out) >= STREAM_HIGH_WATER)
		write_out(s);
}

void stream_flush(struct stream *s)
{
	if (!s->writing)
		write_out(s);
}

void stream_flush_all(struct stream_flusher *f)
{
	/* The streams stay in the list: on_drained() must wait for the end of the turn. */
	list_drain (struct stream, s, &f->dirty, dirty)
		stream_flush(s);
}

void stream_shutdown(struct stream *s)
{
	if (s->shut)
		return;
	s->shut = true;
	if (is_ready(s) && (buf_len(&s->out) == 0 || s->peer) && !s->error)
		write_out(s);
}
