/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session: the state that Redis keeps of a connection and that hasp must know, too: database,
 * user, name, protocol, subscriptions, and the transaction (session/transaction.h). A command
 * changes this state when Redis' reply confirms it, not before. No I/O; the caller applies the
 * meaning of a reply for locks, guards and observed keys.
 *
 * When hasp cannot follow the replies any more (CLIENT REPLY OFF, MONITOR, subscribing inside
 * MULTI, ...) the session turns opaque: replies pass unread, the scripts still enforce the
 * rules, and hasp drops holds and read sets.
 */
#ifndef HASP_SESSION_SESSION_H
#define HASP_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/slice.h"
#include "resp/reply.h"
#include "session/pending.h"
#include "session/transaction.h"

/* Whether Redis serves the connection.
 *
 *   UNKNOWN, REFUSED, ADMITTED: in any order, as Redis answers
 *      `--AUTH was accepted--> DONE --RESET--> UNKNOWN
 */
enum session_login {
	LOGIN_UNKNOWN,
	LOGIN_REFUSED, /* Redis' last reply was that the client must log in */
	LOGIN_ADMITTED, /* Redis serves the connection without a login */
	LOGIN_DONE, /* Redis accepted AUTH, or HELLO with AUTH */
};

/* Whether the link is in the state that struct session describes. After AUTH, the user is
 * certain again; after RESET, all of the state is. */
enum session_certainty {
	SESSION_CERTAIN,
	SESSION_UNCERTAIN, /* a request may or may not have changed the link */
	SESSION_USER_UNCERTAIN, /* as SESSION_UNCERTAIN; besides, hasp does not know the user,
	                         * or did not keep the user's name, which is too long */
};

struct session {
	struct list awaited; /* pending requests in flight, oldest first */
	char **texts; /* indexed by enum login_text; NULL: the client has set none.
	               * session_text() reads them. */
	size_t pending_nbytes; /* memory of all pending requests, in bytes */
	uint32_t nawaited; /* number of requests in `awaited` other than PENDING_NOTICE: later
	                    * requests may depend on their replies */
	uint32_t nsubscribing; /* number of (UN)SUBSCRIBEs in `awaited` */
	struct subscriptions subscriptions;
	enum session_login login : 8; /* only session.c writes `login` and `certainty` */
	enum session_certainty certainty : 8;
	uint8_t proto; /* version of RESP: 2 or 3; 0: not known */
	bool by_hello; /* Redis has accepted a HELLO, so it knows the command HELLO */
	int db; /* number of the database; -1: not known */
	uint32_t login_nbytes; /* memory of `texts`, in bytes */
	bool opaque;
	bool affects_next; /* the client sent CLIENT CACHING, ASKING or the like, which affects
	                    * the next request, so hasp must send no request of its own now */
	bool tracks; /* the client sent CLIENT TRACKING: Redis reports changes of the keys that
	              * are read on the link */
	bool quitting; /* the client sent QUIT: Redis answers no later request */
	struct transaction txn;
};

void session_init(struct session *s);
void session_fini(struct session *s);

static inline bool session_in_multi(const struct session *s)
{
	return transaction_is_open(&s->txn);
}

/* True if Redis keeps queued commands or watched keys for the session. */
static inline bool session_in_transaction(const struct session *s)
{
	return session_in_multi(s) || s->txn.watching;
}

/* Returns the bytes of memory that the session owns. */
static inline size_t session_nbytes(const struct session *s)
{
	return s->pending_nbytes + s->login_nbytes + transaction_nbytes(&s->txn);
}

/* Returns a text that Redis accepted. NULL: the client has set none, or has the default user.
 * After a login, the password is not NULL, but may be empty. */
static inline const char *session_text(const struct session *s, enum login_text which)
{
	return s->texts ? s->texts[which] : NULL;
}

/* Sets a text that another hasp handed over. */
void session_set_text(struct session *s, enum login_text which, struct slice text);

