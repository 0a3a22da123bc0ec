/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/dispatch.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "client/deciding.h"
#include "client/fencing.h"
#include "client/guarding.h"
#include "client/observe.h"
#include "client/special.h"
#include "lock/rewrite.h"

static const struct decision pass = { .verdict = DISPATCH_PASS };
static const struct decision later = { .verdict = DISPATCH_LATER };
static const struct decision unready = { .verdict = DISPATCH_UNREADY };

struct slice deciding_token(const struct context *x, enum owner_kind kind, struct buf *room)
{
	const struct dispatch_from *from = x->from;

	return owner_token(room, kind, from->identity(from->arg), x->session->name,
	                   session_user(x->session));
}

/* Who has not logged in may send Redis ten arguments, and is hung up on when there are
 * more. So a shorter call is refused first; where it is not, its answer is the one
 * that has the command sent again. */
bool deciding_shorten(struct context *x)
{
	struct client_env *env = x->from->env;

	if (x->eval || x->session->logged_in || !env->links->login_required)
		return false;
	buf_clear(&env->call);
	rewrite_error(&env->call, (struct rewrite_how){ .eval = true },
	              "NOSCRIPT the client is logged in");
	return true;
}

/* The reply of a rewritten command, once it is known what the books want of it. `touched`: keys
 * of locks to look at then. */
static struct decision await_call(struct context *x, const struct lock_call *call,
                                  struct hold_note *note, const struct slice *touched,
                                  size_t ntouched)
{
	struct decision d = { .verdict = DISPATCH_CALL };
	struct request *r;

	if (x->session->opaque) {
		hold_note_free(note);
		return d;
	}
	if (x->session->in_multi && !note && ntouched == 0)
		return d;
	r = request_new_of(&x->from->env->requests, REQUEST_LOCK);
	r->note = note;
	for (size_t i = 0; i < ntouched; i++)
		request_touch(r, touched[i]);
	if (!x->session->in_multi) {
		(void)deciding_shorten(x);
		d.treat = LINK_TELL | (x->eval ? 0 : LINK_ASK);
		if (call->wait_ms)
			d.treat = LINK_TELL | LINK_ASK | LINK_ASK_STATUS;
		d.request = r;
		d.barrier = true;
	}
	session_track(x->session, r);
	return d;
}

struct decision deciding_refuse(struct context *x, const char *error)
{
	struct decision d = { .verdict = DISPATCH_CALL };

	buf_clear(&x->from->env->call);
	rewrite_error(&x->from->env->call, (struct rewrite_how){ .eval = true }, error);
	return d;
}

bool deciding_ready(struct context *x, struct lock_call *call)
{
	struct client_env *env = x->from->env;
	struct waiter **waiter = x->from->waiter;
	struct buf error = BUF_INIT;

	if (call->wait_ms == 0)
		return true;
	if (!*waiter)
		*waiter = waiter_new(env->waits, call->wait_ms, x->from->waiter_ops,
		                     x->from->arg);
	switch (waiter_ready(*waiter)) {
	case TRY_READY:
		waiter_sent(*waiter, call->ticket);
		return true;
	case TRY_NOT_YET:
		return false;
	case TRY_REFUSED:
		break;
	}
	buf_printf(&error, "ERR hasp: cannot wait for a lock: %s", waits_refusal(env->waits));
	buf_append(&error, slice_of("", 1));
	buf_clear(&env->call);
	rewrite_error(&env->call, (struct rewrite_how){ .eval = true }, buf_head(&error));
	buf_release(&error);
	*call = (struct lock_call){ .effect = LOCK_EFFECT_NONE };
	return true;
}

struct rewrite_how deciding_how(const struct context *x)
{
	struct rewrite_how h = {
		.eval = x->eval || x->session->in_multi || x->session->opaque,
		.resp3 = x->session->proto == 3,
	};
	const struct waiter *waiter = *x->from->waiter;

