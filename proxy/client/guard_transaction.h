/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fencing: what writes guarded keys and cannot be carried out by a script of ours is carried
 * out in a transaction that ends when a guard changes: commands whose reply is none for Lua,
 * scripts, and the application's own transactions.
 *
 *   command, EXEC -> (DISCARD) WATCH guards, guard_write.lua without a command
 *                       | LOCKED, LOCKLOST --> the answer
 *                       | QUEUED --> stands in line, and once more
 *                       v GRANTED
 *                    MULTI, the command or those since MULTI, EXEC
 *                       | nil: a guard changed --> once more
 *                       v
 *                    the reply; the guards are handed on
 *
 * A transaction whose application watches keys of its own cannot be begun anew, for that would
 * forget them: it watches the guards, too, from before its MULTI.
 */
#ifndef HASP_CLIENT_GUARD_TRANSACTION_H
#define HASP_CLIENT_GUARD_TRANSACTION_H

#include "client/client_internal.h"
#include "policy/context.h"

/* A command that guard_txn_record() has seen was answered by an error. */
void guard_transaction_refused(struct client *c);

/* See client/guarding.h. */
bool guard_transaction_on_line(struct client *c, struct pending_request *r, struct slice line);
bool guard_transaction_on_reply(struct client *c, struct pending_request *r,
                                const struct resp_reply *reply, struct slice kept);
void guard_transaction_resume(struct client *c, struct pending_request *r);

#endif
