/* SPDX-License-Identifier: BSD-3-Clause
 *
 * client_internal: struct client, its state, and the functions that the files of this folder
 * share.
 *
 *      .------------------------------------------------------------------------.
 *      v                                                                         |
 *    OPEN --a long request begins--> STREAMING --it ends--> OPEN                 |
 *      |  `--SYNC was accepted-----> TUNNEL                                      |
 *      |  `--a protocol error------> REFUSED                                     |
 *      |                                                                         |
 *      |--what it means depends on a reply---> PARKED_DEFERRED --answered--------|
 *      |--it needs another link--------------> PARKED_LINK --no reply is due-----|
 *      |--its link is full-------------------> PARKED_SPACE --it has space-------|
 *      |--it has an unknown command-----------> PARKED_COMMAND --Redis was asked--|
 *      `--it is rewritten, or guarded-.                                          |
 *                                     v                                          |
 *      .----------> PARKED_QUEUE --ready--> PARKED_REPLY --answered--------------|
 *      |                  ^                  |   ^  |                            |
 *      |                  | no link      QUEUED  |  | another link               |
 *      |                  |                  v   |  v                            |
 *      |                  `---- place lost - PARKED_TURN    PARKED_LINK          |
 *      |                                         `--timed out--------------------'
 *      `-- the queue of waiters cannot be joined yet
 *
 * PARKED_REPLY <--> PARKED_ACK: the client has the lock, and hasp asks replicas for it.
 * PARKED_REPLY ---> PARKED_ROUND --answered--> OPEN: Redis has answered about a lock, and hasp
 * asks the other workers; or hasp asks the servers of a quorum.
 *
 * OPEN <--> HANDED: the client's socket was sent to the next hasp, which has not answered yet.
 * If the next hasp takes the client, it is DEAD here.
 *
 * Each other state may lead to FINISHING (the client's last bytes are being sent) and to DEAD
 * (closed, to be freed). STREAMING may also lead to REFUSED: the rest of the request is
 * invalid.
 *
 * Only client_set_state() writes the state. The request for which a client is parked stays at
 * the head of `in`, from the decision to the answer; `current` has the facts about it.
 */
#ifndef HASP_CLIENT_CLIENT_INTERNAL_H
#define HASP_CLIENT_CLIENT_INTERNAL_H

#include "client/client.h"

#include <stdbool.h>

#include "base/fatal.h"
#include "lock/ack/replica_acks.h"
#include "lock/deadlock/deadlock.h"
#include "lock/model/owner.h"
#include "policy/dispatch.h"
#include "quorum/quorum.h"
#include "session/session.h"

#define CLIENT_MAGIC 0x6870u

enum client_state {
	CLIENT_OPEN, /* hasp takes requests as they come */
	CLIENT_STREAMING, /* hasp passes the rest of a request as it comes */
	CLIENT_TUNNEL, /* a replica's byte stream */
	CLIENT_REFUSED, /* hasp drops all further input; replies are due */
	CLIENT_PARKED_REPLY, /* parked until Redis answers `current` */
	CLIENT_PARKED_DEFERRED, /* parked until all awaited replies have come */
	CLIENT_PARKED_LINK, /* parked until the client can use another link */
	CLIENT_PARKED_SPACE, /* parked until the client's link is no longer full */
	CLIENT_PARKED_COMMAND, /* parked until Redis has described an unknown command */
	CLIENT_PARKED_QUEUE, /* parked until hasp can send `current`, which may have to wait */
	CLIENT_PARKED_TURN, /* parked while `current` waits in line for a lock */
	CLIENT_PARKED_ACK, /* parked until replicas have the lock that `current` took */
	CLIENT_PARKED_ROUND, /* parked until the other workers, or a quorum, have answered hasp
	                      * about `current` */
	CLIENT_HANDED, /* hasp has sent the client to the next hasp, and awaits its answer */
	CLIENT_FINISHING, /* hasp still sends the last bytes to the client, and takes no more
	                   * requests */
	CLIENT_DEAD,
};
#define CLIENT_STATES (CLIENT_DEAD + 1)

