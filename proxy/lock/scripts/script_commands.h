/* SPDX-License-Identifier: BSD-3-Clause
 *
 * script_commands: the commands of Redis that the scripts call, by the names that they have in
 * the scripts. A server that has given one another name (rename-command) runs no script that
 * calls it.
 */
#ifndef HASP_LOCK_SCRIPTS_SCRIPT_COMMANDS_H
#define HASP_LOCK_SCRIPTS_SCRIPT_COMMANDS_H

#include <hiredis/hiredis.h>
#include <stddef.h>

#include "base/buf.h"

/* Appends the question which of them the server has: COMMAND INFO. */
void script_commands_ask(struct buf *out);

/* Of the answer: appends the names that it does not have to `missing`, with blanks between.
 * Returns how many; none when the answer is another one. */
size_t script_commands_missing(const redisReply *reply, struct buf *missing);

/* Appends the question which of them the user of the connection may not call: a script that
 * asks the server (redis.acl_check_cmd(), Redis 7). */
void script_commands_ask_permission(struct buf *out);

/* Of the answer: appends those names to `denied`, with blanks between. An older server names
 * none. */
void script_commands_denied(const redisReply *reply, struct buf *denied);

#endif
