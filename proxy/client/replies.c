/* SPDX-License-Identifier: BSD-3-Clause
 *
 * outlet: what comes back over a client's link: replies are handed on, what they mean for the
 * session is noted, a missing script is made good. So is what comes instead of a reply, when
 * the client stands in line for a lock.
 */
#include "client/client_internal.h"

#include <poll.h>
#include <stdio.h>

#include "base/fatal.h"
#include "client/guard_transaction.h"
#include "client/guard_exchange.h"
#include "config/match.h"
#include "lock/observe/observation.h"

/* A client this far behind gets a link of its own as soon as no reply is due, so that it can be
 * waited for. */
#define PIN_BEHIND ((size_t)1024 * 1024)

/* A client on a shared link that does not read cannot stop the link: it is given room, and
 * closed when that is full. */
static void check_limits(struct client *c)
{
	const struct config *config = c->env->policy.config;
	size_t pending = stream_pending(&c->stream);

	if (pending > PIN_BEHIND)
		c->pinned = true;
	if (pending > (size_t)config->client_output_limit)
		client_close(c, "client_output_limit");
	else if (c->env->flusher->pending > (size_t)(config->memory_limit / config->workers))
		client_close(c, "memory_limit");
}

static void client_on_bytes(void *owner, struct slice bytes)
{
	struct client *c = client_of(owner);

	client_mark_active(c);
	stream_send(&c->stream, bytes);
	if (stream_pending(&c->stream) < STREAM_HIGH_WATER)
		return;
	if (c->shared)
		check_limits(c);
	else
		link_pause(c->user.link);
	client_steer_reading(c);
}

void client_on_drained(struct stream *s)
{
	struct client *c = client_of(stream_owner(s));

	if (c->closing) {
		if (c->eof)
			client_close(c, "done");
		return;
	}
	if (c->user.link && !c->shared)
		link_resume(c->user.link);
	client_steer_reading(c);
}

/* No reply is due any more, and that was waited for. */
static void on_idle(void *owner)
{
	struct client *c = client_of(owner);

	if (c->waiting == WAIT_IDLE || c->eof)
		client_go_on(c);
}

static void on_link_drained(void *owner)
{
	struct client *c = client_of(owner);

	client_steer_reading(c);
}

void client_end_call(struct client *c)
{
	waiter_end(c->waiter);
	c->waiter = NULL;
	c->refused = false;
	buf_consume(&c->in, c->scanned);
	c->scanned = 0;
	client_go_on(c);
}

/* A request was answered that may have ended this lock. */
static void probe_waited_key(void *arg, struct slice key)
{
	struct client *c = client_of(arg);
	const struct rule *rule = match_rule(c->env->policy.config, key);
	bool by_value = rule && rule->owner == OWNER_VALUE;

	if (c->session.db >= 0)
		waiters_probe(c->env->policy.waiters, c->session.db, key,
		              by_value ? LOCK_KIND_VALUE : LOCK_KIND_RULE);
}

/* What others do when they have heard of it comes behind it. */
static void on_answered(void *owner, void *tag, const struct resp_reply *reply)
{
	struct client *c = client_of(owner);
	struct pending_request *r = tag;

	observation_complete(r->observation, c->session.db, reply);
	observation_free(r->observation);
	r->observation = NULL;
}

static void client_on_reply(void *owner, void *tag, const struct resp_reply *reply,
                            struct slice kept)
{
	struct client *c = client_of(owner);
	struct pending_request *r = tag;
	bool was_reset = r->kind == PENDING_RESET, guarded_command = r->call != NULL;

	if (r->kind == PENDING_NOTICE) {
		session_reply(&c->session, r, reply, kept, c->env->policy.holds, &c->holds);
		return;
	}
	if (r->pending_lock && c->stream.error)
		pending_lock_abandon(r->pending_lock);
	pending_request_each_probe_key(r, probe_waited_key, c);
	if (r->call && !guard_exchange_on_reply(c, r, reply, kept))
		return;
	if (!guarded_command)
		session_reply(&c->session, r, reply, kept, c->env->policy.holds, &c->holds);
	/* Unless it was already followed by SUBSCRIBE. */
	if (was_reset && c->session.nawaited == 0)
		link_watch(c->user.link, session_is_subscribed(&c->session));
	if (c->waiting == WAIT_REPLY)
		client_end_call(c);
	else if (c->waiting == WAIT_AWAITED && c->session.nawaited == 0)
		client_go_on(c);
}

void client_queued(struct client *c, bool understood)
{
	if (!understood) {
		c->waiting = WAIT_REPLY;
		client_close(c, "the answer to its lock is not understood");
	} else if (c->eof && c->waiting == WAIT_TURN) {
		/* Now that its place is known, it leaves without a search. */
		client_close(c, "hung up while it waited for a lock");
	}
}

/* The try to take a lock stands in line. */
static void enqueue_client(struct client *c, struct pending_request *r, struct slice line)
{
	int64_t lease_ms;
	struct lock_try t = pending_lock_try(r->pending_lock, &lease_ms);

	c->waiting = WAIT_TURN;
	client_queued(c, waiter_queued(c->waiter, c->session.db, &t, lease_ms, line, r) == 0);
}

/* The reply to a rewritten request is an error, or the try to take a lock has to wait. When
 * Redis does not have the script, the same request goes out again with its text. */
