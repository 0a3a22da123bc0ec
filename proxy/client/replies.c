/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replies: sends the replies from a client's link to the client, and applies what they mean
 * for the session, for locks and for guards.
 */
#include "client/client_internal.h"

#include <stdio.h>

#include "client/op.h"
#include "lock/guard/checked_read.h"

/* A client that leaves this many bytes unread gets a link of its own, which hasp can pause. If
 * no other client awaits a reply on the shared link, the client gets that link at once; else it
 * gets another link before its next request. */
#define PIN_BEHIND ((size_t)1024 * 1024)

/* --- bytes ------------------------------------------------------------------------------- */

/* Handles a client that leaves replies unread. hasp pauses the client's link, so that further
 * replies stay in Redis. While other clients await replies on the link, or the client still
 * sends, hasp instead keeps the replies, and closes the client at client_output_limit. */
static void on_unread(struct client *c)
{
	if (!client_check_output(c))
		return;
	if (c->shared && stream_pending(&c->stream) > PIN_BEHIND) {
		c->pinned = true;
		link_claim(&c->user);
	}
	if (client_may_pause_link(c))
		client_steer_link(c);
}

/* True if a reply other than an error begins in `bytes`, the next bytes after those of the last
 * call. */
static bool has_success(struct client *c, struct slice bytes)
{
	const char *p = bytes.p, *end = p + bytes.n;

	while (p < end) {
		if (!c->in_error && *p != '-')
			return true;
		p = memchr(p, '\n', (size_t)(end - p));
		c->in_error = !p;
		if (!p)
			break;
		p++;
	}
	return false;
}

static void on_reply_bytes(void *owner, struct slice bytes)
{
	struct client *c = client_of(owner);

	client_mark_active(c);
	c->saw_success = c->saw_success || has_success(c, bytes);
	stream_send(&c->stream, bytes);
	if (stream_pending(&c->stream) == 0)
		return;
	client_count_memory(c);
	if (stream_pending(&c->stream) >= STREAM_HIGH_WATER)
		on_unread(c);
}

void replies_on_drained(struct stream *s)
{
	struct client *c = client_of(container_of(s, struct client, stream));

	if (c->state == CLIENT_FINISHING) {
		if (c->eof)
			client_close(c, "done");
		return;
	}
	client_count_memory(c);
	if (client_may_pause_link(c))
		link_resume(c->user.link);
	client_steer_reading(c);
}

/* Counts the memory of the first part of a reply, which hasp keeps until the rest arrives. */
static void on_captured(void *owner)
{
	client_count_memory(client_of(owner));
}

static void on_link_drained(void *owner)
{
	struct client *c = client_of(owner);

	if (c->state == CLIENT_PARKED_SPACE)
		client_unpark(c);
	else
		client_steer_reading(c);
}

/* Resumes a client that waited for a link, so that it takes a link. */
static void go_on_linked(struct client *c)
{
	if (c->current)
		client_resume(c);
	else
		client_unpark(c);
}

/* Resumes a client that waited until no reply was due. */
static void on_link_idle(void *owner)
{
	struct client *c = client_of(owner);

	if (c->state == CLIENT_PARKED_LINK)
		go_on_linked(c);
	else if (c->eof && c->state == CLIENT_OPEN)
		client_unpark(c);
	if (c->env->phase == CLIENTS_DRAINING)
		drain_client(c);
	if (client_is_ending(c) || c->state == CLIENT_HANDED)
		return;
	route_follow_node(c);
	route_return(c);
}

void replies_go_on(struct client *c)
{
	if (c->state == CLIENT_PARKED_LINK)
		go_on_linked(c);
}

static void on_link_ready(void *owner)
{
	replies_go_on(client_of(owner));
}

/* --- replies ------------------------------------------------------------------------------ */

/* If no reply is due any more, resumes a client whose next request depended on replies. */
static void go_on_deferred(struct client *c)
{
	if (c->state == CLIENT_PARKED_DEFERRED && c->session.nawaited == 0)
		client_go_on(c);
}

/* Gives the reply to the tracker before the client gets it. So the tracker sees the reply
 * before any command that another client sends because of it. */
static void on_answered(void *owner, void *tag, const struct resp_reply *reply)
{
	struct client *c = client_of(owner);
	struct pending_request *r = tag;

	complete_watched(r, c->session.db, reply);
}

/* While the client is subscribed, makes the link watch all frames. Does nothing while the
 * client awaits replies, because one of them may subscribe it. */
static void watch_frames(struct client *c)
{
	if (c->session.nawaited == 0)
		link_watch(c->user.link, session_is_subscribed(&c->session));
}

/* If RESET has logged the client out, restarts the client's time to log in. */
static void begin_login(struct client *c, bool was_logged_in)
{
	if (was_logged_in)
		c->login_from = c->env->policy.now;
	c->saw_success = c->in_error = false;
}

