/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_live: lists locks, guards and waiters. Each worker reads its tables once. If the
 * caller wants only the longest held entries, the worker reads holds in order of age, until it
 * has enough. In the other tables, an entry that is among the longest so far gets a row, in
 * place of the row of the entry that drops out:
 *
 *   table --> longest so far? --> ranks, in order of `since` --> slots of equal size in `out`
 *
 * So the answer's size is bounded, and no step keeps a pointer to an entry that may be gone at
 * the next step.
 */
#include "worker/worker_live.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "client/client.h"
#include "lock/guard/read_set.h"
#include "lock/hold/holds.h"
#include "lock/model/lock_id.h"
#include "lock/model/owner.h"
#include "lock/queue/waiters.h"

/* --- one worker --------------------------------------------------------------------------- */

/* Size of a slot, which has a row and its texts, in bytes. */
#define LIVE_SLOT (sizeof(struct live_row) + (size_t)3 * LIVE_TEXT)

/* The tables, in the order in which a worker reads them. */
enum live_table { TABLE_HOLDS, TABLE_GUARDS, TABLE_WAITERS, TABLES };

/* An entry that is among the longest held, or longest waiting, entries so far. */
struct live_rank {
	double since;
	size_t at; /* offset of its row's slot in `out` */
};

/* A worker's results for one list. */
struct live_found {
	uint64_t total;
	size_t n; /* length of `ranks` */
	struct live_rank ranks[LIVE_MOST]; /* the longest held first */
};

/* A worker's copy of the question, and its progress. */
struct live_question {
	enum live_what what;
	size_t most; /* limit of each list; SIZE_MAX: none, and no entry has a rank */
	enum live_table table; /* the table to read next */
	size_t at; /* offset of the row to write next, if it has a rank */
	double now;
	struct buf *out;
	struct live_found held, waiters;
};

static struct live_found *found_now(struct live_question *q)
{
	return q->table == TABLE_WAITERS ? &q->waiters : &q->held;
}

/* Inserts a rank in order of `since`. The rank gets a new slot at the end of the output; if all
 * ranks are in use, it gets the slot of the last rank, which is dropped. */
static void rank_insert(struct live_question *q, double since)
{
	struct live_found *f = found_now(q);
	struct live_rank rank = { since, buf_len(q->out) };
	size_t i;

	if (f->n == q->most)
		rank.at = f->ranks[f->n - 1].at;
	else
		f->n++;
	for (i = f->n - 1; i > 0 && f->ranks[i - 1].since > since; i--)
		f->ranks[i] = f->ranks[i - 1];
	f->ranks[i] = rank;
	q->at = rank.at;
}

/* True if the entry gets a row. If only the longest do, sets q->at to the slot of its row. */
static bool gets_row(struct live_question *q, double since)
{
	struct live_found *f = found_now(q);

	f->total++;
	if (q->most == SIZE_MAX)
		return true;
	if (f->n == q->most && (f->n == 0 || since >= f->ranks[f->n - 1].since))
		return false;
	rank_insert(q, since);
	return true;
}

static struct slice live_text(struct slice text)
{
	return slice_of(text.p, text.n < LIVE_TEXT ? text.n : LIVE_TEXT);
}

/* Returns the address for the row: its slot, or the end of the output. */
static char *row_place(const struct live_question *q, size_t size)
{
	if (q->most != SIZE_MAX && q->at < buf_len(q->out))
		return buf_head(q->out) + q->at;
	memset(buf_reserve(q->out, size), 0, size);
	buf_added(q->out, size);
	return buf_head(q->out) + buf_len(q->out) - size;
}

static char *put(char *to, struct slice bytes)
{
	if (bytes.n)
		memcpy(to, bytes.p, bytes.n);
	return to + bytes.n;
}

static bool live_is_guard(const struct live_row *row)
{
	return row->section && row->section->kind == STATS_GUARD;
}

