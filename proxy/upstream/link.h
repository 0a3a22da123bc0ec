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
 * they mean. The link forwards replies in pieces, as they come, unless the entry in the FIFO
 * says otherwise. A link that must log in sends nothing else before Redis has accepted the
 * login. A private link has one user, which may read bytes instead of replies
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
	LINK_PASS = 0, /* forward it, no more */
	LINK_NOTIFY = 1 << 0, /* call on_reply() when it is whole */
	LINK_INTERCEPT = 1 << 1, /* hold an error back and ask on_line() */
	LINK_INTERCEPT_STATUS = 1 << 5, /* (with LINK_INTERCEPT) a simple string, too */
	LINK_CAPTURE = 1 << 2, /* also collect its bytes for on_reply() */
	LINK_DISCARD = 1 << 3, /* don't forward it */
	LINK_NOTIFY_EARLY = 1 << 4, /* (with LINK_NOTIFY) call on_answered() before the end of
	                             * the reply is forwarded */
	LINK_BEGINS_STREAM =
		1 << 6, /* (private links) unless it is an error, it begins a stream of
	                 * bytes: the link turns opaque by itself, see on_stream() */
	LINK_INTERCEPT_LATE = 1 << 7, /* intercept it, whatever it is, if is_late() says so */
	LINK_NOTIFY_FIRST = 1 << 11, /* (with LINK_NOTIFY) on_reply() may come before its bytes,
	                              * which leave together with the next reply's: it sends the
	                              * user nothing, and does not take it off the link */
	LINK_PIECES = 1 << 10, /* give its bytes to on_piece(), as they come */
	LINK_PATIENT = 1 << 9, /* a late reply does not mean that the link hangs: Redis waits
	                        * for data or the whole request, or runs a user's script */
};

/* A reply longer than this, in bytes, is not captured. */
#define LINK_CAPTURE_MAX ((size_t)16 * 1024 * 1024)

/* How a link ended. */
enum link_end {
	LINK_UNREACHABLE, /* it was never connected */
	LINK_REFUSED, /* Redis refused the login; the reason is its error, without the dash */
	LINK_BROKEN, /* the connection broke */
	LINK_CUT, /* the same, in the middle of a reply of which the user has a part */
};
#define LINK_ENDS (LINK_CUT + 1)

struct link;
struct link_login;

struct link_ops {
	/* Bytes of replies, in order. */
	void (*on_bytes)(void *owner, struct slice bytes);
	/* A reply with LINK_NOTIFY ended; its bytes have been forwarded. `captured`: its bytes,
	 * if LINK_CAPTURE asked for them and they were not more than LINK_CAPTURE_MAX. */
	void (*on_reply)(void *owner, void *tag, const struct resp_reply *r,
	                 struct slice captured);
	/* A reply with LINK_NOTIFY_EARLY ended; on_reply() follows when its bytes have been
	 * forwarded. May do nothing to the link. May be NULL without LINK_NOTIFY_EARLY. */
	void (*on_answered)(void *owner, void *tag, const struct resp_reply *r);
	/* A reply with LINK_INTERCEPT_LATE begins: did it come so late that it is to be
	 * intercepted? It need not be asked, if the reply is: on_line() asks again. May be NULL
	 * when LINK_INTERCEPT_LATE is not used. */
	bool (*is_late)(void *owner, void *tag);
	/* Gets an error, or another intercepted reply, whole; empty: it was longer than
	 * LINK_CAPTURE_MAX. Returns true to forward it and call on_reply(); false to drop it,
	 * because the owner answers the client. May be NULL when LINK_INTERCEPT is not used. */
	bool (*on_line)(void *owner, void *tag, struct slice line);
	/* Bytes were captured, and more will come: link_user_nbytes() has grown. May do nothing
	 * to the link. May be NULL. */
	void (*on_captured)(void *owner);
	/* Bytes of a reply with LINK_PIECES, in order, before they are forwarded. May do
	 * nothing to the link. May be NULL when LINK_PIECES is not used. */
	void (*on_piece)(void *owner, void *tag, struct slice bytes);
	/* Private links: does the frame that just ended answer no request (a push, a message)?
	 * Called for RESP3 pushes, and for all frames while link_watch() is on. NULL: never. */
	bool (*on_frame)(void *owner, const struct reply_scan *frame);
	/* The link is connected; or link_is_full() was true for one of its users, and it is
	 * full no more. May be NULL. */
	void (*on_drained)(void *owner);
	/* The reply to a request with LINK_BEGINS_STREAM is no error: from its first byte on
	 * the link is opaque. May be NULL when LINK_BEGINS_STREAM is not used. */
	void (*on_stream)(void *owner, void *tag);
	/* Redis has accepted the link's login: `waiting` is over. May be NULL. */
	void (*on_ready)(void *owner);
	/* No reply is due any more, and the user had set `await_idle`. May be NULL. */
	void (*on_idle)(void *owner);
	/* The link is gone, and the user not on it any more; `inflight` of its requests are not
	 * answered. Not called by link_close(). */
	void (*on_down)(void *owner, enum link_end end, const char *reason, size_t inflight);
};

