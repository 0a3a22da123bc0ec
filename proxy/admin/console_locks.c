/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>

#include "admin/admin_internal.h"
#include "base/clock.h"
#include "worker/worker_live.h"

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

/* `trouble`: why Redis cannot serve; NULL: it can. Locks of a quorum do not depend on that. */
static void add_lock(struct rows *rows, const struct live_row *row, const char *trouble,
                     double now)
{
	bool of_quorum = row->section && row->section->kind == STATS_QUORUM;

	rows_begin(rows, 14);
	add_what(rows, row);
	rows_add_text(rows, "owner", row->owner);
	rows_add_ms(rows, "held_ms", now - row->since);
	if (isinf(row->until))
		rows_add_int(rows, "lease_ms", -1);
	else
		rows_add_ms(rows, "lease_ms", row->until - now);
	rows_add_bool(rows, "renewed", row->renewed);
	rows_add_int(rows, "fence", row->fence);
	rows_add_int(rows, "waiters", (int64_t)row->waiters);
	rows_add_str(rows, "state", trouble && !of_quorum ? "unknown" : "held");
}

static bool show_held(const struct show_env *env, enum live_what what, struct rows *rows)
{
	struct live held, waiting;
	const struct live_want wants[] = { { what, SIZE_MAX, &held },
		                           { LIVE_WAITING, SIZE_MAX, &waiting } };
	struct worker_answers answers;
	const char *trouble = workers_upstream_trouble(env->shared);
	double now;
	bool whole;

	workers_live(env->shared, wants, 2, CONSOLE_ASK_MS, &answers);
	now = clock_now();
	for (size_t i = 0; i < held.n; i++)
		add_lock(rows, &held.rows[i], trouble, now);
	whole = held.whole;
	/* An answer without rows would mean that no lock is held. */
	if (whole && trouble && held.n == 0) {
		rows->unknown = trouble;
		whole = false;
	}
	live_fini(wants, 2, &answers);
	return whole;
}

bool console_show_locks(const struct show_env *env, struct rows *rows)
{
	return show_held(env, LIVE_LOCKS, rows);
}

bool console_show_guards(const struct show_env *env, struct rows *rows)
{
	return show_held(env, LIVE_GUARDS, rows);
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
