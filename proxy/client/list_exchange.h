/* SPDX-License-Identifier: BSD-3-Clause
 *
 * list_exchange: LOCK.LIST. Each worker is asked in turn (client/round.h) for the locks that
 * its clients were told of, as far as they are logged in as the same Redis user as the one that
 * asks: what another user may know, Redis is not asked.
 */
#ifndef HASP_CLIENT_LIST_EXCHANGE_H
#define HASP_CLIENT_LIST_EXCHANGE_H

#include "client/client_internal.h"

/* As link_ops.on_reply(), for `current`, which is a PENDING_LIST. An error was sent already. */
void list_exchange_on_reply(struct client *c, const struct resp_reply *reply);

#endif
