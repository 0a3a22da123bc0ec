/* SPDX-License-Identifier: BSD-3-Clause
 *
 * learn: reads the server's answers to COMMAND and COMMAND INFO into the table of commands.
 * Source: https://redis.io/commands/command
 */
#ifndef HASP_COMMANDS_LEARN_H
#define HASP_COMMANDS_LEARN_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>

#include "commands/command.h"

/* Returns how many commands were taken in; entries of another shape are passed over. */
size_t learn_commands(struct commands *t, const redisReply *reply);

/* Takes in what COMMAND INFO answers to `name`. The entry of a command that was renamed
 * (rename-command) has its original name: it is known by `name` from then on. Returns false
 * when the server has no such command, or its entry has another shape. */
bool learn_named(struct commands *t, struct slice name, const redisReply *entry);

#endif
