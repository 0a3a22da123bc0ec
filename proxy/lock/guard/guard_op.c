/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/guard/guard_op.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "resp/write.h"

/* --- the state machine, of which guard_op.h has the diagrams -------------------------------
 */

/* The result of an event in a phase. If all is zero (GUARD_STEP_NONE), the phase does not allow
 * the event. */
struct transition {
	uint8_t to; /* enum guard_op_phase, or GUARD_OP_NEXT */
	uint8_t step; /* enum guard_op_step */
};

/* Stands for ACQUIRE if hasp must acquire guards before the check, else for CHECK. */
#define GUARD_OP_NEXT GUARD_OP_PHASES

#define ON(phase, event) [GUARD_OP_##phase][GUARD_EVENT_##event]
/* clang-format off */
#define DO(to, step) { GUARD_OP_##to, GUARD_STEP_##step }
/* clang-format on */

/* (Optimistic operations start with TRY.) */
static const struct transition by_script[GUARD_OP_PHASES][GUARD_OP_EVENTS] = {
	ON(NEW, START) = DO(SCRIPTED, SEND_SCRIPT),
	ON(TRY, NOT_FREE) = DO(SCRIPTED, SEND_SCRIPT),
	ON(TRY, REPLY) = DO(DONE, FINISH),
	ON(SCRIPTED, NOSCRIPT) = DO(SCRIPTED, SEND_SCRIPT),
	ON(SCRIPTED, QUEUED) = DO(QUEUED, WAIT),
	ON(SCRIPTED, GRANTED) = DO(EXECUTE, SEND_COMMAND),
	ON(SCRIPTED, REPLY) = DO(DONE, FINISH),
	ON(SCRIPTED, TIMED_OUT) = DO(DONE, TIME_OUT),
	ON(QUEUED, RESUMED) = DO(SCRIPTED, SEND_SCRIPT),
	ON(QUEUED, TIMED_OUT) = DO(DONE, TIME_OUT),
	ON(EXECUTE, REPLY) = DO(DONE, FINISH),
	ON(EXECUTE, RESUMED) = DO(SCRIPTED, SEND_SCRIPT),
	ON(EXECUTE, UNACKED) = DO(DONE, ABORT),
};

/* (guard_op_step() also ends the operation if Redis has refused to queue a command of the
 * transaction, or if the guards have changed too often.) */
static const struct transition by_transaction[GUARD_OP_PHASES][GUARD_OP_EVENTS] = {
	ON(NEW, START) = DO(NEXT, SEND_NEXT),
	ON(ACQUIRE, NOSCRIPT) = DO(ACQUIRE, SEND_NEXT),
	ON(ACQUIRE, QUEUED) = DO(QUEUED, WAIT),
	ON(ACQUIRE, GRANTED) = DO(NEXT, SEND_NEXT),
	ON(ACQUIRE, REFUSED) = DO(DONE, ABORT),
	ON(CHECK, NOSCRIPT) = DO(CHECK, SEND_NEXT),
	ON(CHECK, QUEUED) = DO(QUEUED, WAIT),
	ON(CHECK, GRANTED) = DO(EXECUTE, SEND_EXEC),
	ON(CHECK, REFUSED) = DO(DONE, ABORT),
	ON(CHECK, UNACKED) = DO(DONE, ABORT),
	ON(QUEUED, RESUMED) = DO(NEXT, SEND_NEXT),
	ON(QUEUED, TIMED_OUT) = DO(DONE, TIME_OUT),
	ON(EXECUTE, CHANGED) = DO(NEXT, SEND_NEXT),
	ON(EXECUTE, REPLY) = DO(DONE, FINISH),
};

/* hasp sends the application's MULTI after the check, whatever the result. */
static const struct transition by_watch_multi[GUARD_OP_PHASES][GUARD_OP_EVENTS] = {
	ON(NEW, START) = DO(CHECK, SEND_NEXT),      ON(CHECK, NOSCRIPT) = DO(CHECK, SEND_NEXT),
	ON(CHECK, QUEUED) = DO(DONE, BEGIN_MULTI),  ON(CHECK, GRANTED) = DO(DONE, BEGIN_MULTI),
	ON(CHECK, REFUSED) = DO(DONE, BEGIN_MULTI),
};

/* Redis has watched the guards since before MULTI: if one has changed, EXEC answers nil. */
static const struct transition by_watch_exec[GUARD_OP_PHASES][GUARD_OP_EVENTS] = {
	ON(NEW, START) = DO(EXECUTE, SEND_EXEC),
	ON(EXECUTE, REPLY) = DO(DONE, FINISH),
};

