/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "admin/admin_internal.h"
#include "base/clock.h"
#include "worker/worker_live.h"

/* Of more than so many the longest held are shown. */
#define LOCKS_SHOWN 100

/* --- who waits for what ------------------------------------------------------------------ */

static bool is_guard(const struct live_row *row)
{
	return row->section && row->section->kind == STATS_GUARD;
}

/* By what they wait for, or have. */
static int compare(const void *a, const void *b)
{
	const struct live_row *one = a, *other = b;
	int by_key;

	if (one->db != other->db)
		return one->db < other->db ? -1 : 1;
	if (is_guard(one) != is_guard(other))
		return is_guard(one) ? 1 : -1;
	if (one->key_len != other->key_len)
		return one->key_len < other->key_len ? -1 : 1;
	by_key = one->key.n ? memcmp(one->key.p, other->key.p, one->key.n) : 0;
	return by_key;
}

/* So many of `waiters`, which are sorted, wait for what the row has. */
static int64_t count_waiters(const struct live *waiters, const struct live_row *row)
{
	size_t low = 0, high = waiters->n, n = 0;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (compare(&waiters->rows[middle], row) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	while (low + n < waiters->n && compare(&waiters->rows[low + n], row) == 0)
		n++;
	return (int64_t)n;
}

/* --- rows -------------------------------------------------------------------------------- */

static void add_what(struct rows *rows, const struct live_row *row)
{
	rows_add_text(rows, "key", row->key);
	rows_add_int(rows, "key_bytes", (int64_t)row->key_len);
	rows_add_int(rows, "db", row->db);
	rows_add_str(rows, "kind", row->section ? stats_kind_word(row->section->kind) : NULL);
	rows_add_str(rows, "rule", row->section ? row->section->name : NULL);
	rows_add_text(rows, "client", row->client);
	rows_add_int(rows, "client_id", (int64_t)row->client_id);
}

static void add_lock(struct rows *rows, const struct live_row *row, int64_t waiters, double now)
{
	rows_begin(rows, 13);
	add_what(rows, row);
	rows_add_text(rows, "owner", row->owner);
	rows_add_ms(rows, "held_ms", now - row->since);
	if (isinf(row->until))
		rows_add_int(rows, "lease_ms", -1);
	else
		rows_add_ms(rows, "lease_ms", row->until - now);
	rows_add_bool(rows, "renewed", row->renewed);
	rows_add_int(rows, "fence", row->fence);
	rows_add_int(rows, "waiters", waiters);
}

/* As no lock has such columns, a program that reads rows by their names passes it over. */
static void add_more(struct rows *rows, uint64_t more)
{
	rows_begin(rows, 2);
	rows_add_int(rows, "more", (int64_t)more);
	rows_add_str(rows, "all", "SHOW LOCKS ALL");
}

/* The `most` that were held longest. */
static bool show_held(const struct show_env *env, enum live_what what, size_t most,
                      struct rows *rows)
{
	struct worker_shared *shared = env->shared;
	struct live held, waiting;
	double now;
	bool whole;

	workers_live(shared, what, most, CONSOLE_ASK_MS, &held);
	workers_live(shared, LIVE_WAITING, SIZE_MAX, CONSOLE_ASK_MS, &waiting);
	now = clock_now();
	if (waiting.n)
		qsort(waiting.rows, waiting.n, sizeof(*waiting.rows), compare);
	for (size_t i = 0; i < held.n; i++) {
		const struct live_row *row = &held.rows[i];

		add_lock(rows, row, count_waiters(&waiting, row), now);
	}
	if (held.total > most)
		add_more(rows, held.total - held.n);
	whole = held.whole && waiting.whole;
	live_fini(&held);
	live_fini(&waiting);
	return whole;
}

bool console_show_locks(const struct show_env *env, struct rows *rows)
{
	return show_held(env, LIVE_LOCKS, LOCKS_SHOWN, rows);
}

bool console_show_all_locks(const struct show_env *env, struct rows *rows)
{
	return show_held(env, LIVE_LOCKS, SIZE_MAX, rows);
}

bool console_show_guards(const struct show_env *env, struct rows *rows)
{
	return show_held(env, LIVE_GUARDS, SIZE_MAX, rows);
}

bool console_show_waiters(const struct show_env *env, struct rows *rows)
{
	struct live waiting;
	double now;
	bool whole;

	workers_live(env->shared, LIVE_WAITING, SIZE_MAX, CONSOLE_ASK_MS, &waiting);
	now = clock_now();
	for (size_t i = 0; i < waiting.n; i++) {
		rows_begin(rows, 9);
		add_what(rows, &waiting.rows[i]);
		rows_add_ms(rows, "waited_ms", now - waiting.rows[i].since);
		rows_add_ms(rows, "left_ms", waiting.rows[i].until - now);
	}
	whole = waiting.whole;
	live_fini(&waiting);
	return whole;
}
