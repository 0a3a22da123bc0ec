/* SPDX-License-Identifier: BSD-3-Clause
 *
 * context: the facts by which hasp decides about a command (the configuration, the state of
 * Redis and of the connection, and the command itself), and the decision.
 *
 * The files of this folder know no client, no socket and no clock. They may change the session,
 * as if the command were sent now, and write a call to env->rewritten.
 */
#ifndef HASP_POLICY_CONTEXT_H
#define HASP_POLICY_CONTEXT_H

#include "commands/command.h"
#include "config/match.h"
#include "config/types.h"
#include "lock/guard/guard_op.h"
#include "lock/hold/holds.h"
#include "lock/model/owner.h"
#include "lock/queue/waiters.h"
#include "lock/rewrite/rewrite.h"
#include "policy/policy_env.h"
#include "session/session.h"

struct tracker_client;

/* The facts that hasp derives from a command's name. */
struct command_info {
	enum command_session session; /* >= SESSION_SELECT: the command changes the session */
	const struct command *command; /* NULL: hasp does not know the command */
	enum verb verb;
	bool is_verb;
	/* If no rule concerns the command, and the command can release no lock, hasp passes it
	 * without a decision. */
	bool is_plain;
	bool is_unknown; /* COMMAND's reply did not name it, so hasp asks Redis about the
	                  * command */
	bool may_be_slow; /* Redis may take long to answer; such a command is not plain */
	bool blocks; /* the command may wait for data */
	bool is_stateless; /* the command may be sent on a shared link */
	bool is_write; /* a rule could concern the command */
	bool is_guarded; /* a guard could concern the command */
	bool acquires; /* the command takes a guard */
	bool may_be_quorums; /* a rule with a quorum could concern the command */
	bool is_observed; /* a rule or guard in mode OBSERVE could concern the command */
	bool is_discovered; /* discovery observes the command */
	bool is_sampled; /* discovery sees only some of these commands: watched_may_sample(). A
	                  * discovered command without this flag is not plain */
	bool is_matched; /* is_write, is_guarded, may_be_quorums or is_observed is true: the
	                  * keys decide whether a section concerns the command */
	bool reads_value; /* the command may read a lock with owner = value */
	bool may_release; /* the command could end a lock that a client waits for */
	bool never_inspect; /* hasp passes the command without a look at its arguments */
};

/* True if the command changes the session of the connection. */
static inline bool command_info_is_session(const struct command_info *what)
{
	return what->session >= SESSION_SELECT;
}

enum verdict {
	DISPATCH_PASS, /* send the command as it came */
	DISPATCH_CALL, /* send env->rewritten instead */
	DISPATCH_GUARD, /* carry out pending->guard_op, step by step */
	DISPATCH_ASK_LOGIN, /* ask Redis whether the client is logged in. If not, the client
	                     * gets Redis' error; else decide about the command again */
	DISPATCH_COUNT_WRITES, /* write and delete a key first, so that WAIT covers the client's
	                        * writes on other links. If Redis answers with an error, the
	                        * client gets it; else decide about the command again */
	DISPATCH_DEFER, /* decide after all due replies, because they may change the decision */
	DISPATCH_LEARN, /* decide when Redis has described the command */
	DISPATCH_NEED_MORE, /* dispatch_early() only: the decision needs the whole request */
};

/* The link that a command needs. */
enum route {
	ROUTE_SHARED, /* any link with the client's login */
	ROUTE_LINGERING, /* a link of the client's own, kept some seconds longer: the command
	                  * leaves no state there, but the client may soon need such a link
	                  * again */
	ROUTE_DEDICATED, /* a link of the client's own while the command is in flight */
	ROUTE_BARE, /* as ROUTE_DEDICATED, but if Redis refuses the replay of the client's
	             * state, hasp sends the command all the same */
	ROUTE_TRANSACTION, /* a link of the client's own, until the client has neither a
	                    * transaction nor watched keys on it */
	ROUTE_PINNED, /* a link of the client's own from now on. hasp knows the state that the
	               * command leaves there, and can replay it on another link */
	ROUTE_STICKY, /* as ROUTE_PINNED, but hasp does not know the state, or cannot replay
	               * it: the client ends with its link */
};

struct decision {
	enum verdict verdict;
	/* The request that awaits the reply; the caller owns it. NULL: nothing depends on the
	 * reply, or the transaction that queues the command has the request. After GUARD, and
	 * after a CALL with `discards` = 0, later commands wait for the reply. */
	struct pending_request *pending;
	bool watches_refusal; /* if the reply is an error, Redis has aborted the transaction */
	unsigned discards; /* number of replies that hasp discards before the command's reply */
	int64_t wait_ms; /* CALL: how long the call may wait in line; 0: not at all */
	bool follows_ping; /* hasp sends a PING before the command: on_wait() says why */
	bool is_patient; /* a late reply does not mean that the link hangs */
	bool is_followed; /* PASS: hasp reads a lock before and after the command */
	bool is_refusal; /* CALL: hasp answers the command with an error */
	bool turns_opaque; /* hasp cannot follow the client's replies from now on */
};

/* The most keys of a command that hasp rewrites; hasp refuses commands with more. With more
 * keys, the script would keep Redis busy for over a tenth of a second, and hasp for some ms. */
#define COMMAND_KEYS_MAX 16384

/* The locks that a client has, and the guarded keys that it has read. */
struct context_locks {
	struct hold_owner holds;
	struct read_set read_set;
	void *client; /* context.arg */
};

struct context_locks *context_locks_new(void *client);
/* The one struct that all clients without locks share. Never change it: call
 * context_locks_own() first. */
extern const struct context_locks context_no_locks;
static inline struct context_locks *context_locks_none(void)
{
	return (struct context_locks *)&context_no_locks;
}

