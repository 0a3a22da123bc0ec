/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session_commands: the commands that change the state of a connection (database, user, name,
 * protocol, transaction, subscriptions), or the form in which Redis replies. hasp passes them
 * unchanged, and records their effects in the session.
 */
#include "policy/dispatch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "commands/args.h"
#include "config/match.h"
#include "lock/guard/checked_read.h"
#include "policy/policy_internal.h"
#include "resp/write.h"

/* The longest name, in bytes, by which a client can own locks. If the name is longer, the
 * connection owns them. */
#define NAME_MAX_BYTES 512
/* hasp replays commands of at most this many arguments. */
#define ARGS_MAX 16

/* True if the command has no arguments. With arguments, Redis would refuse it. */
static bool is_alone(const struct context *x)
{
	return x->req->argc == 1;
}

/* Passes a request whose reply changes the session. */
static struct decision await_session(struct context *x, struct pending_request *r)
{
	struct decision d = pass;

	if (x->session->opaque) {
		session_assume(x->session, r);
	} else if (session_in_multi(x->session) && x->session->nawaited) {
		/* Await MULTI's reply: if it is an error, Redis runs the request at once. */
		pending_free(r);
		return defer;
	} else {
		context_await(x, &d, r);
	}
	return d;
}

static struct slice arg(const struct context *x, size_t i)
{
	return i < x->req->argc ? x->req->argv[i] : SLICE_NONE;
}

static void set_text(struct pending_request *r, enum login_text which, struct slice s)
{
	free(r->login->texts[which]);
	r->login->texts[which] = s.n > NAME_MAX_BYTES ? xstrdup("") : xmemdup(s.p, s.n);
}

/* Records a login. If the user's name is too long to keep, the user counts as unknown. */
static void set_login(struct pending_request *r, struct slice user, struct slice password)
{
	set_text(r, TEXT_USER, user);
	set_text(r, TEXT_PASSWORD, password);
	r->login->user_unknown = user.n > NAME_MAX_BYTES;
}

static struct decision on_select(struct context *x)
{
	struct pending_request *r = pending_new(PENDING_SELECT);
	int64_t n;

	/* Redis refuses other arguments, and the session applies the number only after +OK. */
	r->db = slice_integer(arg(x, 1), &n) && n >= 0 && n <= INT_MAX ? (int)n : -1;
	return await_session(x, r);
}

static struct decision on_session_auth(struct context *x)
{
	struct pending_request *r = pending_new(PENDING_AUTH);

	set_login(r, x->req->argc > 2 ? arg(x, 1) : SLICE_NONE, arg(x, x->req->argc - 1));
	return await_session(x, r);
}

static struct decision on_hello(struct context *x)
{
	struct pending_request *r = pending_new(PENDING_HELLO);

	if (slice_eq(arg(x, 1), SLICE_LIT("2")))
		r->login->proto = 2;
	else if (slice_eq(arg(x, 1), SLICE_LIT("3")))
		r->login->proto = 3;
	for (size_t i = 2; i < x->req->argc; i++) {
		/* If HELLO has several AUTH options, Redis uses the last one. */
		if (args_option(arg(x, i), "auth")) {
			set_login(r, arg(x, i + 1), arg(x, i + 2));
			i += 2;
		} else if (args_option(arg(x, i), "setname")) {
			set_text(r, TEXT_NAME, arg(x, ++i));
		}
	}
	return await_session(x, r);
}

/* Passes a command that Redis refuses. Inside MULTI, the refusal may abort the transaction: for
 * a wrong number of arguments, and in Valkey 8 for MULTI and WATCH. */
static struct decision pass_refused(const struct context *x)
{
	struct decision d = pass;

	d.watches_refusal = session_in_multi(x->session) && x->env->guards_enforce &&
	                    !x->session->opaque;
	return d;
}

/* Forgets the transaction's reads of checked keys, because Redis will not run these reads. */
static void forget_checked_reads(const struct context *x)
{
	const struct pending_request *exec = x->session->txn.exec;

	if (exec)
		list_each (const struct pending_request, r, &exec->queued, node)
			if (r->checked_read)
				checked_read_forget(r->checked_read);
}

/* Returns the pending request of a RESET, DISCARD or UNWATCH, whose reply ends the transaction
 * and the watches. If hasp cannot see the reply, ends them now, and returns NULL. */
static struct pending_request *new_discard(struct context *x, enum pending_kind kind)
{
	struct pending_request *r = pending_new(kind);

	forget_checked_reads(x);
	if (!x->session->opaque)
		return r;
	session_assume(x->session, r);
	return NULL;
}