/* Embedded in its owner. */
struct link_user {
	const struct link_ops *ops;
	void *owner;
	struct link *link; /* NULL: on none */
	struct list node; /* among the link's users */
	size_t inflight; /* requests whose reply is due */
	size_t discarded; /* during on_down(): those with LINK_DISCARD, not LINK_NOTIFY */
	uint32_t first_run; /* (inflight) none of its runs in the FIFO has a lower number */
	bool await_idle; /* call on_idle() once, when inflight is 0 */
	bool outdated; /* its link is outdated: see link_set_outdated() */
	bool waiting; /* its link logs in: see on_ready() */
	bool claimed; /* its link is shared, but no other user sends there: see link_claim() */
};

void link_user_init(struct link_user *u, const struct link_ops *ops, void *owner);

enum link_alarm {
	LINK_LOST, /* a link broke, or could not be made */
	LINK_READONLY, /* it refuses writes, or has said that it is a replica */
};

enum link_kind {
	LINK_KIND_SHARED, /* of several users */
	LINK_KIND_PRIVATE, /* of one */
	LINK_KIND_OWN, /* of hasp itself */
};
#define LINK_KINDS (LINK_KIND_OWN + 1)

/* Shared by all links of a worker. */
struct link_env {
	struct stream_flusher *flusher;
	struct dialer dialer;
	struct tls_resume tls_resume; /* dialer.resume */
	double (*clock)(void); /* seconds that only go forward, as clock_now() */
	struct address address;
	char *name; /* the address as configured, for messages */
	const char *user, *password; /* for hasp's own connections; NULL: none */
	/* Redis refused a connection without a login, according to its last answer to one of
	 * hasp's own connections, at `login_checked_at` by `clock`; 0: no answer yet. */
	bool login_required;
	double login_checked_at;
	char *scratch; /* replies are read into it */
	size_t scratch_size;
	struct list open; /* links that are not closed */
	size_t nopen[LINK_KINDS]; /* of them, by enum link_kind */
	size_t max; /* of them, hasp's own not counted; 0: no limit */
	struct metrics_counter
		*errors; /* [LINK_ENDS]: counts the ends of links; NULL: not needed */
	struct metrics_counter
		*over_max; /* counts links beyond the maximum; NULL: not needed */
	struct list dead; /* closed links, for links_reap() */
	struct log_limit ends; /* of lines about links that end */
	const char *master; /* its name at the sentinels; NULL: there are none */
	char *no_server_reason; /* why there is no server; NULL: there is one, at `address` */
	double failover_wait; /* seconds for which a new link goes on trying; 0: it does not */
	const char *own_name; /* prefix of the names of hasp's own connections; NULL: none */
	/* Makes the far end of a new link in this process; it answers by link_receive().
	 * `accepted`: of link_new_accepted(), else NULL. NULL: links connect to `address`. */
	struct stream_peer *(*connect)(struct link_env *env, struct link *l,
	                               const struct link_login *accepted);
	void *inproc_peer; /* of connect() */
	/* A link was connected, so Redis is there. May be NULL. */
	void (*on_connected)(void *arg);
	/* The server may be the wrong one by now. Any number of times; may be NULL. */
	void (*on_alarm)(void *arg, enum link_alarm alarm);
	void *arg;
};

/* Sets the lists up; the rest is for the caller to set. */
void links_init(struct link_env *env);

/* Redis was asked, on a connection new at `asked_at`, whether it lets in clients without
 * login. */
void link_note_login(struct link_env *env, bool required, double asked_at);

/* How a link logs in. */
struct link_login {
	int db;
	uint8_t proto; /* 2 or 3 */
	const char *user; /* NULL: the default user */
	const char *password; /* NULL: no AUTH */
	const char *name; /* of CLIENT SETNAME; NULL: none */
	/* For CLIENT SETINFO; NULL: none. A shared link has none: its users' may differ. */
	const char *lib_name, *lib_ver;
	bool by_hello; /* Redis knows HELLO */
	bool probe_noauth; /* without a password: Redis must take the connection as it is */
	bool await_first_reply; /* Redis must answer before anything else is sent */
};

/* Appends the CLIENT SETINFO requests that the login needs. Returns how many: 0 to 2. */
unsigned link_write_setinfo(struct buf *out, const struct link_login *login);

/* Begins to connect; requests may be sent at once and wait for it. `login`: NULL for none.
 * Beyond the environment's `max` the link comes out as LINK_UNREACHABLE. If it cannot connect,
 * or log in, because there is no server, or the connection breaks, it goes on trying for
 * env->failover_wait. */
struct link *link_new(struct link_env *env, bool shared, const struct link_login *login);
/* Makes a link of hasp's own: it does not count, is never refused, and connects once. */
struct link *link_new_own(struct link_env *env, bool shared, const struct link_login *login);
/* (env->connect) A link for one user that stands for a shared one: its far end knows that
 * `login` was accepted, and sees to it that it is in force. */