static const struct transition (*const tables[])[GUARD_OP_EVENTS] = {
	[GUARD_OP_SCRIPT] = by_script,         [GUARD_OP_SINGLE] = by_transaction,
	[GUARD_OP_BLOCK] = by_transaction,     [GUARD_OP_WATCH_MULTI] = by_watch_multi,
	[GUARD_OP_WATCH_EXEC] = by_watch_exec,
};

static bool begins_optimistically(const struct guard_op *op, enum guard_op_event event)
{
	return event == GUARD_EVENT_START && op->kind == GUARD_OP_SCRIPT && op->optimistic;
}

/* True if Redis refused to queue a command of the application's transaction: hasp aborts it. */
static bool is_aborted(const struct guard_op *op, enum guard_op_event event)
{
	return event == GUARD_EVENT_GRANTED && op->kind == GUARD_OP_BLOCK && op->aborted;
}

/* Counts a change of the guards. Returns true if they have changed too often. */
static bool gives_up(struct guard_op *op, enum guard_op_event event)
{
	return event == GUARD_EVENT_CHANGED && ++op->attempts >= GUARD_OP_ATTEMPTS;
}

static enum guard_op_phase next_phase(const struct guard_op *op)
{
	for (size_t i = 0; !op->acquired && i < op->n; i++)
		if (guard_op_acquires_first(op, i))
			return GUARD_OP_ACQUIRE;
	return GUARD_OP_CHECK;
}

enum guard_op_step guard_op_step(struct guard_op *op, enum guard_op_event event)
{
	struct transition t = tables[op->kind][op->phase][event];

	if (t.step == GUARD_STEP_NONE)
		return GUARD_STEP_NONE;
	if (begins_optimistically(op, event))
		t = (struct transition)DO(TRY, SEND_TRY);
	else if (is_aborted(op, event))
		t = (struct transition)DO(DONE, ABORT);
	else if (gives_up(op, event))
		t = (struct transition)DO(DONE, GIVE_UP);
	op->phase = t.to == GUARD_OP_NEXT ? next_phase(op) : (enum guard_op_phase)t.to;
	return (enum guard_op_step)t.step;
}

enum guard_op_event guard_op_event_of(struct slice line)
{
	if (slice_starts(line, SLICE_LIT("+QUEUED ")))
		return GUARD_EVENT_QUEUED;
	if (slice_starts(line, SLICE_LIT("+GRANTED")))
		return GUARD_EVENT_GRANTED;
	if (slice_starts(line, SLICE_LIT("-NOSCRIPT")))
		return GUARD_EVENT_NOSCRIPT;
	return GUARD_EVENT_REFUSED;
}

/* --- beginning and end -------------------------------------------------------------- */

/* Returns the end of the lease of a guard that the last request has acquired. */
static double guard_until(const struct guard_op *op, int64_t lease_ms)
{
	return op->sent_at + (double)lease_ms / 1000;
}

struct guard_op *guard_op_new(struct read_sets *table, struct freelist *freelist,
                              struct read_set *r, int db, const struct guarded_command *g,
                              enum guard_op_kind kind, double now)
{
	bool single = g->n == 1;
	struct guard_op *op = single ? freelist_take(freelist)
	                             : xmalloc(sizeof(*op) + g->n * sizeof(*op->keys));

	HASP_ASSERT(g->n < READ_SET_MAX);
	*op = (struct guard_op){
		.kind = kind,
		.table = table,
		.freelist = single ? freelist : NULL,
		.sent_at = now,
		.wait_ms = g->wait_ms,
		.replicas = g->replicas,
		.replicas_timeout_ms = g->replicas_timeout_ms,
		.n = g->n,
	};
	/* When the read set is full, each new entry pushes out an old one, but none of the
	 * latest r->nkept. So first move the existing entries of this operation to the latest
	 * end. */
	for (size_t i = 0; g->n > 1 && i < g->n; i++)
		read_set_keep(table, r, db, g->keys[i].key);
	r->nkept = (uint32_t)g->n;
	for (size_t i = 0; i < g->n; i++) {
		struct guarded_key *k = &op->keys[i];
		*k = g->keys[i];
		k->must_own = k->held;
		k->entry = read_set_add(table, r, db, k, guard_until(op, k->lease_ms));
		k->key = read_set_entry_key(k->entry);
		k->token = k->entry->token;
	}
	r->nkept = 0;
	return op;
}

