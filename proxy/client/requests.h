/* SPDX-License-Identifier: BSD-3-Clause
 *
 * requests: a client's requests: found in what it sends, decided about, sent on or held.
 */
#ifndef HASP_CLIENT_REQUESTS_H
#define HASP_CLIENT_REQUESTS_H

#include "client/client_internal.h"

/* The socket has something to read. */
void requests_on_readable(struct stream *s);

/* The client is not parked any more: takes requests from `in`. */
void requests_resume(struct client *c);

#endif
