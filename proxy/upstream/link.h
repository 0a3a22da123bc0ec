/* SPDX-License-Identifier: BSD-3-Clause
 *
 * link: one connection to Redis, its users, and the FIFO of requests in flight on it.
 *
 *   user A --\                                  [A pass x 3][B notify][A pass x 1]
 *   user B ---> send, queue -> stream -> Redis     ^ head: the next reply answers this
 *   user C --/                             |
 *                                          v
 *   A, B, C <---- on_bytes(), on_reply() <- reply scan
 *
 * The link knows where a reply ends and which user's request it answers; the users know what
 * the replies mean. The link forwards replies in pieces, as they come, unless the flags of
 * link_expect() change that. A link that must log in sends nothing else before Redis has
 * accepted the login. A private link has one user, which may read bytes instead of replies
 * (link_make_opaque()) or look at every frame (link_watch()); a shared link has any number of
 * users, which come and go. The states of a link are in link_internal.h.
 */
#ifndef HASP_UPSTREAM_LINK_H
#define HASP_UPSTREAM_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/slice.h"
#include "net/dial.h"
#include "net/stream.h"
#include "resp/reply.h"

/* How the link handles a reply; flags of link_expect(). */
enum {
	LINK_PASS = 0, /* only forward the reply */
	LINK_NOTIFY = 1 << 0, /* call on_reply() when the reply is whole */
	LINK_INTERCEPT = 1 << 1, /* hold an error back and call on_line() */
	LINK_INTERCEPT_STATUS = 1 << 5, /* with LINK_INTERCEPT: also hold back a status */
	LINK_CAPTURE = 1 << 2, /* also collect the reply's bytes for on_reply() */
	LINK_DISCARD = 1 << 3, /* do not forward the reply */
	LINK_NOTIFY_EARLY = 1 << 4, /* with LINK_NOTIFY: call on_answered() before the end of
	                             * the reply is forwarded */
	LINK_BEGINS_STREAM =
		1 << 6, /* private links: unless the reply is an error, it begins a stream of
	                 * bytes, and the link turns opaque: see on_stream() */
	LINK_INTERCEPT_LATE = 1 << 7, /* intercept any reply if is_late() returns true */
	LINK_NOTIFY_FIRST = 1 << 11, /* with LINK_NOTIFY: the link may call on_reply() before
	                              * it forwards the reply; on_reply() must send the client
	                              * nothing, and keep the user on the link */
	LINK_PIECES = 1 << 10, /* give the reply's bytes to on_piece(), as they come */
	LINK_PATIENT = 1 << 9, /* a late reply does not mean that the link hangs: Redis waits
	                        * for data or the whole request, or runs a user's script */
};

/* A reply longer than this, in bytes, is not captured. */
#define LINK_CAPTURE_MAX ((size_t)16 * 1024 * 1024)

/* How a link ended. */
enum link_end {
	LINK_UNREACHABLE, /* the link never connected */
	LINK_REFUSED, /* Redis refused the login; the reason is its error, without the dash */
	LINK_BROKEN, /* the connection broke */
	LINK_CUT, /* the connection broke when the user already had a part of a reply */
};
#define LINK_ENDS (LINK_CUT + 1)

/* Returns the state for log_state_pass() of a server whose link ended for `reason`; `logged`:
 * the state that the log has. If a server that was down refuses the login, or TLS fails, the
 * state changes, because the operator must learn of that reason, too. After that the log needs
 * no line for a link that ends for another reason. */
int link_log_state(enum link_end end, const char *reason, int logged);

struct link;
struct link_login;

