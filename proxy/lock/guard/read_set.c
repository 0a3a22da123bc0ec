/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/guard/read_set.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/freelist.h"
#include "lock/model/lock_id.h"

struct read_sets {
	struct script_jobs *jobs;
	struct map by_id, by_lock;
	struct buf scratch;
	struct freelist small; /* memory of entries of at most SMALL_SIZE bytes */
	read_sets_describe_fn *describe; /* NULL: logs name no connection */
};

/* In a read set with at most this many entries, hasp compares the keys one by one. */
#define FEW 4

/* Size of an entry with a key and a token of usual length, in bytes. */
#define SMALL_SIZE (sizeof(struct read_set_entry) + 160)

struct read_sets *read_sets_new(struct script_jobs *jobs, read_sets_describe_fn *describe)
{
	struct read_sets *table = xcalloc(1, sizeof(*table));

	table->jobs = jobs;
	table->describe = describe;
	map_init(&table->by_id);
	map_init(&table->by_lock);
	freelist_init(&table->small, SMALL_SIZE);
	return table;
}

void read_sets_free(struct read_sets *table)
{
	HASP_ASSERT(table->by_id.n == 0);
	map_fini(&table->by_id);
	map_fini(&table->by_lock);
	buf_release(&table->scratch);
	freelist_fini(&table->small);
	free(table);
}

struct script_jobs *read_sets_jobs(const struct read_sets *table)
{
	return table->jobs;
}

/* --- the read set of a connection ------------------------------------------------------ */

void read_set_init(struct read_set *r)
{
	*r = (struct read_set){ .n = 0 };
	list_init(&r->entries);
}

void read_set_overflow(struct read_set *r)
{
	r->overflowed = r->unchecked = true;
}

static struct read_set_entry *entry_of(struct map_node *node)
{
	return node ? container_of(node, struct read_set_entry, by_id) : NULL;
}

static size_t id_size(struct slice key)
{
	return sizeof(uintptr_t) + sizeof(int) + key.n;
}

/* Writes the id of an entry to `p`: its read set, database and key. */
static struct slice write_id(char *p, const struct read_set *r, int db, struct slice key)
{
	const uintptr_t whose = (uintptr_t)r;

	memcpy(p, &whose, sizeof(whose));
	memcpy(p + sizeof(whose), &db, sizeof(db));
	if (key.n)
		memcpy(p + sizeof(whose) + sizeof(db), key.p, key.n);
	return slice_of(p, id_size(key));
}

/* Returns the entry's database and key: its id without the read set. */
static struct slice lock_id_of(const struct read_set_entry *e)
{
	struct slice id = e->by_id.key;

	return slice_of(id.p + sizeof(uintptr_t), id.n - sizeof(uintptr_t));
}

int read_set_entry_db(const struct read_set_entry *e)
{
	return lock_id_db(lock_id_of(e));
}

struct slice read_set_entry_key(const struct read_set_entry *e)
{
	return lock_id_key(lock_id_of(e));
}

/* Returns the key's entry; NULL: there is none. For a read set with few entries. */
static struct read_set_entry *find_among_few(const struct read_set *r, int db, struct slice key)
{
	list_each (struct read_set_entry, e, &r->entries, node) {
		if (read_set_entry_db(e) == db && slice_eq(read_set_entry_key(e), key))
			return e;
	}
	return NULL;
}

struct read_set_entry *read_set_find(struct read_sets *table, const struct read_set *r, int db,
                                     struct slice key)
{
	struct map_node *node;
	char *id;

	if (r->n <= FEW)
		return find_among_few(r, db, key);
	buf_clear(&table->scratch);
	id = buf_reserve(&table->scratch, id_size(key));
	node = map_get(&table->by_id, write_id(id, r, db, key));
	buf_trim(&table->scratch);
	return entry_of(node);
}

/* Returns the size of an entry, with its id and token, which follow the struct. */
static size_t entry_size(size_t nid, size_t ntoken)
{
	return sizeof(struct read_set_entry) + nid + ntoken;
}

