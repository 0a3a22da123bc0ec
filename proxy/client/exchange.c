/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange: a request that is answered step by step: a call on a lock (lock_op.c), or a
 * command on guarded keys (guard_exchange.c). It was decided about once; what is sent and what
 * is answered follows from that. It is c->current, and stays at the head of `in` until it ends.
 */
#include "client/client_internal.h"

#include <poll.h>

#include "client/op.h"
#include "lock/model/key_names.h"
#include "policy/lock.h"
#include "resp/write.h"

/* --- a call on a lock --------------------------------------------------------------------- */

/* Sends the call in env->rewritten. False: its place was taken by an error. */
static bool send_lock_call(struct client *c, int64_t wait_ms, const struct rewrite_how *how)
{
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
	c->current->by_eval = how->eval;
	send_call(c, buf_slice(&c->env->policy.rewritten));
	link_expect(&c->user, LINK_NOTIFY | lock_op_flags(c->current, wait_ms > 0, how),
	            c->current);
	if (list_empty(&c->current->node))
		session_await(&c->session, c->current);
	client_park(c, CLIENT_PARKED_REPLY);
	return true;
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

	lock_op_undo_parts(c->current, c->session.db);
	if (!parts_has(p) || !route_take(c, route_for(c, x->what, x->req)))
		return;
	how.eval = true;
	parts_write_undo(p, &out, &how);
	send_call(c, buf_slice(&out));
	link_expect(&c->user, LINK_DISCARD, NULL);
	buf_release(&out);
}

/* Writes the call once more, from the head of `in`, and sends it. `eval`: its script is known to
 * be missing. */
static void send_lock_again(struct client *c, bool eval)
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

static struct op_facts client_facts(const struct client *c)
{
	return (struct op_facts){
		.request = c->current,
		.db = c->session.db,
		.resp3 = c->session.proto == 3,
		.in_line = c->state == CLIENT_PARKED_TURN,
		.is_cut_off = c->stream.error,
		.waiter = c->waiter,
		.holds = &c->holds,
	};
}

/* Ends `current`, which was answered. */
static void end_lock(struct client *c, const struct resp_reply *reply)
{
	complete_request(c, c->current, reply, SLICE_NONE);
	client_end_current(c);
}

/* True: the line of the event is the client's answer, as it comes. */
static bool lock_step(struct client *c, const struct op_facts *f, const struct op_event *e)
{
	struct op_action a = lock_op_step(f, e);
	struct op_event sent = { .kind = OP_REPLY, .reply = &a.reply };
	struct op_facts since;

	switch (a.act) {
	case OP_PASS:
		return true;
	case OP_AGAIN:
		send_lock_again(c, a.eval);
		break;
	case OP_WAIT:
		lock_wait_queued(c, &a.lock, a.lease_ms, a.line, a.stats);
		break;
	case OP_CONFIRM:
		lock_wait_confirm(c, &a.lock, a.lease_ms);
		break;
	case OP_ASK_REPLICAS:
		lock_wait_ask_replicas(c, &a.lock, &a.terms);
		break;
	case OP_ANSWER:
		stream_send(&c->stream, op_answer(&a));
		since = client_facts(c);
		(void)lock_step(c, &since, &sent);
		break;
	case OP_REFUSE:
		stream_send(&c->stream, op_answer(&a));
		session_complete(&c->session, c->current);
		client_end_current(c);
		break;
	case OP_END:
		end_lock(c, &a.reply);
		break;
	case OP_CLOSE:
		lock_wait_failed(c);
		break;
	}
	return false;
}

/* As above, for an event that has no line. */
static void lock_event(struct client *c, const struct op_event *e)
{
	struct op_facts f = client_facts(c);
	struct buf outage = BUF_INIT;

	if (e->kind == OP_TIMED_OUT &&
	    lock_wait_is_outage(c, pending_lock_key(c->current->pending_lock), &outage))
		f.outage = buf_slice(&outage);
	(void)lock_step(c, &f, e);
	buf_release(&outage);
}

