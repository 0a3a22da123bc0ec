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
 *      |--its link is full-------------------> PARKED_SPACE --it is no more------|
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
#include "policy/quorum_rule.h"
#include "quorum/quorum.h"
#include "session/session.h"

#define CLIENT_MAGIC 0x6870u

enum client_state {
	CLIENT_OPEN, /* requests are taken as they come */
	CLIENT_STREAMING, /* hasp passes the rest of a request as it comes */
	CLIENT_TUNNEL, /* a replica's byte stream */
	CLIENT_REFUSED, /* hasp drops all further input; replies are due */
	CLIENT_PARKED_REPLY, /* until `current`, which was sent, is answered */
	CLIENT_PARKED_DEFERRED, /* until all awaited replies have come */
	CLIENT_PARKED_LINK, /* until no reply is due: then the client can change its link */
	CLIENT_PARKED_SPACE, /* until the client's link is no longer full */
	CLIENT_PARKED_COMMAND, /* until Redis has described the command, which hasp does not
	                        * know */
	CLIENT_PARKED_QUEUE, /* until `current`, which may have to wait in line, can be sent */
	CLIENT_PARKED_TURN, /* `current` waits in line for a lock */
	CLIENT_PARKED_ACK, /* `current` took a lock that replicas must have before it goes on */
	CLIENT_PARKED_ROUND, /* until the other workers, or a quorum, have answered hasp about
	                      * `current` */
	CLIENT_HANDED, /* hasp has sent the client to the next hasp, which has not answered yet
	                */
	CLIENT_FINISHING, /* hasp still sends the last bytes to the client, and takes no more
	                   * requests */
	CLIENT_DEAD,
};
#define CLIENT_STATES (CLIENT_DEAD + 1)

/* What happens to a request if the client cannot get the link that it waits for. Only route.c
 * writes it. */
enum next_link {
	NEXT_NONE, /* the request fails */
	NEXT_MAY_BE_BARE, /* a link of its own will do, without a replay of the state */
	NEXT_BARE, /* take a link of its own now, without a replay */
	NEXT_OWN, /* take a link of its own, not a shared one */
};

/* A client's question to the other workers: the part that its own worker may read. The rest
 * travels from worker to worker. */
struct client_asked {
	struct client *client; /* NULL: the client is gone */
	size_t nbytes; /* memory of the question, in bytes */
};

/* The counted memory of a client. A client with less than ACCOUNT_LEAST bytes has none. */
struct client_share {
	struct account_share account;
	struct client *client;
	double read_at; /* client_note_reading(): env->policy.now when the client last read
	                 * replies, or had none */
	uint32_t read_till; /* stream.taken at `read_at` */
};

/* A client's wait for a link of the pool. It lasts until the client gets a shared link, or
 * leaves the link that it has. */
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
	/* hasp reads the flags without `: 1` for each request: a byte is read faster than a
	 * bit. */
	bool eof; /* the client sends no more */
	bool shared; /* the link that `user` is on is shared */
	bool bare; /* the client has a link of its own for one command, because its state could
	            * not be replayed there */
	bool transacting : 1; /* MULTI or WATCH was sent over the client's own link, and no
	                       * reply has ended its effect */
	bool altered : 1; /* the client's own link may be in another state than its login
	                   * describes */
	bool link_sticky : 1; /* `pinned`, and the client needs the present link: its state
	                       * there cannot be replayed on another */
	bool stays : 1; /* the next hasp does not take the client */
	bool asks_login : 1; /* before it sends `current`, hasp has asked Redis whether the
	                      * client is logged in */
	bool needs_wait_ping; /* the client wrote on other links, or another client wrote for
	                       * it: WAIT on its present link would not cover that */
	bool pinned; /* the client needs a link of its own until RESET, or for ever */
	bool saw_success; /* Redis carried out a request of the client, maybe without a login */
	bool in_error; /* (not `saw_success`) the last bytes from Redis are part of an error */
	uint32_t ntransacting; /* number of the last request that may begin or end a
	                        * transaction */
	uint32_t decided_in; /* env->policy.generation when hasp decided about `current` */
	struct list node; /* in env->clients, env->handed, env->finishing or env->dead */
	struct list turn; /* in env->learning, while CLIENT_PARKED_COMMAND; else in
	                   * env->runnable or in none: see client_resume() */
	struct client_share *share; /* client_count_memory(); NULL: hasp does not count the
	                             * client's memory */
	struct client_env *env;
	struct link_user user; /* on no link before the first request */
	struct client_link_wait *link_wait; /* NULL: none, so the client waits for no link */
	struct owner_identity *identity; /* NULL until it is needed */
	/* The request at the head of `in` that is answered step by step; NULL: none. Once it
	 * is sent, it is also in session.awaited. */
	struct pending_request *current;
	struct waiter *waiter; /* for `current`; NULL: it did not have to wait yet */
	union { /* what `current` waits for; NULL in states other than these */
		struct deadlock_watch *deadlock; /* CLIENT_PARKED_TURN; NULL: `current` can
		                                  * be in no deadlock */
		struct replica_ask *ask; /* CLIENT_PARKED_ACK */
		struct client_asked *asked; /* CLIENT_PARKED_ROUND: the question to other
		                             * workers; NULL: to a quorum */
	};
	struct buf in; /* bytes read and not sent on */
	struct request_scan scan;
	size_t scanned; /* bytes of the first request that `scan` has seen */
	size_t decide_at; /* if `in` has this many bytes of that request, hasp decides again
	                   * whether to stream it */
	double own_until; /* env->policy.now until which the client keeps its own link:
	                   * ROUTE_LINGERING */
	double login_from; /* env->policy.now from which the client could log in */
	double since; /* env->policy.now when the client connected */
	double active_at; /* env->policy.now when the client last sent or received bytes */
	struct stream stream;
	struct session session;
	struct context_locks *locks; /* context_locks_none() until it has any */
	struct quorum_op *quorum_op; /* the command that a quorum carries out, while
	                              * CLIENT_PARKED_ROUND; else NULL */
	struct tracker_client *watched; /* NULL until the tracker watches the client */
	const char *listener; /* the entry of `listen` that accepted the client */
	/* The client's address by the PROXY header, or, with TLS, the peer's, which the socket
	 * may lose before TLS fails. NULL: ask the socket. */
	struct sockaddr_storage *behind;
};

