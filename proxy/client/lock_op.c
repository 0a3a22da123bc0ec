/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_op: the steps of a call on a lock: a verb, or a command on a key with a rule.
 *
 *   (asks whether the client is logged in) -> the call --reply----------------------------> END
 *                                             ^    |  |
 *                 .---------- NOSCRIPT: AGAIN-'    |  | QUEUED
 *                 |--- its place was lost: AGAIN --|--'--> WAIT --granted--------------> ANSWER
 *                 '--- the lock was lost: AGAIN <--'late: CONFIRM
 *                                                             `--has it still----------> ANSWER
 *
 * When MLOCK is granted the lock that it waited for, hasp makes the same call again, until
 * MLOCK has all of its locks. If its time ends first, one more call releases the locks that it
 * has.
 *
 * If replicas must have the lock (`replicas_ack`), hasp asks them before the client gets the
 * reply of success. If too few have it, hasp releases the lock, and answers -NOREPLICAS.
 *
 * If a reply of success comes when much of the lease may be over, hasp first asks Redis whether
 * the client still has the lock; if so, the lease begins again.
 */
#include "client/op.h"

#include <stdio.h>

#include "upstream/link.h"

unsigned lock_op_flags(const struct pending_request *r, bool waits,
                       const struct rewrite_opts *opts)
{
	const struct lock_request *p = r->lock_request;
	unsigned flags = LINK_NOTIFY | (opts->eval ? 0 : LINK_INTERCEPT);

	if (r->kind == PENDING_INFO || r->kind == PENDING_LIST || r->kind == PENDING_QUORUM)
		return LINK_NOTIFY | LINK_INTERCEPT | LINK_CAPTURE | LINK_DISCARD;
	if (waits || opts->report_refusal)
		flags |= LINK_INTERCEPT;
	/* A call that cannot wait, and whose success is +OK, gets no other status. */
	if (waits || (opts->report_refusal && (!p || p->success != LOCK_IF_OK)))
		flags |= LINK_INTERCEPT_STATUS;
	/* Redis or replicas may have to confirm a success before the client gets the reply. */
	if (p && (p->check_if_late || p->replicas))
		flags |= LINK_INTERCEPT_LATE;
	return flags;
}

bool lock_op_is_late(const struct lock_request *p)
{
	return p && (p->replicas || lock_request_is_late(p));
}

void lock_op_undo_parts(const struct pending_request *r, int db)
{
	if (r && parts_has(r->lock_request))
		lock_request_undo_now(r->lock_request, db);
}

bool lock_op_exec_sent(struct pending_request *exec)
{
	bool may_be_late = false;

	list_each (struct pending_request, r, &exec->queued, node) {
		if (!r->lock_request)
			continue;
		lock_request_sent(r->lock_request);
		may_be_late |= r->lock_request->check_if_late;
	}
	return may_be_late;
}

bool lock_op_exec_is_late(const struct pending_request *exec)
{
	list_each (const struct pending_request, r, &exec->queued, node)
		if (r->lock_request && lock_request_is_over(r->lock_request))
			return true;
	return false;
}

/* --- actions ------------------------------------------------------------------------------ */

static struct op_action simply(enum op_act act)
{
	return (struct op_action){ .act = act };
}

static struct op_action again(bool eval)
{
	return (struct op_action){ .act = OP_AGAIN, .eval = eval };
}

/* Answers the client with a number. */
static struct op_action answer_number(const struct op_facts *f, long long n)
{
	snprintf(f->out->text, sizeof(f->out->text), ":%lld\r\n", n);
	return (struct op_action){ .act = OP_ANSWER,
		                   .answer = slice_str(f->out->text),
		                   .reply = { .type = ':', .integer = n } };
}

/* Ends the request without its lock. The client gets `bytes`. */
static struct op_action lock_op_refuse(const struct op_facts *f, struct slice bytes)
{
	lock_op_undo_parts(f->request, f->db);
	return (struct op_action){ .act = OP_DONE, .answer = bytes };
}

static struct op_action ask_replicas(const struct op_facts *f)
{
	const struct lock_request *p = f->request->lock_request;
	struct op_out *out = f->out;

	out->lock = lock_request_attempt(p);
	out->terms = (struct replica_ask_terms){ .db = f->db,
		                                 .releases = true,
		                                 .replicas = p->replicas,
		                                 .timeout_ms = p->replicas_timeout_ms,
		                                 .until = lock_request_until(p) };
	return simply(OP_ASK_REPLICAS);
}

static struct op_action confirm(const struct op_facts *f)
{
	f->out->lock = lock_request_attempt(f->request->lock_request);
	return simply(OP_CONFIRM);
}

/* --- Redis' answers ----------------------------------------------------------------------- */

/* Handles Redis' answer `+QUEUED ...`. */
static struct op_action lock_op_on_queued(const struct op_facts *f, struct slice line)
{
	struct pending_request *r = f->request;
	struct op_out *out = f->out;

	if (!r->lock_request || !lock_request_queued(r->lock_request, f->db, &line))
		return simply(OP_CLOSE);
	out->lock = lock_request_attempt(r->lock_request);
	out->line = line;
	out->stats = r->lock_request->stats;
	return simply(OP_WAIT);
}

/* Handles a refused delete: the client gets the number of keys that Redis has deleted. */
static struct op_action lock_op_on_refused(const struct op_facts *f, struct slice line)
{
	struct lock_request *p = f->request->lock_request;
	int64_t n;

	if (!p || !lock_request_refused(p, line, &n))
		return simply(OP_CLOSE);
	return answer_number(f, n);
}

/* Sends a call again whose `reply`, a success, was late; gives up if every reply is late. */
static struct op_action repeat_late(const struct op_facts *f, const struct resp_reply *reply)
{
	struct pending_request *r = f->request;
	struct op_action a;

	if ((f->waiter && waiter_left_ms(f->waiter) > 0) || r->nlate < LEASE_LATE_MAX) {
		r->nlate += r->nlate < LEASE_LATE_MAX;
		return again(false);
	}
	if (!lock_request_is_multi(r->lock_request)) {
		/* The client gets 0, but its hold has the lease that Redis has set. */
		a = answer_number(f, 0);
		a.reply = *reply;
		return a;
	}
	stats_add(r->lock_request->stats, STAT_TIMED_OUT);
	parts_undo(r->lock_request);
	return again(false);
}

/* Handles a reply that is late, or that replicas must confirm. */
static struct op_action lock_op_on_late(const struct op_facts *f, struct slice bytes)
{
	struct lock_request *p = f->request->lock_request;
	struct reply_scan scan = { 0 };
	size_t used;

	/* If the reply was too long, hasp did not keep it. */
	if (reply_scan(&scan, bytes.p, bytes.n, &used) != RESP_OK)
		return simply(OP_CLOSE);
	switch (lock_request_late(p, &scan.reply, f->request->nlate > 0)) {
	case LOCK_REQUEST_TELL:
		return simply(OP_PASS);
	case LOCK_REQUEST_REPEAT:
		return repeat_late(f, &scan.reply);
	case LOCK_REQUEST_CONFIRM:
		break;
	}
	/* Keep the reply for the client until Redis or replicas have confirmed the lock. */
	lock_request_keep(p, &scan.reply, bytes);
	return lock_request_is_late(p) && !lock_request_is_multi(p) ? confirm(f)
	                                                            : ask_replicas(f);
}

static struct op_action lock_op_on_line(const struct op_facts *f, struct slice line)
{
	struct pending_request *r = f->request;

	if (slice_starts(line, SLICE_LIT("+QUEUED ")))
		return lock_op_on_queued(f, line);
	if (slice_starts(line, SLICE_LIT("-NOSCRIPT")) && !r->by_eval)
		return again(true);
	if (slice_eq(line, SLICE_LIT("+BUSY\r\n")) && r->is_short)
		return again(false);
	if (slice_starts(line, SLICE_LIT("+REFUSED ")))
		return lock_op_on_refused(f, line);
	if (r->lock_request && slice_starts(line, SLICE_LIT("-LOCKED ")))
		lock_request_locked(r->lock_request);
	return lock_op_is_late(r->lock_request) ? lock_op_on_late(f, line) : simply(OP_PASS);
}

/* Counts and logs the end of a wait: see stats_wait_ended(). */
static void count_lock_wait(const struct lock_request *p, const struct hold_owner *holds,
                            int db, const struct waiter *waiter, enum lock_event end)
{
	double waited = waiter_waited(waiter);

	if (stats_wait_ended(p->stats, end, waited))
		refusals_log_wait(p, holds, db, end, waited);
}

void lock_op_reply(const struct pending_request *r, const struct hold_owner *holds, int db,
                   const struct waiter *waiter, bool is_cut_off, const struct resp_reply *reply)
{
	struct lock_request *p = r->lock_request;
	bool was_queued = waiter && waiter_place(waiter) > 0;

	/* An MLOCK that waited has all of its locks: count the wait. */
	if (was_queued && lock_request_is_multi(p) && rewrite_is_success(p->success, reply))
		count_lock_wait(p, holds, db, waiter, LOCK_EVENT_WAITED_LONG);
	/* After an error, Redis may still have some of the request's locks. */
	if (resp_reply_is_error(reply))
		lock_op_undo_parts(r, db);
	if (p && is_cut_off)
		lock_request_abandon(p);
	if (p && waiter) {
		p->waited = waiter_waited(waiter);
		p->queued = was_queued;
	}
}

/* --- while the client waits --------------------------------------------------------------- */

static struct op_action lock_op_on_granted(const struct op_facts *f, long long fence,
                                           double since)
{
	struct lock_request *p = f->request->lock_request;
	enum lock_success success = p->success;
	struct resp_reply reply = { .type = success == LOCK_IF_OK ? '+' : ':', .integer = 1 };
	struct slice kept = lock_request_kept(p, &reply);
	struct op_action a;

	if (lock_request_is_multi(p)) {
		parts_granted(p);
		return again(false);
	}
	/* When Redis has only confirmed a late reply, the client was not in line. */
	if (waiter_place(f->waiter))
		count_lock_wait(p, f->holds, f->db, f->waiter, LOCK_EVENT_WAITED_LONG);
	if (success == LOCK_IF_POSITIVE)
		reply.integer = fence;
	a = answer_number(f, reply.integer);
	a.reply = reply;
	if (kept.n)
		a.answer = kept;
	else if (success == LOCK_IF_OK)
		a.answer = SLICE_LIT("+OK\r\n");
	p->sent_at = since;
	if (!p->replicas)
		return a;
	lock_request_keep(p, &reply, a.answer);
	return ask_replicas(f);
}

static struct op_action lock_op_on_acked(const struct op_facts *f, bool enough)
{
	struct lock_request *p = f->request->lock_request;
	struct op_action a = simply(OP_ANSWER);

	if (!enough && !lock_request_is_multi(p) &&
	    lock_request_refreshes(p, f->holds, f->db)) {
		/* The owner keeps its earlier lock, with the lease and value of this call. */
		(void)lock_request_kept(p, &a.reply);
		a.answer = SLICE_LIT(OP_NOREPLICAS);
		return a;
	}
	if (!enough) {
		if (lock_request_is_multi(p) || p->next)
			lock_request_undo_now(p, f->db);
		return lock_op_refuse(f, SLICE_LIT(OP_NOREPLICAS));
	}
	p->replicas = 0;
	if (lock_request_is_late(p))
		return lock_request_is_multi(p) ? again(false) : confirm(f);
	a.answer = lock_request_kept(p, &a.reply);
	return a;
}

static struct op_action lock_op_on_timed_out(const struct op_facts *f)
{
	struct lock_request *p = f->request->lock_request;
	struct op_out *out = f->out;

	if (p->state != LOCK_REQUEST_UNDONE)
		count_lock_wait(p, f->holds, f->db, f->waiter, LOCK_EVENT_WAIT_TIMED_OUT);
	/* An MLOCK releases the locks that it has. The client gets its answer after that, so
	 * that its next request finds the locks free. While the locks' slot is migrating, no
	 * client can take them. Then hasp withdraws this call, and releases the locks over its
	 * own connection as soon as it can. */
	if (f->in_line && lock_request_is_multi(p)) {
		waiter_leave(f->waiter);
		parts_undo(p);
		return again(false);
	}
	snprintf(out->text, sizeof(out->text), "%s\r\n", lock_request_refusal(p, f->resp3));
	return lock_op_refuse(f, f->outage.n ? f->outage : slice_str(out->text));
}

static struct op_action lock_op_on_deadlock(const struct op_facts *f, struct slice error)
{
	count_lock_wait(f->request->lock_request, f->holds, f->db, f->waiter,
	                LOCK_EVENT_DEADLOCK);
	return lock_op_refuse(f, error);
}

struct op_action lock_op_step(const struct op_facts *f, const struct op_event *e)
{
	switch (e->kind) {
	case OP_LINE:
		return lock_op_on_line(f, e->line);
	case OP_GRANTED:
		return lock_op_on_granted(f, e->fence, e->since);
	case OP_ACKED:
		return lock_op_on_acked(f, e->enough);
	case OP_TIMED_OUT:
		return lock_op_on_timed_out(f);
	case OP_DEADLOCK:
		return lock_op_on_deadlock(f, e->line);
	case OP_REPLY:
	case OP_NOT_FREE:
		break;
	}
	HASP_ASSERT(!"an event of a guard");
	return simply(OP_CLOSE);
}
