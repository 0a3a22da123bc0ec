/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session_commands: the commands that change what a connection is: database, user, name,
 * protocol, transactions, subscriptions, and those after which replies come by other rules.
 * They are passed as they are; what they mean is remembered in the session.
 */
#ifndef HASP_POLICY_SESSION_COMMANDS_H
#define HASP_POLICY_SESSION_COMMANDS_H

#include "policy/context.h"

/* Only for commands with command_info_is_session(). */

/* Returns PASS, with how to handle the reply; or DEFER. Changes the session. */
struct decision session_command_decide(struct context *x);

/* Returns the link that the command needs. */
enum route session_command_route(const struct command_info *what, const struct resp_view *req);

/* Returns true for AUTH, and for HELLO with AUTH: see pending_logs_in(). */
bool session_command_logs_in(const struct command_info *what, const struct resp_view *req);

/* True if a transaction queues the command, like most, instead of running it at once. */
bool session_command_is_queued(const struct command_info *what);

#endif