/* What happens to a request if the client cannot get the link that it waits for. Only route.c
 * writes this field of a client. */
enum next_link {
	NEXT_NONE, /* the request fails */
	NEXT_MAY_BE_BARE, /* if Redis refuses the replay of the client's state, try NEXT_BARE */
	NEXT_BARE, /* take a link of the client's own now, without a replay of its state */
	NEXT_OWN, /* take a link of the client's own, not a shared one */
};

/* The part of a client's question to the other workers that only the client's own worker reads.
 * Each worker in turn has the rest (struct round). */
struct client_asked {
	struct client *client; /* NULL: the client is gone */
	size_t nbytes; /* memory of the question, in bytes */
};

/* The counted memory of a client. A client with less than ACCOUNT_LEAST bytes has none. */
struct client_share {
	struct account_share account;
	struct client *client;
	double read_at; /* env->policy.now when the client last read replies, or had none to
	                 * read; see client_note_reading() */
	uint32_t read_till; /* value of stream.taken at the time `read_at` */
};

/* A client's wait for a link of the pool. The wait lasts until the client gets a shared link,
 * or leaves its present link. */
struct client_link_wait {
	struct pool_waiter waiter;
	struct client *client;
};

struct client {
	uint16_t magic;
	enum client_state state : 8;
	enum next_link next_link : 4;
	enum quorum_act quorum_act : 4; /* what the quorum does for `current`, while
	                                 * CLIENT_PARKED_ROUND */
	uint32_t place; /* index in env->table.places: see client_list.c */
	/* Flags that hasp reads for each request are no bit fields (`: 1`), because a byte is
	 * faster to read than a bit. */
	bool eof; /* the client has ended its side of the connection, so it sends no more */
	bool shared; /* `user` is on a shared link */
	bool bare; /* the client has a link of its own for one command. The link lacks the
	            * client's state, which hasp could not replay there */
	bool transacting : 1; /* MULTI or WATCH was sent over the client's own link, and no
	                       * reply has ended its effect */
	bool altered : 1; /* the client's own link may have state that is not in its login */
	bool link_sticky : 1; /* the client needs its present link, because hasp cannot replay
	                       * its state on another; `pinned` is set, too */
	bool stays : 1; /* the next hasp has refused to take the client */
	bool asks_login : 1; /* before it sends `current`, hasp has asked Redis whether the
	                      * client is logged in */
	bool needs_wait_ping; /* the client wrote on other links, or another client wrote for
	                       * it: WAIT on its present link would not cover these writes */
	bool pinned; /* the client needs a link of its own until RESET, or for ever */
	bool saw_success; /* Redis carried out a request of the client, maybe without a login */
	bool in_error; /* before `saw_success`: the last bytes from Redis belong to an error */
	uint32_t ntransacting; /* counts requests that may begin or end a transaction; the
	                        * present value is the number of the last one */
	uint32_t decided_in; /* env->policy.generation when hasp decided about `current` */
	struct list node; /* in env->clients, env->handed, env->finishing or env->dead */
	struct list turn; /* while CLIENT_PARKED_COMMAND, in env->learning; else in
	                   * env->runnable, or in no list */
	struct client_share *share; /* the client's memory, while hasp counts that; else NULL */
	struct client_env *env;
	struct link_user user; /* the client as the user of a link; at first, of no link */
	struct client_link_wait *link_wait; /* NULL: the client waits for no link */
	struct token *identity; /* owner_identify(); NULL until hasp needs it */
	/* The request at the head of `in` that hasp answers step by step; NULL: there is none.
	 * While the request is in flight, it is also in session.awaited. */
	struct pending_request *current;
	struct waiter *waiter; /* the wait of `current`; NULL: it did not have to wait yet */
	union { /* what `current` waits for, by the client's state; NULL in all other states */
		struct deadlock_watch *deadlock; /* CLIENT_PARKED_TURN; NULL: `current` cannot
		                                  * be part of a deadlock */
		struct replica_ask *ask; /* CLIENT_PARKED_ACK: the question to replicas */
		struct client_asked *asked; /* CLIENT_PARKED_ROUND: the question to other
		                             * workers; NULL: hasp asks a quorum */
	};
	struct buf in; /* bytes that hasp has read from the client and not sent on */
	struct request_scan scan;
	size_t scanned; /* bytes of the first request that `scan` has seen */
	size_t decide_at; /* when `in` has this many bytes of the first request, hasp decides
	                   * again whether to stream the request */
	double own_until; /* ROUTE_LINGERING: env->policy.now until which the client keeps its
	                   * own link */
	double login_from; /* env->policy.now at which the client's time to log in began */
	double since; /* env->policy.now when the client connected */
	double active_at; /* env->policy.now when the client last sent or received bytes */
	struct stream stream;
	struct session session;
	struct context_locks *locks; /* context_locks_none() until the client has locks */
	struct quorum_op *quorum_op; /* the command that a quorum carries out for the client;
	                              * NULL unless CLIENT_PARKED_ROUND */
	uint32_t npipelined; /* commands that arrived before the replies to earlier ones, modulo
	                      * 2^32; counted only if there is a tracker */
	struct tracker_client *watched; /* NULL until the tracker watches the client */
	const char *listener; /* the entry of `listen` that accepted the client */
	/* The client's address in the PROXY header. With TLS but no such header, the peer's
	 * address, which the socket may lose before hasp logs it. NULL: ask the socket. */
	struct sockaddr_storage *behind;
};

