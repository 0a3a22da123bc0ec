/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fencing: what writes guarded keys and cannot be carried out by a script of ours is carried
 * out in a transaction that ends when a guard changes: commands whose reply is none for Lua,
 * scripts, and the application's own transactions.
 *
 *   command, EXEC -> (DISCARD) WATCH guards, guard_write.lua without a command
 *                       | LOCKED, LOCKLOST --> the answer
 *                       | QUEUED --> stands in line, and once more
 *                       v GRANTED
 *                    MULTI, the command or those since MULTI, EXEC
 *                       | nil: a guard changed --> once more
 *                       v
 *                    the reply; the guards are handed on
 *
 * A transaction whose application watches keys of its own cannot be begun anew, for that would
 * forget them: it watches the guards, too, from before its MULTI.
 */
#ifndef HASP_CLIENT_FENCING_H
#define HASP_CLIENT_FENCING_H

#include "client/connection.h"
#include "client/deciding.h"

/* Carries out one command, or the block in `pending`, which it takes. */
struct decision fencing_begin(struct context *x, struct guarded_call *pending,
                              enum guarded_way way);

/* Decides about MULTI and EXEC where there are guards. False: nothing is to be done. */
bool fencing_decide(struct context *x, struct decision *d);

/* A command is sent that is queued in a transaction: remembers what is sent, and has it noted
 * when Redis refuses that. */
void fencing_record(struct context *x, struct decision *d);

/* A command that fencing_record() has seen was answered by an error. */
void fencing_refused(struct client *c);

/* See client/guarding.h. */
bool fencing_on_line(struct client *c, struct request *r, struct slice line);
bool fencing_on_reply(struct client *c, struct request *r, const struct resp_reply *reply,
                      struct slice kept);
void fencing_again(struct client *c, struct request *r);

#endif
