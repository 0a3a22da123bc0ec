/* SPDX-License-Identifier: BSD-3-Clause
 *
 * check_commands: checks the commands that [guard] sections name: each needs a key in a known
 * place, and a script must be able to run it. Also checks the names of the verbs, which no
 * command of Redis may have. Pure.
 */
#ifndef HASP_LOCK_GUARD_CHECK_COMMANDS_H
#define HASP_LOCK_GUARD_CHECK_COMMANDS_H

#include <stddef.h>

#include "base/buf.h"
#include "config/types.h"
#include "commands/command.h"

/* Appends each fault as a line, as config_load() does. Until the table has learned the
 * server's commands, an unknown command is no fault. Returns the number of faults. */
size_t check_commands(const struct config *c, const struct commands *t, struct buf *faults);

/* Checks the names of [verbs] in the same way: none may be one of Redis' own commands, because
 * clients could not use that command any more. */
size_t check_verbs(const struct config *c, struct buf *faults);

#endif
