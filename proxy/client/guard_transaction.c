/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/guard_transaction.h"

#include <string.h>

#include "base/fatal.h"
#include "client/guard_exchange.h"
#include "lock/rewrite/rewrite.h"
#include "resp/write.h"

/* How often a guard may change under a transaction until that is given up. */
#define TRIES_MAX 100

static const struct slice aborted = SLICE_LIT(
	"-EXECABORT Transaction discarded because of previous errors.\r\n");

static void guard_txn_send_check(struct client *c, struct pending_request *r, bool eval)
{
	struct guard_op *call = r->call;
	struct rewrite_how how = { .eval = eval, .resp3 = c->session.proto == 3 };
	struct buf out = BUF_INIT;

	how.ticket = waiters_ticket(c->env->policy.waiters);
	how.wait_max_ms = call->kind == GUARD_OP_WATCHED ? 0 : INT64_MAX;
	if (c->waiter) {
		how.wait_max_ms = waiter_left_ms(c->waiter);
		waiter_sent(c->waiter, how.ticket);
	}
	buf_clear(&call->error);
	call->executing = false;
	call->due = guard_op_write_next(call, how, &out);
	client_send_up(c, buf_slice(&out));
	for (unsigned i = 0; i < call->due; i++)
		link_expect(&c->user, UNSEEN, r);
	link_expect(&c->user, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, r);
	c->waiting = WAIT_REPLY;
	buf_release(&out);
}

static void send_unseen(struct client *c, const char *command)
{
	struct buf out = BUF_INIT;

	resp_write_word(&out, command);
	client_send_up(c, buf_slice(&out));
	link_expect(&c->user, LINK_DISCARD, NULL);
	buf_release(&out);
}

static void send_exec(struct client *c, struct pending_request *r)
{
	struct guard_op *call = r->call;
	bool one = call->kind == GUARD_OP_SINGLE;
	struct slice what = one ? slice_of(buf_head(&c->in), c->scanned)
	                        : buf_slice(&call->block);
	struct buf out = BUF_INIT;

	HASP_ASSERT(what.p);
	resp_write_word(&out, "MULTI");
	buf_append(&out, what);
	resp_write_word(&out, "EXEC");
	call->executing = true;
	call->due = 1 + (one ? 1 : (unsigned)call->ncommands);
	client_send_up(c, buf_slice(&out));
	for (unsigned i = 0; i <= call->due; i++)
		link_expect(&c->user, UNSEEN, r);
	buf_release(&out);
}

void guard_transaction_refused(struct client *c)
{
	c->session.block_refused = true;
}

/* The client hears of it. `kept`: EXEC's reply, if it was carried out. */
static void complete_guard_txn(struct client *c, struct pending_request *r, struct slice answer,
                               enum guard_op_result end, const struct resp_reply *reply,
                               struct slice kept)
{
	if (answer.n)
		stream_send(&c->stream, answer);
	guard_op_complete(r->call, end);
	if (r->kind == PENDING_EXEC && reply)
		session_reply(&c->session, r, reply, kept, c->env->policy.holds, &c->holds);
	else
		session_complete(&c->session, r);
}

/* False: there is more to come. `answer` lies in `kept`, or there is none of the latter. */
static bool end_guard_txn(struct client *c, struct pending_request *r, struct slice answer,
                          enum guard_op_result end, const struct resp_reply *reply,
                          struct slice kept)
{
	struct guard_op *call = r->call;

	if (answer.n && end != GUARD_OP_FAILED && guard_op_is_shared(call)) {
		call->handing_off = guard_exchange_hand_off(c, r, end);
		if (call->handing_off) {
			call->end = end;
			call->reply = *reply;
			call->answer_from = (size_t)(answer.p - kept.p);
			buf_append(&call->answer, kept);
			return false;
		}
	} else {
		guard_exchange_release(c, call, end);
	}
	complete_guard_txn(c, r, answer, end, reply, kept);
	return true;
}

static bool end_handing_on(struct client *c, struct pending_request *r)
{
	struct slice kept = buf_slice(&r->call->answer);
	size_t from = r->call->answer_from;

	complete_guard_txn(c, r, slice_of(kept.p + from, kept.n - from), r->call->end,
	                   &r->call->reply, kept);
	return true;
}

/* The application's MULTI goes out, behind the WATCH that it does not see. */
static void begin_multi(struct client *c, struct pending_request *r, enum guards_state state)
{
	struct pending_request *multi = pending_request_new(PENDING_MULTI);

	session_complete(&c->session, r);
	client_send_up(c, slice_of(buf_head(&c->in), c->scanned));
	session_track(&c->session, multi);
	session_multi(&c->session);
	c->session.guards = state;
	link_expect(&c->user, LINK_NOTIFY, multi);
}

