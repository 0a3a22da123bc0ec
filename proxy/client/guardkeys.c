/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/guardkeys.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/glob.h"

void guard_keys_init(struct guard_keys *k, const struct command *c, const struct resp_view *req)
{
	/* All but the room for few, which is long. */
	memset(k, 0, offsetof(struct guard_keys, few_args));
	k->args = k->few_args;
	k->v = k->few;
	k->nargs = command_key_args(c, req, k->args, KEYS_ON_STACK);
	if (k->nargs > KEYS_ON_STACK) {
		k->args = xcalloc(k->nargs, sizeof(*k->args));
		k->v = xcalloc(k->nargs, sizeof(*k->v));
		k->nargs = command_key_args(c, req, k->args, k->nargs);
	}
}

void guard_keys_add(struct guard_keys *all, const struct guard_keys *more)
{
	if (more->n == 0)
		return;
	if (all->n == 0 || more->wait_ms < all->wait_ms)
		all->wait_ms = more->wait_ms;
	all->v = xrealloc(all->v, (all->n + more->n) * sizeof(*all->v));
	for (size_t i = 0; i < more->n; i++) {
		size_t at = 0;
		while (at < all->n && !slice_eq(all->v[at].key, more->v[i].key))
			at++;
		all->v[at] = more->v[i];
		all->n += at == all->n;
	}
}

void guard_keys_fini(struct guard_keys *k)
{
	if (k->args != k->few_args) {
		free(k->args);
		free(k->v);
	}
	for (size_t i = 0; i < OWNER_VALUE; i++)
		buf_release(&k->rooms[i]);
}

/* A command that both writes and is named as a reader only reads, unless it is named as a
 * writer, too: GETEX. */
static bool writes_under(const struct context *x, const struct guard_keys *k,
                         const struct guard *g)
{
	/* SORT without STORE, and its like. */
	bool is_plain_sort = x->what->command->keys == KEYS_STORE && k->nargs == 1;

	return (x->what->command->flags & COMMAND_WRITE) && !is_plain_sort &&
	       (!guard_acquires_on(g, x->req->argv[0]) ||
	        guard_releases_on(g, x->req->argv[0]));
}

/* Does `what`, such as name:reporting-*, speak of this client? */
static bool speaks_of(const struct context *x, const char *what)
{
	static const struct slice name = SLICE_LIT("name:"), user = SLICE_LIT("user:"),
				  listener = SLICE_LIT("listener:");
	struct slice s = slice_str(what);

	if (slice_starts(s, name))
		return x->session->name &&
		       glob_match(slice_str(what + name.n), slice_str(x->session->name));
	if (slice_starts(s, user))
		return session_user(x->session) &&
		       glob_match(slice_str(what + user.n),
		                  slice_str(session_user(x->session)));
	return slice_starts(s, listener) && strcmp(what + listener.n, x->from->listener) == 0;
}

static bool is_exempt(const struct context *x, const struct guard *g)
{
	for (size_t i = 0; i < g->except.n; i++)
		if (speaks_of(x, g->except.v[i]))
			return true;
	return false;
}

/* Of several keys, these write one, the first or the last, and read the others. */
static const struct {
	const char *name;
	bool last;
} stores[] = {
	{ "BITOP", false },
	{ "COPY", true },
	{ "GEORADIUS", true },
	{ "GEORADIUSBYMEMBER", true },
	{ "GEOSEARCHSTORE", false },
	{ "PFMERGE", false },
	{ "SDIFFSTORE", false },
	{ "SINTERSTORE", false },
	{ "SORT", true },
	{ "SUNIONSTORE", false },
	{ "ZDIFFSTORE", false },
	{ "ZINTERSTORE", false },
	{ "ZRANGESTORE", false },
	{ "ZUNIONSTORE", false },
};

/* Is key number `i` of `n` one that the command writes, if it writes? */
static bool is_written(struct slice name, size_t i, size_t n)
{
	for (size_t k = 0; k < sizeof(stores) / sizeof(*stores); k++)
		if (slice_is(name, stores[k].name))
			return i == (stores[k].last ? n - 1 : 0);
	return true;
}

/* Scripts write what they like of the keys that they name. */
static bool is_script(const struct context *x)
{
	const struct command *c = x->what->command;

	return c->keys == KEYS_COUNTED && (c->flags & COMMAND_NOSCRIPT);
}

void guard_keys_find(const struct context *x, struct guard_keys *k)
{
	const struct config *config = x->from->env->config;
	struct slice name = x->req->argv[0];

	for (size_t i = 0; i < k->nargs; i++) {
		struct slice key = x->req->argv[k->args[i]];
		const struct guard *g = config_guard_for(config, key);
		bool writes;
		if (!g || g->mode == MODE_OBSERVE) {
			k->ruled |= !g && config_rule_for(config, key);
			continue;
		}
		writes = writes_under(x, k, g) || is_script(x);
		if (!writes && (!guard_acquires_on(g, name) || is_exempt(x, g)))
			continue;
		k->writes |= writes;
		if (k->n == 0 || g->wait_ms < k->wait_ms)
			k->wait_ms = g->wait_ms;
		k->v[k->n++] = (struct guarded_key){
			.key = key,
			.lease_ms = g->lease_ms,
			.owner = g->owner,
			.shared = g->owner != OWNER_CONNECTION,
			.release = g->on_disconnect == DISCONNECT_RELEASE,
			.acquires = !writes,
			.releases = writes && !is_script(x) && guard_releases_on(g, name) &&
			            is_written(name, i, k->nargs),
		};
	}
	k->n = guarded_sort(k->v, k->n);
}

/* Nobody but this connection has it. */
static bool is_own(struct slice token)
{
	return slice_starts(token, SLICE_LIT(OWNER_CONNECTION_PREFIX));
}

void guard_keys_name(const struct context *x, struct guard_keys *k)
{
	const struct dispatch_from *from = x->from;

	for (size_t i = 0; i < k->n; i++) {
		struct guarded_key *key = &k->v[i];
		const struct reading *reading = reading_find(from->env->readings, from->reader,
		                                             x->session->db, key->key);
		key->token = deciding_token(x, key->owner, &k->rooms[key->owner]);
		key->shared = !is_own(key->token);
		key->held = !key->shared && !reading && from->reader->forgot;
		if (!reading)
			continue;
		/* What it has read as itself, it may write as itself, whatever it is called
		 * now. What it has read as one of several, those have written since, or are
		 * about to: it has to be read again. */
		key->held = reading->read;
		if (is_own(reading->token) || slice_eq(reading->token, key->token)) {
			key->token = reading->token;
			key->shared = reading->shared;
			key->held &= !key->shared || reading->renamed;
		}
	}
}