/* True if the caller wants the entry. Leaves out holds whose lease has ended, which hasp
 * remembers for a while. An entry whose section is no longer configured counts as a lock. */
static bool is_of_question(const struct live_question *q, const struct live_row *row)
{
	return q->table == TABLE_WAITERS ||
	       (row->until > q->now &&
	        (q->what == LIVE_HELD || live_is_guard(row) == (q->what == LIVE_GUARDS)));
}

/* Writes the row, followed by its texts, for row_read(), if the caller wants the entry. Returns
 * false, and writes nothing, if enough other entries have been held for longer. */
static bool row_write(struct live_question *q, struct live_row row, struct client *c,
                      struct slice key, struct slice token)
{
	struct buf owner = BUF_INIT, client = BUF_INIT;
	char *at;

	if (!is_of_question(q, &row))
		return true;
	if (!gets_row(q, row.since))
		return false;
	client_describe(c, &client);
	owner_describe_token(&owner, token);
	row.waits = q->table == TABLE_WAITERS;
	row.client_id = client_list_id(c);
	row.key_len = key.n;
	row.key = live_text(key);
	row.owner = live_text(buf_slice(&owner));
	row.client = live_text(buf_slice(&client));
	row.nbytes = LIVE_SLOT;
	if (q->most == SIZE_MAX)
		row.nbytes = sizeof(row) + row.key.n + row.owner.n + row.client.n;
	at = row_place(q, row.nbytes);
	at = put(at, slice_of(&row, sizeof(row)));
	at = put(at, row.key);
	at = put(at, row.owner);
	put(at, row.client);
	buf_release(&owner);
	buf_release(&client);
	return true;
}

static bool on_longest(void *arg, const struct held *held)
{
	return row_write(arg,
	                 (struct live_row){
				 .section = held->stats,
				 .db = lock_db_shown(held->db),
				 .since = held->since,
				 .until = held->good_until,
				 .renewed = held->renewed,
				 .fence = held->fence,
			 },
	                 client_of_holder(held->owner), held->key, held->token);
}

static void on_held(void *arg, const struct held *held)
{
	(void)on_longest(arg, held);
}

/* Writes the longest holds in one step: a row takes less than half a microsecond, and there are
 * LIVE_MOST at most. */
static void write_longest(struct live_question *q, struct holds *holds)
{
	uint64_t before = found_now(q)->total;

	if (!held_longest(holds, on_longest, q))
		found_now(q)->total = before + held_count(holds);
}

static void on_guard(void *arg, struct map_node *node)
{
	const struct read_set_entry *e = container_of(node, struct read_set_entry, by_id);

	if (!e->read || e->lost)
		return;
	(void)row_write(arg,
	                (struct live_row){
				.section = e->stats,
				.db = read_set_entry_db(e),
				.since = e->since,
				.until = e->until,
			},
	                client_of_reader(e->read_set), read_set_entry_key(e), e->token);
}

static void on_waiter(void *arg, const struct waiter *w, void *owner)
{
	const struct live_question *q = arg;
	struct client_wait wait = client_waits_for(owner);

	(void)row_write(arg,
	                (struct live_row){
				.section = wait.stats,
				.db = wait.db,
				.since = q->now - waiter_waited(w),
				.until = q->now + (double)waiter_left_ms(w) / 1000,
			},
	                wait.client, wait.key, SLICE_NONE);
}

static uint64_t scan_table(struct live_question *q, const struct policy_env *env,
                           uint64_t cursor)
{
	static const enum live_table first[] = {
		[LIVE_HELD] = TABLE_HOLDS,
		[LIVE_LOCKS] = TABLE_HOLDS,
		[LIVE_GUARDS] = TABLE_GUARDS,
		[LIVE_WAITING] = TABLE_WAITERS,
	};

	if (q->table < first[q->what])
		return 0;
	switch (q->table) {
	case TABLE_HOLDS:
		if (q->most != SIZE_MAX) {
			write_longest(q, env->holds);
			return 0;
		}
		return held_walk(env->holds, cursor, on_held, q);
	case TABLE_GUARDS:
		return read_sets_walk(env->read_sets, cursor, on_guard, q);
	default:
		return waiters_walk(env->waiters, cursor, on_waiter, q);
	}
}