/* Returns the client that a callback's void pointer means. */
static inline struct client *client_of(void *owner)
{
	struct client *c = owner;

	HASP_ASSERT(c->magic == CLIENT_MAGIC);
	return c;
}

/* Returns the client's holds, to be changed. */
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

/* The only writer of c->state. Asserts that the diagram above allows the change. */
void client_set_state(struct client *c, enum client_state state);
bool client_may_become(enum client_state from, enum client_state to);

/* An activity that follows the last one within this time, in seconds, is not recorded. */
#define ACTIVE_SECONDS 0.01
/* Bytes that a client may send ahead while its command awaits a reply. */
#define AHEAD_MAX ((size_t)64 * 1024)

/* Makes the client the most recently active one. For client_mark_active(), and for a client
 * that another hasp handed over or did not take. */
void client_set_active(struct client *c);

/* Records that bytes were read or written: the client is not idle. */
static inline void client_mark_active(struct client *c)
{
	if (c->env->policy.now - c->active_at >= ACTIVE_SECONDS)
		client_set_active(c);
}

/* True if there is no space for more requests: the link is full, or the client is parked and
 * has sent enough. Unread replies are no reason: as with Redis, a client may read them after it
 * has sent all its requests. */
static inline bool client_is_throttled(const struct client *c)
{
	if (client_is_ending(c))
		return false;
	return (c->user.link && link_is_full(c->user.link)) ||
	       (client_is_parked(c) && buf_len(&c->in) >= AHEAD_MAX);
}

/* Stops reading from the client while its requests cannot be sent; reads again when they
 * can. */
void client_steer_reading(struct client *c);

/* Call this when no more requests can be taken from `in` now: gives the buffer back if it is
 * empty, and reads from the client again. */
void client_read_on(struct client *c);

/* True if hasp can stop reading from the client's link without delaying another client. */
static inline bool client_may_pause_link(const struct client *c)
{
	return c->user.link && (!c->shared || c->user.claimed);
}

/* Stops reading from a link of the client's own while the client leaves replies unread, so
 * that they stay in Redis; but goes on if the client may be waiting for hasp to read its
 * requests. */
void client_steer_link(struct client *c);

/* Bytes of memory kept for the client, without the buffers of a link of its own. */
static inline size_t client_nbytes(const struct client *c)
{
	return buf_cap(&c->in) + buf_cap(&c->stream.out) + session_nbytes(&c->session) +
	       c->locks->holds.nbytes + c->locks->read_set.nbytes +
	       (c->locks->holds.seen ? seen_values_nbytes(c->locks->holds.seen) : 0);
}

/* Notes in s->read_at if the client has read replies since the last call, or has none to read.
 * Call it at least once a second. */
void client_note_reading(struct client_share *s);

