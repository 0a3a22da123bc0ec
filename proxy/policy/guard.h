/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard: decides about commands on guarded keys. The exchange then sends and answers
 * (client/guard_steps.c).
 *
 *   read  -> optimistic acquire, if no client waits: EXISTS queue, SET guard NX, the command
 *         -> guard_read.lua
 *   write -> guard_finish.lua (one key, read by this connection) or guard_write.lua
 *         -> a transaction of hasp's own (policy/guard_txn.h), where no script can run it
 */
#ifndef HASP_POLICY_GUARD_H
#define HASP_POLICY_GUARD_H

#include "policy/context.h"

/* Decides about a command that a guard may concern. False: none of its keys is guarded. */
bool guard_decide(struct context *x, struct decision *d);

/* Does a command that is carried out on these keys need a pinned link? */
bool guard_needs_pinned(const struct policy_env *env, const struct command_info *what,
                        const struct resp_view *req);

/* The command is passed as it came. If it reads keys whose guards have strategy = check, the
 * reply is digested; d->pending, if there is none yet, awaits it. */
void guard_note_read(struct context *x, struct decision *d);

#endif