	h.ticket = waits_ticket(x->from->env->waits);
	/* A transaction waits for nobody; and who is not heard cannot be called in. */
	if (!x->session->in_multi && !x->session->opaque && x->session->db >= 0) {
		h.wait_max_ms = waiter ? waiter_left_ms(waiter) : INT64_MAX;
		h.place = waiter ? waiter_place(waiter) : 0;
	}
	return h;
}

static struct decision call_verb(struct context *x, enum verb verb)
{
	struct client_env *env = x->from->env;
	const struct verbs *verbs = &env->config->verbs;
	struct hold_terms terms = { .verbs = verbs, .took_at = x->from->holds->took_at };
	struct lock_call call = { 0 };

	terms.token = deciding_token(x, verbs->owner, &env->token);
	rewrite_verb(&env->call, verb, x->req, verbs, terms.token, deciding_how(x), &call);
	terms.token = call.owner;
	if (!deciding_ready(x, &call))
		return unready;
	return await_call(x, &call, hold_note(env->holds, &call, &call.key, 1, &terms), NULL,
	                  0);
}

/* The keys of a write, and who asks for each: rules of the owner's kinds have a token
 * each. */
struct keys {
	struct lock_key *v;
	size_t n;
	bool enforced; /* a rule concerns at least one of them */
	bool watched; /* one would have a rule, if it were not watched */
	struct buf rooms[OWNER_VALUE]; /* the bytes behind v[].token, by kind */
	struct lock_key few[KEYS_ON_STACK];
};

static void keys_init(struct keys *k, const struct command *c, const struct resp_view *req)
{
	size_t few[KEYS_ON_STACK], *args = few;

	/* All but `few`, which is long. */
	memset(k, 0, offsetof(struct keys, few));
	k->v = k->few;
	k->n = command_key_args(c, req, args, KEYS_ON_STACK);
	if (k->n > KEYS_ON_STACK) {
		args = xcalloc(k->n, sizeof(*args));
		k->v = xcalloc(k->n, sizeof(*k->v));
		k->n = command_key_args(c, req, args, k->n);
	}
	for (size_t i = 0; i < k->n; i++)
		k->v[i] = (struct lock_key){ .arg = args[i] };
	if (args != few)
		free(args);
}

static void keys_fini(struct keys *k)
{
	if (k->v != k->few)
		free(k->v);
	if (!k->enforced)
		return;
	for (size_t i = 0; i < OWNER_VALUE; i++)
		buf_release(&k->rooms[i]);
}

