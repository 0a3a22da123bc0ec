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
 *                             ^ others' replies are kept in their entries until it is their
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
	struct list stalled; /* sessions with parts that cannot be sent */
	struct timer tick; /* runs while there are such */
	timer_fn *on_tick;
	size_t nhomes; /* homes that were given out: they go round */
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
	struct node *to; /* it is for this node, whatever the slots; NULL: for its slot's */
	struct node *asked; /* the node to send it to next, after ASKING; NULL: none */
	int slot; /* -1: none; then, without `to`, it is for the session's home */
	enum part_state state;
	bool redirected; /* once at least */
	bool unserved; /* the last time its node said that it does not serve the slot */
	bool may_forge; /* command_may_forge() */
	struct hint *hint; /* (PART_RETRY) the reply by which the part was refused, which a
	                    * script may have forged; NULL: the part was refused for certain */
	bool several; /* it may name more than one key of its slot */
	bool reads; /* it changes nothing: it may run twice (without `slot`: on any node) */
	bool is_stale; /* (PART_SENT) the node refused an earlier part: the reply to this one is
	                * dropped, and it is sent again after the earlier part */
	bool withdrawn; /* (PART_SENT) not sent again: its answer is session->withdrawal */
	bool streamed; /* it was passed on as it came, and was too long: `request` is empty */
	double since; /* clock since when no node takes it; 0: it was not refused yet */
	double retry_at; /* clock; in PART_RETRY */
	bool counts; /* WAIT: hasp writes before it, so that it covers all earlier writes */
	bool uncounted; /* (counts) the node refused that write: no number of its is true */
	const char *why; /* no node took it; a literal */
	struct acks acks; /* its reply is these */
	bool is_copy; /* (acks) the client gets those of the entry's first part instead */
	struct block_part *block; /* it belongs to a transaction, or to WATCH; NULL: no */
	struct buf request; /* the bytes, to be sent again */
	struct buf reply; /* the whole reply, if the entry has `merge` */
};

