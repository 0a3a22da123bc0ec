/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/dispatch.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/fatal.h"
#include "client/observe.h"
#include "lock/rewrite.h"

/* A command has few keys; one that has more takes them from the heap. */
#define KEYS_ON_STACK 32
/* A longer name owns nothing by it: the connection does. */
#define NAME_MAX_BYTES 512

static const struct decision pass = { .verdict = DISPATCH_PASS };
static const struct decision later = { .verdict = DISPATCH_LATER };

struct context {
	const struct dispatch_from *from;
	struct session *session;
	const struct resp_view *req;
	bool eval;
};

/* --- session commands ------------------------------------------------------- */

/* Passes a request whose reply changes the session. */
static struct decision await(struct context *x, struct request *r)
{
	struct decision d = pass;

	if (x->session->opaque) {
		session_assume(x->session, r);
		return d;
	}
	if (!x->session->in_multi) {
		d.treat = LINK_TELL;
		d.request = r;
	}
	session_track(x->session, r);
	return d;
}

static struct slice arg(const struct context *x, size_t i)
{
	return i < x->req->argc ? x->req->argv[i] : SLICE_NONE;
}

static char *copy_name(struct slice s)
{
	return s.n > NAME_MAX_BYTES ? xstrdup("") : xmemdup(s.p, s.n);
}

static struct decision on_select(struct context *x)
{
	struct request *r = request_new(REQUEST_SELECT);
	struct slice s = arg(x, 1);

	/* Redis has checked the number when it matters. */
	for (size_t i = 0; i < s.n && i < 9; i++)
		r->db = r->db * 10 + (s.p[i] - '0');
	return await(x, r);
}

static struct decision on_auth(struct context *x)
{
	struct request *r = request_new(REQUEST_AUTH);

	r->user = x->req->argc > 2 ? copy_name(arg(x, 1)) : xstrdup("");
	return await(x, r);
}

static struct decision on_hello(struct context *x)
{
	struct request *r = request_new(REQUEST_HELLO);

	if (slice_is(arg(x, 1), "2"))
		r->proto = 2;
	else if (slice_is(arg(x, 1), "3"))
		r->proto = 3;
	for (size_t i = 2; i < x->req->argc; i++) {
		if (slice_is(arg(x, i), "auth") && !r->user) {
			r->user = copy_name(arg(x, i + 1));
			i += 2;
		} else if (slice_is(arg(x, i), "setname") && !r->name) {
			r->name = copy_name(arg(x, ++i));
		}
	}
	return await(x, r);
}

static struct decision on_reset(struct context *x)
{
	session_discard(x->session);
	return await(x, request_new(REQUEST_RESET));
}

static struct decision on_multi(struct context *x)
{
	session_multi(x->session);
	return pass;
}

static struct decision on_exec(struct context *x)
{
	struct request *r = session_exec(x->session);
	struct decision d = pass;

	if (r) {
		d.treat = LINK_TELL | LINK_KEEP;
		d.request = r;
	}
	return d;
}

static struct decision on_discard(struct context *x)
{
	session_discard(x->session);
	return pass;
}

static struct decision on_watch(struct context *x)
{
	const struct config *config = x->from->env->config;

	if (x->session->in_multi)
		return pass;
	for (size_t i = 1; i < x->req->argc; i++) {
		if (!config_rule_for(config, arg(x, i)))
			continue;
		if (x->session->nawaited)
			return later;
		session_watch(x->session, arg(x, i));
	}
	return pass;
}

static struct decision on_unwatch(struct context *x)
{
	/* In a transaction it comes when EXEC has done the same. */
	if (!x->session->in_multi)
		session_unwatch(x->session);
	return pass;
}

static struct decision turn(enum turn t)
{
	struct decision d = pass;

	d.turn = t;
	return d;
}

static struct decision on_subscribe(struct context *x)
{
	struct slice name = arg(x, 0);
	struct request *r;
	char kind = name.p[0] | 0x20;

