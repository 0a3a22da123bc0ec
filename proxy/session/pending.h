/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pending: a request in flight whose reply changes the session, or needs an action of hasp's.
 * The struct is the tag of the request on its link. Requests that hasp only passes have none.
 */
#ifndef HASP_SESSION_PENDING_H
#define HASP_SESSION_PENDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/freelist.h"
#include "base/list.h"
#include "base/slice.h"
#include "commands/subscriptions.h"

struct checked_read;
struct guard_op;
struct lock_request;
struct command_sample;
struct value_read;

enum pending_kind {
	/* Requests that change the state of their link: */
	PENDING_SELECT,
	PENDING_AUTH,
	PENDING_HELLO,
	PENDING_NAME,
	PENDING_RESET,
	PENDING_MULTI,
	PENDING_SUBSCRIBE,
	PENDING_EXEC,
	/* Requests that do not: */
	PENDING_DISCARD, /* DISCARD, or UNWATCH outside of a transaction */
	PENDING_LOCK, /* a script call on a lock, or one that returns an error */
	PENDING_INFO, /* LOCK.INFO: hasp adds fields to Redis' reply */
	PENDING_LIST, /* LOCK.LIST: the reply shows whether Redis serves the client */
	PENDING_QUORUM, /* a command on a lock of a quorum: if Redis accepts it, hasp asks the
	                 * quorum */
	PENDING_PROBE, /* a command that may end a lock for which clients wait, or a script that
	                * may take a lock */
	PENDING_GUARD, /* a command on guarded keys, of either strategy */
	PENDING_LOGIN, /* hasp's own command, which asks whether the client is logged in */
	PENDING_COUNT, /* hasp's own write before the client's WAIT */
	PENDING_STREAM, /* SYNC, MONITOR: if Redis accepts it, a stream of bytes begins */
	PENDING_NOTICE, /* hasp must see the reply, but no later request waits for it */
	PENDING_SETINFO, /* CLIENT SETINFO: the name or the version of the client's library, on
	                  * which no command depends */
};

/* The texts that a client gives when it logs in, by AUTH, HELLO and CLIENT. */
enum login_text { TEXT_USER, TEXT_PASSWORD, TEXT_NAME, TEXT_LIB_NAME, TEXT_LIB_VER };
#define LOGIN_TEXTS (TEXT_LIB_VER + 1)

struct pending_login {
	char *texts[LOGIN_TEXTS]; /* NULL: the request leaves the text as it is; "": removes it.
	                           * A new user has a new password. */
	bool user_unknown; /* the user's name was too long to keep */
	uint8_t proto; /* the protocol version that HELLO sets; 0: HELLO sets none */
};

struct pending_request {
	enum pending_kind kind;
	bool blocks; /* Redis may answer this request and later ones only when there is data */
	bool ends_transaction; /* PENDING_DISCARD, _EXEC and _NOTICE: if Redis accepts the
	                        * request, it ends the transaction and the watches */
	bool ended; /* with `ends_transaction`: the reply's first line shows the success */
	uint32_t number; /* with `ends_transaction`: the caller's number for the transaction */
	bool by_eval; /* the call in place of the request was an EVAL, with the script's text */
	bool is_short; /* the call is short; after the answer +BUSY, hasp sends a full one */
	uint8_t nlate; /* how often hasp has sent the call again because the reply was late; at
	                * most LEASE_LATE_MAX */
	struct list node; /* in session.awaited, transaction.queued or an EXEC's `queued` */
	struct freelist *freelist; /* where pending_free() puts the memory; NULL: free() */
	size_t index; /* position of the request in its transaction, from 0 */
	union {
		int db; /* SELECT: the number of the database */
		bool raw; /* STREAM: the client sends no more requests, but a stream of bytes */
		struct pending_login *login; /* AUTH, HELLO, NAME, SETINFO: what they set */
		struct acks acks; /* SUBSCRIBE: the acknowledgements that are the reply */
		struct list queued; /* EXEC: the queued requests that it runs */
	};
	/* The meaning of the reply for locks, guards and watched keys. This folder only keeps
	 * these five pointers; each may be NULL. */
	struct guard_op *guard_op; /* only for GUARD and EXEC */
	struct lock_request *lock_request; /* only for LOCK */
	struct command_sample *command_sample; /* for any kind of request */
	struct value_read *value_read; /* only for NOTICE */
	struct checked_read *checked_read; /* for keys whose guard has strategy = check */
	const struct pending_ops *rest; /* functions that free and count the five; NULL: there
	                                 * are none */
	struct buf probe_keys; /* keys of locks to probe; before each, its length as size_t */
	size_t *charged_to; /* the session's sum of bytes; NULL: the request is not in it yet */
	size_t charged; /* bytes of this request in *charged_to */
};

/* Functions for the five pointers of a request that this room only keeps. */
struct pending_ops {
	void (*free)(struct pending_request *r);
	size_t (*nbytes)(const struct pending_request *r); /* the memory of `r`, in bytes */
};

struct pending_request *pending_new(enum pending_kind kind);
/* As pending_new(), but takes a block of PENDING_SIZE bytes from `freelist`, to which
 * pending_free() returns the block. */
#define PENDING_SIZE sizeof(struct pending_request)
struct pending_request *pending_new_of(struct freelist *freelist, enum pending_kind kind);
/* Takes the request out of its list, and frees it with all that it owns. */
void pending_free(struct pending_request *r);
void pending_free_list(struct list *l);

/* Adds the request's memory to *total, or updates it there; pending_free() subtracts it. */
void pending_charge(struct pending_request *r, size_t *total);

/* Adds the key of a lock that hasp probes when Redis has answered the request. */
void pending_add_probe_key(struct pending_request *r, struct slice key);
/* Calls `fn` with each probe key of the request, and of the requests that an EXEC ran. */
void pending_each_probe_key(const struct pending_request *r,
                            void (*fn)(void *arg, struct slice key), void *arg);

/* Returns true for AUTH, HELLO with AUTH, and an EXEC that carries one of these out. Since
 * version 7.2, Redis sends no reply to a login that fails while earlier replies are unwritten;
 * hasp would then take the next reply for the login's. */
bool pending_logs_in(const struct pending_request *r);

/* True for a request that, if Redis accepts it, ends the transaction and the watches. Later
 * requests must wait for the reply. */
static inline bool pending_discards(const struct pending_request *r)
{
	return r->kind == PENDING_DISCARD || r->kind == PENDING_RESET;
}

/* Return the user, or the name, that a login sets. NULL: the request is no login, or does not
 * change the user or the name. */
const char *pending_user(const struct pending_request *r);
const char *pending_name(const struct pending_request *r);

#endif
