/* SPDX-License-Identifier: BSD-3-Clause
 *
 * node_conn: a cluster session's links to the nodes. A session that shares uses a link of each
 * node's pool. Any other session opens links of its own, and replays its session commands on
 * them before it sends anything else. This file decides when a node connection has a link,
 * keeps the parts that wait for the link, and handles the replies.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "cluster/session_internal.h"

#define MAY_FOLLOW(state) (1u << (state))

static const unsigned next_states[NODE_CONN_NSTATES] = {
	[NODE_CONN_CLOSED] = MAY_FOLLOW(NODE_CONN_WAITING) | MAY_FOLLOW(NODE_CONN_READY),
	[NODE_CONN_WAITING] = MAY_FOLLOW(NODE_CONN_REPLAYING) | MAY_FOLLOW(NODE_CONN_READY) |
	                      MAY_FOLLOW(NODE_CONN_CLOSED),
	[NODE_CONN_REPLAYING] = MAY_FOLLOW(NODE_CONN_READY) | MAY_FOLLOW(NODE_CONN_CLOSED),
	[NODE_CONN_READY] = MAY_FOLLOW(NODE_CONN_CLOSED),
};

static void node_conn_set_state(struct node_conn *l, enum node_conn_state state)
{
	HASP_ASSERT(next_states[l->state] & (1u << state));
	l->state = state;
}

/* --- sending ------------------------------------------------------------------------------ */

void node_conn_send(struct node_conn *l, struct cluster_part *p)
{
	if (l->state == NODE_CONN_READY && list_empty(&l->held)) {
		node_conn_write_part(l, p);
		return;
	}
	part_set_state(p, PART_HELD);
	p->node_conn = l;
	p->why = "it does not answer";
	if (p->since == 0)
		p->since = timers_now(l->session->cluster->opts.timers);
	list_append(&l->held, &p->node);
	session_trouble(l->session);
	if (l->state == NODE_CONN_CLOSED)
		node_conn_open(l);
}

static void send_held(struct node_conn *l)
{
	while (l->state == NODE_CONN_READY && !list_empty(&l->held))
		node_conn_write_part(l, list_take(&l->held, struct cluster_part, node));
	session_wake(l->session);
}

/* Sends the next session command to replay. Returns false if there is none. */
static bool node_conn_replay_next(struct node_conn *l)
{
	list_each (const struct replayed, r, &l->session->replay.commands, node) {
		if (r->serial > l->replayed) {
			l->replayed = r->serial;
			node_conn_write_replay(l, buf_slice(&r->request));
			return true;
		}
	}
	return false;
}

/* Begins to use the link, which is connected and, if shared, logged in. hasp sends session
 * commands one by one, because Redis does not answer a login that fails while another reply is
 * pending. */
static void node_conn_begin(struct node_conn *l)
{
	l->frame_state = NODE_CONN_FRAME_NONE;
	buf_release(&l->frame);
	l->replayed = 0;
	if (!l->session->shares && !list_empty(&l->session->replay.commands)) {
		node_conn_set_state(l, NODE_CONN_REPLAYING);
		(void)node_conn_replay_next(l);
		return;
	}
	node_conn_set_state(l, NODE_CONN_READY);
	send_held(l);
}

static void node_conn_leave(struct node_conn *l)
{
	pool_waiter_end(&l->waiter);
	if (l->user.link && l->own)
		link_close(l->user.link);
	else
		link_leave(&l->user);
}

/* --- the link's end ----------------------------------------------------------------------- */

/* Dispatches again the parts that the node never got. */
static void give_up_held(struct node_conn *l, const char *why)
{
	struct list held;

	list_take_all(&held, &l->held);
	list_shift_each (struct cluster_part, p, &held, node)
		redirection_later(p, why);
}