/* Returns the client to which a callback's void pointer points. */
static inline struct client *client_of(void *owner)
{
	struct client *c = owner;

	HASP_ASSERT(c->magic == CLIENT_MAGIC);
	return c;
}

/* Returns the client's holds, for a caller that changes them. */
static inline struct hold_owner *client_own_holds(struct client *c)
{
	return &context_locks_own(&c->locks, c)->holds;
}

static inline bool client_is_dead(const struct client *c)
{
	return c->state == CLIENT_DEAD;
}

/* True if the client is closed or about to be: hasp takes no more requests from it. */
static inline bool client_is_ending(const struct client *c)
{
	return c->state == CLIENT_FINISHING || c->state == CLIENT_DEAD;
}

static inline bool client_is_parked(const struct client *c)
{
	return c->state >= CLIENT_PARKED_REPLY && c->state <= CLIENT_PARKED_ROUND;
}

/* --- client.c ----------------------------------------------------------------------------- */

/* The only writer of c->state. Asserts that the diagram in this file allows the change. */
void client_set_state(struct client *c, enum client_state state);
bool client_may_become(enum client_state from, enum client_state to);

/* hasp records a client's activity at most once in this time, in seconds. */
#define ACTIVE_SECONDS 0.01
/* Bytes that a client may send ahead while its command awaits a reply. */
#define AHEAD_MAX ((size_t)64 * 1024)

/* Makes the client the most recently active one. client_mark_active() is cheaper; call this for
 * a client that another hasp handed over or did not take. */
void client_set_active(struct client *c);

/* Records that the client has sent or received bytes, so that it is not idle. */
static inline void client_mark_active(struct client *c)
{
	if (c->env->policy.now - c->active_at >= ACTIVE_SECONDS)
		client_set_active(c);
}

/* True if hasp has no space for more requests: the link is full, or the client is parked and
 * has sent AHEAD_MAX bytes. Unread replies do not count, because a client may first send all
 * its requests, and then read the replies. */
static inline bool client_is_throttled(const struct client *c)
{
	if (client_is_ending(c))
		return false;
	return (c->user.link && link_is_full(c->user.link)) ||
	       (client_is_parked(c) && buf_len(&c->in) >= AHEAD_MAX);
}

