/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_exchange: the steps of a call on a lock: a verb, or a command on a key with a rule.
 *
 *   lock_exchange_start() -> (asks whether the client is logged in) -> the call --reply--> end
 *                                    ^                                  |  |
 *                                    |---------- NOSCRIPT --------------|  | QUEUED
 *                                    |--- its place was lost --- waits <-|--'--granted--> end
 *                                    `--- the lock was lost --- asks <---'late
 *                                                                `--has it still--------> end
 *
 * MLOCK, when it is granted the lock that it waited for, makes the same call again, until it
 * has all of its locks. When its time is over, the call once more gives back what it has.
 *
 * Where replicas must have the lock (`replicas_ack`), they are asked before success is told; if
 * too few have it, it was given back, and the client gets -NOREPLICAS.
 *
 * A reply that tells of success, when much of the lease may be over, is confirmed first: Redis
 * is asked whether the client has the lock still, and the lease begins anew.
 */
#ifndef HASP_CLIENT_LOCK_EXCHANGE_H
#define HASP_CLIENT_LOCK_EXCHANGE_H

#include "client/client_internal.h"

/* Sends the call in env->rewritten, as decided; `current` is d->pending. False: the client is
 * not parked, for an error was sent in its place. */
bool lock_exchange_start(struct client *c, const struct context *x, const struct decision *d);
/* Writes the call once more, from the head of `in`, and sends it. `eval`: its script is known
 * to be missing. */
void lock_exchange_again(struct client *c, bool eval);

/* `current`, which takes several locks, ends without all of them, or is decided anew: what it
 * has is undone. Of any other request nothing. */
void lock_exchange_undo_parts(const struct client *c);

/* As link_ops.is_late() and on_line(). */
bool lock_exchange_is_late(const struct client *c);
bool lock_exchange_on_line(struct client *c, struct slice line);
void lock_exchange_on_reply(struct client *c, const struct resp_reply *reply);

/* As waiter_ops. */
void lock_exchange_on_granted(struct client *c, long long fence, double since);
void lock_exchange_on_timed_out(struct client *c);
/* As deadlock_fn. */
void lock_exchange_on_deadlock(struct client *c, struct slice error);
/* As replica_ask_fn. */
void lock_exchange_on_acked(struct client *c, bool enough);

#endif
