/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/guard_release.h"

#include "client/conn.h"
#include "client/guard_events.h"
#include "client/links.h"
#include "client/lock_wait.h"

/* A waiter may have been granted the guard without the operation being told. */
static bool has_acquired(const struct client *c, const struct guard_op *op)
{
	return op->acquired || c->waiter;
}

static bool guard_may_be_held_back(const struct client *c)
{
	return waiter_may_be_held_back(c->env->policy.waiters);
}

/* Hasp's own connection releases what it may have acquired: the client's link may have to wait
 * for a slot on its way. */
static void release_aside(const struct client *c, const struct guard_op *op, bool withdrawn)
{
	bool granted = withdrawn && c->waiter && waiter_place(c->waiter);

	if (op->acquired || op->unread || op->kind != GUARD_OP_SCRIPT || op->n > 1 || granted)
		guard_op_release(op, GUARD_OP_FAILED, true);
}

/* Sends the releases. Returns how many answers will come. */
static size_t send_releases(struct client *c, const struct guard_op *op,
                            enum guard_op_result result, bool lists_readers)
{
	struct buf out = BUF_INIT;
	size_t n = 0;

	if (lists_readers && guard_may_be_held_back(c))
		release_aside(c, op, false);
	else
		n = guard_op_write_release(op, result, has_acquired(c, op), &out);
	if (lists_readers)
		n += guard_op_write_readers(op, &out);
	links_send(c, buf_slice(&out));
	buf_release(&out);
	return n;
}

void guard_release(struct client *c, const struct guard_op *op, enum guard_op_result result)
{
	if (!c->user.link) {
		guard_op_release(op, result, has_acquired(c, op));
		return;
	}
	for (size_t n = send_releases(c, op, result, false); n; n--)
		link_expect(&c->user, LINK_DISCARD, NULL);
}

void guard_release_in_vain(struct client *c, const struct guard_op *op, bool withdrawn)
{
	if (guard_may_be_held_back(c))
		release_aside(c, op, withdrawn);
	else
		guard_release(c, op, GUARD_OP_FAILED);
}

bool guard_release_awaited(struct client *c, struct pending_request *r,
                           enum guard_op_result result, bool lists_readers)
{
	size_t n = send_releases(c, r->guard_op, result, lists_readers);

	if (n == 0)
		return false;
	for (; n > 1; n--)
		link_expect(&c->user, LINK_DISCARD, NULL);
	link_expect(&c->user, LINK_DISCARD | LINK_NOTIFY, r);
	return true;
}

bool guard_release_failed(struct client *c, struct slice answer)
{
	struct guard_op *op = c->current->guard_op;

	if (op->phase != GUARD_OP_HAND_OFF || !c->user.link) {
		(void)guard_op_step(op, GUARD_EVENT_RELEASED);
		guard_release(c, op, GUARD_OP_FAILED);
		return false;
	}
	buf_append(&op->answer, answer);
	op->result = GUARD_OP_FAILED;
	pending_charge(c->current, &c->session.pending_nbytes);
	if (!guard_release_awaited(c, c->current, GUARD_OP_FAILED, false))
		return false;
	client_end_wait(c);
	return true;
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

	guard_op_complete(r->guard_op, result);
	if (answer.n)
		stream_send(&c->stream, answer);
	session_complete(&c->session, r);
	client_end_current(c);
}
