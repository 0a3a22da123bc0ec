/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_txn: decides about writes of guarded keys that no script can run: commands whose reply
 * Lua cannot hold, scripts, and the application's own transactions. hasp runs these writes in a
 * transaction that fails when a guard changes: see client/guard_steps.c.
 *
 * If the application watches keys of its own, hasp cannot send the application's transaction
 * again, because EXEC has ended the WATCH. So hasp watches the guards, too, before MULTI.
 */
#include "policy/policy_internal.h"

#include "base/fatal.h"
#include "config/match.h"
#include "config/types.h"
#include "lock/rewrite/rewrite.h"
#include "policy/classifier.h"
#include "resp/write.h"

/* --- the application's transaction ----------------------------------------------------- */

/* Adds the guarded keys of all commands in `block` to `k`. Returns false if hasp does not know
 * all keys, or if they are too many or in more than one database. */
static bool find_in_block(const struct context *x, struct slice block, struct guard_keys *k)
{
	struct request_args args = { 0 };
	bool moved = false, clear = true;

	while (block.n) {
		struct request_scan scan = { 0 };
		struct context each = *x;
		struct command_info what;
		struct resp_view view;
		struct guard_keys some;
		size_t used;
		enum resp_result r = request_scan(&scan, block.p, block.n, &used, &args);
		HASP_ASSERT(r == RESP_OK);
		block = slice_of(block.p + used, block.n - used);
		view = (struct resp_view){ args.argc, args.argv };
		what = classifier_find(x->env, view.argv[0]);
		context_set_command(&each, x->env, &what, &view, NULL);
		moved |= slice_is(view.argv[0], "select");
		if (!what.command && guard_unknown_may_name(x->env, &view))
			clear = false;
		if (!clear || !what.is_guarded || !what.command ||
		    !command_arity_ok(what.command, view.argc))
			continue;
		guard_keys_find(&each, &some);
		clear &= (some.n == 0 || !moved) && !some.incomplete &&
		         k->n + some.n < READ_SET_MAX;
		if (clear)
			guard_keys_add(k, &some);
	}
	request_args_fini(&args);
	return clear;
}

/* Finds the guarded keys of the transaction's commands, which hasp has kept. Sets *op to an
 * operation of kind `kind` for these keys; NULL: no key is guarded. Returns false if hasp does
 * not know all guarded keys, or if they are too many, in more than one database, or of guards
 * with both strategies. */
static bool guard_find_block(struct context *x, enum guard_op_kind kind, struct guard_op **op)
{
	struct guard_keys k = { 0 };
	bool clear;

	*op = NULL;
	/* In GUARD_OP_WATCH_EXEC no script checks the guards, so both strategies may mix. */
	clear = find_in_block(x, buf_slice(&x->session->txn.kept), &k) &&
	        !(k.checks && k.locks && kind != GUARD_OP_WATCH_EXEC);
	if (clear && k.n) {
		k.n = rewrite_guard_sort(k.v, k.n);
		guard_keys_name(x, &k);
		*op = guard_keys_op(x, &k, kind);
		(*op)->writes = true;
	}
	guard_keys_fini(&k);
	return clear;
}

/* Gives the transaction up, and answers EXEC with an error. */
static struct decision refuse_transaction(struct context *x, const char *error)
{
	struct buf *out = &x->env->rewritten;
	struct decision d = { .verdict = DISPATCH_CALL, .discards = 1 };

	buf_clear(out);
	resp_write_word(out, "DISCARD");
	rewrite_error(out, &(struct rewrite_opts){ .eval = true }, error);
	transaction_discard(&x->session->txn);
	return d;
}

/* As refuse_transaction(), for a transaction whose keys hasp does not know. */
static struct decision refuse_unfollowed(struct context *x, const char *error)
{
	read_set_overflow(&context_own_locks(x)->read_set);
	return refuse_transaction(x, error);
}

/* Checks a transaction whose application watches keys. Returns NULL if hasp has watched all
 * guards of `op` since before MULTI; else the error. */
static const char *find_unwatched(const struct context *x, const struct guard_op *op)
{
	enum transaction_guards guards = x->session->txn.guards;
	bool lost = guards == TRANSACTION_GUARDS_LOST;

	for (size_t i = 0; i < op->n; i++) {
		const struct read_set_entry *e = op->keys[i].entry;
		/* Redis itself checks a key that was read after WATCH. */
		if (e->checked &&
		    (e->lost || !transaction_watches(&x->session->txn, x->session->db,
		                                     read_set_entry_key(e))))
			return "LOCKLOST the client did not WATCH a checked key before it read "
			       "it: nothing was written";
		lost |= e->lost;
	}
	if (lost)
		return "LOCKLOST a key was read under a guard that has ended: nothing was "
		       "written";
	for (size_t i = 0; i < op->n; i++)
		if (!op->keys[i].entry->checked &&
		    (guards != TRANSACTION_GUARDS_WATCHED || !op->keys[i].entry->read))
			return "LOCKED the client did not read a guarded key between WATCH and "
			       "MULTI: nothing was written";
	return NULL;
}

