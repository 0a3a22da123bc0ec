/* SPDX-License-Identifier: BSD-3-Clause
 *
 * http_connections: accepts HTTP connections on a thread of its own and hands them to
 * libmicrohttpd. It closes a connection if the peer is too slow, or if a new peer needs the
 * place.
 *
 *   acceptor ──> libmicrohttpd, on a thread for each connection
 *      │           │ awaits a request │ is answered │ sends the reply │ ...
 *      │           └── sets the connection's rank and time ──┘
 *      └── each second, and when all places are taken: shuts connections down
 */
#ifndef HASP_ADMIN_HTTP_CONNECTIONS_H
#define HASP_ADMIN_HTTP_CONNECTIONS_H

#include <microhttpd.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/places.h"

struct http_connections;

/* `full`: counts the connections that come while all places are taken. */
struct http_connections *http_connections_new(_Atomic uint64_t *full);

/* Returns the loop of the thread that accepts. */
struct ev_loop *http_connections_loop(struct http_connections *hc);
/* Starts to accept connections for `server` from the sockets `fds`. `hc` owns the sockets from
 * now on, even if this fails. Returns 0; -1 with the reason logged. */
int http_connections_start(struct http_connections *hc, struct MHD_Daemon *server,
                           const int *fds, size_t n) __attribute__((warn_unused_result));
/* Stops accepting, closes the listening sockets, and no longer closes slow connections. May be
 * called again. */
void http_connections_stop(struct http_connections *hc);
size_t http_connections_count(struct http_connections *hc); /* number of open connections */
/* Call it when libmicrohttpd has ended. */
void http_connections_free(struct http_connections *hc);

/* Returns how many connections libmicrohttpd must allow. */
unsigned http_connections_limit(void);
/* Callbacks for MHD_OPTION_NOTIFY_CONNECTION and MHD_OPTION_NOTIFY_COMPLETED. `arg`: the struct
 * http_connections. */
void http_connections_notify(void *arg, struct MHD_Connection *c, void **context,
                             enum MHD_ConnectionNotificationCode code);
void http_connections_completed(void *arg, struct MHD_Connection *c, void **request,
                                enum MHD_RequestTerminationCode code);

/* Call it with PLACE_BUSY when a request has arrived, and with PLACE_PROVEN when the reply
 * waits for the peer to read it. */
void http_connection_set_rank(struct http_connections *hc, struct MHD_Connection *c,
                              enum place_rank rank);

#endif
