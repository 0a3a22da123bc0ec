/* SPDX-License-Identifier: BSD-3-Clause
 *
 * learn: reads the server's answer to COMMAND into the table of commands.
 * Source: https://redis.io/commands/command
 */
#ifndef HASP_COMMANDS_LEARN_H
#define HASP_COMMANDS_LEARN_H

#include <hiredis/hiredis.h>
#include <stddef.h>

#include "commands/command.h"

/* Returns how many commands were taken in; entries of another shape are passed over. */
size_t learn_commands(struct commands *t, const redisReply *reply);

#endif