	/* EXEC's reply is then followed by frames that are not in it. */
	if (x->session->in_multi)
		return turn(TURN_OPAQUE);
	r = request_new(REQUEST_SUBSCRIBE);
	r->unsubscribe = name.n > strlen("psubscribe");
	if (kind == 'p')
		r->subscription = SUBSCRIBED_PATTERNS;
	else if (kind == 's' && (name.p[1] | 0x20) != 'u')
		r->subscription = SUBSCRIBED_SHARDS;
	else if (kind == 's' && (name.p[2] | 0x20) == 'n')
		r->subscription = SUBSCRIBED_SHARDS;
	r->acks = x->req->argc - 1;
	return await(x, r);
}

static struct decision on_client(struct context *x)
{
	struct request *r;

	if (slice_is(arg(x, 1), "setname") && x->req->argc == 3) {
		r = request_new(REQUEST_NAME);
		r->name = copy_name(arg(x, 2));
		return await(x, r);
	}
	if (slice_is(arg(x, 1), "reply") && x->req->argc == 3 &&
	    (x->session->in_multi || !slice_is(arg(x, 2), "on")))
		return turn(TURN_OPAQUE);
	return pass;
}

static struct decision on_script(struct context *x)
{
	/* The script debugger speaks a protocol of its own. */
	return slice_is(arg(x, 1), "debug") ? turn(TURN_OPAQUE) : pass;
}

static struct decision on_opaque(struct context *x)
{
	(void)x;
	return turn(TURN_OPAQUE);
}

static struct decision on_sync(struct context *x)
{
	(void)x;
	return turn(TURN_RAW);
}

static const struct special {
	const char *name;
	struct decision (*decide)(struct context *x);
	bool queued; /* in a transaction it is queued like other commands */
} specials[] = {
	{ "select", on_select, true },
	{ "auth", on_auth, true },
	{ "hello", on_hello, true },
	{ "client", on_client, true },
	{ "multi", on_multi, false },
	{ "exec", on_exec, false },
	{ "discard", on_discard, false },
	{ "watch", on_watch, false },
	{ "unwatch", on_unwatch, true },
	{ "subscribe", on_subscribe, true },
	{ "psubscribe", on_subscribe, true },
	{ "ssubscribe", on_subscribe, true },
	{ "unsubscribe", on_subscribe, true },
	{ "punsubscribe", on_subscribe, true },
	{ "sunsubscribe", on_subscribe, true },
	{ "reset", on_reset, false },
	{ "script", on_script, true },
	{ "monitor", on_opaque, true },
	/* A replica acknowledges without being answered. */
	{ "replconf", on_opaque, true },
	{ "sync", on_sync, true },
	{ "psync", on_sync, true },
};

/* Which lengths the names above have, by first letter: most commands are none of them, and
 * must not pay for it. dispatch_self_check() holds it against the table. */
#define LEN(n) (1u << (n))
static const uint16_t special_lengths[32] = {
	['a' & 31] = LEN(4),
	['c' & 31] = LEN(6),
	['d' & 31] = LEN(7),
	['e' & 31] = LEN(4),
	['h' & 31] = LEN(5),
	['m' & 31] = LEN(5) | LEN(7),
	['p' & 31] = LEN(5) | LEN(10) | LEN(12),
	['r' & 31] = LEN(5) | LEN(8),
	['s' & 31] = LEN(4) | LEN(6) | LEN(9) | LEN(10) | LEN(12),
	['u' & 31] = LEN(7) | LEN(11),
	['w' & 31] = LEN(5),
};

static const struct special *find_special(struct slice name)
{
	char first;

	if (name.n == 0 || name.n > 12 ||
	    !(special_lengths[name.p[0] & 31] & LEN(name.n)))
		return NULL;
	first = (char)(name.p[0] | 0x20);
	for (size_t i = 0; i < sizeof(specials) / sizeof(*specials); i++)
		if (specials[i].name[0] == first && slice_is(name, specials[i].name))
			return &specials[i];
	return NULL;
}

