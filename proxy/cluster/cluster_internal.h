/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cluster_internal: a cluster session, and how the files of this folder share its work.
 *
 *   virtual link -- take --> scan --> route --> entry in `entries`, with its parts
 *                                                 |  part: one request for one node
 *                                                 v
 *                                             node_conn --> link to the node
 *                                                 |
 *   virtual link <-- out <-- the head's reply <-- part: answered, redirected, or its link broke
 *                             ^ replies of later entries are kept until it is their
 * turn
 *
 *   cluster.c           shared by all sessions; the far end of virtual links; time
 *   cluster_session.c   takes requests; backpressure; beginning and end
 *   session_stream.c    long requests, forwarded while they arrive
 *   routing.c           turns a request into an entry
 *   session_command.c   commands that change the session, on all of its links; those in force
 *   dispatch.c          the node of a part, or of requests without keys; parts that no node has
 *                       taken
 *   node_conn.c         a session's links to the nodes
 *   node_conn_write.c   writes on these links
 *   redirection.c       MOVED, ASK, TRYAGAIN, CLUSTERDOWN, also in transactions
 *   block_exchange.c    transactions
 *   pubsub.c            subscriptions: requests; replies are pubsub_replies.c
 *   wide.c              requests for several nodes: split, sent to all, SCAN
 *   entry.c             entries, parts, and the order of the replies
 *   session_out.c       bytes for the virtual link; the session's state; which links are read
 *
 * A session keeps a part whole until its reply turns out not to be a redirection, so that it
 * can send the part again. A part whose outcome is not known ends the virtual link, as Redis'
 * death ends a real one.
 */
#ifndef HASP_CLUSTER_CLUSTER_INTERNAL_H
#define HASP_CLUSTER_CLUSTER_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/freelist.h"
#include "base/list.h"
#include "base/slice.h"
#include "cluster/block.h"
#include "cluster/cluster.h"
#include "cluster/plan.h"
#include "cluster/subscriptions.h"
#include "net/watch.h"
#include "resp/request.h"
#include "resp/view.h"
#include "upstream/link.h"
#include "upstream/node.h"
#include "upstream/pool.h"
#include "upstream/slot_map.h"

struct cluster {
	struct cluster_opts opts;
	double failover_wait; /* seconds */
	size_t output_limit;
	struct list sessions, dead; /* of cluster_session */
	struct list stalled; /* sessions with parts, or a long request, that cannot be sent */
	struct timer tick; /* runs while there are such sessions */
	timer_fn *on_tick;
	size_t nhomes; /* how many homes were given out: nodes take turns */
	struct freelist entries; /* struct cluster_entry */
	struct freelist requests; /* of BUF_FIRST_SIZE: parts' requests and replies */
	struct request_args args; /* of the request that is being read */
	struct buf text; /* scratch */
	struct primaries primaries;
};

/* --- entries and parts -------------------------------------------------------------------- */

/* The state of a part. Only part_set_state() writes it.
 *
 *   NEW ---> HELD ---> SENT ---> DONE
 *    |        ^  ^      |         ^  in vain for failover_wait: an error is its answer
 *    '-> SENT |  |      | redirected
 *             |  |      v
 *             |  '--- RETRY */
enum part_state {
	PART_NEW, /* not sent yet */
	PART_HELD, /* in node_conn->held: there is no link yet to send it on */
	PART_SENT, /* its reply is due on `node_conn` */
	PART_RETRY, /* in session->retries: no node took it; sent again at `retry_at` */
	PART_DONE, /* answered */
};