/* Ends the session's virtual link. `why`: for the client. */
static void node_conn_break(struct node_conn *l, const char *why)
{
	const char *address = slot_map_address(l->session->cluster->opts.map, l->node);
	char reason[512];

	snprintf(reason, sizeof(reason), "%s%s%s", address ? address : "", address ? ": " : "",
	         why);
	session_break(l->session, reason);
}

bool node_conn_may_push(const struct node_conn *l)
{
	return l->subscriptions.any || (l->session->tracks && l->state == NODE_CONN_READY);
}

/* Handles the end of the link. The client may see `why` if parts were in flight, else
 * `held_why`. The next link gets the same session commands. */
static void node_conn_end(struct node_conn *l, const char *why, const char *held_why)
{
	struct cluster_session *s = l->session;
	bool breaks = l->nsent || s->stream_node_conn == l || node_conn_may_push(l);

	node_conn_set_state(l, NODE_CONN_CLOSED);
	l->nsent = 0;
	l->subscriptions = (struct subscriptions){ 0 };
	l->replays_due = 0;
	s->cluster->opts.refresh(s->cluster->opts.arg);
	if (s->block_node_conn == l)
		block_leave(s);
	if (breaks)
		node_conn_break(l, why);
	else
		give_up_held(l, held_why);
	/* A session command may have waited for the replays of this link. */
	session_wake(s);
}

static void node_conn_drop(struct node_conn *l, const char *why)
{
	if (l->state == NODE_CONN_CLOSED)
		return;
	node_conn_leave(l);
	node_conn_end(l, why, why);
}

bool node_conn_can_be_recalled(const struct node_conn *l)
{
	const struct list *entries = &l->session->entries;
	size_t n = 0;

	if (l->nsent == 0)
		return true;
	/* The client already has the beginning of this reply. */
	if (l->frame_state != NODE_CONN_FRAME_NONE || l->error)
		return false;
	list_each (const struct cluster_entry, e, entries, node)
		n += e->only.node_conn == l && part_is_for_any(&e->only);
	return n == l->nsent;
}

void node_conn_recall(struct node_conn *l)
{
	struct list *entries = &l->session->entries;

	if (l->nsent == 0)
		return;
	list_each (struct cluster_entry, e, entries, node) {
		if (e->only.node_conn != l || !part_is_for_any(&e->only))
			continue;
		l->nsent--;
		redirection_later(&e->only, "it does not answer");
	}
	node_conn_drop(l, "it does not answer");
}

/* True if the session has requests, a transaction or a stream on the link. */
static bool is_in_use(const struct node_conn *l)
{
	const struct cluster_session *s = l->session;

	return l->user.inflight || s->block_node_conn == l ||
	       (s->stream_node_conn == l && !session_is_raw(s));
}

void node_conn_renew(struct node_conn *l)
{
	if (l->state != NODE_CONN_READY || !l->user.outdated)
		return;
	if (is_in_use(l))
		l->user.await_idle = true;
	else
		node_conn_drop(l, "the console's RECONNECT asks for a new connection");
}

/* --- the link's callbacks ----------------------------------------------------------------- */

/* Returns the part whose reply comes next; NULL: none is due, or the reply is discarded. */
static struct cluster_part *head_part(struct node_conn *l)
{
	void *tag = link_head(&l->user);

	return node_conn_part_behind(tag) ? NULL : tag;
}

/* Handles bytes of the frame that is being read. `is_push`: the frame answers no request, but
 * may acknowledge one. */
static void forward_frame(struct node_conn *l, struct slice bytes, bool is_push)
{
	struct cluster_part *p = l->error && !is_push ? l->error : head_part(l);

	if (is_push && p && !p->acks.of)
		p = NULL;
	if (p)
		part_on_bytes(p, bytes);
	else
		session_push(l->session, bytes);
}

/* True if a frame of this type may be a message or an acknowledgement of a subscription. */
static bool may_be_message(struct node_conn *l, char type)
{
	const struct cluster_part *p = head_part(l);

	if (type == '>' || l->session->proto == 3)
		return type == '>';
	return type == '*' && (l->subscriptions.any || (p && p->acks.of));
}