/* Takes ownership of a request that is being sent, and awaits its reply. */
void session_await(struct session *s, struct pending_request *r);
/* Like session_await(), but in a transaction keeps the request until EXEC. */
void session_track(struct session *s, struct pending_request *r);

/* Frees a request whose reply hasp will not see, because the client is opaque. Assumes that
 * Redis accepts a valid name, and a protocol; marks other state that the request may change as
 * unknown. */
void session_assume(struct session *s, struct pending_request *r);

/* Removes a request from `awaited`, if it is there: the request is no longer in flight, or will
 * be sent again. The caller then owns the request. */
void session_withdraw(struct session *s, struct pending_request *r);

/* Ends the transaction, because EXEC is about to be sent. Returns the request that awaits
 * EXEC's reply. NULL: there was no transaction, or the reply changes nothing. */
struct pending_request *session_exec(struct session *s);
/* Like session_exec(), for a session in a transaction. Never returns NULL. */
struct pending_request *session_exec_pending(struct session *s);

/* The session calls this before it applies the reply to a request. For an EXEC, it calls this
 * for each request that EXEC ran, with that request's reply. `db`: the request's database; -1:
 * not known. `frame`: the whole reply; empty: hasp did not capture it. */
typedef void session_done_fn(void *arg, struct pending_request *r, int db,
                             const struct resp_reply *reply, struct slice frame);

/* Applies the reply to an awaited request, and frees the request. `captured`: the reply's
 * bytes, as for EXEC; empty: hasp did not capture the reply, or the reply was too long. */
void session_reply(struct session *s, struct pending_request *r, const struct resp_reply *reply,
                   struct slice captured, session_done_fn *done, void *arg);

/* Frees an awaited request without applying a reply. */
void session_complete(struct session *s, struct pending_request *r);

/* Calls `fn` for each awaited request, and for each request that an awaited EXEC runs. `db`:
 * the database in which Redis runs the request. */
void session_each_awaited(const struct session *s,
                          void (*fn)(void *arg, struct pending_request *r, int db), void *arg);

/* Like session_each_awaited(), for the requests that `exec` has run. Redis has just answered
 * `exec`. */
void session_each_queued(const struct session *s, const struct pending_request *exec,
                         void (*fn)(void *arg, struct pending_request *r, int db), void *arg);

/* True if Redis may take long to answer a request in flight. */
bool session_may_be_blocked(const struct session *s);

/* Handles a frame for link_ops.on_frame(). Returns true for a message or an acknowledgement.
 * `head`: the link's oldest request. Sets *ended to true if `head` has got its last
 * acknowledgement. */
bool session_frame(struct session *s, const struct reply_scan *frame,
                   struct pending_request *head, bool *ended);

/* Returns the database of a command that is sent now, after any SELECT that is queued in the
 * transaction. -1: not known. */
static inline int session_db(const struct session *s)
{
	return transaction_selects(&s->txn) ? s->txn.selected_db : s->db;
}

/* Records whether Redis serves the connection without a login. On a new link, this is unknown.
 * Changes nothing for a client that has logged in. */
void session_set_admission(struct session *s, enum session_login admission);
/* Marks a connection as logged in, because it logged in before another hasp handed it over. The
 * texts of the user and the password must be set. */
void session_set_logged_in(struct session *s);

/* Returns the name of the connection's user; NULL: not known. */
const char *session_user(const struct session *s);

static inline bool session_is_subscribed(const struct session *s)
{
	return s->subscriptions.any;
}

/* True if the connection is subscribed in RESP2: Redis then refuses all commands except those
 * about subscriptions. */
static inline bool session_is_muted(const struct session *s)
{
	return !s->opaque && s->proto == 2 && session_is_subscribed(s);
}

/* Makes the session opaque. The session then awaits no replies, so the effects of requests in
 * flight stay unknown. */
void session_make_opaque(struct session *s);

#endif