/* Finds each key's rule; what is watched, or only observed, has none. */
static void find_rules(struct context *x, struct keys *k)
{
	const struct config *config = x->from->env->config;

	for (size_t i = 0; i < k->n; i++) {
		struct slice key = x->req->argv[k->v[i].arg];
		const struct rule *rule = config_rule_for(config, key);
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
	const struct dispatch_from *from = x->from;
	struct slice tokens[OWNER_VALUE] = { SLICE_NONE };

	for (size_t i = 0; i < k->n; i++) {
		struct lock_key *key = &k->v[i];
		enum owner_kind kind;
		if (!key->rule)
			continue;
		kind = key->rule->owner;
		if (kind == OWNER_VALUE) {
			key->token = hold_value(from->env->holds, from->holds, x->session->db,
			                        x->req->argv[key->arg]);
			continue;
		}
		if (!tokens[kind].p)
			tokens[kind] = deciding_token(x, kind, &k->rooms[kind]);
		key->token = tokens[kind];
	}
}

/* Somebody waits for the lock here; or might wait elsewhere, where nobody sees what this
 * request does. */
static bool is_waited_for(const struct client_env *env, const struct session *session,
                          const struct rule *rule, struct slice key)
{
	return (rule && rule->wait_ms && rule->mode == MODE_ENFORCE) ||
	       waits_for(env->waits, session->db, key);
}

/* What a call has to be answered for: the books, and those who wait. */
static struct decision await_lock(struct context *x, const struct keys *k,
                                  const struct lock_call *call)
{
	struct hold_terms terms = { .took_at = x->from->holds->took_at };
	struct slice few[KEYS_ON_STACK], *names = few;
	struct hold_note *note;
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
	note = hold_note(x->from->env->holds, call, names, n, &terms);
	for (size_t i = 0; i < k->n && !call->hands_over && !call->fresh; i++) {
		struct slice key = x->req->argv[k->v[i].arg];
		if (is_waited_for(x->from->env, x->session, k->v[i].rule, key))
			names[ntouched++] = key;
	}
	d = await_call(x, call, note, names, ntouched);
	if (names != few)
		free(names);
	return d;
}

static struct decision call_lock(struct context *x, const struct command *c)
{
	struct client_env *env = x->from->env;
	struct decision d = pass;
	struct lock_call call = { 0 };
	struct keys k;

	/* Redis refuses it as it came. */
	if (!command_arity_ok(c, x->req->argc))
		return pass;
	keys_init(&k, c, x->req);
	find_rules(x, &k);
	if ((k.enforced || k.watched) && x->session->nawaited) {
		d = later;
	} else if (k.enforced) {
		find_tokens(x, &k);
		if (rewrite_lock(&env->call, x->req, k.v, k.n, deciding_how(x), &call) ==
		    REWRITE_CALL)
			d = deciding_ready(x, &call) ? await_lock(x, &k, &call) : unready;
	}
	keys_fini(&k);
	return d;
}

enum route dispatch_route(const struct client_env *env, const struct resolved *what,
                          const struct resp_view *req)
{
	if (what->is_verb)
		return ROUTE_SHARED;
	if (what->is_guarded && guarding_needs_private(env, what, req))
		return ROUTE_PRIVATE;
	if (what->special)
		return special_route(what->special, req);
	if (what->command && (what->command->flags & COMMAND_STATELESS))
		return ROUTE_SHARED;
	/* Unknown means private; but before Redis has been asked, nothing is known. */
	return commands_are_learned(env->commands) ? ROUTE_PRIVATE : ROUTE_OWN;
}

/* The keys of a request that could end a lock which somebody waits for: their places in it, of
 * which there is room for KEYS_ON_STACK. Returns how many. */
static size_t find_waited(const struct client_env *env, const struct session *session,
                          const struct resolved *what, const struct resp_view *req,
                          size_t *args)
{
	size_t n, found = 0;

	if (!what->may_release || !(env->rules_wait || waits_any(env->waits)))
		return 0;
	n = command_key_args(what->command, req, args, KEYS_ON_STACK);
	for (size_t i = 0; i < n && i < KEYS_ON_STACK; i++) {
		struct slice key = req->argv[args[i]];
		if (is_waited_for(env, session, config_rule_for(env->config, key), key))
			args[found++] = args[i];
	}
	return found;
}

bool dispatch_may_release(const struct client_env *env, const struct session *session,
                          const struct resolved *what, const struct resp_view *req)
{
	size_t args[KEYS_ON_STACK];

	return find_waited(env, session, what, req, args) > 0;
}

/* Marks a request that is passed: when it is answered, the locks that it names are looked at.
 */
static void touch(struct context *x, struct decision *d)
{
	size_t args[KEYS_ON_STACK], n;
	struct request *r;

	if (d->request || x->session->opaque)
		return;
	n = find_waited(x->from->env, x->session, x->what, x->req, args);
	if (n == 0)
		return;
	r = request_new(REQUEST_TOUCH);
	for (size_t i = 0; i < n; i++)
		request_touch(r, x->req->argv[args[i]]);
	if (!x->session->in_multi) {
		d->treat = LINK_TELL;
		d->request = r;
	}
	session_track(x->session, r);
}

/* Marks a request that Redis may keep: who hangs up meanwhile is not to be waited for. */
static void mark_blocking(struct context *x, struct decision *d)
{
	const struct command *c = x->what->command;

	if (!c || !(c->flags & COMMAND_BLOCKING) || x->session->opaque || x->session->in_multi)
		return;
	if (!d->request) {
		d->request = request_new(REQUEST_OBSERVED);
		d->treat = LINK_TELL;
		session_track(x->session, d->request);
	}
	d->request->blocks = true;
}

static struct decision decide(struct context *x)
{
	struct decision d;

	if (x->what->is_verb) {
		if (x->session->nawaited)
			return later;
		return deciding_is_muted(x->session) ? pass : call_verb(x, x->what->verb);
	}
	if (x->what->special && x->from->env->guards_enforce && fencing_decide(x, &d))
		return d;
	if (x->what->special)
		return special_decide(x->what->special, x->from, x->req);
	/* In a transaction it is EXEC that decides; that it is one, Redis must have said. */
	if (x->what->is_guarded && x->session->in_multi && x->session->nawaited)
		return later;
	if (x->what->is_guarded && !x->session->in_multi && guarding_decide(x, &d))
		return d;
	if (!x->what->is_write)
		return pass;
	if (deciding_is_muted(x->session))
		/* Until it has unsubscribed, if it is about to. */
		return x->session->nawaited ? later : pass;
	return call_lock(x, x->what->command);
}

/* A transaction numbers its commands, so that EXEC's replies find them; where there are guards,
 * it may have to be sent again. */
static void count_queued(struct context *x, bool was_in_multi, struct decision *d)
{
	const struct special *special = x->what->special;

	if (!was_in_multi || !x->session->in_multi || (special && !special_is_queued(special)))
		return;
	x->session->nqueued++;
	if (x->from->env->guards_enforce)
		fencing_record(x, d);
}

struct decision dispatch(const struct dispatch_from *from, const struct resp_view *req,
                         const struct resolved *what, bool eval)
{
	struct context x = { from, from->session, req, what, eval };
	bool was_in_multi = from->session->in_multi;
	struct decision d;

	buf_clear(&from->env->call);
	d = decide(&x);
	if (d.verdict == DISPATCH_PASS)
		touch(&x, &d);
	if (d.verdict == DISPATCH_PASS && what->is_observed &&
	    command_arity_ok(what->command, req->argc))
		observe(&x, &d);
	if (d.verdict == DISPATCH_PASS)
		mark_blocking(&x, &d);
	if (d.verdict == DISPATCH_PASS || d.verdict == DISPATCH_CALL)
		count_queued(&x, was_in_multi, &d);
	return d;
}

static bool is_ruled(const struct config *config, struct slice key)
{
	const struct rule *rule = config_rule_for(config, key);

	return rule && rule->mode == MODE_ENFORCE;
}

static bool is_guarded(const struct config *config, struct slice key)
{
	const struct guard *g = config_guard_for(config, key);

	return g && g->mode == MODE_ENFORCE;
}

/* Will nobody have anything to say to it, once it is whole? */
static bool is_decided(const struct client_env *env, const struct resolved *what,
                       const struct resp_view *req)
{
	const struct command *c = what->is_write ? what->command : NULL;

	if (what->special || what->is_verb)
		return false;
	if (what->is_guarded) {
		c = what->command;
		if (!c || !command_single_key(c) || req->argc < 2 ||
		    is_guarded(env->config, req->argv[1]))
			return false;
	}
	if (!c || c->keys == KEYS_NONE)
		return true;
	return command_single_key(c) && req->argc > 1 && !is_ruled(env->config, req->argv[1]);
}

struct decision dispatch_early(const struct dispatch_from *from,
                               const struct resp_view *beginning, bool is_name_long)
{
	struct resolved what;
	struct context x = { from, from->session, beginning, &what, false };
	struct decision d = pass;

	d.verdict = DISPATCH_HOLD;
	if (beginning->argc == 0)
		return is_name_long ? pass : d;
	what = names_resolve(from->env, beginning->argv[0]);
	/* It may have to be sent again. */
	if (from->session->in_multi && from->env->guards_enforce)
		return d;
	if (!is_decided(from->env, &what, beginning))
		return d;
	d.verdict = DISPATCH_PASS;
	/* What else there is to a lock's command is not to be seen yet. */
	if (what.is_observed && command_single_key(what.command) && beginning->argc > 1 &&
	    !config_rule_for(from->env->config, beginning->argv[1]))
		observe(&x, &d);
	if (from->session->in_multi)
		from->session->nqueued++;
	return d;
}