/* A request of the client: what is answered by one reply. */
struct cluster_entry {
	struct list node; /* in session->entries */
	struct cluster_session *session;
	uint64_t serial; /* of the session's entries, in their order */
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
	void *arg; /* of the two, theirs */
	void (*free_arg)(void *arg); /* NULL: `arg` need not be freed */
	struct buf reply; /* what came before its turn */
	size_t nreply; /* bytes that nodes have answered */
	bool done; /* no more of its reply will come */
	bool muted; /* its reply is dropped: CLIENT REPLY */
	bool pushes; /* its reply is acknowledgements, which are not dropped */
	bool captures; /* on_reply() wants the replies' bytes */
	bool begins_stream; /* MONITOR: bytes follow without end, unless an error does */
	bool blocks; /* Redis may answer when something else happens: BLPOP */
	bool patient; /* its reply may be long in coming: LINK_PATIENT */
	bool ends; /* when it is delivered the virtual link ends: QUIT */
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

/* A new entry after all others, whose `nparts` are to be set. */
struct cluster_entry *entry_begin(struct cluster_session *s, size_t nparts);
/* Copies `request`. `slot`: -1: none. `to`: NULL: the slot's node, or the home. */
void entry_set_part(struct cluster_entry *e, size_t i, int slot, struct node *to,
                    struct slice request);
/* Keeps the next bytes of a request that streams. */
void part_keep(struct cluster_part *p, struct slice bytes);
/* Drops the kept bytes because they are too many: the part cannot be sent again. */
void part_let_go(struct cluster_part *p);
/* `reply` is the reply of an entry without parts. */
void entry_answer(struct cluster_entry *e, struct slice reply);
/* Both: a reply of hasp's own in its place in the order. */
void entry_answer_new(struct cluster_session *s, struct slice reply);
/* The replies of entries at the head that are done are put into `out`. */
void session_advance(struct cluster_session *s);
/* Frees the entry: it is answered, or the session is closed. */
void entry_end(struct cluster_entry *e);

/* Bytes of its reply came. */
void part_on_bytes(struct cluster_part *p, struct slice bytes);
/* Its reply is whole. */
void part_on_reply(struct cluster_part *p, const struct resp_reply *r, struct slice captured);
/* `error` is its reply: a line of ours. */
void part_fail(struct cluster_part *p, struct slice error);
void part_set_state(struct cluster_part *p, enum part_state state);

static inline struct cluster_session *part_session(const struct cluster_part *p)
{
	return p->entry->session;
}

/* --- redirections ------------------------------------------------------------------------- */

/* The part's reply is the error `line`. True: the line says that the node did not carry the
 * request out; the part is going to be sent again, or to be answered later. */
bool redirection_take(struct cluster_part *p, struct slice line);
/* No node takes the part now: it is tried again a little later. `why`: a literal. */
void redirection_later(struct cluster_part *p, const char *why);

/* As above, for a part that is not sent again by itself. *why: a literal. */
bool redirection_note(const struct cluster_part *p, struct slice line, const char **why);
/* `n` has answered this question of hasp's, or a later one, and the map is up to date: parts
 * that `n` may have redirected are sent again, or get its error as their reply. `was_down`: `n`
 * recently reported that the cluster is down. */
void redirection_answered(struct cluster_session *s, const struct node *n, uint64_t question,
                          bool was_down);
/* The part, which has a hint, gets the error that it was answered as its reply. */
void redirection_believe_nothing(struct cluster_part *p);
/* `n` is not one of the map's nodes any more. */
void redirection_forget(struct cluster_part *p, const struct node *n);
/* The part's reply is no redirection. Older ones of its slot that its node has refused fail. */
void redirection_note_carried_out(const struct cluster_part *by);
/* Sends the part again, now if its node is known. Sends later parts again after it, if they
 * might otherwise see a state in which this part has not run. */
void redirection_again(struct cluster_part *p, bool is_named, const char *why);

/* --- transactions ------------------------------------------------------------------------- */

enum block_part_kind {
	BLOCK_PART_WATCH, /* WATCH, UNWATCH */
	BLOCK_PART_QUEUED, /* a command of the transaction */
	BLOCK_PART_EXEC,
	BLOCK_PART_END, /* DISCARD, or UNWATCH, in place of something else; or a refused EXEC */
};

/* The role of a part in a transaction. */
struct block_part {
	enum block_part_kind kind;
	unsigned serial; /* session->block_serial when it was taken */
	bool begins; /* `behind` is sent before it */
	bool watched; /* (EXEC) another node cannot carry it out */
	struct buf behind; /* MULTI, and the commands before it */
	size_t nbehind; /* how many requests that is; 0: it cannot be sent again */
	struct buf refused; /* the error of the first of them that was refused */
};

/* Takes a request of a transaction, or of WATCH. False: it is neither. *taken false: all that
 * came before has to be answered first. */
bool block_exchange_take(struct cluster_session *s, const struct command *c,
                         const struct resp_view *req, struct slice bytes, bool *taken);
/* Sends UNWATCH to the node that watches, because no key is watched any more. */
void block_exchange_unwatch(struct cluster_session *s);
/* Leaves the node that has the transaction, or watches: both begin again elsewhere. Returns the
 * DISCARD or UNWATCH to send to it. */
struct slice block_leave(struct cluster_session *s);
/* The part is put on the node connection's link. Returns the requests that go before it. */
struct slice block_part_begin(struct node_conn *l, struct cluster_part *p);
/* The part's reply is the line. True: it is seen to, and not to be passed on. *discard: the
 * DISCARD or UNWATCH that the node is to be sent then; SLICE_NONE: nothing. */
bool block_replies_take(struct cluster_part *p, struct slice line, struct slice *discard);
/* NULL is allowed. */
void block_part_free(struct cluster_session *s, struct block_part *b);

/* --- dispatch ----------------------------------------------------------------------------- */

/* All parts of the entry are set: they are sent, as soon as that is possible. */
void entry_start(struct cluster_entry *e);
/* Sends the part to the node that serves it, or holds it until that is possible. */
void part_dispatch(struct cluster_part *p);
/* Parts that are due are sent again; those that no node took for too long fail. Returns whether
 * there are still such. */
bool dispatch_due(struct cluster_session *s, double now);
/* The part, which no node has, is answered by session->withdrawal. */
void part_withdraw(struct cluster_part *p);
/* The map has changed: parts that are not sent may have another node now. */
void dispatch_again(struct cluster_session *s);

/* --- node connections --------------------------------------------------------------------- */

/* Only node_conn_set_state() writes it.
 *
 *   CLOSED --> WAITING --> REPLAYING --> READY
 *     ^           |            |           |
 *     '-----------'------------'-----------'  the link could not be had, or ended */
enum node_conn_state {
	NODE_CONN_CLOSED, /* no link */
	NODE_CONN_WAITING, /* for a link of the node's pool, or of its own */
	NODE_CONN_REPLAYING, /* the session's commands are on their way */
	NODE_CONN_READY,
	NODE_CONN_NSTATES,
};

/* How the frame that is being read is handled. */
enum node_conn_frame {
	NODE_CONN_FRAME_PASSED,
	NODE_CONN_FRAME_PUSHED, /* passed, also in RESP2, as one that answers no request */
	NODE_CONN_FRAME_HELD, /* it is in node_conn->frame until it is known, or whole */
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
	uint64_t replayed; /* (REPLAYING) serial of the last session command sent */
	struct cluster_part *error; /* the part whose error is being forwarded; NULL: none */
	bool own; /* no other session uses the link */
	struct subscriptions subscriptions; /* of the link */
	bool in_frame, in_push; /* bytes of a frame, of a push came, and not its end */
	enum node_conn_frame frame_state; /* (in_frame) */
	struct buf frame; /* (NODE_CONN_FRAME_HELD) what came of it */
};

/* Is its link subscribed to a channel or a pattern that is no shard channel? */
static inline bool node_conn_has_channels(const struct node_conn *l)
{
	return l->subscriptions.channels || l->subscriptions.patterns;
}

/* The session's node connection to the node; made if need be. */
struct node_conn *node_conn_get(struct cluster_session *s, struct node *n);
/* Does the session's first entry wait for what this node connection's link brings? */
bool node_conn_is_awaited(const struct node_conn *l);
/* Could all that is in flight on it, if anything is, be asked of another node? */
bool node_conn_can_be_recalled(const struct node_conn *l);
/* Recalls the parts in flight, if node_conn_can_be_recalled(): dispatch_again() sends them
 * again, and the node connection drops their replies. */
void node_conn_recall(struct node_conn *l);
/* Sends the part, or holds it until the node connection is ready. */
void node_conn_send(struct node_conn *l, struct cluster_part *p);
/* RESET ends all subscriptions; the node connection `reset` has carried it out. */
void node_conns_forget_subscriptions(struct cluster_session *s, const struct node_conn *reset);
/* Makes a node connection that is closed try to be READY. */
void node_conn_open(struct node_conn *l);
/* If its link is outdated: leaves it, now or as soon as nothing is under way on it. */
void node_conn_renew(struct node_conn *l);
/* The node is none of the cluster's any more: the node connection is freed. Where replies are
 * due the session ends, with `why`. */
void node_conn_forget(struct node_conn *l, const char *why);
/* The session is closed: its node connections leave their links; later they are freed. */
void node_conns_leave(struct cluster_session *s);
void node_conns_free(struct cluster_session *s);

/* All of these write on the link of a node connection that is ready, or that is REPLAYING. */

/* The part's request, after those that go before it. */
void node_conn_write_part(struct node_conn *l, struct cluster_part *p);
/* The beginning of a long request. The rest is for its link. */
void node_conn_write_stream(struct node_conn *l, struct cluster_part *p, struct slice bytes);
/* A command whose reply says nothing; not if the node connection is not ready. */
void node_conn_write_discarded(struct node_conn *l, struct slice request);
/* A session command: its reply is discarded, and a fault of it ends the session. */
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
	REPLAY_NONE, /* it is no such command */
	REPLAY_LOGIN,
	REPLAY_HELLO,
	REPLAY_RESET, /* nothing but the client's library is in force any more */
	REPLAY_NAME,
	REPLAY_LIB_NAME,
	REPLAY_LIB_VER,
	REPLAY_TRACKING,
	REPLAY_NO_EVICT,
	REPLAY_NO_LRU,
};

