/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard: finds the guarded keys of a command, and decides about the command. The exchange then
 * sends and answers (client/guard_steps.c).
 *
 *   read  -> optimistic acquire, if no client waits: EXISTS queue, SET guard NX, the command
 *         -> guard_read.lua
 *   write -> guard_finish.lua (one key, read by this connection) or guard_write.lua
 *         -> a transaction of hasp's own (guard_txn.c), where no script can run it
 */
#include "policy/policy_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/glob.h"
#include "config/match.h"
#include "lock/guard/checked_read.h"

/* --- which keys a command names, and what it does to them ------------------------------- */

bool guard_unknown_may_name(const struct policy_env *env, const struct resp_view *req)
{
	if (commands_are_learned(env->commands))
		return false;
	for (size_t i = 1; i < req->argc; i++) {
		if (match_enforced_guard(env->matcher, req->argv[i]))
			return true;
	}
	return false;
}

static void require_replicas(struct guard_keys *k, int64_t n, int64_t timeout_ms)
{
	if (n > k->replicas)
		k->replicas = n;
	if (timeout_ms > k->replicas_timeout_ms)
		k->replicas_timeout_ms = timeout_ms;
}

void guard_keys_add(struct guard_keys *all, const struct guard_keys *more)
{
	if (more->n == 0)
		return;
	if (more->locks && (!all->locks || more->wait_ms < all->wait_ms))
		all->wait_ms = more->wait_ms;
	all->checks |= more->checks;
	all->locks |= more->locks;
	require_replicas(all, more->replicas, more->replicas_timeout_ms);
	HASP_ASSERT(all->n + more->n < READ_SET_MAX);
	if (!all->nodes) {
		all->v = xcalloc(READ_SET_MAX, sizeof(*all->v));
		all->nodes = xcalloc(READ_SET_MAX, sizeof(*all->nodes));
		map_init(&all->by_key);
	}
	for (size_t i = 0; i < more->n; i++) {
		bool writes = more->v[i].writes;
		struct map_node *node = map_get(&all->by_key, more->v[i].key);
		size_t at = node ? (size_t)(node - all->nodes) : all->n++;
		if (node) {
			writes |= all->v[at].writes;
		} else {
			all->nodes[at].key = more->v[i].key;
			map_put(&all->by_key, &all->nodes[at]);
		}
		all->v[at] = more->v[i];
		all->v[at].writes = writes;
	}
}

void guard_keys_fini(struct guard_keys *all)
{
	if (!all->nodes)
		return;
	map_fini(&all->by_key);
	free(all->nodes);
	free(all->v);
}

/* True if `what`, such as name:reporting-*, matches this client. */
static bool speaks_of(const struct context *x, const char *what)
{
	static const struct slice name = SLICE_LIT("name:"), user = SLICE_LIT("user:"),
				  listener = SLICE_LIT("listener:");
	struct slice s = slice_str(what);

	if (slice_starts(s, name))
		return session_text(x->session, TEXT_NAME) &&
		       glob_match(slice_str(what + name.n),
		                  slice_str(session_text(x->session, TEXT_NAME)));
	if (slice_starts(s, user))
		return session_user(x->session) &&
		       glob_match(slice_str(what + user.n),
		                  slice_str(session_user(x->session)));
	return slice_starts(s, listener) && strcmp(what + listener.n, x->listener) == 0;
}

static bool is_exempt(const struct context *x, const struct guard *g)
{
	for (size_t i = 0; i < g->except.n; i++)
		if (speaks_of(x, g->except.v[i]))
			return true;
	return false;
}

static bool writes_something(const struct context *x)
{
	const struct command *c = x->what->command;

	return command_runs_script(c) ||
	       (command_writes(c, x->keys.n) && !command_only_gets(c, x->req));
}

/* True if the connection may have read the key before. A command of `acquire_on` that can also
 * write (BITFIELD) counts as a read if the result is false. */