struct link_ops {
	/* Gets the bytes of replies, in order. */
	void (*on_bytes)(void *owner, struct slice bytes);
	/* Called when a reply with LINK_NOTIFY ended; its bytes have been forwarded.
	 * `captured`: with LINK_CAPTURE, the reply's bytes; empty if over LINK_CAPTURE_MAX. */
	void (*on_reply)(void *owner, void *tag, const struct resp_reply *r,
	                 struct slice captured);
	/* Called when a reply with LINK_NOTIFY_EARLY ended, before on_reply(), and before the
	 * link forwards the last bytes. Must not change the link. May be NULL without
	 * LINK_NOTIFY_EARLY. */
	void (*on_answered)(void *owner, void *tag, const struct resp_reply *r);
	/* Called when a reply with LINK_INTERCEPT_LATE begins: returns true if the reply may be
	 * so late that on_line() must decide about it. May be NULL without
	 * LINK_INTERCEPT_LATE. */
	bool (*is_late)(void *owner, void *tag);
	/* Gets a whole error, or another intercepted reply; empty: it was longer than
	 * LINK_CAPTURE_MAX. Returns true to forward the reply and call on_reply(); false to
	 * drop the reply, because the owner answers the client. May be NULL without
	 * LINK_INTERCEPT. */
	bool (*on_line)(void *owner, void *tag, struct slice line);
	/* Called when link_user_nbytes() has grown, because a reply that is not whole yet was
	 * captured. Must not change the link. May be NULL. */
	void (*on_captured)(void *owner);
	/* Gets the bytes of a reply with LINK_PIECES, in order, before they are forwarded.
	 * `ended`: the reply ends with these bytes. Must not change the link. May be NULL
	 * without LINK_PIECES. */
	void (*on_piece)(void *owner, void *tag, struct slice bytes, bool ended);
	/* For private links: returns true if the frame that ended answers no request (a push, a
	 * message). Called for RESP3 pushes, and for all frames while link_watch() is on. NULL:
	 * all frames are replies. */
	bool (*on_frame)(void *owner, const struct reply_scan *frame);
	/* Called when the link is connected, or is no longer full after link_is_full() was
	 * true for one of its users. May be NULL. */
	void (*on_drained)(void *owner);
	/* Called when the reply to a request with LINK_BEGINS_STREAM begins and is no error:
	 * the link is opaque from now on. May be NULL without LINK_BEGINS_STREAM. */
	void (*on_stream)(void *owner, void *tag);
	/* Called when Redis has accepted the link's login: user.waiting is false now. May be
	 * NULL. */
	void (*on_ready)(void *owner);
	/* Called when no reply is due any more, if user.await_idle was set. May be NULL. */
	void (*on_idle)(void *owner);
	/* Called after the link has ended and has forgotten this user. `inflight`: how many of
	 * the user's requests got no reply. link_close() does not call it. */
	void (*on_down)(void *owner, enum link_end end, const char *reason, size_t inflight);
};

/* One user of a link; embedded in the user's own struct. */
struct link_user {
	const struct link_ops *ops;
	void *owner;
	struct link *link; /* NULL: the user is on no link */
	struct list node; /* in the link's list of users */
	uint32_t inflight; /* number of requests whose reply is due */
	uint32_t discarded; /* during on_down(): number of the user's requests whose replies
	                     * the link would have discarded without a callback */
	uint32_t first_run; /* lower bound of the numbers of the user's runs in the FIFO;
	                     * unused if inflight is 0 */
	bool await_idle; /* call on_idle() once, when inflight is 0 */
	bool outdated; /* the user's link is outdated: see link_set_outdated() */
	bool waiting; /* the user's link is logging in: see on_ready() */
	bool claimed; /* the link is shared, but no other user sends there: see link_claim() */
};

void link_user_init(struct link_user *u, const struct link_ops *ops, void *owner);

enum link_alarm {
	LINK_LOST, /* a link broke, or could not be made */
	LINK_READONLY, /* the server refuses writes, or has reported that it is a replica */
};

enum link_kind {
	LINK_KIND_SHARED, /* a link for several users */
	LINK_KIND_PRIVATE, /* a link for one user */
	LINK_KIND_OWN, /* a link for hasp itself, with one user */
};
#define LINK_KINDS (LINK_KIND_OWN + 1)

