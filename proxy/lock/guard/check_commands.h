/* SPDX-License-Identifier: BSD-3-Clause
 *
 * check_commands: checks the commands that [guard] sections name: each must have a key in a
 * known position, and a script must be able to run it. Also checks that no verb has the name of
 * a Redis command. Pure.
 */
#ifndef HASP_LOCK_GUARD_CHECK_COMMANDS_H
#define HASP_LOCK_GUARD_CHECK_COMMANDS_H

#include <stddef.h>

#include "base/buf.h"
#include "config/types.h"
#include "commands/command.h"

/* Appends each fault as a line, as config_load() does. Until `t` has learned the server's
 * commands, an unknown command is no fault. Returns the number of faults. */
size_t check_commands(const struct config *c, const struct commands *t, struct buf *faults);

/* Appends a line for each verb that has the name of a Redis command: clients could not call
 * that command. Returns the number of faults. */
size_t check_verbs(const struct config *c, struct buf *faults);

#endif
