/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session_stream: forwards a long request to its cluster node while the request arrives. The
 * session also keeps the request, up to a length, in case the node redirects it.
 * cluster_session.c gathers requests that must be whole before the session can take them.
 */
#include "cluster/session_internal.h"

/* Forward a request while it arrives if it is longer than this, in bytes. */
#define STREAM_FROM ((size_t)16 * 1024)
/* Do not keep a request that is longer than this, in bytes: a redirection then fails it. */
#define STREAM_KEPT_MAX ((size_t)8 * 1024 * 1024)
/* Send a request to the home node if its first bytes, this many, contain no key. */
#define STREAM_KEY_MAX ((size_t)128 * 1024)

/* Keeps the bytes of a streaming request, if there is memory. `to_come`: at least this many
 * bytes will follow. */
static void keep_stream(struct cluster_session *s, struct slice bytes, uint64_t to_come)
{
	const struct account *a = s->cluster->opts.flusher->account;
	struct cluster_part *p = s->stream_part;
	size_t nbytes;

	if (!p)
		return;
	nbytes = buf_len(&p->request) + bytes.n;
	if (nbytes + to_come > STREAM_KEPT_MAX || (a && !account_fits(a, bytes.n + to_come)))
		part_let_go(p);
	else
		part_keep(p, bytes);
}

size_t session_stream_on(struct cluster_session *s, const char *p, size_t n)
{
	struct node_conn *l = s->stream_node_conn;
	enum resp_result r;
	size_t used;

	if (l && link_is_full(l->user.link)) {
		s->starved = true;
		return 0;
	}
	r = request_scan(&s->scan, p, n, &used);
	if (l)
		link_send(l->user.link, slice_of(p, used));
	keep_stream(s, slice_of(p, used), s->scan.skip);
	if (r == RESP_MORE)
		return used;
	s->stream_node_conn = NULL;
	s->stream_part = NULL;
	session_set_flow(s, r == RESP_OK ? FLOW_OPEN : FLOW_ENDING);
	return used;
}

/* Refuses a request whose node connection did not become ready in time, and drops the rest of
 * it. */
static void refuse_stream(struct cluster_session *s)
{
	entry_answer_new(s, SLICE_LIT("-ERR hasp: no primary for this request: its node cannot "
	                              "be reached\r\n"));
	s->stream_node_conn = NULL;
	s->stalled_since = 0;
	session_set_flow(s, FLOW_STREAMING);
}

/* Makes the long request wait; the wait begins with the first call. */
static void stall(struct cluster_session *s)
{
	if (s->stalled_since == 0)
		s->stalled_since = timers_now(s->cluster->opts.timers);
	session_trouble(s);
}

/* True if the node connection is ready for a stream; if not, the request waits. */
static bool is_node_conn_ready(struct cluster_session *s, struct node_conn *l)
{
	if (l->state == NODE_CONN_READY)
		s->stalled_since = 0;
	if (l->state == NODE_CONN_CLOSED)
		node_conn_open(l);
	if (l->state != NODE_CONN_READY)
		stall(s);
	return l->state == NODE_CONN_READY;
}

bool session_is_last_to_answer(struct cluster_session *s)
{
	if (list_empty(&s->entries))
		return true;
	session_set_flow(s, FLOW_BARRIER);
	s->starved = true;
	return false;
}

size_t session_refuse_bulk(struct cluster_session *s, size_t used)
{
	struct cluster_entry *e = entry_begin(s, 0);

	e->ends = true;
	entry_answer(e, SLICE_LIT("-ERR Protocol error: invalid bulk length\r\n"));
	session_set_flow(s, FLOW_ENDING);
	return used;
}

/* Handles an error before the request is whole: Redis then closes the connection. */
static void on_refused_stream(struct cluster_entry *e, struct cluster_part *p,
                              const struct resp_reply *r)
{
	(void)p;
	if (e->session->flow != FLOW_STREAMING || !resp_reply_is_error(r))
		return;
	e->ends = true;
	e->session->stream_node_conn = NULL;
}

size_t session_begin_stream(struct cluster_session *s, const char *p, size_t n,
                            const struct request_scan *scan, size_t used)
{
	struct cluster *c = s->cluster;
	struct cluster_entry *e;
	struct resp_view view;
	struct node *to;
	struct node_conn *l;
	int slot = -1;
	/* Redis refuses a request that is too long as soon as it reads the length. */
	bool is_refused = scan->bulk > REQUEST_BULK_MAX, whole, several, may_forge;

	/* Shared links take only complete requests. */
	if (s->shares || (n < STREAM_FROM && !is_refused))
		return 0;
	if (is_refused && !session_is_last_to_answer(s))
		return 0;
	view = request_view(&c->args, p, n, &whole);
	if (routing_needs_whole(s, &view)) {
		if (is_refused)
			return session_refuse_bulk(s, used);
		session_set_flow(s, FLOW_GATHERING);
		s->scan = *scan;
		buf_append(&s->gathered, slice_of(p, used));
		return used;
	}
	if (!routing_early(s, &view, &slot, &several, &may_forge) && n < STREAM_KEY_MAX &&
	    !is_refused)
		return 0;
	s->starved = true;
	if (slot >= 0 && session_holds(s, (unsigned)slot, false)) {
		session_set_flow(s, FLOW_BARRIER);
		return 0;
	}
	if (s->stalled_since > 0 &&
	    timers_now(c->opts.timers) - s->stalled_since >= c->failover_wait) {
		refuse_stream(s);
		return 0;
	}
	to = slot >= 0 ? slot_map_node(c->opts.map, (unsigned)slot) : session_default_node(s);
	if (!to) {
		c->opts.refresh(c->opts.arg);
		stall(s);
		return 0;
	}
	l = node_conn_get(s, to);
	if (!is_node_conn_ready(s, l))
		return 0;
	s->starved = false;
	e = entry_begin(s, 1);
	e->only.slot = slot;
	e->only.several = several;
	e->only.may_forge = may_forge;
	if (several)
		s->several |= session_bit((unsigned)slot);
	if (is_refused)
		e->on_reply = on_refused_stream;
	node_conn_write_stream(l, &e->only, slice_of(p, used));
	s->stream_node_conn = l;
	s->stream_part = &e->only;
	keep_stream(s, slice_of(p, used), scan->skip);
	s->scan = *scan;
	session_set_flow(s, FLOW_STREAMING);
	return used;
}