/* A command that was accepted. A later one of the same kind takes its place. */
struct replayed {
	struct list node; /* in replay.commands */
	uint8_t kind; /* enum replay_kind */
	uint64_t serial; /* >= 1; rises from the oldest to the newest */
	struct buf request;
};

/* Accepted session commands, oldest first: each new link of a node connection gets them. */
struct replay {
	struct list commands;
	uint64_t serial; /* of the newest */
};

/* The oldest with a serial above `after`; NULL: there is none. */
static inline const struct replayed *replay_next(const struct replay *r, uint64_t after)
{
	list_each (const struct replayed, one, &r->commands, node)
		if (one->serial > after)
			return one;
	return NULL;
}

void replay_fini(struct replay *r);
/* Is the request one that changes what a connection is to Redis? Then it is taken, and true
 * returned; *taken false: all that came before has to be answered first. */
bool session_command_take(struct cluster_session *s, const struct command *c,
                          const struct resp_view *req, struct slice bytes, bool *taken);

/* --- the session -------------------------------------------------------------------------- */

/* Only session_set_flow() writes it.
 *
 *   OPEN <--> BARRIER --> RAW    from each of them to ENDING and CLOSED
 *    ^-----> STREAMING <-- too long to be kept -- GATHERING <--> OPEN */
