/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/guard_exchange.h"

#include "client/conn.h"
#include "client/guard_events.h"
#include "client/guard_release.h"
#include "client/guard_transaction.h"
#include "client/links.h"
#include "client/lock_wait.h"
#include "client/request_context.h"
#include "commands/command.h"

/* --- what is sent ------------------------------------------------------------------------- */

/* Sends env->rewritten: `n` answers before the last one are for the operation, too. */
static void send_op(struct client *c, unsigned n, unsigned flags)
{
	links_send_call(c, buf_slice(&c->env->policy.rewritten));
	for (unsigned i = 0; i < n; i++)
		link_expect(&c->user, LINK_DISCARD | LINK_NOTIFY, c->current);
	link_expect(&c->user, LINK_NOTIFY | flags, c->current);
}

static void send_try(struct client *c, const struct context *x)
{
	struct guard_op *op = c->current->guard_op;

	guard_op_write_try(op, &x->env->rewritten, x->req);
	send_op(c, op->due, LINK_INTERCEPT);
}

static void send_script(struct client *c, const struct context *x)
{
	struct guard_op *op = c->current->guard_op;
	struct key_args args;

	key_args_init(&args, x->what->command, x->req);
	guard_op_write_script(op, &x->env->rewritten, x->req, args.v, args.n, &x->how);
	send_op(c, 0, LINK_INTERCEPT | LINK_INTERCEPT_STATUS);
	key_args_fini(&args);
}

/* The guards are there; the command goes out as it came, from the head of `in`. */
static void send_command(struct client *c)
{
	links_send(c, slice_of(buf_head(&c->in), c->scanned));
	link_expect(&c->user, LINK_NOTIFY | LINK_INTERCEPT, c->current);
}

static void send_step(struct client *c, const struct context *x, enum guard_op_step step)
{
	buf_clear(&x->env->rewritten);
	guard_op_sent(c->current->guard_op, x->how.ticket, x->env->now);
	if (step == GUARD_STEP_SEND_TRY) {
		send_try(c, x);
	} else if (step == GUARD_STEP_SEND_SCRIPT) {
		send_script(c, x);
	} else if (step == GUARD_STEP_SEND_NEXT) {
		guard_transaction_send_next(c, &x->how);
	} else {
		HASP_ASSERT(step == GUARD_STEP_SEND_EXEC);
		guard_transaction_send_exec(c);
	}
	if (list_empty(&c->current->node))
		session_await(&c->session, c->current);
	client_park(c, CLIENT_PARKED_REPLY);
}

/* False: an error was sent instead. */
static bool go(struct client *c, const struct context *x, enum guard_op_event event)
{
	struct guard_op *op = c->current->guard_op;
	int64_t wait_ms = x->how.wait_max_ms < op->wait_ms ? x->how.wait_max_ms : op->wait_ms;
	bool waits = op->kind != GUARD_OP_WATCH_MULTI && op->kind != GUARD_OP_WATCH_EXEC &&
	             !(op->phase == GUARD_OP_NEW && op->optimistic);

	switch (lock_wait_ready(c, guard_op_first_key(op), waits ? wait_ms : 0, x->how.ticket,
	                        true)) {
	case LOCK_WAIT_READY:
		break;
	case LOCK_WAIT_PARKED:
		session_withdraw(&c->session, c->current);
		return true;
	case LOCK_WAIT_REFUSED:
		guard_op_complete(op, GUARD_OP_FAILED);
		guard_transaction_discard(c);
		lock_wait_refuse(c);
		return false;
	}
	send_step(c, x, guard_op_step(op, event));
	return true;
}

bool guard_exchange_start(struct client *c, struct context *x)
{
	/* (The command may just have ended the application's transaction.) */
	lock_wait_how(c, false, &x->how);
	return go(c, x, GUARD_EVENT_START);
}

static enum guard_op_event event_again(const struct guard_op *op)
{
	switch (op->phase) {
	case GUARD_OP_NEW:
		return GUARD_EVENT_START;
	case GUARD_OP_TRY:
		return GUARD_EVENT_NOT_FREE;
	case GUARD_OP_QUEUED:
	case GUARD_OP_EXECUTE:
		return GUARD_EVENT_RESUMED;
	default:
		return GUARD_EVENT_NOSCRIPT;
	}
}

void guard_exchange_again(struct client *c)
{
	struct guard_op *op = c->current->guard_op;
	enum guard_op_event event = event_again(op);
	struct command_info what;
	struct resp_view view;
	struct context x;

	/* (A transaction was taken apart when it was decided about.) */
	if (op->kind == GUARD_OP_SCRIPT && !client_is_decided(c)) {
		guard_op_withdraw(op);
		client_decide_again(c);
		return;
	}
	x = request_context_again(c, &view, &what);
	/* The link may have gone while the client waited, and what the command needs may have
	 * changed. */
	if (!links_take(c, links_route(c, &what, &view))) {
		session_withdraw(&c->session, c->current);
		client_park(c, CLIENT_PARKED_LINK);
		return;
	}
	lock_wait_how(c, event == GUARD_EVENT_NOSCRIPT, &x.how);
	if (!go(c, &x, event))
		client_end_current(c);
}

