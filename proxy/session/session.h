/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session: the state that Redis keeps of a connection and that hasp must know, too: database,
 * user, name, protocol, subscriptions, and the transaction (session/transaction.h). A command
 * changes this state when Redis' reply confirms it, not before. No I/O; the caller applies the
 * meaning of a reply for locks, guards and observed keys.
 *
 * When hasp cannot follow the replies any more (CLIENT REPLY OFF, MONITOR, subscribing inside
 * MULTI
 * ...) the session turns opaque: replies pass unread, the scripts go on enforcing the rules,
 * and hasp drops holds and read sets.
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
 *   UNKNOWN, REFUSED, ADMITTED: each after each other, as Redis answers
 *      `--AUTH was accepted--> DONE --RESET--> UNKNOWN
 */
enum session_login {
	LOGIN_UNKNOWN,
	LOGIN_REFUSED, /* Redis has just answered that the client must log in */
	LOGIN_ADMITTED, /* Redis took the connection without a login */
	LOGIN_DONE, /* AUTH, or HELLO with AUTH, was accepted */
};

struct session {
	struct list awaited; /* pending requests in flight, oldest first */
	char *user; /* NULL: the default user */
	char *password; /* password that Redis accepted for the user, may be empty; NULL: not
	                 * logged in */
	char *name; /* NULL: none */
	char *lib_name, *lib_ver; /* from CLIENT SETINFO; NULL: none */
	size_t login_nbytes; /* bytes of the five strings above */
	size_t pending_nbytes; /* memory of all pending requests */
	uint32_t nawaited; /* how many requests in `awaited` have a reply that may matter */
	uint32_t nsubscribing; /* how many of `awaited` are (UN)SUBSCRIBEs */
	uint32_t subscriptions[SUBSCRIPTION_KINDS];
	enum session_login login : 8; /* session.c writes it */
	int db; /* -1: not known */
	uint8_t proto; /* 2 or 3 */
	bool user_unknown;
	bool uncertain; /* the link may be in another state than is written here */
	bool by_hello; /* HELLO was accepted: Redis knows it */
	bool opaque;
	bool affects_next; /* CLIENT CACHING or ASKING, for example, was sent: Redis applies it
	                    * to the next request, so hasp must send no other before that */
	bool tracks; /* CLIENT TRACKING was sent: Redis reports changes of the keys that are
	              * read on the link */
	bool quitting; /* QUIT was sent: later requests get no answer */
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

/* The memory that the session owns. */
static inline size_t session_nbytes(const struct session *s)
{
	return s->pending_nbytes + s->login_nbytes + transaction_nbytes(&s->txn);
}

/* Counts `login_nbytes` after another room has set its texts. */
void session_count_login(struct session *s);

/* The request is sent, and its reply awaited. Takes it. */
void session_await(struct session *s, struct pending_request *r);
/* Like session_await(), but in a transaction the request is kept until EXEC. */
void session_track(struct session *s, struct pending_request *r);

/* The request is sent while the session is opaque: its reply will not be seen. Frees it. */
void session_assume(struct session *s, struct pending_request *r);

/* An awaited request is not in flight any more, or not yet again; the caller's from now on.
 * Harmless when it was not awaited. */
void session_withdraw(struct session *s, struct pending_request *r);

/* EXEC is about to be sent: ends the transaction. Returns the request to await; NULL when there
 * was none, or its reply changes nothing. */
struct pending_request *session_exec(struct session *s);
/* Like session_exec(), for a session in a transaction. Returns a request even if the reply
 * changes nothing, never NULL. */
struct pending_request *session_exec_pending(struct session *s);

/* Called before a reply is applied: for an awaited request, or for each request that an EXEC
 * ran, with its own reply. `db`: the request's database; -1: not known. `frame`: the whole
 * reply, if it was captured. */
typedef void session_done_fn(void *arg, struct pending_request *r, int db,
                             const struct resp_reply *reply, struct slice frame);

/* The reply for an awaited request. Applies what it says and frees the request. `captured`: the
 * reply, if it was asked for, as an EXEC's; empty if it was too long. */
void session_reply(struct session *s, struct pending_request *r, const struct resp_reply *reply,
                   struct slice captured, session_done_fn *done, void *arg);

/* An awaited request is answered by something that is no reply of its own. Frees it. */
void session_complete(struct session *s, struct pending_request *r);

/* Calls `fn` for each awaited request, and those that an EXEC among them carries out, with the
 * database that they are carried out in. */
void session_each_awaited(const struct session *s,
                          void (*fn)(void *arg, struct pending_request *r, int db), void *arg);

/* Like session_each_awaited(), for the requests that `exec`, which Redis has now answered, has
 * run. */
void session_each_queued(const struct session *s, const struct pending_request *exec,
                         void (*fn)(void *arg, struct pending_request *r, int db), void *arg);

/* True if Redis may take long to answer a request in flight. */
bool session_may_be_blocked(const struct session *s);

/* A frame for link_ops.on_frame(): true when it answers no request by itself. `head` is the
 * request at the link's head; *ended is set when the frame was the last one it waited for. */
bool session_frame(struct session *s, const struct reply_scan *frame,
                   struct pending_request *head, bool *ended);

/* The database of the command that is sent now: in a transaction a SELECT may be queued before
 * it. -1: not known. */
int session_db(const struct session *s);

/* Redis has shown whether it serves the connection without a login, or the connection has
 * another link, of which that is not known. Changes nothing for a client that has logged in. */
void session_set_admission(struct session *s, enum session_login admission);
/* Another hasp has logged the connection in; `user` and `password` are set already. */
void session_set_logged_in(struct session *s);

/* The user that the connection is logged in as; NULL: not known. */
const char *session_user(const struct session *s);

bool session_is_subscribed(const struct session *s);

/* In RESP2, Redis refuses a subscribed connection everything that is not about subscriptions.
 */
static inline bool session_is_muted(const struct session *s)
{
	return !s->opaque && s->proto == 2 && session_is_subscribed(s);
}

/* Nothing is awaited any more; what was in flight leaves its part of the state unknown. */
void session_make_opaque(struct session *s);

#endif