enum cluster_flow {
	FLOW_OPEN, /* requests are taken as they come */
	FLOW_BARRIER, /* none is taken until all that were are answered */
	FLOW_STREAMING, /* the rest of a long request is passed on as it comes */
	FLOW_GATHERING, /* the rest of a long request is kept until it is whole */
	FLOW_RAW, /* what comes and goes on `stream_node_conn` are bytes */
	FLOW_ENDING, /* no request is taken any more; the link ends when all is delivered */
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
	struct node_conn
		*last; /* the one in `node_conns` that was looked up last; NULL: none */
	struct list retries; /* parts in PART_RETRY, in the order of the requests */
	struct node *default_node; /* for what names no key; NULL: not chosen yet */
	struct node_conn
		*stream_node_conn; /* in STREAMING, RAW; NULL: what streams is dropped */
	struct cluster_part *stream_part; /* (STREAMING) keeps what streams; NULL: none does */
	struct request_scan scan; /* in STREAMING, GATHERING */
	struct buf gathered; /* (GATHERING) the request as far as it came */
	double stalled_since; /* clock since when a long request waits for its node connection,
	                       * or one for all primaries for a map; 0: none does */
	struct replay replay;
	enum reply_mode reply_mode;
	struct watch deliver; /* `out` is delivered after all that is served in this turn */
	struct buf out; /* replies in order, for the link */
	struct buf pushes; /* what answers no request, until the head's reply is whole */
	/* See session_holds(): of requests that name several keys, of transactions. */
	uint64_t several, blocks;
	struct slice withdrawal; /* the answer to parts that are withdrawn; not copied */
	bool refused; /* since nothing was in flight, a node did not carry a request out */
	size_t nrequested; /* memory of the entries' parts and their requests */
	size_t kept; /* bytes of replies before their turn, of transactions to be sent again */
	size_t reply_size; /* expected bytes of a reply: about the most of late; >= 1 */
	size_t uncounted; /* bytes kept since the link's user last counted them */
	uint64_t next_serial;
	uint32_t map_version; /* of the map by which `entries` were routed */
	struct link_login login; /* (shares) its strings are in `login_text` */
	char *login_text;
	bool shares; /* node connections are on shared links of the nodes' pools */
	struct block block;
	struct node_conn
		*block_node_conn; /* has the transaction, or watches; NULL: none does yet */
	unsigned block_serial; /* of the transaction, or the next one; from 1 on */
	unsigned block_moved; /* this one was redirected after its EXEC; 0: none was */
	uint64_t client_id; /* what CLIENT ID returns; 0: the client has not asked for it */
	uint8_t proto; /* 2 or 3 */
	bool subscribed; /* one of the node connections is */
	bool everywhere; /* each primary's node connection is, for keyspace notifications */
	bool subscribing; /* (everywhere) not all of them have acknowledged it: messages wait */
	bool starved; /* the link has requests that were not taken */
	bool paused; /* the link takes no replies */
	bool has_backpressure; /* too much is kept: hasp does not read its own links, see
	                        * node_conn_is_awaited() */
	bool shut; /* the client sends no more */
	bool lingers; /* (ENDING) only the client ends the session */
	bool advancing; /* entries that are answered are being taken off, or must not be */
	bool head_begun; /* a part of the first entry's reply is in `out`, or was delivered */
};

/* Noted by slot modulo 64, until all is answered. */
static inline uint64_t session_bit(unsigned slot)
{
	return UINT64_C(1) << slot % 64;
}

/* True if a request of the slot must wait until all requests before it are answered.
 *
 * While keys migrate, their node may refuse a request of several keys, because one of them has
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

/* dispatch_due() will be called for sessions in `stalled`. */
void cluster_start_tick(struct cluster *c);

/* The far end of a virtual link. `accepted`: as in link_env.connect. */
struct stream_peer *session_connect(struct cluster *c, struct link *l,
                                    const struct link_login *accepted);
/* Passes the beginning of a long request on, as far as it is there: `scan` has seen `used`
 * bytes of it. Returns how many bytes were passed. */
size_t session_begin_stream(struct cluster_session *s, const char *p, size_t n,
                            const struct request_scan *scan, size_t used);
/* The rest of what streams. Returns how much of it was passed on. */
size_t session_stream_on(struct cluster_session *s, const char *p, size_t n);
/* An argument of a request that is not whole is too long for Redis, as it says before that
 * came. Returns `used`. */
size_t session_refuse_bulk(struct cluster_session *s, size_t used);
/* Redis closes the connection after the error that answers the next request, and the replies
 * that other nodes owe would be lost. False: the request must wait for these. */
