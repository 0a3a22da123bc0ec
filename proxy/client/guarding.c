/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/guarding.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "client/fencing.h"
#include "client/guardkeys.h"
#include "client/trying.h"
#include "lock/guarded.h"

static const struct decision pass = { .verdict = DISPATCH_PASS };
static const struct decision later = { .verdict = DISPATCH_LATER };
static const struct decision unready = { .verdict = DISPATCH_UNREADY };

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
		/* It may be anything yet. */
		if (!what->command && !commands_are_learned(env->commands))
			return true;
		/* What waits for data is not checked. */
		if ((flags & COMMAND_WRITE) && !(flags & COMMAND_BLOCKING))
			return true;
		if (flags & COMMAND_NOSCRIPT && what->command->keys == KEYS_COUNTED)
			return true;
	}
	return false;
}

bool guarding_acquires(const struct client_env *env, struct slice name)
{
	const struct config *config = env->config;

	for (size_t i = 0; i < config->nguards; i++)
		if (config->guards[i]->mode != MODE_OBSERVE &&
		    guard_acquires_on(config->guards[i], name))
			return true;
	return false;
}

bool guarding_needs_private(const struct client_env *env, const struct resolved *what,
                            const struct resp_view *req)
{
	size_t args[KEYS_ON_STACK], n;
	const struct command *c = what->command;
	bool writes = c && ((c->flags & COMMAND_WRITE) || (c->flags & COMMAND_NOSCRIPT));
	bool fits = writes && guarded_fits(what->fitness, req, true, true);

	if (!writes || (fits && !what->acquires))
		return false;
	n = command_key_args(c, req, args, KEYS_ON_STACK);
	for (size_t i = 0; i < n; i++) {
		const struct guard *g;
		/* There are more than could be looked at. */
		if (i == KEYS_ON_STACK)
			return true;
		g = config_guard_for(env->config, req->argv[args[i]]);
		if (g && g->mode == MODE_ENFORCE &&
		    (!fits || guard_acquires_on(g, req->argv[0])))
			return true;
	}
	return false;
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

static struct decision call(struct context *x, const struct guard_keys *k)
{
	struct client_env *env = x->from->env;
	struct decision d = { .verdict = DISPATCH_CALL };
	struct rewrite_how how = deciding_how(x);
	struct guarded g = { x->req, k->v, k->n, k->args, k->nargs, k->wait_ms };
	bool both = k->writes && k->acquires;
	bool fits = guarded_fits(x->what->fitness, x->req, k->writes, how.resp3) && !both;
	bool fenced = k->writes && !fits && !x->session->opaque;
	struct guarded_call *pending;

	/* No script can do it, and without answers nothing else can be made of it. */
	if (x->session->opaque && k->writes && !fits && !both)
		return pass;
	/* WATCH, MULTI and EXEC of ours would end what the application's WATCH has begun. */
	if (fenced && x->session->watching)
		return deciding_refuse(x,
		                       "ERR hasp: this command writes a guarded key by a "
		                       "transaction of its own, and that ends WATCH: send it "
		                       "before WATCH or behind EXEC");
	if (!k->writes && trying_may(x, &g))
		return trying_begin(x, &g);
	if (g.wait_ms > how.wait_max_ms)
		g.wait_ms = how.wait_max_ms;
	/* A place is one in the line for a certain key. */
	if (k->n > 1)
		how.place = 0;
	if (fenced)
		; /* Its call is written when it is known. */
	else if (k->writes && !both)
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
	d.request = request_new_of(&env->requests, REQUEST_GUARDED);
	d.request->call = pending;
	session_track(x->session, d.request);
	return d;
}

static struct decision decide(struct context *x, struct guard_keys *k)
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
	guard_keys_name(x, k);
	return call(x, k);
}

/* Of a command that Redis has not told of yet, any argument may be a key. */
static bool names_guarded(const struct client_env *env, const struct resp_view *req)
{
	if (commands_are_learned(env->commands))
		return false;
	for (size_t i = 1; i < req->argc; i++) {
		const struct guard *g = config_guard_for(env->config, req->argv[i]);
		if (g && g->mode == MODE_ENFORCE)
			return true;
	}
	return false;
}

bool guarding_decide(struct context *x, struct decision *d)
{
	const struct command *c = x->what->command;
	struct guard_keys k;

	if (!c) {
		if (!names_guarded(x->from->env, x->req))
			return false;
		*d = deciding_refuse(x, "LOADING hasp does not know yet which keys of this "
		                        "command are guarded");
		return true;
	}
	/* Redis refuses it as it came. */
	if (!command_arity_ok(c, x->req->argc))
		return false;
	guard_keys_init(&k, c, x->req);
	guard_keys_find(x, &k);
	if (k.n)
		*d = decide(x, &k);
	guard_keys_fini(&k);
	return k.n > 0;
}

