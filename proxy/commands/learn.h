/* SPDX-License-Identifier: BSD-3-Clause
 *
 * learn: reads the server's answers to COMMAND and COMMAND INFO into the table of commands, and
 * asks about names that the table lacks.
 * Source: https://redis.io/commands/command
 */
#ifndef HASP_COMMANDS_LEARN_H
#define HASP_COMMANDS_LEARN_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"
#include "commands/command.h"

/* Returns how many commands were taken in; entries of another shape are passed over. */
size_t learn_commands(struct commands *t, const redisReply *reply);

/* Takes in what COMMAND INFO answers to `name`. The entry of a command that was renamed
 * (rename-command) has its original name: it is known by `name` from then on. Returns false
 * when the server has no such command, or its entry has another shape. */
bool learn_named(struct commands *t, struct slice name, const redisReply *entry);

/* Command names that clients send and the table of commands does not have: of a module
 * that was loaded since, or of a command that was renamed. hasp asks the server about them,
 * with one question at a time, however many such names come; and at most once a second, unless
 * clients wait for the answer.
 *
 *   classifier.c: unmet_note(name) --> unmet_ask() --> COMMAND INFO name ... --> unmet_learn()
 *   dispatch.c: unmet_await(name): its client waits  <-- decides again, knowing it --' */

/* How many names can wait for a question; further ones are noted when they come again. */
#define UNMET_MAX 16
#define UNMET_SECONDS 1.0

/* A worker's; all zero: empty. */
struct unmet {
	struct command names[UNMET_MAX]; /* their names only */
	size_t n;
	size_t nasked; /* the first so many are being asked about; 0: none is */
	struct command answered[UNMET_MAX]; /* their names, until unmet_forget() */
	size_t nanswered;
	bool is_awaited; /* by a client, since the last question */
	double ask_at; /* not before, unless it is awaited; seconds */
};

/* A name that no command can have is passed over, as is one that was just answered. */
void unmet_note(struct unmet *u, struct slice name);

/* Returns true if a client that sends this name must wait for an answer: not if hasp just got
 * one, nor if no command can have the name. Waiting clients must ask this again after each
 * unmet_learn(), and before unmet_forget(). */
bool unmet_await(struct unmet *u, struct slice name);

static inline bool unmet_is_due(const struct unmet *u, double now)
{
	return u->n && !u->nasked && (u->is_awaited || now >= u->ask_at);
}

/* Appends the question to `out`. unmet_learn() must follow. */
void unmet_ask(struct unmet *u, struct buf *out, double now);

/* The answer; NULL: there is none. Returns how many of the names the table has learned. */
size_t unmet_learn(struct unmet *u, struct commands *t, const redisReply *reply);

/* The server may have changed: hasp asks again about a name that comes again. */
void unmet_forget(struct unmet *u);

#endif