static struct decision on_reset(struct context *x)
{
	struct decision d = pass;

	if (!is_alone(x))
		return pass_refused(x);
	d.pending = new_discard(x, PENDING_RESET);
	return d;
}

static struct decision on_multi(struct context *x)
{
	struct decision d = pass;

	if (session_in_multi(x->session) || !is_alone(x))
		return pass_refused(x);
	d = await_session(x, pending_new(PENDING_MULTI));
	transaction_begin(&x->session->txn);
	return d;
}

/* Passes a request that ends the transaction and the watches if Redis accepts it. The client
 * may then go to a shared link. `r`: the pending request; NULL: none yet. */
static struct decision await_end(const struct context *x, struct pending_request *r)
{
	bool can_share = x->env->config->pooling == POOLING_SHARED && !x->session->opaque &&
	                 !x->env->guards_enforce;
	struct decision d = pass;

	if (!r && can_share)
		r = pending_new(PENDING_NOTICE);
	if (r)
		r->ends_transaction = true;
	d.pending = r;
	return d;
}

static struct decision on_exec(struct context *x)
{
	if (is_alone(x))
		return await_end(x, session_exec(x->session));
	/* Redis refuses EXEC with arguments, and ends the transaction and the watches. */
	forget_checked_reads(x);
	transaction_discard(&x->session->txn);
	return await_end(x, NULL);
}

static struct decision on_discard(struct context *x)
{
	/* Redis refuses DISCARD without MULTI, and keeps the watches. */
	if (!session_in_multi(x->session) || !is_alone(x))
		return pass_refused(x);
	return await_end(x, new_discard(x, PENDING_DISCARD));
}

/* True if the key's guard has strategy = check. */
static bool is_checked(const struct context *x, struct slice key)
{
	const struct guard *g = match_enforced_guard(x->env->matcher, key);

	return g && g->strategy == STRATEGY_CHECK;
}

/* If the client read the key before WATCH, marks the read as lost, because Redis does not check
 * changes before WATCH. */
static void outdate_read(const struct context *x, struct slice key)
{
	struct read_set_entry *e = context_read(x, key);

	if (e && e->checked && e->read)
		e->lost = true;
}

static struct decision on_watch(struct context *x)
{
	if (session_in_multi(x->session) || is_alone(x))
		return pass_refused(x);
	for (size_t i = 1; i < x->req->argc; i++) {
		const struct rule *rule = match_rule(x->env->matcher, arg(x, i));
		bool checked = is_checked(x, arg(x, i));
		if (!checked && (!rule || rule->mode == MODE_OBSERVE))
			continue;
		if (x->session->nawaited)
			return defer;
		if (checked)
			outdate_read(x, arg(x, i));
		transaction_watch(&x->session->txn, x->session->db, arg(x, i));
	}
	x->session->txn.watching = true;
	return pass;
}

static struct decision on_unwatch(struct context *x)
{
	/* A queued UNWATCH has no effect, because EXEC has already ended the watches. */
	if (session_in_multi(x->session) || !is_alone(x))
		return pass;
	return await_end(x, x->session->txn.watching ? new_discard(x, PENDING_DISCARD) : NULL);
}

/* Turns the session opaque after the due replies. If Redis will refuse the command, because the
 * client must log in or is subscribed, the session stays as it is. */
static struct decision turn_opaque(const struct context *x)
{
	struct decision d = pass;

	if (x->session->nawaited)
		return defer;
	if (session_is_muted(x->session))
		return pass;
	/* Inside MULTI, the client has logged in: else Redis would have refused MULTI. */
	if (x->must_log_in && !x->session->opaque && !session_in_multi(x->session)) {
		d.verdict = DISPATCH_ASK_LOGIN;
		d.pending = pending_new(PENDING_LOGIN);
		return d;
	}
	d.turns_opaque = true;
	return d;
}

static struct decision on_subscribe(struct context *x)
{
	struct pending_request *r;

	/* If EXEC runs SUBSCRIBE, Redis sends further frames after EXEC's reply. */
	if (session_in_multi(x->session))
		return turn_opaque(x);
	r = pending_new(PENDING_SUBSCRIBE);
	r->acks = (struct acks){ x->what->session, x->req->argc - 1 };
	return await_session(x, r);
}

/* True for CLIENT REPLY OFF or SKIP, after which Redis leaves out replies. In a transaction,
 * also true for ON. */
static bool suppresses_replies(const struct context *x)
{
	struct slice opts = arg(x, 2);

	if (!args_option(arg(x, 1), "reply") || x->req->argc != 3)
		return false;
	return args_option(opts, "off") || args_option(opts, "skip") ||
	       (session_in_multi(x->session) && args_option(opts, "on"));
}

