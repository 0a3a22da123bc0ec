/* SPDX-License-Identifier: BSD-3-Clause
 *
 * transaction: a connection's transaction, and the keys that its application watches. MULTI and
 * WATCH apply to the commands after them, so hasp applies them when it sends them. hasp applies
 * DISCARD, UNWATCH and RESET when Redis has accepted them; the client's later requests wait for
 * that.
 *
 *            MULTI sent
 *     NONE ------------> QUEUING ---longer than may be kept---> TOO_LONG
 *      ^                   | ^                                   |    ^
 *      |   a command was   | |  MULTI was answered (the error    |    |
 *      |   refused         v |  was an earlier transaction's)    v    |
 *      |                  ABORTED <-------------------------------    |
 *      |                     `------- MULTI was answered -------------'
 *      `--- EXEC sent; DISCARD, RESET accepted; MULTI refused: from each of them
 */
#ifndef HASP_SESSION_TRANSACTION_H
#define HASP_SESSION_TRANSACTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/map.h"
#include "base/slice.h"

struct pending_request;

enum transaction_state {
	TRANSACTION_NONE,
	TRANSACTION_QUEUING,
	TRANSACTION_TOO_LONG, /* the transaction is too long for hasp to keep its commands */
	TRANSACTION_ABORTED, /* Redis has refused to queue a command of the transaction */
};
#define TRANSACTION_STATES (TRANSACTION_ABORTED + 1)

/* How guards affect a transaction whose application uses WATCH itself. */
enum transaction_guards {
	TRANSACTION_GUARDS_UNWATCHED,
	TRANSACTION_GUARDS_WATCHED, /* before MULTI, hasp has sent WATCH for the guards of the
	                             * keys that the client has read */
	TRANSACTION_GUARDS_LOST, /* the client has lost the guard of a key that it has read */
};

/* Keys with a rule that the application watches, each in its database. */
struct watched_keys {
	struct map keys;
	size_t nbytes; /* memory of this struct and its keys */
};

struct transaction {
	uint32_t nqueued; /* number of commands sent since MULTI */
	uint32_t nkept; /* number of commands that transaction_keep() got */
	uint32_t nunguarded; /* number of queued commands that name no guarded key under the
	                      * configuration of `generation` */
	uint32_t generation; /* the policy_env.generation in which hasp counted `nunguarded` */
	struct pending_request *exec; /* will await EXEC's reply; its `queued` has the pending
	                               * requests since MULTI. NULL: there are none */
	struct buf kept; /* the commands since MULTI, if there are guards */
	struct watched_keys *watched; /* NULL: there are none, as for most clients */
	int selected_db; /* if `selects`: the database of the last queued SELECT */
	enum transaction_state state : 8; /* only transaction.c writes the state */
	enum transaction_guards guards : 8; /* how guards affect the open transaction */
	bool watching : 1; /* Redis may watch keys for the application */
	bool may_be_slow : 1; /* a queued command may be slow: see PACE in commands.def */
	bool selects : 1; /* since MULTI, a SELECT was queued */
};

void transaction_fini(struct transaction *t);

static inline bool transaction_is_open(const struct transaction *t)
{
	return t->state != TRANSACTION_NONE;
}

/* Returns the bytes of memory that the transaction keeps, without its pending requests. */
static inline size_t transaction_nbytes(const struct transaction *t)
{
	return buf_cap(&t->kept) + (t->watched ? t->watched->nbytes : 0);
}

/* Call this when MULTI is sent. Redis refuses a nested MULTI, which changes nothing. */
void transaction_begin(struct transaction *t);
/* Call this when Redis has answered MULTI, and so all earlier commands, too. */
void transaction_begun(struct transaction *t);
/* Counts `n` commands that are sent for Redis to queue. */
void transaction_add(struct transaction *t, uint32_t n);
/* Takes the pending request of the next command, and keeps it until EXEC. Call this before
 * transaction_add(). */
void transaction_add_pending(struct transaction *t, struct pending_request *r);
/* Keeps the `n` commands in `bytes`, because hasp may have to send them again. If the commands
 * of the transaction exceed `max` bytes, keeps none. */
void transaction_keep(struct transaction *t, uint32_t n, struct slice bytes, size_t max);
/* Records that Redis has refused to queue a command. */
void transaction_abort(struct transaction *t);
/* Ends the transaction because EXEC is sent. Returns the request that awaits EXEC's reply;
 * NULL: no reply to a queued command matters. */
struct pending_request *transaction_exec(struct transaction *t);
/* Ends the transaction and the watches, as DISCARD does. */
void transaction_discard(struct transaction *t);
/* Ends the transaction because Redis refused MULTI, and so ran the later commands at once. The
 * watches stay. Returns the same as transaction_exec(). */
struct pending_request *transaction_reject(struct transaction *t);

/* Records that the application watches `key` in database `db`, up to 256 KB of keys. */
void transaction_watch(struct transaction *t, int db, struct slice key);
void transaction_unwatch(struct transaction *t);
/* True if a queued SELECT changes the database. */
static inline bool transaction_selects(const struct transaction *t)
{
	return t->selects && t->exec;
}

/* Call transaction_watches() instead. */
bool transaction_has_watched(const struct transaction *t, int db, struct slice key);

/* True if hasp knows that the application watches `key`. If in doubt, false, so that hasp
 * checks the command on the key: while a SELECT is queued, and if `db` is not known (-1). */
static inline bool transaction_watches(const struct transaction *t, int db, struct slice key)
{
	return t->watched && db >= 0 && !transaction_selects(t) &&
	       transaction_has_watched(t, db, key);
}

/* True if the state may change from `from` to `to`. */
bool transaction_may_become(enum transaction_state from, enum transaction_state to);

#endif