/* --- what is answered ------------------------------------------------------------------- */

bool guard_exchange_on_line(struct client *c, struct slice line)
{
	struct guard_op *op = c->current->guard_op;

	if (op->kind != GUARD_OP_SCRIPT) {
		guard_transaction_on_line(c, line);
		return false;
	}
	switch (guard_op_event_of(line)) {
	case GUARD_EVENT_QUEUED:
		guard_wait(c, line);
		return false;
	case GUARD_EVENT_GRANTED:
		guard_op_granted(op, line);
		if (guard_op_step(op, GUARD_EVENT_GRANTED) != GUARD_STEP_SEND_COMMAND)
			return true;
		if (guard_op_awaits_replicas(op))
			guard_ask_replicas(c);
		else
			send_command(c);
		return false;
	case GUARD_EVENT_NOSCRIPT:
		guard_exchange_again(c);
		return false;
	default:
		if (line.p[0] == '-') {
			guard_events_refused(c, line);
			guard_op_refused(op, line);
		}
		return true;
	}
}

/* The guard was not free: releases what was acquired, discards the command's reply, and sends
 * the script. */
static void fall_back_to_script(struct client *c)
{
	struct guard_op *op = c->current->guard_op;

	link_discard_head(&c->user);
	if (op->acquired)
		guard_release(c, op, GUARD_OP_FAILED);
	op->acquired = false;
	guard_exchange_again(c);
}

void guard_exchange_on_reply(struct client *c, const struct resp_reply *reply,
                             struct slice captured)
{
	struct guard_op *op = c->current->guard_op;
	bool failed = resp_reply_is_error(reply);

	if (op->kind != GUARD_OP_SCRIPT && op->phase != GUARD_OP_NEW) {
		guard_transaction_on_reply(c, reply, captured);
		return;
	}
	if (op->phase == GUARD_OP_TRY && op->due) {
		if (!guard_op_tried(op, reply))
			fall_back_to_script(c);
		return;
	}
	/* (GUARD_OP_NEW: the client is not logged in, and was refused before the first step.)
	 */
	if (op->phase != GUARD_OP_NEW)
		(void)guard_op_step(op, GUARD_EVENT_REPLY);
	if (failed)
		guard_release(c, op, GUARD_OP_FAILED);
	guard_end(c, SLICE_NONE, failed ? GUARD_OP_FAILED : GUARD_OP_CARRIED_OUT);
}

void guard_exchange_on_acked(struct client *c, bool enough)
{
	static const struct slice refusal = SLICE_LIT(LOCK_WAIT_NOREPLICAS "\r\n");
	struct guard_op *op = c->current->guard_op;

	/* The client may have lost its link since. */
	if (enough && !links_is_usable(c)) {
		guard_exchange_again(c);
	} else if (op->kind != GUARD_OP_SCRIPT) {
		guard_transaction_on_acked(c, enough);
	} else if (enough) {
		send_command(c);
	} else {
		(void)guard_op_step(op, GUARD_EVENT_UNACKED);
		guard_release(c, op, GUARD_OP_FAILED);
		guard_end(c, refusal, GUARD_OP_FAILED);
	}
}

/* The script. No release: what the client does next relies on it. */
bool guard_exchange_may_be_withdrawn(const struct client *c)
{
	return c->current->guard_op->phase == GUARD_OP_SCRIPTED;
}

/* Ends a wait that did not get the guard; `answer` says why. */
static void end_wait_in_vain(struct client *c, struct slice answer)
{
	struct guard_op *op = c->current->guard_op;
	bool withdrawn = guard_exchange_may_be_withdrawn(c);

	(void)guard_op_step(op, GUARD_EVENT_TIMED_OUT);
	guard_release_in_vain(c, op, withdrawn);
	guard_end(c, answer, GUARD_OP_FAILED);
}

void guard_exchange_on_timed_out(struct client *c)
{
	struct slice key = guard_op_queued_key(c->current->guard_op);
	struct buf answer = BUF_INIT;

	guard_events_timed_out(c);
	if (!lock_wait_is_outage(c, key, &answer))
		rewrite_guard_locked_error(&answer, key);
	end_wait_in_vain(c, buf_slice(&answer));
	buf_release(&answer);
}

void guard_exchange_on_deadlock(struct client *c, struct slice error)
{
	guard_events_deadlock(c);
	end_wait_in_vain(c, error);
}