/* One request for one node. */
struct cluster_part {
	struct list node; /* in node_conn->held or session->retries */
	struct cluster_entry *entry;
	struct node_conn *node_conn; /* in PART_HELD and PART_SENT */
	struct node *to; /* send it to this node; NULL: to the node of its slot */
	struct node *asked; /* the node to send it to next, after ASKING; NULL: none */
	int slot; /* -1: none; then, without `to`, it is for the session's home */
	enum part_state state;
	bool redirected; /* it was redirected at least once */
	bool unserved; /* its node answered last that it does not serve the slot */
	bool may_forge; /* command_may_forge() */
	struct hint *hint; /* (PART_RETRY) the reply by which the part was refused, which a
	                    * script may have forged; NULL: the part was refused for certain */
	bool several; /* it may name more than one key of its slot */
	bool reads; /* it changes nothing, so it may run twice (without `slot`: on any node) */
	bool is_stale; /* (PART_SENT) the node refused an earlier part: the reply to this one is
	                * dropped, and it is sent again after the earlier part */
	bool withdrawn; /* (PART_SENT) the client gets session->withdrawal; not sent again */
	bool streamed; /* forwarded as it arrived, too long to keep: `request` is empty */
	double since; /* by the clock, since when no node takes it; 0: not refused yet */
	double retry_at; /* (PART_RETRY) by the clock */
	bool counts; /* WAIT: hasp writes before it, so that it covers all earlier writes */
	bool uncounted; /* (counts) the node refused that write: its number is wrong */
	const char *why; /* why no node took it; a literal */
	struct acks acks; /* its reply is these acknowledgements */
	bool is_copy; /* (acks) the client gets those of the entry's first part instead */
	struct block_part *block; /* its role in a transaction, or in WATCH; NULL: none */
	struct buf request; /* its bytes, to be sent again */
	struct buf reply; /* the whole reply, if the entry has `merge` */
};

/* A request of the client, which gets one reply. */
struct cluster_entry {
	struct list node; /* in session->entries */
	struct cluster_session *session;
	uint64_t serial; /* number of the entry in its session, rising */
	struct cluster_part *parts; /* &only, or an array of its own */
	size_t nparts, ndone; /* 0: its reply is synthetic, see entry_answer() */
	struct cluster_part only;
	/* All parts are answered: appends the entry's reply to `out`, made of parts[i].reply.
	 * NULL: the reply of the only part is forwarded as it comes. */
	void (*merge)(struct cluster_entry *e, struct buf *out);
	/* A part got an answer that is not a redirection. `captured`: the bytes of the answer,
	 * if `captures` is set and they are not too long. NULL: not needed. */
	void (*on_reply)(struct cluster_entry *e, struct cluster_part *p,
	                 const struct resp_reply *r, struct slice captured);
	void *arg; /* for `merge` and `on_reply` */
	void (*free_arg)(void *arg); /* NULL: `arg` need not be freed */
	struct buf reply; /* bytes that came before the entry's turn */
	size_t nreply; /* bytes that nodes have answered */
	bool done; /* no more of its reply will come */
	bool muted; /* its reply is dropped: CLIENT REPLY */
	bool pushes; /* its reply is acknowledgements, which CLIENT REPLY does not drop */
	bool captures; /* on_reply() wants the replies' bytes */
	bool begins_stream; /* MONITOR: bytes follow without end, unless it fails */
	bool blocks; /* Redis may answer only when something else happens: BLPOP */
	bool patient; /* its reply may be long in coming: LINK_PATIENT */
	bool ends; /* QUIT: the virtual link ends when the reply is delivered */
};

/* True if no node has the part now, and none has carried it out. */
static inline bool part_is_unsent(const struct cluster_part *p)
{
	return p->state == PART_HELD || p->state == PART_RETRY;
}

/* True if the part is in flight, and any other node could answer it, too. */
static inline bool part_is_for_any(const struct cluster_part *p)
{
	return p->state == PART_SENT && p->slot < 0 && !p->to && p->reads;
}

/* Appends a new entry; the caller then sets its `nparts` parts. */
struct cluster_entry *entry_begin(struct cluster_session *s, size_t nparts);
/* Sets part `i`; copies `request`. `slot`: -1: none. `to`: NULL: the slot's node, or home. */
void entry_set_part(struct cluster_entry *e, size_t i, int slot, struct node *to,
                    struct slice request);
