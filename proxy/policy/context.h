/* SPDX-License-Identifier: BSD-3-Clause
 *
 * context: what a command is decided by: the configuration, what is known of Redis and of the
 * connection, and the command itself.
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

struct observers;
struct observed_rules;

/* What the commands of a worker's clients are decided by; the worker owns it. */
struct policy_env {
	struct config *config; /* in force */
	struct commands *commands; /* what COMMAND says */
	struct classifier *classifier;
	struct holds *holds;
	struct read_sets *read_sets;
	struct waiters *waiters;
	const struct link_env *links; /* for login_required */
	struct observers *observers; /* all workers'; policy/observe.h */
	struct observed_rules *observed; /* those of `config` */
	bool rules_wait; /* a rule of `config` has `wait` */
	bool rules_enforce, guards_enforce; /* one of `config` has mode = enforce */
	double date; /* seconds since 1970, when this turn of the loop began */
	struct buf call; /* a rewritten request is built in it */
	struct buf token; /* as is an owner's token */
	struct freelist requests; /* of PENDING_REQUEST_SIZE */
};

enum verdict {
	DISPATCH_PASS, /* send it as it came */
	DISPATCH_CALL, /* send env->call instead */
	DISPATCH_DEFER, /* ask again when nothing is awaited: its meaning depends on it */
	DISPATCH_WAIT_QUEUE, /* ask again when from->waiter is told that it is ready */
	DISPATCH_HOLD, /* (dispatch_early) not to be told before it is whole */
};

/* The link that a command needs. */
enum route {
	ROUTE_SHARED, /* any that has the client's login */
	ROUTE_DEDICATED, /* a private one, while it lasts */
	ROUTE_PINNED, /* a private one from here on: it changes what cannot be replayed */
};

/* What happens to the connection behind the request. */
enum tunnel_mode {
	TUNNEL_NONE,
	TUNNEL_OPAQUE, /* replies can't be followed from here on */
	TUNNEL_RAW, /* nor requests: a replica's byte stream begins */
};

struct decision {
	enum verdict verdict;
	unsigned reply_flags; /* flags for link_expect() */
	struct pending_request *request; /* its tag; NULL: none */
	unsigned prefix_replies; /* answers that the client does not see, in front of its reply
	                          */
	unsigned prefix_flags; /* flags for those, with LINK_DISCARD */
	bool barrier; /* what is behind waits for its reply */
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
	void *arg; /* of identity() and waiter_ops */
	struct waiter *
		*waiter; /* of an acquire that is sent again; NULL in it: made when needed */
	const struct waiter_ops *waiter_ops;
	bool may_be_optimistic; /* a guard may be acquired without a script */
	const struct resp_view *req;
	const struct command_info *what;
	bool eval; /* the script is known to be missing */
};

/* Whoever asks, to a rule or guard with this kind of owner. `room` may hold the bytes. */
struct slice context_token(const struct context *x, enum owner_kind kind, struct buf *room);

/* How the call is to look; asks for a ticket. */
struct rewrite_how context_rewrite_how(const struct context *x);

/* A call of hasp's own was written to env->call and is awaited: one who has not logged in gets
 * a shorter one, whose answer is NOSCRIPT. Returns whether. */
bool context_shorten(struct context *x);

/* An error of ours takes the place of the call. */
struct decision context_refuse(struct context *x, const char *error);

/* Whoever makes this call may have to wait. Returns false when it cannot be sent yet. When it
 * never can be, the error that says so takes its place. */
bool context_queue_ready(struct context *x, struct lock_call *call);

/* An answer of hasp's own, which the client does not see. */
#define UNSEEN (LINK_DISCARD | LINK_NOTIFY | LINK_CAPTURE)

/* In RESP2, a subscribed connection is refused everything that is not about
 * subscriptions: let Redis say so about the command that was sent. */
static inline bool context_is_muted(const struct session *s)
{
	return !s->opaque && s->proto == 2 && session_is_subscribed(s);
}

#endif