/* Those of all commands in `block`; k->v grows. Returns false when they are in more than one
 * database, too many, or not all known. */
static bool find_in_block(const struct context *x, struct slice block, struct guard_keys *k)
{
	struct request_args args = { 0 };
	bool moved = false, clear = true;

	while (block.n) {
		struct request_scan scan = { 0 };
		struct context each = *x;
		struct resolved what;
		struct resp_view view;
		struct guard_keys some;
		size_t used;
		HASP_ASSERT(request_scan_args(&scan, block.p, block.n, &used, &args) ==
		            RESP_OK);
		block = slice_of(block.p + used, block.n - used);
		view = (struct resp_view){ args.argc, args.argv };
		what = names_resolve(x->from->env, view.argv[0]);
		each.req = &view;
		each.what = &what;
		moved |= slice_is(view.argv[0], "select");
		if (!what.command && names_guarded(x->from->env, &view))
			clear = false;
		if (!clear || !what.is_guarded || !what.command ||
		    !command_arity_ok(what.command, view.argc))
			continue;
		guard_keys_init(&some, what.command, &view);
		guard_keys_find(&each, &some);
		clear &= (some.n == 0 || !moved) && k->n + some.n < READINGS_MAX;
		guard_keys_add(k, &some);
		guard_keys_fini(&some);
	}
	request_args_fini(&args);
	return clear;
}

enum guarding guarding_block(struct context *x, struct slice block, struct guarded_call **call)
{
	struct guard_keys k;
	struct guarded g;
	enum guarding result = GUARDING_NONE;

	memset(&k, 0, offsetof(struct guard_keys, few_args));
	k.args = k.few_args;
	if (!find_in_block(x, block, &k))
		result = GUARDING_UNCLEAR;
	if (k.n && result == GUARDING_NONE) {
		k.n = guarded_sort(k.v, k.n);
		guard_keys_name(x, &k);
		result = k.n < READINGS_MAX ? GUARDING_CALL : GUARDING_UNCLEAR;
	}
	if (result == GUARDING_CALL && call) {
		g = (struct guarded){ .keys = k.v, .n = k.n, .wait_ms = k.wait_ms };
		*call = guarded_call_new(x->from->env->readings, x->from->reader,
		                         x->session->db, &g, true, SLICE_NONE);
	}
	free(k.v);
	k.v = NULL;
	guard_keys_fini(&k);
	return result;
}

/* --- answers -------------------------------------------------------------------- */

/* Returns how many answers will come. */
static size_t send_back(struct client *c, const struct guarded_call *pending,
                        enum guarded_end end, bool took)
{
	struct buf out = BUF_INIT;
	size_t n = guarded_call_write_release(pending, end, took, &out);

	client_send_up(c, buf_slice(&out));
	buf_release(&out);
	return n;
}

void guarding_give_back(struct client *c, const struct guarded_call *pending,
                        enum guarded_end end)
{
	bool took = pending->taken || c->waiter;

	if (!c->user.link) {
		guarded_call_release(pending, end, took);
		return;
	}
	for (size_t n = send_back(c, pending, end, took); n; n--)
		link_expect(&c->user, LINK_QUIET, NULL);
}

bool guarding_hand_on(struct client *c, struct request *r, enum guarded_end end)
{
	size_t n = send_back(c, r->call, end, r->call->taken || c->waiter);

	if (n == 0)
		return false;
	for (; n > 1; n--)
		link_expect(&c->user, LINK_QUIET, NULL);
	link_expect(&c->user, LINK_QUIET | LINK_TELL, r);
	return true;
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
		/* Another has it. */
		pending->parts[i].reading->lost = true;
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
	if (slice_starts(line, SLICE_LIT("+GRANTED"))) {
		guarded_call_granted(r->call, line);
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
	enum guarded_end end = resp_reply_is_error(reply) ? GUARDED_FAILED : GUARDED_DONE;
	bool tries = r->call->way == GUARDED_TRY;

	if (tries && !trying_on_reply(c, r, reply))
		return false;
	if (!tries && r->call->way != GUARDED_SCRIPT)
		return fencing_on_reply(c, r, reply, kept);

	if (end == GUARDED_FAILED)
		guarding_give_back(c, r->call, end);
	guarded_call_end(r->call, end);
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

	guarding_give_back(c, pending, GUARDED_FAILED);
	guarded_write_locked(&error, reading_key(pending->parts[pending->stands_at].reading));
	stream_send(&c->stream, buf_slice(&error));
	buf_release(&error);
	guarded_call_end(pending, GUARDED_FAILED);
	session_forget(&c->session, r);
}
