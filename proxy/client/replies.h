/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replies: what comes back over a client's link: replies are handed on, and what they mean for
 * the session is noted.
 */
#ifndef HASP_CLIENT_REPLIES_H
#define HASP_CLIENT_REPLIES_H

#include "client/client_internal.h"

extern const struct link_ops replies_link_ops;

/* The socket has taken all that waited. */
void replies_on_drained(struct stream *s);

#endif
