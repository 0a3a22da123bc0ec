/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session_internal: a cluster session, which stands between one client's virtual link and the
 * cluster's nodes.
 *
 *   virtual link -- take --> scan --> route --> entry in `entries`, with its parts
 *                                                 |  part: one request for one node
 *                                                 v
 *                                             node_conn --> link to the node
 *                                                 |
 *   virtual link <-- out <-- the head's reply <-- part: answered, redirected, or its link broke
 *                              ^ replies of later entries wait for their turn
 *
 *   cluster.c           all sessions of a worker
 *   cluster_session.c   takes requests, long ones as they arrive; backpressure; start and end
 *   routing.c           turns a request into an entry
 *   session_command.c   commands that change the session, on all of its links
 *   block_exchange.c    transactions
 *   pubsub.c            subscriptions: requests; replies are in pubsub_replies.c
 *   wide.c              requests for several nodes: split, sent to all, SCAN
 *   dispatch.c          the node of a part; parts that no node has taken
 *   redirection.c       MOVED, ASK, TRYAGAIN, CLUSTERDOWN, also in transactions
 *   node_conn.c         a session's links to the nodes; node_conn_write.c writes on them
 *   entry.c             entries, parts, and the order of the replies
 *   session_out.c       bytes for the virtual link; the session's state; which links are read
 *
 * If the outcome of a part is not known, the virtual link ends, like a link to a single Redis
 * that dies.
 */
#ifndef HASP_CLUSTER_SESSION_INTERNAL_H
#define HASP_CLUSTER_SESSION_INTERNAL_H

#include "base/freelist.h"
#include "cluster/block.h"
#include "cluster/cluster.h"
#include "cluster/node_conn_internal.h"
#include "cluster/plan.h"
#include "net/watch.h"
#include "resp/request.h"

struct cluster {
	struct cluster_opts opts;
	double failover_wait; /* seconds */
	size_t output_limit; /* client_output_limit, in bytes */
	struct list sessions; /* of struct cluster_session */
	struct list dead; /* closed sessions, for cluster_reap() */
	struct list stalled; /* sessions with parts, or a long request, that cannot be sent */
	struct timer tick; /* runs while sessions are in `stalled` */
	timer_fn *on_tick;
	size_t nhomes; /* number of home nodes given to sessions: the nodes take turns */
	struct freelist entries; /* free blocks for struct cluster_entry */
	struct freelist requests; /* free blocks for parts' requests and replies */
	struct request_args args; /* arguments of the request that is being read */
	struct buf text; /* scratch buffer */
	struct primaries primaries;
};

/* --- session commands --------------------------------------------------------------------- */

enum replay_kind {
	REPLAY_NONE, /* not a session command */
	REPLAY_LOGIN,
	REPLAY_HELLO,
	REPLAY_SELECT, /* of a database other than 0: only Valkey 9 */
	REPLAY_RESET, /* RESET; keeps only the library's name and version in force */
	REPLAY_NAME,
	REPLAY_LIB_NAME,
	REPLAY_LIB_VER,
	REPLAY_TRACKING,
	REPLAY_NO_EVICT,
	REPLAY_NO_LRU,
};

/* A session command that was accepted. A later one of the same kind replaces it, but a login
 * replaces only the same user's. */
struct replayed {
	struct list node; /* in replay.commands */
	uint8_t kind; /* enum replay_kind */
	uint64_t serial; /* >= 1; rises from the oldest to the newest */
	struct buf request;
	struct buf user; /* (LOGIN) the user's name */
};

/* The session commands in force, oldest first: hasp sends them on each new link. */
struct replay {
	struct list commands;
	uint64_t serial; /* serial of the newest command */
};

void replay_fini(struct replay *r);

/* --- the session -------------------------------------------------------------------------- */

/* How the session takes requests. Only session_set_flow() writes it.
 *
 *   OPEN <--> BARRIER --> RAW --> QUITTING    from each of them to ENDING and CLOSED
 *    ^-----> STREAMING <-- too long to be kept -- GATHERING <--> OPEN */
enum cluster_flow {
	FLOW_OPEN, /* takes requests as they come */
	FLOW_BARRIER, /* takes no request until all earlier ones are answered */
	FLOW_STREAMING, /* forwards the rest of a long request as it arrives */
	FLOW_GATHERING, /* keeps the rest of a long request until it is whole */
	FLOW_RAW, /* forwards bytes from `stream_node_conn`, unparsed; takes only QUIT */
	FLOW_QUITTING, /* as RAW, but QUIT is forwarded: takes no more requests */
	FLOW_ENDING, /* takes no more requests; the link ends after the last reply */
	FLOW_CLOSED, /* the virtual link is gone; freed by cluster_reap() */
	FLOW_NSTATES,
};

