/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange: a request that is answered step by step: a call on a lock (lock_exchange.h), or a
 * command on guarded keys (guard_exchange.h). It was decided about once; what is sent and what
 * is answered follows from that. It is c->current, and stays at the head of `in` until it ends.
 */
#ifndef HASP_CLIENT_EXCHANGE_H
#define HASP_CLIENT_EXCHANGE_H

#include "client/client_internal.h"

/* Begins the request x->req, about which `d` was decided: CALL, with a pending request, or
 * GUARD. True: the client is parked. False: it was answered by an error, and the next one may
 * follow. */
bool exchange_start(struct client *c, struct context *x, const struct decision *d);

/* Goes on where the client was parked: for another link, or for the queue of waiters. */
void exchange_resume(struct client *c);

/* As link_ops.on_line() and on_reply(), for `current`. */
bool exchange_on_line(struct client *c, struct slice line);
void exchange_on_reply(struct client *c, const struct resp_reply *reply, struct slice captured);

/* How many answers to `current` are due; 0: it is not in flight, or there is none. */
size_t exchange_due(const struct client *c);

extern const struct waiter_ops exchange_waiter_ops;

/* As replica_ask_fn: of the client `arg`. */
void exchange_on_acked(void *arg, bool enough);
/* As deadlock_fn: of the client `arg`. */
void exchange_on_deadlock(void *arg, struct slice error);

#endif
