/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/guard/guard_op.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/freelist.h"
#include "lock/scripts/script_call.h"
#include "lock/model/lock_id.h"
#include "resp/write.h"

/* How often a try that may still be on its way is undone. */
#define UNDO_TIMES 6

struct read_sets {
	struct script_jobs *script_jobs;
	struct map by_id;
	struct buf room;
	struct freelist small; /* readings that fit in SMALL_SIZE */
	struct freelist single; /* calls for one key */
};

/* Room for a reading with a key and a token as they mostly are. */
#define SMALL_SIZE (sizeof(struct read_set_entry) + 160)
#define SINGLE_SIZE (sizeof(struct guard_op) + sizeof(struct guard_op_key))

struct read_sets *read_sets_new(struct script_jobs *script_jobs)
{
	struct read_sets *table = xcalloc(1, sizeof(*table));

	table->script_jobs = script_jobs;
	map_init(&table->by_id, (uint64_t)(uintptr_t)table);
	freelist_init(&table->small, SMALL_SIZE);
	freelist_init(&table->single, SINGLE_SIZE);
	return table;
}

void read_sets_free(struct read_sets *table)
{
	HASP_ASSERT(table->by_id.n == 0);
	map_fini(&table->by_id);
	buf_release(&table->room);
	freelist_fini(&table->small);
	freelist_fini(&table->single);
	free(table);
}

void read_set_init(struct read_set *r)
{
	*r = (struct read_set){ .n = 0 };
	list_init(&r->read_sets);
}

static struct read_set_entry *read_set_entry_of(struct map_node *node)
{
	return node ? container_of(node, struct read_set_entry, by_id) : NULL;
}

struct read_set_entry *read_set_find(struct read_sets *table, const struct read_set *r, int db,
                                     struct slice key)
{
	struct map_node *node;

	if (r->n == 0)
		return NULL;
	node = map_get(&table->by_id, lock_id_write(&table->room, db, key));
	while (node && read_set_entry_of(node)->read_set != r)
		node = map_next(node);
	return read_set_entry_of(node);
}

static int db_of(const struct read_set_entry *x)
{
	return lock_id_db(x->by_id.key);
}

struct slice read_set_entry_key(const struct read_set_entry *x)
{
	return lock_id_key(x->by_id.key);
}

/* Its own size, and what stands behind it. */
static size_t size_of(struct slice id, struct slice token)
{
	return sizeof(struct read_set_entry) + id.n + token.n;
}

static void read_set_remove(struct read_set_entry *x)
{
	bool is_small = size_of(x->by_id.key, x->token) <= SMALL_SIZE;

	map_remove(&x->table->by_id, &x->by_id);
	list_remove(&x->node);
	x->read_set->n--;
	if (is_small)
		freelist_give(&x->table->small, x);
	else
		free(x);
}

static void read_set_make_room(struct read_set *r)
{
	if (r->n < READ_SET_MAX)
		return;
	r->overflowed = true;
	read_set_remove(container_of(r->read_sets.next, struct read_set_entry, node));
}

/* The one there is, or a new one. The guard will be good until `until` if it is got now. */
static struct read_set_entry *read_set_add(struct read_sets *table, struct read_set *r, int db,
                                           const struct guarded_key *k, double until)
{
	struct read_set_entry *x = read_set_find(table, r, db, k->key);
	struct slice id;
	char *bytes;
	bool renamed = false;

	if (x && !slice_eq(x->token, k->token)) {
		renamed = x->read;
		read_set_remove(x);
		x = NULL;
	}
	if (x) {
		x->until = until;
		x->release = k->release;
		x->lease_ms = k->lease_ms;
		list_remove(&x->node);
		list_append(&r->read_sets, &x->node);
		return x;
	}
	read_set_make_room(r);
	id = lock_id_write(&table->room, db, k->key);
	x = size_of(id, k->token) <= SMALL_SIZE ? freelist_take(&table->small)
	                                        : xmalloc(size_of(id, k->token));
	bytes = (char *)(x + 1);
	memcpy(bytes, id.p, id.n);
	memcpy(bytes + id.n, k->token.p, k->token.n);
	*x = (struct read_set_entry){
		.by_id.key = slice_of(bytes, id.n),
		.read_set = r,
		.table = table,
		.token = slice_of(bytes + id.n, k->token.n),
		.until = until,
		.read = renamed,
		.renamed = renamed,
		.release = k->release,
		.shared = k->shared,
		.lease_ms = k->lease_ms,
	};
	map_put(&table->by_id, &x->by_id);
	list_append(&r->read_sets, &x->node);
	r->n++;
	return x;
}

