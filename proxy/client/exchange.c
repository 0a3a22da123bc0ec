/* SPDX-License-Identifier: BSD-3-Clause
 *
 * exchange: runs a request that hasp answers step by step: a call on a lock, or a command on
 * guarded keys. hasp decides about the request once; all steps follow from that decision. The
 * request is c->current, and stays at the head of `in` until it ends.
 *
 *   link, waiter, replicas, deadlocks --event--> lock_op.c, guard_steps.c
 *                                                       |
 *              send, wait in line, answer, end <--------'action (client/op.h)
 */
#include "client/client_internal.h"

#include <poll.h>

#include "client/op.h"
#include "lock/model/key_names.h"
#include "resp/write.h"

static void on_acked(void *arg, bool enough);
static void on_deadlock(void *arg, struct slice error);

static const char hung_up[] = "hung up while it waited for a lock";
static const char not_understood[] = "hasp does not understand the reply to its lock";

/* --- the line for a lock ------------------------------------------------------------------ */

/* Prepares `current`, which may wait in line for `wait_ms`, to be sent with `ticket`. Makes a
 * waiter. If `lazy`, and nothing can hold the command back on its way, makes no waiter before
 * the command has to wait, because most commands never wait. */
static enum try_readiness prepare_wait(struct client *c, struct slice key, int64_t wait_ms,
                                       struct slice ticket, bool lazy)
{
	struct waiters *waiters = c->env->policy.waiters;
	enum try_readiness ready;

	lazy = lazy && !c->waiter && !waiter_may_be_held_back(waiters);
	if (wait_ms == 0 || (lazy && waiters_are_ready(waiters, key)))
		return TRY_READY;
	if (!c->waiter)
		c->waiter = waiter_new(waiters, wait_ms, c);
	ready = waiter_ready(c->waiter, key);
	if (ready == TRY_READY)
		waiter_sent(c->waiter, ticket);
	return ready;
}

/* Sends an error in place of `current`, and drops `current`. Awaits the reply: if the client
 * turned opaque before, it would also get the reply to hasp's DISCARD. */
static void refuse_to_wait(struct client *c)
{
	struct buf *call = &c->env->policy.rewritten, error = BUF_INIT;
	struct pending_request *r = pending_new(PENDING_PROBE);

	buf_printf(&error, "ERR hasp: cannot wait for a lock: %s", waiter_refusal(c->waiter));
	buf_append(&error, slice_of("", 1));
	buf_clear(call);
	rewrite_error(call, &(struct rewrite_opts){ .eval = true }, buf_head(&error));
	buf_release(&error);
	send_bytes(c, buf_slice(call));
	session_await(&c->session, r);
	link_expect(&c->user, LINK_NOTIFY, r);
	session_withdraw(&c->session, c->current);
	pending_free(c->current);
	c->current = NULL;
}

/* Returns the client's key for whose lock or guard the client waits. */
static struct slice waited_key(const struct client *c)
{
	const struct pending_request *r = c->current;

	return r->guard_op ? guard_op_queued_key(r->guard_op)
	                   : lock_request_key(r->lock_request);
}

/* If hasp cannot reach the server of the lock that the client waits for, appends an error that
 * says so, because hasp does not know whether another owner has the lock. */
static void describe_outage(const struct client *c, struct buf *error)
{
	const struct script_jobs *jobs = c->env->policy.script_jobs;
	const char *server = script_jobs_server(jobs, waited_key(c));

	if (!script_jobs_are_up(jobs, waited_key(c)))
		buf_printf(error,
		           "-ERR hasp: upstream %s: it cannot be reached, and the wait for a "
		           "lock timed out\r\n",
		           server ? server : c->env->node->links.name);
}

/* True if other clients may wait for this one, because it has locks or guards. */
static bool may_be_waited_for(const struct client *c)
{
	double now = c->env->policy.now;
	const struct guard_op *op = c->current->guard_op;

	return hold_owner_has_any(&c->locks->holds, now) ||
	       read_set_has_any(&c->locks->read_set, now) ||
	       (op ? op->n > 1 : parts_has(c->current->lock_request));
}

