/* SPDX-License-Identifier: BSD-3-Clause
 *
 * request_context: what a client's requests are decided by, as policy/ sees it.
 */
#ifndef HASP_CLIENT_REQUEST_CONTEXT_H
#define HASP_CLIENT_REQUEST_CONTEXT_H

#include "client/client_internal.h"

/* The request, x.req, and what is known of it, x.what, are still to be set. */
struct context request_context(struct client *c);

/* Appends what the log calls the client: "127.0.0.1:4711 name". */
void client_describe(struct client *c, struct buf *out);

/* For the request at the head of `in`, which is whole, once more: its arguments are written to
 * `view`, what its name says to `what`. x.how is still to be set. */
struct context request_context_again(struct client *c, struct resp_view *view,
                                     struct command_info *what);

#endif
