/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guarding: commands on guarded keys: what becomes of them, and of their answers.
 *
 *   read --> guard_read.lua --+QUEUED--> stands in line --granted--> once more
 *                |      `----+GRANTED--> the command as it came (its reply is none for Lua)
 *                `--> its reply: from now on the key counts as read
 *   write -> guard_write.lua ...     --> its reply, or LOCKLOST: it counts as read no more
 */
#ifndef HASP_CLIENT_GUARDING_H
#define HASP_CLIENT_GUARDING_H

#include "client/connection.h"
#include "client/deciding.h"

/* Could a guard concern a command that `what` tells of so far? */
bool guarding_concerns(const struct client_env *env, const struct resolved *what,
                       struct slice name);

/* Decides about a command that guarding_concerns(). False: none of its keys is guarded. */
bool guarding_decide(struct context *x, struct decision *d);

/* --- what comes back; `r` is the request, of REQUEST_GUARDED --- */

/* As link_ops.on_line(). */
bool guarding_on_line(struct client *c, struct request *r, struct slice line);
void guarding_on_reply(struct client *c, struct request *r, const struct resp_reply *reply);
void guarding_on_granted(struct client *c, struct request *r);
void guarding_on_timed_out(struct client *c, struct request *r);

#endif