/* --- beginning -------------------------------------------------------------------------- */

/* Asks Redis, by a command without effect, whether the client is logged in. Redis hangs up on a
 * client that has not logged in and sends more than ten arguments, as script calls have. */
static void ask_login(struct client *c)
{
	struct buf out = BUF_INIT;

	resp_write_word(&out, "PING");
	send_bytes(c, buf_slice(&out));
	buf_release(&out);
	link_expect(&c->user, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, c->current);
	session_await(&c->session, c->current);
	c->asks_login = true;
	client_park(c, CLIENT_PARKED_REPLY);
}

/* Does the step DISPATCH_COUNT_WRITES. The key expires if the user may not delete it. */
static void count_writes(struct client *c)
{
	struct slice set[] = { SLICE_LIT("SET"), SLICE_LIT(KEY_NAME_ACK), SLICE_LIT("1"),
		               SLICE_LIT("PX"), SLICE_LIT("60000") };
	struct slice del[] = { SLICE_LIT("DEL"), SLICE_LIT(KEY_NAME_ACK) };
	struct buf out = BUF_INIT;

	resp_write_request(&out, set, 5);
	resp_write_request(&out, del, 2);
	send_bytes(c, buf_slice(&out));
	buf_release(&out);
	link_expect(&c->user, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, c->current);
	link_expect(&c->user, LINK_DISCARD, NULL);
	session_await(&c->session, c->current);
	client_park(c, CLIENT_PARKED_REPLY);
}

/* True: the error is the client's answer. */
static bool on_count_line(struct client *c, struct slice line)
{
	if (slice_starts(line, SLICE_LIT("-")))
		return true;
	c->uncounted = false;
	client_decide_again(c);
	return false;
}

/* Redis has a transaction open for it, so that the client is logged in, and anything sent now
 * would be queued there. */
static bool is_in_transaction(const struct pending_request *r)
{
	return r->kind == PENDING_EXEC;
}

bool exchange_start(struct client *c, struct context *x, const struct decision *d)
{
	c->current = d->pending;
	c->decided_in = c->env->policy.generation;
	if (c->current->kind == PENDING_COUNT) {
		count_writes(c);
		return true;
	}
	if (c->current->kind == PENDING_LOGIN ||
	    (client_must_log_in(c) && !is_in_transaction(c->current))) {
		ask_login(c);
		return true;
	}
	if (c->current->guard_op)
		return guard_exchange_start(c, x);
	return send_lock_call(c, d->wait_ms, &x->how);
}

void exchange_resume(struct client *c)
{
	if (c->current->guard_op)
		guard_exchange_again(c);
	else
		send_lock_again(c, false);
}

/* --- answers ---------------------------------------------------------------------------- */

/* True: the client is not logged in, and gets Redis' error as its answer. */
static bool on_login_line(struct client *c, struct slice line)
{
	c->asks_login = false;
	if (slice_starts(line, SLICE_LIT("-NOAUTH"))) {
		if (c->current->kind == PENDING_LOGIN)
			metrics_count(&c->env->counters.commands[COMMAND_PASSED], 1);
		return true;
	}
	/* The server no longer requires a login. */
	if (line.n && *line.p == '+')
		c->env->node->links.login_required = false;
	if (c->current->kind == PENDING_LOGIN) {
		c->session.admitted = true;
		client_decide_again(c);
	} else {
		exchange_resume(c);
	}
	return false;
}

/* The line that answers a call after link_withdraw(). */
#define WITHDRAWN "-ERR hasp: its time is over\r\n"

static void on_wait_timed_out(void *owner);

bool exchange_on_line(struct client *c, struct slice line)
{
	struct op_facts f;

	if (c->waiter && slice_eq(line, SLICE_LIT(WITHDRAWN))) {
		c->asks_login = false;
		on_wait_timed_out(c);
		return false;
	}
	if (c->asks_login)
		return on_login_line(c, line);
	if (c->current->kind == PENDING_COUNT)
		return on_count_line(c, line);
	if (c->current->guard_op)
		return guard_exchange_on_line(c, line);
	f = client_facts(c);
	return lock_step(c, &f, &(struct op_event){ .kind = OP_LINE, .line = line });
}

