/* SPDX-License-Identifier: BSD-3-Clause
 *
 * context: what a command is decided by: the configuration, what is known of Redis and of the
 * connection, and the command itself; and the decision that comes of it.
 *
 * The files of this folder know no client, no socket and no clock. They may change the session,
 * as if the command were sent now, and write a call to env->rewritten.
 */
#ifndef HASP_POLICY_CONTEXT_H
#define HASP_POLICY_CONTEXT_H

#include "commands/command.h"
#include "config/types.h"
#include "lock/guard/guard_op.h"
#include "lock/hold/holds.h"
#include "lock/model/owner.h"
#include "lock/queue/waiters.h"
#include "lock/rewrite/rewrite.h"
#include "policy/command_info.h"
#include "policy/policy_env.h"
#include "session/session.h"

struct command_sample;
struct tracker_client;

enum verdict {
	DISPATCH_PASS, /* it is sent as it came */
	DISPATCH_CALL, /* env->rewritten is sent instead */
	DISPATCH_GUARD, /* pending->guard_op is carried out, step by step */
	DISPATCH_ASK_LOGIN, /* Redis is asked whether the client is logged in. If not, that
	                     * answers the command; else decide about it again */
	DISPATCH_COUNT_WRITES, /* hasp writes and deletes a key first, so that the server's WAIT
	                        * covers what the client wrote on other links. An error answers
	                        * the command; else decide about it again */
	DISPATCH_DEFER, /* ask again when no reply is due: what it means depends on one */
	DISPATCH_LEARN, /* ask again when Redis has said what command it is */
	DISPATCH_NEED_MORE, /* (dispatch_early) it cannot be decided about before it is whole */
};

/* The link that a command needs. */
enum route {
	ROUTE_SHARED, /* any that has the client's login */
	ROUTE_LINGERING, /* one of its own, and for some seconds more: it leaves nothing there,
	                    but the client may soon need such a link again */
	ROUTE_DEDICATED, /* one of its own, as long as the command is in flight */
	ROUTE_BARE, /* the same; if Redis refuses what has to be replayed there, without that,
	               and for this command alone: it needs no database, nor a login */
	ROUTE_TRANSACTION, /* one of its own, until Redis keeps no transaction there for it, nor
	                      watched keys */
	ROUTE_PINNED, /* one of its own from here on. The session knows the state that the
	                 command leaves there; without such state, another link will do as well
	               */
	ROUTE_STICKY, /* as ROUTE_PINNED, but the state there is not known, or cannot be
	                replayed: the client ends with its link */
};

struct decision {
	enum verdict verdict;
	/* Awaits the reply; the caller's. NULL: nothing depends on it, or the transaction that
	 * the command is queued in has it. With GUARD, and with CALL but for `discards`,
	 * commands after this one wait. */
	struct pending_request *pending;
	bool watches_refusal; /* an error in reply aborts the transaction */
	unsigned discards; /* replies before that one, which the client does not get */
	int64_t wait_ms; /* CALL: for how long it may wait in line; 0: not at all */
	bool follows_ping; /* hasp sends a PING before it: see session_commands.c, on_wait() */
	bool is_patient; /* a late reply does not mean that the link hangs */
	bool is_followed; /* PASS: hasp reads a lock before and after it */
	bool is_refusal; /* CALL: what is sent instead is answered by an error of ours */
	bool turns_opaque; /* replies can't be followed from here on */
};

/* Most commands have no more keys than this; for others the heap is used. */
#define KEYS_ON_STACK 32

/* A command that names more keys is refused if hasp would have to rewrite it: the script would
 * keep Redis from serving others for longer than a tenth of a second, and hasp for some ms. */
#define COMMAND_KEYS_MAX 16384

/* One command of one client, and all that the decision about it depends on. */
struct context {
	struct policy_env *env;
	struct session *session;
	struct hold_owner *holds;
	struct read_set *read_set;
	struct tracker_client **watched; /* watch/tracker.h; *watched is NULL: not yet */
	const char *listener; /* the entry of `listen` by which the client came */
	bool needs_wait_ping; /* the client wrote on other links, which WAIT on its link does
	                   not cover */
	bool must_log_in; /* Redis wants a login, and this client has none */
	const struct owner_identity *(*identity)(void *arg);
	void *arg; /* of identity() and make_opts() */
	bool may_be_optimistic; /* a guard may be acquired without a script */
	const struct resp_view *req;
	const struct command_info *what;
	/* The form of a call that is written now; policy asks when it writes one. */
	void (*make_opts)(void *arg, struct rewrite_opts *opts);
	struct rewrite_opts opts; /* of the call in env->rewritten */
};

/* Returns the client's token for a rule or guard with this kind of owner. Before its login a
 * client has only the token of its connection: hasp must not use its own permissions for other
 * clients of that name or address. `scratch` may hold the bytes. */
struct slice context_token(const struct context *x, enum owner_kind kind, struct buf *scratch);

/* The parts of a pending request that do not belong to the session. */
extern const struct pending_ops context_rest;

/* Passes the command as decided. `command_sample`, which the request owns from now on, awaits
 * the reply; in a transaction, EXEC's. */
void context_note(struct context *x, struct decision *d, struct command_sample *command_sample);

/* The command is carried out as the operation `op`, which `r` awaits. */
struct decision context_guard(struct pending_request *r, struct guard_op *op);

/* An error of ours takes the place of the command. */
struct decision context_refuse(struct context *x, const char *error);

#endif
