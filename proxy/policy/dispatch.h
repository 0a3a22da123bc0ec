/* SPDX-License-Identifier: BSD-3-Clause
 *
 * dispatch: the one place that decides how hasp handles a command.
 *
 *   verb, command on
 *   a quorum's lock -> goes to the quorum, once Redis has answered a PING in its place
 *   verb            -> rewritten
 *   write on a key
 *   with a rule     -> rewritten, unless watched; only observed: passed, and its reply
 *                      is reported to the tracker
 *   write on a key
 *   of hasp's own   -> refused
 *   session command -> passed, and remembered until its reply
 *   unknown command -> hasp asks Redis about the command, and decides then
 *   anything else   -> passed
 *
 * If a request could end a lock that a client waits for, hasp probes the lock when Redis has
 * answered the request.
 */
#ifndef HASP_POLICY_DISPATCH_H
#define HASP_POLICY_DISPATCH_H

#include <stdbool.h>

#include "policy/context.h"

/* Returns the link that the command needs. Changes nothing. */
enum route dispatch_route(const struct context *x);

/* True if a client may be waiting for a lock that a write ends. `ruled`: one of the written
 * keys may have a rule. */
static inline bool dispatch_heeds_releases(const struct policy_env *env, bool ruled)
{
	return (ruled && env->rules_wait) || waiters_any(env->waiters);
}

/* True if the request, which is otherwise plain, could end a lock that a client waits for. */
bool dispatch_may_release(struct policy_env *env, struct session *session,
                          const struct command_info *what, const struct resp_view *req);

/* Decides about the command of a whole request. Verdicts DEFER, LEARN, ASK_LOGIN and
 * COUNT_WRITES leave the session as it is; others change it as if the request were sent now. */
struct decision dispatch(struct context *x);

/* Records that `n` whole and plain requests, in `bytes`, are sent in a transaction. Returns
 * true if an error reply aborts the transaction: see decision.watches_refusal. */
bool dispatch_queue_plain(const struct policy_env *env, struct session *s, struct slice bytes,
                          uint32_t n);

/* Decides about a long request by its `beginning`: PASS (and changes the session), NEED_MORE or
 * LEARN. If the command's name is complete, sets the command of `x`, and writes the facts about
 * it to `what`. `is_name_long`: the name is already longer than any command's. */
struct decision dispatch_early(struct context *x, const struct resp_view *beginning,
                               struct command_info *what, bool is_name_long);

/* --- session_commands.c ------------------------------------------------------------------ */

/* --- commands for which command_info_is_session() is true --------------------------------- */

/* Returns DEFER; or changes the session, and returns PASS and how to handle the reply. */
struct decision session_command_decide(struct context *x);

/* Returns the link that the command needs. */
enum route session_command_route(const struct command_info *what, const struct resp_view *req);

/* Returns true for AUTH, and for HELLO with AUTH: see pending_logs_in(). */
bool session_command_logs_in(const struct command_info *what, const struct resp_view *req);

/* True if a transaction queues the command instead of running it at once. */
bool session_command_is_queued(const struct command_info *what);

#endif