bool session_is_last_to_answer(struct cluster_session *s);
void session_set_flow(struct cluster_session *s, enum cluster_flow flow);
/* The virtual link ends: the outcome of a request is not known. */
void session_break(struct cluster_session *s, const char *reason);
/* As session_break(), for a reason of hasp's own, which is logged. */
void session_give_up(struct cluster_session *s, const char *reason);
/* Frees a session that is FLOW_CLOSED. */
void session_free(struct cluster_session *s);
/* Gives `out` to the link, unless that is paused. The link's user may then do anything. */
void session_deliver(struct cluster_session *s);
/* Links of its own are read no faster than the client reads, and no further ahead of the first
 * reply than client_output_limit allows. */
void session_steer_node_conns(struct cluster_session *s);
/* Bytes for the link: they are delivered at the end of the turn. */
void session_put(struct cluster_session *s, struct slice bytes);
/* As above, for bytes that answer no request: not in the middle of a reply. */
void session_push(struct cluster_session *s, struct slice bytes);
/* Counts `nbytes` more that are kept, beside those that a request brings with it. */
void session_grew(struct cluster_session *s, size_t nbytes);
/* Requests or bytes that wait may go on: this turn of the loop checks them again. */
void session_wake(struct cluster_session *s);
/* A part cannot be sent: dispatch_due() will be called. */
void session_trouble(struct cluster_session *s);

/* --- subscriptions ------------------------------------------------------------------------ */

/* Takes a request that is about subscriptions, or is refused because of them. False: it is not.
 * *taken false: no primary is known yet. */
bool pubsub_take(struct cluster_session *s, const struct command *c,
                 const struct resp_view *req, struct slice bytes, bool *taken);

/* The first node connection after `after`, from the beginning for NULL, that is subscribed to
 * something, or to shard channels. NULL: no other node connection is. */
struct node_conn *pubsub_next_node_conn(struct cluster_session *s,
                                        const struct node_conn *after, bool shards);
/* The map has changed: ends the session if it misses keyspace notifications of a new node. */
void pubsub_map_changed(struct cluster_session *s);
/* The subscriptions of a node connection have changed. */
void pubsub_note(struct cluster_session *s);
/* Returns how to handle a frame of the node connection that begins with `beginning`. */
enum node_conn_frame pubsub_frame(const struct node_conn *l, struct slice beginning);
/* Appends the acknowledgement `frame`, which the node connection's node has sent, with the
 * number that one server would give. */
void pubsub_write_ack(const struct node_conn *l, struct slice frame, struct buf *out);
/* For entry->merge: of SUNSUBSCRIBE without channels; of SUBSCRIBE and UNSUBSCRIBE (also of
 * patterns) at several nodes, with the home node's part first. */
void pubsub_merge_left_shards(struct cluster_entry *e, struct buf *out);
void pubsub_merge_subscribed(struct cluster_entry *e, struct buf *out);
void pubsub_merge_unsubscribed(struct cluster_entry *e, struct buf *out);

/* The entry's reply, of one part, gets through hide_cluster_mode() and mode_replace_id(). */
void entry_hide_mode(struct cluster_entry *e);

/* --- several nodes ----------------------------------------------------------------------- */

/* Takes a request of PLAN_SPLIT; of PLAN_EACH, as `bytes`; of PLAN_SCAN. The first returns
 * false if all that came before has to be answered first, the second also if no primary is
 * known yet, the last if it is for Redis to refuse. */
bool wide_split(struct cluster_session *s, const struct plan *p, const struct resp_view *req,
                bool reads);
bool wide_each(struct cluster_session *s, const struct plan *p, struct slice bytes,
               bool counts);
/* No primary is known, so the number of parts of a request is unknown. False: the request
 * waits; else it is answered. */
bool wide_await_primaries(struct cluster_session *s);
bool wide_scan(struct cluster_session *s, const struct resp_view *req);

/* --- routing ------------------------------------------------------------------------------ */

/* Returns the node for requests without a key: the same one while it is a primary that answers,
 * or while it has state of the session. NULL: none is known. */
struct node *session_default_node(struct cluster_session *s);
/* If the home node does not answer, chooses another one, and returns true. Parts that wait for
 * a link to the old one must then be dispatched again. */
bool session_leave_default_node(struct cluster_session *s);
/* Takes one whole request. False: not before all that came before is answered. */
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

/* Appends a whole reply to HELLO or INFO, as a server gives it that is no cluster's. */
void hide_cluster_mode(struct slice reply, struct buf *out);

/* Appends a whole reply to CLIENT ID, CLIENT INFO or HELLO with `id` in place of the node's id.
 * A reply without an id stays as it is. */
void mode_replace_id(struct slice reply, uint64_t id, struct buf *out);

#endif
