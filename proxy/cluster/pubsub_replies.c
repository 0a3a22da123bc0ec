/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pubsub_replies: turns the frames that cluster nodes send for a session's subscriptions into
 * those that one server would send. Each acknowledgement of a shard channel gets the number of
 * the session's shard channels at all nodes. The client gets published messages from the home
 * node only, and keyspace notifications from all nodes.
 */
#include "cluster/session_internal.h"

struct node_conn *pubsub_node_conn(const struct cluster_session *s)
{
	list_each (struct node_conn, l, &s->node_conns, in_session)
		if (l->subscriptions.any)
			return l;
	return NULL;
}

/* --- shard channels at several nodes ------------------------------------------------------ */

/* Appends the acknowledgement `frame` with another number. Passes a frame without a number,
 * which no Redis sends, as it is. */
static void write_acked(struct slice frame, long long count, struct buf *out)
{
	size_t n = frame.n;

	while (n > 0 && frame.p[n - 1] != ':')
		n--;
	if (n == 0) {
		buf_append(out, frame);
		return;
	}
	buf_append(out, slice_of(frame.p, n));
	buf_printf(out, "%lld\r\n", count);
}

/* Appends the frames of all nodes, with numbers that fall to 0 in the acknowledgements. */
void pubsub_merge_left_shards(struct cluster_entry *e, struct buf *out)
{
	struct slice rest, frame;
	long long left = 0;

	for (size_t i = 0; i < e->nparts; i++)
		for (rest = buf_slice(&e->parts[i].reply); (frame = merge_take_frame(&rest)).n;)
			left += frame_kind(frame) == FRAME_SHARD_ACK;
	for (size_t i = 0; i < e->nparts; i++)
		for (rest = buf_slice(&e->parts[i].reply); (frame = merge_take_frame(&rest)).n;)
			if (frame_kind(frame) == FRAME_SHARD_ACK)
				write_acked(frame, --left, out);
			else
				buf_append(out, frame);
}

void pubsub_write_ack(const struct node_conn *l, struct slice frame, struct buf *out)
{
	long long shards = 0;

	if (frame_kind(frame) != FRAME_SHARD_ACK) {
		buf_append(out, frame);
		return;
	}
	list_each (const struct node_conn, at, &l->session->node_conns, in_session)
		shards += at->subscriptions.shards;
	write_acked(frame, shards, out);
}

/* --- keyspace notifications --------------------------------------------------------------- */

static bool has_subscribed_at(const struct cluster_session *s, const struct node *n)
{
	const struct node_conn *l = session_node_conn(s, n);

	return l && node_conn_has_channels(l);
}

/* True if every primary's node connection is subscribed. */
static bool is_everywhere(struct cluster_session *s)
{
	struct primaries *primaries = &s->cluster->primaries;

	primaries_update(primaries, s->cluster->opts.map);
	for (size_t i = 0; i < primaries->n; i++)
		if (!has_subscribed_at(s, primaries->v[i].node))
			return false;
	return true;
}

void pubsub_note(struct cluster_session *s)
{
	s->subscribed = pubsub_node_conn(s);
	if (!s->subscribing && !has_subscribed_at(s, s->default_node))
		s->everywhere = false;
}

void pubsub_map_changed(struct cluster_session *s)
{
	if (s->everywhere && !s->subscribing && s->flow != FLOW_CLOSED && !is_everywhere(s))
		session_break(s, "the subscription to keyspace notifications must move to "
		                 "another node");
}

enum node_conn_frame pubsub_frame(const struct node_conn *l, struct slice beginning)
{
	const struct cluster_session *s = l->session;

	switch (frame_kind(beginning)) {
	case FRAME_UNKNOWN:
	case FRAME_ACK:
	case FRAME_SHARD_ACK:
		return NODE_CONN_FRAME_HELD;
	case FRAME_KEY_EVENT:
		return l->node == s->default_node || s->everywhere ? NODE_CONN_FRAME_PUSHED
		                                                   : NODE_CONN_FRAME_DROPPED;
	case FRAME_PUBLISHED:
		/* Each subscribed node sends this message: forward only the home node's. */
		return l->node == s->default_node ? NODE_CONN_FRAME_PUSHED
		                                  : NODE_CONN_FRAME_DROPPED;
	case FRAME_SHARD_PUBLISHED:
		return NODE_CONN_FRAME_PUSHED;
	case FRAME_OTHER:
		break;
	}
	return NODE_CONN_FRAME_PASSED;
}

static bool is_error_part(const struct cluster_part *p)
{
	return slice_starts(buf_slice(&p->reply), SLICE_LIT("-"));
}

/* Appends the home node's acknowledgements, then the messages of all nodes. If only some of the
 * nodes have refused the subscription, the session ends. */
void pubsub_merge_subscribed(struct cluster_entry *e, struct buf *out)
{
	struct cluster_session *s = e->session;
	size_t nrefused = 0;

	s->subscribing = false;
	for (size_t i = 0; i < e->nparts; i++)
		nrefused += is_error_part(&e->parts[i]);
	if (nrefused == e->nparts) {
		s->everywhere = is_everywhere(s);
		buf_append(out, buf_slice(&e->parts[0].reply));
	} else if (nrefused || !is_everywhere(s)) {
		session_break(s, "not every node has accepted the subscription to keyspace "
		                 "notifications");
	} else {
		for (size_t i = 0; i < e->nparts; i++)
			buf_append(out, buf_slice(&e->parts[i].reply));
	}
}

/* Appends the last messages of the other nodes, then the home node's acknowledgements. */
void pubsub_merge_unsubscribed(struct cluster_entry *e, struct buf *out)
{
	for (size_t i = e->nparts; i-- > 0;)
		if (i == 0 || !is_error_part(&e->parts[i]))
			buf_append(out, buf_slice(&e->parts[i].reply));
}