/* Stops reading from the client while hasp cannot send its requests; reads again when hasp
 * can. */
void client_steer_reading(struct client *c);

/* Call this when hasp can take no more requests from `in`. If `in` is empty, frees its memory;
 * then reads from the client again. */
void client_read_on(struct client *c);

/* True if hasp can stop reading from the client's link without delaying another client. */
static inline bool client_may_pause_link(const struct client *c)
{
	return c->user.link && (!c->shared || c->user.claimed);
}

/* Stops reading from a link of the client's own while the client leaves replies unread, so that
 * further replies stay in Redis. Does not stop if the client may be waiting for hasp to read
 * its requests. */
void client_steer_link(struct client *c);

/* Bytes of memory kept for the client, without the buffers of a link of its own. */
static inline size_t client_nbytes(const struct client *c)
{
	return buf_cap(&c->in) + buf_cap(&c->stream.out) + session_nbytes(&c->session) +
	       c->locks->holds.nbytes + c->locks->read_set.nbytes +
	       (c->locks->holds.seen ? seen_values_nbytes(c->locks->holds.seen) : 0);
}

/* Sets s->read_at to now if the client has read replies since the last call, or has none to
 * read. Call this at least once a second. */
void client_note_reading(struct client_share *s);

/* True if memory_limit allows `nbytes` more for the client at once: account_admits(). */
static inline bool client_admits(struct client *c, size_t nbytes)
{
	return account_admits(&c->env->account, c->share ? &c->share->account : NULL, nbytes);
}

/* Counts the client's memory again, after it may have grown or shrunk. */
void client_count_memory(struct client *c);
/* Counts the client as using no memory, until the next client_count_memory(). */
void client_uncount_memory(struct client *c);

/* True if the client has a link of its own with requests that Redis has not taken. */
static inline bool client_has_unsent(const struct client *c)
{
	return !c->shared && c->user.link && link_pending(c->user.link);
}

/* Counts the client's memory again if it is, or was, large enough to count. Cheap for nearly
 * every client. */
static inline void client_notice_memory(struct client *c)
{
	if (c->share || client_nbytes(c) >= ACCOUNT_LEAST || client_has_unsent(c))
		client_count_memory(c);
}

/* Ends the client's wait for a link, if there is one, and frees it. */
void client_end_link_wait(struct client *c);

/* Takes the client off its link: a shared link stays open; a link of its own is closed. */
void client_leave_link(struct client *c);

/* Writes the client's address, in at most `n` bytes. */
void client_print_peer(const struct client *c, char *out, size_t n);

/* Parks the client: the request at the head of `in` waits until client_unpark(). `why`: a state
 * CLIENT_PARKED_*. */
void client_park(struct client *c, enum client_state why);
/* Makes a parked client OPEN, and resumes it. */
void client_unpark(struct client *c);

/* As client_unpark(), after the reply for which the client was parked. If `in` is empty, only
 * reads from the client again. */
void client_go_on(struct client *c);

/* Puts the client on env->runnable. Later, clients_run() takes the client's next requests from
 * `in`, or goes on with `current`. Event handlers do not do this themselves, so that no handler
 * is entered again while it runs. If the client's state changes first, it is not resumed. */
void client_resume(struct client *c);

/* True if clients_run() must still resume the client. */
static inline bool client_is_runnable(const struct client *c)
{
	return !list_empty(&c->turn) && c->state != CLIENT_PARKED_COMMAND;
}

/* Ends `current`, which is answered: removes the request from `in`, and goes on with the client
 * (client_go_on()). The caller frees `current`. */
void client_end_current(struct client *c);
/* As client_end_current(), but frees `current`, too. The session, locks and watched keys stay
 * as they are. */
void client_complete_current(struct client *c);

/* True if the decision about `current` is still valid: since then, neither the configuration
 * nor Redis' list of commands has changed. */
bool client_is_decided(const struct client *c);
/* Drops `current`, which is not in flight, and decides about the request again. The waiter
 * stays. */