/* Keeps the next bytes of a request that streams. */
void part_keep(struct cluster_part *p, struct slice bytes);
/* Drops the kept bytes because they are too many: the part cannot be sent again. */
void part_let_go(struct cluster_part *p);
/* Answers an entry without parts by `reply`; entry_answer_new() also makes the entry. */
void entry_answer(struct cluster_entry *e, struct slice reply);
/* Appends an entry whose reply is hasp's own. */
void entry_answer_new(struct cluster_session *s, struct slice reply);
/* Puts the replies of entries at the head that are done into `out`. */
void session_advance(struct cluster_session *s);
/* Frees the entry: its request is answered, or the session is closed. */
void entry_end(struct cluster_entry *e);

/* Handles bytes of the part's reply. */
void part_on_bytes(struct cluster_part *p, struct slice bytes);
/* Handles the end of the part's reply. */
void part_on_reply(struct cluster_part *p, const struct resp_reply *r, struct slice captured);
/* Answers the part by `error`, a line of hasp's own. */
void part_fail(struct cluster_part *p, struct slice error);
void part_set_state(struct cluster_part *p, enum part_state state);

static inline struct cluster_session *part_session(const struct cluster_part *p)
{
	return p->entry->session;
}

/* --- redirections ------------------------------------------------------------------------- */

/* Handles the part's reply, the error `line`. True: the node did not carry the request out;
 * hasp sends the part again, or answers it later. */
bool redirection_take(struct cluster_part *p, struct slice line);
/* Sends the part again a little later, because no node takes it now. `why`: a literal. */
void redirection_later(struct cluster_part *p, const char *why);

/* As redirection_take(), but does not send the part again. *why: a literal. */
bool redirection_note(const struct cluster_part *p, struct slice line, const char **why);
/* `n` has answered this question of hasp's, or a later one, and the map is up to date: parts
 * that `n` may have redirected are sent again, or get its error as their reply. `was_down`: `n`
 * recently reported that the cluster is down. */
void redirection_answered(struct cluster_session *s, const struct node *n, uint64_t question,
                          bool was_down);
/* Answers the part, which has a hint, by the error in the hint. */
void redirection_believe_nothing(struct cluster_part *p);
/* `n` is no longer one of the map's nodes. */
void redirection_forget(struct cluster_part *p, const struct node *n);
/* The part's reply is no redirection. Fails older parts of its slot that its node refused. */
void redirection_note_carried_out(const struct cluster_part *by);
/* Sends the part again; at once if its node is known. Sends later parts again after it, if
 * they might otherwise see a state in which this part has not run. */
void redirection_again(struct cluster_part *p, bool is_named, const char *why);

/* --- transactions ------------------------------------------------------------------------- */

enum block_part_kind {
	BLOCK_PART_WATCH, /* WATCH, UNWATCH */
	BLOCK_PART_QUEUED, /* a command of the transaction */
	BLOCK_PART_EXEC,
	BLOCK_PART_END, /* DISCARD, or UNWATCH, in place of a request; or a refused EXEC */
};

/* The role of a part in a transaction. */
struct block_part {
	enum block_part_kind kind;
	unsigned serial; /* session->block_serial when hasp took the part */
	bool begins; /* send `behind` before the part */
	bool watched; /* (EXEC) another node cannot carry it out */
	struct buf behind; /* MULTI, and the commands before this part */
	size_t nbehind; /* number of these requests; 0: they cannot be sent again */
	struct buf refused; /* first error among the node's replies to them */
};

/* Takes a request of a transaction, or of WATCH. False: it is neither. *taken false: all
 * earlier requests must be answered first. */
bool block_exchange_take(struct cluster_session *s, const struct command *c,
                         const struct resp_view *req, struct slice bytes, bool *taken);
