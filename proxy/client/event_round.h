/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event_round: logs an event after asking the other workers for the owner of the lock, which
 * this worker does not know. The workers are asked in turn (client/round.h), then the line is
 * written: later than the client was answered, and no more often than events are logged.
 */
#ifndef HASP_CLIENT_EVENT_ROUND_H
#define HASP_CLIENT_EVENT_ROUND_H

#include "client/client_env.h"
#include "lock/events/event.h"

/* As event_log() of `event`, which is copied. Adds the holder of the lock or guard, if a worker
 * knows one other than `token`. */
void event_round_log(struct client_env *env, const struct event_to_log *event,
                     struct slice token, bool of_guard);

/* A holds_ask_fn; `arg`: the client_env. */
void event_round_ask(void *arg, const struct event_to_log *event, struct slice token);

#endif