void dispatch_self_check(void)
{
	for (size_t i = 0; i < sizeof(specials) / sizeof(*specials); i++)
		HASP_ASSERT(find_special(slice_str(specials[i].name)) == &specials[i]);
}

/* --- locks ------------------------------------------------------------------ */

static struct slice token_for(const struct context *x, enum owner_kind kind,
                              struct buf *room)
{
	const struct dispatch_from *from = x->from;

	return owner_token(room, kind, from->identity(from->arg),
	                   x->session->name, session_user(x->session));
}

/* The reply of a rewritten command, once it is known what the books want of it. */
static struct decision await_call(struct context *x, struct hold_note *note)
{
	struct decision d = { .verdict = DISPATCH_CALL };
	struct request *r;

	if (x->session->opaque) {
		hold_note_free(note);
		return d;
	}
	if (x->session->in_multi && !note)
		return d;
	r = request_new(REQUEST_LOCK);
	r->note = note;
	if (!x->session->in_multi) {
		d.treat = LINK_TELL | (x->eval ? 0 : LINK_ASK);
		d.request = r;
		d.barrier = true;
	}
	session_track(x->session, r);
	return d;
}

static struct rewrite_how how(const struct context *x)
{
	return (struct rewrite_how){
		.eval = x->eval || x->session->in_multi || x->session->opaque,
		.resp3 = x->session->proto == 3,
	};
}

static bool find_verb(const struct verbs *v, struct slice name, enum verb *verb)
{
	const char *names[] = {
		[VERB_LOCK] = v->lock,
		[VERB_UNLOCK] = v->unlock,
		[VERB_EXTEND] = v->extend,
		[VERB_INFO] = v->info,
	};

	if (!v->enabled)
		return false;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		if (slice_is(name, names[i])) {
			*verb = (enum verb)i;
			return true;
		}
	}
	return false;
}

static struct decision call_verb(struct context *x, enum verb verb)
{
	struct client_env *env = x->from->env;
	const struct verbs *verbs = &env->config->verbs;
	struct hold_terms terms = { .verbs = verbs };
	struct lock_call call = { 0 };

	terms.token = token_for(x, verbs->owner, &env->token);
	rewrite_verb(&env->call, verb, x->req, verbs, terms.token, how(x), &call);
	terms.token = call.owner;
	return await_call(x, hold_note(env->holds, &call, &call.key, 1, &terms));
}

/* The keys of a write, and who asks for each: rules of the owner's kinds have a token
 * each. */
struct keys {
	struct lock_key *v;
	size_t n;
	bool enforced; /* a rule concerns at least one of them */
	struct buf rooms[OWNER_VALUE]; /* the bytes behind v[].token, by kind */
	struct lock_key few[KEYS_ON_STACK];
};

static void keys_init(struct keys *k, const struct command *c,
                      const struct resp_view *req)
{
	size_t few[KEYS_ON_STACK], *args = few;

	*k = (struct keys){ .v = k->few };
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
	for (size_t i = 0; i < OWNER_VALUE; i++)
		buf_release(&k->rooms[i]);
}

/* Finds each key's rule; what is only observed, or watched, has none. */
static void find_rules(struct context *x, struct keys *k)
{
	struct client_env *env = x->from->env;

	for (size_t i = 0; i < k->n; i++) {
		struct slice key = x->req->argv[k->v[i].arg];
		const struct rule *rule = config_rule_for(env->config, key);
		if (!rule || session_watches(x->session, key))
			continue;
		if (rule->mode == MODE_OBSERVE) {
			observe(env, rule, x->req->argv[0], key);
			continue;
		}
		k->v[i].rule = rule;
		k->enforced = true;
	}
}

/* Keys under rules of one owner kind share a token; what a connection stored is the key's own. */
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
			key->token = hold_value(from->env->holds, from->holds,
			                        x->session->db, x->req->argv[key->arg]);
			continue;
		}
		if (!tokens[kind].p)
			tokens[kind] = token_for(x, kind, &k->rooms[kind]);
		key->token = tokens[kind];
	}
}