void client_decide_again(struct client *c);

/* Ends the client's wait for a lock. */
void client_end_wait(struct client *c);

/* True if the client may be quiet for long: it waits for messages, or for replicated writes. */
bool client_is_listener(const struct client *c);

/* True if a reply is due to the client, or on its way. The reply to a request that streams is
 * due when the request has ended. */
bool client_waits_for_answer(const struct client *c);

/* True if the client is between commands that belong together: in a transaction, or between the
 * read and the write of a guarded key. */
bool client_in_critical_section(const struct client *c);
/* Closes the client if it has hung up while its requests wait for the end of a pause, and no
 * reply is due. Returns true if it closed the client. */
bool client_close_if_gone_in_pause(struct client *c);

/* Closes the client at once. clients_reap() frees it. `reason` is for the log. */
void client_close(struct client *c, const char *reason);

/* Closes the client when it has received its last bytes. */
void client_finish(struct client *c, const char *reason);
/* As client_finish(), with `error` as the last answer. Releases the client's locks and guards
 * before the client gets the error. */
void client_finish_with(struct client *c, struct slice error, const char *reason);

/* True if, as far as hasp knows, Redis requires a login, and this client has none. False if
 * Redis admitted the client before it required logins. */
static inline bool client_must_log_in(const struct client *c)
{
	return c->env->node->links.login_required && c->session.login < LOGIN_ADMITTED;
}

/* Logs that the client's encryption failed. Leaves out lines if there are too many. */
void client_log_tls_failure(struct client *c, const char *reason);

/* Sets the facts about the client in `x`. The caller has set the command; the client must have
 * a link for it. policy sets x->opts when it writes a call. */
void client_context(struct client *c, struct context *x);

/* Returns the context of the whole request at the head of `in`, for another decision. Writes
 * the request's arguments to `view`, and its command to `what`. The caller sets the `opts`. */
struct context client_context_again(struct client *c, struct resp_view *view,
                                    struct command_info *what);

/* Sets `opts` for a call that the client sends now, with a new ticket. `eval`: Redis has
 * answered that it lacks the script. */
void client_rewrite_opts(const struct client *c, bool eval, struct rewrite_opts *opts);

/* Closes the client because it exceeds a limit, and logs that. `nbytes`: its memory. */
void client_close_over(struct client *c, enum limit which, size_t nbytes);
/* Checks the bytes of replies that the client has not read. If they exceed the limit, closes
 * the client, and returns false. */
bool client_check_output(struct client *c);

/* --- client_record.c ---------------------------------------------------------------------- */

/* Appends the record of the client, which is at rest. */
void client_record_write(const struct client *c, struct buf *out);

/* Sets the fields of a new client, which is on no link yet, from the record. */
void client_record_apply(const struct resp_view *record, struct client *c);

/* --- drain.c ------------------------------------------------------------------------------ */

/* Lets the client leave if it is at rest. Call this in phase CLIENTS_DRAINING, and again
 * whenever the client has got the last due reply. */
void drain_client(struct client *c);

/* --- route.c ------------------------------------------------------------------------------ */

/* True if the client can use its present link at once. The test is one branch, because it runs
 * for each request. */
static inline bool route_is_usable(const struct client *c)
{
	return c->user.link &&
	       !(c->user.outdated | c->user.waiting | c->bare | c->env->node->held);
}

/* Returns the link that a whole request needs. */
enum route route_for(const struct client *c, const struct context *x);

/* Puts the client on a link that can serve `route`. Returns false while the client awaits
 * replies, while the link logs in, and while the node is frozen. The caller must then park the
 * client as CLIENT_PARKED_LINK, and try again later. */
bool route_take(struct client *c, enum route route);

/* Call this when the client lost its shared link, and had no request in flight. If the client
 * has logged in, asks for another link, whose login shows whether Redis has closed the old link
 * because the user was deleted. */
void route_rejoin(struct client *c);

