/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session_out: what a cluster session gives its virtual link. A session gathers replies, and
 * delivers them at the end of the loop iteration, so that the client gets them by one write.
 */
#include <string.h>

#include "base/fatal.h"
#include "cluster/session_internal.h"

/* The session delivers a piece of a reply at once if it has at least this many bytes. */
#define DIRECT_FROM ((size_t)16 * 1024)
/* The session reports memory to the link's user when it has grown by this many bytes. */
#define COUNTED_FROM ((size_t)16 * 1024)
/* Seconds between two tries to send a part that no node takes. */
#define TICK_SECONDS 0.05

#define MAY_FOLLOW(flow) (1u << (flow))
#define END_FLOWS (MAY_FOLLOW(FLOW_ENDING) | MAY_FOLLOW(FLOW_CLOSED))

static const unsigned next_flows[FLOW_NSTATES] = {
	[FLOW_OPEN] = MAY_FOLLOW(FLOW_BARRIER) | MAY_FOLLOW(FLOW_STREAMING) |
	              MAY_FOLLOW(FLOW_GATHERING) | END_FLOWS,
	[FLOW_BARRIER] = MAY_FOLLOW(FLOW_OPEN) | MAY_FOLLOW(FLOW_RAW) | END_FLOWS,
	[FLOW_STREAMING] = MAY_FOLLOW(FLOW_OPEN) | END_FLOWS,
	[FLOW_GATHERING] = MAY_FOLLOW(FLOW_OPEN) | MAY_FOLLOW(FLOW_STREAMING) | END_FLOWS,
	[FLOW_RAW] = MAY_FOLLOW(FLOW_QUITTING) | END_FLOWS,
	[FLOW_QUITTING] = END_FLOWS,
	[FLOW_ENDING] = MAY_FOLLOW(FLOW_ENDING) | MAY_FOLLOW(FLOW_CLOSED),
	[FLOW_CLOSED] = 0,
};

void session_set_flow(struct cluster_session *s, enum cluster_flow flow)
{
	HASP_ASSERT(next_flows[s->flow] & (1u << flow));
	s->flow = flow;
}

/* --- bytes for the link ------------------------------------------------------------------- */

void session_wake(struct cluster_session *s)
{
	if (s->flow != FLOW_CLOSED)
		watch_feed(s->cluster->opts.flusher->loop, &s->deliver);
}

void session_deliver(struct cluster_session *s)
{
	while (s->flow != FLOW_CLOSED && !s->paused && buf_len(&s->out)) {
		struct buf out = s->out;
		s->out = BUF_INIT;
		link_receive(s->link, buf_slice(&out));
		buf_release(&out);
	}
}

void session_put(struct cluster_session *s, struct slice bytes)
{
	if (bytes.n == 0 || s->flow == FLOW_CLOSED)
		return;
	if (bytes.n >= DIRECT_FROM && !s->paused) {
		session_deliver(s);
		if (s->flow != FLOW_CLOSED)
			link_receive(s->link, bytes);
		return;
	}
	buf_append(&s->out, bytes);
	if (s->paused)
		session_steer_node_conns(s);
	session_wake(s);
}

void session_put_raw(struct cluster_session *s, struct slice bytes)
{
	const char *lf;

	if (s->reply_mode == REPLY_OFF)
		return;
	if (s->skips_line) {
		lf = memchr(bytes.p, '\n', bytes.n);
		if (!lf)
			return;
		s->skips_line = false;
		bytes = slice_of(lf + 1, bytes.n - (size_t)(lf + 1 - bytes.p));
	}
	session_put(s, bytes);
}

void session_push(struct cluster_session *s, struct slice bytes)
{
	if (s->head_begun || s->subscribing) {
		buf_append(&s->pushes, bytes);
		session_grew(s, bytes.n);
	} else {
		session_put(s, bytes);
	}
}

void session_grew(struct cluster_session *s, size_t nbytes)
{
	s->uncounted += nbytes;
	if (s->uncounted < COUNTED_FROM || s->flow == FLOW_CLOSED)
		return;
	s->uncounted = 0;
	link_peer_grew(s->link);
}

/* Delivers the replies so far, then ends the virtual link by the function `end`. */
static void break_by(struct cluster_session *s, const char *reason,
                     void (*end)(struct link *l, const char *reason))
{
	if (s->flow == FLOW_CLOSED)
		return;
	/* The client may send requests when it gets its last replies: take none of them. */
	session_set_flow(s, FLOW_ENDING);
	session_deliver(s);
	if (s->flow != FLOW_CLOSED)
		end(s->link, reason);
}

void session_break(struct cluster_session *s, const char *reason)
{
	break_by(s, reason, link_end);
}

void session_give_up(struct cluster_session *s, const char *reason)
{
	break_by(s, reason, link_fail);
}

/* --- parts that cannot be sent ------------------------------------------------------------ */

void cluster_start_tick(struct cluster *c)
{
	if (!timer_is_running(&c->tick))
		timer_start(c->opts.timers, &c->tick, c->on_tick,
		            timers_now(c->opts.timers) + TICK_SECONDS, 0);
}

void session_trouble(struct cluster_session *s)
{
	struct cluster *c = s->cluster;

	if (s->flow != FLOW_CLOSED && list_empty(&s->stalled))
		list_append(&c->stalled, &s->stalled);
	cluster_start_tick(c);
}

/* --- back-pressure ------------------------------------------------------------------------ */

bool node_conn_is_awaited(const struct node_conn *l)
{
	const struct list *entries = &l->session->entries;
	const struct cluster_entry *head;

	/* The link times out if hasp does not read the answer to a login or session command. */
	if (l->state != NODE_CONN_READY)
		return true;
	HASP_ASSERT(!list_empty(entries));
	head = container_of(entries->next, const struct cluster_entry, node);
	for (size_t i = 0; i < head->nparts; i++)
		if (head->parts[i].node_conn == l)
			return true;
	return false;
}

void session_steer_node_conns(struct cluster_session *s)
{
	bool is_unread = s->paused && buf_len(&s->out) >= STREAM_HIGH_WATER;

	s->has_backpressure = s->kept >= s->cluster->output_limit;
	list_each (struct node_conn, l, &s->node_conns, in_session) {
		if (!l->user.link || !l->own)
			continue;
		if (is_unread || (s->has_backpressure && !node_conn_is_awaited(l)))
			link_pause(l->user.link);
		else
			link_resume(l->user.link);
	}
}
