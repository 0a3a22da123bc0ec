/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/dial.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/loop_timers.h"
#include "net/watch.h"

/* hasp repeats connect() after this time if a unix socket's backlog is full. */
#define BACKLOG_RETRY_SECONDS 0.01

struct dial {
	struct dialer opts; /* a copy; tls.context: a counted reference, NULL: no encryption */
	struct resolve_request *resolving; /* NULL: no name is being resolved */
	struct addrinfo *addresses; /* of the server; NULL: none yet, or a unix socket */
	struct addrinfo *next; /* the address to try next; NULL: there is none */
	struct sockaddr_storage local; /* address of a unix socket */
	socklen_t local_len; /* length of `local`; 0: no unix socket */
	char *server_name; /* the name that the server's certificate must have; NULL: no
	                    * encryption */
	struct tls *tls; /* encrypts the connected socket; NULL: no encryption yet */
	const char *refusal; /* the reason given to dial_refuse(); NULL: not refused */
	int error; /* errno of the address tried last */
	struct watch socket; /* the socket that connects or shakes hands */
	struct loop_timer timer; /* ends the dial after dialer.timeout_ms */
	double until; /* when the timer ends the dial, by clock_now() */
	struct loop_timer retry; /* tries the next address, or again a unix socket whose backlog
	                          * was full */
	dial_done_fn *done;
	void *arg;
};

