/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_exchange: the steps of a call on a lock: a verb, or a command on a key with a rule.
 *
 *   lock_exchange_start() -> (asks whether the client is logged in) -> the call --reply--> end
 *                                    ^                                  |  |
 *                                    |---------- NOSCRIPT --------------|  | QUEUED
 *                                    |--- its place was lost --- waits <-|--'--granted--> end
 *                                    `--- the lock was lost --- asks <---'late
 *                                                                `--has it still--------> end
 *
 * When MLOCK is granted the lock that it waited for, hasp makes the same call again, until
 * MLOCK has all of its locks. If its time ends first, one more call releases the locks that it
 * has.
 *
 * If replicas must have the lock (`replicas_ack`), hasp asks them before the client gets the
 * reply of success; if too few have it, the lock is released, and the client gets -NOREPLICAS.
 *
 * If a reply of success comes when much of the lease may be over, it is confirmed first: hasp
 * asks Redis whether the client still has the lock, and the lease begins again.
 */
#include "client/client_internal.h"

#include <stdio.h>

#include "policy/lock.h"

/* True if replicas must have the lock before the client gets the reply of success. */
static bool awaits_replicas(const struct pending_lock *p)
{
	int64_t timeout_ms;

	return pending_lock_replicas(p, &timeout_ms) > 0;
}

/* Sends `bytes`; the reply to them answers `current`. */
static void send_current(struct client *c, struct slice bytes, unsigned flags)
{
	send_call(c, bytes);
	link_expect(&c->user, LINK_NOTIFY | flags, c->current);
	if (list_empty(&c->current->node))
		session_await(&c->session, c->current);
	client_park(c, CLIENT_PARKED_REPLY);
}

/* True if Redis or replicas may have to confirm success before the client gets the reply. */
static bool may_be_held_back(const struct pending_lock *p)
{
	return p && (pending_lock_confirms(p) || awaits_replicas(p));
}

/* Sends the call in env->rewritten. False: its place was taken by an error. */
static bool send_lock_call(struct client *c, int64_t wait_ms, const struct rewrite_how *how)
{
	unsigned flags = how->eval ? 0 : LINK_INTERCEPT;
	enum lock_wait_ready ready = LOCK_WAIT_READY;

	if (wait_ms)
		ready = lock_wait_ready(c, pending_lock_key(c->current->pending_lock), wait_ms,
		                        how->ticket, false);
	switch (ready) {
	case LOCK_WAIT_READY:
		break;
	case LOCK_WAIT_PARKED:
		session_withdraw(&c->session, c->current);
		return true;
	case LOCK_WAIT_REFUSED:
		lock_wait_refuse(c);
		return false;
	}
	if (wait_ms)
		flags = LINK_INTERCEPT | LINK_INTERCEPT_STATUS;
	if (may_be_held_back(c->current->pending_lock))
		flags |= LINK_INTERCEPT_LATE;
	if (how->tells)
		flags |= LINK_INTERCEPT | LINK_INTERCEPT_STATUS;
	if (c->current->kind == PENDING_INFO || c->current->kind == PENDING_LIST ||
	    c->current->kind == PENDING_QUORUM)
		flags = LINK_INTERCEPT | LINK_CAPTURE | LINK_DISCARD;
	c->current->by_eval = how->eval;
	send_current(c, buf_slice(&c->env->policy.rewritten), flags);
	return true;
}

void lock_exchange_undo_parts(const struct client *c)
{
	if (c->current && parts_has(c->current->pending_lock))
		pending_lock_undo_now(c->current->pending_lock, c->session.db);
}

bool lock_exchange_start(struct client *c, const struct context *x, const struct decision *d)
{
	return send_lock_call(c, d->wait_ms, &x->how);
}

/* True if a try to take several locks keeps its decision, for all its calls are one try. Only a
 * configuration that would now decide otherwise ends it. */
static bool multi_goes_on(struct client *c, struct context *x)
{
	const struct pending_lock *p = c->current->pending_lock;

	if (!pending_lock_is_multi(p) || (!parts_are_undone(p) && !lock_multi_stays(x, p)))
		return false;
	c->decided_in = c->env->policy.generation;
	return true;
}

/* Undoes the locks of a request that is to be decided again: over the client's link, so that
 * the next try finds the locks free; and over hasp's own connection, if the link has gone. */
static void undo_parts_by_link(struct client *c, const struct context *x)
{
	const struct pending_lock *p = c->current->pending_lock;
	struct rewrite_how how = x->how;
	struct buf out = BUF_INIT;

	lock_exchange_undo_parts(c);
	if (!parts_has(p) || !route_take(c, route_for(c, x->what, x->req)))
		return;
	how.eval = true;
	parts_write_undo(p, &out, &how);
	send_call(c, buf_slice(&out));
	link_expect(&c->user, LINK_DISCARD, NULL);
	buf_release(&out);
}

