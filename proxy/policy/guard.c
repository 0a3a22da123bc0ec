/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/guard.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "config/match.h"
#include "lock/rewrite/guard.h"
#include "policy/guard_block.h"
#include "policy/guard_keys.h"
#include "policy/guard_txn.h"

static const struct decision pass = { .verdict = DISPATCH_PASS };
static const struct decision defer = { .verdict = DISPATCH_DEFER };
static const struct decision unready = { .verdict = DISPATCH_WAIT_QUEUE };

bool guard_needs_pinned(const struct policy_env *env, const struct command_info *what,
                        const struct resp_view *req)
{
	size_t args[KEYS_ON_STACK], n;
	const struct command *c = what->command;
	bool writes = c && ((c->flags & COMMAND_WRITE) || (c->flags & COMMAND_NOSCRIPT));
	bool fits = writes && rewrite_guard_fits(what->lua_replies, req, true, true);

	if (!writes || (fits && !what->acquires))
		return false;
	n = command_key_args(c, req, args, KEYS_ON_STACK);
	for (size_t i = 0; i < n; i++) {
		const struct guard *g;
		/* There are more than could be looked at. */
		if (i == KEYS_ON_STACK)
			return true;
		g = match_guard(env->config, req->argv[args[i]]);
		if (g && g->mode == MODE_ENFORCE && (!fits || match_acquires(g, req->argv[0])))
			return true;
	}
	return false;
}

/* Here, or at another worker of this process: then it would be in vain. */
static bool optimistic_is_waited_for(const struct context *x, struct slice key)
{
	const struct waiters *waiters = x->env->waiters;
	struct buf name = BUF_INIT;
	bool result;

	if (!waiters_any(waiters))
		return false;
	rewrite_guard_name(&name, key);
	result = waiters_for(waiters, x->session->db, buf_slice(&name));
	buf_release(&name);
	return result;
}

static bool may_acquire_optimistically(const struct context *x, const struct guarded_command *g)
{
	return x->may_be_optimistic && !*x->waiter && !x->eval && !x->session->opaque &&
	       g->n == 1 && !g->keys->held && !g->keys->shared &&
	       (x->what->command->flags & COMMAND_READONLY) &&
	       !optimistic_is_waited_for(x, g->keys->key);
}

static struct decision begin_optimistic(struct context *x, const struct guarded_command *g)
{
	struct policy_env *env = x->env;
	struct decision d = { .verdict = DISPATCH_CALL, .barrier = true };

	rewrite_guard_optimistic(&env->call, g);
	d.request = pending_request_new_of(&env->requests, PENDING_GUARD);
	d.request->call = guard_op_new(env->read_sets, x->read_set, x->session->db, g, false,
	                               waiters_ticket(env->waiters));
	d.request->call->kind = GUARD_OP_OPTIMISTIC;
	d.request->call->due = d.prefix_replies = OPTIMISTIC_PREFIX;
	d.reply_flags = d.prefix_flags = LINK_NOTIFY;
	session_track(x->session, d.request);
	return d;
}

/* Can the call be sent, which may have to stand in line? */
static bool guard_queue_ready(struct context *x, const struct guarded_command *g,
                              struct slice ticket)
{
	struct lock_call start_guard_op = { .ticket = ticket, .wait_ms = g->wait_ms };

	/* Most never wait: a waiter is made for those that are told to. */
	if (g->wait_ms == 0 || (!*x->waiter && waiters_are_ready(x->env->waiters)))
		return true;
	return context_queue_ready(x, &start_guard_op);
}

static struct decision start_guard_op(struct context *x, const struct guard_keys *k)
{
	struct policy_env *env = x->env;
	struct decision d = { .verdict = DISPATCH_CALL };
	struct rewrite_how how = context_rewrite_how(x);
	struct guarded_command g = { x->req, k->v, k->n, k->args, k->nargs, k->wait_ms };
	bool both = k->writes && k->acquires;
	bool fits = rewrite_guard_fits(x->what->lua_replies, x->req, k->writes, how.resp3) &&
	            !both;
	bool fenced = k->writes && !fits && !x->session->opaque;
	struct guard_op *pending;

	/* No script can do it, and without answers nothing else can be made of it. */
	if (x->session->opaque && k->writes && !fits && !both)
		return pass;
	/* WATCH, MULTI and EXEC of ours would end what the application's WATCH has begun. */
	if (fenced && x->session->watching)
		return context_refuse(x, "ERR hasp: this command writes a guarded key by a "
		                         "transaction of its own, and that ends WATCH: send it "
		                         "before WATCH or behind EXEC");
	if (!k->writes && may_acquire_optimistically(x, &g))
		return begin_optimistic(x, &g);
	if (g.wait_ms > how.wait_max_ms)
		g.wait_ms = how.wait_max_ms;
	/* A place is one in the line for a certain key. */
	if (k->n > 1)
		how.place = 0;
	if (fenced)
		; /* Its call is written when it is known. */
	else if (k->writes && !both)
		rewrite_guard_write(&env->call, &g, how);
	else
		rewrite_guard_read(&env->call, &g, how, !fits && !x->session->opaque);
	if (!guard_queue_ready(x, &g, how.ticket))
		return unready;
	pending = guard_op_new(env->read_sets, x->read_set, x->session->db, &g, k->writes,
	                       how.ticket);
	if (x->session->opaque) {
		guard_op_assume(pending);
		return d;
	}
	if (fenced)
		return guard_txn_begin(x, pending, GUARD_OP_SINGLE);
	(void)context_shorten(x);
	d.reply_flags = LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS;
	d.barrier = true;
	d.request = pending_request_new_of(&env->requests, PENDING_GUARD);
	d.request->call = pending;
	session_track(x->session, d.request);
	return d;
}

static struct decision decide_guarded(struct context *x, struct guard_keys *k)
{
	if (x->session->nawaited)
		return defer;
	if (context_is_muted(x->session))
		return pass;
	if (k->ruled && k->writes)
		return context_refuse(x, "ERR hasp: the command names both guarded keys and "
		                         "keys of a [lock] rule");
	if (k->n >= READ_SET_MAX)
		return context_refuse(x, "ERR hasp: the command names too many guarded keys");
	guard_keys_name(x, k);
	return start_guard_op(x, k);
}

bool guard_decide(struct context *x, struct decision *d)
{
	const struct command *c = x->what->command;
	struct guard_keys k;

	if (!c) {
		if (!guard_block_names_guarded(x->env, x->req))
			return false;
		*d = context_refuse(x, "LOADING hasp does not know yet which keys of this "
		                       "command are guarded");
		return true;
	}
	/* Redis refuses it as it came. */
	if (!command_arity_ok(c, x->req->argc))
		return false;
	guard_keys_init(&k, c, x->req);
	guard_keys_find(x, &k);
	if (k.n)
		*d = decide_guarded(x, &k);
	guard_keys_fini(&k);
	return k.n > 0;
}