static void node_conn_on_bytes(void *owner, struct slice bytes)
{
	struct node_conn *l = owner;
	struct cluster_session *s = l->session;

	if (s->flow == FLOW_CLOSED)
		return;
	if (l == s->stream_node_conn && (session_is_raw(s) || s->flow == FLOW_ENDING)) {
		if (session_is_raw(s))
			session_put_raw(s, bytes);
		return;
	}
	if (l->frame_state == NODE_CONN_FRAME_NONE) {
		l->frame_state = may_be_message(l, *bytes.p) ? NODE_CONN_FRAME_HELD
		                                             : NODE_CONN_FRAME_PASSED;
		/* The node refuses a SUNSUBSCRIBE whose slot has just moved, after it has ended
		 * the subscription by itself, which hasp has taken for the answer. */
		if (l->frame_state == NODE_CONN_FRAME_PASSED && !l->user.inflight &&
		    !l->error) {
			node_conn_break(l, "it sent a reply that no request awaits");
			return;
		}
	}
	if (l->frame_state == NODE_CONN_FRAME_PASSED) {
		forward_frame(l, bytes, false);
	} else if (l->frame_state != NODE_CONN_FRAME_DROPPED) {
		buf_append(&l->frame, bytes);
		session_grew(s, bytes.n);
	}
	if (l->frame_state != NODE_CONN_FRAME_HELD)
		return;
	l->frame_state = pubsub_frame(l, buf_slice(&l->frame));
	if (l->frame_state == NODE_CONN_FRAME_PASSED && *buf_head(&l->frame) == '>')
		l->frame_state = NODE_CONN_FRAME_PUSHED;
	if (l->frame_state == NODE_CONN_FRAME_PASSED)
		forward_frame(l, buf_slice(&l->frame), false);
	if (l->frame_state == NODE_CONN_FRAME_PASSED ||
	    l->frame_state == NODE_CONN_FRAME_DROPPED)
		buf_release(&l->frame);
}

/* Forwards the push in l->frame, now that it is whole: other nodes' replies may come between
 * its pieces. */
static void forward_push(struct node_conn *l)
{
	struct buf push = l->frame;

	l->frame = BUF_INIT;
	forward_frame(l, buf_slice(&push), true);
	if (l->session->tracks && frame_kind(buf_slice(&push)) == FRAME_OTHER)
		entries_push_again(l->session, buf_slice(&push));
	buf_release(&push);
}

/* Forwards the whole acknowledgement in l->frame, unless another node's replaces it. */
static void forward_ack(struct node_conn *l, const struct cluster_part *p)
{
	struct buf ack = BUF_INIT;

	if (!p || !p->is_copy || frame_kind(buf_slice(&l->frame)) != FRAME_ACK) {
		pubsub_write_ack(l, buf_slice(&l->frame), &ack);
		forward_frame(l, buf_slice(&ack), *buf_head(&ack) == '>');
		buf_release(&ack);
	}
	buf_release(&l->frame);
}

static void node_conn_on_reply(void *owner, void *tag, const struct resp_reply *r,
                               struct slice captured)
{
	struct node_conn *l = owner;
	struct cluster_part *p = tag;

	(void)captured;
	l->frame_state = NODE_CONN_FRAME_NONE;
	if (node_conn_part_behind(tag))
		return;
	if (!p) {
		if (--l->replays_due > 0)
			return;
		if (l->state == NODE_CONN_REPLAYING && !node_conn_replay_next(l)) {
			node_conn_set_state(l, NODE_CONN_READY);
			send_held(l);
		}
		session_wake(l->session);
		return;
	}
	if (p->is_stale) {
		redirection_again(p, true, "keys of its slot are moving to another node");
		return;
	}
	l->nsent--;
	l->error = NULL;
	redirection_note_carried_out(p);
	part_on_reply(p, resp_reply_is_error(r));
}

