/* SPDX-License-Identifier: BSD-3-Clause
 *
 * learn: adds the server's answers to COMMAND and COMMAND INFO to the table of commands, and
 * asks the server about names that the table lacks. Source: https://redis.io/commands/command
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

/* Command names that clients send and the table of commands lacks, because a module was loaded
 * later or a command was renamed. hasp asks the server about several names in one question, and
 * awaits the answer before the next question. It asks at most once a second, but earlier if
 * clients wait for the answer.
 *
 *   classifier.c: unknown_commands_add(name) --> unknown_commands_query()
 *                                                    |  COMMAND INFO name ...
 *   dispatch.c: unknown_commands_await(name):        v
 *       the client waits, decides again  <-- unknown_commands_learn() */

/* Most names in one question. hasp ignores further names until clients send them again. */
#define UNKNOWN_COMMANDS_MAX 16
#define UNKNOWN_COMMANDS_SECONDS 1.0

/* The unknown names of a worker. Initialize the struct with zeros. */
struct unknown_commands {
	struct command names[UNKNOWN_COMMANDS_MAX]; /* of each command, only the name is set */
	size_t n;
	size_t nasked; /* the question in flight is about the first `nasked` names */
	struct command answered[UNKNOWN_COMMANDS_MAX]; /* names in the last answer, until
	                                                * unknown_commands_forget() */
	size_t nanswered;
	bool is_awaited; /* since the last question, a client has begun to wait for an answer */
	double ask_at; /* policy_env.now from which hasp asks again, if no client waits */
};

/* Notes a name for the next question. Ignores a name that no command can have, or that was in
 * the last answer. */
void unknown_commands_add(struct unknown_commands *u, struct slice name);

/* True if a client that sends this name must wait for an answer. False if the last answer was
 * about the name, or if no command can have the name. Waiting clients must call this again
 * after each unknown_commands_learn(), and before unknown_commands_forget(). */
bool unknown_commands_await(struct unknown_commands *u, struct slice name);

/* Appends the question to `out`, and returns true: call unknown_commands_learn() when the
 * answer comes. Returns false if hasp must not ask now. */
bool unknown_commands_query(struct unknown_commands *u, struct buf *out, double now);

/* Adds the commands in the answer to the table, and returns their number. `reply`: the answer;
 * NULL: none came. */
size_t unknown_commands_learn(struct unknown_commands *u, struct commands *t,
                              const redisReply *reply);

/* Forgets the last answer, because the server may have changed. If a client sends one of the
 * names again, hasp asks again. */
void unknown_commands_forget(struct unknown_commands *u);

#endif