static void read_set_release(const struct read_set_entry *x, enum guard_done done)
{
	struct buf out = BUF_INIT;
	enum script_id script = rewrite_guard_release(&out, read_set_entry_key(x), x->token,
	                                              x->shared, done);

	/* Later it is over anyway. */
	script_job_run(x->table->script_jobs, db_of(x), script, buf_slice(&out), x->until, NULL,
	               NULL);
	buf_release(&out);
}

void read_set_end(struct read_set *r)
{
	while (!list_empty(&r->read_sets)) {
		struct read_set_entry *x = container_of(r->read_sets.next,
		                                        struct read_set_entry, node);
		if (x->release && db_of(x) >= 0 && x->until > clock_now())
			read_set_release(x, GUARD_DONE_NOTHING);
		read_set_remove(x);
	}
}

/* --- calls -------------------------------------------------------------------- */

static void set_ticket(struct guard_op *call, struct slice ticket)
{
	HASP_ASSERT(ticket.n < sizeof(call->ticket));
	if (ticket.n)
		memcpy(call->ticket, ticket.p, ticket.n);
	call->ticket[ticket.n] = '\0';
	call->sent_at = clock_now();
}

/* When a guard is over that this try takes. */
static double until(const struct guard_op *call, int64_t lease_ms)
{
	return call->sent_at + (double)lease_ms / 1000;
}

struct guard_op *guard_op_new(struct read_sets *table, struct read_set *r, int db,
                              const struct guarded_command *g, bool writes, struct slice ticket)
{
	struct guard_op *call = g->n == 1 ? freelist_take(&table->single)
	                                  : xmalloc(sizeof(*call) + g->n * sizeof(*call->keys));

	HASP_ASSERT(g->n < READ_SET_MAX);
	*call = (struct guard_op){
		.table = table,
		.writes = writes,
		.wait_ms = g->wait_ms,
		.n = g->n,
	};
	set_ticket(call, ticket);
	/* Those that there are must not make room for the others. */
	for (size_t i = 0; g->n > 1 && i < g->n; i++) {
		struct read_set_entry *x = read_set_find(table, r, db, g->keys[i].key);
		if (x) {
			list_remove(&x->node);
			list_append(&r->read_sets, &x->node);
		}
	}
	for (size_t i = 0; i < g->n; i++) {
		const struct guarded_key *k = &g->keys[i];
		call->keys[i] = (struct guard_op_key){
			.read_set_entry = read_set_add(table, r, db, k,
			                               until(call, k->lease_ms)),
			.lease_ms = k->lease_ms,
			.writes = k->writes,
			.acquires = k->acquires,
			.releases = k->releases,
			.must_own = k->held,
		};
	}
	return call;
}

struct guard_op *guard_op_of_read_set(struct read_sets *table, struct read_set *r, int db)
{
	struct guarded_key *keys = xcalloc(r->n, sizeof(*keys));
	struct guarded_command g = { .keys = keys };
	struct guard_op *call = NULL;
	struct list *at;

	for (at = r->read_sets.next; at != &r->read_sets; at = at->next) {
		const struct read_set_entry *x = container_of(at, struct read_set_entry, node);
		if (!x->read || db_of(x) != db)
			continue;
		keys[g.n++] = (struct guarded_key){
			.key = read_set_entry_key(x),
			.token = x->token,
			.lease_ms = x->lease_ms,
			.shared = x->shared,
			.held = true,
			.release = x->release,
		};
	}
	g.n = rewrite_guard_sort(keys, g.n);
	if (g.n && g.n < READ_SET_MAX)
		call = guard_op_new(table, r, db, &g, true, SLICE_NONE);
	free(keys);
	return call;
}

void guard_op_free(struct guard_op *call)
{
	if (!call)
		return;
	buf_release(&call->block);
	buf_release(&call->error);
	buf_release(&call->answer);
	if (call->n == 1)
		freelist_give(&call->table->single, call);
	else
		free(call);
}

bool guard_op_takes(const struct guard_op *call, size_t i)
{
	const struct guard_op_key *p = &call->keys[i];

	/* What a shared owner has read, another of its connections may have written since. */
	if (call->kind == GUARD_OP_BLOCK)
		return !p->read_set_entry->read || (p->read_set_entry->shared && p->acquires);
	return call->kind == GUARD_OP_SINGLE && p->acquires;
}

size_t guard_op_key_at(const struct guard_op *call, size_t i)
{
	for (size_t at = 0; at < call->n; at++) {
		if (call->taking && !guard_op_takes(call, at))
			continue;
		if (i-- == 0)
			return at;
	}
	return call->n;
}

struct lock_try guard_op_try(const struct guard_op *call, size_t i, struct buf *name)
{
	const struct read_set_entry *x = call->keys[i].read_set_entry;

