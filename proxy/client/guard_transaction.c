/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_transaction: the steps of a write of guarded keys that no script can carry out:
 * commands whose reply Lua cannot hold, scripts, and the application's own transactions. hasp
 * runs the write in a transaction that fails if a guard changes.
 *
 *   command, EXEC -> (DISCARD) WATCH guards, guard_write.lua without a command
 *                       | LOCKED, LOCKLOST --> the answer
 *                       | QUEUED --> waits in line, and once more
 *                       v GRANTED
 *                    MULTI, the command or those since MULTI, EXEC
 *                       | nil: a guard changed --> once more
 *                       v
 *                    the reply; the guards are handed off
 */
#include "client/client_internal.h"

#include "resp/write.h"

/* An answer of hasp's own, which the client does not see. */
#define UNSEEN (LINK_DISCARD | LINK_NOTIFY | LINK_CAPTURE)

static const struct slice execabort = SLICE_LIT(
	"-EXECABORT Transaction discarded because of previous errors.\r\n");

/* --- what is sent ------------------------------------------------------------------------- */

void guard_transaction_send_next(struct client *c, const struct rewrite_how *how)
{
	struct guard_op *op = c->current->guard_op;
	bool discards = op->block_open;
	struct buf out = BUF_INIT;

	/* The commands that Redis has queued of the application's transaction are sent again.
	 */
	if (discards)
		resp_write_word(&out, "DISCARD");
	op->block_open = false;
	buf_clear(&op->error);
	op->due = guard_op_write_next(op, &out, how) + discards;
	send_bytes(c, buf_slice(&out));
	for (unsigned i = 0; i < op->due; i++)
		link_expect(&c->user, UNSEEN, c->current);
	link_expect(&c->user, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, c->current);
	buf_release(&out);
}

static void send_next(struct client *c, bool eval)
{
	struct rewrite_how how;

	client_rewrite_how(c, eval, &how);
	if (c->waiter)
		waiter_sent(c->waiter, how.ticket);
	guard_op_sent(c->current->guard_op, how.ticket, c->env->policy.now);
	guard_transaction_send_next(c, &how);
}

void guard_transaction_discard(struct client *c)
{
	struct buf out = BUF_INIT;

	if (!c->current->guard_op->block_open)
		return;
	resp_write_word(&out, "DISCARD");
	send_bytes(c, buf_slice(&out));
	link_expect(&c->user, LINK_DISCARD, NULL);
	buf_release(&out);
}

static void send_unwatch(struct client *c)
{
	struct buf out = BUF_INIT;

	resp_write_word(&out, "UNWATCH");
	send_bytes(c, buf_slice(&out));
	link_expect(&c->user, LINK_DISCARD, NULL);
	buf_release(&out);
}

bool guard_transaction_forwards(const struct guard_op *op)
{
	return op->kind == GUARD_OP_WATCH_EXEC && op->phase == GUARD_OP_EXECUTE;
}

/* Sends the application's EXEC; its MULTI was sent after a WATCH of the guards. */
static void send_watched_exec(struct client *c)
{
	unsigned flags = LINK_NOTIFY | LINK_CAPTURE;
	struct buf out = BUF_INIT;

	if (complete_exec_sent(c->current))
		flags |= LINK_INTERCEPT_LATE;
	resp_write_word(&out, "EXEC");
	send_bytes(c, buf_slice(&out));
	link_expect(&c->user, flags, c->current);
	buf_release(&out);
}

void guard_transaction_send_exec(struct client *c)
{
	struct guard_op *op = c->current->guard_op;
	bool single = op->kind == GUARD_OP_SINGLE;
	struct slice what = single ? slice_of(buf_head(&c->in), c->scanned)
	                           : buf_slice(&op->block);
	struct buf out = BUF_INIT;

	if (op->kind == GUARD_OP_WATCH_EXEC) {
		send_watched_exec(c);
		return;
	}
	HASP_ASSERT(what.p);
	if (!single)
		(void)complete_exec_sent(c->current);
	resp_write_word(&out, "MULTI");
	buf_append(&out, what);
	resp_write_word(&out, "EXEC");
	op->due = 1 + (single ? 1 : (unsigned)op->ncommands);
	send_bytes(c, buf_slice(&out));
	for (unsigned i = 0; i <= op->due; i++)
		link_expect(&c->user, UNSEEN, c->current);
	buf_release(&out);
}

