/* SPDX-License-Identifier: BSD-3-Clause
 *
 * input: reads from a client: where to, how much, and what the end of its input means. Bytes
 * that requests_take() cannot take yet are kept in client.in.
 *
 *   input_on_readable() --> scratch --> requests_take() --> what it leaves --> client.in
 *         '--> client.in, if there is some --> input_resume() --> requests_take()
 */
#ifndef HASP_CLIENT_INPUT_H
#define HASP_CLIENT_INPUT_H

#include "client/client_internal.h"

/* The socket has something to read. */
void input_on_readable(struct stream *s);

/* The client is not parked any more: takes requests from `in`. */
void input_resume(struct client *c);

/* Warns that its encryption failed; not too often. */
void input_log_tls_failure(struct client *c, const char *reason);

#endif
