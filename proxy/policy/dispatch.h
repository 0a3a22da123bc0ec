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

/* --- lock.c ------------------------------------------------------------------------------ */

/* Writes the call of a command to env->rewritten again, with the options x->opts (such as the
 * script's text, or another place in the line), and updates `r`. An MLOCK continues its
 * attempt. The configuration that decided about the command must still be in force. Returns how
 * long the call may wait in line, in ms. */
int64_t lock_rewrite(struct context *x, struct pending_request *r);

/* True for an UNLOCK or MUNLOCK if an earlier call of it named the acquisition to give back. A
 * new call must name the same one, which hasp could not find again if the hold has ended. */
bool lock_names_given_back(const struct context *x, const struct lock_request *p);

/* True if the present configuration gives the MLOCK of `p` the same owner and kind of lock as
 * the configuration under which it began. The MLOCK then keeps its locks and its place in the
 * queue. */
bool lock_multi_stays(struct context *x, const struct lock_request *p);

/* --- watched.c --------------------------------------------------------------------------- */

/* Returns true if watched_request() must see the command `c`, which is whole, has at least two
 * arguments, and is about to be sent. */
bool watched_wants(const struct shared_tracker *all, const struct command *c,
                   const struct slice *argv, size_t argc);

/* --- quorum_rule.c ----------------------------------------------------------------------- */

/* The effect of a command. All but QUORUM_ACT_TAKE also decide the form of the reply. */
enum quorum_act {
	QUORUM_ACT_NONE, /* the quorum cannot carry out the command */
	QUORUM_ACT_TAKE, /* LOCK, SETNX, or SET with NX */
	QUORUM_ACT_RELEASE, /* UNLOCK, DEL, or an EXPIRE that leaves no time */
	QUORUM_ACT_RELEASE_OWN, /* release of the client's own lock; the reply is a success even
	                         * if no majority has confirmed the release */
	QUORUM_ACT_REFUSE_RELEASE, /* a refused release: the client has not read the value */
	QUORUM_ACT_EXTEND, /* LOCK.EXTEND or EXPIRE */
	QUORUM_ACT_PERSIST,
	QUORUM_ACT_GET,
	QUORUM_ACT_EXISTS,
	QUORUM_ACT_TTL,
	QUORUM_ACT_PTTL,
	QUORUM_ACT_INFO, /* LOCK.INFO. struct client stores the act in 4 bits: at most 15 */
};

/* A command for a quorum; its slices point into the request, or into env->tokens. */
struct quorum_command {
	enum quorum_act act;
	struct lock_key key; /* key.rule: NULL for a verb, which sets nothing else of `key` */
	struct lock_call call; /* `owner` is empty if owner = value; of a command that only
	                        * reads the lock, only `key` and `owner` are set */
};

/* Reads the request of a PENDING_QUORUM. Returns false if the request does not concern a quorum
 * any more, because the configuration has changed. */
bool quorum_command_read(struct context *x, struct quorum_command *q);

#endif