/* Sends UNWATCH to the node that watches, because no key is watched any more. */
void block_exchange_unwatch(struct cluster_session *s);
/* Leaves the node that has the transaction, or the watched keys, which begin again elsewhere.
 * Returns the DISCARD or UNWATCH to send to it. */
struct slice block_leave(struct cluster_session *s);
/* The part is put on the node connection's link. Returns the requests that go before it. */
struct slice block_part_begin(struct node_conn *l, struct cluster_part *p);
/* Handles the part's reply, one line. True: do not forward it. *discard: the DISCARD or
 * UNWATCH to send to the node then; SLICE_NONE: nothing. */
bool block_replies_take(struct cluster_part *p, struct slice line, struct slice *discard);
/* NULL is allowed. */
void block_part_free(struct cluster_session *s, struct block_part *b);

/* --- dispatch ----------------------------------------------------------------------------- */

/* Sends the entry's parts, which are all set, as soon as possible. */
void entry_start(struct cluster_entry *e);
/* Sends the part to the node that serves it, or holds the part until that is possible. */
void part_dispatch(struct cluster_part *p);
/* Sends parts again that are due, and fails parts that no node took for too long. Returns true
 * if some parts still wait. */
bool dispatch_due(struct cluster_session *s, double now);
/* Answers the part, which no node has, by session->withdrawal. */
void part_withdraw(struct cluster_part *p);
/* The map has changed: parts that are not sent may have another node now. */
void dispatch_again(struct cluster_session *s);

/* --- node connections --------------------------------------------------------------------- */

/* The state of a node connection. Only node_conn_set_state() writes it.
 *
 *   CLOSED --> WAITING --> REPLAYING --> READY
 *     ^           |            |           |
 *     '-----------'------------'-----------'  the link could not be had, or ended */
enum node_conn_state {
	NODE_CONN_CLOSED, /* no link */
	NODE_CONN_WAITING, /* waits for a link of the node's pool, or of its own */
	NODE_CONN_REPLAYING, /* the session's commands are on their way */
	NODE_CONN_READY,
	NODE_CONN_NSTATES,
};

/* How the frame that is being read is handled. */
enum node_conn_frame {
	NODE_CONN_FRAME_PASSED,
	NODE_CONN_FRAME_PUSHED, /* forwarded, also in RESP2, as one that answers no request */
	NODE_CONN_FRAME_HELD, /* kept in node_conn->frame until its kind is known */
	NODE_CONN_FRAME_DROPPED,
};

/* A session's way to one node: a link that it shares, or has of its own. */
struct node_conn {
	struct list in_session; /* in session->node_conns */
	struct cluster_session *session;
	struct node *node;
	struct link_user user;
	struct pool_waiter waiter;
	struct list held; /* parts, the oldest first */
	enum node_conn_state state;
	size_t nsent; /* parts in PART_SENT */
	unsigned replays_due; /* answers to node_conn_write_replay() */
	uint64_t replayed; /* (REPLAYING) serial of the session command that was sent last */
	struct cluster_part *error; /* the part whose error is being forwarded; NULL: none */
	bool own; /* no other session uses the link */
	struct subscriptions subscriptions; /* the subscriptions of the link */
	bool in_frame, in_push; /* a frame, a push has begun and not ended */
	enum node_conn_frame frame_state; /* (in_frame) */
	struct buf frame; /* (NODE_CONN_FRAME_HELD) its bytes so far */
};

/* True if the link is subscribed to a channel or a pattern; shard channels do not count. */
static inline bool node_conn_has_channels(const struct node_conn *l)
{
	return l->subscriptions.channels || l->subscriptions.patterns;
}

