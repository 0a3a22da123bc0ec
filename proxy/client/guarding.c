/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/guarding.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/glob.h"
#include "client/fencing.h"
#include "lock/guarded.h"

static const struct decision pass = { .verdict = DISPATCH_PASS };
static const struct decision later = { .verdict = DISPATCH_LATER };
static const struct decision unready = { .verdict = DISPATCH_UNREADY };

/* The keys of a command, and its guarded ones. */
struct keys {
	size_t *args;
	size_t nargs;
	struct guarded_key *v;
	size_t n;
	bool writes; /* the command; else it reads */
	bool ruled; /* a rule for locks concerns one of them */
	int64_t wait_ms; /* the shortest of the guards' */
	struct buf rooms[OWNER_VALUE]; /* the bytes behind v[].token, by kind */
	size_t few_args[KEYS_ON_STACK];
	struct guarded_key few[KEYS_ON_STACK];
};

bool guarding_concerns(const struct client_env *env, const struct resolved *what,
                       struct slice name)
{
	const struct config *config = env->config;
	unsigned flags = what->command ? what->command->flags : 0;

	if (what->special || what->is_verb)
		return false;
	for (size_t i = 0; i < config->nguards; i++) {
		const struct guard *g = config->guards[i];
		if (g->mode == MODE_OBSERVE)
			continue;
		if (guard_acquires_on(g, name))
			return true;
		/* What waits for data is not checked. */
		if ((flags & COMMAND_WRITE) && !(flags & COMMAND_BLOCKING))
			return true;
		if (flags & COMMAND_NOSCRIPT && what->command->keys == KEYS_COUNTED)
			return true;
	}
	return false;
}

bool guarding_needs_private(const struct client_env *env, const struct resolved *what,
                            const struct resp_view *req)
{
	size_t args[KEYS_ON_STACK], n;
	const struct command *c = what->command;
	bool writes = c && ((c->flags & COMMAND_WRITE) || (c->flags & COMMAND_NOSCRIPT));

	if (!writes || guarded_fits(req, true, true))
		return false;
	n = command_key_args(c, req, args, KEYS_ON_STACK);
	for (size_t i = 0; i < n; i++) {
		const struct guard *g;
		/* There are more than could be looked at. */
		if (i == KEYS_ON_STACK)
			return true;
		g = config_guard_for(env->config, req->argv[args[i]]);
		if (g && g->mode == MODE_ENFORCE)
			return true;
	}
	return false;
}

/* --- which keys ---------------------------------------------------------------- */

static void keys_init(struct keys *k, const struct command *c, const struct resp_view *req)
{
	/* All but the room for few, which is long. */
	memset(k, 0, offsetof(struct keys, few_args));
	k->args = k->few_args;
	k->v = k->few;
	k->nargs = command_key_args(c, req, k->args, KEYS_ON_STACK);
	if (k->nargs > KEYS_ON_STACK) {
		k->args = xcalloc(k->nargs, sizeof(*k->args));
		k->v = xcalloc(k->nargs, sizeof(*k->v));
		k->nargs = command_key_args(c, req, k->args, k->nargs);
	}
}

/* To a list that began empty. Of what is done to one key, the last counts. */
static void keys_add(struct keys *all, const struct keys *more)
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

static void keys_fini(struct keys *k)
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
static bool writes_under(const struct context *x, const struct keys *k, const struct guard *g)
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

static void find_guards(const struct context *x, struct keys *k)
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

static void find_tokens(const struct context *x, struct keys *k)
{
	const struct dispatch_from *from = x->from;

	for (size_t i = 0; i < k->n; i++) {
		struct guarded_key *key = &k->v[i];
		const struct reading *reading = reading_find(from->env->readings, from->reader,
		                                             x->session->db, key->key);
		/* Who calls itself otherwise now has read as who it was then. */
		key->token = reading ? reading->token
		                     : deciding_token(x, key->owner, &k->rooms[key->owner]);
		key->held = !key->shared && (reading ? reading->read : from->reader->forgot);
	}
}

/* --- the call ------------------------------------------------------------------- */

/* Can the call be sent, which may have to stand in line? */
static bool is_ready(struct context *x, const struct guarded *g, struct slice ticket)
{
	struct lock_call call = { .ticket = ticket, .wait_ms = g->wait_ms };

	/* Most never wait: a waiter is made for those that are told to. */
	if (g->wait_ms == 0 || (!*x->from->waiter && waits_are_ready(x->from->env->waits)))
		return true;
	return deciding_ready(x, &call);
}

