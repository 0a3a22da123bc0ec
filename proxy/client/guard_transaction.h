/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_transaction: the steps of a write of guarded keys that no script can carry out:
 * commands whose reply Lua cannot hold, scripts, and the application's own transactions. hasp
 * runs the write in a transaction that fails if a guard changes.
 *
 *   command, EXEC -> (DISCARD) WATCH guards, guard_write.lua without a command
 *                       | LOCKED, LOCKLOST --> the answer
 *                       | QUEUED --> waits in line, and once more
 *                       v GRANTED
 *                    MULTI, the command or those since MULTI, EXEC
 *                       | nil: a guard changed --> once more
 *                       v
 *                    the reply; the guards are handed off
 */
#ifndef HASP_CLIENT_GUARD_TRANSACTION_H
#define HASP_CLIENT_GUARD_TRANSACTION_H

#include "client/client_internal.h"

/* Do GUARD_STEP_SEND_NEXT and GUARD_STEP_SEND_EXEC of lock/guard/guard_op.h. */
void guard_transaction_send_next(struct client *c, const struct rewrite_how *how);
void guard_transaction_send_exec(struct client *c);

/* Cancels the command: makes Redis drop the queued commands of the application's transaction,
 * if that is still open. */
void guard_transaction_discard(struct client *c);

/* Redis has refused to queue a command of the application's transaction. */
void guard_transaction_refused(struct client *c);

/* True if EXEC's reply goes to the client as it comes. */
bool guard_transaction_forwards(const struct guard_op *op);

/* Replicas were asked about the guards that it acquired. There is a link if they have them. */
void guard_transaction_on_acked(struct client *c, bool enough);

/* As link_ops.on_line() and on_reply(), for `current`. */
void guard_transaction_on_line(struct client *c, struct slice line);
void guard_transaction_on_reply(struct client *c, const struct resp_reply *reply,
                                struct slice captured);

#endif