/* If *locks is context_no_locks, replaces it by new locks of the client's own. Returns *locks.
 * When the client ends, free() them. */
static inline struct context_locks *context_locks_own(struct context_locks **locks,
                                                      void *client)
{
	if (*locks == &context_no_locks)
		*locks = context_locks_new(client);
	return *locks;
}

/* One command of one client, and all that the decision about it depends on. */
struct context {
	struct policy_env *env;
	struct session *session;
	struct context_locks **locks; /* context_holds() and context_read_set() read them */
	struct tracker_client **watched; /* the tracker's record of the client; *watched is NULL
	                                  * until the tracker watches the client */
	uint32_t npipelined; /* the client's commands, with this one, that arrived before the
	                      * replies to earlier ones, modulo 2^32 */
	const char *listener; /* the entry of `listen` that accepted the client */
	bool needs_wait_ping; /* the client wrote on other links; a WAIT on its present link
	                       * does not cover these writes */
	bool must_log_in; /* Redis requires a login, and this client has none */
	struct token *(*identity)(void *arg); /* of the connection: owner_identify() */
	void *arg; /* argument of identity() and make_opts() */
	bool may_be_optimistic; /* hasp may acquire a guard without a script */
	/* The fields of the command: context_set_command() sets them. */
	const struct resp_view *req;
	const struct command_info *what;
	struct command_keys keys;
	/* Writes the options of a call that hasp sends now to `opts`. */
	void (*make_opts)(void *arg, struct rewrite_opts *opts);
	struct rewrite_opts opts; /* the options of the call in env->rewritten; unset before
	                           * policy writes the call */
};

static inline const struct hold_owner *context_holds(const struct context *x)
{
	return &(*x->locks)->holds;
}

static inline const struct read_set *context_read_set(const struct context *x)
{
	return &(*x->locks)->read_set;
}

/* Returns the client's locks, for a caller that changes them. */
static inline struct context_locks *context_own_locks(const struct context *x)
{
	return context_locks_own(x->locks, x->arg);
}

/* Sets the command of a whole request. Finds its keys and their sections once for all functions
 * that decide about the command. The keys are valid until a context_set_*() is called again for
 * `env`. `known`: a key whose section the caller has already found; NULL: none. */
void context_set_command(struct context *x, struct policy_env *env,
                         const struct command_info *what, const struct resp_view *req,
                         const struct command_key *known);
/* Sets the command of a request whose end has not arrived yet. Finds no keys if more keys may
 * follow, because hasp would search the keys again at each read. */
void context_set_beginning(struct context *x, struct policy_env *env,
                           const struct command_info *what, const struct resp_view *beginning);

static inline struct slice context_key(const struct context *x, size_t i)
{
	return x->req->argv[x->keys.v[i].arg];
}

/* Return the key's rule, or guard, if it is in mode ENFORCE; else NULL. */
static inline const struct rule *context_rule_enforced(const struct command_key *k)
{
	return k->rule && k->rule->mode == MODE_ENFORCE ? k->rule : NULL;
}

static inline const struct guard *context_guard_enforced(const struct command_key *k)
{
	return k->guard && k->guard->mode == MODE_ENFORCE ? k->guard : NULL;
}

/* True if one of the command's keys is guarded. */
static inline bool context_names_guarded(const struct context *x)
{
	for (size_t i = 0; i < x->keys.n; i++)
		if (context_guard_enforced(&x->keys.v[i]))
			return true;
	return false;
}

/* Returns the client's token for a rule or guard with the owner `kind`. Until a client logs in,
 * its token is its connection's, whatever `kind` is. Otherwise it could make hasp, which has
 * more permissions, change locks of clients with the same name or address. The token is valid
 * until the function is called for another client. */
struct slice context_token(const struct context *x, enum owner_kind kind);

/* Functions for the parts of a pending request that session/ only keeps. */
extern const struct pending_ops context_rest;

/* Returns what the client has read of the key, in its present database; NULL: nothing. */
static inline struct read_set_entry *context_read(const struct context *x, struct slice key)
{
	return read_set_find(x->env->read_sets, context_read_set(x), x->session->db, key);
}

/* Lets `r` await the command's reply; in a transaction, EXEC's reply. `r` must be complete,
 * because in a transaction the session counts its memory now. */
void context_await(struct context *x, struct decision *d, struct pending_request *r);

/* Lets d->pending, or a new request, take `sample` or `read` along until the reply; the other
 * one is NULL. */
void context_note(struct context *x, struct decision *d, struct command_sample *sample,
                  struct value_read *read);

/* Decides to carry the command out as the operation `op`; `r` awaits the end of `op`. */
struct decision context_guard(struct pending_request *r, struct guard_op *op);

/* Decides to answer the command with `error`, and writes the error to env->rewritten. */
struct decision context_refuse(struct context *x, const char *error);

/* --- hasp's own keys ------------------------------------------------------------------------
 *
 * The keys `hasp:*` store owners, waiters and the last fencing token. Clients may read them,
 * but hasp refuses their writes, by a command or by a script that names them. (Against scripts
 * that write keys without naming them, restrict the permissions of Redis' users.) If hasp keeps
 * no locks, keys of that name belong to the application.
 */

/* The error that answers a client's write of a key `hasp:*`. */
extern const char reserved_keys_error[];

/* True if the request, with `args` after its name, might write a reserved key:
 * reserved_keys_are_written() decides. */
static inline bool reserved_keys_are_named(const struct slice *args, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (match_is_own(args[i]))
			return true;
	return false;
}

/* True if the command of a whole request writes a reserved key. */
bool reserved_keys_are_written(const struct context *x);

/* True if a command whose end has not arrived yet writes no reserved key. */
bool reserved_keys_are_untouched(const struct context *x);

#endif
