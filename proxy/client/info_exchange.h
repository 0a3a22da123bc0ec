/* SPDX-License-Identifier: BSD-3-Clause
 *
 * info_exchange: LOCK.INFO. Redis returns the token of the lock's owner. If the owner is a
 * client of this process, only that client's worker can name it:
 *
 *   LOCK.INFO --info.lua--> Redis: owner, holds, ttl, fence, waiters
 *                 nil <------'   `--PARKED_ROUND: each worker is asked (client/round.h)
 *                                      `--> the same, and address, name, since, lease, renewed
 */
#ifndef HASP_CLIENT_INFO_EXCHANGE_H
#define HASP_CLIENT_INFO_EXCHANGE_H

#include "client/client_internal.h"

/* As link_ops.on_reply(), for `current`, which is a PENDING_INFO. An error was sent already. */
void info_exchange_on_reply(struct client *c, const struct resp_reply *reply,
                            struct slice captured);

#endif
