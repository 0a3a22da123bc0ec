/* SPDX-License-Identifier: BSD-3-Clause
 *
 * requests: finds a client's requests in its input, has each decided, and sends it or holds it.
 */
#ifndef HASP_CLIENT_REQUESTS_H
#define HASP_CLIENT_REQUESTS_H

#include "client/client_internal.h"

/* The longest request that is sent on a shared link. */
#define REQUESTS_SHARED_MAX ((size_t)64 * 1024)

/* Takes requests from the `n` bytes at `p`. Returns how many bytes are done with: the rest is
 * the beginning of a request, or must wait because the client is parked. */
size_t requests_take(struct client *c, const char *p, size_t n);

#endif
