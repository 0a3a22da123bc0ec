/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "admin/admin_internal.h"
#include "base/clock.h"
#include "config/config.h"
#include "lock/model/owner.h"
#include "worker/worker_live.h"

/* How many locks are shown: the longest held. */
#define LOCKS_SHOWN 100

/* --- waiters ----------------------------------------------------------------------------- */

static bool is_guard(const struct live_row *row)
{
	return row->section && row->section->kind == STATS_GUARD;
}

/* Orders rows by the lock or guard that they wait for, or have. */
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

/* Counts the `waiters`, which are sorted, for the row's lock or guard. */
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

/* `beside`: the rows of other hasps' locks, which have the same columns, may follow. */
static void add_lock(struct rows *rows, const struct live_row *row, int64_t waiters, double now,
                     bool beside)
{
	rows_begin(rows, 13 + beside);
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
	if (beside)
		rows_add_str(rows, "hasp", "this");
}

/* As no lock has such columns, a program that reads rows by their names passes it over. */
static void add_more(struct rows *rows, uint64_t more)
{
	rows_begin(rows, 2);
	rows_add_int(rows, "more", (int64_t)more);
	rows_add_str(rows, "all", "SHOW LOCKS ALL");
}

static void add_held(struct rows *rows, const struct live *held, struct live *waiting,
                     size_t most, bool beside)
{
	double now = clock_now();

	if (waiting->n)
		qsort(waiting->rows, waiting->n, sizeof(*waiting->rows), compare);
	for (size_t i = 0; i < held->n; i++) {
		const struct live_row *row = &held->rows[i];

		add_lock(rows, row, count_waiters(waiting, row), now, beside);
	}
	if (held->total > most)
		add_more(rows, held->total - held->n);
}

/* The `most` that were held longest. */
static bool show_held(const struct show_env *env, enum live_what what, size_t most,
                      struct rows *rows)
{
	struct live held, waiting;
	const struct live_want wants[] = { { what, most, &held },
		                           { LIVE_WAITING, SIZE_MAX, &waiting } };
	struct worker_answers answers;
	bool whole;

	workers_live(env->shared, wants, 2, CONSOLE_ASK_MS, &answers);
	add_held(rows, &held, &waiting, most, false);
	whole = held.whole;
	live_fini(wants, 2, &answers);
	return whole;
}

bool console_show_locks(const struct show_env *env, struct rows *rows)
{
	return show_held(env, LIVE_LOCKS, LOCKS_SHOWN, rows);
}

/* --- those of other hasps, too ----------------------------------------------------------- */

/* As others_compare(): by what is known of both. */
static int compare_held(const void *a, const void *b)
{
	const struct live_row *one = a, *other = b;
	int by_what = compare(one, other);

	if (by_what)
		return by_what;
	if (one->fence != other->fence)
		return one->fence < other->fence ? -1 : 1;
	if (one->owner.n != other->owner.n)
		return one->owner.n < other->owner.n ? -1 : 1;
	return one->owner.n ? memcmp(one->owner.p, other->owner.p, one->owner.n) : 0;
}

/* `owner`: as it is described. The locks are sorted. */
static bool is_shown_already(const struct live *locks, const struct other_owner *o,
                             struct slice owner)
{
	const struct live_row row = {
		.db = o->db,
		.key_len = o->key.n,
		.key = live_text(o->key),
		.fence = o->fence,
		.owner = live_text(owner),
	};

	return locks->n && bsearch(&row, locks->rows, locks->n, sizeof(row), compare_held);
}

static void add_other(struct rows *rows, const struct other_owner *o, struct slice owner,
                      struct matcher *matcher, const struct config *c)
{
	const struct rule *rule = match_rule(matcher, o->key);
	enum stats_kind kind = o->fence ? STATS_VERBS : STATS_LOCK;

