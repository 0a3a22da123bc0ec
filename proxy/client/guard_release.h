/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_release: the end of a command on guarded keys: releases its guards over the client's
 * own link, in front of what the client sends next, or lets the client wait for a guard.
 */
#ifndef HASP_CLIENT_GUARD_RELEASE_H
#define HASP_CLIENT_GUARD_RELEASE_H

#include "client/client_internal.h"

/* Releases what the command has acquired and did not read, or does not need any more. */
void guard_release(struct client *c, const struct guard_op *op, enum guard_op_result result);
/* Releases the guards of a command whose wait failed. In front of a cluster, hasp's own
 * connection releases them: the slot may be migrating, and the client's next request would wait
 * for that. If `withdrawn`, no server has carried out the last request. */
void guard_release_in_vain(struct client *c, const struct guard_op *op, bool withdrawn);
/* `current` was answered `+QUEUED ...`: the client waits for the guard. */
void guard_wait(struct client *c, struct slice line);

/* The guards of `current` were granted; it goes on when replicas have them. */
void guard_ask_replicas(struct client *c);

/* Ends `current`. Its effects on other commands are in force before the client gets `answer`;
 * empty: the answer was sent, or is on its way to the client. */
void guard_end(struct client *c, struct slice answer, enum guard_op_result result);

#endif
