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

/* Adds the commands in the answer to COMMAND, except entries of an unknown form. Returns how
 * many commands were added. */
size_t learn_commands(struct commands *t, const redisReply *reply);

/* Adds the command `name` by `entry`, the answer to COMMAND INFO. The entry of a renamed
 * command (rename-command) has the original name, but the table gets it as `name`. Returns
 * false if the server has no such command, or if the entry has another form. */
bool learn_named(struct commands *t, struct slice name, const redisReply *entry);

/* Command names that clients send and the table of commands lacks, because a module was loaded
 * later or a command was renamed. hasp asks the server about them: one question at a time,
 * however many such names come, and at most once a second, unless clients wait for the answer.
 *
 *   classifier.c: unknown_commands_add(name) --> unknown_commands_query()
 *                                                    |  COMMAND INFO name ...
 *   dispatch.c: unknown_commands_await(name):        v
 *       the client waits, decides again  <-- unknown_commands_learn() */

/* hasp notes at most this many names for a question, and other names when clients repeat
 * them. */
#define UNKNOWN_COMMANDS_MAX 16
#define UNKNOWN_COMMANDS_SECONDS 1.0

/* The unknown names of a worker. All zero: empty. */
struct unknown_commands {
	struct command names[UNKNOWN_COMMANDS_MAX]; /* only the names */
	size_t n;
	size_t nasked; /* Redis is being asked about the first `nasked` */
	struct command answered[UNKNOWN_COMMANDS_MAX]; /* only the names, until
	                                                * unknown_commands_forget() */
	size_t nanswered;
	bool is_awaited; /* a client has waited for the answer since the last question */
	double ask_at; /* earliest policy_env.now to ask again, unless a client waits */
};

/* Notes a name; ignores a name that no command can have, or that was just answered. */
void unknown_commands_add(struct unknown_commands *u, struct slice name);

/* True if a client that sends this name must wait for an answer: not if hasp has just got one,
 * nor if no command can have the name. Waiting clients must ask this again after each
 * unknown_commands_learn(), and before unknown_commands_forget(). */
bool unknown_commands_await(struct unknown_commands *u, struct slice name);

static inline bool unknown_commands_is_due(const struct unknown_commands *u, double now)
{
	return u->n && !u->nasked && (u->is_awaited || now >= u->ask_at);
}

/* Appends the question to `out`. unknown_commands_learn() must follow. */
void unknown_commands_query(struct unknown_commands *u, struct buf *out, double now);

/* Handles the answer; NULL: none. Returns how many of the names the table has learned. */
size_t unknown_commands_learn(struct unknown_commands *u, struct commands *t,
                              const redisReply *reply);

/* Forgets the answers, because the server may have changed: if a client sends one of these
 * names again, hasp asks again. */
void unknown_commands_forget(struct unknown_commands *u);

#endif