void read_set_entry_drop(struct read_set_entry *e)
{
	size_t size = entry_size(e->by_id.key.n, e->token.n);

	map_remove(&e->table->by_id, &e->by_id);
	map_remove(&e->table->by_lock, &e->by_lock);
	list_remove(&e->node);
	e->read_set->n--;
	e->read_set->nbytes -= size;
	if (size <= SMALL_SIZE)
		freelist_give(&e->table->small, e);
	else
		free(e);
}

static void make_latest(struct read_set_entry *e)
{
	list_move(&e->read_set->entries, &e->node);
}

void read_set_keep(struct read_sets *table, struct read_set *r, int db, struct slice key)
{
	struct read_set_entry *e = read_set_find(table, r, db, key);

	if (e)
		make_latest(e);
}

static struct read_set_entry *entry_new(struct read_sets *table, struct read_set *r, int db,
                                        const struct guarded_key *k)
{
	size_t nid = id_size(k->key), size = entry_size(nid, k->token.n);
	struct read_set_entry *e = size <= SMALL_SIZE ? freelist_take(&table->small)
	                                              : xmalloc(size);
	char *bytes = (char *)(e + 1);

	memcpy(bytes + nid, k->token.p, k->token.n);
	*e = (struct read_set_entry){
		.by_id.key = write_id(bytes, r, db, k->key),
		.read_set = r,
		.table = table,
		.token = slice_of(bytes + nid, k->token.n),
		.checked = k->checked,
	};
	e->by_lock.key = lock_id_of(e);
	map_put(&table->by_id, &e->by_id);
	map_put(&table->by_lock, &e->by_lock);
	list_append(&r->entries, &e->node);
	r->n++;
	r->nbytes += size;
	return e;
}

/* Drops the oldest entry. `for_check`: drops the oldest checked entry, if there is one, because
 * any other entry has a guard that hasp would forget. */
static void drop_oldest(struct read_set *r, bool for_check)
{
	struct read_set_entry *e = container_of(r->entries.next, struct read_set_entry, node);
	size_t ndroppable = r->n - r->nkept;

	HASP_ASSERT(r->n > r->nkept);
	list_each (struct read_set_entry, other, &r->entries, node) {
		if (!for_check || ndroppable-- == 0)
			break;
		if (other->checked) {
			e = other;
			break;
		}
	}
	if (e->checked)
		r->unchecked = true;
	else
		r->overflowed = true;
	read_set_entry_drop(e);
}

struct read_set_entry *read_set_add(struct read_sets *table, struct read_set *r, int db,
                                    const struct guarded_key *k, double until)
{
	struct read_set_entry *e = read_set_find(table, r, db, k->key);
	bool was_read = e && e->read;

	/* The value, or (by a reload) the guard's strategy, has changed. */
	if (e && !slice_eq(e->token, k->token)) {
		read_set_entry_drop(e);
		e = NULL;
	}
	if (e) {
		make_latest(e);
	} else {
		if (r->n >= READ_SET_MAX)
			drop_oldest(r, k->checked);
		e = entry_new(table, r, db, k);
		e->read = was_read;
	}
	read_set_entry_sent(e, until - (double)k->lease_ms / 1000, until);
	e->release = k->release;
	e->lease_ms = k->lease_ms;
	e->stats = k->stats;
	return e;
}

/* Gives the key's entry this digest. */
static struct read_set_entry *put_check(struct read_sets *table, struct read_set *r, int db,
                                        struct slice key, struct section_stats *stats,
                                        struct slice digest)
{
	struct guarded_key k = { .key = key, .token = digest, .stats = stats, .checked = true };

	return read_set_add(table, r, db, &k, 0);
}

bool read_set_checked(struct read_sets *table, struct read_set *r, int db, struct slice key,
                      struct section_stats *stats, struct slice digest)
{
	const struct read_set_entry *e = read_set_find(table, r, db, key);
	bool was_read = e && e->read;

