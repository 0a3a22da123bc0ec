/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replies: what comes back over a client's link: sends replies to the client, and applies what
 * they mean for the session, for locks and for guards.
 */
#ifndef HASP_CLIENT_REPLIES_H
#define HASP_CLIENT_REPLIES_H

#include "client/client_internal.h"

extern const struct link_ops replies_link_ops;
extern const struct pool_ops replies_pool_ops;

/* A client that waits for a link may try again. Harmless for others. */
void replies_go_on(struct client *c);

/* The socket has taken all that waited. */
void replies_on_drained(struct stream *s);

#endif