/* If the client has a link of its own but may share, moves it to a shared link as soon as one
 * is ready. */
void route_return(struct client *c);
/* Call this when a reply shows that Redis keeps neither a transaction nor watched keys for the
 * client. */
void route_end_transaction(struct client *c);
/* Call this when Redis has carried out RESET. */
void route_reset(struct client *c);

/* True if hasp can restore all state of the client's link on another link. */
bool route_is_replayable(const struct client *c);

/* True if a client that lost a link of its own can go on with another one: hasp can replay all
 * the client's state, and waits for servers (failover_wait) or is paused. */
bool route_can_replace(const struct client *c);

/* Call this when the node has moved, so that the client's link may be outdated. If the client's
 * next request can move it to another link, does nothing. Otherwise closes the client as soon
 * as no reply is due and it is in no transaction; until then, route_take() takes requests only
 * in a transaction. */
void route_follow_node(struct client *c);

/* Call this if the link that the client waits for failed. Returns true if another kind of link
 * will do: then call route_take() again. */
bool route_has_another(struct client *c, enum link_end end);

/* --- send.c ------------------------------------------------------------------------------- */

/* A position in a client's input. hasp has taken the requests before the position. */
struct cursor {
	const char *p;
	size_t n;
	size_t from; /* index of the first byte that hasp has not sent on yet */
	size_t at; /* index of the current request's first byte */
	/* The request's command; NULL: requests.c has not looked it up. */
	const struct command_info *found;
	/* The first argument with its section; NULL: requests.c has not looked that up. */
	const struct command_key *key;
};

/* Sends `bytes` over the client's link, which must exist. */
void send_bytes(struct client *c, struct slice bytes);
/* As send_bytes(), for a script call, which keeps Redis busy for longer. */
void send_call(struct client *c, struct slice call);

/* Sends the requests before the cursor that hasp passes and has not sent yet. */
void send_passed(struct client *c, struct cursor *k);
/* Moves the cursor over its request. */
void send_step_over(struct client *c, struct cursor *k);
/* Parks the client. Later, hasp scans the cursor's request again from its beginning. */
void send_put_off(struct client *c, enum client_state why);

/* Announces the coming reply to the link and to the session. */
void send_expect(struct client *c, const struct decision *d);
/* Passes the request. Returns false if the client is parked, because later requests depend on
 * the answer. */
bool send_pass(struct client *c, struct cursor *k, const struct decision *d);
/* Sends env->rewritten in place of the request; nothing waits for its reply. */
void send_replacement(struct client *c, struct cursor *k, const struct decision *d);
/* Counts the command in the metrics, by the decision `d`. */
void send_count(struct client *c, const struct decision *d);

/* --- partial.c ---------------------------------------------------------------------------- */

/* Passes an invalid request up to its fault: Redis answers with a protocol error, and closes.
 * Does not pass later bytes: if Redis saw no fault, it could run unchecked commands. */
void partial_pass_bad(struct client *c, struct cursor *k);
/* Refuses the request with `error`, after the replies that are due, and closes the client. May
 * first park the client, until it can take a link of its own. */
void partial_refuse_long(struct client *c, struct cursor *k, const char *error);
/* True if Redis refuses the request, which is not whole yet. Before a client has logged in,
 * Redis rejects its long requests at their first bytes. */
bool partial_is_refused(const struct client *c);
/* As partial_is_refused(), for a whole request. */
bool partial_is_whole_refused(const struct client *c, const struct resp_view *req,
                              bool is_inline);
/* Cuts the request off, so that Redis refuses it. First asks Redis whether the client is logged
 * in: if an AUTH is in flight, or Redis requires no login any more, Redis would accept the
 * request, and wait for its rest. */
void partial_refuse(struct client *c, struct cursor *k);
/* Handles a request that is not whole. Returns true if it streams from now on; false: wait for
 * more bytes. */
bool partial_stream(struct client *c, struct cursor *k);

