/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http: the pages of `[http] listen`, read-only, on threads of its own, away from commands:
 *
 *   /              a page that shows /status.json (page/)
 *   /metrics       Prometheus' text format (http_metrics.c)
 *   /healthz       200: the process runs
 *   /readyz        200: hasp serves, and Redis can be reached; else 503, and why
 *   /status.json   locks, waiters, contended keys (http_status.c)
 *   /discovered.ini  a configuration with the sections discovered so far
 *
 * libmicrohttpd reads requests and writes replies, on a thread for each connection: a reply
 * that takes long does not delay the others. http_connections.h bounds the number of
 * connections and how long a peer may take; a connection's memory is bounded, too. Replies
 * that name keys are only for names that http_host.c allows; hasp asks the workers for them
 * now and then, however many pages are open.
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

/* Addresses that a host name in `listen` may stand for. */
#define HTTP_LISTEN_MAX 4

struct MHD_Daemon;
struct http_connections;
struct http_history;

/* All zero: hasp does not listen for HTTP. */
struct http {
	int fds[HTTP_LISTEN_MAX];
	size_t n;
	bool owns_fds; /* until http_serve() */
	struct MHD_Daemon *server;
	struct http_connections *connections;
	_Atomic bool leaving; /* each connection ends with its next reply */
	struct worker_shared *shared;
	double started; /* clock_now() */
	struct http_history *history; /* NULL before http_serve() */
	pthread_mutex_t lock; /* protects `config`; exists from http_serve() on */
	struct config *config; /* in force */
	pthread_mutex_t asking; /* protects the fields below; held while workers are asked */
	struct buf status; /* the last /status.json */
	double status_at; /* when that was written, by clock_now() */
	struct buf found; /* the last /discovered.ini */
	double found_at, found_seconds; /* when that was written, and how long it took */
};

/* Takes the listening sockets `fds`, which it owns from now on, if there are any. Returns 0; -1
 * when it cannot serve there, and the reason is logged. */
int http_open(struct http *h, const int *fds, size_t n) __attribute__((warn_unused_result));

/* Answers requests about these workers, which run. Returns 0; -1 with the reason logged. */
int http_serve(struct http *h, struct worker_shared *shared, struct config *config)
	__attribute__((warn_unused_result));

/* Uses another configuration from now on. New addresses to listen at need a restart. */
void http_reload(struct http *h, struct config *config);

/* Leaves the sockets to another process. Open connections get their replies within five
 * seconds, or none; then as http_close(). */
void http_leave(struct http *h);

/* Ends its threads and closes its sockets. */
void http_close(struct http *h);

#endif
