/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_events: counts and logs the commands that guards refuse, and the waits for guards.
 * Only Redis knows a guard's owner, and hasp does not ask for it.
 */
#include "client/client_internal.h"

#include "base/clock.h"
#include "client/op.h"
#include "lock/events/stats.h"

/* True if `line` is one of hasp's errors about the guard of `key`. */
static bool is_about(struct slice line, struct slice key)
{
	struct buf locked = BUF_INIT;
	bool result;

	rewrite_guard_locked_error(&locked, key);
	result = slice_starts(buf_slice(&locked), line) || rewrite_guard_is_lost(line, key);
	buf_release(&locked);
	return result;
}

/* Returns the key that the error `line` is about; if there is none, the first key of `op`. */
static const struct guarded_key *refused_key(const struct guard_op *op, struct slice line)
{
	for (size_t i = 0; i < op->n; i++)
		if (is_about(line, op->keys[i].key))
			return &op->keys[i];
	return &op->keys[0];
}

/* Logs an event of a guard. `waited`: in seconds; negative: the client did not wait. */
static void log_guard_event(struct client *c, const struct guarded_key *k, enum lock_event e,
                            double waited)
{
	double now = clock_now();
	int db = read_set_entry_db(k->entry);
	struct event_to_log event;
	const struct read_set_entry *other;

	if (!event_begin(&event, k->entry->stats, e, db, k->key, now))
		return;
	client_describe(c, &event.by);
	event.waited = waited;
	other = read_sets_holder(k->entry->table, db, k->key, k->token, true, now);
	if (other) {
		client_describe(client_of_reader(other->read_set), &event.holder);
		event.held = now - other->since;
	}
	/* hasp does not ask the workers if it knows the holder, if the client itself holds the
	 * guard now, or if the key is only checked and has no holder. */
	if (other || e == LOCK_EVENT_WAITED_LONG || k->checked)
		event_log(&event);
	else
		holders_log_event(c->env, &event, k->token);
}

/* Counts a command that another owner's guard refused. */
static void count_contended(const struct guarded_key *k)
{
	stats_contended(k->entry->stats, CONTENTION_REFUSED, read_set_entry_db(k->entry),
	                read_set_entry_key(k->entry), clock_now());
}

/* Counts and logs the end of the client's wait: see stats_wait_ended(). */
static void count_guard_wait(struct client *c, const struct guarded_key *k, enum lock_event end)
{
	double waited = waiter_waited(c->waiter);

	if (stats_wait_ended(k->entry->stats, end, waited))
		log_guard_event(c, k, end, waited);
}

/* Handles the error `line` for `current`. Ignores errors that are not about guards. */
static void count_refused(struct client *c, struct slice line)
{
	const struct guard_op *op = c->current->guard_op;
	const struct guarded_key *k = refused_key(op, line);

	if (slice_starts(line, SLICE_LIT("-LOCKLOST "))) {
		stats_add(k->entry->stats, STAT_UPDATES_REFUSED);
		read_set_entry_ended(k->entry, clock_now());
		log_guard_event(c, k, LOCK_EVENT_UPDATE_REFUSED, -1);
	} else if (!slice_starts(line, SLICE_LIT("-LOCKED "))) {
		return;
	} else if (c->waiter && (k->acquires || waiter_place(c->waiter))) {
		/* The wait ended before the client joined the queue, so count it here. */
		if (!waiter_place(c->waiter))
			stats_wait_began(k->entry->stats, read_set_entry_db(k->entry),
			                 read_set_entry_key(k->entry), clock_now());
		count_guard_wait(c, k, LOCK_EVENT_WAIT_TIMED_OUT);
	} else if (k->acquires) {
		stats_add(k->entry->stats, STAT_REFUSED);
		count_contended(k);
		log_guard_event(c, k, LOCK_EVENT_LOCK_REFUSED, -1);
	} else {
		stats_add(k->entry->stats, STAT_WRITES_REFUSED);
		count_contended(k);
		log_guard_event(c, k, LOCK_EVENT_WRITE_REFUSED, -1);
	}
}

void guard_events_note(struct client *c, const struct op_event *e)
{
	const struct guard_op *op = c->current->guard_op;
	const struct guarded_key *k = &op->keys[op->queued_at];

	if (e->kind == OP_LINE && slice_starts(e->line, SLICE_LIT("-")))
		count_refused(c, e->line);
	else if (e->kind == OP_GRANTED)
		count_guard_wait(c, k, LOCK_EVENT_WAITED_LONG);
	else if (e->kind == OP_TIMED_OUT)
		count_guard_wait(c, k, LOCK_EVENT_WAIT_TIMED_OUT);
	else if (e->kind == OP_DEADLOCK)
		count_guard_wait(c, k, LOCK_EVENT_DEADLOCK);
}
