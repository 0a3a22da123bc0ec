/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/guard_txn.h"

#include "base/fatal.h"
#include "lock/rewrite/rewrite.h"
#include "policy/guard_block.h"
#include "resp/write.h"

struct decision guard_txn_begin(struct context *x, struct guard_op *pending,
                                enum guard_op_kind kind)
{
	struct buf *out = &x->env->call;
	struct decision d = { .verdict = DISPATCH_CALL, .barrier = true };
	struct rewrite_how how = context_rewrite_how(x);
	bool in_multi = x->session->in_multi;

	pending->kind = kind;
	how.eval = x->eval;
	if (kind == GUARD_OP_WATCHED)
		how.wait_max_ms = 0;
	else if (in_multi)
		how.wait_max_ms = *x->waiter ? waiter_left_ms(*x->waiter) : INT64_MAX;
	if (*x->waiter)
		waiter_sent(*x->waiter, how.ticket);
	buf_clear(out);
	if (kind == GUARD_OP_BLOCK)
		resp_write_word(out, "DISCARD");
	pending->due = guard_op_write_next(pending, how, out) + (kind == GUARD_OP_BLOCK);
	if (kind == GUARD_OP_SINGLE && context_shorten(x))
		pending->due = 0;
	d.prefix_replies = pending->due;
	d.prefix_flags = UNSEEN;
	d.reply_flags = LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS;
	d.request = in_multi ? session_exec_awaited(x->session)
	                     : pending_request_new(PENDING_GUARD);
	d.request->call = pending;
	if (!in_multi)
		session_track(x->session, d.request);
	return d;
}

/* The transaction is given up, with an error in the place of EXEC's answer. */
static struct decision refuse_transaction(struct context *x, const char *error)
{
	struct buf *out = &x->env->call;
	struct decision d = { .verdict = DISPATCH_CALL, .prefix_replies = 1 };

	buf_clear(out);
	resp_write_word(out, "DISCARD");
	rewrite_error(out, (struct rewrite_how){ .eval = true }, error);
	session_discard(x->session);
	return d;
}

/* The application watches keys of its own: all guards in `pending` must be watched since before
 * MULTI. NULL: they are; else what is wrong. */
static const char *find_unwatched(const struct context *x, const struct guard_op *pending)
{
	bool lost = x->session->guards == GUARDS_LOST;

	/* What was watched is what it had read as another. */
	for (size_t i = 0; i < pending->n; i++)
		lost |= pending->keys[i].read_set_entry->renamed ||
		        pending->keys[i].read_set_entry->lost;
	if (lost)
		return "LOCKLOST a key was read under a guard that is over: nothing was "
		       "written";
	for (size_t i = 0; i < pending->n; i++)
		if (x->session->guards != GUARDS_WATCHED ||
		    !pending->keys[i].read_set_entry->read)
			return "LOCKED a guarded key was not read between WATCH and MULTI: "
			       "nothing was written";
	return NULL;
}

static struct decision exec_watched(struct context *x, struct guard_op *pending)
{
	struct decision d = { .verdict = DISPATCH_CALL, .barrier = true };
	const char *error = find_unwatched(x, pending);

	if (error) {
		guard_op_complete(pending, GUARD_OP_FAILED);
		guard_op_free(pending);
		return refuse_transaction(x, error);
	}
	pending->kind = GUARD_OP_WATCHED;
	pending->executing = true;
	resp_write_word(&x->env->call, "EXEC");
	d.reply_flags = LINK_NOTIFY | LINK_CAPTURE |
	                (guard_op_is_shared(pending) ? LINK_DISCARD : 0);
	d.request = session_exec_awaited(x->session);
	d.request->call = pending;
	return d;
}