	buf_clear(name);
	rewrite_guard_name(name, read_set_entry_key(x));
	return (struct lock_try){
		/* What others of its owner have read under is not this try's. */
		.id = { LOCK_KIND_GUARD, buf_slice(name),
		        x->shared ? SLICE_LIT("-") : x->token },
		.value = x->token,
		.ticket = slice_str(call->ticket),
		.place = -1,
	};
}

void guard_op_failed(struct guard_op *call, struct slice line)
{
	struct read_set_entry *told = NULL;

	for (size_t i = 0; i < call->n; i++) {
		struct read_set_entry *x = call->keys[i].read_set_entry;
		if (!rewrite_guard_is_lost(line, read_set_entry_key(x)))
			continue;
		/* Of names that begin alike, it is not known which one was meant. */
		if (told)
			return;
		told = x;
	}
	if (told)
		told->read = false;
}

void guard_op_granted(struct guard_op *call, struct slice line)
{
	if (!slice_starts(line, SLICE_LIT("+GRANTED anew")))
		return;
	call->taken = call->is_new = true;
	for (size_t i = 0; i < call->n; i++)
		call->keys[i].read_set_entry->lost = true;
}

static void read_set_entry_read(struct read_set_entry *x)
{
	x->read = true;
	x->renamed = x->lost = false;
}

static void read_set_entry_over(struct read_set_entry *x)
{
	x->read = x->renamed = x->lost = false;
	if (!x->read_set->overflowed)
		read_set_remove(x);
}

void guard_op_complete(struct guard_op *call, enum guard_op_result read_set_remove)
{
	for (size_t i = 0; i < call->n; i++) {
		struct guard_op_key *p = &call->keys[i];
		if (read_set_remove != GUARD_OP_FAILED && p->acquires)
			read_set_entry_read(p->read_set_entry);
		else if (!p->read_set_entry->read ||
		         (read_set_remove == GUARD_OP_DONE && p->releases))
			read_set_entry_over(p->read_set_entry);
	}
}

void guard_op_assume(struct guard_op *call)
{
	for (size_t i = 0; i < call->n; i++) {
		struct read_set_entry *x = call->keys[i].read_set_entry;
		if (!call->writes || call->keys[i].acquires)
			read_set_entry_read(x);
		else if (!x->read || call->keys[i].releases)
			read_set_entry_over(x);
	}
	guard_op_free(call);
}

/* The try may still be on its way, over a connection that is closed at our end. */
void guard_op_undo(struct guard_op *call)
{
	struct buf name = BUF_INIT, out = BUF_INIT;

	for (size_t i = 0; i < call->n; i++) {
		struct lock_try t = guard_op_try(call, i, &name);
		double until = call->sent_at +
		               (double)(call->keys[i].lease_ms + call->wait_ms) / 1000;
		enum script_id script;
		int db = db_of(call->keys[i].read_set_entry);
		if (db < 0)
			continue;
		buf_clear(&out);
		script = rewrite_leave(&out, &t, true);
		script_job_repeat(call->table->script_jobs, db, script, buf_slice(&out), until,
		                  UNDO_TIMES);
	}
	buf_release(&out);
	buf_release(&name);
}

/* A shared owner was noted as one who has read before it had, and then nothing was read: with
 * the guard, what it read earlier would be good again. */
static bool acquired_in_vain(const struct guard_op *call, size_t i,
                             enum guard_op_result read_set_remove)
{
	return read_set_remove == GUARD_OP_FAILED && call->is_new &&
	       call->keys[i].read_set_entry->shared &&
	       (call->kind == GUARD_OP_SCRIPT || guard_op_takes(call, i));
}

static bool is_done_with(const struct guard_op *call, size_t i,
                         enum guard_op_result read_set_remove, bool took)
{
	const struct guard_op_key *p = &call->keys[i];

	if (acquired_in_vain(call, i, read_set_remove))
		return true;
	if (read_set_remove == GUARD_OP_DONE && p->releases)
		return true;
	if (!took || (read_set_remove != GUARD_OP_FAILED && p->acquires))
		return false;
	return !p->read_set_entry->read || p->read_set_entry->lost;
}

/* Has a shared owner read without having been noted? What its connection takes for read,
 * another one of them may have written since; nor was anything taken inside the application's
 * own WATCH. */
static bool must_note(const struct guard_op *call, const struct guard_op_key *p,
                      enum guard_op_result read_set_remove)
{
	return call->kind == GUARD_OP_WATCHED && read_set_remove != GUARD_OP_FAILED &&
	       p->acquires && p->read_set_entry->shared;
}

/* Of those who share a token, another may have the guard and have read. */
static enum guard_done done_with(const struct guard_op *call, size_t i,
                                 enum guard_op_result read_set_remove)
{
	if (must_note(call, &call->keys[i], read_set_remove))
		return GUARD_DONE_READ;
	if (read_set_remove == GUARD_OP_DONE)
		return GUARD_DONE_WRITTEN;
	if (call->keys[i].read_set_entry->shared && !acquired_in_vain(call, i, read_set_remove))
		return GUARD_DONE_UNREAD;
	return GUARD_DONE_NOTHING;
}