/* Returns the session's node connection to the node; makes it if there is none. */
struct node_conn *node_conn_get(struct cluster_session *s, struct node *n);
/* True if the session's first entry waits for a reply on this node connection's link. */
bool node_conn_is_awaited(const struct node_conn *l);
/* True if all parts in flight on the link, if any, could be sent to another node instead. */
bool node_conn_can_be_recalled(const struct node_conn *l);
/* Recalls the parts in flight, if node_conn_can_be_recalled(): dispatch_again() sends them
 * again, and the node connection drops their replies. */
void node_conn_recall(struct node_conn *l);
/* Sends the part, or holds it until the node connection is ready. */
void node_conn_send(struct node_conn *l, struct cluster_part *p);
/* The node connection `reset` has carried out RESET, which ends all subscriptions. */
void node_conns_forget_subscriptions(struct cluster_session *s, const struct node_conn *reset);
/* Opens a closed node connection, which becomes READY if its node can be reached. */
void node_conn_open(struct node_conn *l);
/* Leaves the link if it is outdated: now, or as soon as nothing is under way on it. */
void node_conn_renew(struct node_conn *l);
/* The node has left the cluster: frees the node connection. If replies are due on it, the
 * session ends, with `why`. */
void node_conn_forget(struct node_conn *l, const char *why);
/* The session is closed: its node connections leave their links, to be freed later. */
void node_conns_leave(struct cluster_session *s);
void node_conns_free(struct cluster_session *s);

/* These functions write on the link of a node connection that is READY or REPLAYING. */

/* Writes the part's request, after those that go before it. */
void node_conn_write_part(struct node_conn *l, struct cluster_part *p);
/* Writes the beginning of a long request; the caller writes the rest on the link. */
void node_conn_write_stream(struct node_conn *l, struct cluster_part *p, struct slice bytes);
/* Writes a command, and discards its reply; not if the node connection is not ready. */
void node_conn_write_discarded(struct node_conn *l, struct slice request);
/* Writes a session command, and discards its reply. An error ends the session. */
void node_conn_write_replay(struct node_conn *l, struct slice request);
/* As node_conn_write_replay(), on all ready node connections of the session but the part's. */
void node_conns_write_replay(struct cluster_session *s, const struct cluster_part *p,
                             struct slice request);
/* Returns true while a session command on any node connection is not answered yet. */
bool node_conns_replay(const struct cluster_session *s);
/* Returns the part that follows the request with this tag; NULL: none does. */
struct cluster_part *node_conn_part_behind(void *tag);

/* --- session commands --------------------------------------------------------------------- */

enum replay_kind {
	REPLAY_NONE, /* not a session command */
	REPLAY_LOGIN,
	REPLAY_HELLO,
	REPLAY_RESET, /* only the client's library stays in force */
	REPLAY_NAME,
	REPLAY_LIB_NAME,
	REPLAY_LIB_VER,
	REPLAY_TRACKING,
	REPLAY_NO_EVICT,
	REPLAY_NO_LRU,
};

/* A session command that was accepted. A later one of the same kind replaces it. */
struct replayed {
	struct list node; /* in replay.commands */
	uint8_t kind; /* enum replay_kind */
	uint64_t serial; /* >= 1; rises from the oldest to the newest */
	struct buf request;
};

/* The session commands in force, oldest first: each new node link gets them. */
struct replay {
	struct list commands;
	uint64_t serial; /* serial of the newest */
};

void replay_fini(struct replay *r);
/* Takes a request that changes the state of its connection at Redis. False: it is no such
 * request. *taken false: all earlier requests must be answered first. */
bool session_command_take(struct cluster_session *s, const struct command *c,
                          const struct resp_view *req, struct slice bytes, bool *taken);

/* --- the session -------------------------------------------------------------------------- */

/* How the session takes requests. Only session_set_flow() writes it.
 *
 *   OPEN <--> BARRIER --> RAW    from each of them to ENDING and CLOSED
 *    ^-----> STREAMING <-- too long to be kept -- GATHERING <--> OPEN */