struct guard_op *guard_op_of_read_set(struct read_sets *table, struct freelist *freelist,
                                      struct read_set *r, int db, double now)
{
	struct guarded_key *keys = xcalloc(r->n, sizeof(*keys));
	struct guarded_command g = { .keys = keys };
	struct guard_op *op = NULL;

	list_each (const struct read_set_entry, e, &r->entries, node) {
		/* (A lost guard needs no check. A key with strategy = check needs none, because
		 * the application's own WATCH covers it.) */
		if (!e->read || e->lost || e->checked || read_set_entry_db(e) != db)
			continue;
		keys[g.n++] = (struct guarded_key){
			.key = read_set_entry_key(e),
			.token = e->token,
			.lease_ms = e->lease_ms,
			.held = true,
			.release = e->release,
			.stats = e->stats,
		};
	}
	g.n = rewrite_guard_sort(keys, g.n);
	if (g.n && g.n < READ_SET_MAX)
		op = guard_op_new(table, freelist, r, db, &g, GUARD_OP_WATCH_MULTI, now);
	if (op)
		op->writes = true;
	free(keys);
	return op;
}

void guard_op_free(struct guard_op *op)
{
	if (!op)
		return;
	buf_release(&op->block);
	buf_release(&op->error);
	if (op->freelist)
		freelist_give(op->freelist, op);
	else
		free(op);
}

size_t guard_op_nbytes(const struct guard_op *op)
{
	return sizeof(*op) + op->n * sizeof(*op->keys) + buf_cap(&op->block) +
	       buf_cap(&op->error);
}

/* --- requests -------------------------------------------------------------------------- */

void guard_op_sent(struct guard_op *op, struct slice ticket, double now)
{
	HASP_ASSERT(ticket.n < sizeof(op->ticket));
	if (ticket.n)
		memcpy(op->ticket, ticket.p, ticket.n);
	op->ticket[ticket.n] = '\0';
	op->sent_at = now;
	for (size_t i = 0; i < op->n; i++)
		read_set_entry_sent(op->keys[i].entry, now,
		                    guard_until(op, op->keys[i].lease_ms));
}

/* Returns the command of a call that a script gets now, with all keys of the operation. */
static struct guarded_command begin_call(struct guard_op *op, const struct rewrite_opts *opts)
{
	for (size_t i = 0; i < op->n; i++) {
		struct guarded_key *k = &op->keys[i];
		k->held = k->must_own || k->entry->read || op->acquired;
		k->lost = k->entry->lost && k->entry->read;
	}
	return (struct guarded_command){
		.keys = op->keys,
		.n = op->n,
		.wait_ms = opts->wait_max_ms < op->wait_ms ? opts->wait_max_ms : op->wait_ms,
	};
}

static enum key_naming guard_op_naming(const struct guard_op *op)
{
	return script_jobs_naming(read_sets_jobs(op->table));
}

void guard_op_write_try(struct guard_op *op, struct buf *out, const struct resp_view *req)
{
	const struct guarded_key *k = op->keys;

	HASP_ASSERT(op->n == 1);
	op->due = OPTIMISTIC_PREFIX;
	rewrite_guard_optimistic(out, req, k->key, k->token, k->lease_ms, guard_op_naming(op));
}

void guard_op_write_script(struct guard_op *op, struct buf *out, const struct resp_view *req,
                           struct command_keys all, const struct rewrite_opts *opts)
{
	struct rewrite_opts placeless;
	struct guarded_command g = begin_call(op, opts);

	g.req = req;
	g.apart = op->script == GUARD_OP_READ_APART;
	g.all = all;
	/* With several keys, hasp does not know to which key's queue opts->place belongs. */
	if (op->n > 1 && opts->place != GUARD_READ_IN_RESP3) {
		placeless = *opts;
		placeless.place = 0;
		opts = &placeless;
	}
	if (op->script == GUARD_OP_WRITE)
		rewrite_guard_write(out, &g, opts);
	else
		rewrite_guard_read(out, &g, opts);
}

/* Writes a WATCH of the guards; if strategy = check, of the guarded keys. */
static void write_watch(const struct guard_op *op, struct buf *out, enum key_naming naming)
{
	resp_write_array(out, 1 + op->n);
	resp_write_bulk_str(out, "WATCH");
	for (size_t i = 0; i < op->n; i++) {
		if (op->keys[i].checked)
			resp_write_bulk(out, op->keys[i].key);
		else
			key_names_write_bulk(out, naming, KEY_NAME_GUARD, op->keys[i].key);
	}
}

