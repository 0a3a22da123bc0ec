/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session_commands: the commands that change what a connection is: database, user, name,
 * protocol, transactions, subscriptions, and those after which replies come by other rules.
 * They are passed as they are; what they mean is remembered in the session.
 */
#ifndef HASP_POLICY_SESSION_COMMANDS_H
#define HASP_POLICY_SESSION_COMMANDS_H

#include "policy/context.h"

/* (For commands that command_info_is_session() alone.) */

/* PASS, with what to do about the reply; or DEFER. Changes the session. */
struct decision session_command_decide(struct context *x);

/* The link that it must be sent on. */
enum route session_command_route(const struct command_info *what, const struct resp_view *req);

/* Returns true for AUTH, and for HELLO with AUTH: see pending_logs_in(). */
bool session_command_logs_in(const struct command_info *what, const struct resp_view *req);

/* In a transaction it is queued, like all other commands, instead of carried out. */
bool session_command_is_queued(const struct command_info *what);

#endif