static struct hold_note *note_call(struct context *x, const struct keys *k,
                                   const struct lock_call *call)
{
	struct hold_terms terms = { 0 };
	struct slice few[KEYS_ON_STACK], *names = few;
	struct hold_note *note;
	size_t n = 0;

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
	if (names != few)
		free(names);
	return note;
}

static struct decision call_lock(struct context *x, const struct command *c)
{
	struct client_env *env = x->from->env;
	struct decision d = pass;
	struct lock_call call = { 0 };
	struct keys k;

	keys_init(&k, c, x->req);
	find_rules(x, &k);
	if (k.enforced && x->session->nawaited) {
		d = later;
	} else if (k.enforced) {
		find_tokens(x, &k);
		if (rewrite_lock(&env->call, x->req, k.v, k.n, how(x), &call) ==
		    REWRITE_CALL)
			d = await_call(x, note_call(x, &k, &call));
	}
	keys_fini(&k);
	return d;
}

/* In RESP2, a subscribed connection is refused everything that is not about
 * subscriptions: let Redis say so about the command that was sent. */
static bool is_muted(const struct session *s)
{
	return !s->opaque && s->proto == 2 && session_is_subscribed(s);
}

static const struct command *find_write(const struct context *x, struct slice name)
{
	const struct client_env *env = x->from->env;
	const struct command *c;

	if (env->config->nrules == 0)
		return NULL;
	c = commands_get(env->commands, name);
	if (!c || !(c->flags & COMMAND_WRITE) ||
	    (c->flags & (COMMAND_NOSCRIPT | COMMAND_BLOCKING)))
		return NULL;
	return c;
}

static struct decision decide(struct context *x)
{
	struct slice name = x->req->argv[0];
	const struct special *special = find_special(name);
	const struct command *c;
	enum verb verb;

	if (find_verb(&x->from->env->config->verbs, name, &verb)) {
		if (x->session->nawaited)
			return later;
		return is_muted(x->session) ? pass : call_verb(x, verb);
	}
	if (special)
		return special->decide(x);
	c = find_write(x, name);
	if (!c || is_muted(x->session))
		return pass;
	return call_lock(x, c);
}

/* A transaction numbers its commands, so that EXEC's replies find them. */
static void count_queued(struct session *s, bool was_in_multi, struct slice name)
{
	const struct special *special = find_special(name);

	if (was_in_multi && s->in_multi && (!special || special->queued) &&
	    !slice_is(name, "quit"))
		s->nqueued++;
}

struct decision dispatch(const struct dispatch_from *from, const struct resp_view *req,
                         bool eval)
{
	struct context x = { from, from->session, req, eval };
	bool was_in_multi = from->session->in_multi;
	struct decision d;

	buf_clear(&from->env->call);
	d = decide(&x);
	if (d.verdict != DISPATCH_LATER)
		count_queued(from->session, was_in_multi, req->argv[0]);
	return d;
}

/* Could a rule or the session care for it, once it is whole? */
static bool is_decided(const struct context *x)
{
	struct slice name = x->req->argv[0];
	const struct command *c;
	enum verb verb;

	if (find_special(name) ||
	    find_verb(&x->from->env->config->verbs, name, &verb))
		return false;
	c = find_write(x, name);
	if (!c || c->keys == KEYS_NONE)
		return true;
	return command_single_key(c) && x->req->argc > 1 &&
		!config_rule_for(x->from->env->config, x->req->argv[1]);
}

struct decision dispatch_early(const struct dispatch_from *from,
                               const struct resp_view *beginning)
{
	struct context x = { from, from->session, beginning, false };
	struct decision d = pass;

	if (beginning->argc == 0 || !is_decided(&x))
		d.verdict = DISPATCH_HOLD;
	else if (from->session->in_multi)
		from->session->nqueued++;
	return d;
}
