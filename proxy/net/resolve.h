/* SPDX-License-Identifier: BSD-3-Clause
 *
 * resolve: getaddrinfo() off the loop. One thread per resolver, begun at the first
 * name that is not numeric; numeric ones never wait.
 */
#ifndef HASP_NET_RESOLVE_H
#define HASP_NET_RESOLVE_H

#include <netdb.h>

#include "net/mailbox.h"

struct resolver;

/* Answers are delivered through `mailbox`, which must outlive the resolver. */
struct resolver *resolver_new(struct mailbox *mailbox);
/* Questions still open are never answered. */
void resolver_free(struct resolver *r);

struct resolve_request;

/* Reads a numeric `host`. Returns its addresses, for freeaddrinfo(); NULL with *error
 * being getaddrinfo()'s, EAI_NONAME when the host is a name. */
struct addrinfo *resolve_numeric(const char *host, const char *port, int *error);

/* Asks for the stream addresses of a `host` that is a name. `done` runs later on the loop with
 * them, or with NULL and getaddrinfo()'s error. Returns NULL when there is no thread to be had.
 */
struct resolve_request *resolve(struct resolver *r, const char *host, const char *port,
                                void (*done)(void *arg, struct addrinfo *ai, int error),
                                void *arg);
/* `done` will not run. Only before it ran. */
void resolve_cancel(struct resolve_request *q);

#endif
