/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/http_connections.h"

#include <errno.h>
#include <ev.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/log.h"
#include "net/listen.h"
#include "net/loop_timers.h"
#include "net/watch.h"

#define CONNECTIONS_MAX 64u
/* Most connections, including those that libmicrohttpd has not closed yet. */
#define OPEN_MAX (2 * CONNECTIONS_MAX)
/* How long the acceptor waits at most for libmicrohttpd to close a connection, in seconds. */
#define END_SECONDS 1
/* How long a peer may take to send a request, counted from the start of the connection or from
 * the end of the previous reply. */
#define REQUEST_SECONDS 10.0
/* How long a peer may take to read a reply. */
#define REPLY_SECONDS 30.0
#define SWEEP_SECONDS 1.0

struct http_connection {
	struct list node; /* in http_connections.all */
	struct peer_place place; /* in http_connections.places; in no list after its shutdown */
	int fd; /* owned by libmicrohttpd; open until MHD_CONNECTION_NOTIFY_CLOSED */
};

struct http_connections {
	struct ev_loop *loop;
	pthread_t thread;
	bool runs; /* the thread was started and must be joined */
	struct ev_async stop;
	struct loop_timer sweep;
	struct MHD_Daemon *server;
	struct list acceptors;
	struct log_limit full_line, failed_line;
	_Atomic uint64_t *full;
	pthread_mutex_t lock; /* protects the fields below */
	pthread_cond_t closed;
	struct list all, places;
	size_t n, nplaces; /* lengths of `all` and `places` */
};

/* --- closing ------------------------------------------------------------------------------ */

/* Makes libmicrohttpd close the connection. Call it with the lock held. */
static void http_shut_down(struct http_connections *hc, struct http_connection *c)
{
	list_remove(&c->place.node);
	hc->nplaces--;
	(void)shutdown(c->fd, SHUT_RDWR);
}

static bool http_is_late(const struct peer_place *p, double now)
{
	double limit = p->rank == PLACE_UNPROVEN ? REQUEST_SECONDS : REPLY_SECONDS;

	return p->rank != PLACE_BUSY && now - p->since >= limit;
}

static void http_on_sweep(void *arg)
{
	struct http_connections *hc = arg;
	double now = clock_now();

	pthread_mutex_lock(&hc->lock);
	list_drain (struct http_connection, c, &hc->places, place.node) {
		if (http_is_late(&c->place, now))
			http_shut_down(hc, c);
	}
	pthread_mutex_unlock(&hc->lock);
}

/* Call it with the lock held. */
static void http_await_end(struct http_connections *hc)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += END_SECONDS;
	while (hc->n >= OPEN_MAX && pthread_cond_timedwait(&hc->closed, &hc->lock, &until) == 0)
		;
}

/* Makes room for a new connection. Returns false if there is no room. */
static bool http_make_room(struct http_connections *hc)
{
	struct peer_place *weakest = NULL;
	bool is_full, has_room;

	pthread_mutex_lock(&hc->lock);
	is_full = hc->nplaces >= CONNECTIONS_MAX;
	if (is_full && (weakest = places_weakest(&hc->places)))
		http_shut_down(hc, container_of(weakest, struct http_connection, place));
	http_await_end(hc);
	has_room = hc->nplaces < CONNECTIONS_MAX && hc->n < OPEN_MAX;
	pthread_mutex_unlock(&hc->lock);
	if (is_full) {
		uint32_t dropped;

		atomic_fetch_add(hc->full, 1);
		if (log_limit_pass(&hc->full_line, clock_now(), 1, &dropped))
			log_warning("http_full limit=%u suppressed=%u", CONNECTIONS_MAX,
			            dropped);
	}
	return has_room;
}

/* --- accepting ---------------------------------------------------------------------------- */

static void http_on_exhausted(void *owner, int error)
{
	struct http_connections *hc = owner;
	uint32_t dropped;

	if (log_limit_pass(&hc->failed_line, clock_now(), 1, &dropped))
		log_error("http_accept_failed reason=\"%s\" suppressed=%u", strerror(error),
		          dropped);
}

/* Call it with the lock held. */
static struct http_connection *http_find(const struct http_connections *hc, int fd)
{
	list_each (struct http_connection, c, &hc->all, node) {
		if (c->fd == fd)
			return c;
	}
	return NULL;
}

/* Call it with the lock held. */
static void http_forget(struct http_connections *hc, struct http_connection *c)
{
	if (!list_empty(&c->place.node)) {
		list_remove(&c->place.node);
		hc->nplaces--;
	}
	list_remove(&c->node);
	hc->n--;
	pthread_cond_signal(&hc->closed);
	free(c);
}

/* Adds a connection. Forgets an old connection with the same `fd`: if libmicrohttpd lacks
 * memory for a socket, it closes the socket without a callback. */
static void http_remember(struct http_connections *hc, int fd, const struct sockaddr *peer)
{
	struct http_connection *c = xcalloc(1, sizeof(*c)), *old;

	c->fd = fd;
	place_init(&c->place, peer, clock_now());
	pthread_mutex_lock(&hc->lock);
	if ((old = http_find(hc, fd)))
		http_forget(hc, old);
	list_append(&hc->all, &c->node);
	hc->n++;
	list_append(&hc->places, &c->place.node);
	hc->nplaces++;
	pthread_mutex_unlock(&hc->lock);
}

