/* SPDX-License-Identifier: BSD-3-Clause
 *
 * holder_fields: writes the fields by which LOCK.INFO and LOCK.LIST describe a client and its
 * lock: names and values in turn, as RESP has them in a flat array and in a map. An unknown
 * value is nil.
 */
#ifndef HASP_CLIENT_HOLDER_FIELDS_H
#define HASP_CLIENT_HOLDER_FIELDS_H

#include "client/client_internal.h"

void holder_number(struct buf *out, const char *name, bool known, int64_t n, bool resp3);
/* `text`: empty: not known. */
void holder_text(struct buf *out, const char *name, struct slice text, bool resp3);
/* When that was, by clock_now(), in milliseconds since 1970. */
int64_t holder_date(const struct policy_env *env, double at);
/* Appends the client's address and its name. */
void holder_client(const struct client *c, struct buf *address, struct buf *name);

#endif