size_t guard_op_write_release(const struct guard_op *call, enum guard_op_result read_set_remove,
                              bool took, struct buf *out)
{
	struct buf evalsha = BUF_INIT;
	size_t n = 0;

	for (size_t i = 0; i < call->n; i++) {
		const struct read_set_entry *x = call->keys[i].read_set_entry;
		enum guard_done done = done_with(call, i, read_set_remove);
		enum script_id script;
		if (done != GUARD_DONE_READ && !is_done_with(call, i, read_set_remove, took))
			continue;
		buf_clear(&evalsha);
		script = rewrite_guard_release(&evalsha, read_set_entry_key(x), x->token,
		                               x->shared, done);
		script_call_write_as_eval(out, script, buf_slice(&evalsha));
		n++;
	}
	buf_release(&evalsha);
	return n;
}

bool guard_op_is_shared(const struct guard_op *call)
{
	for (size_t i = 0; i < call->n; i++) {
		const struct guard_op_key *p = &call->keys[i];
		if ((p->releases && p->read_set_entry->shared) ||
		    must_note(call, p, GUARD_OP_DONE))
			return true;
	}
	return false;
}

void guard_op_release(const struct guard_op *call, enum guard_op_result read_set_remove,
                      bool took)
{
	for (size_t i = 0; i < call->n; i++)
		if (is_done_with(call, i, read_set_remove, took))
			read_set_release(call->keys[i].read_set_entry,
			                 done_with(call, i, read_set_remove));
}

/* For another try, with another ticket. */
static struct guarded_command begin_try(struct guard_op *call, struct guarded_key *keys,
                                        struct rewrite_how how)
{
	set_ticket(call, how.ticket);
	for (size_t i = 0; i < call->n; i++)
		call->keys[i].read_set_entry->until = until(call, call->keys[i].lease_ms);
	return (struct guarded_command){
		.keys = keys,
		.wait_ms = how.wait_max_ms < call->wait_ms ? how.wait_max_ms : call->wait_ms,
	};
}

static struct guarded_key key_of(const struct guard_op *call, size_t i)
{
	const struct guard_op_key *p = &call->keys[i];
	const struct read_set_entry *x = p->read_set_entry;

	return (struct guarded_key){
		.key = read_set_entry_key(x),
		.token = x->token,
		.lease_ms = p->lease_ms,
		.shared = x->shared,
		.lost = x->lost && x->read,
		.held = x->renamed || (x->lost && x->read) ||
		        (!x->shared && (x->read || p->must_own || call->taken)),
		.writes = p->writes,
		.releases = p->releases,
	};
}

void guard_op_write_check(struct guard_op *call, struct buf *out, struct rewrite_how how)
{
	struct guarded_key *keys = xcalloc(call->n, sizeof(*keys));
	struct guarded_command g = begin_try(call, keys, how);

	call->taking = false;
	for (size_t i = 0; i < call->n; i++)
		keys[g.n++] = key_of(call, i);
	rewrite_guard_check(out, &g, how);
	free(keys);
}

void guard_op_write_acquire(struct guard_op *call, struct buf *out, struct rewrite_how how)
{
	struct guarded_key *keys = xcalloc(call->n, sizeof(*keys));
	struct guarded_command g = begin_try(call, keys, how);

	call->taking = true;
	for (size_t i = 0; i < call->n; i++)
		if (guard_op_takes(call, i))
			keys[g.n++] = key_of(call, i);
	rewrite_guard_read(out, &g, how, true);
	free(keys);
}

void guard_op_write_watch(const struct guard_op *call, struct buf *out)
{
	struct buf name = BUF_INIT;

	resp_write_array(out, 1 + call->n);
	resp_write_bulk_str(out, "WATCH");
	for (size_t i = 0; i < call->n; i++) {
		buf_clear(&name);
		rewrite_guard_name(&name, read_set_entry_key(call->keys[i].read_set_entry));
		resp_write_bulk(out, buf_slice(&name));
	}
	buf_release(&name);
}

bool guard_op_must_acquire(const struct guard_op *call)
{
	if (call->taken)
		return false;
	for (size_t i = 0; i < call->n; i++)
		if (guard_op_takes(call, i))
			return true;
	return false;
}

unsigned guard_op_write_next(struct guard_op *call, struct rewrite_how how, struct buf *out)
{
	if (guard_op_must_acquire(call)) {
		guard_op_write_acquire(call, out, how);
		return 0;
	}
	guard_op_write_watch(call, out);
	guard_op_write_check(call, out, how);
	return 1;
}