	read_set_entry_read(put_check(table, r, db, key, stats, digest));
	return !was_read;
}

void read_set_check_failed(struct read_sets *table, struct read_set *r, int db,
                           struct slice key, struct section_stats *stats)
{
	const struct read_set_entry *e = read_set_find(table, r, db, key);

	if (!e || !e->read) /* else an earlier read still counts */
		read_set_entry_refused(put_check(table, r, db, key, stats, READ_SET_UNSEEN));
}

const struct read_set_entry *read_sets_holder(struct read_sets *table, int db, struct slice key,
                                              struct slice token, bool other, double now)
{
	struct map_node *node = map_get(&table->by_lock,
	                                lock_id_write(&table->scratch, db, key));
	const struct read_set_entry *found = NULL;

	buf_trim(&table->scratch);
	for (; node; node = map_next(node)) {
		const struct read_set_entry *e = container_of(node, struct read_set_entry,
		                                              by_lock);
		bool holds = e->read && !e->lost && e->since <= now && e->until > now;
		if (holds && slice_eq(e->token, token) != other &&
		    (!found || e->since > found->since))
			found = e;
	}
	return found;
}

uint64_t read_sets_walk(const struct read_sets *table, uint64_t cursor, map_scan_fn *fn,
                        void *arg)
{
	return map_scan(&table->by_id, cursor, fn, arg);
}

void read_set_entry_sent(struct read_set_entry *e, double now, double until)
{
	if (!e->read || e->lost || now >= e->until)
		e->since = now;
	e->until = until;
}

void read_set_entry_read(struct read_set_entry *e)
{
	e->read = true;
	e->lost = false;
}

void read_set_entry_refused(struct read_set_entry *e)
{
	e->lost |= !e->read;
	e->read = true;
}

void read_set_entry_over(struct read_set_entry *e)
{
	e->read = e->lost = false;
	if (e->checked ? !e->read_set->unchecked : !e->read_set->overflowed)
		read_set_entry_drop(e);
}

void read_set_entry_ended(struct read_set_entry *e, double now)
{
	if (e->counts_from > 0)
		stats_held(e->stats, now - e->counts_from);
	e->counts_from = 0;
}

void read_set_entry_release(const struct read_set_entry *e)
{
	struct job_call call = script_jobs_call(e->table->jobs, read_set_entry_db(e));

	call.script = rewrite_guard_release(&call.bytes, read_set_entry_key(e), e->token,
	                                    &call.opts);
	/* Do not retry after `until`: the lease is over then. */
	script_job_run(&call, e->until, NULL, NULL);
}

bool read_set_has_any(const struct read_set *r, double now)
{
	list_each (const struct read_set_entry, e, &r->entries, node)
		if (e->read && e->until > now)
			return true;
	return false;
}

bool read_set_only_checks(const struct read_set *r)
{
	list_each (const struct read_set_entry, e, &r->entries, node)
		if (!e->checked)
			return false;
	return true;
}

/* Logs a guard that is released at the end of its connection. */
static void log_release(const struct read_set_entry *e, double now)
{
	struct event_to_log event;

	stats_add(e->stats, STAT_RELEASED_AT_DISCONNECT);
	if (!event_begin(&event, e->stats, LOCK_EVENT_RELEASED_AT_DISCONNECT,
	                 read_set_entry_db(e), read_set_entry_key(e), now))
		return;
	if (e->table->describe)
		e->table->describe(e->read_set, &event.holder);
	event.held = now - e->since;
	event_log(&event);
}

void read_set_end(struct read_set *r, double now, bool keeps_read)
{
	r->ended = true;
	list_shift_each (struct read_set_entry, e, &r->entries, node) {
		bool may_have = !e->read || !keeps_read;
		if (e->release && may_have && read_set_entry_db(e) >= 0 && e->until > now) {
			if (e->read && !e->lost)
				log_release(e, now);
			read_set_entry_release(e);
		}
		read_set_entry_ended(e, now < e->until ? now : e->until);
		read_set_entry_drop(e);
	}
}