static struct decision call(struct context *x, const struct keys *k)
{
	struct client_env *env = x->from->env;
	struct decision d = { .verdict = DISPATCH_CALL };
	struct rewrite_how how = deciding_how(x);
	struct guarded g = { x->req, k->v, k->n, k->args, k->nargs, k->wait_ms };
	bool fits = guarded_fits(x->req, k->writes, how.resp3);
	bool fenced = k->writes && !fits && !x->session->opaque;
	struct guarded_call *pending;

	if (g.wait_ms > how.wait_max_ms)
		g.wait_ms = how.wait_max_ms;
	/* A place is one in the line for a certain key. */
	if (k->n > 1)
		how.place = 0;
	if (fenced)
		; /* Its call is written when it is known. */
	else if (k->writes)
		rewrite_guarded_write(&env->call, &g, how);
	else
		rewrite_guarded_read(&env->call, &g, how, !fits && !x->session->opaque);
	if (!is_ready(x, &g, how.ticket))
		return unready;
	pending = guarded_call_new(env->readings, x->from->reader, x->session->db, &g,
	                           k->writes, how.ticket);
	if (x->session->opaque) {
		guarded_call_assume(pending);
		return d;
	}
	if (fenced)
		return fencing_begin(x, pending, GUARDED_ONE);
	(void)deciding_shorten(x);
	d.treat = LINK_TELL | LINK_ASK | LINK_ASK_STATUS;
	d.barrier = true;
	d.request = request_new(REQUEST_GUARDED);
	d.request->call = pending;
	session_track(x->session, d.request);
	return d;
}

static struct decision decide(struct context *x, struct keys *k)
{
	if (x->session->nawaited)
		return later;
	if (deciding_is_muted(x->session))
		return pass;
	if (k->ruled && k->writes)
		return deciding_refuse(x, "ERR hasp: the command names both guarded keys and "
		                          "keys of a [lock] rule");
	if (k->n >= READINGS_MAX)
		return deciding_refuse(x, "ERR hasp: the command names too many guarded keys");
	find_tokens(x, k);
	return call(x, k);
}

bool guarding_decide(struct context *x, struct decision *d)
{
	const struct command *c = x->what->command;
	struct keys k;

	if (!c) {
		/* It is named in acquire_on, so that it has keys: which, Redis has not said
		 * yet. */
		if (commands_are_learned(x->from->env->commands))
			return false;
		*d = deciding_refuse(x, "LOADING hasp does not know yet which keys of this "
		                        "command are guarded");
		return true;
	}
	/* Redis refuses it as it came. */
	if (!command_arity_ok(c, x->req->argc))
		return false;
	keys_init(&k, c, x->req);
	find_guards(x, &k);
	if (k.n)
		*d = decide(x, &k);
	keys_fini(&k);
	return k.n > 0;
}

/* Those of all commands in `block`; k->v grows. Returns false when they are in more than one
 * database. */
static bool find_in_block(const struct context *x, struct slice block, struct keys *k)
{
	struct request_args args = { 0 };
	bool moved = false, clear = true;

	while (block.n) {
		struct request_scan scan = { 0 };
		struct context each = *x;
		struct resolved what;
		struct resp_view view;
		struct keys some;
		size_t used;
		HASP_ASSERT(request_scan_args(&scan, block.p, block.n, &used, &args) ==
		            RESP_OK);
		block = slice_of(block.p + used, block.n - used);
		view = (struct resp_view){ args.argc, args.argv };
		what = names_resolve(x->from->env, view.argv[0]);
		each.req = &view;
		each.what = &what;
		moved |= slice_is(view.argv[0], "select");
		if (!what.is_guarded || !what.command ||
		    !command_arity_ok(what.command, view.argc))
			continue;
		keys_init(&some, what.command, &view);
		find_guards(&each, &some);
		clear &= some.n == 0 || !moved;
		keys_add(k, &some);
		keys_fini(&some);
	}
	request_args_fini(&args);
	return clear;
}

enum guarding guarding_block(struct context *x, struct slice block, struct guarded_call **call)
{
	struct keys k;
	struct guarded g;
	enum guarding result = GUARDING_NONE;