static bool may_have_read(const struct context *x, struct slice key)
{
	const struct read_set_entry *e = context_read(x, key);

	return context_read_set(x)->overflowed || (e && e->read);
}

/* True if the command acquires `g`, and does not release `g` by a write of its own. */
static bool is_reader(const struct context *x, const struct guard *g, bool can_write)
{
	struct slice name = x->req->argv[0];

	return match_acquires(g, name) && !(can_write && match_releases(g, name));
}

enum guard_use guard_key_use(const struct context *x, const struct guard *g, size_t i)
{
	bool writes = writes_something(x);

	if (is_reader(x, g, writes))
		return is_exempt(x, g) ? GUARD_IGNORED : GUARD_READ;
	return writes && command_writes_key(x->what->command, i, x->keys.n) ? GUARD_WRITTEN
	                                                                    : GUARD_IGNORED;
}

/* True if the connection may have read the key, whose guard has strategy = check, and not
 * written it since. Also true while replies are due, because one may be a read's. */
static bool may_be_read(const struct context *x, struct slice key)
{
	const struct read_set_entry *e = context_read(x, key);

	return x->session->nawaited || (e ? e->read : context_read_set(x)->unchecked);
}

/* Adds key `i`, whose guard `g` has strategy = check, if the command writes the key and the
 * connection may have read it. Returns false if there is no space. */
static bool add_checked(const struct context *x, const struct guard *g, size_t i,
                        struct guard_keys *k)
{
	struct slice key = context_key(x, i);

	if (guard_key_use(x, g, i) != GUARD_WRITTEN || !may_be_read(x, key))
		return true;
	if (k->n == GUARD_KEYS_MAX)
		return false;
	k->writes = k->checks = true;
	k->v[k->n++] = (struct guarded_key){
		.key = key,
		.stats = x->env->guard_stats[g->section.index],
		.writes = true,
		/* A script may only have read the key. */
		.releases = !command_runs_script(x->what->command),
		.checked = true,
	};
	return true;
}

void guard_keys_find(const struct context *x, struct guard_keys *k)
{
	const struct command *c = x->what->command;
	struct slice name = x->req->argv[0];
	size_t n = x->keys.n;
	bool can_write = writes_something(x);
	/* If COPY writes to another database, only its source is a guarded key. */
	size_t nhere = c->facts.writes == WRITES_COPY &&
	                               command_writes_other_db(c, x->req, x->session->db)
	                       ? 1
	                       : n;

	buf_clear(&x->env->section_keys);
	*k = (struct guard_keys){
		.v = (void *)buf_reserve(&x->env->section_keys,
		                         (n < GUARD_KEYS_MAX ? n : GUARD_KEYS_MAX) *
		                                 sizeof(*k->v)),
	};
	for (size_t i = 0; i < nhere; i++) {
		struct slice key = context_key(x, i);
		const struct guard *g = context_guard_enforced(&x->keys.v[i]);
		bool changes, writes, acquires;
		k->ruled |= x->keys.v[i].rule != NULL;
		if (!g)
			continue;
		if (g->strategy == STRATEGY_CHECK) {
			if (add_checked(x, g, i, k))
				continue;
			k->incomplete = true;
			return;
		}
		acquires = is_reader(x, g, can_write) && !is_exempt(x, g);
		changes = can_write && !(acquires && c->facts.writes == WRITES_EXPIRY);
		writes = changes && (!acquires || may_have_read(x, key));
		if (!writes && !acquires)
			continue;
		if (k->n == GUARD_KEYS_MAX) {
			k->incomplete = true;
			return;
		}
		k->writes |= writes;
		k->acquires |= acquires;
		if (!k->locks || g->wait_ms < k->wait_ms)
			k->wait_ms = g->wait_ms;
		k->locks = true;
		if (acquires)
			require_replicas(k, g->replicas_ack, g->replicas_ack_timeout_ms);
		k->v[k->n++] = (struct guarded_key){
			.key = key,
			.lease_ms = g->lease_ms,
			.stats = x->env->guard_stats[g->section.index],
			.release = g->on_disconnect == DISCONNECT_RELEASE,
			.writes = changes && command_writes_key(c, i, n),
			.acquires = acquires,
			.releases = writes && !acquires && !command_runs_script(c) &&
			            match_releases(g, name) && command_writes_key(c, i, n),
		};
	}
	k->n = rewrite_guard_sort(k->v, k->n);
}