static void on_piece(void *owner, void *tag, struct slice bytes, bool ended)
{
	const struct pending_request *r = tag;

	(void)owner;
	if (r->checked_read)
		checked_read_feed(r->checked_read, bytes);
	else
		followed_script_feed(r->lock_request, bytes, ended);
}

/* True if exchange.c answers the request step by step. */
static bool is_exchanged(const struct pending_request *r)
{
	return r->guard_op || r->kind == PENDING_LOCK || r->kind == PENDING_INFO ||
	       r->kind == PENDING_LIST || r->kind == PENDING_QUORUM ||
	       r->kind == PENDING_LOGIN || r->kind == PENDING_COUNT;
}

/* True if the reply shows that Redis keeps neither a transaction nor watched keys for the
 * client. */
static bool ends_transaction(const struct client *c, const struct pending_request *r,
                             const struct resp_reply *reply, struct slice captured)
{
	if (!r->ends_transaction || r->number != c->ntransacting)
		return false;
	return r->ended || reply->type == '*' || reply->nil ||
	       slice_starts(captured, SLICE_LIT("-EXECABORT "));
}

static void on_reply(void *owner, void *tag, const struct resp_reply *reply,
                     struct slice captured)
{
	struct client *c = client_of(owner);
	struct pending_request *r = tag;
	bool was_reset, is_notice, was_logged_in, ends;

	if (r == c->current && is_exchanged(r)) {
		exchange_on_reply(c, reply, captured);
		return;
	}
	was_reset = r->kind == PENDING_RESET;
	is_notice = r->kind == PENDING_NOTICE;
	was_logged_in = c->session.login == LOGIN_DONE;
	ends = ends_transaction(c, r, reply, captured);
	if (r->kind == PENDING_LOGIN)
		session_set_admission(&c->session, slice_starts(captured, SLICE_LIT("-NOAUTH"))
		                                           ? LOGIN_REFUSED
		                                           : LOGIN_ADMITTED);
	complete_request(c, r, reply, captured);
	/* watch_frames() does nothing if a SUBSCRIBE has followed RESET. */
	if (was_reset) {
		watch_frames(c);
		begin_login(c, was_logged_in);
		if (!resp_reply_is_error(reply))
			route_reset(c);
	}
	if (r == c->current)
		client_end_current(c);
	else if (!is_notice)
		go_on_deferred(c);
	if (ends && !client_is_ending(c))
		route_end_transaction(c);
	if (!client_is_dead(c))
		client_count_memory(c);
}

/* The link calls this when Redis has accepted SYNC or MONITOR. */
static void on_stream(void *owner, void *tag)
{
	struct client *c = client_of(owner);
	struct pending_request *r = tag;
	bool raw = r->raw;

	session_complete(&c->session, r);
	session_make_opaque(&c->session);
	client_set_state(c, CLIENT_OPEN);
	if (raw)
		client_set_state(c, CLIENT_TUNNEL);
	client_resume(c);
}

/* --- replies that come late --------------------------------------------------------------- */

static bool on_is_late(void *owner, void *tag)
{
	const struct client *c = client_of(owner);
	const struct pending_request *r = tag;

	return r->kind == PENDING_EXEC ? lock_op_exec_is_late(r)
	                               : lock_op_is_late(c->current->lock_request);
}

/* Handles a late reply to EXEC. Returns true if the client gets this reply. */
static bool on_late_exec(struct client *c, struct pending_request *exec, struct slice bytes)
{
	struct reply_scan scan = { 0 };
	size_t used;

	/* If `bytes` is empty, the reply was too long to keep: it cannot be an error. */
	if (bytes.n && reply_scan(&scan, bytes.p, bytes.n, &used) != RESP_OK)
		return true;
	if (resp_reply_is_error(&scan.reply) || scan.reply.nil || !lock_op_exec_is_late(exec))
		return true;
	complete_exec_refuse(c, exec);
	on_reply(c, exec, &scan.reply, bytes);
	return false;
}

/* True for an error after which Redis keeps the transaction open. */
static bool is_harmless_in_multi(struct slice line)
{
	return slice_starts(line, SLICE_LIT("-ERR MULTI calls can not be nested")) ||
	       slice_starts(line, SLICE_LIT("-ERR WATCH inside MULTI is not allowed"));
}

/* Handles a line for LINK_INTERCEPT. A rewritten request got an error or has to wait, or Redis
 * has refused to queue a command. */
static bool on_line(void *owner, void *tag, struct slice line)
{
	struct client *c = client_of(owner);
	struct pending_request *r = tag;

	if (!r) {
		if (!is_harmless_in_multi(line))
			exchange_refuse_queued(c);
		return true;
	}
	if (r->kind != PENDING_EXEC && r->ends_transaction) {
		r->ended = slice_eq(line, SLICE_LIT("+OK\r\n")) ||
		           slice_starts(line, SLICE_LIT("-EXECABORT "));
		return true;
	}
	if (r->kind == PENDING_EXEC &&
	    (r != c->current || guard_steps_forward(c->current->guard_op)))
		return on_late_exec(c, r, line);
	return exchange_on_line(c, line);
}

