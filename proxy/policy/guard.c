/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard: decides about commands on guarded keys. The exchange then sends and answers
 * (client/guard_steps.c).
 *
 *   read  -> optimistic acquire, if no client waits: EXISTS queue, SET guard NX, the command
 *         -> guard_read.lua
 *   write -> guard_finish.lua (one key, read by this connection) or guard_write.lua
 *         -> a transaction of hasp's own (guard_txn.c), where no script can run it
 */
#include "policy/policy_internal.h"

#include "config/match.h"
#include "lock/guard/checked_read.h"

static const struct decision pass = { .verdict = DISPATCH_PASS };

bool guard_needs_pinned(const struct context *x)
{
	const struct command *c = x->what->command;

	if (!c || !(c->flags & (COMMAND_WRITE | COMMAND_NOSCRIPT)) || !context_names_guarded(x))
		return false;
	if (!rewrite_guard_fits(c, x->req, true, true))
		return true;
	for (size_t i = 0; x->what->acquires && i < x->keys.n; i++) {
		const struct guard *g = context_guard_enforced(&x->keys.v[i]);
		if (g && g->strategy == STRATEGY_LOCK && match_acquires(g, x->req->argv[0]))
			return true;
	}
	return false;
}

/* True if a client of this process waits for the guard: an optimistic attempt would fail. */
static bool guard_is_waited_for(const struct context *x, struct slice key)
{
	const struct waiters *waiters = x->env->waiters;
	struct buf name = BUF_INIT;
	bool result;

	if (!waiters_any(waiters))
		return false;
	key_names_write(&name, script_jobs_naming(x->env->script_jobs), KEY_NAME_GUARD, key);
	result = waiters_for(waiters, x->session->db, buf_slice(&name));
	buf_release(&name);
	return result;
}

/* True if hasp may try to acquire a read's guard by three commands, which cost Redis less than
 * a script. Redis runs the client's command even if the guard is not free. */
static bool may_acquire_optimistically(const struct context *x, const struct guard_keys *k)
{
	return x->may_be_optimistic && k->n == 1 && !k->v->held &&
	       (x->what->command->flags & COMMAND_READONLY) &&
	       !guard_is_waited_for(x, k->v->key);
}

static struct decision begin_op(struct context *x, struct guard_op *op)
{
	return context_guard(pending_new_of(&x->env->pending, PENDING_GUARD), op);
}

/* Refuses the command. If it would have acquired guards, its reads count as failed. */
static struct decision refuse_command(struct context *x, const char *error)
{
	if (x->what->acquires)
		read_set_overflow(&context_own_locks(x)->read_set);
	return context_refuse(x, error);
}

/* Sends the script for an opaque client, whose replies hasp cannot see. */
static struct decision call_opaque(struct context *x, struct guard_keys *k, bool fits)
{
	struct decision d = { .verdict = DISPATCH_CALL };
	struct guarded_command g = { x->req, k->v, k->n, x->keys, 0, 0, 0 };

	/* No script can run the command, and for a transaction hasp would need the replies. */
	if (k->writes && !k->acquires && !fits)
		return pass;
	x->make_opts(x->arg, &x->opts);
	if (x->session->proto == 3 && x->what->command->facts.lua == LUA_SAFE_RESP2)
		x->opts.place = GUARD_READ_IN_RESP3;
	if (k->writes && !k->acquires)
		rewrite_guard_write(&x->env->rewritten, &g, &x->opts);
	else
		rewrite_guard_read(&x->env->rewritten, &g, &x->opts, false);
	guard_op_assume(guard_keys_op(x, k, GUARD_OP_SCRIPT));
	return d;
}

static struct decision decide_keys(struct context *x, struct guard_keys *k)
{
	bool both = k->writes && k->acquires;
	bool fits = !both && rewrite_guard_fits(x->what->command, x->req, k->writes,
	                                        x->session->proto == 3);
	struct guard_op *op;