/* --- how it ends ------------------------------------------------------------------------ */

void guard_transaction_refused(struct client *c)
{
	transaction_abort(&c->session.txn);
	if (c->current && c->current->guard_op)
		c->current->guard_op->aborted = true;
}

/* Sends `answer` to the client, unless it is empty, and ends `current`. `captured`: EXEC's
 * reply, if it was carried out. */
static void complete_transaction(struct client *c, struct slice answer,
                                 enum guard_op_result result, const struct resp_reply *reply,
                                 struct slice captured)
{
	struct pending_request *r = c->current;
	bool is_exec = r->kind == PENDING_EXEC && reply;

	guard_op_complete(r->guard_op, result);
	if (answer.n && is_exec && result != GUARD_OP_FAILED && complete_exec_is_late(r))
		complete_exec_refuse(c, r);
	else if (answer.n)
		stream_send(&c->stream, answer);
	if (is_exec)
		complete_request(c, r, reply, captured);
	else
		session_complete(&c->session, r);
	client_end_current(c);
}

/* Nothing was carried out: `answer` is EXEC's, or the command's. */
static void abort_transaction(struct client *c, struct slice answer)
{
	send_unwatch(c);
	guard_release(c, c->current->guard_op, GUARD_OP_FAILED);
	complete_transaction(c, answer, GUARD_OP_FAILED, NULL, SLICE_NONE);
}

/* Redis has answered. `answer` lies in `captured`, or there is none of the latter. */
static void end_transaction(struct client *c, struct slice answer, enum guard_op_result result,
                            const struct resp_reply *reply, struct slice captured)
{
	struct guard_op *op = c->current->guard_op;

	(void)guard_op_step(op, GUARD_EVENT_REPLY);
	guard_release(c, op, result);
	complete_transaction(c, answer, result, reply, captured);
}

/* Sends the application's MULTI, after the WATCH that the application does not see. */
static void begin_multi(struct client *c, enum transaction_guards guards)
{
	session_complete(&c->session, c->current);
	c->current = pending_new(PENDING_MULTI);
	send_bytes(c, slice_of(buf_head(&c->in), c->scanned));
	session_await(&c->session, c->current);
	transaction_begin(&c->session.txn);
	c->session.txn.guards = guards;
	link_expect(&c->user, LINK_NOTIFY, c->current);
}

/* --- what is answered ------------------------------------------------------------------- */

static void refuse(struct client *c, enum guard_op_event event, struct slice line)
{
	struct guard_op *op = c->current->guard_op;
	struct slice error = buf_slice(&op->error);

	if (event == GUARD_EVENT_REFUSED)
		guard_op_refused(op, line);
	if (op->aborted)
		abort_transaction(c, execabort);
	else
		abort_transaction(c, error.n ? error : line);
}

void guard_transaction_on_line(struct client *c, struct slice line)
{
	struct guard_op *op = c->current->guard_op;
	enum guard_op_event event = buf_len(&op->error) ? GUARD_EVENT_REFUSED
	                                                : guard_op_event_of(line);

	if (event == GUARD_EVENT_QUEUED && op->kind != GUARD_OP_WATCH_MULTI) {
		send_unwatch(c);
		guard_wait(c, line);
		return;
	}
	if (event == GUARD_EVENT_GRANTED)
		guard_op_granted(op, line);
	if (event == GUARD_EVENT_REFUSED)
		guard_events_refused(c, line);
	switch (guard_op_step(op, event)) {
	case GUARD_STEP_SEND_NEXT:
		if (event == GUARD_EVENT_GRANTED && guard_op_awaits_replicas(op))
			guard_ask_replicas(c);
		else
			send_next(c, event == GUARD_EVENT_NOSCRIPT);
		break;
	case GUARD_STEP_SEND_EXEC:
		guard_transaction_send_exec(c);
		break;
	case GUARD_STEP_BEGIN_MULTI:
		begin_multi(c, event == GUARD_EVENT_GRANTED ? TRANSACTION_GUARDS_WATCHED
		                                            : TRANSACTION_GUARDS_LOST);
		break;
	case GUARD_STEP_ABORT:
		refuse(c, event, line);
		break;
	default:
		client_close(c, "the answer about a guard is not understood");
		break;
	}
}

