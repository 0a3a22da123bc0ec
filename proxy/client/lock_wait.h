/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_wait: a client's place in the line for a lock: whether a command that may have to wait
 * can be sent, and the steps while it waits.
 */
#ifndef HASP_CLIENT_LOCK_WAIT_H
#define HASP_CLIENT_LOCK_WAIT_H

#include "client/client_internal.h"

/* *how: the form of a call that the client sends now; makes a ticket for it. `eval`: its script
 * is known to be missing. */
void lock_wait_how(const struct client *c, bool eval, struct rewrite_how *how);

enum lock_wait_ready {
	LOCK_WAIT_READY, /* send it */
	LOCK_WAIT_PARKED, /* the client is parked until it can be sent */
	LOCK_WAIT_REFUSED, /* env->rewritten has the error instead */
};
/* Prepares `current`, which may wait in line for `wait_ms`, to be sent with `ticket`. `lazy`:
 * makes a waiter only if the command may be held back on its way; else later, if it has to
 * wait, which most commands never do. */
enum lock_wait_ready lock_wait_ready(struct client *c, struct slice key, int64_t wait_ms,
                                     struct slice ticket, bool lazy)
	__attribute__((warn_unused_result));

/* Sends the error in env->rewritten in the place of `current`, and forgets it. */
void lock_wait_refuse(struct client *c);

/* The wait for the lock `key` has timed out. If hasp cannot reach the server of the lock,
 * appends an error that says so and returns true: another owner may have the lock or not. */
bool lock_wait_is_outage(const struct client *c, struct slice key, struct buf *error);

/* `current` was answered `+QUEUED ...` (`line`): it waits for the lock that `t` describes, with
 * a lease of `lease_ms` (0: the application named its end). The lock may be granted at once.
 * `current` counts as a waiter in the section of `stats`; NULL: in none. */
void lock_wait_queued(struct client *c, const struct lock_try *t, int64_t lease_ms,
                      struct slice line, struct section_stats *stats);
/* `current` was answered by success, but late: it waits until it is known whether it has the
 * lock still. */
void lock_wait_confirm(struct client *c, const struct lock_try *t, int64_t lease_ms);
/* `current` has got what `t` describes: it is parked (CLIENT_PARKED_ACK) until enough replicas
 * have it, or it was given back. */
void lock_wait_ask_replicas(struct client *c, const struct lock_try *t,
                            const struct replica_ask_terms *terms);
/* Too few have it, in Redis' words, without the line end. */
#define LOCK_WAIT_NOREPLICAS "-NOREPLICAS Not enough good replicas to write."
/* The line was not understood. */
void lock_wait_failed(struct client *c);

#endif
