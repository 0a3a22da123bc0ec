/* SPDX-License-Identifier: BSD-3-Clause
 *
 * check_commands: checks the commands that [guard] sections name: each needs a key in a known
 * place, and a script must be able to run it. And the names of the verbs, which no command of
 * Redis may have. Pure.
 */
#ifndef HASP_LOCK_GUARD_CHECK_COMMANDS_H
#define HASP_LOCK_GUARD_CHECK_COMMANDS_H

#include <stddef.h>

#include "base/buf.h"
#include "config/types.h"
#include "commands/command.h"

/* Appends each fault as a line, as config_load() does. While the table has not learned what
 * the server knows, a command that is not in it is none. Returns the number of faults. */
size_t check_commands(const struct config *c, const struct commands *t, struct buf *faults);

/* The same for the names of [verbs]: none may be one of Redis' own commands, which clients
 * could not use any more. */
size_t check_verbs(const struct config *c, struct buf *faults);

#endif