	if (x->session->opaque)
		return call_opaque(x, k, fits);
	if (k->writes && !fits) {
		/* hasp's own WATCH, MULTI and EXEC would end the application's WATCH. */
		if (x->session->txn.watching)
			return refuse_command(x, "ERR hasp: hasp needs a transaction to write "
			                         "this guarded key, and that would end WATCH: "
			                         "send the command before WATCH or after EXEC");
		return begin_op(x, guard_keys_op(x, k, GUARD_OP_SINGLE));
	}
	op = guard_keys_op(x, k, GUARD_OP_SCRIPT);
	if (k->writes)
		op->script = GUARD_OP_WRITE;
	else
		/* If replicas must confirm the guard, acquire it in a step before the read. */
		op->script = fits && !k->replicas ? GUARD_OP_READ : GUARD_OP_READ_APART;
	op->optimistic = !k->writes && !k->replicas && may_acquire_optimistically(x, k);
	return begin_op(x, op);
}

static struct decision decide_guarded(struct context *x, struct guard_keys *k)
{
	if (x->session->nawaited)
		return (struct decision){ .verdict = DISPATCH_DEFER };
	if (session_is_muted(x->session))
		return pass;
	if (k->ruled && k->writes)
		return refuse_command(
			x, "ERR hasp: the command names both guarded keys and keys of a "
			   "[lock] rule");
	if (k->checks && k->locks)
		return refuse_command(x, "ERR hasp: the command names keys of guards with "
		                         "different strategies, lock and check");
	if (k->n >= READ_SET_MAX || k->incomplete)
		return refuse_command(x, "ERR hasp: the command names too many guarded keys");
	if (x->keys.n > COMMAND_KEYS_MAX)
		return refuse_command(x, "ERR hasp: the command names too many keys, and one "
		                         "of them is guarded");
	guard_keys_name(x, k);
	return decide_keys(x, k);
}

bool guard_decide(struct context *x, struct decision *d)
{
	const struct command *c = x->what->command;
	struct guard_keys k;

	if (!c) {
		if (!guard_block_names_guarded(x->env, x->req))
			return false;
		*d = refuse_command(
			x, "LOADING hasp does not know yet which keys of this command are "
			   "guarded");
		return true;
	}
	if (!context_names_guarded(x))
		return false;
	guard_keys_find(x, &k);
	if (k.n)
		*d = decide_guarded(x, &k);
	guard_keys_fini(&k);
	return k.n > 0;
}

/* --- strategy = check ------------------------------------------------------------------ */

/* Returns the keys with strategy = check that the command reads; in a transaction, also those
 * that it writes. NULL: none. */
static struct checked_read *find_checked(const struct context *x)
{
	const struct command *c = x->what->command;
	struct session *s = x->session;
	struct checked_read *read = NULL;

	for (size_t i = 0; i < x->keys.n; i++) {
		const struct guard *g = context_guard_enforced(&x->keys.v[i]);
		enum guard_use use = GUARD_IGNORED;
		bool releases;
		if (g && g->strategy == STRATEGY_CHECK)
			use = guard_key_use(x, g, i, &releases);
		/* guard_decide() handles writes outside transactions. */
		if (use == GUARD_WRITTEN && (!session_in_multi(s) || command_runs_script(c)))
			use = GUARD_IGNORED;
		if (use == GUARD_IGNORED)
			continue;
		if (!read && use == GUARD_READ)
			read = checked_read_new(x->env->read_sets,
			                        &context_own_locks(x)->read_set, s->db,
			                        c->facts.value == VALUE_EACH);
		else if (!read)
			read = checked_read_new_write(x->env->read_sets,
			                              &context_own_locks(x)->read_set);
		checked_read_add(read, i, context_key(x, i),
		                 x->env->guard_stats[g->section.index]);
	}
	return read;
}

void guard_note_read(struct context *x, struct decision *d)
{
	struct checked_read *read;
	struct pending_request *r = d->pending;

	if (session_is_muted(x->session))
		return;
	read = find_checked(x);
	if (!read)
		return;
	/* hasp would not see the reply, so the read counts as failed. */
	if (x->session->opaque) {
		checked_read_free(read);
		return;
	}
	if (!r)
		r = pending_new_of(&x->env->pending, PENDING_GUARD);
	r->checked_read = read;
	r->rest = &context_rest;
	context_await(x, d, r);
}
