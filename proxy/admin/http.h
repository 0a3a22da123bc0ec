/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http: the read-only HTTP server of `[http] listen`, on threads of its own:
 *
 *   /                a page that shows /status.json (page/)
 *   /metrics         Prometheus' text format (http_metrics.c)
 *   /healthz         200 while the process runs
 *   /readyz          200 while hasp serves and Redis can be reached; else 503, with the reason
 *   /status.json     locks, waiters, contended keys (http_status.c)
 *   /discovered.ini  an ini file with the sections discovered so far
 *
 * libmicrohttpd serves each connection on a thread, so a slow reply delays no other.
 * http_connections.h bounds the number of connections and how long a peer may take; a
 * connection's memory is bounded, too. hasp sends replies that may name keys only if
 * http_host.c allows the header Host. hasp writes /status.json and /discovered.ini at most
 * twice a second, however many pages are open.
 */
#ifndef HASP_ADMIN_HTTP_H
#define HASP_ADMIN_HTTP_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "config/types.h"
#include "worker/worker.h"

/* Most addresses to which the host name in `listen` may resolve. */
#define HTTP_LISTEN_MAX 4

struct MHD_Daemon;
struct http_connections;
struct http_history;

/* If all fields are zero, hasp does not listen for HTTP. */
struct http {
	int fds[HTTP_LISTEN_MAX];
	size_t n;
	bool owns_fds; /* true until http_serve() */
	struct MHD_Daemon *server;
	struct http_connections *connections;
	_Atomic bool leaving; /* each connection ends with its next reply */
	struct worker_shared *shared;
	double started; /* start of the server, by clock_now() */
	struct http_history *history; /* NULL before http_serve() */
	pthread_mutex_t lock; /* protects `config`; exists from http_serve() on */
	struct config *config; /* the configuration in force */
	pthread_mutex_t asking; /* protects the fields below; held while workers are asked */
	struct buf status; /* the last /status.json */
	double status_at; /* when `status` was written, by clock_now() */
	struct buf found; /* the last /discovered.ini */
	double found_at; /* when `found` was written, by clock_now() */
	double found_seconds; /* how long writing `found` took */
};

/* Takes the listening sockets, whose descriptors it owns from now on. `n` 0: hasp does not
 * serve HTTP. Returns 0; -1 with the reason logged. */
int http_open(struct http *h, const struct listen_socket *sockets, size_t n)
	__attribute__((warn_unused_result));

/* Starts to serve. The workers must run already. Returns 0; -1 with the reason logged. */
int http_serve(struct http *h, struct worker_shared *shared, struct config *config)
	__attribute__((warn_unused_result));

/* Uses another configuration from now on. A new `listen` needs a restart. */
void http_reload(struct http *h, struct config *config);

/* Leaves the sockets to another process. Waits up to five seconds for the replies of open
 * connections, then acts as http_close(). */
void http_leave(struct http *h);

/* Ends the server's threads, and closes its sockets. */
void http_close(struct http *h);

#endif