void dial_tune(int fd, int64_t keepalive_ms)
{
	int on = 1, idle = (int)(keepalive_ms / 1000), interval = idle / 3;

	/* Unix sockets have neither TCP_NODELAY nor keepalive. */
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

static void close_socket(struct dial *d)
{
	int fd = watch_stop(d->opts.loop, &d->socket);

	tls_free(d->tls);
	d->tls = NULL;
	if (fd >= 0)
		close(fd);
}

void dial_cancel(struct dial *d)
{
	if (d->resolving)
		resolve_cancel(d->resolving);
	close_socket(d);
	loop_timer_stop(&d->timer);
	loop_timer_stop(&d->retry);
	if (d->addresses)
		freeaddrinfo(d->addresses);
	tls_context_unref(d->opts.tls.context);
	free(d->server_name);
	free(d);
}

static void dial_fail(struct dial *d, const char *reason)
{
	dial_done_fn *done = d->done;
	void *arg = d->arg;

	dial_cancel(d);
	done(arg, -1, NULL, reason);
}

/* Ends the dial: the connection is open, and encrypted if it should be. */
static void dial_succeed(struct dial *d)
{
	dial_done_fn *done = d->done;
	struct tls *tls = d->tls;
	void *arg = d->arg;
	unsigned ms = (unsigned)d->opts.user_timeout_ms;
	int fd = watch_stop(d->opts.loop, &d->socket);

	d->tls = NULL;
	/* Set TCP_USER_TIMEOUT only now: until here, dialer.timeout_ms was the limit. */
	if (ms)
		(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
	dial_cancel(d);
	done(arg, fd, tls, NULL);
}

static void dial_shake_hands(struct dial *d)
{
	char reason[sizeof("TLS: ") + sizeof(d->tls->reason)];

	switch (tls_handshake(d->tls)) {
	case TLS_DONE:
		dial_succeed(d);
		break;
	case TLS_WANTS_READ:
		watch_change(d->opts.loop, &d->socket, EV_READ);
		break;
	case TLS_WANTS_WRITE:
		watch_change(d->opts.loop, &d->socket, EV_WRITE);
		break;
	case TLS_FAILED:
		snprintf(reason, sizeof(reason), "TLS: %s", d->tls->reason);
		dial_fail(d, reason);
		break;
	}
}

/* Returns 0 if a connection is under way; -1 with d->error set. */
static int try_address(struct dial *d, const struct sockaddr *sa, socklen_t len)
{
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		d->error = errno;
		return -1;
	}
	if (descriptor_is_kept(fd, d->opts.use)) {
		d->error = EMFILE;
		close(fd);
		return -1;
	}
	if (sa->sa_family != AF_UNIX)
		dial_tune(fd, d->opts.keepalive_ms);
	if (connect(fd, sa, len) < 0 && errno != EINPROGRESS) {
		d->error = errno;
		close(fd);
		return -1;
	}
	watch_start(d->opts.loop, &d->socket, fd, EV_WRITE);
	return 0;
}

static int try_local(struct dial *d)
{
	if (try_address(d, (struct sockaddr *)&d->local, d->local_len) == 0)
		return 0;
	if (d->error != EAGAIN)
		return -1;
	loop_timer_start(&d->retry, BACKLOG_RETRY_SECONDS);
	return 0;
}

/* Gives the address that was just tried an equal part of the time that is left, so that an
 * address that does not answer leaves time for the next ones. */
static void share_time(struct dial *d)
{
	double left = d->until - clock_now();
	int n = 1;

	for (const struct addrinfo *ai = d->next; ai; ai = ai->ai_next)
		n++;
	if (n > 1)
		loop_timer_start(&d->retry, left / n);
}

static void try_next(struct dial *d)
{
	loop_timer_stop(&d->retry);
	while (d->next) {
		struct addrinfo *ai = d->next;
		d->next = ai->ai_next;
		if (try_address(d, ai->ai_addr, ai->ai_addrlen) == 0) {
			share_time(d);
			return;
		}
	}
	dial_fail(d, strerror(d->error));
}

static void dial_on_retry(void *arg)
{
	struct dial *d = arg;

	if (!d->local_len) {
		close_socket(d);
		try_next(d);
	} else if (try_local(d) < 0) {
		dial_fail(d, strerror(d->error));
	}
}

static void dial_on_ready(struct watch *w, int events)
{
	struct dial *d = container_of(w, struct dial, socket);
	socklen_t len = sizeof(d->error);

	(void)events;
	if (d->tls) {
		dial_shake_hands(d);
		return;
	}
	if (getsockopt(watch_fd(w), SOL_SOCKET, SO_ERROR, &d->error, &len) < 0)
		d->error = errno;
	if (d->error) {
		close_socket(d);
		try_next(d);
		return;
	}
	/* The address has answered: the handshake may take all the time that is left. */
	loop_timer_stop(&d->retry);
	if (!d->opts.tls.context) {
		dial_succeed(d);
		return;
	}
	d->tls = tls_connect(d->opts.tls.context, watch_fd(w), d->server_name, d->opts.resume);
	if (d->tls)
		dial_shake_hands(d);
	else
		dial_fail(d, "TLS: out of memory");
}

static void dial_on_resolved(void *arg, struct addrinfo *ai, int error)
{
	struct dial *d = arg;

	d->resolving = NULL;
	if (!ai) {
		dial_fail(d, gai_strerror(error));
		return;
	}
	d->addresses = d->next = ai;
	try_next(d);
}

/* Ends a dial that timed out. A dial that failed at once ends here, too: dial_start() and
 * dial_refuse() only start the timer, because they must not call `done` themselves. */
static void dial_on_timer(void *arg)
{
	struct dial *d = arg;

	if (d->refusal)
		dial_fail(d, d->refusal);
	else
		dial_fail(d, d->tls ? "TLS: no reply to the handshake in time; does the server "
		                      "use TLS?"
		                    : strerror(d->error ? d->error : ETIMEDOUT));
}

static int first_try(struct dial *d, const struct dialer *opts, const struct address *to)
{
	if (to->local) {
		d->local_len = address_unix(to->host, &d->local);
		if (d->local_len)
			return try_local(d);
		d->error = ENAMETOOLONG;
		return -1;
	}
	d->addresses = resolve_numeric(to->host, to->port);
	if (!d->addresses) {
		d->resolving = resolve_start(opts->resolver, to->host, to->port,
		                             dial_on_resolved, d);
		d->error = d->resolving ? 0 : EAGAIN;
		return d->resolving ? 0 : -1;
	}
	d->next = d->addresses->ai_next;
	return try_address(d, d->addresses->ai_addr, d->addresses->ai_addrlen);
}

static struct dial *dial_new(const struct dialer *opts, dial_done_fn *done, void *arg)
{
	struct dial *d = xcalloc(1, sizeof(*d));

	d->opts = *opts;
	d->opts.tls.context = NULL;
	d->done = done;
	d->arg = arg;
	watch_init(&d->socket, dial_on_ready);
	loop_timer_init(&d->retry, d->opts.loop, dial_on_retry, d);
	return d;
}

static void dial_end_in(struct dial *d, double seconds)
{
	loop_timer_init(&d->timer, d->opts.loop, dial_on_timer, d);
	loop_timer_start(&d->timer, seconds);
	d->until = clock_now() + seconds;
}

struct dial *dial_start(const struct dialer *opts, const struct address *to, dial_done_fn *done,
                        void *arg)
{
	struct dial *d = dial_new(opts, done, arg);
	bool failed;

	/* Take a reference: a reload may free the context before the handshake begins. */
	if (opts->tls.context && !to->local) {
		d->opts.tls.context = tls_context_ref(opts->tls.context);
		d->server_name = xstrdup(opts->tls.name ? opts->tls.name : to->host);
	}
	failed = first_try(d, opts, to) < 0;
	dial_end_in(d, failed ? 0 : (double)opts->timeout_ms / 1000);
	return d;
}

struct dial *dial_refuse(const struct dialer *opts, const char *reason, dial_done_fn *done,
                         void *arg)
{
	struct dial *d = dial_new(opts, done, arg);

	d->refusal = reason;
	dial_end_in(d, 0);
	return d;
}
