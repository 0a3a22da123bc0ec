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
 * When MLOCK is granted the lock that it waited for, hasp makes the same call again, until
 * MLOCK has all of its locks. If its time ends first, one more call releases the locks that it
 * has.
 *
 * If replicas must have the lock (`replicas_ack`), hasp asks them before the client gets the
 * reply of success; if too few have it, the lock is released, and the client gets -NOREPLICAS.
 *
 * If a reply of success comes when much of the lease may be over, it is confirmed first: hasp
 * asks Redis whether the client still has the lock, and the lease begins again.
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

/* Undoes the locks of `current`, which takes several, when it ends without all of them or is
 * decided again. Does nothing for a request of one lock. */
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