enum cluster_flow {
	FLOW_OPEN, /* takes requests as they come */
	FLOW_BARRIER, /* takes none until all earlier ones are answered */
	FLOW_STREAMING, /* forwards the rest of a long request as it arrives */
	FLOW_GATHERING, /* keeps the rest of a long request until it is whole */
	FLOW_RAW, /* forwards bytes to and from `stream_node_conn`, unparsed */
	FLOW_ENDING, /* takes no more requests; the link ends after the last reply */
	FLOW_CLOSED, /* the virtual link is gone; freed by cluster_reap() */
	FLOW_NSTATES,
};

enum reply_mode { REPLY_ON, REPLY_SKIP_NEXT, REPLY_OFF }; /* CLIENT REPLY */

struct cluster_session {
	struct stream_peer peer; /* the far end of `link` */
	struct link *link; /* virtual; NULL: FLOW_CLOSED */
	struct cluster *cluster;
	struct list node; /* in cluster->sessions or cluster->dead */
	struct list stalled; /* in cluster->stalled while a part cannot be sent */
	enum cluster_flow flow;
	struct list entries; /* struct cluster_entry, the oldest first */
	size_t nentries;
	struct list node_conns;
	struct node_conn *last; /* the node connection that was looked up last; NULL: none */
	struct list retries; /* parts in PART_RETRY, in the order of the requests */
	struct node *default_node; /* for requests without a key; NULL: not chosen yet */
	struct node_conn *stream_node_conn; /* in STREAMING, RAW; NULL: the stream is dropped */
	struct cluster_part *stream_part; /* (STREAMING) keeps its bytes; NULL: none */
	struct request_scan scan; /* in STREAMING, GATHERING */
	struct buf gathered; /* (GATHERING) the request as far as it came */
	double stalled_since; /* when a long request began to wait for its node connection, or
	                       * a request for all primaries for a map; 0: none waits */
	struct replay replay;
	enum reply_mode reply_mode;
	struct watch deliver; /* delivers `out` at the end of the loop iteration */
	struct buf out; /* replies in order, for the link */
	struct buf pushes; /* frames that answer no request, until the head's reply is whole */
	/* Slots of requests for several keys, and of transactions: see session_holds(). */
	uint64_t several, blocks;
	struct slice withdrawal; /* the answer to withdrawn parts; not copied */
	bool refused; /* since nothing was in flight, a node has refused a request */
	size_t nrequested; /* memory of the entries' parts and their requests */
	size_t kept; /* bytes of replies before their turn, and of kept transactions */
	size_t reply_size; /* expected bytes of a reply: about the longest of late; >= 1 */
	size_t uncounted; /* bytes kept since the link's user last counted the memory */
	uint64_t next_serial;
	uint32_t map_version; /* of the map by which `entries` were routed */
	struct link_login login; /* (shares) its strings are in `login_text` */
	char *login_text;
	bool shares; /* node connections are on shared links of the nodes' pools */
	struct block block;
	struct node_conn *block_node_conn; /* has the transaction, or the watched keys; NULL:
	                                    * none */
	unsigned block_serial; /* number of the transaction, or of the next one; from 1 on */
	unsigned block_moved; /* one that was redirected after its EXEC; 0: none was */
	uint64_t client_id; /* what CLIENT ID returns; 0: the client has not asked for it */
	uint8_t proto; /* 2 or 3 */
	bool subscribed; /* one of the node connections is subscribed */
	bool everywhere; /* each primary's one is, for keyspace notifications */
	bool subscribing; /* (everywhere) acknowledgements are missing: messages wait */
	bool starved; /* the link has requests that the session did not take */
	bool paused; /* the link takes no replies */
	bool has_backpressure; /* too many bytes are kept: hasp stops reading the session's own
	                        * links, see node_conn_is_awaited() */
	bool shut; /* the client has shut its side down */
	bool lingers; /* (ENDING) only the client ends the session */
	bool advancing; /* session_advance() runs, or must not run */
	bool head_begun; /* a part of the first entry's reply is in `out`, or delivered */
};