static bool live_step(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	struct live_question *q = arg;

	q->out = &a->out;
	q->now = clock_now();
	do {
		a->cursor = scan_table(q, &w->clients->policy, a->cursor);
		if (a->cursor == 0 && ++q->table == TABLES) {
			const uint64_t totals[] = { q->held.total, q->waiters.total };

			buf_append(q->out, slice_of(totals, sizeof(totals)));
			return true;
		}
	} while (clock_now() < w->until);
	return false;
}

/* --- all workers -------------------------------------------------------------------------- */

static void row_read(struct slice *from, struct live_row *row)
{
	struct slice texts;

	memcpy(row, from->p, sizeof(*row));
	texts = slice_take(from, row->nbytes);
	slice_take(&texts, sizeof(*row));
	row->key = slice_take(&texts, row->key.n);
	row->owner = slice_take(&texts, row->owner.n);
	row->client = slice_take(&texts, row->client.n);
}

static int by_since(const void *a, const void *b)
{
	double one = ((const struct live_row *)a)->since;
	double other = ((const struct live_row *)b)->since;

	return (one > other) - (one < other);
}

/* Appends a row. The array is full when its length is a power of two. */
static void add_row(struct live_list *l, const struct live_row *row)
{
	if ((l->n & (l->n - 1)) == 0)
		l->rows = xrealloc(l->rows, (l->n ? 2 * l->n : 1) * sizeof(*l->rows));
	l->rows[l->n++] = *row;
}

/* Reads one worker's answer: rows, and then the total of each list. */
static void live_read(struct slice from, struct live *live)
{
	struct live_row row;
	uint64_t totals[2];

	while (from.n > sizeof(totals)) {
		row_read(&from, &row);
		add_row(row.waits ? &live->waiters : &live->held, &row);
	}
	HASP_ASSERT(from.p && from.n == sizeof(totals));
	memcpy(totals, from.p, sizeof(totals));
	live->held.total += totals[0];
	live->waiters.total += totals[1];
}

/* Orders rows by the lock or guard that they wait for, or have. */
static int by_lock(const void *a, const void *b)
{
	const struct live_row *one = a, *other = b;
	bool guard = live_is_guard(one);

	if (one->db != other->db)
		return one->db < other->db ? -1 : 1;
	if (guard != live_is_guard(other))
		return guard ? 1 : -1;
	if (one->key_len != other->key_len)
		return one->key_len < other->key_len ? -1 : 1;
	return one->key.n ? memcmp(one->key.p, other->key.p, one->key.n) : 0;
}

void live_count_waiters(struct live_list *held, struct live_list *waiters)
{
	if (waiters->n)
		qsort(waiters->rows, waiters->n, sizeof(*waiters->rows), by_lock);
	for (size_t i = 0; i < held->n; i++) {
		struct live_row *row = &held->rows[i];
		size_t low = 0, high = waiters->n;

		while (low < high) {
			size_t middle = low + (high - low) / 2;

			if (by_lock(&waiters->rows[middle], row) < 0)
				low = middle + 1;
			else
				high = middle;
		}
		while (low < waiters->n && by_lock(&waiters->rows[low++], row) == 0)
			row->waiters++;
	}
}

/* Keeps only the `most` longest held, or waiting, entries. */
static void keep_longest(struct live_list *l, size_t most)
{
	if (l->n)
		qsort(l->rows, l->n, sizeof(*l->rows), by_since);
	if (l->n > most)
		l->n = most;
}

