/* SPDX-License-Identifier: BSD-3-Clause */
#include "session/transaction.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "session/pending.h"

/* hasp remembers watched keys up to this sum, in bytes. It rewrites commands on other keys as
 * if no client watched them, which is safe. */
#define WATCHED_MAX_BYTES ((size_t)256 * 1024)

#define TO(state) (1u << TRANSACTION_##state)
static const unsigned allowed[TRANSACTION_STATES] = {
	[TRANSACTION_NONE] = TO(QUEUING),
	[TRANSACTION_QUEUING] = TO(NONE) | TO(TOO_LONG) | TO(ABORTED),
	[TRANSACTION_TOO_LONG] = TO(NONE) | TO(ABORTED),
	[TRANSACTION_ABORTED] = TO(NONE) | TO(QUEUING) | TO(TOO_LONG),
};

bool transaction_may_become(enum transaction_state from, enum transaction_state to)
{
	return allowed[from] & (1u << to);
}

static void set_transaction_state(struct transaction *t, enum transaction_state state)
{
	HASP_ASSERT(transaction_may_become(t->state, state));
	t->state = state;
}

/* --- watched keys ------------------------------------------------------------------- */

/* A watched key and its database. The key's bytes follow the struct. */
struct watched_key {
	struct map_node by_key;
	int db;
};

bool transaction_has_watched(const struct transaction *t, int db, struct slice key)
{
	struct map_node *node = t->watched ? map_get(&t->watched->keys, key) : NULL;

	while (node && container_of(node, struct watched_key, by_key)->db != db)
		node = map_next(node);
	return node;
}

void transaction_watch(struct transaction *t, int db, struct slice key)
{
	size_t nbytes = sizeof(struct watched_key) + key.n;
	struct watched_keys *all = t->watched;
	struct watched_key *w;

	if (transaction_has_watched(t, db, key) ||
	    (all ? all->nbytes : sizeof(*all)) + nbytes > WATCHED_MAX_BYTES)
		return;
	w = xmalloc(nbytes);
	if (key.n)
		memcpy(w + 1, key.p, key.n);
	w->db = db;
	w->by_key.key = slice_of((const char *)(w + 1), key.n);
	if (!all) {
		all = t->watched = xmalloc(sizeof(*all));
		map_init(&all->keys);
		all->nbytes = sizeof(*all);
	}
	map_put(&all->keys, &w->by_key);
	all->nbytes += nbytes;
}

static void forget_watched(struct transaction *t)
{
	struct watched_keys *all = t->watched;

	if (!all)
		return;
	map_drain (&all->keys, node)
		free(container_of(node, struct watched_key, by_key));
	map_fini(&all->keys);
	free(all);
	t->watched = NULL;
}

/* --- the transaction ---------------------------------------------------------------- */

/* Returns t->exec, which the caller owns from then on. */
static struct pending_request *detach_exec(struct transaction *t)
{
	struct pending_request *exec = t->exec;

	t->exec = NULL;
	return exec;
}

static void drop_queued(struct transaction *t)
{
	if (t->exec)
		pending_free(detach_exec(t));
}

void transaction_fini(struct transaction *t)
{
	drop_queued(t);
	buf_release(&t->kept);
	forget_watched(t);
}

void transaction_begin(struct transaction *t)
{
	if (transaction_is_open(t))
		return;
	set_transaction_state(t, TRANSACTION_QUEUING);
	t->nqueued = t->nunguarded = 0;
	t->may_be_slow = false;
}

static bool has_outgrown(const struct transaction *t)
{
	return t->nkept && buf_len(&t->kept) == 0;
}

void transaction_begun(struct transaction *t)
{
	/* An error before MULTI's reply was for a command of an earlier transaction. */
	if (t->state == TRANSACTION_ABORTED)
		set_transaction_state(t, has_outgrown(t) ? TRANSACTION_TOO_LONG
		                                         : TRANSACTION_QUEUING);
}

void transaction_add(struct transaction *t, uint32_t n)
{
	t->nqueued += n;
}

void transaction_add_pending(struct transaction *t, struct pending_request *r)
{
	r->index = t->nqueued;
	if (!t->exec) {
		t->exec = pending_new(PENDING_EXEC);
		t->selects = false;
	}
	if (r->kind == PENDING_SELECT) {
		t->selects = true;
		t->selected_db = r->db;
	}
	list_append(&t->exec->queued, &r->node);
}

void transaction_keep(struct transaction *t, uint32_t n, struct slice bytes, size_t max)
{
	bool outgrown = has_outgrown(t);

	t->nkept += n;
	if (outgrown)
		return;
	buf_append(&t->kept, bytes);
	if (buf_len(&t->kept) <= max)
		return;
	buf_release(&t->kept);
	if (t->state == TRANSACTION_QUEUING)
		set_transaction_state(t, TRANSACTION_TOO_LONG);
}

void transaction_abort(struct transaction *t)
{
	if (t->state == TRANSACTION_QUEUING || t->state == TRANSACTION_TOO_LONG)
		set_transaction_state(t, TRANSACTION_ABORTED);
}

static void close_transaction(struct transaction *t)
{
	if (transaction_is_open(t))
		set_transaction_state(t, TRANSACTION_NONE);
	buf_release(&t->kept);
	t->nkept = 0;
	t->guards = TRANSACTION_GUARDS_UNWATCHED;
}

struct pending_request *transaction_exec(struct transaction *t)
{
	close_transaction(t);
	transaction_unwatch(t);
	return detach_exec(t);
}

void transaction_discard(struct transaction *t)
{
	close_transaction(t);
	transaction_unwatch(t);
	drop_queued(t);
}

struct pending_request *transaction_reject(struct transaction *t)
{
	close_transaction(t);
	return detach_exec(t);
}

void transaction_unwatch(struct transaction *t)
{
	t->watching = false;
	forget_watched(t);
}