	memset(&k, 0, offsetof(struct keys, few_args));
	k.args = k.few_args;
	*call = NULL;
	if (!find_in_block(x, block, &k))
		result = GUARDING_UNCLEAR;
	if (k.n && result == GUARDING_NONE) {
		k.n = guarded_sort(k.v, k.n);
		find_tokens(x, &k);
		result = k.n < READINGS_MAX ? GUARDING_CALL : GUARDING_UNCLEAR;
	}
	if (result == GUARDING_CALL) {
		g = (struct guarded){ .keys = k.v, .n = k.n, .wait_ms = k.wait_ms };
		*call = guarded_call_new(x->from->env->readings, x->from->reader,
		                         x->session->db, &g, true, SLICE_NONE);
	}
	free(k.v);
	k.v = NULL;
	keys_fini(&k);
	return result;
}

/* --- answers -------------------------------------------------------------------- */

void guarding_give_back(struct client *c, const struct guarded_call *pending, bool done)
{
	struct buf out = BUF_INIT;
	size_t n;

	if (!c->user.link)
		return;
	n = guarded_call_write_release(pending, done, c->waiter != NULL, &out);
	client_send_up(c, buf_slice(&out));
	for (size_t i = 0; i < n; i++)
		link_expect(&c->user, LINK_QUIET, NULL);
	buf_release(&out);
}

/* `+QUEUED place now held i` */
void guarding_stand(struct client *c, struct request *r, struct slice line)
{
	struct guarded_call *pending = r->call;
	const char *last = memrchr(line.p, ' ', line.n);
	size_t number = last ? strtoul(last, NULL, 10) : 0;
	size_t i = number ? guarded_call_part(pending, number - 1) : pending->n;
	struct buf name = BUF_INIT;
	struct lock_try t;
	int stands = -1;

	if (i < pending->n) {
		pending->stands_at = i;
		t = guarded_call_try(pending, i, &name);
		if (!c->waiter)
			c->waiter = waiter_new_sent(c->env->waits, pending->wait_ms,
			                            pending->sent_at, t.ticket,
			                            &client_waiter_ops, c);
		c->waiting = WAIT_TURN;
		stands = waiter_queued(c->waiter, c->session.db, &t, pending->parts[i].lease_ms,
		                       line, r);
		buf_release(&name);
	}
	client_stood(c, stands == 0);
}

/* The guards are there; the command goes out as it came, from the head of `in`. */
static void send_apart(struct client *c, struct request *r)
{
	client_send_up(c, slice_of(buf_head(&c->in), c->scanned));
	link_expect(&c->user, LINK_TELL, r);
}

bool guarding_on_line(struct client *c, struct request *r, struct slice line)
{
	if (r->call->way != GUARDED_SCRIPT)
		return fencing_on_line(c, r, line);
	if (slice_starts(line, SLICE_LIT("+QUEUED "))) {
		guarding_stand(c, r, line);
		return false;
	}
	if (slice_eq(line, SLICE_LIT("+GRANTED\r\n"))) {
		send_apart(c, r);
		return false;
	}
	if (slice_starts(line, SLICE_LIT("-NOSCRIPT"))) {
		session_forget(&c->session, r);
		client_retry(c, true);
		return false;
	}
	if (line.p[0] == '-')
		guarded_call_failed(r->call, line);
	return true;
}

bool guarding_on_reply(struct client *c, struct request *r, const struct resp_reply *reply,
                       struct slice kept)
{
	bool failed = resp_reply_is_error(reply);

	if (r->call->way != GUARDED_SCRIPT)
		return fencing_on_reply(c, r, reply, kept);

	if (failed && c->waiter)
		guarding_give_back(c, r->call, false);
	guarded_call_end(r->call, failed);
	session_forget(&c->session, r);
	return true;
}

void guarding_again(struct client *c, struct request *r)
{
	if (r->call->way != GUARDED_SCRIPT) {
		fencing_again(c, r);
		return;
	}
	session_forget(&c->session, r);
	client_retry(c, false);
}

void guarding_on_timed_out(struct client *c, struct request *r)
{
	struct guarded_call *pending = r->call;
	struct buf error = BUF_INIT;

	guarding_give_back(c, pending, false);
	guarded_write_locked(&error, reading_key(pending->parts[pending->stands_at].reading));
	stream_send(&c->stream, buf_slice(&error));
	buf_release(&error);
	guarded_call_end(pending, true);
	session_forget(&c->session, r);
}