unsigned guard_op_write_next(struct guard_op *op, struct buf *out,
                             const struct rewrite_opts *opts)
{
	struct guarded_command g = begin_call(op, opts);
	struct guarded_key *first;

	g.apart = true;
	if (op->phase != GUARD_OP_ACQUIRE) {
		write_watch(op, out, opts->naming);
		rewrite_guard_write(out, &g, opts);
		return 1;
	}
	first = xcalloc(op->n, sizeof(*first));
	g.keys = first;
	g.n = 0;
	for (size_t i = 0; i < op->n; i++)
		if (guard_op_acquires_first(op, i))
			first[g.n++] = op->keys[i];
	rewrite_guard_read(out, &g, opts);
	free(first);
	return 0;
}

/* --- answers ------------------------------------------------------------------------------ */

bool guard_op_tried(struct guard_op *op, const struct resp_reply *reply)
{
	if (--op->due) {
		op->has_waiters = reply->type != ':' || reply->integer != 0;
		return true;
	}
	op->acquired = reply->type == '+';
	return op->acquired && !op->has_waiters;
}

void guard_op_granted(struct guard_op *op, struct slice line)
{
	bool unread = slice_starts(line, SLICE_LIT("+GRANTED anew"));

	if (op->kind == GUARD_OP_SCRIPT) {
		if (!unread)
			return;
		for (size_t i = 0; i < op->n; i++)
			op->keys[i].entry->lost = true;
	} else if (op->phase != GUARD_OP_ACQUIRE) {
		return;
	}
	op->acquired = true;
}

void guard_op_refused(struct guard_op *op, struct slice line)
{
	struct guarded_key *lost = NULL;

	op->answered = slice_starts(line, SLICE_LIT("-WRONGTYPE "));
	for (size_t i = 0; i < op->n; i++) {
		if (!rewrite_guard_is_lost(line, op->keys[i].key))
			continue;
		/* The error shortens long names. If two keys match, either may be lost. */
		if (lost)
			return;
		lost = &op->keys[i];
	}
	if (!lost)
		return;
	/* (MULTI writes nothing, so the read still counts.) */
	if (op->kind == GUARD_OP_WATCH_MULTI) {
		lost->entry->lost = true;
		return;
	}
	lost->entry->read = false;
	lost->told = lost->writes;
}

/* Returns the try for the guard of key `i`, with the guard's name in `name`. */
static struct attempt guard_try(const struct guard_op *op, size_t i, struct buf *name)
{
	const struct guarded_key *k = &op->keys[i];

	buf_clear(name);
	key_names_write(name, guard_op_naming(op), KEY_NAME_GUARD, k->key);
	return (struct attempt){
		.id = { LOCK_KIND_GUARD, buf_slice(name), k->token },
		.value = k->token,
		.ticket = slice_str(op->ticket),
		.place = -1,
		.lease_ms = k->lease_ms,
	};
}

bool guard_op_awaits_replicas(const struct guard_op *op)
{
	return op->replicas && op->acquired;
}

struct attempt guard_op_granted_try(const struct guard_op *op, struct buf *name)
{
	size_t i = 0;

	while (i < op->n && !op->keys[i].acquires)
		i++;
	HASP_ASSERT(i < op->n);
	return guard_try(op, i, name);
}

/* Returns the index in op->keys of the key with index `i` in the request; op->n: none. */
static size_t sent_key(const struct guard_op *op, size_t i)
{
	for (size_t at = 0; at < op->n; at++) {
		if (op->phase == GUARD_OP_ACQUIRE && !guard_op_acquires_first(op, at))
			continue;
		if (i-- == 0)
			return at;
	}
	return op->n;
}

bool guard_op_queue(struct guard_op *op, struct slice line, struct buf *name, struct attempt *t)
{
	const char *last = memrchr(line.p, ' ', line.n);
	size_t number = last ? strtoul(last, NULL, 10) : 0;
	size_t i = number ? sent_key(op, number - 1) : op->n;

	if (i == op->n)
		return false;
	op->queued_at = i;
	/* Another owner has the guard. */
	op->keys[i].entry->lost = true;
	*t = guard_try(op, i, name);
	return true;
}

struct slice guard_op_queued_key(const struct guard_op *op)
{
	return op->keys[op->queued_at].key;
}