static struct decision exec_watched(struct context *x, struct guard_op *op)
{
	const char *error = find_unwatched(x, op);

	if (!error)
		return context_guard(session_exec_pending(x->session), op);
	guard_op_complete(op, GUARD_OP_FAILED);
	guard_op_free(op);
	return refuse_transaction(x, error);
}

static struct decision exec_block(struct context *x, struct guard_op *op)
{
	struct transaction *t = &x->session->txn;

	op->block = t->kept;
	op->ncommands = t->nkept;
	op->block_open = true;
	t->kept = BUF_INIT;
	return context_guard(session_exec_pending(x->session), op);
}

/* Records that the transaction's reads failed because Redis refused one of its commands. */
static void note_aborted(struct context *x)
{
	const struct transaction *t = &x->session->txn;
	struct guard_op *op;

	if (t->nkept != t->nqueued)
		return;
	if (!buf_len(&t->kept) || !guard_find_block(x, GUARD_OP_BLOCK, &op)) {
		read_set_overflow(&context_own_locks(x)->read_set);
	} else if (op) {
		guard_op_complete(op, GUARD_OP_FAILED);
		guard_op_free(op);
	}
}

/* True if no command of the transaction names a guarded key. Then hasp passes EXEC to Redis. */
static bool names_no_guarded(const struct context *x)
{
	const struct transaction *t = &x->session->txn;

	return t->nqueued == 0 ||
	       (t->nunguarded == t->nqueued && t->generation == x->env->generation);
}

static bool decide_exec(struct context *x, struct decision *d)
{
	struct transaction *t = &x->session->txn;
	struct guard_op *op;

	if (!transaction_is_open(t) || names_no_guarded(x))
		return false;
	if (x->session->nawaited) {
		*d = defer;
		return true;
	}
	if (t->state == TRANSACTION_ABORTED) {
		note_aborted(x);
		return false;
	}
	if (t->nkept != t->nqueued) {
		*d = refuse_transaction(x, "ERR hasp: there were no guards when this "
		                           "transaction began: nothing was written");
		return true;
	}
	if (t->state == TRANSACTION_TOO_LONG) {
		*d = refuse_unfollowed(x, "ERR hasp: a transaction with guarded keys is "
		                          "longer than max_request: nothing was written");
		return true;
	}
	if (!guard_find_block(x, t->watching ? GUARD_OP_WATCH_EXEC : GUARD_OP_BLOCK, &op))
		*d = refuse_unfollowed(
			x, "ERR hasp: nothing was written: a transaction with guarded keys may "
			   "not contain SELECT, more than 1023 guarded keys, keys of guards "
			   "with different strategies, or commands that hasp does not know");
	else if (op)
		*d = t->watching ? exec_watched(x, op) : exec_block(x, op);
	else
		return false;
	return true;
}

static bool decide_multi(struct context *x, struct decision *d)
{
	struct session *s = x->session;
	struct guard_op *op;

	if (session_in_multi(s) || !s->txn.watching || context_read_set(x)->n == 0)
		return false;
	*d = defer;
	if (s->nawaited)
		return true;
	op = guard_op_of_read_set(x->env->read_sets, &x->env->guard_ops,
	                          &context_own_locks(x)->read_set, s->db, x->env->now);
	if (!op)
		return false;
	*d = context_guard(pending_new_of(&x->env->pending, PENDING_GUARD), op);
	return true;
}

bool guard_txn_decide(struct context *x, struct decision *d)
{
	/* hasp does not follow the transactions of an opaque client. */
	if (x->session->opaque || x->req->argc != 1)
		return false;
	if (x->what->session == SESSION_EXEC)
		return decide_exec(x, d);
	return x->what->session == SESSION_MULTI && decide_multi(x, d);
}

void guard_txn_keep_bytes(const struct policy_env *env, struct transaction *t,
                          struct slice bytes, uint32_t n, uint32_t nunguarded)
{
	if (t->nunguarded == 0)
		t->generation = env->generation;
	if (t->generation == env->generation)
		t->nunguarded += nunguarded;
	transaction_keep(t, n, bytes, (size_t)env->config->max_request);
}

void guard_txn_keep(struct context *x, struct decision *d, bool may_be_guarded)
{
	struct transaction *t = &x->session->txn;
	struct buf request = BUF_INIT;

	if (x->session->opaque)
		return;
	/* Only the refusal of a command without a pending request calls transaction_abort(). */
	HASP_ASSERT(!d->pending);
	d->watches_refusal = true;
	if (d->verdict == DISPATCH_CALL) {
		guard_txn_keep_bytes(x->env, t, buf_slice(&x->env->rewritten), 1, 0);
		return;
	}
	resp_write_request(&request, x->req->argv, x->req->argc);
	guard_txn_keep_bytes(x->env, t, buf_slice(&request), 1, !may_be_guarded);
	buf_release(&request);
}
