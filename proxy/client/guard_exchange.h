/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_exchange: walks the steps of a command on guarded keys, as lock/guard/guard_op.h says
 * them: sends, and takes what is answered. The steps of transactions are in
 * client/guard_transaction.c. `current` is the command's pending request.
 */
#ifndef HASP_CLIENT_GUARD_EXCHANGE_H
#define HASP_CLIENT_GUARD_EXCHANGE_H

#include "client/client_internal.h"

/* Begins the command on guarded keys, x->req. False: the client is not parked, because an error
 * was sent in place of the command. */
bool guard_exchange_start(struct client *c, struct context *x);
/* Resumes the step at which the client was parked, or repeats a step that had no effect. */
void guard_exchange_again(struct client *c);

/* As link_ops.on_line() and on_reply(), for `r`, which is `current`. */
bool guard_exchange_on_line(struct client *c, struct slice line);
void guard_exchange_on_reply(struct client *c, const struct resp_reply *reply,
                             struct slice captured);

/* The time to wait for the guard is over. Until the answer to its script is there, only if that
 * was withdrawn. */
void guard_exchange_on_timed_out(struct client *c);
/* The client's wait is part of a deadlock; `error`, with its line end, is its answer. */
void guard_exchange_on_deadlock(struct client *c, struct slice error);
/* True if the last request may be withdrawn. */
bool guard_exchange_may_be_withdrawn(const struct client *c);
/* As replica_ask_fn. */
void guard_exchange_on_acked(struct client *c, bool enough);

#endif
