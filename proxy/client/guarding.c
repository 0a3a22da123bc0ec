/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/guarding.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/glob.h"
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
		/* What a script cannot do, and what waits for data, is not checked. */
		if ((flags & COMMAND_WRITE) && !(flags & (COMMAND_NOSCRIPT | COMMAND_BLOCKING)))
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
static bool writes_under(const struct context *x, const struct guard *g)
{
	return (x->what->command->flags & COMMAND_WRITE) &&
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

static void find_guards(const struct context *x, struct keys *k)
{
	const struct config *config = x->from->env->config;

	for (size_t i = 0; i < k->nargs; i++) {
		struct slice key = x->req->argv[k->args[i]];
		const struct guard *g = config_guard_for(config, key);
		if (!g || g->mode == MODE_OBSERVE) {
			k->ruled |= !g && config_rule_for(config, key);
			continue;
		}
		if (!writes_under(x, g) &&
		    (!guard_acquires_on(g, x->req->argv[0]) || is_exempt(x, g)))
			continue;
		k->writes |= writes_under(x, g);
		k->v[k->n++] = (struct guarded_key){
			.key = key,
			.guard = g,
			.releases = guard_releases_on(g, x->req->argv[0]),
		};
	}
	k->n = guarded_sort(k->v, k->n);
}

static void find_tokens(const struct context *x, struct keys *k)
{
	const struct dispatch_from *from = x->from;

	for (size_t i = 0; i < k->n; i++) {
		enum owner_kind kind = k->v[i].guard->owner;
		const struct reading *reading = reading_find(from->env->readings, from->reader,
		                                             x->session->db, k->v[i].key);
		/* Who calls itself otherwise now has read as who it was then. */
		if (reading)
			k->v[i].token = reading->token;
		else
			k->v[i].token = deciding_token(x, kind, &k->rooms[kind]);
		k->v[i].held = kind == OWNER_CONNECTION &&
		               (reading ? reading->read : from->reader->forgot);
	}
}

/* --- the call ------------------------------------------------------------------- */

static int64_t shortest_wait(const struct keys *k)
{
	int64_t ms = k->v[0].guard->wait_ms;

	for (size_t i = 1; i < k->n; i++)
		if (k->v[i].guard->wait_ms < ms)
			ms = k->v[i].guard->wait_ms;
	return ms;
}

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
	struct guarded g = { x->req, k->v, k->n, k->args, k->nargs, shortest_wait(k) };
	bool fits = guarded_fits(x->req, k->writes, how.resp3);
	struct guarded_call *pending;

	if (g.wait_ms > how.wait_max_ms)
		g.wait_ms = how.wait_max_ms;
	/* A place is one in the line for a certain key. */
	if (k->n > 1)
		how.place = 0;
	if (k->writes)
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
	deciding_shorten(x);
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

/* --- answers -------------------------------------------------------------------- */

/* What a command that waited, and failed then, has taken on the way. In front of whatever
 * the client sends next. */
static void give_back(struct client *c, const struct guarded_call *pending)
{
	struct buf out = BUF_INIT;
	size_t n;

	if (!c->waiter || !c->user.link)
		return;
	n = guarded_call_write_release(pending, &out);
	client_send_up(c, buf_slice(&out));
	for (size_t i = 0; i < n; i++)
		link_expect(&c->user, LINK_QUIET, NULL);
	buf_release(&out);
}

/* `+QUEUED place now held i` */
static void stand_in_line(struct client *c, struct request *r, struct slice line)
{
	struct guarded_call *pending = r->call;
	const char *last = memrchr(line.p, ' ', line.n);
	size_t i = last ? strtoul(last, NULL, 10) : 0;
	struct buf name = BUF_INIT;
	struct lock_try t;
	int stands = -1;

	if (i >= 1 && i <= pending->n) {
		pending->stands_at = i - 1;
		t = guarded_call_try(pending, i - 1, &name);
		if (!c->waiter)
			c->waiter = waiter_new_sent(c->env->waits, pending->wait_ms,
			                            pending->sent_at, t.ticket,
			                            &client_waiter_ops, c);
		c->waiting = WAIT_TURN;
		stands = waiter_queued(c->waiter, c->session.db, &t,
		                       pending->parts[i - 1].lease_ms, line, r);
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
	if (slice_starts(line, SLICE_LIT("+QUEUED "))) {
		stand_in_line(c, r, line);
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

void guarding_on_reply(struct client *c, struct request *r, const struct resp_reply *reply)
{
	bool failed = resp_reply_is_error(reply);

	if (failed)
		give_back(c, r->call);
	guarded_call_end(r->call, failed);
	session_forget(&c->session, r);
}

void guarding_on_granted(struct client *c, struct request *r)
{
	session_forget(&c->session, r);
	client_retry(c, false);
}

void guarding_on_timed_out(struct client *c, struct request *r)
{
	struct guarded_call *pending = r->call;
	struct buf error = BUF_INIT;

	give_back(c, pending);
	guarded_write_locked(&error, reading_key(pending->parts[pending->stands_at].reading));
	stream_send(&c->stream, buf_slice(&error));
	buf_release(&error);
	guarded_call_end(pending, true);
	session_forget(&c->session, r);
}