/* The environment that the links to one address share. */
struct link_env {
	struct stream_flusher *flusher;
	struct dialer dialer;
	struct tls_resume tls_resume; /* TLS session to resume; dialer.resume points to it */
	double (*clock)(void); /* returns seconds that only go forward, like clock_now() */
	struct address address;
	char *name; /* the address as configured, for messages */
	const char *user, *password; /* login of hasp's own connections; NULL: none */
	/* Whether Redis required a login when it last answered one of hasp's own connections;
	 * and `clock` when hasp asked; 0: no answer yet. */
	bool login_required;
	double login_checked_at;
	char *scratch; /* buffer into which replies are read */
	size_t scratch_size;
	struct list open; /* the open links */
	struct list own_conns; /* hasp's own connections that connect again: own_conn.c */
	size_t nopen[LINK_KINDS]; /* number of open links, by enum link_kind */
	size_t max; /* limit of open links, not counting hasp's own; 0: no limit */
	int64_t links_per_login; /* limit of each login's shared links in the pool; 0: one */
	struct metrics_counter *errors; /* ends of links, by enum link_end; may be NULL */
	struct metrics_counter *over_max; /* counts links that `max` refused; may be NULL */
	struct list dead; /* closed links, which links_reap() frees */
	struct log_limit ends; /* limits the log lines about links that end */
	const char *master; /* the master's name at the sentinels; NULL: no sentinels */
	char *no_server_reason; /* why there is no server; NULL: `address` has one */
	double failover_wait; /* seconds for which a new link retries to connect; 0: never */
	const char *own_name; /* prefix of the names of hasp's own connections; NULL: none */
	/* Connects a new link to a peer in this process, instead of to `address`. The peer
	 * answers by calling link_receive(). `accepted`: the login that link_new_accepted()
	 * got, or NULL. If `connect` is NULL, links connect to `address`. */
	struct stream_peer *(*connect)(struct link_env *env, struct link *l,
	                               const struct link_login *accepted);
	void *inproc_peer; /* the peers' owner, which connect() uses */
	/* Called when a link has connected, so Redis is reachable. May be NULL. */
	void (*on_connected)(struct link_env *env);
	/* Called, any number of times, when the server may be the wrong one. May be NULL. */
	void (*on_alarm)(void *arg, enum link_alarm alarm);
	void *arg;
};

/* Initializes the lists; the caller sets the other fields. */
void links_init(struct link_env *env);
/* True if `max` allows no further link, except for hasp itself. */
bool links_are_at_max(const struct link_env *env);

/* Records whether Redis requires a login. `asked_at`: env->clock() when hasp made the
 * connection on which Redis gave this answer. */
void link_note_login(struct link_env *env, bool required, double asked_at);

/* The login of a link. */
struct link_login {
	int db;
	uint8_t proto; /* version of the protocol: 2 or 3 */
	const char *user; /* user to log in as; NULL: the default user */
	const char *password; /* password of the user; NULL: no AUTH */
	const char *name; /* for CLIENT SETNAME; NULL: none */
	/* For CLIENT SETINFO; NULL: none, or the link is shared. */
	const char *lib_name, *lib_ver;
	bool by_hello; /* send HELLO, because Redis knows it */
	bool probe_noauth; /* no password: check that Redis requires none */
	bool await_first_reply; /* send no user's request until Redis has answered */
};

/* Appends the CLIENT SETINFO requests that the login needs. Returns their number, 0 to 2. */
unsigned link_write_setinfo(struct buf *out, const struct link_login *login);

/* Begins to connect. The caller may send requests at once; they wait for the connection.
 * `login`: NULL: none. If env->max links are open, the link ends as LINK_UNREACHABLE. If there
 * is no server, or the connection breaks before the login, the link retries for
 * env->failover_wait. For LINK_KIND_OWN, env->max does not apply, and the link does not
 * retry. */
struct link *link_new(struct link_env *env, enum link_kind kind,
                      const struct link_login *login);

/* The next six functions are for links to a peer in this process: env->connect. */

/* Makes a link for one user in place of a shared one. Redis has accepted `login` on another
 * connection, so the peer does not check it. */
struct link *link_new_accepted(struct link_env *env, const struct link_login *login);
/* Handles bytes from the peer. */
void link_receive(struct link *l, struct slice bytes);
/* Ends the link, like a broken connection. */
void link_end(struct link *l, const char *reason);
/* Calls on_captured() of the users, because the peer uses more memory. */
void link_peer_grew(struct link *l);
/* Lets the peer read more of the bytes that the link sends. */
void link_peer_ready(struct link *l);
/* Withdraws the last request of a link to a peer. If no node has got the request yet, or the
 * node refuses it, the peer sends it to no other node; the reply, which comes later, is then
 * `error`. That must live as long as the link. Does nothing on other links, because they have
 * sent the request. */