enum reply_mode { REPLY_ON, REPLY_SKIP_NEXT, REPLY_OFF }; /* set by CLIENT REPLY */

/* The fields are grouped by the file that writes them. */
struct cluster_session {
	struct cluster *cluster;
	struct list node; /* in cluster->sessions or cluster->dead */
	struct list stalled; /* in cluster->stalled while a part cannot be sent */

	/* cluster_session.c */
	struct stream_peer peer; /* the far end of `link` */
	const struct link_env *env; /* the virtual link's */
	struct link *link; /* the virtual link; NULL in FLOW_CLOSED */
	bool shares; /* node connections are on shared links of the nodes' pools */
	struct link_login login; /* the pool's login; its strings are the session's own */
	struct buf gathered; /* (GATHERING) the request as far as it came */
	struct slice withdrawal; /* the answer to withdrawn parts; not copied */
	uint32_t map_version; /* version of the map by which `entries` were routed */
	bool starved; /* the link has requests that the session did not take */
	bool shut; /* the client has shut its side down */

	/* long requests */
	struct request_scan scan; /* scans the long request in STREAMING and GATHERING */
	bool skips_line; /* (RAW) drop the bytes up to the end of a line: MONITOR's +OK */
	/* Gets the long request, or sends raw bytes. NULL: drop the request's bytes. */
	struct node_conn *stream_node_conn;
	/* (STREAMING) The part that keeps the request's bytes; NULL: none. */
	struct cluster_part *stream_part;
	/* Since when a long request waits for its node connection, or a request for all
	 * primaries waits for the map; 0: none waits. */
	double stalled_since;

	/* The slots of requests in flight, as a set of session_bit(): see session_holds(). */
	uint64_t several; /* slots of requests of several keys */
	uint64_t blocks; /* slots of transactions */
	bool refused; /* a node has refused a request since the session last had nothing in
	               * flight */

	/* session_command.c */
	struct replay replay;
	enum reply_mode reply_mode;
	bool admitted; /* Redis serves the session: it has logged in, or needs no login */
	/* The answer to the next request, because Redis does not serve the session; empty: not
	 * known. */
	struct buf login_error;
	uint8_t proto; /* version of RESP: 2 or 3 */
	bool tracks; /* CLIENT TRACKING is on: the nodes remember what the client reads */

	/* block_exchange.c */
	struct block block;
	/* The node connection of the transaction or of the watched keys; NULL: none. */
	struct node_conn *block_node_conn;
	unsigned block_serial; /* number of the transaction, or of the next one; from 1 on */
	/* Number of the transaction that was redirected after its EXEC; 0: none. */
	unsigned block_moved;

	/* pubsub.c, pubsub_replies.c */
	bool subscribed; /* at least one node connection is subscribed */
	bool everywhere; /* subscribed at each primary, for keyspace notifications */
	bool subscribing; /* (everywhere) acknowledgements are due: messages wait */

	/* entry.c */
	struct list entries; /* struct cluster_entry, the oldest first */
	size_t nentries;
	uint64_t next_serial;
	uint64_t client_id; /* what CLIENT ID returns; 0: the client has not asked for it */
	size_t nrequested; /* memory of the entries' parts and their requests */
	size_t kept; /* bytes of replies before their turn, and of kept transactions */
	size_t reply_size; /* expected length of a reply, in bytes: about the longest of the
	                    * latest ones; >= 1 */
	bool head_begun; /* some bytes of the first entry's reply are in `out`, or delivered */
	bool advancing; /* session_advance() is running, or must not begin */
	bool lingers; /* (ENDING) hasp leaves it to the client to end the session */

	/* dispatch.c, redirection.c, node_conn.c */
	struct list retries; /* parts in PART_RETRY, in the order of the requests */
	struct node *default_node; /* gets requests without a key; NULL: not chosen yet */
	struct list node_conns;
	struct node_conn *last; /* the node connection that was looked up last; NULL: none */