/* Replaces `redirect` in a CLIENT CAPA by a word that means nothing to Valkey. Otherwise a
 * replica, or a primary after a failover, would send the client the address of the primary, and
 * the client would go around hasp. */
static struct decision on_capa(struct context *x)
{
	struct buf *out = &x->env->rewritten;

	resp_write_array(out, x->req->argc);
	for (size_t i = 0; i < x->req->argc; i++)
		resp_write_bulk(out, i > 1 && args_option(arg(x, i), "redirect")
		                             ? SLICE_LIT("none")
		                             : arg(x, i));
	return (struct decision){ .verdict = DISPATCH_CALL };
}

static struct decision on_client(struct context *x)
{
	struct pending_request *r;

	if (args_option(arg(x, 1), "capa"))
		return on_capa(x);
	if (args_option(arg(x, 1), "setname") && x->req->argc == 3) {
		r = pending_new(PENDING_NAME);
		set_text(r, TEXT_NAME, arg(x, 2));
		return await_session(x, r);
	}
	if (args_option(arg(x, 1), "setinfo") && x->req->argc == 4) {
		bool is_name = args_option(arg(x, 2), "lib-name");
		if (!is_name && !args_option(arg(x, 2), "lib-ver"))
			return pass;
		r = pending_new(PENDING_SETINFO);
		set_text(r, is_name ? TEXT_LIB_NAME : TEXT_LIB_VER, arg(x, 3));
		return await_session(x, r);
	}
	x->session->affects_next |= args_option(arg(x, 1), "caching");
	x->session->tracks |= args_option(arg(x, 1), "tracking");
	return suppresses_replies(x) ? turn_opaque(x) : pass;
}

static struct decision on_script(struct context *x)
{
	/* The script debugger speaks its own protocol. */
	return args_option(arg(x, 1), "debug") ? turn_opaque(x) : pass;
}

/* Passes QUIT. Redis then closes the connection, and ignores later requests. */
static struct decision on_quit(struct context *x)
{
	x->session->quitting = true;
	return pass;
}

/* Awaits the reply that shows whether a stream begins. Awaits none for an opaque client, whose
 * replies hasp cannot see, and in a transaction, where Redis refuses the command. */
static struct decision await_stream(struct context *x, bool raw)
{
	struct decision d = pass;

	if (x->session->opaque || session_in_multi(x->session))
		return pass;
	d.pending = pending_new(PENDING_STREAM);
	d.pending->raw = raw;
	return d;
}

static struct decision on_monitor(struct context *x)
{
	/* Before Redis 7, EXEC may run MONITOR. */
	return session_in_multi(x->session) ? turn_opaque(x) : await_stream(x, false);
}

static struct decision on_sync(struct context *x)
{
	return await_stream(x, true);
}

/* WAIT covers only the writes of its own connection. To cover all earlier writes of all
 * connections, hasp first sends a PING on the connection. Since version 7.2, which also brought
 * WAITAOF, only a write has this effect, not a PING. */
static struct decision on_wait(struct context *x)
{
	bool in_multi = session_in_multi(x->session);
	struct decision d = pass;

	if (!x->needs_wait_ping || x->session->opaque || session_is_muted(x->session))
		return pass;
	/* hasp discards the next reply as the PING's, but a pushed message could come first. */
	if (x->session->nsubscribing)
		return defer;
	if (commands_lack(x->env->commands, SLICE_LIT("waitaof"))) {
		/* In a transaction, MULTI has the effect of the PING. */
		d.follows_ping = !in_multi;
		return d;
	}
	if (in_multi)
		return context_refuse(x, "ERR hasp: WAIT in a transaction cannot cover earlier "
		                         "writes: send it before MULTI");
	if (x->session->nawaited)
		return defer;
	d.verdict = DISPATCH_COUNT_WRITES;
	d.pending = pending_new(PENDING_COUNT);
	return d;
}

/* Passes REPLCONF. After ACK and GETACK, which Redis does not answer, the client is opaque. */
static struct decision on_replconf(struct context *x)
{
	for (size_t i = 1; i < x->req->argc; i += 2)
		if (args_option(arg(x, i), "ack") || args_option(arg(x, i), "getack"))
			return turn_opaque(x);
	return pass;
}

struct session_command {
	struct decision (*decide)(struct context *x);
	bool queued; /* a transaction queues the command */
	enum route route;
};

