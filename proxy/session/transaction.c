/* SPDX-License-Identifier: BSD-3-Clause */
#include "session/transaction.h"

#include <string.h>

#include "base/fatal.h"
#include "session/pending.h"

/* Keys beyond this are not remembered as watched: commands on them are rewritten as without
 * WATCH, which is safe. */
#define WATCHED_MAX_BYTES ((size_t)64 * 1024)

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

void transaction_init(struct transaction *t)
{
	*t = (struct transaction){ .state = TRANSACTION_NONE };
	list_init(&t->queued);
}

void transaction_fini(struct transaction *t)
{
	pending_free_list(&t->queued);
	buf_release(&t->kept);
	buf_release(&t->watched);
}

void transaction_begin(struct transaction *t)
{
	if (transaction_is_open(t))
		return;
	set_transaction_state(t, TRANSACTION_QUEUING);
	t->nqueued = 0;
}

static bool has_outgrown(const struct transaction *t)
{
	return t->nkept && buf_len(&t->kept) == 0;
}

void transaction_begun(struct transaction *t)
{
	/* The refusal that came before was of a command of an earlier transaction. */
	if (t->state == TRANSACTION_ABORTED)
		set_transaction_state(t, has_outgrown(t) ? TRANSACTION_TOO_LONG
		                                         : TRANSACTION_QUEUING);
}

void transaction_add(struct transaction *t)
{
	t->nqueued++;
}

void transaction_add_pending(struct transaction *t, struct pending_request *r)
{
	r->index = t->nqueued;
	list_append(&t->queued, &r->node);
}

void transaction_keep(struct transaction *t, struct slice bytes, size_t max)
{
	bool outgrown = has_outgrown(t);

	t->nkept++;
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

void transaction_exec(struct transaction *t, struct list *queued)
{
	close_transaction(t);
	transaction_unwatch(t);
	list_move_all(queued, &t->queued);
}

void transaction_discard(struct transaction *t)
{
	close_transaction(t);
	transaction_unwatch(t);
	pending_free_list(&t->queued);
}

void transaction_reject(struct transaction *t, struct list *queued)
{
	close_transaction(t);
	list_move_all(queued, &t->queued);
}

/* A watched key counts in the database in which it was watched. */
void transaction_watch(struct transaction *t, int db, struct slice key)
{
	size_t n = sizeof(db) + key.n;

	if (buf_len(&t->watched) + key.n >= WATCHED_MAX_BYTES)
		return;
	buf_append(&t->watched, slice_of(&n, sizeof(n)));
	buf_append(&t->watched, slice_of(&db, sizeof(db)));
	buf_append(&t->watched, key);
}

void transaction_unwatch(struct transaction *t)
{
	t->watching = false;
	buf_release(&t->watched);
}

/* Will the database be another one when the transaction is carried out? */
static bool selects(const struct transaction *t)
{
	for (struct list *at = t->queued.next; at != &t->queued; at = at->next)
		if (container_of(at, struct pending_request, node)->kind == PENDING_SELECT)
			return true;
	return false;
}

bool transaction_watches(const struct transaction *t, int db, struct slice key)
{
	struct slice rest = buf_slice(&t->watched);

	/* A command on a key that is not known to be watched is checked. */
	if (rest.n == 0 || db < 0 || selects(t))
		return false;
	while (rest.p && rest.n) {
		size_t n, head = sizeof(n) + sizeof(db);
		int watched_db;
		memcpy(&n, rest.p, sizeof(n));
		memcpy(&watched_db, rest.p + sizeof(n), sizeof(watched_db));
		if (watched_db == db &&
		    slice_eq(slice_of(rest.p + head, n - sizeof(watched_db)), key))
			return true;
		rest.p += sizeof(n) + n;
		rest.n -= sizeof(n) + n;
	}
	return false;
}