/* True if the node refuses the DISCARD or UNWATCH that hasp has sent in place of the client's
 * request. */
static bool refuses_end(const struct cluster_part *p, struct slice line)
{
	return p->block && p->block->kind == BLOCK_PART_END && p->entry->merge &&
	       !slice_starts(line, SLICE_LIT("+"));
}

static bool node_conn_on_line(void *owner, void *tag, struct slice line)
{
	struct node_conn *l = owner;
	struct cluster_part *p = tag, *next = node_conn_part_behind(tag);
	char reason[256];
	bool is_replay;

	l->frame_state = NODE_CONN_FRAME_NONE;
	if (next && next->counts) {
		next->uncounted = true;
		return false;
	}
	if (next) {
		if (buf_len(&next->block->refused) == 0)
			buf_append(&next->block->refused, line);
		return false;
	}
	if (!p || refuses_end(p, line)) {
		snprintf(reason, sizeof(reason), "%.*s", (int)(line.n > 3 ? line.n - 3 : 0),
		         line.p + 1);
		l->nsent -= p != NULL;
		/* Drop the link: the node may still have the transaction or watched keys. */
		is_replay = l->replays_due > 0;
		node_conn_drop(l, reason);
		/* End the session: the node refuses what another node has accepted. */
		if (is_replay)
			node_conn_break(l, reason);
		if (p && l->session->flow != FLOW_CLOSED)
			part_on_reply(p, true);
		return false;
	}
	if (p->block ? redirection_take_block(p, line) : redirection_take(p, line))
		return false;
	p->entry->pushes = false;
	/* The link forwards the error after it has removed the part from its FIFO. */
	l->error = p;
	return true;
}

void node_conns_forget_subscriptions(struct cluster_session *s, const struct node_conn *reset)
{
	s->subscribed = s->everywhere = false;
	list_each (struct node_conn, l, &s->node_conns, in_session) {
		bool had = l->subscriptions.any;

		l->subscriptions = (struct subscriptions){ 0 };
		/* Close the link: messages may still be on their way. */
		if (had && l != reset)
			node_conn_drop(l, "the client reset its subscriptions");
	}
}

static bool node_conn_on_frame(void *owner, const struct reply_scan *frame)
{
	struct node_conn *l = owner;
	struct cluster_part *p = head_part(l);
	bool out_of_band, ended;

	out_of_band = subscriptions_frame(&l->subscriptions, frame, p ? &p->acks : NULL,
	                                  l->session->proto == 3, &ended);
	if (l->frame_state == NODE_CONN_FRAME_HELD)
		forward_ack(l, p);
	else if (l->frame_state == NODE_CONN_FRAME_PUSHED)
		forward_push(l);
	l->frame_state = NODE_CONN_FRAME_NONE;
	if (ended) {
		pubsub_note(l->session);
		link_drop_head(l->user.link);
		l->nsent--;
		part_on_reply(p, false);
	}
	return out_of_band;
}

static void node_conn_on_stream(void *owner, void *tag)
{
	struct node_conn *l = owner;
	struct cluster_part *p = tag;

	l->nsent--;
	l->session->stream_node_conn = l;
	l->session->skips_line = p->entry->muted;
	session_set_flow(l->session, FLOW_RAW);
	part_on_reply(p, false);
}

/* Called when the session's own link is connected, or takes bytes again. */
static void node_conn_on_drained(void *owner)
{
	struct node_conn *l = owner;

	if (l->state == NODE_CONN_WAITING && !l->user.waiting)
		node_conn_begin(l);
	else
		session_wake(l->session);
}

static void node_conn_on_ready(void *owner)
{
	struct node_conn *l = owner;

	if (l->state == NODE_CONN_WAITING)
		node_conn_begin(l);
}

