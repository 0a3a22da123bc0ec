/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_op_release: what a guarded operation releases when it is over, and what it lists in
 * Redis of the reads of owners that have several connections.
 */
#include "lock/guard/guard_op_internal.h"
#include "lock/scripts/script_call.h"

/* Redis has listed a shared owner as a reader, and then the read failed: if it kept the guard,
 * what the owner read earlier would count as fresh. */
static bool acquired_in_vain(const struct guard_op *op, size_t i, enum guard_op_result result)
{
	return result == GUARD_OP_FAILED && op->unread && op->keys[i].entry->shared &&
	       (op->kind == GUARD_OP_SCRIPT || guard_op_acquires_first(op, i));
}

bool guard_op_acquired_in_vain(const struct guard_op *op)
{
	for (size_t i = 0; i < op->n; i++)
		if (acquired_in_vain(op, i, GUARD_OP_FAILED))
			return true;
	return false;
}

static bool is_released(const struct guard_op *op, size_t i, enum guard_op_result result,
                        bool acquired)
{
	const struct guard_op_key *k = &op->keys[i];

	if (k->entry->checked)
		return false;
	if (acquired_in_vain(op, i, result))
		return true;
	if (result == GUARD_OP_CARRIED_OUT && k->releases)
		return true;
	if (!acquired || (result != GUARD_OP_FAILED && k->acquires))
		return false;
	return !k->entry->read || k->entry->lost;
}

/* Is a shared owner to be listed as a reader now? Inside the application's own WATCH nothing
 * was acquired, and so no script has listed it. */
static bool is_new_reader(const struct guard_op *op, const struct guard_op_key *k,
                          enum guard_op_result result)
{
	return op->kind == GUARD_OP_WATCH_EXEC && result != GUARD_OP_FAILED && k->acquires &&
	       k->entry->shared;
}

/* Another connection of a shared owner may have the guard, and have read under it. */
static enum guard_done done_with_key(const struct guard_op *op, size_t i,
                                     enum guard_op_result result)
{
	if (is_new_reader(op, &op->keys[i], result))
		return GUARD_DONE_READ;
	if (result == GUARD_OP_CARRIED_OUT)
		return GUARD_DONE_WRITTEN;
	if (op->keys[i].entry->shared && !acquired_in_vain(op, i, result))
		return GUARD_DONE_UNREAD;
	return GUARD_DONE_NOTHING;
}

/* The call that tells Redis what is `done` with the key. */
static void write_done(const struct read_set_entry *e, enum guard_done done, struct buf *out)
{
	struct buf evalsha = BUF_INIT;
	struct rewrite_how how = read_sets_how(e->table, read_set_entry_db(e));
	enum script_id script = rewrite_guard_release(&evalsha, read_set_entry_key(e), e->token,
	                                              e->shared, done, &how);

	script_call_write_as_eval(out, script, buf_slice(&evalsha));
	buf_release(&evalsha);
}

size_t guard_op_write_release(const struct guard_op *op, enum guard_op_result result,
                              bool acquired, struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < op->n; i++) {
		enum guard_done done = done_with_key(op, i, result);
		if (done != GUARD_DONE_READ && !is_released(op, i, result, acquired))
			continue;
		write_done(op->keys[i].entry, done, out);
		n++;
	}
	return n;
}

static bool lists_reader(const struct guard_op_key *k)
{
	return k->acquires && k->entry->shared;
}

bool guard_op_lists_readers(const struct guard_op *op)
{
	for (size_t i = 0; i < op->n; i++)
		if (lists_reader(&op->keys[i]))
			return true;
	return false;
}

size_t guard_op_write_readers(const struct guard_op *op, struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < op->n; i++) {
		if (!lists_reader(&op->keys[i]))
			continue;
		write_done(op->keys[i].entry, GUARD_DONE_READ, out);
		n++;
	}
	return n;
}

static void list_reader(const struct guard_op *op, const struct read_set_entry *e)
{
	if (read_set_entry_db(e) >= 0)
		read_sets_list_reader(op->table, read_set_entry_db(e), read_set_entry_key(e),
		                      e->token, op->sent_at);
}

void guard_op_list_readers(const struct guard_op *op)
{
	for (size_t i = 0; i < op->n; i++)
		if (lists_reader(&op->keys[i]))
			list_reader(op, op->keys[i].entry);
}

void guard_op_unlisted(struct guard_op *op)
{
	op->unlisted = true;
	for (size_t i = 0; i < op->n; i++)
		if (lists_reader(&op->keys[i]))
			read_set_entry_refused(op->keys[i].entry, true, op->sent_at);
}

bool guard_op_is_shared(const struct guard_op *op)
{
	for (size_t i = 0; i < op->n; i++) {
		const struct guard_op_key *k = &op->keys[i];
		if ((k->releases && k->entry->shared) ||
		    is_new_reader(op, k, GUARD_OP_CARRIED_OUT))
			return true;
	}
	return false;
}

void guard_op_release(const struct guard_op *op, enum guard_op_result result, bool acquired)
{
	for (size_t i = 0; i < op->n; i++) {
		const struct read_set_entry *e = op->keys[i].entry;
		enum guard_done done = done_with_key(op, i, result);
		if (done == GUARD_DONE_READ)
			list_reader(op, e);
		else if (is_released(op, i, result, acquired))
			read_set_entry_release(e, done);
	}
}
