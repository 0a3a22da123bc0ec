/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_steps: what hasp sends for a command on guarded keys, and the action after each answer.
 * lock/guard/guard_op.h has the diagram of the steps. A write that no script can carry out
 * (commands whose reply Lua cannot hold, scripts, and the application's own transactions) runs
 * in a transaction that fails if a guard changes:
 *
 *   command, EXEC -> (DISCARD) WATCH guards, guard_write.lua without a command
 *                       | LOCKED, LOCKLOST --> the answer
 *                       | QUEUED --> waits in line, then again
 *                       v GRANTED
 *                    MULTI, the command or those since MULTI, EXEC
 *                       | nil: a guard changed --> again
 *                       v
 *                    the reply; the guards are handed off
 *
 * hasp releases guards over the client's own link, before it sends the client's next request.
 */
#include "client/op.h"

#include "lock/guard/guard_op.h"
#include "resp/write.h"
#include "upstream/link.h"

/* LINK_*: hasp reads the reply, but the client does not get it. */
#define UNSEEN (LINK_DISCARD | LINK_NOTIFY | LINK_CAPTURE)

static struct guard_op *op_of(const struct op_facts *f)
{
	return f->request->guard_op;
}

/* --- sending ------------------------------------------------------------------------------ */

static void send_word(const struct op_facts *f, const char *word)
{
	resp_write_word(&f->out->send.bytes, word);
	f->out->send.ndiscards++;
}

/* Sends the command as it came, because the guards are acquired. */
static struct op_action send_command(const struct op_facts *f)
{
	f->out->send.more = f->bytes;
	f->out->send.flags = LINK_NOTIFY | LINK_INTERCEPT;
	return (struct op_action){ .act = OP_AWAIT };
}

/* Sends the script call in call->out. */
static void send_out(const struct op_facts *f, const struct op_request *call, unsigned flags)
{
	f->out->send.more = buf_slice(call->out);
	f->out->send.is_call = true;
	f->out->send.flags = LINK_NOTIFY | LINK_INTERCEPT | flags;
}

static void send_try(const struct op_facts *f, const struct op_request *call)
{
	struct guard_op *op = op_of(f);

	guard_op_write_try(op, call->out, call->req);
	f->out->send.nunseen = op->due;
	f->out->send.unseen = LINK_DISCARD | LINK_NOTIFY;
	send_out(f, call, 0);
}

static void send_script(const struct op_facts *f, const struct op_request *call)
{
	guard_op_write_script(op_of(f), call->out, call->req, call->keys, call->opts);
	send_out(f, call, LINK_INTERCEPT_STATUS);
}

/* Sends the next step of a transaction. */
static void send_next(const struct op_facts *f, const struct rewrite_opts *opts)
{
	struct guard_op *op = op_of(f);
	bool discards = op->block_open;

	/* Redis has queued the application's commands. Drop them: hasp sends them again. */
	if (discards)
		resp_write_word(&f->out->send.bytes, "DISCARD");
	op->block_open = false;
	buf_clear(&op->error);
	op->due = guard_op_write_next(op, &f->out->send.bytes, opts) + discards;
	f->out->send.nunseen = op->due;
	f->out->send.unseen = UNSEEN;
	f->out->send.flags = LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS;
}

void guard_steps_next(const struct op_facts *f, const struct rewrite_opts *opts)
{
	if (f->waiter)
		waiter_sent(f->waiter, opts->ticket);
	guard_op_sent(op_of(f), opts->ticket, f->now);
	send_next(f, opts);
}

/* Sends the EXEC of an application's transaction whose guards hasp watched before MULTI. */
static void send_watched_exec(const struct op_facts *f)
{
	bool may_be_late = lock_op_exec_sent(f->request);

	resp_write_word(&f->out->send.bytes, "EXEC");
	f->out->send.flags = LINK_NOTIFY | LINK_CAPTURE |
	                     (may_be_late ? LINK_INTERCEPT_LATE : 0);
}

static void send_exec(const struct op_facts *f)
{
	struct guard_op *op = op_of(f);
	bool single = op->kind == GUARD_OP_SINGLE;
	struct slice commands = single ? f->bytes : buf_slice(&op->block);

	if (op->kind == GUARD_OP_WATCH_EXEC) {
		send_watched_exec(f);
		return;
	}
	HASP_ASSERT(commands.p);
	if (!single)
		(void)lock_op_exec_sent(f->request);
	resp_write_word(&f->out->send.bytes, "MULTI");
	buf_append(&f->out->send.bytes, commands);
	resp_write_word(&f->out->send.bytes, "EXEC");
	op->due = 1 + (single ? 1 : (unsigned)op->ncommands);
	f->out->send.nunseen = op->due + 1;
	f->out->send.unseen = UNSEEN;
}

int64_t guard_steps_wait_ms(const struct guard_op *op, int64_t most)
{
	if (op->kind == GUARD_OP_WATCH_MULTI || op->kind == GUARD_OP_WATCH_EXEC ||
	    (op->phase == GUARD_OP_NEW && op->optimistic))
		return 0;
	return most < op->wait_ms ? most : op->wait_ms;
}

/* Returns the event that makes the operation go on from its present step. */
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

bool guard_steps_lacks_script(const struct guard_op *op)
{
	return event_again(op) == GUARD_EVENT_NOSCRIPT;
}

void guard_steps_send(const struct op_facts *f, const struct op_request *call)
{
	struct guard_op *op = op_of(f);
	enum guard_op_step step = guard_op_step(op, event_again(op));

	buf_clear(call->out);
	guard_op_sent(op, call->opts->ticket, f->now);
	if (step == GUARD_STEP_SEND_TRY) {
		send_try(f, call);
	} else if (step == GUARD_STEP_SEND_SCRIPT) {
		send_script(f, call);
	} else if (step == GUARD_STEP_SEND_NEXT) {
		send_next(f, call->opts);
	} else {
		HASP_ASSERT(step == GUARD_STEP_SEND_EXEC);
		send_exec(f);
	}
}

/* --- waits -------------------------------------------------------------------------------- */

/* Puts the client in line for the guard, after the answer `+QUEUED ...`. */
static struct op_action wait_in_line(const struct op_facts *f, struct slice line)
{
	struct guard_op *op = op_of(f);

	if (!guard_op_queue(op, line, &f->out->own, &f->out->lock))
		return (struct op_action){ .act = OP_CLOSE };
	f->out->line = line;
	f->out->wait_ms = op->wait_ms;
	f->out->sent_at = op->sent_at;
	f->out->stats = op->keys[op->queued_at].entry->stats;
	(void)guard_op_step(op, GUARD_EVENT_QUEUED);
	return (struct op_action){ .act = OP_WAIT };
}

/* Asks replicas whether they have the granted guards. The command waits for their answers. */
static struct op_action ask_about_guards(const struct op_facts *f)
{
	const struct guard_op *op = op_of(f);

	f->out->terms = (struct replica_ask_terms){ .db = f->db,
		                                    .replicas = op->replicas,
		                                    .timeout_ms = op->replicas_timeout_ms };
	f->out->lock = guard_op_granted_try(op, &f->out->own);
	return (struct op_action){ .act = OP_ASK_REPLICAS };
}

/* --- how it ends -------------------------------------------------------------------------- */

/* True if the operation may have a guard: Redis may have granted it to the waiter by now. */
static bool has_acquired(const struct op_facts *f)
{
	return op_of(f)->acquired || f->waiter;
}

/* Releases acquired guards that the command did not read, or no longer needs. */
static void release(const struct op_facts *f, enum guard_op_result result)
{
	struct op_send *s = &f->out->send;

	if (f->has_link)
		s->ndiscards += (unsigned)guard_op_write_release(op_of(f), result,
		                                                 has_acquired(f), &s->bytes);
	else
		guard_op_release(op_of(f), result, has_acquired(f));
}

/* Releases the guards of a command whose wait failed. In front of a cluster, uses hasp's own
 * connection, so that a migrating slot does not delay the client. `withdrawn`: no server has
 * carried out the last request. */
static void release_in_vain(const struct op_facts *f, bool withdrawn)
{
	const struct guard_op *op = op_of(f);
	bool granted = withdrawn && f->waiter && waiter_place(f->waiter);

	if (!waiter_may_be_held_back(f->waiters))
		release(f, GUARD_OP_FAILED);
	else if (op->acquired || op->kind != GUARD_OP_SCRIPT || op->n > 1 || granted)
		guard_op_release(op, GUARD_OP_FAILED, true);
}

/* Ends the operation with `answer`. If `answer` is empty, the link passes Redis' reply. */
static struct op_action complete(const struct op_facts *f, struct slice answer,
                                 enum guard_op_result result)
{
	guard_op_complete(op_of(f), result);
	return (struct op_action){ .act = OP_DONE, .answer = answer };
}

/* Ends an operation that had no effect in Redis. */
static struct op_action end_in_vain(const struct op_facts *f, struct slice answer)
{
	release(f, GUARD_OP_FAILED);
	return complete(f, answer, GUARD_OP_FAILED);
}

void guard_steps_give_up(const struct op_facts *f)
{
	guard_op_complete(op_of(f), GUARD_OP_FAILED);
	/* Make Redis drop the queued commands of the application's transaction. */
	if (op_of(f)->block_open)
		send_word(f, "DISCARD");
}

/* Ends a transaction without effect. `answer`: the answer to EXEC, or to one command. */
static struct op_action abort_transaction(const struct op_facts *f, struct slice answer)
{
	send_word(f, "UNWATCH");
	return end_in_vain(f, answer);
}

/* Ends an operation that Redis answered. `answer`: part of `captured`, a constant, or empty. */
static struct op_action end_transaction(const struct op_facts *f, struct slice answer,
                                        enum guard_op_result result,
                                        const struct resp_reply *reply, struct slice captured)
{
	struct op_action a;

	(void)guard_op_step(op_of(f), GUARD_EVENT_REPLY);
	release(f, result);
	a = complete(f, answer, result);
	if (f->request->kind != PENDING_EXEC)
		return a;
	a.act = OP_END;
	a.reply = *reply;
	a.captured = captured;
	a.carried_out = result != GUARD_OP_FAILED;
	return a;
}

/* --- a command that one script carries out ------------------------------------------------ */

static struct op_action script_line(const struct op_facts *f, struct slice line)
{
	struct guard_op *op = op_of(f);

	switch (guard_op_event_of(line)) {
	case GUARD_EVENT_QUEUED:
		return wait_in_line(f, line);
	case GUARD_EVENT_GRANTED:
		guard_op_granted(op, line);
		if (guard_op_step(op, GUARD_EVENT_GRANTED) != GUARD_STEP_SEND_COMMAND)
			break;
		return guard_op_awaits_replicas(op) ? ask_about_guards(f) : send_command(f);
	case GUARD_EVENT_NOSCRIPT:
		return (struct op_action){ .act = OP_AGAIN };
	default:
		if (line.p[0] == '-')
			guard_op_refused(op, line);
		break;
	}
	return (struct op_action){ .act = OP_PASS };
}

/* Handles a guard that was not free: releases the other guards that were acquired, discards the
 * command's reply, and sends the script. */
static struct op_action fall_back_to_script(const struct op_facts *f)
{
	struct guard_op *op = op_of(f);
	struct op_action a = { .act = OP_AGAIN, .drops_head = true };

	if (op->acquired)
		release(f, GUARD_OP_FAILED);
	op->acquired = false;
	return a;
}

/* Ends the operation after Redis' reply to the script, or after a refusal before hasp sent the
 * first step. */
static struct op_action script_reply(const struct op_facts *f)
{
	struct guard_op *op = op_of(f);

	/* In GUARD_OP_NEW, Redis has answered ask_login() with an error, before any step. */
	if (op->phase == GUARD_OP_NEW)
		op->answered = true;
	else
		(void)guard_op_step(op, GUARD_EVENT_REPLY);
	return end_in_vain(f, SLICE_NONE);
}

/* --- transactions ------------------------------------------------------------------------- */

bool guard_steps_forward(const struct guard_op *op)
{
	return op->kind == GUARD_OP_WATCH_EXEC && op->phase == GUARD_OP_EXECUTE;
}

static struct op_action refuse_all(const struct op_facts *f, enum guard_op_event event,
                                   struct slice line)
{
	static const struct slice execabort = SLICE_LIT(
		"-EXECABORT Transaction discarded because of previous errors.\r\n");
	struct guard_op *op = op_of(f);
	struct slice error = buf_slice(&op->error);

	if (event == GUARD_EVENT_REFUSED)
		guard_op_refused(op, line);
	if (op->aborted)
		return abort_transaction(f, execabort);
	return abort_transaction(f, error.n ? error : line);
}

static struct op_action transaction_line(const struct op_facts *f, struct slice line)
{
	struct guard_op *op = op_of(f);
	enum guard_op_event event = buf_len(&op->error) ? GUARD_EVENT_REFUSED
	                                                : guard_op_event_of(line);
	struct op_action a;

	if (event == GUARD_EVENT_QUEUED && op->kind != GUARD_OP_WATCH_MULTI) {
		a = wait_in_line(f, line);
		send_word(f, "UNWATCH");
		return a;
	}
	if (event == GUARD_EVENT_GRANTED)
		guard_op_granted(op, line);
	switch (guard_op_step(op, event)) {
	case GUARD_STEP_SEND_NEXT:
		if (event == GUARD_EVENT_GRANTED && guard_op_awaits_replicas(op))
			return ask_about_guards(f);
		return (struct op_action){ .act = OP_NEXT,
			                   .eval = event == GUARD_EVENT_NOSCRIPT };
	case GUARD_STEP_SEND_EXEC:
		send_exec(f);
		return (struct op_action){ .act = OP_AWAIT };
	case GUARD_STEP_BEGIN_MULTI:
		return (struct op_action){ .act = OP_BEGIN_MULTI,
			                   .guards = event == GUARD_EVENT_GRANTED
			                                     ? TRANSACTION_GUARDS_WATCHED
			                                     : TRANSACTION_GUARDS_LOST };
	case GUARD_STEP_ABORT:
		return refuse_all(f, event, line);
	default:
		return (struct op_action){ .act = OP_CLOSE };
	}
}

/* Ends a command that hasp sent in a transaction of its own. The answer is the element of
 * EXEC's reply. */
static struct op_action end_single(const struct op_facts *f, const struct resp_reply *reply,
                                   struct slice captured)
{
	static const struct slice header = { "*1\r\n", 4 };
	struct slice error = buf_slice(&op_of(f)->error);
	struct slice answer = captured;
	bool failed = resp_reply_is_error(reply);

	if (failed && error.n)
		answer = captured = error;
	else if (!failed && slice_starts(captured, header))
		answer = slice_of(captured.p + header.n, captured.n - header.n);
	failed |= answer.n && (*answer.p == '-' || *answer.p == '!');
	return end_transaction(f, answer, failed ? GUARD_OP_FAILED : GUARD_OP_CARRIED_OUT,
	                       reply, captured);
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

/* Repeats a transaction that had no effect, because a guard changed before EXEC. */
static struct op_action try_again(const struct op_facts *f)
{
	struct guard_op *op = op_of(f);
	struct buf locked = BUF_INIT;
	struct op_action a;

	if (guard_op_step(op, GUARD_EVENT_CHANGED) == GUARD_STEP_SEND_NEXT)
		return (struct op_action){ .act = OP_NEXT };
	rewrite_guard_locked_error(&locked, read_set_entry_key(op->keys[0].entry));
	a = end_in_vain(f, buf_slice(&locked));
	f->out->own = locked;
	return a;
}

static struct op_action end_execution(const struct op_facts *f, const struct resp_reply *reply,
                                      struct slice captured)
{
	struct guard_op *op = op_of(f);

	/* If the application itself sent WATCH, nil is EXEC's answer to the application: Redis
	 * ran no command of the transaction. */
	op->answered |= op->kind == GUARD_OP_WATCH_EXEC && reply->nil;
	if (guard_steps_forward(op))
		return end_transaction(f, SLICE_NONE, result_of(reply, captured), reply,
		                       captured);
	if (reply->nil && op->kind != GUARD_OP_WATCH_EXEC)
		return try_again(f);
	if (op->kind == GUARD_OP_SINGLE)
		return end_single(f, reply, captured);
	return end_transaction(f, captured, result_of(reply, captured), reply, captured);
}

static struct op_action transaction_reply(const struct op_facts *f, const struct op_event *e)
{
	static const struct slice too_long = SLICE_LIT(
		"-ERR hasp: Redis has run the command, but the reply is longer than 16 MB\r\n");
	struct guard_op *op = op_of(f);

	/* Before EXEC, all replies are lines: hasp does not understand this one. */
	if (op->phase != GUARD_OP_EXECUTE)
		return (struct op_action){ .act = OP_CLOSE };
	if (e->captured.n || guard_steps_forward(op) || e->reply->nil)
		return end_execution(f, e->reply, e->captured);
	/* The link has not kept the reply, which was longer than LINK_CAPTURE_MAX. */
	return end_transaction(f, too_long, GUARD_OP_PARTLY, e->reply, e->captured);
}

/* --- events ------------------------------------------------------------------------------- */

static struct op_action acked(const struct op_facts *f, bool enough)
{
	bool is_script = op_of(f)->kind == GUARD_OP_SCRIPT;

	if (enough)
		return is_script ? send_command(f) : (struct op_action){ .act = OP_NEXT };
	(void)guard_op_step(op_of(f), GUARD_EVENT_UNACKED);
	return end_in_vain(f, SLICE_LIT(OP_NOREPLICAS));
}

/* hasp may withdraw the script, but not a release, on which the client's next commands rely. */
bool guard_steps_may_be_withdrawn(const struct guard_op *op)
{
	return op->phase == GUARD_OP_SCRIPTED;
}

/* Ends a wait that did not get the guard; `answer` says why. */
static struct op_action end_wait_in_vain(const struct op_facts *f, struct slice answer)
{
	struct guard_op *op = op_of(f);
	bool withdrawn = guard_steps_may_be_withdrawn(op);

	(void)guard_op_step(op, GUARD_EVENT_TIMED_OUT);
	release_in_vain(f, withdrawn);
	return complete(f, answer, GUARD_OP_FAILED);
}

static struct op_action timed_out(const struct op_facts *f)
{
	struct buf locked = BUF_INIT;
	struct op_action a;

	if (f->outage.n)
		return end_wait_in_vain(f, f->outage);
	rewrite_guard_locked_error(&locked, guard_op_queued_key(op_of(f)));
	a = end_wait_in_vain(f, buf_slice(&locked));
	f->out->own = locked;
	return a;
}

enum op_act guard_steps_reply(struct guard_op *op, const struct resp_reply *reply,
                              struct slice captured)
{
	bool is_script = op->kind == GUARD_OP_SCRIPT || op->phase == GUARD_OP_NEW;

	if (!is_script && op->due) {
		op->due--;
		if (resp_reply_is_error(reply) && buf_len(&op->error) == 0)
			buf_append(&op->error, captured);
		return OP_AWAIT;
	}
	if (is_script && op->phase == GUARD_OP_TRY && op->due)
		return guard_op_tried(op, reply) ? OP_AWAIT : OP_AGAIN;
	if (!is_script || resp_reply_is_error(reply))
		return OP_PASS;
	if (op->phase != GUARD_OP_NEW)
		(void)guard_op_step(op, GUARD_EVENT_REPLY);
	guard_op_complete(op, GUARD_OP_CARRIED_OUT);
	return OP_DONE;
}

bool guard_steps_passes(const struct guard_op *op, struct slice line)
{
	return op->kind == GUARD_OP_SCRIPT && *line.p == '+' &&
	       guard_op_event_of(line) == GUARD_EVENT_REFUSED;
}

struct op_action guard_steps_step(const struct op_facts *f, const struct op_event *e)
{
	const struct guard_op *op = op_of(f);
	bool is_script = op->kind == GUARD_OP_SCRIPT;

	switch (e->kind) {
	case OP_LINE:
		return is_script ? script_line(f, e->line) : transaction_line(f, e->line);
	case OP_REPLY:
		return is_script || op->phase == GUARD_OP_NEW ? script_reply(f)
		                                              : transaction_reply(f, e);
	case OP_NOT_FREE:
		return fall_back_to_script(f);
	case OP_GRANTED:
		return (struct op_action){ .act = OP_AGAIN };
	case OP_ACKED:
		return acked(f, e->enough);
	case OP_TIMED_OUT:
		return timed_out(f);
	case OP_DEADLOCK:
		break;
	}
	return end_wait_in_vain(f, e->line);
}