	rows_begin(rows, 14);
	rows_add_text(rows, "key", live_text(o->key));
	rows_add_int(rows, "key_bytes", (int64_t)o->key.n);
	rows_add_int(rows, "db", o->db);
	rows_add_str(rows, "kind", stats_kind_word(kind));
	if (kind == STATS_VERBS)
		rows_add_str(rows, "rule", c->verbs.enabled ? c->verbs.lock : NULL);
	else
		rows_add_str(rows, "rule", rule ? rule->section.name : NULL);
	rows_add_str(rows, "client", NULL);
	rows_add_int(rows, "client_id", 0);
	rows_add_text(rows, "owner", owner);
	rows_add_int(rows, "held_ms", -1);
	rows_add_int(rows, "lease_ms", o->left_ms);
	rows_add_str(rows, "renewed", NULL);
	rows_add_int(rows, "fence", o->fence);
	rows_add_int(rows, "waiters", o->waiters);
	rows_add_str(rows, "hasp", o->ours ? "this" : "other");
}

static void add_missing(struct rows *rows, const struct buf *why)
{
	rows_begin(rows, 1);
	rows_add_text(rows, "not_looked_at", buf_slice(why));
}

/* Adds the locks that no worker knew, neither before Redis was asked nor afterwards. (A
 * connection remembers only about a thousand locks that are not renewed.) */
static void add_others(const struct show_env *env, const struct other_owners *others,
                       struct live *before, struct live *after, struct rows *rows)
{
	struct matcher *matcher = match_new(env->config);
	struct buf owner = BUF_INIT;

	if (before->n)
		qsort(before->rows, before->n, sizeof(*before->rows), compare_held);
	if (after->n)
		qsort(after->rows, after->n, sizeof(*after->rows), compare_held);
	for (size_t i = 0; i < others->n; i++) {
		const struct other_owner *o = &others->v[i];

		buf_clear(&owner);
		owner_describe_token(&owner, o->token);
		if (!is_shown_already(before, o, buf_slice(&owner)) &&
		    !is_shown_already(after, o, buf_slice(&owner)))
			add_other(rows, o, buf_slice(&owner), matcher, env->config);
	}
	buf_release(&owner);
	match_free(matcher);
}

/* Asks the workers before and after Redis: if a lock is taken or released during the search,
 * one of their two answers has it. */
bool console_show_all_locks(const struct show_env *env, struct rows *rows)
{
	struct live before, held, waiting;
	const struct live_want first = { LIVE_LOCKS, SIZE_MAX, &before };
	const struct live_want wants[] = { { LIVE_LOCKS, SIZE_MAX, &held },
		                           { LIVE_WAITING, SIZE_MAX, &waiting } };
	struct worker_answers answers_before, answers;
	struct other_owners others;
	bool whole;

	workers_live(env->shared, &first, 1, CONSOLE_ASK_MS, &answers_before);
	others_find(env, &others);
	workers_live(env->shared, wants, 2, CONSOLE_ASK_MS, &answers);
	add_held(rows, &held, &waiting, SIZE_MAX, true);
	add_others(env, &others, &before, &held, rows);
	if (buf_len(&others.missing))
		add_missing(rows, &others.missing);
	whole = before.whole && held.whole;
	others_fini(&others);
	live_fini(&first, 1, &answers_before);
	live_fini(wants, 2, &answers);
	return whole;
}

bool console_show_guards(const struct show_env *env, struct rows *rows)
{
	return show_held(env, LIVE_GUARDS, SIZE_MAX, rows);
}

bool console_show_waiters(const struct show_env *env, struct rows *rows)
{
	struct live waiting;
	const struct live_want want = { LIVE_WAITING, SIZE_MAX, &waiting };
	struct worker_answers answers;
	double now;
	bool whole;

	workers_live(env->shared, &want, 1, CONSOLE_ASK_MS, &answers);
	now = clock_now();
	for (size_t i = 0; i < waiting.n; i++) {
		rows_begin(rows, 9);
		add_what(rows, &waiting.rows[i]);
		rows_add_ms(rows, "waited_ms", now - waiting.rows[i].since);
		rows_add_ms(rows, "left_ms", waiting.rows[i].until - now);
	}
	whole = waiting.whole;
	live_fini(&want, 1, &answers);
	return whole;
}
