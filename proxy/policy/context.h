/* SPDX-License-Identifier: BSD-3-Clause
 *
 * context: what a command is decided by: the configuration, what is known of Redis and of the
 * connection, and the command itself; and the decision that comes of it.
 *
 * The files of this room know no client, no socket and no clock. They may change the session,
 * as if the command were sent now, and write a call to env->rewritten.
 */
#ifndef HASP_POLICY_CONTEXT_H
#define HASP_POLICY_CONTEXT_H

#include "base/freelist.h"
#include "commands/command.h"
#include "config/types.h"
#include "lock/guard/guard_op.h"
#include "lock/hold/holds.h"
#include "lock/model/owner.h"
#include "lock/queue/waiters.h"
#include "lock/rewrite/rewrite.h"
#include "policy/classifier.h"
#include "session/session.h"
#include "upstream/link.h"

struct observed_rules;
struct observer;
struct observers;

/* What the commands of a worker's clients are decided by; the worker owns it. */
struct policy_env {
	struct config *config; /* in force */
	struct commands *commands; /* what COMMAND says */
	struct classifier *classifier;
	struct holds *holds;
	struct read_sets *read_sets;
	struct waiters *waiters;
	struct observers *observers; /* all workers'; lock/observe/observation.h */
	struct observed_rules *observed; /* those of `config` */
	bool rules_wait; /* a rule of `config` has `wait` */
	bool rules_enforce, guards_enforce; /* one of `config` has mode = enforce */
	uint64_t generation; /* changes with `config`, and with what COMMAND says */
	double now; /* clock_now(), and */
	double date; /* seconds since 1970, when this turn of the loop began */
	struct buf rewritten; /* a rewritten request is built in it */
	struct buf token; /* as is an owner's token */
	struct freelist pending; /* of PENDING_SIZE */
	struct freelist guard_ops; /* of GUARD_OP_SINGLE_SIZE */
};

enum verdict {
	DISPATCH_PASS, /* it is sent as it came */
	DISPATCH_CALL, /* env->rewritten is sent instead */
	DISPATCH_GUARD, /* pending->guard_op is carried out, step by step */
	DISPATCH_DEFER, /* ask again when nothing is awaited: its meaning depends on it */
	DISPATCH_HOLD, /* (dispatch_early) it cannot be decided about before it is whole */
};

/* The link that a command needs. */
enum route {
	ROUTE_SHARED, /* any that has the client's login */
	ROUTE_DEDICATED, /* one of its own, as long as the command is in flight */
	ROUTE_PINNED, /* one of its own from here on: the command changes what cannot be
	                 replayed */
};

/* What becomes of the connection behind the request. */
enum tunnel_mode {
	TUNNEL_NONE,
	TUNNEL_OPAQUE, /* replies can't be followed from here on */
	TUNNEL_RAW, /* nor requests: a replica's byte stream begins */
};

struct decision {
	enum verdict verdict;
	/* Awaits the reply; the caller's. NULL: nothing depends on it, or the transaction that
	 * the command is queued in has it. With CALL and GUARD, commands behind this one wait.
	 */
	struct pending_request *pending;
	unsigned reply_flags; /* of link_expect(), for the reply */
	unsigned discards; /* replies before that one, which nobody sees */
	int64_t wait_ms; /* CALL: it may wait in line for so long; 0: it does not */
	enum tunnel_mode tunnel_mode;
};

/* A command has few keys; one that has more takes them from the heap. */
#define KEYS_ON_STACK 32

/* One command of one client, and what it is decided by. */
struct context {
	struct policy_env *env;
	struct session *session;
	struct hold_owner *holds;
	struct read_set *read_set;
	struct observer **observer; /* lock/observe/observation.h */
	const char *listener; /* the entry of `listen` by which the client came */
	const struct owner_identity *(*identity)(void *arg);
	void *arg; /* of identity() */
	bool may_be_optimistic; /* a guard may be acquired without a script */
	const struct resp_view *req;
	const struct command_info *what;
	struct rewrite_how how; /* a call is to look */
};

/* The token of the client for a rule or guard with this kind of owner. `scratch` may hold the
 * bytes. */
struct slice context_token(const struct context *x, enum owner_kind kind, struct buf *scratch);

/* An error of ours takes the place of the command. */
struct decision context_refuse(struct context *x, const char *error);

#endif