	/* session_out.c */
	enum cluster_flow flow;
	struct watch deliver; /* delivers `out` at the end of the loop iteration */
	struct buf out; /* replies in order, for the link */
	struct buf pushes; /* frames that answer no request; they wait for the end of a reply */
	size_t uncounted; /* bytes kept since the link's user last counted the memory */
	bool paused; /* the link takes no replies */
	bool has_backpressure; /* too many bytes are kept: hasp stops reading the session's own
	                        * links, see node_conn_is_awaited() */
};

/* True after MONITOR: what `stream_node_conn` sends are no replies. */
static inline bool session_is_raw(const struct cluster_session *s)
{
	return s->flow == FLOW_RAW || s->flow == FLOW_QUITTING;
}

/* Returns the session's connection to the node; NULL: there is none. */
static inline struct node_conn *session_node_conn(const struct cluster_session *s,
                                                  const struct node *n)
{
	list_each (struct node_conn, l, &s->node_conns, in_session)
		if (l->node == n)
			return l;
	return NULL;
}

/* Returns a slot's bit: number `slot` modulo 64. It stays set until the session is idle. */
static inline uint64_t session_bit(unsigned slot)
{
	return UINT64_C(1) << slot % 64;
}

/* True if a request of the slot must wait until all requests before it are answered.
 *
 * A node may refuse a request of several keys, because one key has migrated, and run a later
 * request for a key that is still there. So each request waits if its slot is known to migrate,
 * or has a transaction in flight. In other slots, a write waits for a request of several keys;
 * a read waits only after a refusal, because redirection_again() can send reads again. */
static inline bool session_holds(const struct cluster_session *s, unsigned slot, bool reads)
{
	uint64_t bit = session_bit(slot);

	if (list_empty(&s->entries))
		return false;
	if (s->blocks & bit || slot_map_is_migrating(s->cluster->opts.map, slot))
		return true;
	return s->several & bit && (!reads || s->refused);
}

/* --- cluster_session.c -------------------------------------------------------------------- */

/* The function link_env.connect: makes the session of a virtual link. */
struct stream_peer *session_connect(struct link_env *env, struct link *l,
                                    const struct link_login *accepted);
/* Frees a session that is FLOW_CLOSED. */
void session_free(struct cluster_session *s);

/* --- session_out.c ------------------------------------------------------------------------ */

void session_set_flow(struct cluster_session *s, enum cluster_flow flow);
/* Ends the virtual link, because the outcome of a request is not known. */
void session_break(struct cluster_session *s, const char *reason);
/* As session_break(), but also logs `reason`, because hasp itself ends the link. */
void session_give_up(struct cluster_session *s, const char *reason);
/* Gives `out` to the link, unless the link is paused. The link's user may then call any
 * function, and even close the link. */
void session_deliver(struct cluster_session *s);
/* Adds bytes for the link, which gets them by the end of the loop iteration. */
void session_put(struct cluster_session *s, struct slice bytes);
/* As session_put(), for the bytes after MONITOR. CLIENT REPLY OFF drops all, SKIP the first
 * line. */
void session_put_raw(struct cluster_session *s, struct slice bytes);
/* As session_put(), for bytes that answer no request: adds them between two replies. */
void session_push(struct cluster_session *s, struct slice bytes);
/* Counts `nbytes` more bytes of memory that the session keeps, besides its requests. */
void session_grew(struct cluster_session *s, size_t nbytes);
/* Stops reading the session's own links while the client does not read, or while replies that
 * came before their turn exceed client_output_limit. The nodes then keep further replies. */
void session_steer_node_conns(struct cluster_session *s);
/* Checks waiting requests and bytes again at the end of this loop iteration. */
void session_wake(struct cluster_session *s);
/* Puts the session into `stalled`, because a part cannot be sent. */
void session_trouble(struct cluster_session *s);
/* Starts the timer that calls dispatch_due() for the sessions in `stalled`. */
void cluster_start_tick(struct cluster *c);

/* --- requests, by kind -------------------------------------------------------------------- */

/* The result of offering a request to the function of one kind of request. */
enum take {
	TAKE_NOT, /* the request is of another kind */
	TAKE_DONE,
	TAKE_LATER, /* all earlier requests must be answered first, or no primary is known */
};

/* Takes subscriptions, and requests that hasp refuses while the client is subscribed. */
enum take pubsub_take(struct cluster_session *s, const struct command *c,
                      const struct resp_view *req, struct slice bytes);
/* Takes the requests of a transaction, and WATCH. */
enum take block_exchange_take(struct cluster_session *s, const struct command *c,
                              const struct resp_view *req, struct slice bytes);