/* Returns the bit of a slot: its number modulo 64. Bits stay set until all is answered. */
static inline uint64_t session_bit(unsigned slot)
{
	return UINT64_C(1) << slot % 64;
}

/* True if a request of the slot must wait until all requests before it are answered.
 *
 * While keys migrate, their node may refuse a request of several keys, because one key has
 * left, and run a later request for a key that has not. So writes wait for the answer to a
 * request of several keys. Reads do not: if that request is refused, redirection_again() sends
 * them again after it. Every request waits for a transaction before it. */
static inline bool session_holds(const struct cluster_session *s, unsigned slot, bool reads)
{
	uint64_t bit = session_bit(slot);

	if (list_empty(&s->entries))
		return false;
	if (s->blocks & bit || slot_map_is_migrating(s->cluster->opts.map, slot))
		return true;
	return s->several & bit && (!reads || s->refused);
}

/* Makes the tick call dispatch_due() for the sessions in `stalled`. */
void cluster_start_tick(struct cluster *c);

/* Returns the far end of a virtual link. `accepted`: as in link_env.connect. */
struct stream_peer *session_connect(struct cluster *c, struct link *l,
                                    const struct link_login *accepted);
/* Forwards the beginning of a long request, as far as it has arrived: `scan` has seen `used`
 * bytes of it. Returns how many bytes it has forwarded. */
size_t session_begin_stream(struct cluster_session *s, const char *p, size_t n,
                            const struct request_scan *scan, size_t used);
/* Forwards more of a long request. Returns how many bytes it has forwarded. */
size_t session_stream_on(struct cluster_session *s, const char *p, size_t n);
/* Refuses an argument that is too long for Redis, before the request is whole, as Redis does.
 * Returns `used`. */
size_t session_refuse_bulk(struct cluster_session *s, size_t used);
/* Redis closes the connection after its error for the next request, and replies that other
 * nodes owe would be lost. False: the request must wait for these replies. */
bool session_is_last_to_answer(struct cluster_session *s);
void session_set_flow(struct cluster_session *s, enum cluster_flow flow);
/* Ends the virtual link, because the outcome of a request is not known. */
void session_break(struct cluster_session *s, const char *reason);
/* As session_break(), for a reason of hasp's own, which it logs. */
void session_give_up(struct cluster_session *s, const char *reason);
/* Frees a session that is FLOW_CLOSED. */
void session_free(struct cluster_session *s);
/* Gives `out` to the link, unless that is paused. The link's user may then even close it. */
void session_deliver(struct cluster_session *s);
/* Reads the session's own links no faster than the client reads, and no further ahead of the
 * first reply than client_output_limit allows. */
void session_steer_node_conns(struct cluster_session *s);
/* Adds bytes for the link, which gets them at the end of the loop iteration. */
void session_put(struct cluster_session *s, struct slice bytes);
/* As session_put(), for bytes that answer no request: never in the middle of a reply. */
void session_push(struct cluster_session *s, struct slice bytes);
/* Counts `nbytes` more bytes of memory that are kept, beside those of the requests. */
void session_grew(struct cluster_session *s, size_t nbytes);
/* Checks waiting requests and bytes again in this loop iteration: they may go on. */
void session_wake(struct cluster_session *s);
/* A part cannot be sent: puts the session into `stalled`. */
void session_trouble(struct cluster_session *s);

/* --- subscriptions ------------------------------------------------------------------------ */

/* Takes a request that is about subscriptions, or that hasp refuses because of them. False: it
 * is neither. *taken false: no primary is known yet. */
bool pubsub_take(struct cluster_session *s, const struct command *c,
                 const struct resp_view *req, struct slice bytes, bool *taken);

/* Returns the first node connection after `after` (NULL: from the beginning) that is
 * subscribed to something, or to shard channels. NULL: there is none. */
