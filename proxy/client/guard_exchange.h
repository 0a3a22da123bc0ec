/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_exchange: the steps of a command on guarded keys, from answer to answer.
 *
 *   read --> optimistic acquire: is the guard free?
 *                | no
 *                v
 *            guard_read.lua --+QUEUED--> stands in line --granted--> once more
 *                |      `----+GRANTED--> the command as it came (its reply is none for Lua)
 *                `--> its reply: from now on the key counts as read
 *   write -> guard_finish.lua (one key, read by this connection) or
 *            guard_write.lua ...     --> its reply, or LOCKLOST: it counts as read no more
 */
#ifndef HASP_CLIENT_GUARD_EXCHANGE_H
#define HASP_CLIENT_GUARD_EXCHANGE_H

#include "client/client_internal.h"
#include "policy/context.h"

/* --- what comes back; `r` is the request, of PENDING_GUARD --- */

/* As link_ops.on_line(). */
bool guard_exchange_on_line(struct client *c, struct pending_request *r, struct slice line);
/* As link_ops.on_reply(). False: there is more to come of this request. */
bool guard_exchange_on_reply(struct client *c, struct pending_request *r,
                             const struct resp_reply *reply, struct slice kept);
/* Its guard was handed to it, or its place in the line was lost: on with it. */
void guard_exchange_resume(struct client *c, struct pending_request *r);
void guard_exchange_on_timed_out(struct client *c, struct pending_request *r);

/* `+QUEUED place now held i` */
void guard_exchange_enqueue(struct client *c, struct pending_request *r, struct slice line);
/* What a command has taken and did not read, or does not need any more. In front of whatever
 * the client sends next. */
void guard_exchange_release(struct client *c, const struct guard_op *pending,
                            enum guard_op_result end);
/* The same, and on_reply() tells of `r` when Redis has done it. There is a link. False: there
 * was nothing to be done. */
bool guard_exchange_hand_off(struct client *c, struct pending_request *r,
                             enum guard_op_result end);

#endif