static bool txn_queue_ready(struct context *x)
{
	struct policy_env *env = x->env;
	struct lock_call call = { .wait_ms = 1 };

	if (*x->waiter == NULL && waiters_are_ready(env->waiters))
		return true;
	for (size_t i = 0; i < env->config->nguards; i++)
		if (env->config->guards[i]->wait_ms > call.wait_ms)
			call.wait_ms = env->config->guards[i]->wait_ms;
	call.ticket = waiters_ticket(env->waiters);
	return context_queue_ready(x, &call);
}

static bool decide_exec(struct context *x, struct decision *d)
{
	struct session *s = x->session;
	struct guard_op *pending;
	struct buf block;

	/* Redis refuses it, or a command in it. */
	if (!s->in_multi || s->nqueued == 0 || (s->block_refused && !s->nawaited))
		return false;
	if (s->nawaited) {
		*d = (struct decision){ .verdict = DISPATCH_DEFER };
		return true;
	}
	if (s->nblock != s->nqueued) {
		*d = refuse_transaction(
			x, "ERR hasp: there were no guards when this transaction began: "
			   "nothing was written");
		return true;
	}
	if (s->block_lost) {
		*d = refuse_transaction(
			x, "ERR hasp: a transaction with guarded keys is longer than "
			   "max_request: nothing was written");
		return true;
	}
	switch (guard_find_block(x, buf_slice(&s->block), NULL)) {
	case GUARD_BLOCK_NONE:
		return false;
	case GUARD_BLOCK_UNCLEAR:
		*d = refuse_transaction(
			x, "ERR hasp: a transaction with guarded keys is not followed behind "
			   "SELECT, nor with as many of them, nor before hasp knows all of its "
			   "commands: nothing was written");
		return true;
	case GUARD_BLOCK_OP:
		break;
	}
	/* Only who may have to wait needs to be heard. */
	if (!s->watching && !txn_queue_ready(x)) {
		*d = (struct decision){ .verdict = DISPATCH_WAIT_QUEUE };
		return true;
	}
	HASP_ASSERT(guard_find_block(x, buf_slice(&s->block), &pending) == GUARD_BLOCK_OP);
	if (s->watching) {
		*d = exec_watched(x, pending);
		return true;
	}
	block = s->block;
	s->block = BUF_INIT;
	pending->block = block;
	pending->ncommands = s->nblock;
	*d = guard_txn_begin(x, pending, GUARD_OP_BLOCK);
	return true;
}

static bool decide_multi(struct context *x, struct decision *d)
{
	struct session *s = x->session;
	struct guard_op *pending;

	if (s->in_multi || !s->watching || x->read_set->n == 0)
		return false;
	if (s->nawaited) {
		*d = (struct decision){ .verdict = DISPATCH_DEFER };
		return true;
	}
	pending = guard_op_of_read_set(x->env->read_sets, x->read_set, s->db);
	if (!pending)
		return false;
	*d = guard_txn_begin(x, pending, GUARD_OP_WATCHED);
	return true;
}

bool guard_txn_decide(struct context *x, struct decision *d)
{
	struct slice name = x->req->argv[0];

	/* Who does not hear answers is not followed. */
	if (x->session->opaque || x->req->argc != 1)
		return false;
	if (slice_is(name, "exec"))
		return decide_exec(x, d);
	return slice_is(name, "multi") && decide_multi(x, d);
}

void guard_txn_record(struct context *x, struct decision *d)
{
	struct session *s = x->session;
	size_t max = (size_t)x->env->config->max_request;

	if (s->opaque)
		return;
	/* Its tag is none: guard_transaction_refused(). */
	HASP_ASSERT(d->reply_flags == LINK_PASS && !d->request);
	d->reply_flags = LINK_INTERCEPT;
	s->nblock++;
	if (s->block_lost)
		return;
	if (d->verdict == DISPATCH_CALL)
		buf_append(&s->block, buf_slice(&x->env->call));
	else
		resp_write_request(&s->block, x->req->argv, x->req->argc);
	if (buf_len(&s->block) > max) {
		s->block_lost = true;
		buf_release(&s->block);
	}
}
