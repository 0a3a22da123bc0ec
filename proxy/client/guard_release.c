/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/guard_release.h"

#include "client/conn.h"
#include "client/guard_events.h"
#include "client/links.h"
#include "client/lock_wait.h"

/* True if the operation may have a guard: a waiter's grant may not have reached `op` yet. */
static bool has_acquired(const struct client *c, const struct guard_op *op)
{
	return op->acquired || c->waiter;
}

/* Hasp's own connection releases what it may have acquired: the client's link may have to wait
 * for a slot on its way. */
static void release_aside(const struct client *c, const struct guard_op *op, bool withdrawn)
{
	bool granted = withdrawn && c->waiter && waiter_place(c->waiter);

	if (op->acquired || op->kind != GUARD_OP_SCRIPT || op->n > 1 || granted)
		guard_op_release(op, GUARD_OP_FAILED, true);
}

void guard_release(struct client *c, const struct guard_op *op, enum guard_op_result result)
{
	struct buf out = BUF_INIT;
	size_t n;

	if (!c->user.link) {
		guard_op_release(op, result, has_acquired(c, op));
		return;
	}
	n = guard_op_write_release(op, result, has_acquired(c, op), &out);
	links_send(c, buf_slice(&out));
	buf_release(&out);
	for (; n; n--)
		link_expect(&c->user, LINK_DISCARD, NULL);
}

void guard_release_in_vain(struct client *c, const struct guard_op *op, bool withdrawn)
{
	if (waiter_may_be_held_back(c->env->policy.waiters))
		release_aside(c, op, withdrawn);
	else
		guard_release(c, op, GUARD_OP_FAILED);
}

void guard_wait(struct client *c, struct slice line)
{
	struct guard_op *op = c->current->guard_op;
	struct buf name = BUF_INIT;
	int64_t lease_ms;
	struct lock_try t;

	if (guard_op_queue(op, line, &name, &t, &lease_ms)) {
		if (!c->waiter)
			c->waiter = waiter_new_sent(c->env->policy.waiters, op->wait_ms,
			                            op->sent_at, t.ticket, c->env->waiter_ops,
			                            c);
		(void)guard_op_step(op, GUARD_EVENT_QUEUED);
		guard_events_queued(c);
		lock_wait_queued(c, &t, lease_ms, line, op->keys[op->queued_at].entry->stats);
	} else {
		lock_wait_failed(c);
	}
	buf_release(&name);
}

void guard_ask_replicas(struct client *c)
{
	const struct guard_op *op = c->current->guard_op;
	struct replica_ask_terms terms = {
		.db = c->session.db,
		.replicas = op->replicas,
		.timeout_ms = op->replicas_timeout_ms,
	};
	struct buf name = BUF_INIT;
	struct lock_try t = guard_op_granted_try(op, &name);

	lock_wait_ask_replicas(c, &t, &terms);
	buf_release(&name);
}

void guard_end(struct client *c, struct slice answer, enum guard_op_result result)
{
	struct pending_request *r = c->current;

	client_end_wait(c);
	guard_op_complete(r->guard_op, result);
	if (answer.n)
		stream_send(&c->stream, answer);
	session_complete(&c->session, r);
	client_end_current(c);
}