/* Takes a request that hasp would answer itself, if Redis does not serve the session before a
 * login. */
enum take session_command_check_login(struct cluster_session *s, const struct command *c,
                                      const struct resp_view *req);
/* Takes requests that change the state of their connection at Redis. */
enum take session_command_take(struct cluster_session *s, const struct command *c,
                               const struct resp_view *req, struct slice bytes);
/* Makes a client with CLIENT TRACKING drop all that it has cached, as after FLUSHALL. A node
 * that has given a slot away reports no later change of a key that the client read while the
 * key did not exist: only existing keys move, and are reported then. */
void session_command_map_changed(struct cluster_session *s);
/* Take requests of PLAN_SPLIT and PLAN_EACH. Return false if the request must wait. `counts`:
 * the request is WAIT. */
bool wide_split(struct cluster_session *s, const struct plan *p, const struct resp_view *req,
                bool reads);
bool wide_each(struct cluster_session *s, const struct plan *p, struct slice bytes,
               bool counts);
/* Takes a request of PLAN_SCAN. Returns false if Redis must refuse the request. */
bool wide_scan(struct cluster_session *s, const struct resp_view *req);
/* Handles a request for all primaries while none is known. Returns false while the request must
 * wait: for failover_wait at most. Then answers it by an error. */
bool wide_await_primaries(struct cluster_session *s);
/* Forgets the watched keys, because the request that the caller sends next to `at` unwatches
 * them there. If another node watches keys, sends UNWATCH to that node. */
void block_exchange_unwatch(struct cluster_session *s, const struct node_conn *at);

/* --- routing.c ---------------------------------------------------------------------------- */

/* Takes one whole request. Returns false if all earlier requests must be answered first. */
bool routing_take(struct cluster_session *s, const struct resp_view *req, struct slice bytes)
	__attribute__((warn_unused_result));
/* True if hasp can classify a long request only when it is whole. `req`: its beginning. */
bool routing_needs_whole(const struct cluster_session *s, const struct resp_view *req);
/* Finds the slot of a long request by its beginning; -1: it has no key. Sets *several if it may
 * name several keys, and *may_forge to command_may_forge(). Returns false if it needs more
 * bytes. */
bool routing_early(const struct cluster_session *s, const struct resp_view *req, int *slot,
                   bool *several, bool *may_forge) __attribute__((warn_unused_result));
/* Returns the session's home, the node for requests without a key; NULL: no node is known. The
 * home stays while it is a primary, and answers or has state of the session. (dispatch.c) */
struct node *session_default_node(struct cluster_session *s);

/* --- pubsub_replies.c --------------------------------------------------------------------- */

/* Returns the first node connection that has subscriptions; NULL: there is none. */
struct node_conn *pubsub_node_conn(const struct cluster_session *s);
/* Ends the session if it misses keyspace notifications of a node that the map has now. */
void pubsub_map_changed(struct cluster_session *s);
/* Call this when the subscriptions of a node connection have changed. */
void pubsub_note(struct cluster_session *s);
/* Returns how to handle a frame of the node connection that begins with `beginning`. */
enum node_conn_frame pubsub_frame(const struct node_conn *l, struct slice beginning);
/* Appends the acknowledgement `frame` of the node connection's node, with the number that a
 * single server would give. */
void pubsub_write_ack(const struct node_conn *l, struct slice frame, struct buf *out);
/* Values of entry->merge. The first is for SUNSUBSCRIBE without channels; the others are for
 * SUBSCRIBE and UNSUBSCRIBE, also of patterns, at several nodes: the home node's part is
 * first. */
void pubsub_merge_left_shards(struct cluster_entry *e, struct buf *out);
void pubsub_merge_subscribed(struct cluster_entry *e, struct buf *out);
void pubsub_merge_unsubscribed(struct cluster_entry *e, struct buf *out);

/* --- mode.c ------------------------------------------------------------------------------- */

/* Appends a whole reply as a server without a cluster would send it, so that clients do not
 * look for other nodes. Changes `mode` of HELLO; `redis_mode` (Valkey: `server_mode`) and
 * `cluster_enabled` of INFO. In the replies to CLIENT ID, CLIENT INFO and HELLO, writes `id` in
 * place of the node's id, because each node counts its connections by itself. */
void hide_cluster_mode(struct slice reply, uint64_t id, struct buf *out);

#endif