struct link *link_new_accepted(struct link_env *env, const struct link_login *login);
/* (env->connect) The far end sends bytes; it ends the link, as if a connection had broken. */
void link_receive(struct link *l, struct slice bytes);
void link_end(struct link *l, const char *reason);
/* (env->connect) The far end keeps more for its users, who count it (on_captured()). */
void link_peer_grew(struct link *l);
/* (env->connect) The far end takes more of what was sent. */
void link_peer_ready(struct link *l);
/* (env->connect) The answer to what was sent last is not worth being waited for any more: if
 * the far end has it yet, and no server has, `error`, a line, is its answer. So it is if a
 * server has it, and refuses it so that it would be sent again. The answer comes later; `error`
 * lives as long as the link. Does nothing on other links, for there it is on its way. */
void link_withdraw(struct link *l, struct slice error);
/* Sets how many seconds from now a link that is not connected yet may take to connect, instead
 * of env->failover_wait. */
void link_set_patience(struct link *l, double seconds);
/* The environment's address is another one now, or there is none, or one at last. Links that
 * are not connected and logged in go there. Others end as LINK_BROKEN with `reason`; or, for
 * NULL, are outdated: see link_set_outdated(). */
void links_follow(struct link_env *env, const char *reason);
/* Does one of the links lead to a server that is not among these addresses? */
bool links_lead_elsewhere(const struct link_env *env, const struct addrinfo *ai);
/* Closes the connection; its users are on it no more, and get no callback. NULL is allowed. */
void link_close(struct link *l);
/* Frees the links that were closed since the last call. Once per turn of the loop. */
void links_reap(struct link_env *env);

/* The user must be on no link. A private link takes one user. */
void link_join(struct link *l, struct link_user *u);
/* Replies that are still due are discarded, without a callback. Harmless on no link. */
void link_leave(struct link_user *u);

/* Sends now; or at the end of the loop's turn, in one piece with what else is queued. */
void link_send(struct link *l, struct slice bytes);
void link_queue(struct link *l, struct slice bytes);
/* As link_queue(), for script calls, which keep Redis busy: when a few of them are queued, the
 * link sends them before the end of the turn, so that Redis starts to work. */
void link_queue_call(struct link *l, struct slice bytes);
/* Sends a PING and discards its reply. */
void link_ping(struct link *l);
/* The link ends, as if the connection had broken, for a reason that is logged. */
void link_fail(struct link *l, const char *reason);
/* Half-closes when all is sent. */
void link_shutdown(struct link *l);
/* Bytes that wait to be sent. */
size_t link_pending(const struct link *l);
/* True if so much waits to be sent that users must send no more until on_drained(). */
bool link_is_full(struct link *l);
/* Something has come that was not read yet. Asks the kernel. */
bool link_has_input(const struct link *l);
size_t link_users(const struct link *l);
/* Memory that the link keeps for the user: all of a private link's. 0: on no link. */
size_t link_user_nbytes(const struct link_user *u);
/* Redis has accepted the login, if there is one. */
bool link_is_ready(const struct link *l);
/* A shared link is private from now on; it must have one user, and nothing in flight. */
void link_make_private(struct link *l);
/* No reply is due to any user, nor to one that has left. */
bool link_is_idle(const struct link *l);

/* The address changed, and the link leads to the old one: each user should leave it
 * as soon as it can. Shown to them in link_user.outdated. */
void link_set_outdated(struct link *l, bool outdated);

bool link_is_outdated(const struct link *l);

/* One more reply will come to the user; `tag` comes back with it in the callbacks. Ignored once
 * link_make_opaque() was called. */
void link_expect(struct link_user *u, unsigned flags, void *tag);
/* `n` more, all LINK_PASS. */
void link_expect_plain(struct link_user *u, uint32_t n);
/* The tag of the link's oldest request in flight; NULL: none, or another user's. */
void *link_head(const struct link_user *u);
/* Discards the reply to the oldest request in flight, without a callback. That request must be
 * the user's, and its reply not have begun. */
void link_discard_head(struct link_user *u);
/* Takes the oldest request off, as if it were answered. */
void link_drop_head(struct link *l);

/* Private links: ask on_frame() about every frame, or only about pushes. */
void link_watch(struct link *l, bool on);
/* Private links: from here on replies are not scanned: bytes are forwarded as they are, and
 * requests in flight are forgotten without a callback. Requests with LINK_DISCARD alone must be
 * the oldest; their replies are waited for. */
void link_make_opaque(struct link *l);
/* Shared links: `u` wants to pause the link. If no other user awaits a reply there, the link
 * turns outdated, so that the others leave it before their next request, and u->claimed is set.
 * When `u` leaves the link, its replies are read again. */
void link_claim(struct link_user *u);
/* Private links, and claimed ones: stop and go on reading replies. */
void link_pause(struct link *l);
void link_resume(struct link *l);

#endif