void lock_exchange_again(struct client *c, bool eval)
{
	struct command_info what;
	struct resp_view view;
	struct context x;
	int64_t wait_ms;

	x = client_context_again(c, &view, &what);
	client_rewrite_how(c, eval, &x.how);
	if (!client_is_decided(c) && !multi_goes_on(c, &x)) {
		undo_parts_by_link(c, &x);
		client_decide_again(c);
		return;
	}
	/* The link may have gone while the client waited, and what the command needs may have
	 * changed. */
	if (!route_take(c, route_for(c, &what, &view))) {
		session_withdraw(&c->session, c->current);
		client_park(c, CLIENT_PARKED_LINK);
		return;
	}
	lock_rewrite(&x, c->current, &wait_ms);
	if (!send_lock_call(c, wait_ms, &x.how))
		client_end_current(c);
}

static void enqueue(struct client *c, struct slice line)
{
	struct section_stats *stats;
	int64_t lease_ms;
	struct lock_try t;

	if (!c->current->pending_lock ||
	    !pending_lock_queued(c->current->pending_lock, c->session.db, &line)) {
		lock_wait_failed(c);
		return;
	}
	t = pending_lock_try(c->current->pending_lock, &lease_ms);
	stats = pending_lock_stats(c->current->pending_lock);
	if (!waiter_place(c->waiter))
		refusals_waits(c->current->pending_lock, c->session.db);
	lock_wait_queued(c, &t, lease_ms, line, stats);
}

/* --- answers that come late --------------------------------------------------------------- */

bool lock_exchange_is_late(const struct client *c)
{
	const struct pending_lock *p = c->current->pending_lock;

	return p && (awaits_replicas(p) || pending_lock_is_late(p));
}

/* Asks replicas whether they have the client's new lock. */
static void ask_replicas(struct client *c)
{
	const struct pending_lock *p = c->current->pending_lock;
	struct replica_ask_terms terms = { .db = c->session.db, .releases = true };
	int64_t lease_ms;
	struct lock_try t = pending_lock_try(p, &lease_ms);

	terms.replicas = pending_lock_replicas(p, &terms.timeout_ms);
	terms.until = pending_lock_until(p);
	lock_wait_ask_replicas(c, &t, &terms);
}

/* Asks Redis whether the client still has the lock, because it got it long ago. */
static void confirm_kept(struct client *c)
{
	int64_t lease_ms;
	struct lock_try t = pending_lock_try(c->current->pending_lock, &lease_ms);

	lock_wait_confirm(c, &t, lease_ms);
}

/* Keeps Redis' reply: the client gets it when the lock has been confirmed. */
static void confirm(struct client *c, struct slice bytes, const struct resp_reply *reply)
{
	struct pending_lock *p = c->current->pending_lock;

	pending_lock_keep(p, reply, bytes);
	if (pending_lock_is_late(p))
		confirm_kept(c);
	else
		ask_replicas(c);
}

/* True: the reply is the client's answer all the same. */
static bool on_late(struct client *c, struct slice bytes)
{
	struct reply_scan scan = { 0 };
	size_t used;

	if (reply_scan(&scan, bytes.p, bytes.n, &used) != RESP_OK) {
		/* The reply is too long to be kept. */
		lock_wait_failed(c);
		return false;
	}
	switch (pending_lock_late(c->current->pending_lock, &scan.reply)) {
	case PENDING_LOCK_TELL:
		return true;
	case PENDING_LOCK_CONFIRM:
		confirm(c, bytes, &scan.reply);
		break;
	case PENDING_LOCK_REPEAT:
		lock_exchange_again(c, false);
		break;
	}
	return false;
}

/* --- answers ------------------------------------------------------------------------------ */

/* A delete was refused; the client gets the number of keys that are gone. */
static void on_refused(struct client *c, struct slice line)
{
	struct pending_lock *p = c->current->pending_lock;
	struct resp_reply reply = { .type = ':' };
	char text[32];
	int64_t n;

	if (!p || !pending_lock_refused(p, line, &n)) {
		lock_wait_failed(c);
		return;
	}
	reply.integer = n;
	snprintf(text, sizeof(text), ":%lld\r\n", reply.integer);
	stream_send(&c->stream, slice_str(text));
	lock_exchange_on_reply(c, &reply);
}

/* True: it is for the client. */
static bool on_answer(struct client *c, struct slice line)
{
	if (c->current->pending_lock && slice_starts(line, SLICE_LIT("-LOCKED ")))
		pending_lock_locked(c->current->pending_lock);
	return !lock_exchange_is_late(c) || on_late(c, line);
}

bool lock_exchange_on_line(struct client *c, struct slice line)
{
	if (slice_starts(line, SLICE_LIT("+QUEUED ")))
		enqueue(c, line);
	else if (slice_starts(line, SLICE_LIT("-NOSCRIPT")) && !c->current->by_eval)
		lock_exchange_again(c, true);
	else if (slice_eq(line, SLICE_LIT("+BUSY\r\n")) && c->current->is_short)
		lock_exchange_again(c, false);
	else if (slice_starts(line, SLICE_LIT("+REFUSED ")))
		on_refused(c, line);
	else
		return on_answer(c, line);
	return false;
}

