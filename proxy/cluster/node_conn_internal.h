/* SPDX-License-Identifier: BSD-3-Clause
 *
 * node_conn_internal: a session's connection to one node: a link of the node's pool, which
 * other sessions share, or a link of its own.
 */
#ifndef HASP_CLUSTER_NODE_CONN_INTERNAL_H
#define HASP_CLUSTER_NODE_CONN_INTERNAL_H

#include "cluster/entry_internal.h"
#include "upstream/link.h"
#include "upstream/pool.h"

/* The state of a node connection. Only node_conn_set_state() writes it.
 *
 *   CLOSED --> WAITING --> REPLAYING --> READY
 *     ^           |            |           |
 *     '-----------'------------'-----------'  the link could not be opened, or ended */
enum node_conn_state {
	NODE_CONN_CLOSED, /* no link */
	NODE_CONN_WAITING, /* waits for a link of the node's pool, or for its own to connect */
	NODE_CONN_REPLAYING, /* repeats the session's commands on the new link */
	NODE_CONN_READY,
	NODE_CONN_NSTATES,
};

/* How hasp handles the frame that it is reading. */
enum node_conn_frame {
	NODE_CONN_FRAME_NONE, /* no frame has begun */
	NODE_CONN_FRAME_PASSED,
	NODE_CONN_FRAME_PUSHED, /* kept in node_conn->frame until it is whole, then forwarded,
	                         * even in RESP2, as a frame that answers nothing */
	NODE_CONN_FRAME_HELD, /* kept in node_conn->frame until its kind is known */
	NODE_CONN_FRAME_DROPPED,
};

struct node_conn {
	struct list in_session; /* in session->node_conns */
	struct cluster_session *session;
	struct node *node;
	enum node_conn_state state;
	struct link_user user;
	struct pool_waiter waiter;
	bool own; /* no other session uses the link */
	struct list held; /* parts that wait for the link, the oldest first */
	size_t nsent; /* number of parts in PART_SENT */
	unsigned replays_due; /* number of due replies to node_conn_write_replay() */
	uint64_t replayed; /* (REPLAYING) serial of the session command that was sent last */
	struct subscriptions subscriptions; /* the subscriptions of the link */

	/* The frame that is being read. */
	struct cluster_part *error; /* the part whose error is being forwarded; NULL: none */
	enum node_conn_frame frame_state; /* how hasp handles the frame */
	struct buf frame; /* (HELD, PUSHED) the frame's bytes so far */
};

/* True if the link is subscribed to a channel or a pattern; shard channels do not count. */
static inline bool node_conn_has_channels(const struct node_conn *l)
{
	return l->subscriptions.channels || l->subscriptions.patterns;
}

/* Returns the session's node connection to the node; makes it if there is none. */
struct node_conn *node_conn_get(struct cluster_session *s, struct node *n);
/* True if the session's first entry has a part at this node connection, or if the connection
 * is not ready yet. The session must have an entry. */
bool node_conn_is_awaited(const struct node_conn *l);
/* True if the client relies on frames that the node sends unasked: messages of subscriptions,
 * or invalidations of keys that the client has read with CLIENT TRACKING. If the link ends, the
 * session must end, too. */
bool node_conn_may_push(const struct node_conn *l);
/* True if hasp could send all parts in flight on the link, if any, to another node instead. */
bool node_conn_can_be_recalled(const struct node_conn *l);
/* Recalls the parts in flight, if node_conn_can_be_recalled(): dispatch_again() sends them
 * again, and the node connection drops their replies. */
void node_conn_recall(struct node_conn *l);
/* Sends the part, or holds it until the node connection is ready. */
void node_conn_send(struct node_conn *l, struct cluster_part *p);
/* Drops all subscriptions of the session, because Redis has carried out RESET on `reset`.
 * Closes the links of other node connections that were subscribed. */
void node_conns_forget_subscriptions(struct cluster_session *s, const struct node_conn *reset);
/* Opens the link, which must be closed. hasp first replays the session's commands on it. */
void node_conn_open(struct node_conn *l);
/* Replaces an outdated link by a new one when the session has nothing on it any more. */
void node_conn_renew(struct node_conn *l);
/* Frees a node connection whose node has left the map. If replies are due on it, the session's
 * virtual link ends. */
void node_conn_forget(struct node_conn *l);
/* Takes the session's node connections off their links, because the session is closed. */
void node_conns_leave(struct cluster_session *s);
void node_conns_free(struct cluster_session *s);

/* --- node_conn_write.c -------------------------------------------------------------------- */

/* Writes the part's request, with the requests that it needs before it. */
void node_conn_write_part(struct node_conn *l, struct cluster_part *p);
/* Writes the beginning of a long request; the caller writes the rest on the link. */
void node_conn_write_stream(struct node_conn *l, struct cluster_part *p, struct slice bytes);
/* Forgets the node connection of the transaction or the watched keys. The transaction begins
 * again at another node. */
void block_leave(struct cluster_session *s);
/* As block_leave(), and writes DISCARD or UNWATCH to the former node, if its link is ready. If
 * the reply is an error, the link is closed. */
void block_discard(struct cluster_session *s);
/* Writes a session command, and discards its reply. An error ends the session. */
void node_conn_write_replay(struct node_conn *l, struct slice request);
/* Calls node_conn_write_replay() on all ready node connections of the session, except the one
 * that the part uses. */
void node_conns_write_replay(struct cluster_session *s, const struct cluster_part *p,
                             struct slice request);
/* Returns true while a session command on any node connection is not answered yet. */
bool node_conns_replay(const struct cluster_session *s);
/* Returns the part that follows the request with this tag; NULL: none does. */
struct cluster_part *node_conn_part_behind(void *tag);

#endif
