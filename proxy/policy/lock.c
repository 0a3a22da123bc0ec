/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/lock.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "config/match.h"
#include "lock/hold/holds.h"

static const struct decision pass = { .verdict = DISPATCH_PASS };
static const struct decision defer = { .verdict = DISPATCH_DEFER };
static const struct decision unready = { .verdict = DISPATCH_WAIT_QUEUE };

/* The reply of a rewritten command, once it is known what the books want of it. `touched`: keys
 * of locks to look at then. */
static struct decision await_call(struct context *x, const struct lock_call *call,
                                  struct pending_lock *pending_lock,
                                  const struct slice *probe_keys, size_t ntouched)
{
	struct decision d = { .verdict = DISPATCH_CALL };
	struct pending_request *r;

	if (x->session->opaque) {
		pending_lock_free(pending_lock);
		return d;
	}
	if (x->session->in_multi && !pending_lock && ntouched == 0)
		return d;
	r = pending_request_new_of(&x->env->requests, PENDING_LOCK);
	r->pending_lock = pending_lock;
	for (size_t i = 0; i < ntouched; i++)
		pending_request_probe_key(r, probe_keys[i]);
	if (!x->session->in_multi) {
		(void)context_shorten(x);
		d.reply_flags = LINK_NOTIFY | (x->eval ? 0 : LINK_INTERCEPT);
		if (call->wait_ms)
			d.reply_flags = LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS;
		d.request = r;
		d.barrier = true;
	}
	session_track(x->session, r);
	return d;
}

struct decision lock_decide_verb(struct context *x, enum verb verb)
{
	struct policy_env *env = x->env;
	const struct verbs *verbs = &env->config->verbs;
	struct hold_terms terms = { .verbs = verbs, .took_at = x->holds->took_at };
	struct lock_call call = { 0 };

	terms.token = context_token(x, verbs->owner, &env->token);
	rewrite_verb(&env->call, verb, x->req, verbs, terms.token, context_rewrite_how(x),
	             &call);
	terms.token = call.owner;
	if (!context_queue_ready(x, &call))
		return unready;
	return await_call(x, &call, pending_lock_new(env->holds, &call, &call.key, 1, &terms),
	                  NULL, 0);
}

/* The keys of a write, and who asks for each: rules of the owner's kinds have a token
 * each. */
struct keys {
	struct lock_key *v;
	size_t n;
	bool enforced; /* a rule concerns at least one of them */
	bool watched; /* one would have a rule, if it were not watched */
	struct buf rooms[OWNER_VALUE]; /* the bytes behind v[].token, by kind */
	struct lock_key inline_keys[KEYS_ON_STACK];
};

static void keys_init(struct keys *k, const struct command *c, const struct resp_view *req)
{
	size_t inline_keys[KEYS_ON_STACK], *args = inline_keys;

	/* All but `few`, which is long. */
	memset(k, 0, offsetof(struct keys, inline_keys));
	k->v = k->inline_keys;
	k->n = command_key_args(c, req, args, KEYS_ON_STACK);
	if (k->n > KEYS_ON_STACK) {
		args = xcalloc(k->n, sizeof(*args));
		k->v = xcalloc(k->n, sizeof(*k->v));
		k->n = command_key_args(c, req, args, k->n);
	}
	for (size_t i = 0; i < k->n; i++)
		k->v[i] = (struct lock_key){ .arg = args[i] };
	if (args != inline_keys)
		free(args);
}

static void keys_fini(struct keys *k)
{
	if (k->v != k->inline_keys)
		free(k->v);
	if (!k->enforced)
		return;
	for (size_t i = 0; i < OWNER_VALUE; i++)
		buf_release(&k->rooms[i]);
}

/* Finds each key's rule; what is watched, or only observed, has none. */
static void find_rules(struct context *x, struct keys *k)
{
	const struct config *config = x->env->config;

	for (size_t i = 0; i < k->n; i++) {
		struct slice key = x->req->argv[k->v[i].arg];
		const struct rule *rule = match_rule(config, key);
		if (!rule || rule->mode == MODE_OBSERVE)
			continue;
		if (session_watches(x->session, key)) {
			k->watched = true;
			continue;
		}
		k->v[i].rule = rule;
		k->enforced = true;
	}
}

/* Keys under rules of one owner kind share a token; what a connection stored is the key's own.
 */
static void find_tokens(struct context *x, struct keys *k)
{
	struct slice tokens[OWNER_VALUE] = { SLICE_NONE };

	for (size_t i = 0; i < k->n; i++) {
		struct lock_key *key = &k->v[i];
		enum owner_kind kind;
		if (!key->rule)
			continue;
		kind = key->rule->owner;
		if (kind == OWNER_VALUE) {
			key->token = hold_value(x->env->holds, x->holds, x->session->db,
			                        x->req->argv[key->arg]);
			continue;
		}
		if (!tokens[kind].p)
			tokens[kind] = context_token(x, kind, &k->rooms[kind]);
		key->token = tokens[kind];
	}
}

bool lock_is_waited_for(const struct policy_env *env, const struct session *session,
                        const struct rule *rule, struct slice key)
{
	return (rule && rule->wait_ms && rule->mode == MODE_ENFORCE) ||
	       waiters_for(env->waiters, session->db, key);
}

/* What a call has to be answered for: the books, and those who wait. */
static struct decision await_lock(struct context *x, const struct keys *k,
                                  const struct lock_call *call)
{
	struct hold_terms terms = { .took_at = x->holds->took_at };
	struct slice inline_keys[KEYS_ON_STACK], *names = inline_keys;
	struct pending_lock *pending_lock;
	struct decision d;
	size_t n = 0, ntouched = 0;

	if (k->n > KEYS_ON_STACK)
		names = xcalloc(k->n, sizeof(*names));
	for (size_t i = 0; i < k->n; i++) {
		if (!k->v[i].rule)
			continue;
		if (n == 0) {
			terms.rule = k->v[i].rule;
			terms.token = k->v[i].token;
		}
		names[n++] = x->req->argv[k->v[i].arg];
	}
	pending_lock = pending_lock_new(x->env->holds, call, names, n, &terms);
	for (size_t i = 0; i < k->n && !call->hands_over && !call->fresh; i++) {
		struct slice key = x->req->argv[k->v[i].arg];
		if (lock_is_waited_for(x->env, x->session, k->v[i].rule, key))
			names[ntouched++] = key;
	}
	d = await_call(x, call, pending_lock, names, ntouched);
	if (names != inline_keys)
		free(names);
	return d;
}

struct decision lock_decide_write(struct context *x, const struct command *c)
{
	struct policy_env *env = x->env;
	struct decision d = pass;
	struct lock_call call = { 0 };
	struct keys k;

	/* Redis refuses it as it came. */
	if (!command_arity_ok(c, x->req->argc))
		return pass;
	keys_init(&k, c, x->req);
	find_rules(x, &k);
	if ((k.enforced || k.watched) && x->session->nawaited) {
		d = defer;
	} else if (k.enforced) {
		find_tokens(x, &k);
		if (rewrite_lock(&env->call, x->req, k.v, k.n, context_rewrite_how(x), &call) ==
		    REWRITE_CALL)
			d = context_queue_ready(x, &call) ? await_lock(x, &k, &call) : unready;
	}
	keys_fini(&k);
	return d;
}
