/* SPDX-License-Identifier: BSD-3-Clause
 *
 * pending: a request in flight whose reply changes the session, or needs an action of hasp's;
 * it is the tag of the request on its link. Requests that are only passed have none.
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

struct checked_read;
struct guard_op;
struct lock_request;
struct command_sample;
struct value_read;

enum pending_kind {
	PENDING_SELECT,
	PENDING_AUTH,
	PENDING_HELLO,
	PENDING_NAME,
	PENDING_RESET,
	PENDING_MULTI,
	PENDING_SUBSCRIBE,
	PENDING_EXEC,
	PENDING_DISCARD, /* DISCARD, or UNWATCH outside of a transaction */
	PENDING_LOCK, /* a call on a lock, or an error in its place */
	PENDING_INFO, /* LOCK.INFO: hasp adds to the reply */
	PENDING_LIST, /* LOCK.LIST: the reply shows whether Redis serves the client */
	PENDING_QUORUM, /* a command on a lock of a quorum: if Redis accepts it, hasp asks the
	                 * quorum */
	PENDING_PROBE, /* a command that may end a lock for which clients wait, or a script that
	                * may take a lock */
	PENDING_GUARD, /* a command on guarded keys, or a read of keys that are checked */
	PENDING_LOGIN, /* a command of hasp's, which asks whether the client is logged in */
	PENDING_COUNT, /* hasp's own write before a WAIT */
	PENDING_STREAM, /* SYNC, MONITOR: a stream of bytes begins unless Redis refuses it */
	PENDING_NOTICE, /* hasp must see the reply, but no later request waits for it */
	PENDING_SETINFO, /* the name or the version of the client's library */
};

/* The texts that a client gives when it logs in, by AUTH, HELLO and CLIENT. */
enum login_text { TEXT_USER, TEXT_PASSWORD, TEXT_NAME, TEXT_LIB_NAME, TEXT_LIB_VER };
#define LOGIN_TEXTS (TEXT_LIB_VER + 1)

enum subscription { SUBSCRIBED_CHANNELS, SUBSCRIBED_PATTERNS, SUBSCRIBED_SHARDS };
#define SUBSCRIPTION_KINDS 3

struct pending_login {
	char *texts[LOGIN_TEXTS]; /* NULL: unchanged; "": none, or the default user. The
	                           * password comes with the user. */
	bool user_unknown; /* the user's name was too long to keep */
	uint8_t proto; /* HELLO; 0: unchanged */
};

struct pending_request {
	enum pending_kind kind;
	bool blocks; /* Redis may answer this request and later ones only when there is data */
	bool ends_transaction; /* DISCARD, EXEC, NOTICE: unless Redis refuses it, the connection
	                        * keeps no transaction and no watched keys */
	bool ended; /* with `ends_transaction`: the reply's first line confirms it */
	uint32_t number; /* with `ends_transaction`: the caller's number for the transaction */
	bool by_eval; /* hasp has sent a call with the script's text in place of the request */
	bool is_short; /* the script may answer +BUSY: then hasp sends the call again in full */
	struct list node; /* in session.awaited, transaction.queued or an EXEC's `queued` */
	struct freelist *freelist; /* the list that takes the memory back; NULL: free() */
	size_t index; /* position of the request in its transaction, from 0 */
	union {
		int db; /* SELECT */
		bool raw; /* STREAM: the client sends no more requests, but a stream of bytes */
		struct pending_login *login; /* AUTH, HELLO, NAME, SETINFO */
		struct {
			enum subscription kind;
			bool ends; /* for UNSUBSCRIBE, SUNSUBSCRIBE and PUNSUBSCRIBE */
			size_t acks; /* acknowledgements that are due; 0: as many as there are
			              * subscriptions */
		} subscribe; /* SUBSCRIBE and its kin */
		struct list queued; /* EXEC: the queued requests that it runs */
	};
	/* What the reply means for locks, guards and watched keys. This folder only keeps the
	 * pointers: */
	struct guard_op *guard_op; /* GUARD, EXEC; NULL: none */
	struct lock_request *lock_request; /* LOCK; NULL: none */
	struct command_sample *command_sample; /* NULL: none */
	struct value_read *value_read; /* NOTICE; NULL: none */
	struct checked_read *checked_read; /* NULL: none */
	const struct pending_ops *rest; /* functions for the five fields above; NULL: all are
	                                 * NULL */
	struct buf probe_keys; /* keys of locks to probe, each after its length, a size_t */
	size_t *charged_to; /* the session's count of bytes; NULL: not counted yet */
	size_t charged; /* bytes of this request in *charged_to */
};

/* The parts of a request that are opaque to this room. */
struct pending_ops {
	void (*free)(struct pending_request *r);
	size_t (*nbytes)(const struct pending_request *r); /* bytes of memory */
};

struct pending_request *pending_new(enum pending_kind kind);
/* As pending_new(), but takes the memory from `freelist`, which gets it back. Its blocks are
 * PENDING_SIZE bytes; it outlives the request. */
#define PENDING_SIZE sizeof(struct pending_request)
struct pending_request *pending_new_of(struct freelist *freelist, enum pending_kind kind);
/* Takes the request out of its list, and frees it with all that it owns. */
void pending_free(struct pending_request *r);
void pending_free_list(struct list *l);

/* Adds the request's present memory to *total, until pending_free(). */
void pending_charge(struct pending_request *r, size_t *total);

/* Adds the key of a lock to probe when the request is answered. */
void pending_add_probe_key(struct pending_request *r, struct slice key);
/* Calls `fn` with each key of the request, and of the requests that an EXEC ran. */
void pending_each_probe_key(const struct pending_request *r,
                            void (*fn)(void *arg, struct slice key), void *arg);

/* Returns true for AUTH, HELLO with AUTH, and an EXEC that carries one of these out. Since
 * version 7.2, Redis does not answer a login that fails before it has written all earlier
 * replies of the connection. hasp would take the next reply for the login's. */
bool pending_logs_in(const struct pending_request *r);

/* True for a request that ends the transaction and the watches unless Redis refuses it: later
 * requests must wait for its reply. */
static inline bool pending_discards(const struct pending_request *r)
{
	return r->kind == PENDING_DISCARD || r->kind == PENDING_RESET;
}

/* Return the user, or the name, that a login sets. NULL: the request is no login, or does not
 * change the user or the name. */
const char *pending_user(const struct pending_request *r);
const char *pending_name(const struct pending_request *r);

#endif