/* Counts a read that has acquired its guard, or a write that has released it. */
static void count_outcome(const struct guard_op *op, const struct guarded_key *k,
                          enum guard_op_result result)
{
	struct read_set_entry *e = k->entry;

	if (result == GUARD_OP_FAILED)
		return;
	if (k->acquires && !e->read) {
		stats_add(e->stats, STAT_ACQUIRED);
		e->counts_from = op->sent_at;
	} else if (k->releases && e->read && result == GUARD_OP_CARRIED_OUT) {
		stats_add(e->stats, STAT_RELEASED);
		read_set_entry_ended(e, op->sent_at);
	}
}

/* True if the key counted as read without an entry, and must again count as read: the client
 * has got no -LOCKLOST for the key. */
static bool counts_without_entry(const struct guarded_key *k)
{
	return k->must_own && !k->told && !k->entry->read;
}

void guard_op_withdraw(struct guard_op *op)
{
	for (size_t i = 0; i < op->n; i++)
		if (counts_without_entry(&op->keys[i]))
			read_set_entry_drop(op->keys[i].entry);
}

void guard_op_complete(struct guard_op *op, enum guard_op_result result)
{
	for (size_t i = 0; i < op->n; i++) {
		struct guarded_key *k = &op->keys[i];
		count_outcome(op, k, result);
		if (k->acquires && result == GUARD_OP_FAILED && !op->answered && !k->told)
			read_set_entry_refused(k->entry);
		else if (k->acquires && result != GUARD_OP_FAILED)
			read_set_entry_read(k->entry);
		else if (result == GUARD_OP_FAILED && counts_without_entry(k))
			read_set_entry_drop(k->entry);
		else if (!k->entry->read || (result == GUARD_OP_CARRIED_OUT && k->releases))
			read_set_entry_over(k->entry);
	}
}

void guard_op_assume(struct guard_op *op)
{
	for (size_t i = 0; i < op->n; i++) {
		struct read_set_entry *e = op->keys[i].entry;
		if (!op->writes || op->keys[i].acquires)
			read_set_entry_read(e);
		else if (!e->read || op->keys[i].releases)
			read_set_entry_over(e);
	}
	guard_op_free(op);
}

/* Repeats the undo: the request may still be on its way to Redis, over a connection that hasp
 * has closed. */
void guard_op_undo(struct guard_op *op, bool keeps_read)
{
	struct buf name = BUF_INIT;

	for (size_t i = 0; i < op->n && op->phase != GUARD_OP_NEW; i++) {
		struct attempt t = guard_try(op, i, &name);
		double until = guard_until(op, op->keys[i].lease_ms + op->wait_ms);
		int db = read_set_entry_db(op->keys[i].entry);
		struct job_call call;
		if (db < 0 || op->keys[i].checked || (keeps_read && op->keys[i].entry->read))
			continue;
		call = script_jobs_call(read_sets_jobs(op->table), db);
		call.script = rewrite_dequeue(&call.bytes, &t, true, &call.opts);
		/* The script searches the queue from the start of the wait: the place may be as
		 * old as that. */
		script_job_repeat(&call, op->sent_at - (double)op->wait_ms / 1000, op->sent_at,
		                  until);
	}
	buf_release(&name);
}

/* --- release --------------------------------------------------------------------------- */

static bool is_released(const struct guarded_key *k, enum guard_op_result result, bool acquired)
{
	if (k->checked)
		return false;
	if (result == GUARD_OP_CARRIED_OUT && k->releases)
		return true;
	if (!acquired || (result != GUARD_OP_FAILED && k->acquires))
		return false;
	return !k->entry->read || k->entry->lost;
}

static void write_release(const struct read_set_entry *e, struct buf *out)
{
	struct rewrite_opts opts = script_jobs_opts(read_sets_jobs(e->table),
	                                            read_set_entry_db(e));

	opts.eval = true;
	(void)rewrite_guard_release(out, read_set_entry_key(e), e->token, &opts);
}

size_t guard_op_write_release(const struct guard_op *op, enum guard_op_result result,
                              bool acquired, struct buf *out)
{
	size_t n = 0;

	for (size_t i = 0; i < op->n; i++) {
		if (!is_released(&op->keys[i], result, acquired))
			continue;
		write_release(op->keys[i].entry, out);
		n++;
	}
	return n;
}

void guard_op_release(const struct guard_op *op, enum guard_op_result result, bool acquired)
{
	for (size_t i = 0; i < op->n; i++)
		if (is_released(&op->keys[i], result, acquired))
			read_set_entry_release(op->keys[i].entry);
}
