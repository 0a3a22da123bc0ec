/* SPDX-License-Identifier: BSD-3-Clause
 *
 * list_exchange: LOCK.LIST. Asks each worker in turn (client/round.h) for its clients' locks.
 * The list has only clients that are logged in as the same Redis user as the asking one, since
 * hasp does not ask Redis which keys another user may see.
 */
#ifndef HASP_CLIENT_LIST_EXCHANGE_H
#define HASP_CLIENT_LIST_EXCHANGE_H

#include "client/client_internal.h"

/* As link_ops.on_reply(), for `current`, which is a PENDING_LIST. An error was sent already. */
void list_exchange_on_reply(struct client *c, const struct resp_reply *reply);

#endif
