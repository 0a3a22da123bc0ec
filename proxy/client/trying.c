/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/trying.h"

#include "client/guarding.h"

/* Here, or at another worker of this process: then it would be in vain. */
static bool is_waited_for(const struct context *x, struct slice key)
{
	const struct waits *waits = x->from->env->waits;
	struct buf name = BUF_INIT;
	bool result;

	if (!waits_any(waits))
		return false;
	guarded_name(&name, key);
	result = waits_for(waits, x->session->db, buf_slice(&name));
	buf_release(&name);
	return result;
}

bool trying_may(const struct context *x, const struct guarded *g)
{
	return x->from->may_try && !*x->from->waiter && !x->eval && !x->session->opaque &&
	       g->n == 1 && !g->keys->held && !g->keys->shared &&
	       (x->what->command->flags & COMMAND_READONLY) && !is_waited_for(x, g->keys->key);
}

struct decision trying_begin(struct context *x, const struct guarded *g)
{
	struct client_env *env = x->from->env;
	struct decision d = { .verdict = DISPATCH_CALL, .barrier = true };

	rewrite_guarded_try(&env->call, g);
	d.request = request_new_of(&env->requests, REQUEST_GUARDED);
	d.request->call = guarded_call_new(env->readings, x->from->reader, x->session->db, g,
	                                   false, waits_ticket(env->waits));
	d.request->call->way = GUARDED_TRY;
	d.request->call->due = d.lead = GUARDED_TRY_LEAD;
	d.treat = d.treat_lead = LINK_TELL;
	session_track(x->session, d.request);
	return d;
}

static void go_by_script(struct client *c, struct request *r)
{
	link_hush(&c->user);
	if (r->call->taken)
		guarding_give_back(c, r->call, GUARDED_FAILED);
	session_forget(&c->session, r);
	c->refused = true;
	client_retry(c, false);
}

bool trying_on_reply(struct client *c, struct request *r, const struct resp_reply *reply)
{
	struct guarded_call *call = r->call;

	if (call->due == 0)
		return true;
	if (--call->due) {
		call->waited_for = reply->type != ':' || reply->integer != 0;
		return false;
	}
	call->taken = reply->type == '+';
	if (!call->taken || call->waited_for)
		go_by_script(c, r);
	return false;
}