void guard_keys_name(const struct context *x, struct guard_keys *k)
{
	struct slice token = context_token(x, OWNER_CONNECTION);

	for (size_t i = 0; i < k->n; i++) {
		struct guarded_key *key = &k->v[i];
		const struct read_set_entry *e = context_read(x, key->key);
		if (key->checked) {
			/* the digest of the value that the connection has read */
			key->token = e && e->checked && e->read ? e->token : READ_SET_UNSEEN;
			key->held = true;
		} else {
			key->token = token;
			key->held = e ? e->read : context_read_set(x)->overflowed;
		}
	}
}

struct guard_op *guard_keys_op(const struct context *x, const struct guard_keys *k,
                               enum guard_op_kind kind)
{
	struct policy_env *env = x->env;
	struct guarded_command g = {
		.req = x->req,
		.keys = k->v,
		.n = k->n,
		.all = x->keys,
		.wait_ms = k->wait_ms,
		.replicas = k->replicas,
		.replicas_timeout_ms = k->replicas_timeout_ms,
	};
	struct guard_op *op = guard_op_new(env->read_sets, &env->guard_ops,
	                                   &context_own_locks(x)->read_set, x->session->db, &g,
	                                   kind, env->now);

	op->writes = k->writes;
	return op;
}

/* --- strategy = lock --------------------------------------------------------------------- */

bool guard_needs_pinned(const struct context *x)
{
	const struct command *c = x->what->command;

	if (!(c->flags & (COMMAND_WRITE | COMMAND_NOSCRIPT)))
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
	struct buf *name = &x->env->scratch;

	if (!waiters_any(waiters))
		return false;
	buf_clear(name);
	key_names_write(name, script_jobs_naming(x->env->script_jobs), KEY_NAME_GUARD, key);
	return waiters_for(waiters, x->session->db, buf_slice(name));
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
	struct guard_op *op;

	/* No script can run the command, and for a transaction hasp would need the replies. */
	if (k->writes && !k->acquires && !fits)
		return pass;
	x->make_opts(x->arg, &x->opts);
	if (x->session->proto == 3 && x->what->command->facts.lua == LUA_SAFE_RESP2)
		x->opts.place = GUARD_READ_IN_RESP3;
	op = guard_keys_op(x, k, GUARD_OP_SCRIPT);
	op->script = k->writes && !k->acquires ? GUARD_OP_WRITE : GUARD_OP_READ;
	guard_op_write_script(op, &x->env->rewritten, x->req, x->keys, &x->opts);
	guard_op_assume(op);
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
		return defer;
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
	struct guard_keys k;

	if (!x->what->command) {
		*d = refuse_command(
			x, "LOADING hasp does not know yet which keys of this command are "
			   "guarded");
		return true;
	}
	guard_keys_find(x, &k);
	if (k.n)
		*d = decide_guarded(x, &k);
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
		enum guard_use use;
		if (!g || g->strategy != STRATEGY_CHECK)
			continue;
		use = guard_key_use(x, g, i);
		/* guard_decide() handles writes outside transactions. */
		if (use == GUARD_IGNORED ||
		    (use == GUARD_WRITTEN && (!session_in_multi(s) || command_runs_script(c))))
			continue;
		if (!read)
			read = checked_read_new(
				x->env->read_sets, &context_own_locks(x)->read_set, s->db,
				c->facts.value == VALUE_EACH, use == GUARD_WRITTEN);
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
