/* SPDX-License-Identifier: BSD-3-Clause
 *
 * send: puts bytes and requests on a client's link, and announces the coming replies to the
 * link and the session.
 */
#include "client/client_internal.h"

#include "client/op.h"
#include "resp/write.h"

/* If a call has this many bytes, hasp counts its memory at once; else after the input. */
#define LONG_CALL ((size_t)64 * 1024)

void send_bytes(struct client *c, struct slice bytes)
{
	if (bytes.n == 0)
		return;
	/* Requests of several clients in one loop iteration leave in one write. */
	if (c->shared)
		link_queue(c->user.link, bytes);
	else
		link_send(c->user.link, bytes);
}

void send_call(struct client *c, struct slice call)
{
	if (c->shared) {
		link_queue_call(c->user.link, call);
		return;
	}
	/* Flush, so that Redis gets earlier requests of other clients before this call. */
	stream_flush_all(c->env->flusher);
	link_send(c->user.link, call);
	if (call.n >= LONG_CALL)
		client_count_memory(c);
}

/* --- the cursor --------------------------------------------------------------------------- */

void send_passed(struct client *c, struct cursor *k)
{
	if (k->at == k->from)
		return;
	send_bytes(c, slice_of(k->p + k->from, k->at - k->from));
	k->from = k->at;
}

void send_step_over(struct client *c, struct cursor *k)
{
	k->at += c->scanned;
	c->scanned = 0;
	c->decide_at = 0;
	if (c->session.login == LOGIN_REFUSED)
		session_set_admission(&c->session, LOGIN_UNKNOWN);
}

void send_put_off(struct client *c, enum client_state why)
{
	client_park(c, why);
	c->scanned = 0;
	c->decide_at = 0;
	c->scan = (struct request_scan){ 0 };
}

/* --- requests ----------------------------------------------------------------------------- */

/* Returns how the link must handle the reply: LINK_*. */
static unsigned reply_flags(const struct decision *d)
{
	unsigned patient = d->is_patient ? LINK_PATIENT : 0;
	unsigned flags = LINK_NOTIFY | patient;

	if (!d->pending)
		return (d->watches_refusal ? LINK_INTERCEPT : LINK_PASS) | patient;
	/* A followed request is complete when Redis has answered hasp's reads after it. */
	if (d->is_followed)
		flags = LINK_PIECES | patient;
	if (d->pending->kind == PENDING_EXEC || d->pending->value_read)
		flags |= LINK_CAPTURE;
	else if (d->pending->ends_transaction)
		flags |= LINK_INTERCEPT | LINK_INTERCEPT_STATUS;
	if (d->pending->checked_read)
		flags |= LINK_PIECES;
	if (d->pending->kind == PENDING_EXEC && lock_op_exec_sent(d->pending))
		flags |= LINK_INTERCEPT_LATE;
	if (d->pending->kind == PENDING_STREAM)
		flags |= LINK_BEGINS_STREAM;
	if (d->pending->kind == PENDING_MULTI)
		flags |= LINK_NOTIFY_FIRST;
	if (d->pending->command_sample)
		flags |= LINK_NOTIFY_EARLY;
	return flags;
}

void send_expect(struct client *c, const struct decision *d)
{
	if (d->pending) {
		d->pending->number = c->ntransacting;
		session_await(&c->session, d->pending);
		if (d->pending->kind == PENDING_SUBSCRIBE)
			link_watch(c->user.link, true);
	}
	for (unsigned i = 0; i < d->discards; i++)
		link_expect(&c->user, LINK_DISCARD, NULL);
	for (int i = 0; i < (d->is_followed ? 2 : 0); i++)
		link_expect(&c->user, LINK_DISCARD | LINK_PIECES, d->pending);
	link_expect(&c->user, reply_flags(d), d->pending);
	if (!d->is_followed)
		return;
	link_expect(&c->user, LINK_DISCARD | LINK_PIECES, d->pending);
	link_expect(&c->user, LINK_DISCARD | LINK_NOTIFY, d->pending);
}

/* Sends, in one piece, the request with hasp's own reads before and after it. */
static void send_followed(struct client *c, struct cursor *k, const struct decision *d)
{
	struct buf *out = &c->env->policy.rewritten;

	HASP_ASSERT(d->pending);
	send_passed(c, k);
	followed_script_write(d->pending->lock_request, slice_of(k->p + k->at, c->scanned),
	                      out);
	send_bytes(c, buf_slice(out));
	send_expect(c, d);
	send_step_over(c, k);
	k->from = k->at;
}

bool send_pass(struct client *c, struct cursor *k, const struct decision *d)
{
	const struct pending_request *r = d->pending;
	bool is_last = r &&
	               (r->kind == PENDING_STREAM || pending_logs_in(r) || pending_discards(r));

	client_end_wait(c);
	if (d->is_followed) {
		send_followed(c, k, d);
		return true;
	}
	if (d->follows_ping) {
		send_passed(c, k);
		link_ping(c->user.link);
		c->needs_wait_ping = false;
	}
	send_expect(c, d);
	send_step_over(c, k);
	if (d->turns_opaque) {
		link_make_opaque(c->user.link);
		session_make_opaque(&c->session);
	}
	if (!is_last)
		return true;
	send_put_off(c, CLIENT_PARKED_DEFERRED);
	return false;
}

/* Sends the call in env->rewritten as an inline request, if the call is short enough. */
static bool send_inline(struct client *c)
{
	struct slice call = buf_slice(&c->env->policy.rewritten);
	struct buf line = BUF_INIT;
	struct resp_view view;
	bool whole, fits;

	if (call.n > REQUEST_LINE_MAX)
		return false;
	view = request_view(&c->env->args, call.p, call.n, &whole);
	resp_write_inline(&line, view.argv, view.argc);
	fits = buf_len(&line) <= REQUEST_LINE_MAX;
	if (fits)
		send_call(c, buf_slice(&line));
	buf_release(&line);
	return fits;
}

/* True if the client may have logged out by a RESET whose reply hasp did not see. Redis then
 * refuses an array of more than ten arguments, as most calls have, and closes the connection,
 * but it answers an inline request with -NOAUTH. */
static bool may_be_logged_out(const struct client *c)
{
	return c->session.opaque && !session_user(&c->session);
}

void send_replacement(struct client *c, struct cursor *k, const struct decision *d)
{
	client_end_wait(c);
	send_passed(c, k);
	if (!may_be_logged_out(c) || !send_inline(c))
		send_call(c, buf_slice(&c->env->policy.rewritten));
	send_expect(c, d);
	send_step_over(c, k);
	k->from = k->at;
}

void send_count(struct client *c, const struct decision *d)
{
	static const enum command_outcome outcomes[] = {
		[DISPATCH_PASS] = COMMAND_PASSED,
		[DISPATCH_CALL] = COMMAND_REWRITTEN,
		[DISPATCH_GUARD] = COMMAND_GUARDED,
	};

	/* hasp will decide again. After ASK_LOGIN, exchange.c may count the command instead. */
	if (d->verdict > DISPATCH_GUARD)
		return;
	metrics_count(&c->env->counters.commands[d->is_refusal ? COMMAND_REFUSED
	                                                       : outcomes[d->verdict]],
	              1);
}
