/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stream: a connected socket on a loop: bytes in, bytes out, backpressure.
 * A stream knows nothing of what the bytes mean.
 *
 *   peer --> stream_read() --> owner --> stream_send()/stream_queue() --> out --> peer
 *
 * Bytes that cannot be written at once wait in `out`. If stream_pending() is large, the owner
 * pauses the source of the bytes until on_drained(). A stream with nothing to write owns no
 * buffer. Callbacks may not free the stream's memory; stream_close() may be called anywhere.
 *
 * If the connection is encrypted, sent bytes wait in `out` until the handshake is done.
 *
 * In place of a socket, a peer in this process may be at the other end. The peer takes as many
 * of the sent bytes as it likes, as a socket would, and gives its answers to the stream's owner
 * directly.
 */
#ifndef HASP_NET_STREAM_H
#define HASP_NET_STREAM_H

#include <ev.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/account.h"
#include "base/buf.h"
#include "base/list.h"
#include "base/metrics.h"
#include "base/slice.h"
#include "net/tls.h"
#include "net/watch.h"

/* If `out` has this many bytes, the owner should send no more until on_drained(). */
#define STREAM_HIGH_WATER ((size_t)256 * 1024)

struct stream;

/* The peer whose bytes a stream carries. */
enum stream_kind { STREAM_OTHER, STREAM_CLIENT, STREAM_UPSTREAM };
#define STREAM_KINDS (STREAM_UPSTREAM + 1)

struct stream_ops {
	/* Called when there are bytes to read, or the connection broke. */
	void (*on_readable)(struct stream *s);
	/* Called when all bytes that waited for the socket are written, or a peer has taken all
	 * that it can use before more bytes come. May be NULL. */
	void (*on_drained)(struct stream *s);
	enum stream_kind kind;
};

struct stream_peer;

/* No callback may call back into the stream. */
struct stream_peer_ops {
	/* Returns how many of the bytes the peer takes, from the first on. The stream offers
	 * the rest again after stream_peer_ready(). */
	size_t (*take)(struct stream_peer *p, struct slice bytes);
	/* The owner has shut the stream down for writing. Sent bytes may still wait in
	 * `out`. */
	void (*on_shutdown)(struct stream_peer *p);
	/* The owner wants no more bytes for now, or wants them again. */
	void (*on_pause)(struct stream_peer *p, bool paused);
	/* The stream was closed: the peer must not use it any more. */
	void (*on_close)(struct stream_peer *p);
	/* The owner no longer waits for the reply to its last request. If the peer has taken
	 * the request, but no server executes it now or later, the peer answers it with
	 * `error`, a line that lives as long as the peer. */
	void (*on_withdraw)(struct stream_peer *p, struct slice error);
	/* Returns the bytes of memory that the peer uses for the stream. */
	size_t (*nbytes)(const struct stream_peer *p);
};

/* Embedded in a struct that takes the place of a socket. */
struct stream_peer {
	const struct stream_peer_ops *ops;
};

/* Counts of bytes read from and written to sockets; encrypted bytes count as plain text. */
struct stream_bytes {
	struct metrics_counter read, written;
};

/* Flushes the streams of a loop at the end of each turn. */
struct stream_flusher {
	struct ev_loop *loop;
	struct ev_prepare prepare;
	struct list dirty; /* streams with queued bytes */
	/* The connections (struct tls) with decrypted bytes that were not read. Sockets do not
	 * report these bytes, so the loop does not wait for events while the list has any. */
	struct list decrypted;
	struct ev_check check;
	struct ev_idle idle;
	/* while this account is over its limit, no stream reads; NULL: no limit */
	const struct account *account;
	struct buf spare; /* empty, but keeps the memory of an `out` whose bytes were written:
	                   * the next stream that queues bytes gets the memory */
	struct stream_bytes
		bytes[STREAM_KINDS]; /* the bytes of all streams, by enum stream_kind */
};

