/* SPDX-License-Identifier: BSD-3-Clause
 *
 * request_context: the context in which policy/ decides about a client's requests.
 */
#ifndef HASP_CLIENT_REQUEST_CONTEXT_H
#define HASP_CLIENT_REQUEST_CONTEXT_H

#include "client/client_internal.h"

/* Returns the context; the caller sets the request, x.req, and its command, x.what. */
struct context request_context(struct client *c);

/* Appends the log's name of the client: "127.0.0.1:4711 name". */
void client_describe(struct client *c, struct buf *out);

/* Returns the context for the whole request at the head of `in`, once more. Writes its
 * arguments to `view`, and its command to `what`. The caller sets x.how. */
struct context request_context_again(struct client *c, struct resp_view *view,
                                     struct command_info *what);

#endif