/* --- requests.c --------------------------------------------------------------------------- */

/* The longest request that hasp sends over a shared link, in bytes. */
#define REQUESTS_SHARED_MAX ((size_t)64 * 1024)

/* The stream calls this when the client's socket is readable. */
void requests_on_readable(struct stream *s);

/* Takes requests from `in` when the client is no longer parked. */
void requests_resume(struct client *c);

/* --- complete.c --------------------------------------------------------------------------- */

/* Applies `reply`, which answers `r`, and frees `r`. `captured`: all bytes of an EXEC's reply;
 * empty if the reply was too long. */
void complete_request(struct client *c, struct pending_request *r,
                      const struct resp_reply *reply, struct slice captured);

/* Applies `reply` to the locks of `r`, which ran in database `db` (-1: not known). */
void complete_lock(struct client *c, struct pending_request *r, int db,
                   const struct resp_reply *reply);

/* Gives the request's command sample to the tracker, unless an earlier call has done so. */
void complete_watched(struct pending_request *r, int db, const struct resp_reply *reply);

/* Handles an EXEC that took a lock whose lease ended before the reply came: sends the client an
 * error in place of the reply, and undoes the locks. */
void complete_exec_refuse(struct client *c, struct pending_request *exec);

/* --- guard_events.c ----------------------------------------------------------------------- */

struct op_event;
/* Counts and logs how the event affects a guard's owner and its waiters: an error that refuses
 * the command, or the end of the client's wait. */
void guard_events_note(struct client *c, const struct op_event *e);

/* --- holders.c ---------------------------------------------------------------------------- */

/* Write a part of a reply that describes a lock's owner: nil, or a field (a name and a value).
 * An unknown value, or an empty text, is nil. */
void holder_nil(struct buf *out, bool resp3);
void holder_number(struct buf *out, const char *name, bool known, int64_t n, bool resp3);
void holder_text(struct buf *out, const char *name, struct slice text, bool resp3);

/* As link_ops.on_reply(), if `current` is a PENDING_INFO or a PENDING_LIST. If the reply is an
 * error, the link has passed it to the client. */
void holders_info_on_reply(struct client *c, const struct resp_reply *reply,
                           struct slice captured);
void holders_list_on_reply(struct client *c, const struct resp_reply *reply);

/* --- quorum_op.c -------------------------------------------------------------------------- */

/* As holders_info_on_reply(), if `current` is a PENDING_QUORUM. */
void quorum_op_on_reply(struct client *c, const struct resp_reply *reply);

/* --- exchange.c --------------------------------------------------------------------------- */

/* Begins the request x->req by the decision `d`: GUARD, or CALL with a pending request. Returns
 * true if the client is parked. Returns false if an error has answered the request, so that the
 * next one may follow. */
bool exchange_start(struct client *c, struct context *x, const struct decision *d);

/* Continues `current`, for which the client was parked as PARKED_LINK or PARKED_QUEUE. */
void exchange_resume(struct client *c);

/* The client has hung up, or shut down its sending side, before replicas had its lock: releases
 * the lock, and ends the client with an error. */
void exchange_hung_up(struct client *c);

/* As link_ops.on_line() and on_reply(), for `current`. */
bool exchange_on_line(struct client *c, struct slice line);
void exchange_on_reply(struct client *c, const struct resp_reply *reply, struct slice captured);

/* Handles a command of the application's transaction that Redis refused to queue. */
void exchange_refuse_queued(struct client *c);

/* Returns how many replies to `current` are due; 0 if `current` is NULL or not in flight. */
size_t exchange_due(const struct client *c);

/* --- replies.c ---------------------------------------------------------------------------- */

extern const struct link_ops replies_link_ops;
extern const struct pool_ops replies_pool_ops;

/* If the client waits for a link, lets it try again. */
void replies_go_on(struct client *c);

/* The stream calls this when the client's socket has taken all queued bytes. */
void replies_on_drained(struct stream *s);

#endif