/* True if the client may take `nbytes` more at once: account_admits(). */
static inline bool client_admits(struct client *c, size_t nbytes)
{
	return account_admits(&c->env->account, c->share ? &c->share->account : NULL, nbytes);
}

/* Counts the client's memory again, after it may have grown or shrunk. */
void client_count_memory(struct client *c);
/* Counts no memory of the client until client_count_memory(). */
void client_uncount_memory(struct client *c);

/* True if the client has a link of its own with requests that Redis has not taken. */
static inline bool client_has_unsent(const struct client *c)
{
	return !c->shared && c->user.link && link_pending(c->user.link);
}

/* Counts the client's memory again if it uses, or used, enough to matter. Cheap for nearly
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

/* Parks the client: the request at the head of `in` waits until client_unpark(). `why`: one of
 * CLIENT_PARKED_*. */
void client_park(struct client *c, enum client_state why);
/* Call this when the reason for parking is gone: the client becomes OPEN, and resumes. */
void client_unpark(struct client *c);

/* As client_unpark(), after the reply that the client was parked for: if `in` is empty, only
 * reads on. */
void client_go_on(struct client *c);

/* Puts the client on env->runnable. clients_run() takes the client's next requests from `in`, or
 * goes on with `current`. No event handler does that itself, so none is entered again while it
 * runs. A client whose state changes first is not resumed. */
void client_resume(struct client *c);

/* True if clients_run() has still to resume the client. */
static inline bool client_is_runnable(const struct client *c)
{
	return !list_empty(&c->turn) && c->state != CLIENT_PARKED_COMMAND;
}

/* Ends `current`, which was answered: removes the request from `in` and resumes the client; if
 * no input is left, only reads on. The caller frees `current`. */
void client_end_current(struct client *c);
/* As client_end_current(), but frees `current`, too. The session, locks and watched keys stay
 * as they are. */
void client_complete_current(struct client *c);

/* True if the decision about `current` is still valid: neither the configuration nor Redis'
 * list of commands has changed since. */
bool client_is_decided(const struct client *c);
/* Drops `current`, which is not in flight, and decides about the request again. Its waiter
 * stays. */
void client_decide_again(struct client *c);

/* Ends the client's wait for a lock. */
void client_end_wait(struct client *c);

/* True if the client is quiet by nature: it waits for messages, or for replicated writes. */
bool client_is_listener(const struct client *c);

/* True if a reply is due to the client, or on its way. The reply to a request that streams is
 * due when the request has ended. */
bool client_waits_for_answer(const struct client *c);

/* True if the client is between commands that belong together: in a transaction, or between the
 * read of a guarded key, for which it may have waited, and the write. */
bool client_in_critical_section(const struct client *c);

/* Closes the client at once. clients_reap() frees it. `reason` is for the log. */
void client_close(struct client *c, const char *reason);

/* Closes the client when it has received its last bytes. */
void client_finish(struct client *c, const char *reason);
/* As client_finish(), with `error` as the last answer. The client's locks and guards are
 * released before the client gets the error. */
void client_finish_with(struct client *c, struct slice error, const char *reason);

/* True if Redis is known to refuse clients that have not logged in, this client has not, and
 * Redis did not admit it when no login was required. */
static inline bool client_must_log_in(const struct client *c)
{
	return c->env->node->links.login_required && c->session.login < LOGIN_ADMITTED;
}

/* Logs that the client's encryption failed, within a limit. */
void client_log_tls_failure(struct client *c, const char *reason);

/* Sets the facts about the client, when it has the link for the command. The caller has set the
 * command, and policy sets x->opts with a call. */
void client_context(struct client *c, struct context *x);

/* Returns the context for the whole request at the head of `in`, to decide about it again.
 * Writes its arguments to `view`, and its command to `what`. The caller sets x.opts. */
struct context client_context_again(struct client *c, struct resp_view *view,
                                    struct command_info *what);

/* Writes to `opts` the form of a call that the client sends now, with a new ticket. `eval`:
 * Redis is known to lack its script. */
void client_rewrite_opts(const struct client *c, bool eval, struct rewrite_opts *opts);

/* Closes the client because it exceeds a limit, and logs why. `nbytes`: memory that it uses. */
void client_close_over(struct client *c, enum limit which, size_t nbytes);
/* Checks the client's unread replies. Returns false if they exceeded the limit: the client is
 * closed. */
bool client_check_output(struct client *c);

/* --- client_record.c ---------------------------------------------------------------------- */

/* Appends the record of the client, which is at rest. */
void client_record_write(const struct client *c, struct buf *out);