static void node_conn_on_down(void *owner, enum link_end end, const char *reason,
                              size_t inflight)
{
	struct node_conn *l = owner;

	(void)inflight;
	if (end == LINK_REFUSED) {
		node_conn_set_state(l, NODE_CONN_CLOSED);
		session_break(l->session, reason);
		return;
	}
	node_conn_end(l, reason, "it cannot be reached");
}

static void node_conn_on_idle(void *owner)
{
	node_conn_renew(owner);
}

static const struct link_ops node_conn_link_ops = {
	.on_bytes = node_conn_on_bytes,
	.on_reply = node_conn_on_reply,
	.on_line = node_conn_on_line,
	.on_frame = node_conn_on_frame,
	.on_stream = node_conn_on_stream,
	.on_drained = node_conn_on_drained,
	.on_ready = node_conn_on_ready,
	.on_idle = node_conn_on_idle,
	.on_down = node_conn_on_down,
};

/* --- the node's pool ---------------------------------------------------------------------- */

static void node_conn_on_pool_ready(struct pool_waiter *w)
{
	struct node_conn *l = container_of(w, struct node_conn, waiter);

	node_conn_set_state(l, NODE_CONN_CLOSED);
	node_conn_open(l);
}

static void node_conn_on_pool_failed(struct pool_waiter *w, enum link_end end,
                                     const char *reason)
{
	struct node_conn *l = container_of(w, struct node_conn, waiter);

	node_conn_on_down(l, end, reason, 0);
}

static const struct pool_ops node_conn_pool_ops = { node_conn_on_pool_ready,
	                                            node_conn_on_pool_failed };

void node_conn_open(struct node_conn *l)
{
	struct pool *pool = l->node->pool;
	const struct link_login *login = l->session->shares ? &l->session->login : NULL;
	enum pool_answer answer = POOL_NEVER;

	HASP_ASSERT(l->state == NODE_CONN_CLOSED);
	node_conn_set_state(l, NODE_CONN_WAITING);
	if (login) {
		pool_set_ops(pool, &node_conn_pool_ops);
		answer = pool_ask(pool, login, true, &l->waiter);
	}
	if (answer == POOL_READY) {
		pool_join(pool, login, &l->user);
		node_conn_begin(l);
	} else if (answer == POOL_NEVER) {
		/* Open a private link: the session does not share, or the pool is full. */
		l->own = true;
		link_join(link_new(&l->node->links, LINK_KIND_PRIVATE, login), &l->user);
	}
}

/* --- a session's node connections --------------------------------------------------------- */

static struct node_conn *node_conn_new(struct cluster_session *s, struct node *n)
{
	struct node_conn *l = xcalloc(1, sizeof(*l));

	l->session = s;
	l->node = n;
	list_init(&l->held);
	pool_waiter_init(&l->waiter, n->links.clock());
	link_user_init(&l->user, &node_conn_link_ops, l);
	list_append(&s->node_conns, &l->in_session);
	return l;
}

struct node_conn *node_conn_get(struct cluster_session *s, struct node *n)
{
	if (!s->last || s->last->node != n)
		s->last = session_node_conn(s, n);
	if (!s->last)
		s->last = node_conn_new(s, n);
	return s->last;
}

bool node_conns_replay(const struct cluster_session *s)
{
	list_each (const struct node_conn, l, &s->node_conns, in_session)
		if (l->replays_due)
			return true;
	return false;
}

void node_conn_forget(struct node_conn *l)
{
	struct cluster_session *s = l->session;

	node_conn_drop(l, "it is not a primary of the cluster any more");
	if (s->flow == FLOW_CLOSED)
		return;
	if (s->last == l)
		s->last = NULL;
	list_remove(&l->in_session);
	buf_release(&l->frame);
	free(l);
}

void node_conns_leave(struct cluster_session *s)
{
	list_each (struct node_conn, l, &s->node_conns, in_session)
		node_conn_leave(l);
}

void node_conns_free(struct cluster_session *s)
{
	list_shift_each (struct node_conn, l, &s->node_conns, in_session) {
		buf_release(&l->frame);
		free(l);
	}
}
