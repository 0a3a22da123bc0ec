/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/guard_exchange.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "client/guard_transaction.h"
#include "lock/rewrite/guard.h"

/* Returns how many answers will come. */
static size_t send_releases(struct client *c, const struct guard_op *pending,
                            enum guard_op_result end, bool took)
{
	struct buf out = BUF_INIT;
	size_t n = guard_op_write_release(pending, end, took, &out);

	client_send_up(c, buf_slice(&out));
	buf_release(&out);
	return n;
}

void guard_exchange_release(struct client *c, const struct guard_op *pending,
                            enum guard_op_result end)
{
	bool took = pending->taken || c->waiter;

	if (!c->user.link) {
		guard_op_release(pending, end, took);
		return;
	}
	for (size_t n = send_releases(c, pending, end, took); n; n--)
		link_expect(&c->user, LINK_DISCARD, NULL);
}

bool guard_exchange_hand_off(struct client *c, struct pending_request *r,
                             enum guard_op_result end)
{
	size_t n = send_releases(c, r->call, end, r->call->taken || c->waiter);

	if (n == 0)
		return false;
	for (; n > 1; n--)
		link_expect(&c->user, LINK_DISCARD, NULL);
	link_expect(&c->user, LINK_DISCARD | LINK_NOTIFY, r);
	return true;
}

/* `+QUEUED place now held i` */
void guard_exchange_enqueue(struct client *c, struct pending_request *r, struct slice line)
{
	struct guard_op *pending = r->call;
	const char *last = memrchr(line.p, ' ', line.n);
	size_t number = last ? strtoul(last, NULL, 10) : 0;
	size_t i = number ? guard_op_key_at(pending, number - 1) : pending->n;
	struct buf name = BUF_INIT;
	struct lock_try t;
	int stands = -1;

	if (i < pending->n) {
		pending->queued_at = i;
		/* Another has it. */
		pending->keys[i].read_set_entry->lost = true;
		t = guard_op_try(pending, i, &name);
		if (!c->waiter)
			c->waiter = waiter_new_sent(c->env->policy.waiters, pending->wait_ms,
			                            pending->sent_at, t.ticket,
			                            &client_waiter_ops, c);
		c->waiting = WAIT_TURN;
		stands = waiter_queued(c->waiter, c->session.db, &t, pending->keys[i].lease_ms,
		                       line, r);
		buf_release(&name);
	}
	client_queued(c, stands == 0);
}

/* The guards are there; the command goes out as it came, from the head of `in`. */
static void send_command(struct client *c, struct pending_request *r)
{
	client_send_up(c, slice_of(buf_head(&c->in), c->scanned));
	link_expect(&c->user, LINK_NOTIFY, r);
}

static void fall_back_to_script(struct client *c, struct pending_request *r)
{
	link_discard_head(&c->user);
	if (r->call->taken)
		guard_exchange_release(c, r->call, GUARD_OP_FAILED);
	session_complete(&c->session, r);
	c->refused = true;
	client_retry(c, false);
}

static bool optimistic_on_reply(struct client *c, struct pending_request *r,
                                const struct resp_reply *reply)
{
	struct guard_op *call = r->call;

	if (call->due == 0)
		return true;
	if (--call->due) {
		call->has_waiters = reply->type != ':' || reply->integer != 0;
		return false;
	}
	call->taken = reply->type == '+';
	if (!call->taken || call->has_waiters)
		fall_back_to_script(c, r);
	return false;
}

bool guard_exchange_on_line(struct client *c, struct pending_request *r, struct slice line)
{
	if (r->call->kind != GUARD_OP_SCRIPT)
		return guard_transaction_on_line(c, r, line);
	if (slice_starts(line, SLICE_LIT("+QUEUED "))) {
		guard_exchange_enqueue(c, r, line);
		return false;
	}
	if (slice_starts(line, SLICE_LIT("+GRANTED"))) {
		guard_op_granted(r->call, line);
		send_command(c, r);
		return false;
	}
	if (slice_starts(line, SLICE_LIT("-NOSCRIPT"))) {
		session_complete(&c->session, r);
		client_retry(c, true);
		return false;
	}
	if (line.p[0] == '-')
		guard_op_failed(r->call, line);
	return true;
}

bool guard_exchange_on_reply(struct client *c, struct pending_request *r,
                             const struct resp_reply *reply, struct slice kept)
{
	enum guard_op_result end = resp_reply_is_error(reply) ? GUARD_OP_FAILED : GUARD_OP_DONE;
	bool attempts = r->call->kind == GUARD_OP_OPTIMISTIC;

	if (attempts && !optimistic_on_reply(c, r, reply))
		return false;
	if (!attempts && r->call->kind != GUARD_OP_SCRIPT)
		return guard_transaction_on_reply(c, r, reply, kept);

	if (end == GUARD_OP_FAILED)
		guard_exchange_release(c, r->call, end);
	guard_op_complete(r->call, end);
	session_complete(&c->session, r);
	return true;
}

void guard_exchange_resume(struct client *c, struct pending_request *r)
{
	if (r->call->kind != GUARD_OP_SCRIPT) {
		guard_transaction_resume(c, r);
		return;
	}
	session_complete(&c->session, r);
	client_retry(c, false);
}

void guard_exchange_on_timed_out(struct client *c, struct pending_request *r)
{
	struct guard_op *pending = r->call;
	struct buf error = BUF_INIT;

	guard_exchange_release(c, pending, GUARD_OP_FAILED);
	rewrite_guard_locked_error(
		&error, read_set_entry_key(pending->keys[pending->queued_at].read_set_entry));
	stream_send(&c->stream, buf_slice(&error));
	buf_release(&error);
	guard_op_complete(pending, GUARD_OP_FAILED);
	session_complete(&c->session, r);
}