/* Nothing is carried out, and that is EXEC's answer, or the command's. */
static void abort_guard_txn(struct client *c, struct pending_request *r, struct slice answer)
{
	send_unseen(c, "UNWATCH");
	(void)end_guard_txn(c, r, answer, GUARD_OP_FAILED, NULL, SLICE_NONE);
	client_end_call(c);
}

bool guard_transaction_on_line(struct client *c, struct pending_request *r, struct slice line)
{
	struct guard_op *call = r->call;
	struct slice error = buf_slice(&call->error);
	bool granted = slice_starts(line, SLICE_LIT("+GRANTED"));
	/* By now it is known. Sent once more, the command might be carried out. */
	bool refused = call->kind == GUARD_OP_BLOCK && c->session.block_refused;

	if (error.n == 0 && slice_starts(line, SLICE_LIT("-NOSCRIPT"))) {
		guard_txn_send_check(c, r, true);
	} else if (call->kind == GUARD_OP_WATCHED) {
		begin_multi(c, r, granted && error.n == 0 ? GUARDS_WATCHED : GUARDS_LOST);
	} else if (error.n == 0 && granted && guard_op_must_acquire(call)) {
		call->taken = true;
		call->is_new = slice_starts(line, SLICE_LIT("+GRANTED anew"));
		if (refused)
			abort_guard_txn(c, r, aborted);
		else
			guard_txn_send_check(c, r, false);
	} else if (error.n == 0 && granted && !refused) {
		send_exec(c, r);
	} else if (error.n == 0 && slice_starts(line, SLICE_LIT("+QUEUED "))) {
		send_unseen(c, "UNWATCH");
		guard_exchange_enqueue(c, r, line);
	} else {
		guard_op_failed(call, line);
		abort_guard_txn(c, r, refused ? aborted : error.n ? error : line);
	}
	return false;
}

void guard_transaction_resume(struct client *c, struct pending_request *r)
{
	guard_txn_send_check(c, r, false);
}

/* A guard changed after the check. */
static bool try_again(struct client *c, struct pending_request *r)
{
	struct buf locked = BUF_INIT;

	if (++r->call->attempts < TRIES_MAX) {
		guard_txn_send_check(c, r, false);
		return false;
	}
	rewrite_guard_locked_error(&locked,
	                           read_set_entry_key(r->call->keys[0].read_set_entry));
	(void)end_guard_txn(c, r, buf_slice(&locked), GUARD_OP_FAILED, NULL, SLICE_NONE);
	buf_release(&locked);
	return true;
}

/* The transaction around one command is unwrapped. */
static bool end_one(struct client *c, struct pending_request *r, const struct resp_reply *reply,
                    struct slice kept)
{
	static const struct slice header = { "*1\r\n", 4 };
	struct slice answer = kept;
	bool failed = resp_reply_is_error(reply);

	if (failed && buf_len(&r->call->error))
		answer = buf_slice(&r->call->error);
	else if (!failed && slice_starts(kept, header))
		answer = slice_of(kept.p + header.n, kept.n - header.n);
	failed |= answer.n && (*answer.p == '-' || *answer.p == '!');
	return end_guard_txn(c, r, answer, failed ? GUARD_OP_FAILED : GUARD_OP_DONE, reply,
	                     kept);
}

/* What became of a transaction. */
static enum guard_op_result txn_result(const struct resp_reply *reply, struct slice kept)
{
	struct slice elements = reply_elements(kept);
	struct resp_reply each;

	if (resp_reply_is_error(reply) || reply->nil)
		return GUARD_OP_FAILED;
	while (reply_next(&elements, &each))
		if (resp_reply_is_error(&each))
			return GUARD_OP_PARTLY;
	return kept.n ? GUARD_OP_DONE : GUARD_OP_PARTLY;
}

bool guard_transaction_on_reply(struct client *c, struct pending_request *r,
                                const struct resp_reply *reply, struct slice kept)
{
	struct guard_op *call = r->call;

	if (call->handing_off)
		return end_handing_on(c, r);
	if (call->kind == GUARD_OP_WATCHED && call->executing && !guard_op_is_shared(call))
		/* It has been forwarded. */
		return end_guard_txn(c, r, SLICE_NONE, txn_result(reply, kept), reply, kept);
	if (call->due) {
		call->due--;
		if (resp_reply_is_error(reply) && buf_len(&call->error) == 0)
			buf_append(&call->error, kept);
		return false;
	}
	if (!call->executing) {
		/* A check is answered by a line. */
		client_close(c, "the answer about a guard is not understood");
		return false;
	}
	if (reply->nil && call->kind != GUARD_OP_WATCHED)
		return try_again(c, r);
	if (kept.n == 0) {
		(void)end_guard_txn(c, r, SLICE_NONE, GUARD_OP_PARTLY, reply, kept);
		client_finish(c, "the answer of a fenced command is too long to be kept");
		return true;
	}
	if (call->kind == GUARD_OP_SINGLE)
		return end_one(c, r, reply, kept);
	return end_guard_txn(c, r, kept, txn_result(reply, kept), reply, kept);
}
