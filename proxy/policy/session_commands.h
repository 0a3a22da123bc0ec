/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session_commands: the commands that change the state of a connection (database, user, name,
 * protocol, transaction, subscriptions), or the form in which Redis replies. hasp passes them
 * unchanged, and records their effects in the session.
 */
#ifndef HASP_POLICY_SESSION_COMMANDS_H
#define HASP_POLICY_SESSION_COMMANDS_H

#include "policy/context.h"

/* All functions are for commands with command_info_is_session() only. */

/* Returns DEFER, or PASS and how to handle the reply; then it changes the session. */
struct decision session_command_decide(struct context *x);

/* Returns the link that the command needs. */
enum route session_command_route(const struct command_info *what, const struct resp_view *req);

/* Returns true for AUTH, and for HELLO with AUTH: see pending_logs_in(). */
bool session_command_logs_in(const struct command_info *what, const struct resp_view *req);

/* True if a transaction queues the command instead of running it at once. */
bool session_command_is_queued(const struct command_info *what);

#endif