void workers_live(struct worker_shared *shared, enum live_what what, size_t most,
                  int64_t timeout_ms, struct live *live)
{
	struct live_question q = { .what = what, .most = most <= LIVE_MOST ? most : SIZE_MAX };
	const struct worker_answers *answers = &live->answers;
	size_t answered = workers_ask(shared, live_step, &q, sizeof(q), timeout_ms,
	                              &live->answers);

	live->whole = answered == answers->n;
	live->held = live->waiters = (struct live_list){ .n = 0 };
	for (size_t i = 0; i < answers->n; i++)
		if (answers->v[i].whole)
			live_read(buf_slice(&answers->v[i].out), live);
	live_count_waiters(&live->held, &live->waiters);
	keep_longest(&live->held, q.most);
	keep_longest(&live->waiters, q.most);
}

void live_fini(struct live *live)
{
	free(live->held.rows);
	free(live->waiters.rows);
	worker_answers_fini(&live->answers);
}

/* --- contended keys ----------------------------------------------------------------------- */

static void on_contended(void *arg, const struct top_key *key,
                         const struct top_key_counts *counts)
{
	const struct section_stats *section = key->of;
	struct contended_key k = { section->kind, section->name, *key, *counts };

	/* The name is the same string in the stats of all workers, so by_key() can compare
	 * it. */
	k.key.of = section->name;
	buf_append(arg, slice_of(&k, sizeof(k)));
}

static bool contended_step(const struct worker_view *w, void *arg, struct worker_answer *a)
{
	const struct policy_env *env = &w->clients->policy;

	(void)arg;
	top_keys_each(stats_contended_keys(env->stats, env->worker), clock_now(), on_contended,
	              &a->out);
	return true;
}

static uint64_t contention_of(const struct contended_key *k)
{
	return k->counts.n[CONTENTION_REFUSED] + k->counts.n[CONTENTION_WAITED];
}

static int by_contention(const void *a, const void *b)
{
	uint64_t one = contention_of(a), other = contention_of(b);

	return (one < other) - (one > other);
}

static int by_key(const void *a, const void *b)
{
	const struct contended_key *one = a, *other = b;

	return memcmp(&one->key, &other->key, sizeof(one->key));
}

/* Merges neighbours with the same key. Returns how many keys are left. */
static size_t merge_same(struct contended_key *keys, size_t n)
{
	size_t left = 0;

	for (size_t i = 0; i < n; i++) {
		struct contended_key *last = left ? &keys[left - 1] : NULL;

		if (!last || last->kind != keys[i].kind || by_key(last, &keys[i]) != 0) {
			keys[left++] = keys[i];
			continue;
		}
		for (size_t kind = 0; kind < TOP_KEYS_KINDS; kind++)
			last->counts.n[kind] += keys[i].counts.n[kind];
		last->counts.missed += keys[i].counts.missed;
	}
	return left;
}

size_t workers_contended(struct worker_shared *shared, struct contended_key *out, size_t most,
                         int64_t timeout_ms)
{
	struct worker_answers answers;
	struct buf all = BUF_INIT;
	struct contended_key *keys;
	size_t n;

	workers_ask(shared, contended_step, NULL, 0, timeout_ms, &answers);
	for (size_t i = 0; i < answers.n; i++)
		buf_append(&all, buf_slice(&answers.v[i].out));
	worker_answers_fini(&answers);
	n = buf_len(&all) / sizeof(*keys);
	keys = xcalloc(n + 1, sizeof(*keys));
	if (n)
		memcpy(keys, buf_head(&all), n * sizeof(*keys));
	buf_release(&all);
	qsort(keys, n, sizeof(*keys), by_key);
	n = merge_same(keys, n);
	qsort(keys, n, sizeof(*keys), by_contention);
	n = n < most ? n : most;
	if (n)
		memcpy(out, keys, n * sizeof(*out));
	free(keys);
	return n;
}