static void http_on_accept(void *owner, int fd, const struct sockaddr *peer, socklen_t len)
{
	struct http_connections *hc = owner;

	if (!http_make_room(hc)) {
		close(fd);
		return;
	}
	http_remember(hc, fd, peer);
	if (MHD_add_connection(hc->server, fd, peer, len) == MHD_YES)
		return;
	/* libmicrohttpd has already closed the socket. */
	http_on_exhausted(hc, errno);
	pthread_mutex_lock(&hc->lock);
	http_forget(hc, http_find(hc, fd));
	pthread_mutex_unlock(&hc->lock);
}

static void http_on_stop(struct ev_loop *loop, struct ev_async *w, int revents)
{
	(void)w;
	(void)revents;
	ev_break(loop, EVBREAK_ALL);
}

static void *connections_thread(void *arg)
{
	struct http_connections *hc = arg;

	ev_run(hc->loop, 0);
	return NULL;
}

/* --- libmicrohttpd's threads -------------------------------------------------------------- */

void http_connections_notify(void *arg, struct MHD_Connection *c, void **context,
                             enum MHD_ConnectionNotificationCode code)
{
	struct http_connections *hc = arg;

	pthread_mutex_lock(&hc->lock);
	if (code == MHD_CONNECTION_NOTIFY_STARTED)
		*context = http_find(
			hc, MHD_get_connection_info(c, MHD_CONNECTION_INFO_CONNECTION_FD)
				    ->connect_fd);
	else
		http_forget(hc, *context);
	pthread_mutex_unlock(&hc->lock);
}

void http_connection_set_rank(struct http_connections *hc, struct MHD_Connection *c,
                              enum place_rank rank)
{
	struct http_connection *h =
		MHD_get_connection_info(c, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;

	pthread_mutex_lock(&hc->lock);
	place_set(&h->place, rank, clock_now());
	pthread_mutex_unlock(&hc->lock);
}

void http_connections_completed(void *arg, struct MHD_Connection *c, void **request,
                                enum MHD_RequestTerminationCode code)
{
	(void)request;
	(void)code;
	http_connection_set_rank(arg, c, PLACE_UNPROVEN);
}

/* --- beginning and end -------------------------------------------------------------------- */

unsigned http_connections_limit(void)
{
	return OPEN_MAX + 1; /* libmicrohttpd still counts a connection just closed */
}

struct http_connections *http_connections_new(_Atomic uint64_t *full)
{
	struct http_connections *hc = xcalloc(1, sizeof(*hc));
	pthread_condattr_t monotonic;

	hc->full = full;
	list_init(&hc->acceptors);
	list_init(&hc->all);
	list_init(&hc->places);
	pthread_mutex_init(&hc->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&hc->closed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	hc->loop = watch_loop_new(EVFLAG_AUTO | EVFLAG_NOENV);
	HASP_ASSERT(hc->loop);
	ev_async_init(&hc->stop, http_on_stop);
	ev_async_start(hc->loop, &hc->stop);
	loop_timer_init(&hc->sweep, hc->loop, http_on_sweep, hc);
	loop_timer_repeat(&hc->sweep, SWEEP_SECONDS);
	return hc;
}

struct ev_loop *http_connections_loop(struct http_connections *hc)
{
	return hc->loop;
}

int http_connections_start(struct http_connections *hc, struct MHD_Daemon *server,
                           const int *fds, size_t n)
{
	static const struct acceptor_ops ops = { http_on_accept, http_on_exhausted };
	int rc;

	hc->server = server;
	for (size_t i = 0; i < n; i++)
		acceptors_add(&hc->acceptors, hc->loop, fds[i], &ops, hc);
	rc = pthread_create(&hc->thread, NULL, connections_thread, hc);
	if (rc != 0) {
		log_error("thread_failed thread=http reason=\"%s\"", strerror(rc));
		return -1;
	}
	hc->runs = true;
	return 0;
}

void http_connections_stop(struct http_connections *hc)
{
	if (hc->runs) {
		ev_async_send(hc->loop, &hc->stop);
		pthread_join(hc->thread, NULL);
		hc->runs = false;
	}
	acceptors_free(&hc->acceptors);
}

size_t http_connections_count(struct http_connections *hc)
{
	size_t n;

	pthread_mutex_lock(&hc->lock);
	n = hc->n;
	pthread_mutex_unlock(&hc->lock);
	return n;
}

void http_connections_free(struct http_connections *hc)
{
	HASP_ASSERT(!hc->runs);
	while (!list_empty(&hc->all))
		http_forget(hc, container_of(hc->all.next, struct http_connection, node));
	ev_async_stop(hc->loop, &hc->stop);
	loop_timer_stop(&hc->sweep);
	watch_loop_free(hc->loop);
	pthread_cond_destroy(&hc->closed);
	pthread_mutex_destroy(&hc->lock);
	free(hc);
}
