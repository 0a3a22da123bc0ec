/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guarding: commands on guarded keys: what becomes of them, and of their answers.
 *
 *   read --> trying.h: is the guard free?
 *                | no
 *                v
 *            guard_read.lua --+QUEUED--> stands in line --granted--> once more
 *                |      `----+GRANTED--> the command as it came (its reply is none for Lua)
 *                `--> its reply: from now on the key counts as read
 *   write -> guard_finish.lua (one key, read by this connection) or
 *            guard_write.lua ...     --> its reply, or LOCKLOST: it counts as read no more
 */
#ifndef HASP_CLIENT_GUARDING_H
#define HASP_CLIENT_GUARDING_H

#include "client/connection.h"
#include "client/deciding.h"

/* Could a guard concern a command that `what` tells of so far? */
bool guarding_concerns(const struct client_env *env, const struct resolved *what,
                       struct slice name);

/* Does the command `name` take a guard, as far as that is named? */
bool guarding_acquires(const struct client_env *env, struct slice name);

/* Decides about a command that guarding_concerns(). False: none of its keys is guarded. */
bool guarding_decide(struct context *x, struct decision *d);

/* Does a command that is carried out on these keys need a private link? */
bool guarding_needs_private(const struct client_env *env, const struct resolved *what,
                            const struct resp_view *req);

enum guarding {
	GUARDING_NONE, /* no key is guarded */
	GUARDING_CALL, /* `call` has them, unless it is NULL */
	GUARDING_UNCLEAR, /* they are in more than one database, or too many */
};
/* The guarded keys of the commands in `block`, which will be carried out now; `call` is NULL
 * where it is only asked whether there are any. */
enum guarding guarding_block(struct context *x, struct slice block, struct guarded_call **call);

/* --- what comes back; `r` is the request, of REQUEST_GUARDED --- */

/* As link_ops.on_line(). */
bool guarding_on_line(struct client *c, struct request *r, struct slice line);
/* As link_ops.on_reply(). False: there is more to come of this request. */
bool guarding_on_reply(struct client *c, struct request *r, const struct resp_reply *reply,
                       struct slice kept);
/* Its guard was handed to it, or its place in the line was lost: on with it. */
void guarding_again(struct client *c, struct request *r);
void guarding_on_timed_out(struct client *c, struct request *r);

/* `+QUEUED place now held i` */
void guarding_stand(struct client *c, struct request *r, struct slice line);
/* What a command has taken and did not read, or does not need any more. In front of whatever
 * the client sends next. */
void guarding_give_back(struct client *c, const struct guarded_call *pending,
                        enum guarded_end end);
/* The same, and on_reply() tells of `r` when Redis has done it. There is a link. False: there
 * was nothing to be done. */
bool guarding_hand_on(struct client *c, struct request *r, enum guarded_end end);

#endif