/* Watches for a deadlock: the client, which is in line, may wait for itself through others. */
static void watch_for_deadlock(struct client *c, const struct attempt *t)
{
	struct deadlock_terms terms = { .db = c->session.db,
		                        .wanted = t,
		                        .shown = waited_key(c) };
	const char *user = session_user(&c->session);

	if (user)
		terms.user = slice_str(user);
	if (c->identity && may_be_waited_for(c))
		terms.connection = token_slice(c->identity);
	c->deadlock = deadlock_watch_new(c->env->deadlocks, &terms, on_deadlock, c);
}

/* Puts `current` in line for the lock out->lock, which it may get at once. */
static void wait_in_turn(struct client *c, const struct op_out *out)
{
	const struct attempt *t = &out->lock;

	if (!c->waiter)
		c->waiter = waiter_new_sent(c->env->policy.waiters, out->wait_ms, out->sent_at,
		                            t->ticket, c);
	/* A client that has a place lost it and queues again: it was counted before. */
	if (!waiter_place(c->waiter))
		stats_wait_began(out->stats, c->session.db, waited_key(c), c->env->policy.now);
	client_park(c, CLIENT_PARKED_TURN);
	/* The wait may take long, so free unused memory. */
	buf_fit(&c->in);
	waiter_count_at(c->waiter, out->stats);
	if (waiter_queued(c->waiter, c->session.db, t, out->line) != 0) {
		client_set_state(c, CLIENT_PARKED_REPLY);
		client_close(c, not_understood);
	} else if (c->eof && c->state == CLIENT_PARKED_TURN) {
		/* The client hung up earlier. Close it only now, because now hasp knows its
		 * place in the line, and can give the place up without a search for it. */
		client_close(c, hung_up);
	} else if (c->state == CLIENT_PARKED_TURN) {
		watch_for_deadlock(c, t);
	}
}

/* --- actions ------------------------------------------------------------------------------ */

static void send_again(struct client *c, bool eval);
static bool exchange_event(struct client *c, const struct op_event *e);

static struct op_facts client_facts(const struct client *c, struct op_out *out)
{
	struct op_facts f = { .request = c->current,
		              .db = c->session.db,
		              .resp3 = c->session.proto == 3,
		              .in_line = c->state == CLIENT_PARKED_TURN,
		              .waiter = c->waiter,
		              .holds = &c->locks->holds,
		              .out = out };

	out->send = (struct op_send){ 0 };
	out->own = BUF_INIT;
	if (!c->current->guard_op)
		return f;
	f.has_link = c->user.link;
	f.waiters = c->env->policy.waiters;
	f.now = c->env->policy.now;
	f.bytes = slice_of(buf_head(&c->in), c->scanned);
	return f;
}

static void send_first(struct client *c, struct op_send *s)
{
	send_bytes(c, buf_slice(&s->bytes));
	buf_release(&s->bytes);
	if (s->is_call)
		send_call(c, s->more);
	else
		send_bytes(c, s->more);
	for (unsigned i = 0; i < s->ndiscards; i++)
		link_expect(&c->user, LINK_DISCARD, NULL);
	for (unsigned i = 0; i < s->nunseen; i++)
		link_expect(&c->user, s->unseen, c->current);
	if (s->flags)
		link_expect(&c->user, s->flags, c->current);
}

static void await_reply(struct client *c)
{
	if (list_empty(&c->current->node))
		session_await(&c->session, c->current);
	client_park(c, CLIENT_PARKED_REPLY);
}

/* Sends the application's MULTI, after a WATCH of hasp's own. */
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

static void send_next_step(struct client *c, bool eval);

static void send_answer(struct client *c, const struct op_action *a)
{
	if (a->answer.n && a->carried_out && lock_op_exec_is_late(c->current))
		complete_exec_refuse(c, c->current);
	else if (a->answer.n)
		stream_send(&c->stream, a->answer);
}

/* Ends `current`, a call on a lock, with `reply`. The client has got its answer. */
static void reply_to_lock(struct client *c, const struct resp_reply *reply)
{
	/* Most calls skip this, because they succeeded and did not wait. */
	if (c->waiter || c->stream.error || resp_reply_is_error(reply))
		lock_op_reply(c->current, client_own_holds(c), c->session.db, c->waiter,
		              c->stream.error, reply);
	complete_lock(c, c->current, c->session.db, reply);
	client_complete_current(c);
}