void link_withdraw(struct link *l, struct slice error);

/* Sets how many seconds from now a link that is not connected yet may take to connect, instead
 * of env->failover_wait. */
void link_set_patience(struct link *l, double seconds);
/* Call this when the environment's address or no_server_reason has changed. Links that are not
 * connected and logged in go to the new address. Other links end as LINK_BROKEN with `reason`;
 * if `reason` is NULL, they are outdated instead: see link_set_outdated(). */
void links_follow(struct link_env *env, const char *reason);
/* True if a link that is not outdated leads to a server at none of the addresses `ai`. */
bool links_lead_elsewhere(const struct link_env *env, const struct addrinfo *ai);
/* Closes the connection. Its users leave the link without a callback. NULL is allowed. */
void link_close(struct link *l);
/* Frees the links that were closed since the last call. Call it once per turn of the loop. */
void links_reap(struct link_env *env);

/* Puts a user that is on no link on `l`. A private link takes one user. */
void link_join(struct link *l, struct link_user *u);
/* Takes the user off its link, if any. Due replies are discarded without a callback. */
void link_leave(struct link_user *u);

/* link_send() sends at once; link_queue() sends at the end of the loop's turn. */
void link_send(struct link *l, struct slice bytes);
void link_queue(struct link *l, struct slice bytes);
/* As link_queue(), for script calls. When a few of them are queued, the link sends them before
 * the end of the turn, so that Redis runs them while hasp does other work. */
void link_queue_call(struct link *l, struct slice bytes);
/* Sends a PING and discards its reply. */
void link_ping(struct link *l);
/* Ends the link as if the connection had broken; `reason` is logged. */
void link_fail(struct link *l, const char *reason);
/* Half-closes after all bytes are sent. */
void link_shutdown(struct link *l);
/* Returns how many bytes wait to be sent. */
size_t link_pending(const struct link *l);
/* True if users must send no more until on_drained(), because many bytes wait to be sent. */
bool link_is_full(struct link *l);
/* True if the kernel has bytes of the link that hasp has not read yet. */
bool link_has_input(const struct link *l);
size_t link_users(const struct link *l);
/* Returns how many bytes of memory the link uses for the user; 0: the user is on no link. */
size_t link_user_nbytes(const struct link_user *u);
/* True if Redis has accepted the login, or the link has none. */
bool link_is_ready(const struct link *l);
/* Makes a shared link private. It must have one user, and nothing in flight. */
void link_make_private(struct link *l);
/* True if no reply is due, not even to a user that has left. */
bool link_is_idle(const struct link *l);

/* Sets link_user.outdated of all users: the link leads to a former address, so each user should
 * leave it as soon as possible. */
void link_set_outdated(struct link *l, bool outdated);

bool link_is_outdated(const struct link *l);

/* Records that the user has sent a request: the callbacks for its reply get `tag`. Does nothing
 * after link_make_opaque(). */
void link_expect(struct link_user *u, unsigned flags, void *tag);
/* As link_expect() with LINK_PASS, for `n` requests, at least one. */
void link_expect_plain(struct link_user *u, uint32_t n);
/* Returns the tag of the link's oldest request; NULL: no request, or another user's. */
void *link_head(const struct link_user *u);
/* Discards the reply to the link's oldest request, without a callback. `u` must have sent this
 * request, and the reply must not have begun. */
void link_discard_head(struct link_user *u);
/* Removes the link's oldest request, as if Redis had answered the request. */
void link_drop_head(struct link *l);

/* For private links: on_frame() is called for every frame if `on`, else only for pushes. */
void link_watch(struct link *l, bool on);
/* For private links: from now on, forwards bytes without scanning replies, and forgets requests
 * in flight without a callback. But if the oldest requests have only LINK_DISCARD, the link
 * first awaits and discards their replies. */
void link_make_opaque(struct link *l);
/* For shared links: prepares link_pause() for `u`. If no other user awaits a reply on the link,
 * sets u->claimed and makes the link outdated, so that other users leave before their next
 * request. When `u` leaves the link, the link reads replies again. */
void link_claim(struct link_user *u);
/* For private links, and claimed ones: stop and resume reading replies. */
void link_pause(struct link *l);
void link_resume(struct link *l);

#endif
