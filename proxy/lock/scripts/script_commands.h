/* SPDX-License-Identifier: BSD-3-Clause
 *
 * script_commands: the commands of Redis that the scripts call, by the names that they have in
 * the scripts. If a server has renamed one (rename-command), it runs no script that calls it.
 */
#ifndef HASP_LOCK_SCRIPTS_SCRIPT_COMMANDS_H
#define HASP_LOCK_SCRIPTS_SCRIPT_COMMANDS_H

#include <hiredis/hiredis.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends COMMAND INFO, which asks the server which of the commands it has. */
void script_commands_ask(struct buf *out);

/* Reads the answer to script_commands_ask(): appends to `missing` the commands that the server
 * lacks, with blanks between. Returns how many; 0 if `reply` is no such answer. */
size_t script_commands_missing(const redisReply *reply, struct buf *missing);

/* Appends a script that asks the server (redis.acl_check_cmd(), Redis 7) which of the commands
 * the user of the connection may not call. */
void script_commands_ask_permission(struct buf *out);

/* Reads the answer to script_commands_ask_permission(): appends the denied commands to
 * `denied`, with blanks between. A server older than Redis 7 names none. */
void script_commands_denied(const redisReply *reply, struct buf *denied);

#endif