void guard_transaction_on_acked(struct client *c, bool enough)
{
	static const struct slice refusal = SLICE_LIT(LOCK_WAIT_NOREPLICAS "\r\n");
	struct guard_op *op = c->current->guard_op;

	if (enough) {
		send_next(c, false);
		return;
	}
	(void)guard_op_step(op, GUARD_EVENT_UNACKED);
	guard_release(c, op, GUARD_OP_FAILED);
	complete_transaction(c, refusal, GUARD_OP_FAILED, NULL, SLICE_NONE);
}

/* The transaction around one command is unwrapped. */
static void end_single(struct client *c, const struct resp_reply *reply, struct slice captured)
{
	static const struct slice header = { "*1\r\n", 4 };
	struct slice error = buf_slice(&c->current->guard_op->error);
	struct slice answer = captured;
	bool failed = resp_reply_is_error(reply);

	if (failed && error.n)
		answer = captured = error;
	else if (!failed && slice_starts(captured, header))
		answer = slice_of(captured.p + header.n, captured.n - header.n);
	failed |= answer.n && (*answer.p == '-' || *answer.p == '!');
	end_transaction(c, answer, failed ? GUARD_OP_FAILED : GUARD_OP_CARRIED_OUT, reply,
	                captured);
}

static enum guard_op_result result_of(const struct resp_reply *reply, struct slice captured)
{
	struct slice elements = reply_elements(captured);
	struct resp_reply each;

	if (resp_reply_is_error(reply) || reply->nil)
		return GUARD_OP_FAILED;
	while (reply_next(&elements, &each))
		if (resp_reply_is_error(&each))
			return GUARD_OP_PARTLY;
	return captured.n ? GUARD_OP_CARRIED_OUT : GUARD_OP_PARTLY;
}

/* A guard changed since it was checked: nothing was carried out. */
static void try_again(struct client *c)
{
	struct guard_op *op = c->current->guard_op;
	struct buf locked = BUF_INIT;

	if (guard_op_step(op, GUARD_EVENT_CHANGED) == GUARD_STEP_SEND_NEXT) {
		send_next(c, false);
		return;
	}
	rewrite_guard_locked_error(&locked, read_set_entry_key(op->keys[0].entry));
	guard_release(c, op, GUARD_OP_FAILED);
	complete_transaction(c, buf_slice(&locked), GUARD_OP_FAILED, NULL, SLICE_NONE);
	buf_release(&locked);
}

static void end_execution(struct client *c, const struct resp_reply *reply,
                          struct slice captured)
{
	struct guard_op *op = c->current->guard_op;

	/* The application's own WATCH: EXEC's nil shows that nothing was read. */
	op->answered |= op->kind == GUARD_OP_WATCH_EXEC && reply->nil;
	if (guard_transaction_forwards(op))
		end_transaction(c, SLICE_NONE, result_of(reply, captured), reply, captured);
	else if (reply->nil && op->kind != GUARD_OP_WATCH_EXEC)
		try_again(c);
	else if (op->kind == GUARD_OP_SINGLE)
		end_single(c, reply, captured);
	else
		end_transaction(c, captured, result_of(reply, captured), reply, captured);
}

/* The reply was longer than LINK_CAPTURE_MAX: it is lost. */
static void end_too_long(struct client *c)
{
	guard_release(c, c->current->guard_op, GUARD_OP_PARTLY);
	guard_op_complete(c->current->guard_op, GUARD_OP_PARTLY);
	session_complete(&c->session, c->current);
	c->current = NULL;
	client_finish(c, "the answer of a fenced command is too long to be kept");
}

void guard_transaction_on_reply(struct client *c, const struct resp_reply *reply,
                                struct slice captured)
{
	struct guard_op *op = c->current->guard_op;

	if (op->due) {
		op->due--;
		if (resp_reply_is_error(reply) && buf_len(&op->error) == 0)
			buf_append(&op->error, captured);
	} else if (op->phase != GUARD_OP_EXECUTE) {
		/* A check is answered by a line. */
		client_close(c, "the answer about a guard is not understood");
	} else if (captured.n == 0 && !guard_transaction_forwards(op) && !reply->nil) {
		end_too_long(c);
	} else {
		end_execution(c, reply, captured);
	}
}
