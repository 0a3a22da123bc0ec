/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/context.h"

struct slice context_token(const struct context *x, enum owner_kind kind, struct buf *room)
{
	return owner_token(room, kind, x->identity(x->arg), x->session->name,
	                   session_user(x->session));
}

/* Who has not logged in may send Redis ten arguments, and is hung up on when there are
 * more. So a shorter call is refused first; where it is not, its answer is the one
 * that has the command sent again. */
bool context_shorten(struct context *x)
{
	struct policy_env *env = x->env;

	if (x->eval || x->session->logged_in || !env->links->login_required)
		return false;
	buf_clear(&env->call);
	rewrite_error(&env->call, (struct rewrite_how){ .eval = true },
	              "NOSCRIPT the client is logged in");
	return true;
}

struct decision context_refuse(struct context *x, const char *error)
{
	struct decision d = { .verdict = DISPATCH_CALL };

	buf_clear(&x->env->call);
	rewrite_error(&x->env->call, (struct rewrite_how){ .eval = true }, error);
	return d;
}

bool context_queue_ready(struct context *x, struct lock_call *call)
{
	struct policy_env *env = x->env;
	struct waiter **waiter = x->waiter;
	struct buf error = BUF_INIT;

	if (call->wait_ms == 0)
		return true;
	if (!*waiter)
		*waiter = waiter_new(env->waiters, call->wait_ms, x->waiter_ops, x->arg);
	switch (waiter_ready(*waiter)) {
	case TRY_READY:
		waiter_sent(*waiter, call->ticket);
		return true;
	case TRY_NOT_YET:
		return false;
	case TRY_REFUSED:
		break;
	}
	buf_printf(&error, "ERR hasp: cannot wait for a lock: %s",
	           waiters_refusal(env->waiters));
	buf_append(&error, slice_of("", 1));
	buf_clear(&env->call);
	rewrite_error(&env->call, (struct rewrite_how){ .eval = true }, buf_head(&error));
	buf_release(&error);
	*call = (struct lock_call){ .effect = LOCK_EFFECT_NONE };
	return true;
}

struct rewrite_how context_rewrite_how(const struct context *x)
{
	struct rewrite_how h = {
		.eval = x->eval || x->session->in_multi || x->session->opaque,
		.resp3 = x->session->proto == 3,
	};
	const struct waiter *waiter = *x->waiter;

	h.ticket = waiters_ticket(x->env->waiters);
	/* A transaction waits for nobody; and who is not heard cannot be called in. */
	if (!x->session->in_multi && !x->session->opaque && x->session->db >= 0) {
		h.wait_max_ms = waiter ? waiter_left_ms(waiter) : INT64_MAX;
		h.place = waiter ? waiter_place(waiter) : 0;
	}
	return h;
}