static bool on_line(void *owner, void *tag, struct slice line)
{
	struct client *c = client_of(owner);
	struct pending_request *r = tag;

	if (!r) {
		guard_transaction_refused(c);
		return true;
	}
	if (r->call)
		return guard_exchange_on_line(c, r, line);
	if (slice_starts(line, SLICE_LIT("+QUEUED "))) {
		enqueue_client(c, r, line);
		return false;
	}
	if (!slice_starts(line, SLICE_LIT("-NOSCRIPT")))
		return true;
	session_complete(&c->session, r);
	client_retry(c, true);
	return false;
}

/* --- turns -------------------------------------------------------------------- */

static void on_ready(void *owner)
{
	struct client *c = client_of(owner);

	if (c->waiting == WAIT_TRY)
		client_go_on(c);
}

/* What success looks like to whoever asked. */
static const char *success(enum lock_success how)
{
	return how == LOCK_IF_OK ? "+OK\r\n" : ":1\r\n";
}

/* It has, and we have not read that far. */
static bool has_hung_up(const struct client *c)
{
	struct pollfd p = { .fd = c->stream.io.fd, .events = POLLRDHUP };

	return poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

static void on_granted(void *owner, void *tag, long long fence, double since)
{
	struct client *c = client_of(owner);
	struct pending_request *r = tag;
	struct resp_reply reply = { .type = ':', .integer = 1 };
	enum lock_success how;
	char number[32];

	if (has_hung_up(c)) {
		/* What it got is undone. */
		c->waiting = WAIT_REPLY;
		client_close(c, "hung up while it waited for a lock");
		return;
	}
	if (r->call) {
		guard_exchange_resume(c, r);
		return;
	}
	how = pending_lock_success(r->pending_lock);
	if (how == LOCK_IF_OK)
		reply.type = '+';
	if (how == LOCK_IF_POSITIVE) {
		reply.integer = fence;
		snprintf(number, sizeof(number), ":%lld\r\n", fence);
		stream_send(&c->stream, slice_str(number));
	} else {
		stream_send(&c->stream, slice_str(success(how)));
	}
	if (c->stream.error)
		pending_lock_abandon(r->pending_lock);
	pending_lock_since(r->pending_lock, since);
	session_reply(&c->session, r, &reply, SLICE_NONE, c->env->policy.holds, &c->holds);
	client_end_call(c);
}

static void on_timed_out(void *owner, void *tag)
{
	struct client *c = client_of(owner);
	struct pending_request *r = tag;
	const char *nil = c->session.proto == 3 ? "_\r\n" : "$-1\r\n";

	if (r->call) {
		guard_exchange_on_timed_out(c, r);
		client_end_call(c);
		return;
	}
	stream_send(&c->stream,
	            slice_str(pending_lock_success(r->pending_lock) == LOCK_IF_ONE ? ":0\r\n"
	                                                                           : nil));
	session_complete(&c->session, r);
	client_end_call(c);
}

static void on_lost(void *owner, void *tag)
{
	struct client *c = client_of(owner);
	struct pending_request *r = tag;

	if (r->call) {
		guard_exchange_resume(c, r);
		return;
	}
	session_complete(&c->session, r);
	client_retry(c, false);
}

const struct waiter_ops client_waiter_ops = {
	.on_ready = on_ready,
	.on_granted = on_granted,
	.on_timed_out = on_timed_out,
	.on_lost = on_lost,
};

/* --- the link's end ------------------------------------------------------------ */

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
		if (c->session.nawaited == 0)
			link_watch(c->user.link, session_is_subscribed(&c->session));
		if (c->waiting == WAIT_AWAITED && c->session.nawaited == 0)
			client_go_on(c);
	}
	return true;
}

/* How many answers there are to the request that is waited for. */
static size_t count_due(const struct client *c)
{
	const struct list *last = c->session.awaited.prev;
	const struct pending_request *r = container_of(last, struct pending_request, node);

	return last != &c->session.awaited && r->call ? 1 + r->call->due : 1;
}

static void client_on_down(void *owner, enum link_end end, const char *reason, size_t inflight)
{
	struct client *c = client_of(owner);
	char error[512] = "";

	/* Whoever had nothing to do with the shared link just takes another; that this one was
	 * full is no reason any more not to be read from. */
	if (c->shared && !inflight && c->waiting != WAIT_REPLY && !c->eof) {
		client_steer_reading(c);
		return;
	}
	if (end == LINK_UNREACHABLE)
		snprintf(error, sizeof(error), "-ERR hasp: upstream %s: %s\r\n",
		         c->env->links->name, reason);
	else if (end == LINK_REFUSED)
		snprintf(error, sizeof(error), "-%s\r\n", reason);
	else if (end == LINK_BROKEN && c->waiting == WAIT_REPLY &&
	         inflight - c->user.unheard == count_due(c) && !c->session.quitting)
		/* Nothing else is due, so that this is in its place. */
		snprintf(error, sizeof(error),
		         "-ERR hasp: upstream %s: %s; whether the command was carried out is "
		         "not "
		         "known\r\n",
		         c->env->links->name, reason);
	if (*error)
		stream_send(&c->stream, slice_str(error));
	client_finish(c, reason);
}

const struct link_ops client_link_ops = {
	.on_bytes = client_on_bytes,
	.on_reply = client_on_reply,
	.on_answered = on_answered,
	.on_line = on_line,
	.on_frame = on_frame,
	.on_drained = on_link_drained,
	.on_idle = on_idle,
	.on_down = client_on_down,
};
