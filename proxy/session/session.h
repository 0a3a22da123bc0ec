/* SPDX-License-Identifier: BSD-3-Clause
 *
 * session: what Redis knows of a connection and hasp must know too: database, user, name,
 * protocol, MULTI, WATCH, subscriptions. What a command asks for comes true when Redis'
 * reply says so, not before; MULTI and WATCH, which bracket the commands behind them, count
 * from when they are sent. No I/O.
 *
 * When replies cannot be followed any more (CLIENT REPLY OFF, MONITOR, subscribing inside
 * MULTI ...) the session turns opaque: replies pass unseen, rules go on being
 * enforced by the scripts, and the books are kept no longer.
 */
#ifndef HASP_SESSION_SESSION_H
#define HASP_SESSION_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/slice.h"
#include "base/freelist.h"
#include "lock/hold/holds.h"
#include "lock/guard/guard_op.h"
#include "resp/reply.h"
#include "resp/view.h"
#include "upstream/link.h"

enum pending_kind {
	PENDING_SELECT,
	PENDING_AUTH,
	PENDING_HELLO,
	PENDING_NAME,
	PENDING_RESET,
	PENDING_MULTI,
	PENDING_SUBSCRIBE,
	PENDING_EXEC,
	PENDING_LOCK,
	PENDING_PROBE,
	PENDING_GUARD,
	PENDING_NOTICE, /* when it is answered is of interest, and nothing waits for it */
};

enum subscription { SUBSCRIBED_CHANNELS, SUBSCRIBED_PATTERNS, SUBSCRIBED_SHARDS };
#define SUBSCRIPTION_KINDS 3

/* A request whose reply changes something; the link's tag. */
struct pending_request {
	enum pending_kind kind;
	struct list node; /* in session.awaited or in an EXEC's `queued` */
	int db; /* SELECT */
	uint8_t proto; /* HELLO; 0: unchanged */
	char *user; /* AUTH, HELLO; NULL: unchanged; "": the default user */
	char *password; /* with `user` */
	char *name; /* SETNAME, HELLO; NULL: unchanged; "": none */
	enum subscription subscription; /* SUBSCRIBE */
	bool unsubscribe; /* SUBSCRIBE: the opposite */
	bool blocks; /* Redis may keep it, and what is behind it, until there is data */
	size_t acks; /* SUBSCRIBE: still to come; 0: told by what is subscribed */
	size_t index; /* its place in the transaction */
	struct list queued; /* EXEC: the requests that it runs */
	struct pending_lock *pending_lock; /* LOCK; NULL: none */
	struct guard_op *call; /* GUARDED */
	struct observation *observation; /* NULL: none */
	struct buf probe_keys; /* keys of locks to look at, each after its size_t length */
	struct freelist *freelist; /* where its memory goes; NULL: to the heap */
};

/* What becomes of a transaction whose application watches keys of its own. */
enum guards_state {
	GUARDS_UNWATCHED,
	GUARDS_WATCHED, /* those of what it has read are watched since before MULTI */
	GUARDS_LOST, /* one of them was lost */
};

struct session {
	struct list awaited; /* requests in flight */
	char *user; /* NULL: the default user */
	char *password; /* accepted for it, may be empty; NULL: not logged in */
	char *name; /* NULL: none */
	uint32_t nawaited; /* of them, those whose reply something may depend on */
	uint32_t subscriptions[SUBSCRIPTION_KINDS];
	int db; /* -1: not known */
	uint8_t proto; /* 2 or 3 */
	bool user_unknown;
	bool uncertain; /* the link may be in another state than is written here */
	bool logged_in; /* AUTH, or HELLO with AUTH, was accepted */
	bool opaque;
	bool quitting; /* QUIT was sent: whatever is behind it gets no answer */
	bool in_multi;
	bool watching; /* Redis may watch keys for the application */
	bool block_lost; /* those in `block` were too long to be remembered */
	bool block_refused; /* Redis has refused to queue one of them, as far as it answered */
	enum guards_state guards; /* since MULTI */
	uint32_t nqueued; /* commands sent since MULTI */
	uint32_t nblock; /* those in `block` */
	struct list queued; /* those sent since MULTI that change something */
	struct buf block; /* those sent since MULTI, where there are guards */
	struct buf watched; /* keys with a rule, each after its size_t length */
};

void session_init(struct session *s);
void session_fini(struct session *s);

/* A request about to be sent; takes it. In a transaction it is queued, else awaited. */
void session_track(struct session *s, struct pending_request *r);

/* The same while the session is opaque: the reply will not be seen. */
void session_assume(struct session *s, struct pending_request *r);

/* MULTI, EXEC and what else ends a transaction, as they are sent. session_exec() returns the
 * request to await, NULL when the reply changes nothing. */
void session_multi(struct session *s);
struct pending_request *session_exec(struct session *s);
/* The same, and there always is one. In a transaction only. */
struct pending_request *session_exec_awaited(struct session *s);
void session_discard(struct session *s);

void session_watch(struct session *s, struct slice key);
void session_unwatch(struct session *s);
bool session_watches(const struct session *s, struct slice key);

/* The reply for an awaited request. Applies what it says and frees it. `kept`: EXEC's reply,
 * empty if it was too long. */
void session_reply(struct session *s, struct pending_request *r, const struct resp_reply *reply,
                   struct slice kept, struct holds *holds, struct hold_owner *owner);

/* Is there a request in flight that Redis may not answer for long? */
bool session_may_be_blocked(const struct session *s);

/* A frame for link_ops.on_frame(): true when it answers no request by itself. `head` is the
 * request at the link's head; *ended is set when the frame was the last one it waited for. */
bool session_frame(struct session *s, const struct reply_scan *frame,
                   struct pending_request *head, bool *ended);

/* A reply other than an acknowledgement ended a SUBSCRIBE request, or its last one did. */
void session_complete(struct session *s, struct pending_request *r);

/* No more replies will come: what the tries to take a lock that are in flight have taken is
 * undone. */
void session_undo(struct session *s);

/* The user logged in; NULL when that is not known. */
const char *session_user(const struct session *s);

/* As whom a link must log in to serve this session. Points into it. */
struct link_login session_login(const struct session *s);

bool session_is_subscribed(const struct session *s);

/* Nothing is awaited any more; what was in flight leaves its part of the state unknown. */
void session_make_opaque(struct session *s);

struct pending_request *pending_request_new(enum pending_kind kind);
/* The same from, and back to, `spares`, which are of this size and outlive it. */
#define PENDING_REQUEST_SIZE sizeof(struct pending_request)
struct pending_request *pending_request_new_of(struct freelist *freelist,
                                               enum pending_kind kind);
void pending_request_free(struct pending_request *r);

/* A key to look at when the request is answered, or the transaction that it is in. */
void pending_request_probe_key(struct pending_request *r, struct slice key);
/* Calls `fn` with each key of a request that was answered. */
void pending_request_each_probe_key(const struct pending_request *r,
                                    void (*fn)(void *arg, struct slice key), void *arg);

#endif