/* True if the client has sent FIN or reset its connection, even before hasp reads that. */
static bool has_hung_up(const struct client *c)
{
	struct pollfd p = { .fd = stream_fd(&c->stream), .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

void exchange_hung_up(struct client *c)
{
	client_finish_with(c,
	                   SLICE_LIT("-ERR hasp: the client shut down its sending side before "
	                             "replicas had its lock: hasp releases the lock\r\n"),
	                   "hung up before replicas had its lock");
}

/* Takes the action. Returns true if the event's line goes to the client unchanged. */
static bool do_act(struct client *c, const struct op_action *a, const struct op_out *out)
{
	switch (a->act) {
	case OP_PASS:
		return true;
	case OP_AWAIT:
		await_reply(c);
		break;
	case OP_AGAIN:
		/* (If all replies are late, hasp sends the call again until the wait ends.) */
		if (c->waiter && c->current->nlate && has_hung_up(c))
			client_close(c, hung_up);
		else
			send_again(c, a->eval);
		break;
	case OP_NEXT:
		send_next_step(c, a->eval);
		break;
	case OP_BEGIN_MULTI:
		begin_multi(c, a->guards);
		break;
	case OP_WAIT:
		wait_in_turn(c, out);
		break;
	case OP_CONFIRM:
		client_park(c, CLIENT_PARKED_TURN);
		if (!c->waiter)
			c->waiter = waiter_new(c->env->policy.waiters, 0, c);
		waiter_answered_late(c->waiter, c->session.db, &out->lock);
		break;
	case OP_ASK_REPLICAS:
		client_park(c, CLIENT_PARKED_ACK);
		c->ask = replica_ask_new(c->env->replica_acks, &out->lock, &out->terms,
		                         on_acked, c);
		if (c->eof)
			exchange_hung_up(c);
		break;
	case OP_ANSWER:
		send_answer(c, a);
		reply_to_lock(c, &a->reply);
		break;
	case OP_END:
		send_answer(c, a);
		complete_request(c, c->current, &a->reply, a->captured);
		client_end_current(c);
		break;
	case OP_DONE:
		/* A client in line leaves the queue in Redis before hasp sends the answer. */
		client_end_wait(c);
		send_answer(c, a);
		client_complete_current(c);
		break;
	case OP_CLOSE:
		client_close(c, not_understood);
		break;
	}
	return false;
}

/* Sends the bytes that must precede the action, and then calls do_act(). */
static bool take_action(struct client *c, const struct op_action *a, struct op_out *out)
{
	bool passes;

	if (a->drops_head)
		link_discard_head(&c->user);
	send_first(c, &out->send);
	passes = do_act(c, a, out);
	buf_release(&out->own);
	return passes;
}

static void send_next_step(struct client *c, bool eval)
{
	struct op_out out;
	struct op_facts f = client_facts(c, &out);
	struct rewrite_opts opts;

	client_rewrite_opts(c, eval, &opts);
	guard_steps_next(&f, &opts);
	send_first(c, &out.send);
	await_reply(c);
}

/* Handles an event. Returns true if the event's line goes to the client unchanged. */
static bool exchange_event(struct client *c, const struct op_event *e)
{
	struct op_out out;
	struct op_facts f;
	struct buf outage = BUF_INIT;
	struct op_action a;
	bool passes;

	/* Events from OP_GRANTED on end a wait. To log such an event, hasp finds the client by
	 * the client's own struct hold_owner. */
	if (e->kind >= OP_GRANTED)
		(void)client_own_holds(c);
	f = client_facts(c, &out);
	if (e->kind == OP_TIMED_OUT)
		describe_outage(c, &outage);
	f.outage = buf_slice(&outage);
	if (c->current->guard_op) {
		guard_events_note(c, e);
		a = guard_steps_step(&f, e);
	} else {
		a = lock_op_step(&f, e);
	}
	passes = take_action(c, &a, &out);
	buf_release(&outage);
	return passes;
}

/* --- requests ----------------------------------------------------------------------------- */

/* Sends the call on a lock in env->rewritten. */
static void send_lock_call(struct client *c, bool waits, const struct rewrite_opts *opts)
{
	send_call(c, buf_slice(&c->env->policy.rewritten));
	link_expect(&c->user, lock_op_flags(c->current, waits, opts), c->current);
	c->current->by_eval = opts->eval;
	await_reply(c);
}

/* Sends the next step of a guarded command. */
static void send_guarded(struct client *c, const struct context *x)
{
	const struct op_request call = { x->req, x->keys, &x->opts, &x->env->rewritten };
	struct op_out out;
	struct op_facts f = client_facts(c, &out);

	guard_steps_send(&f, &call);
	send_first(c, &out.send);
	await_reply(c);
}

/* Gives up a guarded command that cannot wait for its guard. */
static void give_up_guarded(struct client *c)
{
	struct op_out out;
	struct op_facts f = client_facts(c, &out);

	guard_steps_give_up(&f);
	send_first(c, &out.send);
}

/* Sends `current`. `wait_ms`: if `current` is a call on a lock, how long it may wait in line.
 * Returns false if hasp has sent an error in place of `current`. */
static bool send_current(struct client *c, const struct context *x, int64_t wait_ms)
{
	const struct guard_op *op = c->current->guard_op;
	struct slice key = SLICE_NONE;

	if (op) {
		wait_ms = guard_steps_wait_ms(op, x->opts.wait_max_ms);
		key = read_set_entry_key(op->keys[0].entry);
	} else if (wait_ms) {
		key = lock_request_key(c->current->lock_request);
	}
	switch (prepare_wait(c, key, wait_ms, x->opts.ticket, op)) {
	case TRY_READY:
		break;
	case TRY_NOT_YET:
		client_park(c, CLIENT_PARKED_QUEUE);
		session_withdraw(&c->session, c->current);
		return true;
	case TRY_REFUSED:
		if (op)
			give_up_guarded(c);
		refuse_to_wait(c);
		return false;
	}
	if (op)
		send_guarded(c, x);
	else
		send_lock_call(c, wait_ms > 0, &x->opts);
	return true;
}

/* True for a command that keeps its decision, because all its calls belong together. An MLOCK
 * keeps it if the present configuration gives it the same owner and kind of lock. An UNLOCK or
 * MUNLOCK keeps it if it has named the acquisition that it gives back. */
static bool lock_goes_on(struct client *c, struct context *x)
{
	const struct lock_request *p = c->current->lock_request;

	if (!lock_names_given_back(x, p) &&
	    (!lock_request_is_multi(p) ||
	     (p->state != LOCK_REQUEST_UNDONE && !lock_multi_stays(x, p))))
		return false;
	c->decided_in = c->env->policy.generation;
	return true;
}

/* Releases the locks of a request about which hasp decides again. Besides hasp's own
 * connection, uses the client's link, so that the next attempt finds the locks free. */
static void undo_parts_by_link(struct client *c, const struct context *x)
{
	const struct lock_request *p = c->current->lock_request;
	struct rewrite_opts opts = x->opts;
	struct buf out = BUF_INIT;

	lock_op_undo_parts(c->current, c->session.db);
	if (!parts_has(p) || !route_take(c, route_for(c, x)))
		return;
	opts.eval = true;
	parts_write_undo(p, &out, &opts);
	send_call(c, buf_slice(&out));
	link_expect(&c->user, LINK_DISCARD, NULL);
	buf_release(&out);
}

/* Returns true if the configuration has changed, and hasp therefore decides again. */
static bool is_decided_again(struct client *c, struct context *x)
{
	struct guard_op *op = c->current->guard_op;

	/* A transaction of hasp's own keeps the decision by which hasp began it. */
	if (client_is_decided(c) || (op ? op->kind != GUARD_OP_SCRIPT : lock_goes_on(c, x)))
		return false;
	if (op)
		guard_op_withdraw(op);
	else
		undo_parts_by_link(c, x);
	client_decide_again(c);
	return true;
}

/* Sends `current` again, from the head of `in`, or goes on where `current` was parked. `eval`:
 * Redis has answered that it lacks the script of a call on a lock. */
static void send_again(struct client *c, bool eval)
{
	const struct guard_op *op = c->current->guard_op;
	struct command_info what;
	struct resp_view view;
	struct context x = client_context_again(c, &view, &what);

	client_rewrite_opts(c, op ? guard_steps_lacks_script(op) : eval, &x.opts);
	if (is_decided_again(c, &x))
		return;
	/* While the client waited, it may have lost its link, and the command may now need
	 * another route. */
	if (!route_take(c, route_for(c, &x))) {
		session_withdraw(&c->session, c->current);
		client_park(c, CLIENT_PARKED_LINK);
		return;
	}
	if (!send_current(c, &x, op ? 0 : lock_rewrite(&x, c->current)))
		client_end_current(c);
}

void exchange_resume(struct client *c)
{
	send_again(c, false);
}

/* Asks Redis, by a PING, whether the client is logged in. Before a login, Redis closes a
 * connection that sends more than ten arguments, as script calls have. */
static void ask_login(struct client *c)
{
	send_bytes(c, SLICE_LIT("*1\r\n$4\r\nPING\r\n"));
	link_expect(&c->user, LINK_NOTIFY | LINK_INTERCEPT | LINK_INTERCEPT_STATUS, c->current);
	c->asks_login = true;
	await_reply(c);
}

/* For DISPATCH_COUNT_WRITES: writes a key and deletes it. The key also expires, because the
 * user may lack the permission for DEL. */
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
	await_reply(c);
}

/* Handles the reply to count_writes(). Returns true for an error, which the client gets. */
static bool on_count_line(struct client *c, struct slice line)
{
	if (slice_starts(line, SLICE_LIT("-")))
		return true;
	c->needs_wait_ping = false;
	client_decide_again(c);
	return false;
}

bool exchange_start(struct client *c, struct context *x, const struct decision *d)
{
	c->current = d->pending;
	c->decided_in = c->env->policy.generation;
	if (c->current->kind == PENDING_COUNT) {
		count_writes(c);
		return true;
	}
	/* A client in a transaction has logged in, and Redis would queue a PING before the
	 * EXEC. */
	if (c->current->kind == PENDING_LOGIN ||
	    (client_must_log_in(c) && c->current->kind != PENDING_EXEC)) {
		ask_login(c);
		return true;
	}
	/* If the command is EXEC, the transaction has just ended, which changes the options. */
	if (c->current->guard_op)
		client_rewrite_opts(c, false, &x->opts);
	return send_current(c, x, d->wait_ms);
}

/* --- replies ------------------------------------------------------------------------------ */

/* Handles the reply to ask_login(). Returns true for an error, which the client gets. */
static bool on_login_line(struct client *c, struct slice line)
{
	c->asks_login = false;
	if (slice_starts(line, SLICE_LIT("-NOAUTH"))) {
		if (c->current->kind == PENDING_LOGIN)
			metrics_count(&c->env->counters.commands[COMMAND_PASSED], 1);
		return true;
	}
	/* Redis answered a PING without a login, so it requires none any more. */
	if (line.n && *line.p == '+')
		c->env->node->links.login_required = false;
	if (c->current->kind == PENDING_LOGIN) {
		session_set_admission(&c->session, LOGIN_ADMITTED);
		client_decide_again(c);
	} else {
		send_again(c, false);
	}
	return false;
}

/* The reply that link_withdraw() gives to a call that no server has carried out. */
#define WITHDRAWN "-ERR hasp: its time is over\r\n"

bool exchange_on_line(struct client *c, struct slice line)
{
	if (c->waiter && slice_eq(line, SLICE_LIT(WITHDRAWN))) {
		c->asks_login = false;
		return exchange_event(c, &(struct op_event){ .kind = OP_TIMED_OUT });
	}
	if (c->asks_login)
		return on_login_line(c, line);
	if (c->current->kind == PENDING_COUNT)
		return on_count_line(c, line);
	if (c->current->guard_op && guard_steps_passes(c->current->guard_op, line))
		return true;
	return exchange_event(c, &(struct op_event){ .kind = OP_LINE, .line = line });
}

static void reply_to_guarded(struct client *c, const struct resp_reply *reply,
                             struct slice captured)
{
	switch (guard_steps_reply(c->current->guard_op, reply, captured)) {
	case OP_AWAIT:
		break;
	case OP_DONE:
		client_complete_current(c);
		break;
	case OP_AGAIN:
		(void)exchange_event(c, &(struct op_event){ .kind = OP_NOT_FREE });
		break;
	default:
		(void)exchange_event(c, &(struct op_event){ .kind = OP_REPLY,
		                                            .reply = reply,
		                                            .captured = captured });
	}
}

void exchange_on_reply(struct client *c, const struct resp_reply *reply, struct slice captured)
{
	c->asks_login = false;
	switch (c->current->kind) {
	case PENDING_INFO:
		holders_info_on_reply(c, reply, captured);
		break;
	case PENDING_LIST:
		holders_list_on_reply(c, reply);
		break;
	case PENDING_QUORUM:
		quorum_op_on_reply(c, reply);
		break;
	default:
		if (c->current->guard_op)
			reply_to_guarded(c, reply, captured);
		else
			reply_to_lock(c, reply);
	}
}

void exchange_refuse_queued(struct client *c)
{
	transaction_abort(&c->session.txn);
	if (c->current && c->current->guard_op && c->current->guard_op->kind == GUARD_OP_BLOCK)
		c->current->guard_op->aborted = true;
}

size_t exchange_due(const struct client *c)
{
	const struct pending_request *r = c->current;

	if (!r || list_empty(&r->node))
		return 0;
	return r->guard_op ? 1 + r->guard_op->due : 1;
}

/* --- events while the client waits -------------------------------------------------------- */

static void on_queue_ready(void *owner)
{
	struct client *c = client_of(owner);

	if (c->state == CLIENT_PARKED_QUEUE)
		client_resume(c);
}

static void on_granted(void *owner, long long fence, double since)
{
	struct client *c = client_of(owner);

	/* The request counts as sent, so that client_close() undoes it. */
	client_set_state(c, CLIENT_PARKED_REPLY);
	if (has_hung_up(c)) {
		client_close(c, hung_up);
		return;
	}
	/* Another connection's script wrote the lock for this client: WAIT must cover that. */
	c->needs_wait_ping = true;
	(void)exchange_event(
		c, &(struct op_event){ .kind = OP_GRANTED, .fence = fence, .since = since });
}

static void on_acked(void *arg, bool enough)
{
	struct client *c = client_of(arg);

	c->ask = NULL;
	client_set_state(c, CLIENT_PARKED_REPLY);
	if (has_hung_up(c)) {
		exchange_hung_up(c);
		return;
	}
	/* A guarded command now needs the client's link, which may have ended. */
	if (enough && c->current->guard_op && !route_is_usable(c))
		send_again(c, false);
	else
		(void)exchange_event(c,
		                     &(struct op_event){ .kind = OP_ACKED, .enough = enough });
}

static void on_deadlock(void *arg, struct slice error)
{
	(void)exchange_event(client_of(arg),
	                     &(struct op_event){ .kind = OP_DEADLOCK, .line = error });
}

static void on_wait_timed_out(void *owner)
{
	(void)exchange_event(client_of(owner), &(struct op_event){ .kind = OP_TIMED_OUT });
}

/* Withdraws a call that waits too long for a slot's migration to end or for a primary. */
static void on_overdue(void *owner)
{
	struct client *c = client_of(owner);

	if (c->state == CLIENT_PARKED_REPLY && c->user.link &&
	    (!c->current->guard_op || guard_steps_may_be_withdrawn(c->current->guard_op)))
		link_withdraw(c->user.link, SLICE_LIT(WITHDRAWN));
}

static void on_place_lost(void *owner)
{
	send_again(client_of(owner), false);
}

const struct waiter_ops exchange_waiter_ops = {
	.on_ready = on_queue_ready,
	.on_granted = on_granted,
	.on_timed_out = on_wait_timed_out,
	.on_overdue = on_overdue,
	.on_lost = on_place_lost,
};
