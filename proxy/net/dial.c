/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fatal.h"
#include "net/watch.h"

/* connect() to a unix socket with a full backlog fails at once; TCP would go on trying. */
#define BACKLOG_RETRY_SECONDS 0.01

struct dial {
	struct ev_loop *loop;
	struct resolve_request *resolving; /* NULL: done, or not needed */
	struct addrinfo *addresses; /* NULL: none yet, or a unix socket */
	struct addrinfo *next; /* among them, to be tried next; NULL: none */
	struct sockaddr_storage local; /* of a unix socket */
	socklen_t local_len; /* 0: it is no unix socket */
	int64_t keepalive_ms, user_timeout_ms; /* as in the dialer */
	const char *refusal; /* of dial_refuse(); NULL: it is none */
	int error; /* errno of the last address tried */
	struct watch writable; /* the socket that is being connected */
	struct ev_timer timer; /* dialer.timeout_ms */
	struct ev_timer retry; /* of a unix socket with a full backlog */
	void (*done)(void *arg, int fd, const char *reason);
	void *arg;
};

void dial_tune(int fd, int64_t keepalive_ms)
{
	int on = 1, idle = (int)(keepalive_ms / 1000), interval = idle / 3;

	/* Unix sockets have neither. */
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0 || idle <= 0)
		return;
	if (interval < 1)
		interval = 1;
	(void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	on = 3;
	(void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &on, sizeof(on));
}

/* Not before it is connected: until then the dialer's time-out counts. */
static void limit_silence(int fd, int64_t user_timeout_ms)
{
	unsigned ms = (unsigned)user_timeout_ms;

	/* (Unix sockets have no such thing.) */
	if (ms)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

static void close_socket(struct dial *d)
{
	int fd = watch_stop(d->loop, &d->writable);

	if (fd >= 0)
		close(fd);
}

void dial_cancel(struct dial *d)
{
	if (d->resolving)
		resolve_cancel(d->resolving);
	close_socket(d);
	ev_timer_stop(d->loop, &d->timer);
	ev_timer_stop(d->loop, &d->retry);
	if (d->addresses)
		freeaddrinfo(d->addresses);
	free(d);
}

static void dial_finish(struct dial *d, int fd, const char *reason)
{
	void (*done)(void *, int, const char *) = d->done;
	void *arg = d->arg;

	dial_cancel(d);
	done(arg, fd, reason);
}

/* Returns 0 when a connection is under way, -1 with d->error set. */
static int try_address(struct dial *d, const struct sockaddr *sa, socklen_t len)
{
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		d->error = errno;
		return -1;
	}
	if (sa->sa_family != AF_UNIX)
		dial_tune(fd, d->keepalive_ms);
	if (connect(fd, sa, len) < 0 && errno != EINPROGRESS) {
		d->error = errno;
		close(fd);
		return -1;
	}
	watch_start(d->loop, &d->writable, fd, EV_WRITE);
	return 0;
}

static int try_local(struct dial *d)
{
	if (try_address(d, (struct sockaddr *)&d->local, d->local_len) == 0)
		return 0;
	if (d->error != EAGAIN)
		return -1;
	ev_timer_set(&d->retry, BACKLOG_RETRY_SECONDS, 0);
	ev_timer_start(d->loop, &d->retry);
	return 0;
}

static void dial_on_retry(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	struct dial *d = w->data;

	(void)loop;
	(void)revents;
	if (try_local(d) < 0)
		dial_finish(d, -1, strerror(d->error));
}

static void try_next(struct dial *d)
{
	while (d->next) {
		struct addrinfo *ai = d->next;
		d->next = ai->ai_next;
		if (try_address(d, ai->ai_addr, ai->ai_addrlen) == 0)
			return;
	}
	dial_finish(d, -1, strerror(d->error));
}

static void dial_on_writable(struct watch *w, int events)
{
	struct dial *d = container_of(w, struct dial, writable);
	socklen_t len = sizeof(d->error);
	int fd = watch_fd(w);

	(void)events;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &d->error, &len) < 0)
		d->error = errno;
	if (d->error) {
		close_socket(d);
		try_next(d);
		return;
	}
	(void)watch_stop(d->loop, &d->writable);
	limit_silence(fd, d->user_timeout_ms);
	dial_finish(d, fd, NULL);
}

static void dial_on_resolved(void *arg, struct addrinfo *ai, int error)
{
	struct dial *d = arg;

	d->resolving = NULL;
	if (!ai) {
		dial_finish(d, -1, gai_strerror(error));
		return;
	}
	d->addresses = d->next = ai;
	try_next(d);
}

/* The time is over; or the dial failed in its beginning, where `done` must not run. */
static void dial_on_timer(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	struct dial *d = w->data;

	(void)loop;
	(void)revents;
	if (d->refusal)
		dial_finish(d, -1, d->refusal);
	else
		dial_finish(d, -1, strerror(d->error ? d->error : ETIMEDOUT));
}

static int first_try(struct dial *d, const struct dialer *how, const struct address *to)
{
	int error;

	if (to->local) {
		d->local_len = address_unix(to->host, &d->local);
		if (d->local_len)
			return try_local(d);
		d->error = ENAMETOOLONG;
		return -1;
	}
	d->addresses = resolve_numeric(to->host, to->port, &error);
	if (!d->addresses) {
		d->resolving = resolve_start(how->resolver, to->host, to->port,
		                             dial_on_resolved, d);
		d->error = d->resolving ? 0 : EAGAIN;
		return d->resolving ? 0 : -1;
	}
	d->next = d->addresses->ai_next;
	return try_address(d, d->addresses->ai_addr, d->addresses->ai_addrlen);
}

static struct dial *dial_new(const struct dialer *how,
                             void (*done)(void *arg, int fd, const char *reason), void *arg)
{
	struct dial *d = xcalloc(1, sizeof(*d));

	d->loop = how->loop;
	d->keepalive_ms = how->keepalive_ms;
	d->user_timeout_ms = how->user_timeout_ms;
	d->done = done;
	d->arg = arg;
	watch_init(&d->writable, dial_on_writable);
	ev_timer_init(&d->retry, dial_on_retry, 0, 0);
	d->retry.data = d;
	return d;
}

static void dial_end_in(struct dial *d, double seconds)
{
	ev_timer_init(&d->timer, dial_on_timer, seconds, 0);
	d->timer.data = d;
	ev_timer_start(d->loop, &d->timer);
}

struct dial *dial_start(const struct dialer *how, const struct address *to,
                        void (*done)(void *arg, int fd, const char *reason), void *arg)
{
	struct dial *d = dial_new(how, done, arg);
	bool failed = first_try(d, how, to) < 0;

	dial_end_in(d, failed ? 0 : (double)how->timeout_ms / 1000);
	return d;
}

struct dial *dial_refuse(const struct dialer *how, const char *reason,
                         void (*done)(void *arg, int fd, const char *reason), void *arg)
{
	struct dial *d = dial_new(how, done, arg);

	d->refusal = reason;
	dial_end_in(d, 0);
	return d;
}