/* Sets the fields of a new client, which is on no link, from the record. */
void client_record_apply(const struct resp_view *record, struct client *c);

/* --- drain.c ------------------------------------------------------------------------------ */

/* Lets the client leave if it is at rest; otherwise hasp calls this again when the client has
 * got the last due reply. Only in phase CLIENTS_DRAINING. */
void drain_client(struct client *c);

/* --- route.c ------------------------------------------------------------------------------ */

/* True if the client is on a link that it need neither leave nor wait for. In one branch,
 * because this runs for each request. */
static inline bool route_is_usable(const struct client *c)
{
	return c->user.link &&
	       !(c->user.outdated | c->user.waiting | c->bare | c->env->node->held);
}

/* Returns the link that a whole request needs. */
enum route route_for(const struct client *c, const struct context *x);

/* Puts the client on a link that can serve `route`. Returns false while the client awaits
 * replies, while the link logs in, and while node_freeze() stops the node's requests: then park
 * the client as CLIENT_PARKED_LINK, and take its request again later. */
bool route_take(struct client *c, enum route route);

/* Call this when the client lost its shared link while it had nothing in flight: asks for
 * another link. The new link must log in, since Redis may have closed the old one because the
 * user was deleted. */
void route_rejoin(struct client *c);

/* Moves the client from a link of its own to a shared one, as soon as one is ready, if the
 * client may share. */
void route_return(struct client *c);
/* Call this when a reply shows that Redis keeps neither a transaction nor watched keys for the
 * client. */
void route_end_transaction(struct client *c);
/* Call this when Redis has carried out RESET. */
void route_reset(struct client *c);

/* True if another link, which logs in as the client did, would serve the client as well. */
bool route_is_replayable(const struct client *c);

/* True if a client that lost a link of its own can go on with another one: all its state there
 * can be replayed, and hasp waits for servers, or is paused. */
bool route_can_replace(const struct client *c);

/* Call this when the node has moved: the client's link may be outdated, though it has not
 * ended. If the client's next request cannot move it to another link, closes the client as soon
 * as no reply is due and it is in no transaction. Until then, route_take() takes no request of
 * a client outside of a transaction. */
void route_follow_node(struct client *c);

/* Call this if the link that the client waits for failed. True: another kind of link will do,
 * so call route_take() again. */
bool route_has_another(struct client *c, enum link_end end);

/* --- send.c ------------------------------------------------------------------------------- */

/* A position in the input; the requests before it were taken. */
struct cursor {
	const char *p;
	size_t n;
	size_t from; /* first byte not yet sent on */
	size_t at; /* begin of the current request */
	/* The request's command, if requests.c has found it. */
	const struct command_info *found;
	/* The first argument with its section; NULL: requests.c has not searched that. */
	const struct command_key *key;
};

/* Sends `bytes` over the client's link, which must exist. */
void send_bytes(struct client *c, struct slice bytes);
/* As send_bytes(), for a script call, which keeps Redis busy for longer. */
void send_call(struct client *c, struct slice call);

/* Sends the passed requests up to the cursor that were not sent yet. */
void send_passed(struct client *c, struct cursor *k);
/* Moves the cursor over its request. */
void send_step_over(struct client *c, struct cursor *k);
/* Parks the client; the cursor's request will be scanned again from its beginning. */
void send_put_off(struct client *c, enum client_state why);

/* Announces the coming reply to the link and to the session. */
void send_expect(struct client *c, const struct decision *d);
/* Passes the request. False: the client is parked, because later requests depend on the
 * answer. */
bool send_pass(struct client *c, struct cursor *k, const struct decision *d);
/* Sends env->rewritten in place of the request; nothing waits for its reply. */
void send_replacement(struct client *c, struct cursor *k, const struct decision *d);
/* Counts the command by the decision about it. */
void send_count(struct client *c, const struct decision *d);

/* --- partial.c ---------------------------------------------------------------------------- */

/* Passes a request up to its fault: Redis answers it with a protocol error, and closes. Redis
 * must not get the bytes after it, in case it sees no fault there. */
void partial_pass_bad(struct client *c, struct cursor *k);
/* Refuses the request with an error of hasp's, after the replies that are due, and closes. May
 * park the client first, until it can take a link of its own. */
void partial_refuse_long(struct client *c, struct cursor *k, const char *error);
/* True if Redis refuses the request, which is not whole yet. Redis rejects long requests of a
 * client that has not logged in at their first bytes. */
bool partial_is_refused(const struct client *c);
/* Cuts the request off, but asks Redis first whether the client is logged in: an AUTH may be in
 * flight, or Redis may have lost its password. Then Redis would accept the request, and wait
 * for its rest. */