struct stream {
	struct stream_flusher *flusher;
	const struct stream_ops *ops;
	struct stream_bytes *bytes; /* the counts in flusher->bytes for ops->kind */
	struct watch watch;
	struct stream_peer *peer; /* NULL: the stream has a socket, or is not connected */
	struct tls *tls; /* NULL: not encrypted */
	struct buf out; /* bytes to be written */
	uint32_t unsent; /* encrypted bytes that are not written yet */
	uint32_t taken; /* number of written bytes; wraps */
	struct list dirty; /* in flusher->dirty while queued bytes wait for the turn's end */
	int error; /* errno of the failed write; 0: none failed */
	bool shaking; /* the handshake is under way */
	bool paused; /* stream_pause() was called: no on_readable() */
	bool writing; /* the stream waits for the socket to be writable */
	bool shut; /* stream_shutdown() was called: nothing is sent after `out` */
};

/* `loop`: made by watch_loop_new(). */
void stream_flusher_init(struct stream_flusher *f, struct ev_loop *loop);
void stream_flusher_fini(struct stream_flusher *f);

/* Initializes a stream that is not connected yet: sent bytes wait in `out`. */
void stream_init(struct stream *s, struct stream_flusher *f, const struct stream_ops *ops);
/* Connects the stream to `fd`, a connected non-blocking socket, which it owns. If `tls` is not
 * NULL, it encrypts the stream, which then owns it, and does the handshake, unless `tls` has
 * done that already. */
void stream_attach(struct stream *s, int fd, struct tls *tls);
/* Connects the stream to `peer` in place of a socket, and offers `peer` the bytes in `out`. */
void stream_attach_peer(struct stream *s, struct stream_peer *peer);
/* Call this when the peer takes more bytes again. */
void stream_peer_ready(struct stream *s);
/* Closes the socket and drops unwritten bytes. Does nothing if the stream is closed. */
void stream_close(struct stream *s);
static inline bool stream_is_open(const struct stream *s)
{
	return watch_fd(&s->watch) >= 0 || s->peer;
}
/* Returns the stream's socket; -1: the stream has none. */
static inline int stream_fd(const struct stream *s)
{
	return watch_fd(&s->watch);
}

/* Reads at most `n` bytes. Returns their number; 0 at the end; -1 with errno: EAGAIN if there
 * are none now. */
ssize_t stream_read(struct stream *s, char *p, size_t n);
/* Returns a text for `error`, the errno after a failed stream_read(). */
const char *stream_strerror(const struct stream *s, int error);
/* True if encryption has failed, before or after the handshake. */
static inline bool stream_tls_failed(const struct stream *s)
{
	return s->tls && *s->tls->reason;
}
/* Calls on_readable() at the end of this turn, because bytes may have come already. */
void stream_expect_input(struct stream *s);
/* True if the peer has sent bytes that were not read yet. Asks the kernel. */
bool stream_has_input(const struct stream *s);
/* After stream_pause(), the stream does not call on_readable() until stream_resume(). */
void stream_pause(struct stream *s);
void stream_resume(struct stream *s);

/* Sends as much as the socket takes now, and keeps the rest in `out`. stream_read() reports
 * failures, after an on_readable(), so that the owner handles them in one place. */
void stream_send(struct stream *s, struct slice bytes);
/* Sends the bytes at the end of the loop's turn, together with all others that are queued until
 * then; or at once, if STREAM_HIGH_WATER bytes are queued. */
void stream_queue(struct stream *s, struct slice bytes);
/* Sends the queued bytes now, as far as the socket takes them. */
void stream_flush(struct stream *s);
/* Sends the queued bytes of all streams of the loop. */
void stream_flush_all(struct stream_flusher *f);
/* Sends all queued bytes, and calls on_drained(), as at the end of each turn. */
void stream_flusher_run(struct stream_flusher *f);
/* Shuts the connection down for writing after `out` is written. */
void stream_shutdown(struct stream *s);

/* Returns the number of bytes that wait for the socket. */
static inline size_t stream_pending(const struct stream *s)
{
	return buf_len(&s->out) + s->unsent;
}

#endif
