/* SPDX-License-Identifier: BSD-3-Clause
 *
 * resolve: getaddrinfo() without blocking the loop. One thread per resolver, started for the
 * first name that is not numeric; numeric addresses never wait for the thread.
 */
#ifndef HASP_NET_RESOLVE_H
#define HASP_NET_RESOLVE_H

#include <netdb.h>

#include "net/mailbox.h"

struct resolver;

/* Results are delivered through `mailbox`, which must outlive the resolver. */
struct resolver *resolver_new(struct mailbox *mailbox);
/* Frees the resolver. `done` of requests without a result will not run. */
void resolver_free(struct resolver *r);

struct resolve_request;

/* Reads a numeric `host`. Returns its addresses, for freeaddrinfo(); NULL: the host is a name.
 */
struct addrinfo *resolve_numeric(const char *host, const char *port);

/* Asks for the stream addresses of a `host` that is a name. `done` runs later on the loop with
 * the addresses, for freeaddrinfo(), or with NULL and getaddrinfo()'s error. Returns NULL if
 * the thread cannot be started. */
struct resolve_request *resolve_start(struct resolver *r, const char *host, const char *port,
                                      void (*done)(void *arg, struct addrinfo *ai, int error),
                                      void *arg);
/* Cancels the request: `done` will not run. Do not call it after `done` has run. */
void resolve_cancel(struct resolve_request *q);

#endif