static bool on_frame(void *owner, const struct reply_scan *frame)
{
	struct client *c = client_of(owner);
	struct pending_request *head = link_head(&c->user);
	bool ended;

	if (!session_frame(&c->session, frame, head, &ended))
		return false;
	if (ended) {
		link_drop_head(c->user.link);
		session_complete(&c->session, head);
		watch_frames(c);
		go_on_deferred(c);
	}
	return true;
}

/* --- the link's end ----------------------------------------------------------------------- */

/* True if the outcome of `current` is unknown, and no other reply is due. hasp can then answer
 * `current` with an error. */
static bool is_outcome_unknown(const struct client *c, enum link_end end, size_t inflight)
{
	return end == LINK_BROKEN && c->state == CLIENT_PARKED_REPLY &&
	       inflight - c->user.discarded == exchange_due(c) && !c->session.quitting;
}

/* Ends the client because its link ended or could not be opened. A client that waits for an
 * answer gets an error that says what hasp knows about its request. */
static void end_with_link(struct client *c, enum link_end end, const char *reason,
                          size_t inflight)
{
	bool is_due = inflight || c->state == CLIENT_PARKED_LINK;
	char error[512] = "";

	if (end == LINK_UNREACHABLE && c->env->node->links.master)
		snprintf(error, sizeof(error), "-ERR hasp: no primary for '%s': %s\r\n",
		         c->env->node->links.master, reason);
	else if (end == LINK_UNREACHABLE)
		snprintf(error, sizeof(error), "-ERR hasp: upstream %s: %s\r\n",
		         c->env->node->links.name, reason);
	else if (end == LINK_REFUSED && is_due)
		snprintf(error, sizeof(error), "-%s\r\n", reason);
	else if (is_outcome_unknown(c, end, inflight))
		snprintf(error, sizeof(error),
		         "-ERR hasp: upstream %s: %s; whether the command was carried out is "
		         "not known\r\n",
		         c->env->node->links.name, reason);
	if (*error)
		client_finish_with(c, slice_str(error), reason);
	else
		client_finish(c, reason);
}

/* True if the client can take another link: it had no request in flight on the lost link, which
 * was shared or had only state that hasp can replay. */
static bool can_do_without(const struct client *c, enum link_end end, size_t inflight)
{
	return !inflight && c->state != CLIENT_PARKED_REPLY && !c->eof &&
	       (c->shared || (end == LINK_BROKEN && route_can_replace(c)));
}

static void on_link_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct client *c = client_of(owner);
	bool waits = c->state == CLIENT_PARKED_LINK;

	c->needs_wait_ping = true;
	if (can_do_without(c, end, inflight)) {
		/* If the lost link was full, hasp may read from the client again. */
		client_steer_reading(c);
		if (c->shared)
			route_rejoin(c);
		if (c->state == CLIENT_PARKED_SPACE)
			client_unpark(c);
		else if (waits)
			go_on_linked(c);
	} else if (waits && !inflight && route_has_another(c, end)) {
		go_on_linked(c);
	} else {
		end_with_link(c, end, reason, inflight);
	}
}

/* --- shared links ------------------------------------------------------------------------ */

static struct client *client_of_waiter(struct pool_waiter *w)
{
	return client_of(container_of(w, struct client_link_wait, waiter)->client);
}

static void on_pool_ready(struct pool_waiter *w)
{
	struct client *c = client_of_waiter(w);

	if (c->state == CLIENT_PARKED_LINK)
		go_on_linked(c);
	else if (!c->user.link)
		route_rejoin(c);
	else if (!c->shared)
		route_return(c);
}

static void on_pool_failed(struct pool_waiter *w, enum link_end end, const char *reason)
{
	struct client *c = client_of_waiter(w);

	if (c->state == CLIENT_PARKED_LINK && route_has_another(c, end))
		go_on_linked(c);
	/* If Redis refuses the login, the user was deleted, and Redis would close the client.
	 * After another failure, a client without a request can wait until Redis is back. */
	else if (c->state == CLIENT_PARKED_LINK || (!c->user.link && end == LINK_REFUSED))
		end_with_link(c, end, reason, 0);
}

const struct pool_ops replies_pool_ops = { on_pool_ready, on_pool_failed };

const struct link_ops replies_link_ops = {
	.on_bytes = on_reply_bytes,
	.on_reply = on_reply,
	.on_answered = on_answered,
	.is_late = on_is_late,
	.on_line = on_line,
	.on_stream = on_stream,
	.on_piece = on_piece,
	.on_frame = on_frame,
	.on_captured = on_captured,
	.on_drained = on_link_drained,
	.on_ready = on_link_ready,
	.on_idle = on_link_idle,
	.on_down = on_link_down,
};