bool exchange_is_late(const struct client *c)
{
	return lock_op_is_late(c->current->pending_lock);
}

void exchange_on_reply(struct client *c, const struct resp_reply *reply, struct slice captured)
{
	c->asks_login = false;
	if (c->current->guard_op)
		guard_exchange_on_reply(c, reply, captured);
	else if (c->current->kind == PENDING_INFO)
		holders_info_on_reply(c, reply, captured);
	else if (c->current->kind == PENDING_LIST)
		holders_list_on_reply(c, reply);
	else if (c->current->kind == PENDING_QUORUM)
		quorum_op_on_reply(c, reply);
	else
		lock_event(c, &(struct op_event){ .kind = OP_REPLY, .reply = reply });
}

size_t exchange_due(const struct client *c)
{
	const struct pending_request *r = c->current;

	if (!r || list_empty(&r->node))
		return 0;
	return r->guard_op ? 1 + r->guard_op->due : 1;
}

/* --- the line for a lock ------------------------------------------------------------ */

static void on_queue_ready(void *owner)
{
	struct client *c = client_of(owner);

	if (c->state == CLIENT_PARKED_QUEUE)
		client_resume(c);
}

/* True if the client has sent FIN or reset its connection, read by hasp or not. */
static bool has_hung_up(const struct client *c)
{
	struct pollfd p = { .fd = stream_fd(&c->stream), .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* Resumes a client whose wait is over. Its request counts as sent again, so that closing the
 * client undoes what the request got. False: the client had hung up, and was closed. */
static bool resume_parked(struct client *c)
{
	client_set_state(c, CLIENT_PARKED_REPLY);
	if (!has_hung_up(c))
		return true;
	client_close(c, "hung up while it waited for a lock");
	return false;
}

static void on_granted(void *owner, long long fence, double since)
{
	struct client *c = client_of(owner);

	if (!resume_parked(c))
		return;
	/* Another connection wrote the lock. */
	c->uncounted = true;
	if (c->current->guard_op) {
		guard_events_granted(c);
		guard_exchange_again(c);
	} else {
		lock_event(c, &(struct op_event){
				      .kind = OP_GRANTED, .fence = fence, .since = since });
	}
}

void exchange_on_acked(void *arg, bool enough)
{
	struct client *c = client_of(arg);

	c->ask = NULL;
	if (!resume_parked(c))
		return;
	if (c->current->guard_op)
		guard_exchange_on_acked(c, enough);
	else
		lock_event(c, &(struct op_event){ .kind = OP_ACKED, .enough = enough });
}

void exchange_on_deadlock(void *arg, struct slice error)
{
	struct client *c = client_of(arg);

	if (c->current->guard_op)
		guard_exchange_on_deadlock(c, error);
	else
		lock_event(c, &(struct op_event){ .kind = OP_DEADLOCK, .line = error });
}

static void on_wait_timed_out(void *owner)
{
	struct client *c = client_of(owner);

	if (c->current->guard_op)
		guard_exchange_on_timed_out(c);
	else
		lock_event(c, &(struct op_event){ .kind = OP_TIMED_OUT });
}

/* Withdraws a try that waits too long, for a slot to be whole or for a primary. */
static void on_overdue(void *owner)
{
	struct client *c = client_of(owner);

	if (c->state == CLIENT_PARKED_REPLY && c->user.link &&
	    (!c->current->guard_op || guard_exchange_may_be_withdrawn(c)))
		link_withdraw(c->user.link, SLICE_LIT(WITHDRAWN));
}

static void on_place_lost(void *owner)
{
	exchange_resume(client_of(owner));
}

const struct waiter_ops exchange_waiter_ops = {
	.on_ready = on_queue_ready,
	.on_granted = on_granted,
	.on_timed_out = on_wait_timed_out,
	.on_overdue = on_overdue,
	.on_lost = on_place_lost,
};