/* Indexed by the column SESSION of commands.def. */
static const struct session_command session_commands[] = {
	[SESSION_SELECT] = { on_select, true, ROUTE_DEDICATED },
	[SESSION_AUTH] = { on_session_auth, true, ROUTE_DEDICATED },
	[SESSION_HELLO] = { on_hello, true, ROUTE_DEDICATED },
	[SESSION_CLIENT] = { on_client, true, ROUTE_DEDICATED },
	[SESSION_MULTI] = { on_multi, false, ROUTE_TRANSACTION },
	[SESSION_EXEC] = { on_exec, false, ROUTE_TRANSACTION },
	[SESSION_DISCARD] = { on_discard, false, ROUTE_TRANSACTION },
	[SESSION_WATCH] = { on_watch, false, ROUTE_TRANSACTION },
	[SESSION_UNWATCH] = { on_unwatch, true, ROUTE_TRANSACTION },
	[SESSION_SUBSCRIBE] = { on_subscribe, true, ROUTE_PINNED },
	[SESSION_PSUBSCRIBE] = { on_subscribe, true, ROUTE_PINNED },
	[SESSION_SSUBSCRIBE] = { on_subscribe, true, ROUTE_PINNED },
	[SESSION_UNSUBSCRIBE] = { on_subscribe, true, ROUTE_PINNED },
	[SESSION_PUNSUBSCRIBE] = { on_subscribe, true, ROUTE_PINNED },
	[SESSION_SUNSUBSCRIBE] = { on_subscribe, true, ROUTE_PINNED },
	[SESSION_RESET] = { on_reset, false, ROUTE_DEDICATED },
	[SESSION_SCRIPT] = { on_script, true, ROUTE_DEDICATED },
	[SESSION_QUIT] = { on_quit, false, ROUTE_PINNED },
	[SESSION_MONITOR] = { on_monitor, true, ROUTE_STICKY },
	[SESSION_REPLCONF] = { on_replconf, true, ROUTE_STICKY },
	[SESSION_SYNC] = { on_sync, true, ROUTE_STICKY },
	[SESSION_WAIT] = { on_wait, true, ROUTE_PINNED },
};

struct decision session_command_decide(struct context *x)
{
	return session_commands[x->what->session].decide(x);
}

/* True if hasp cannot keep the arguments for a replay on another link. */
static bool is_too_long(const struct resp_view *req)
{
	for (size_t i = 1; i < req->argc; i++)
		if (req->argv[i].n > NAME_MAX_BYTES ||
		    memchr(req->argv[i].p, '\0', req->argv[i].n))
			return true;
	return req->argc > ARGS_MAX;
}

bool session_command_logs_in(const struct command_info *what, const struct resp_view *req)
{
	if (what->session != SESSION_HELLO)
		return what->session == SESSION_AUTH;
	for (size_t i = 2; i < req->argc; i++)
		if (args_option(req->argv[i], "auth"))
			return true;
	return false;
}

static enum route route_of_script(struct slice subcommand)
{
	if (args_option(subcommand, "debug"))
		return ROUTE_STICKY;
	/* While a script runs, Redis does not read the link that sent the script, and refuses
	 * SELECT on other links. */
	return args_option(subcommand, "kill") ? ROUTE_BARE : ROUTE_SHARED;
}

static enum route route_of_client(struct slice subcommand)
{
	/* SETNAME and SETINFO set texts that the session keeps; the other subcommands leave no
	 * state on the connection. */
	static const char *const passing[] = { "setname", "getname", "setinfo", "kill",
		                               "unblock", "pause",   "unpause" };

	for (size_t i = 0; i < sizeof(passing) / sizeof(*passing); i++)
		if (args_option(subcommand, passing[i]))
			return ROUTE_DEDICATED;
	/* ID, INFO and LIST only describe the connection. */
	return args_option(subcommand, "id") || args_option(subcommand, "info") ||
	                       args_option(subcommand, "list")
	               ? ROUTE_PINNED
	               : ROUTE_STICKY;
}

enum route session_command_route(const struct command_info *what, const struct resp_view *req)
{
	enum route route = session_commands[what->session].route;
	struct slice subcommand = req->argc > 1 ? req->argv[1] : SLICE_NONE;

	if (route != ROUTE_DEDICATED)
		return route;
	if (is_too_long(req))
		return ROUTE_STICKY;
	if (what->session == SESSION_SCRIPT)
		return route_of_script(subcommand);
	if (what->session == SESSION_CLIENT)
		return route_of_client(subcommand);
	if (session_command_logs_in(what, req))
		return ROUTE_BARE;
	return route;
}

bool session_command_is_queued(const struct command_info *what)
{
	return session_commands[what->session].queued;
}
