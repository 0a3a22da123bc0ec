/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replica_look: the command that checks whether a server has the lock that a try has got, and
 * the meaning of the reply. Pure.
 */
#ifndef HASP_LOCK_ACK_REPLICA_LOOK_H
#define HASP_LOCK_ACK_REPLICA_LOOK_H

#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "base/buf.h"
#include "lock/model/key_names.h"
#include "lock/rewrite/rewrite.h"

/* Appends the command, which only reads. */
void replica_look_write(const struct attempt *t, enum key_naming naming, struct buf *out);

/* True if the reply (NULL: there was none) shows that the try's owner has the lock, and, if
 * Redis stores the ticket, that the owner has the lock by this try. */
bool replica_look_shows(const struct attempt *t, const redisReply *reply);

#endif