/* True if `current` took all of several locks, and was in line for some of them. */
static bool has_waited_for_several(const struct client *c, const struct resp_reply *reply)
{
	const struct pending_lock *p = c->current->pending_lock;

	return pending_lock_is_multi(p) && c->waiter && waiter_place(c->waiter) &&
	       rewrite_is_success(pending_lock_success(p), reply);
}

void lock_exchange_on_reply(struct client *c, const struct resp_reply *reply)
{
	struct pending_request *r = c->current;

	if (has_waited_for_several(c, reply))
		refusals_waited(r->pending_lock, &c->holds, c->session.db,
		                waiter_waited(c->waiter), WAIT_GRANTED);
	/* After an error, Redis may still have some of the request's locks. */
	if (resp_reply_is_error(reply))
		lock_exchange_undo_parts(c);
	if (r->pending_lock && c->stream.error)
		pending_lock_abandon(r->pending_lock);
	if (r->pending_lock && c->waiter)
		pending_lock_has_waited(r->pending_lock, waiter_waited(c->waiter),
		                        waiter_place(c->waiter) > 0);
	complete_request(c, r, reply, SLICE_NONE);
	client_end_current(c);
}

/* `current` ends without its lock; `answer` says so. */
static void refuse_current(struct client *c, struct slice answer)
{
	lock_exchange_undo_parts(c);
	client_end_wait(c);
	stream_send(&c->stream, answer);
	session_complete(&c->session, c->current);
	client_end_current(c);
}

void lock_exchange_on_granted(struct client *c, long long fence, double since)
{
	struct pending_request *r = c->current;
	enum lock_success success = pending_lock_success(r->pending_lock);
	struct resp_reply reply = { .type = success == LOCK_IF_OK ? '+' : ':', .integer = 1 };
	struct slice answer = pending_lock_kept(r->pending_lock, &reply);
	char text[32] = "+OK\r\n";

	if (pending_lock_is_multi(r->pending_lock)) {
		parts_granted(r->pending_lock);
		lock_exchange_again(c, false);
		return;
	}
	/* (An answer that came late is confirmed by the same way, and was not in line.) */
	if (waiter_place(c->waiter))
		refusals_waited(r->pending_lock, &c->holds, c->session.db,
		                waiter_waited(c->waiter), WAIT_GRANTED);
	if (success == LOCK_IF_POSITIVE)
		reply.integer = fence;
	if (success != LOCK_IF_OK)
		snprintf(text, sizeof(text), ":%lld\r\n", reply.integer);
	if (!answer.n)
		answer = slice_str(text);
	pending_lock_since(r->pending_lock, since);
	if (awaits_replicas(r->pending_lock)) {
		pending_lock_keep(r->pending_lock, &reply, answer);
		ask_replicas(c);
		return;
	}
	stream_send(&c->stream, answer);
	lock_exchange_on_reply(c, &reply);
}

void lock_exchange_on_acked(struct client *c, bool enough)
{
	struct pending_lock *p = c->current->pending_lock;
	struct resp_reply reply = { 0 };

	if (!enough) {
		if (pending_lock_is_multi(p) || pending_lock_is_joined(p))
			pending_lock_undo_now(p, c->session.db);
		refuse_current(c, SLICE_LIT(LOCK_WAIT_NOREPLICAS "\r\n"));
		return;
	}
	pending_lock_has_replicas(p);
	if (pending_lock_is_late(p) && pending_lock_is_multi(p)) {
		lock_exchange_again(c, false);
		return;
	}
	if (pending_lock_is_late(p)) {
		confirm_kept(c);
		return;
	}
	stream_send(&c->stream, pending_lock_kept(p, &reply));
	lock_exchange_on_reply(c, &reply);
}

/* Releases the locks that a timed-out request has. The client gets its answer after Redis has
 * released them, so that its next request finds them free. While their slot is migrating, no
 * client can take them: then the call is withdrawn, and hasp's own connection releases them as
 * soon as it can. */
static void release_parts(struct client *c)
{
	waiter_leave(c->waiter);
	parts_undo(c->current->pending_lock);
	lock_exchange_again(c, false);
}

void lock_exchange_on_timed_out(struct client *c)
{
	const struct pending_lock *p = c->current->pending_lock;
	bool resp3 = c->session.proto == 3;
	struct buf answer = BUF_INIT;

	if (!parts_are_undone(p))
		refusals_waited(p, &c->holds, c->session.db, waiter_waited(c->waiter),
		                WAIT_TIMED_OUT);
	if (c->state == CLIENT_PARKED_TURN && pending_lock_is_multi(p)) {
		release_parts(c);
		return;
	}
	if (!lock_wait_is_outage(c, pending_lock_key(p), &answer))
		buf_printf(&answer, "%s\r\n", pending_lock_refusal(p, resp3));
	refuse_current(c, buf_slice(&answer));
	buf_release(&answer);
}

void lock_exchange_on_deadlock(struct client *c, struct slice error)
{
	refusals_waited(c->current->pending_lock, &c->holds, c->session.db,
	                waiter_waited(c->waiter), WAIT_DEADLOCKED);
	refuse_current(c, error);
}
