/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_exchange: LOCK, UNLOCK, LOCK.EXTEND and LOCK.INFO where a quorum has the locks. The
 * steps are those of quorum_rules.h, too:
 *
 *   verb, SETNX ... --PING--> Redis
 *            `--PARKED_ROUND: the servers of the quorum are asked (quorum/quorum.h)
 *                 `--> the answer
 */
#ifndef HASP_CLIENT_QUORUM_EXCHANGE_H
#define HASP_CLIENT_QUORUM_EXCHANGE_H

#include "client/client_internal.h"

/* As link_ops.on_reply(), for `current`, which is a PENDING_QUORUM. An error was sent already.
 */
void quorum_exchange_on_reply(struct client *c, const struct resp_reply *reply);

#endif