struct node_conn *pubsub_next_node_conn(struct cluster_session *s,
                                        const struct node_conn *after, bool shards);
/* The map has changed: ends the session if it misses keyspace notifications of a new node. */
void pubsub_map_changed(struct cluster_session *s);
/* The subscriptions of a node connection have changed. */
void pubsub_note(struct cluster_session *s);
/* Returns how to handle a frame of the node connection that begins with `beginning`. */
enum node_conn_frame pubsub_frame(const struct node_conn *l, struct slice beginning);
/* Appends the acknowledgement `frame` of the node connection's node, with the number that a
 * single server would give. */
void pubsub_write_ack(const struct node_conn *l, struct slice frame, struct buf *out);
/* For entry->merge: of SUNSUBSCRIBE without channels; of SUBSCRIBE and UNSUBSCRIBE (also of
 * patterns) at several nodes, with the home node's part first. */
void pubsub_merge_left_shards(struct cluster_entry *e, struct buf *out);
void pubsub_merge_subscribed(struct cluster_entry *e, struct buf *out);
void pubsub_merge_unsubscribed(struct cluster_entry *e, struct buf *out);

/* Passes the entry's reply, of one part, through hide_cluster_mode() and mode_replace_id(). */
void entry_hide_mode(struct cluster_entry *e);

/* --- several nodes ----------------------------------------------------------------------- */

/* Take a request of PLAN_SPLIT; of PLAN_EACH, as `bytes`; of PLAN_SCAN. wide_split() returns
 * false if all earlier requests must be answered first, wide_each() also if no primary is
 * known yet, wide_scan() if Redis must refuse the request. */
bool wide_split(struct cluster_session *s, const struct plan *p, const struct resp_view *req,
                bool reads);
bool wide_each(struct cluster_session *s, const struct plan *p, struct slice bytes,
               bool counts);
/* No primary is known, so hasp does not know how many parts a request has. False: the request
 * waits; true: it is answered. */
bool wide_await_primaries(struct cluster_session *s);
bool wide_scan(struct cluster_session *s, const struct resp_view *req);

/* --- routing ------------------------------------------------------------------------------ */

/* Returns the node for requests without a key: the same one while it is a primary that answers,
 * or while it has state of the session. NULL: none is known. */
struct node *session_default_node(struct cluster_session *s);
/* If the home node does not answer, chooses another one, and returns true. Parts that wait for
 * a link to the old one must then be dispatched again. */
bool session_leave_default_node(struct cluster_session *s);
/* Takes one whole request. False: all earlier requests must be answered first. */
bool routing_take(struct cluster_session *s, const struct resp_view *req, struct slice bytes)
	__attribute__((warn_unused_result));
/* True if a long request, which begins so, must be whole before hasp can classify it. */
bool routing_needs_whole(const struct cluster_session *s, const struct resp_view *req);
/* Finds the slot of a long request by its beginning; -1: it has no key. *several: it may name
 * more than one. *may_forge: command_may_forge(). Returns false if more bytes are needed. */
bool routing_early(const struct cluster_session *s, const struct resp_view *req, int *slot,
                   bool *several, bool *may_forge) __attribute__((warn_unused_result));

/* --- mode.c --- */

/* Changes fields in which a server says that it is part of a cluster, because clients
 * would then look for the other nodes: `mode` of HELLO; `redis_mode` (Valkey: `server_mode`)
 * and `cluster_enabled` of INFO. Also changes the id of the client's connection, which each
 * node counts by itself. */

/* Appends a whole reply to HELLO or INFO as a server without a cluster would send it. */
void hide_cluster_mode(struct slice reply, struct buf *out);

/* Appends a whole reply to CLIENT ID, CLIENT INFO or HELLO with `id` in place of the node's id.
 * A reply without an id stays as it is. */
void mode_replace_id(struct slice reply, uint64_t id, struct buf *out);

#endif
