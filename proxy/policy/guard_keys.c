/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_keys: which keys of a command are guarded, what the command does to each key, and the
 * client's token. guard.c decides what hasp does about them.
 */
#include "policy/policy_internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/glob.h"
#include "config/match.h"

void guard_keys_init(struct guard_keys *k)
{
	/* Clear all but `inline_keys`, which are many. */
	memset(k, 0, offsetof(struct guard_keys, inline_keys));
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

void guard_keys_fini(struct guard_keys *k)
{
	if (k->v != k->inline_keys)
		free(k->v);
	if (k->nodes)
		map_fini(&k->by_key);
	free(k->nodes);
	buf_release(&k->token);
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

enum guard_use guard_key_use(const struct context *x, const struct guard *g, size_t i,
                             bool *releases)
{
	bool writes = writes_something(x);

	*releases = match_releases(g, x->req->argv[0]);
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
	bool releases;

	if (guard_key_use(x, g, i, &releases) != GUARD_WRITTEN || !may_be_read(x, key))
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

	guard_keys_init(k);
	k->v = n > KEYS_ON_STACK
	               ? xcalloc(n < GUARD_KEYS_MAX ? n : GUARD_KEYS_MAX, sizeof(*k->v))
	               : k->inline_keys;
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

/* Sets the key's token: the digest of the value that the connection has read. */
static void name_checked(struct guarded_key *key, const struct read_set_entry *e)
{
	bool seen = e && e->checked && e->read;

	key->token = seen ? e->token : READ_SET_UNSEEN;
	key->lost = seen && e->lost;
	key->held = true;
}

void guard_keys_name(const struct context *x, struct guard_keys *k)
{
	struct slice token = SLICE_NONE;

	if (k->n)
		token = context_token(x, OWNER_CONNECTION, &k->token);
	for (size_t i = 0; i < k->n; i++) {
		struct guarded_key *key = &k->v[i];
		const struct read_set_entry *e = context_read(x, key->key);
		if (key->checked) {
			name_checked(key, e);
			continue;
		}
		key->token = token;
		key->held = e ? e->read : context_read_set(x)->overflowed;
		key->lost = e && e->read && e->lost;
	}
}

struct guard_op *guard_keys_op(const struct context *x, const struct guard_keys *k,
                               enum guard_op_kind kind)
{
	struct policy_env *env = x->env;
	struct guarded_command g = {
		x->req, k->v, k->n, x->keys, k->wait_ms, k->replicas, k->replicas_timeout_ms
	};
	struct guard_op *op = guard_op_new(env->read_sets, &env->guard_ops,
	                                   &context_own_locks(x)->read_set, x->session->db, &g,
	                                   kind, env->now);

	op->writes = k->writes;
	return op;
}