void partial_refuse(struct client *c, struct cursor *k);
/* Handles a request that is not whole. True: it streams from here; false: wait for more. */
bool partial_stream(struct client *c, struct cursor *k);

/* --- requests.c --------------------------------------------------------------------------- */

/* The longest request that hasp sends over a shared link, in bytes. */
#define REQUESTS_SHARED_MAX ((size_t)64 * 1024)

/* Called when the client's socket is readable. */
void requests_on_readable(struct stream *s);

/* Takes requests from `in` when the client is no longer parked. */
void requests_resume(struct client *c);

/* --- complete.c --------------------------------------------------------------------------- */

/* Applies `reply`, which answers `r`, and frees `r`. `captured`: an EXEC's reply, empty if it
 * was too long. */
void complete_request(struct client *c, struct pending_request *r,
                      const struct resp_reply *reply, struct slice captured);

/* As complete_request(), for a call on a lock: it changes nothing of the session. */
void complete_lock(struct client *c, struct pending_request *r, const struct resp_reply *reply);

/* Gives the watched part of the request to the tracker at once, and only once. */
void complete_watched(struct pending_request *r, int db, const struct resp_reply *reply);

/* Refuses an EXEC that Redis carried out, because a lease of its locks has ended: sends the
 * client an error in place of the reply, and undoes the locks. */
void complete_exec_refuse(struct client *c, struct pending_request *exec);

/* --- guard_events.c ----------------------------------------------------------------------- */

/* Records that the error `line` refused the command `current`. Ignores errors that are not
 * about guards. */
void guard_events_refused(struct client *c, struct slice line);
/* Records that the client joins the line for a guard. Call this before its place is known. */
void guard_events_queued(struct client *c);
/* Record how the client's wait for a guard ended: with the guard, or by a time-out. */
void guard_events_granted(struct client *c);
void guard_events_timed_out(struct client *c);
/* Records that the client's wait was part of a deadlock. */
void guard_events_deadlock(struct client *c);

/* --- holders.c ---------------------------------------------------------------------------- */

/* Write a field of a reply that describes a lock's owner: a name and a value, as RESP has them
 * in a flat array and in a map. An unknown value, or an empty text, is nil. */
void holder_nil(struct buf *out, bool resp3);
void holder_number(struct buf *out, const char *name, bool known, int64_t n, bool resp3);
void holder_text(struct buf *out, const char *name, struct slice text, bool resp3);

/* As link_ops.on_reply(), for `current`, which is a PENDING_INFO, or a PENDING_LIST. If the
 * reply is an error, the client has got it. */
void holders_info_on_reply(struct client *c, const struct resp_reply *reply,
                           struct slice captured);
void holders_list_on_reply(struct client *c, const struct resp_reply *reply);

/* --- quorum_op.c -------------------------------------------------------------------------- */

/* As holders_info_on_reply(), for a PENDING_QUORUM. */
void quorum_op_on_reply(struct client *c, const struct resp_reply *reply);

/* --- exchange.c --------------------------------------------------------------------------- */

/* Begins the request x->req, about which `d` was decided: CALL, with a pending request, or
 * GUARD. True: the client is parked. False: it was answered by an error, and the next one may
 * follow. */
bool exchange_start(struct client *c, struct context *x, const struct decision *d);

/* Continues the request for which the client was parked, for another link or for the queue. */
void exchange_resume(struct client *c);

/* As link_ops.on_line() and on_reply(), for `current`. */
bool exchange_on_line(struct client *c, struct slice line);
/* Implements link_ops.is_late() for `current`, if it is a call on a lock. */
bool exchange_is_late(const struct client *c);
void exchange_on_reply(struct client *c, const struct resp_reply *reply, struct slice captured);

/* Handles a command of the application's transaction that Redis refused to queue. */
void exchange_refuse_queued(struct client *c);
/* True if the client gets the reply to `current`, a guarded EXEC, unchanged. */
bool exchange_forwards(const struct client *c);

/* Returns how many replies to `current` are due; 0 if it is not in flight, or NULL. */
size_t exchange_due(const struct client *c);

/* --- replies.c ---------------------------------------------------------------------------- */

extern const struct link_ops replies_link_ops;
extern const struct pool_ops replies_pool_ops;

/* Lets a client that waits for a link try again. Does nothing for other clients. */
void replies_go_on(struct client *c);

/* Called when the client's socket has taken all queued bytes. */
void replies_on_drained(struct stream *s);

#endif
