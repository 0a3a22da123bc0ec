/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of replies that change a lock: its database, whether its value is known, and whether
 * there is a hold at all; also of the end of the connection.
 */

#define TEST_FIXTURE struct hold_fixture *f

#include <stdio.h>

#include "lock/hold/holds.h"
#include "lock/hold/hold_internal.h"
#include "tests/unit/fake_jobs.h"
#include "tests/unit/hold_fixture.h"
#include "tests/unit/session_fixture.h"
#include "tests/unit/testing.h"

FIXTURE(hold_set_up, hold_tear_down);

static struct pending_request *take(struct hold_fixture *f, const struct rule *rule)
{
	return sent_take(f, rule, "worker-1");
}

static void assert_value(struct hold_fixture *f, int db, const char *expected)
{
	assert_true(slice_eq(hold_value(f->holds, &f->owner, db, SLICE_LIT("lock")),
	                     slice_str(expected)));
}

/* --- the reply ----------------------------------------------------------------------- */

TEST(a_lock_that_was_taken_is_held)
{
	HOLD_ANSWER(f, take(f, &rule_by_value), "$-1\r\n");
	assert_int_equal(f->owner.n, 0);
	HOLD_ANSWER(f, take(f, &rule_by_value), "-LOCKED no\r\n");
	assert_int_equal(f->owner.n, 0);
	HOLD_ANSWER(f, take(f, &rule_by_value), "+OK\r\n");
	assert_int_equal(f->owner.n, 1);
}

TEST(a_lock_is_in_the_database_in_which_it_was_taken)
{
	transaction_begin(&f->s.txn);
	sent_select(&f->s, 7);
	take(f, &rule_by_value);
	sent_select(&f->s, 8);
	HOLD_ANSWER(f, sent_exec(&f->s), "*3\r\n+OK\r\n+OK\r\n+OK\r\n");
	assert_int_equal(f->s.db, 8);
	assert_value(f, 7, "v");
	assert_value(f, 8, "");
	assert_value(f, 0, "");
}

TEST(a_lock_whose_transaction_failed_is_not_held)
{
	transaction_begin(&f->s.txn);
	take(f, &rule_by_value);
	HOLD_ANSWER(f, sent_exec(&f->s), "*-1\r\n");
	transaction_begin(&f->s.txn);
	sent_other(&f->s);
	take(f, &rule_by_value);
	HOLD_ANSWER(f, sent_exec(&f->s), "*2\r\n+OK\r\n$-1\r\n");
	transaction_begin(&f->s.txn);
	take(f, &rule_by_value);
	transaction_discard(&f->s.txn);
	assert_int_equal(f->owner.n, 0);
}

TEST(in_a_database_that_is_not_known_nothing_is_held)
{
	f->s.db = -1;
	HOLD_ANSWER(f, take(f, &rule_by_value), "+OK\r\n");
	assert_int_equal(f->owner.n, 0);
}

TEST(a_lock_that_is_only_remembered_is_held_until_its_lease_is_over)
{
	assert_false(hold_owner_has_any(&f->owner, HOLD_NOW));
	HOLD_ANSWER(f, take(f, &rule_by_address), "+OK\r\n");
	assert_int_equal(f->owner.n, 1);
	assert_true(hold_owner_has_any(&f->owner, HOLD_NOW + 29.9));
	assert_false(hold_owner_has_any(&f->owner, HOLD_NOW + 30));
}

TEST(of_those_that_are_only_remembered_the_oldest_are_forgotten)
{
	struct rule released = rule_by_connection;
	char key[16] = "k0";

	released.on_disconnect = DISCONNECT_RELEASE;
	for (int i = 0; i < 1100; i++) {
		struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
			                  .success = LOCK_IF_OK,
			                  .leased = true,
			                  .lease_ms = 30000,
			                  .key = slice_str(key) };
		const struct rule *rule = i < 10 ? &released : &rule_by_address;
		snprintf(key, sizeof(key), "k%d", i);
		call.key = slice_str(key);
		HOLD_ANSWER(f, sent_call(f, rule, &call), "+OK\r\n");
	}
	assert_int_equal(f->owner.n, 1024);
	assert_non_null(hold_first(f->holds, 0, SLICE_LIT("k9")));
	assert_null(hold_first(f->holds, 0, SLICE_LIT("k10")));
	assert_non_null(hold_first(f->holds, 0, SLICE_LIT("k1099")));
}

/* --- values -------------------------------------------------------------------------- */

TEST(only_a_connection_s_own_value_is_its_value)
{
	struct hold_owner other;

	hold_owner_init(&other);
	HOLD_ANSWER(f, take(f, &rule_by_value), "+OK\r\n");
	assert_int_equal(hold_value(f->holds, &other, 0, SLICE_LIT("lock")).n, 0);
	assert_value(f, 0, "v");
}

TEST(a_lock_by_connection_has_no_value)
{
	HOLD_ANSWER(f, take(f, &rule_by_connection), "+OK\r\n");
	assert_int_equal(f->owner.n, 1);
	assert_value(f, 0, "");
}

TEST(the_latest_value_counts)
{
	struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
		                  .kind = LOCK_KIND_VALUE,
		                  .success = LOCK_IF_OK,
		                  .key = SLICE_LIT("lock"),
		                  .value = SLICE_LIT("w"),
		                  .lease_ms = 30000 };

	HOLD_ANSWER(f, take(f, &rule_by_value), "+OK\r\n");
	HOLD_ANSWER(f, sent_call(f, &rule_by_value, &call), "+OK\r\n");
	assert_int_equal(f->owner.n, 1);
	assert_value(f, 0, "w");
}

/* SET ... KEEPTTL */
TEST(a_value_that_keeps_the_expiry_is_held_as_long_as_the_earlier_one)
{
	struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
		                  .kind = LOCK_KIND_VALUE,
		                  .success = LOCK_IF_OK,
		                  .key = SLICE_LIT("lock"),
		                  .value = SLICE_LIT("w"),
		                  .leased = true };

	HOLD_ANSWER(f, take(f, &rule_by_value), "+OK\r\n");
	HOLD_ANSWER(f, sent_call(f, &rule_by_value, &call), "+OK\r\n");
	assert_value(f, 0, "w");
	assert_true(hold_owner_has_any(&f->owner, HOLD_NOW + 29.9));
	assert_false(hold_owner_has_any(&f->owner, HOLD_NOW + 30));
}

TEST(a_value_of_more_than_4_kb_is_not_remembered)
{
	static char value[4097];
	struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
		                  .kind = LOCK_KIND_VALUE,
		                  .success = LOCK_IF_OK,
		                  .key = SLICE_LIT("lock"),
		                  .value = slice_of(value, 4096),
		                  .lease_ms = 30000 };

	HOLD_ANSWER(f, sent_call(f, &rule_by_value, &call), "+OK\r\n");
	assert_int_equal(f->owner.n, 1);
	hold_owner_end(&f->owner, true);
	call.value.n++;
	HOLD_ANSWER(f, sent_call(f, &rule_by_value, &call), "+OK\r\n");
	assert_int_equal(f->owner.n, 0);
}

/* --- the end of a lock --------------------------------------------------------------- */

TEST(a_lock_that_was_released_is_not_held)
{
	struct lock_call drops = { .effect = LOCK_EFFECT_DROPS,
		                   .success = LOCK_IF_ONE,
		                   .key = SLICE_LIT("lock") };

	HOLD_ANSWER(f, take(f, &rule_by_connection), "+OK\r\n");
	HOLD_ANSWER(f, sent_call(f, &rule_by_connection, &drops), ":0\r\n");
	assert_int_equal(f->owner.n, 1);
	HOLD_ANSWER(f, sent_call(f, &rule_by_connection, &drops), ":1\r\n");
	assert_int_equal(f->owner.n, 0);
}

/* Redis may have lost its data. */
TEST(a_lock_that_redis_does_not_have_is_not_held)
{
	static const enum script_id scripts[] = { SCRIPT_DEL, SCRIPT_UNLOCK, SCRIPT_MUNLOCK,
		                                  SCRIPT_EXTEND };

	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		struct lock_call call = { .script = scripts[i],
			                  .effect = LOCK_EFFECT_DROPS,
			                  .success = LOCK_IF_POSITIVE,
			                  .key = SLICE_LIT("lock") };
		HOLD_ANSWER(f, take(f, &rule_by_connection), "+OK\r\n");
		assert_int_equal(f->owner.n, 1);
		HOLD_ANSWER(f, sent_call(f, &rule_by_connection, &call), ":0\r\n");
		assert_int_equal(f->owner.n, 0);
	}
}

static void assert_held_after_late_release(struct hold_fixture *f, const struct rule *rule)
{
	struct lock_call drops = { .effect = LOCK_EFFECT_DROPS,
		                   .success = LOCK_IF_ONE,
		                   .single_key = true,
		                   .key = SLICE_LIT("lock") };
	struct resp_reply granted = { .type = '+' };
	struct lock_request *taken = pending_take(f, rule, "worker-1");
	struct pending_request *release = sent_call(f, rule, &drops);
	struct hold_owner other;

	hold_owner_init(&other);
	release->lock_request->sent_at = HOLD_NOW - 1;
	taken->sent_at = HOLD_NOW - 2;
	hold_apply(f->holds, &other, taken, 0, &granted);
	HOLD_ANSWER(f, release, ":1\r\n");
	assert_int_equal(other.n, 1);
	HOLD_ANSWER(f, sent_call(f, rule, &drops), ":1\r\n");
	assert_int_equal(other.n, 0);
}

/* Redis' clock dates the grant only to within a round trip: it may seem older than the
 * release. */
TEST(a_lock_that_was_handed_off_is_held_when_its_release_is_answered)
{
	assert_held_after_late_release(*state, &rule_by_value);
}

TEST(so_is_one_that_another_connection_of_the_owner_has_taken)
{
	assert_held_after_late_release(*state, &rule_by_address);
}

TEST(the_connection_s_end_releases_what_its_rule_says)
{
	struct rule releasing = rule_by_connection;

	HOLD_ANSWER(f, take(f, &rule_by_connection), "+OK\r\n");
	hold_owner_end(&f->owner, true);
	assert_int_equal(f->owner.n, 0);
	assert_jobs("");
	releasing.on_disconnect = DISCONNECT_RELEASE;
	HOLD_ANSWER(f, sent_select(&f->s, 2), "+OK\r\n");
	HOLD_ANSWER(f, take(f, &releasing), "+OK\r\n");
	hold_owner_end(&f->owner, true);
	assert_int_equal(f->owner.n, 0);
	assert_int_equal(fake_jobs_count("2 release "), 1);
	assert_int_equal(fake_jobs_count(" lock "), 1);
	assert_int_equal(fake_jobs_count(" token "), 1);
}

#define KEYS " 5 lock hasp:fence:{lock} hasp:queue:{lock} hasp:fence hasp:owner:{lock} secret "

/* hasp releases each lock by one call of its kind's script. If the owner may have another
 * connection, the call may be repeated for the lock's lease at most. */
TEST(the_connection_s_end_releases_each_kind_of_lock_once)
{
	static const struct {
		const struct rule *rule; /* NULL: a verb took the lock */
		enum lock_kind kind;
		int64_t lease_ms;
		const char *job;
	} rows[] = {
		{ NULL, LOCK_KIND_COUNT, 30000, "dequeue" KEYS "worker-1 0 h token \"\" undo" },
		{ NULL, LOCK_KIND_TOKEN, 30000, "unlock" KEYS "token string \"\"" },
		{ NULL, LOCK_KIND_LIMIT, 30000, "unlock" KEYS "token zset \"\"" },
		{ NULL, LOCK_KIND_SHARED, 30000,
		  "dequeue" KEYS "worker-1 0 m token \"\" undo" },
		{ NULL, LOCK_KIND_EXCLUSIVE, 30000,
		  "dequeue" KEYS "worker-1 0 x token \"\" undo" },
		{ &rule_by_connection, LOCK_KIND_RULE, 30000, "release" KEYS "token - 0" },
		{ &rule_by_address, LOCK_KIND_RULE, 30000,
		  "release" KEYS "token worker-1 30050" },
		{ &rule_by_address, LOCK_KIND_RULE, 700, "release" KEYS "token worker-1 750" },
		{ &rule_by_address, LOCK_KIND_RULE, 1, "release" KEYS "token worker-1 51" },
		{ &rule_by_address, LOCK_KIND_RULE, 0, "release" KEYS "token worker-1 0" },
		{ &rule_by_value, LOCK_KIND_VALUE, 30000,
		  "release 5 lock hasp:fence:{lock} hasp:queue:{lock} hasp:fence lock secret v "
		  "worker-1 30050" },
	};
	const struct verbs verbs = { .on_disconnect = DISCONNECT_RELEASE, .lease_ms = 30000 };
	char job[200];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct rule rule = rows[i].rule ? *rows[i].rule : (struct rule){ 0 };
		struct hold_terms terms = { .rule = rows[i].rule ? &rule : NULL,
			                    .verbs = &verbs,
			                    .token = SLICE_LIT("token") };
		struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
			                  .kind = rows[i].kind,
			                  .success = LOCK_IF_POSITIVE,
			                  .key = SLICE_LIT("lock"),
			                  .value = SLICE_LIT("v"),
			                  .lease_ms = rows[i].lease_ms,
			                  .ticket = SLICE_LIT("worker-1") };
		struct lock_request *p;

		rule.on_disconnect = DISCONNECT_RELEASE;
		p = lock_request_new(f->holds, &call, &call.key, 1, &terms);
		hold_apply(f->holds, &f->owner, p, 0,
		           &(struct resp_reply){ .type = ':', .integer = 7 });
		assert_int_equal(f->owner.n, 1);
		hold_owner_end(&f->owner, true);
		snprintf(job, sizeof(job), "0 %s\n", rows[i].job);
		assert_jobs(job);
		hold_owner_init(&f->owner);
	}
}

TEST(the_connection_s_end_releases_a_lock_with_forgotten_tickets_as_a_whole)
{
	const struct verbs verbs = { .on_disconnect = DISCONNECT_RELEASE, .lease_ms = 30000 };

	for (int shared = 0; shared < 2; shared++) {
		for (int i = 0; i < TICKETS_KEPT + 1; i++) {
			struct hold_terms terms = { .verbs = &verbs,
				                    .token = SLICE_LIT("token") };
			struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
				                  .kind = LOCK_KIND_COUNT,
				                  .success = LOCK_IF_POSITIVE,
				                  .key = SLICE_LIT("lock"),
				                  .lease_ms = 30000,
				                  .ticket = SLICE_LIT("worker-1"),
				                  .shared_owner = shared };
			struct lock_request *p = lock_request_new(f->holds, &call, &call.key, 1,
			                                          &terms);

			hold_apply(f->holds, &f->owner, p, 0,
			           &(struct resp_reply){ .type = ':', .integer = 7 });
		}
		assert_int_equal(f->owner.n, 1);
		hold_owner_end(&f->owner, true);
		/* Another connection may have a shared token. */
		assert_int_equal(fake_jobs_count("dequeue"), shared ? TICKETS_KEPT : 0);
		if (shared)
			fake_jobs_clear();
		else
			assert_jobs("0 unlock" KEYS "token hash *\n");
		hold_owner_init(&f->owner);
	}
}

TEST(nothing_is_released_for_a_connection_that_is_cut_off)
{
	struct rule releasing = rule_by_connection;

	releasing.on_disconnect = DISCONNECT_RELEASE;
	HOLD_ANSWER(f, take(f, &releasing), "+OK\r\n");
	hold_owner_end(&f->owner, false);
	assert_int_equal(f->owner.n, 0);
	assert_int_equal(fake_jobs_count("release "), 0);
}

/* The client is gone, and would never release the lock. */
TEST(a_lock_that_nobody_heard_of_is_released_with_the_connection)
{
	struct pending_request *r = take(f, &rule_by_address);

	lock_request_abandon(r->lock_request);
	HOLD_ANSWER(f, r, "+OK\r\n");
	assert_int_equal(f->owner.n, 1);
	hold_owner_end(&f->owner, true);
	assert_int_equal(fake_jobs_count("0 release "), 1);
}

/* --- refusals --------------------------------------------------------------------------- */

/* Redis answers a command with this effect, by a connection without the lock. Returns how many
 * refusals this counts, of all kinds. */
static uint64_t refused(struct hold_fixture *f, enum lock_effect effect, const char *frame,
                        enum stats_field what)
{
	struct lock_call call = { .effect = effect,
		                  .success = LOCK_IF_ONE,
		                  .lease_ms = 30000,
		                  .key = SLICE_LIT("lock") };
	struct stats *stats = stats_new(1);
	struct section_stats *section = stats_section(stats, STATS_LOCK, "rule", 0);
	const struct hold_terms terms = { .rule = &rule_by_connection,
		                          .token = SLICE_LIT("token"),
		                          .stats = section };
	struct reply_scan scan = scanned(slice_str(frame));
	uint64_t n;

	hold_apply(f->holds, &f->owner, lock_request_new(f->holds, &call, &call.key, 1, &terms),
	           0, &scan.reply);
	n = metrics_counted(&section->n[STAT_REFUSED]) +
	    metrics_counted(&section->n[STAT_WRITES_REFUSED]) +
	    metrics_counted(&section->n[STAT_DELETES_REFUSED]);
	assert_int_equal(metrics_counted(&section->n[what]), n);
	stats_free(stats);
	return n;
}

/* Another connection, which has another token, takes the lock. */
static void others_take(struct hold_fixture *f, struct hold_owner *other)
{
	const struct resp_reply ok = { .type = '+' };
	const struct hold_terms terms = { .rule = &rule_by_connection,
		                          .token = SLICE_LIT("other") };
	const struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
		                        .kind = LOCK_KIND_RULE,
		                        .success = LOCK_IF_OK,
		                        .leased = true,
		                        .lease_ms = 30000,
		                        .ticket = SLICE_LIT("worker-1") };
	struct slice key = SLICE_LIT("lock");

	hold_owner_init(other);
	hold_apply(f->holds, other, lock_request_new(f->holds, &call, &key, 1, &terms), 0, &ok);
	assert_int_equal(other->n, 1);
}

TEST(what_is_answered_counts_as_refused_if_another_owner_was_in_the_way)
{
	struct hold_owner other;

	/* There is no lock to release or extend. */
	assert_int_equal(refused(f, LOCK_EFFECT_DROPS, ":0\r\n", STAT_DELETES_REFUSED), 0);
	assert_int_equal(refused(f, LOCK_EFFECT_EXPIRES, ":0\r\n", STAT_WRITES_REFUSED), 0);
	/* An attempt that gets nothing was refused by some owner, which may be at another
	 * worker. */
	assert_int_equal(refused(f, LOCK_EFFECT_TAKES, ":0\r\n", STAT_REFUSED), 1);
	assert_int_equal(refused(f, LOCK_EFFECT_TAKES, "-ERR no\r\n", STAT_REFUSED), 0);
	others_take(f, &other);
	assert_int_equal(refused(f, LOCK_EFFECT_DROPS, ":0\r\n", STAT_DELETES_REFUSED), 0);
	assert_int_equal(refused(f, LOCK_EFFECT_EXPIRES, ":0\r\n", STAT_WRITES_REFUSED), 1);
	assert_int_equal(refused(f, LOCK_EFFECT_EXPIRES, "-ERR no\r\n", STAT_WRITES_REFUSED),
	                 0);
	hold_owner_end(&other, false);
}

/* --- the longest held ----------------------------------------------------------------- */

static void take_in(struct hold_fixture *f, int db, double since)
{
	const struct resp_reply ok = { .type = '+' };
	struct lock_request *p = pending_take(f, &rule_by_connection, "worker-1");

	p->sent_at = since;
	hold_apply(f->holds, &f->owner, p, db, &ok);
}

/* The databases of these locks. */
struct told {
	size_t n, most;
	int db[16];
};

static bool on_told(void *arg, const struct held *held)
{
	struct told *told = arg;

	if (told->n == told->most)
		return false;
	told->db[told->n++] = held->db;
	return true;
}

static void assert_longest(struct hold_fixture *f, size_t most, size_t n, const int *db)
{
	struct told told = { .most = most };
	size_t count = held_count(f->holds);

	assert_int_equal(held_longest(f->holds, on_told, &told), count <= most);
	assert_int_equal(told.n, n);
	assert_memory_equal(told.db, db, n * sizeof(*db));
}

TEST(those_held_longest_come_first)
{
	for (int db = 1; db <= 5; db++)
		take_in(f, db, HOLD_NOW - 10 + db);
	assert_longest(f, 9, 5, (int[]){ 1, 2, 3, 4, 5 });
	assert_longest(f, 2, 2, (int[]){ 1, 2 });
	assert_longest(f, 5, 5, (int[]){ 1, 2, 3, 4, 5 });
}

TEST(a_lock_whose_reply_was_late_is_in_its_place)
{
	take_in(f, 2, HOLD_NOW - 8);
	take_in(f, 4, HOLD_NOW - 6);
	take_in(f, 3, HOLD_NOW - 7);
	take_in(f, 1, HOLD_NOW - 9);
	assert_longest(f, 9, 4, (int[]){ 1, 2, 3, 4 });
}

TEST(a_lock_that_is_taken_again_keeps_its_place)
{
	for (int db = 1; db <= 3; db++)
		take_in(f, db, HOLD_NOW - 10 + db);
	take_in(f, 1, HOLD_NOW);
	take_in(f, 2, HOLD_NOW);
	assert_longest(f, 9, 3, (int[]){ 1, 2, 3 });
	assert_int_equal(held_count(f->holds), 3);
}

TEST(one_that_was_released_is_not_among_them)
{
	for (int db = 1; db <= 3; db++)
		take_in(f, db, HOLD_NOW - 10 + db);
	hold_free(hold_first(f->holds, 2, SLICE_LIT("lock")));
	assert_longest(f, 9, 2, (int[]){ 1, 3 });
	assert_int_equal(held_count(f->holds), 2);
}

/* --- reads of which the time is noted ------------------------------------------------- */

static void assert_read_at(const struct seen_values *seen, int db, const char *key, double at)
{
	assert_true(seen_values_read_at(seen, db, slice_str(key)) == at);
}

TEST(the_last_few_reads_are_known)
{
	struct seen_values *seen = NULL;
	char key[] = "key 0";

	assert_read_at(seen, 0, "key 0", -1);
	for (int i = 0; i < 8; i++) {
		key[4] = (char)('0' + i);
		seen_values_note_read(&seen, 0, slice_str(key), i);
	}
	seen_values_note_read(&seen, 0, SLICE_LIT("key 1"), 100);
	assert_read_at(seen, 0, "key 0", 0);
	assert_read_at(seen, 0, "key 1", 100);
	assert_read_at(seen, 1, "key 1", -1);
	assert_read_at(seen, 0, "key", -1);
	seen_values_note_read(&seen, 0, SLICE_LIT("another"), 101);
	assert_read_at(seen, 0, "key 0", -1);
	assert_read_at(seen, 0, "another", 101);
	seen_values_free(seen);
}

/* --- values that were read --------------------------------------------------------------- */

static enum seen_value seen(const struct seen_values *all, const char *key)
{
	struct slice value;

	return seen_values_find(all, 0, slice_str(key), &value);
}

TEST(no_more_values_are_remembered_than_1024_and_256_kb)
{
	static const char large[SEEN_VALUE_MAX];
	struct seen_values *all = NULL;
	char key[16];

	for (int i = 0; i < SEEN_VALUES_MAX + 2; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		seen_values_put(&all, 0, slice_str(key), SEEN_VALUE, SLICE_LIT("v"));
	}
	assert_int_equal(seen(all, "k1"), SEEN_NOTHING);
	assert_int_equal(seen(all, "k2"), SEEN_VALUE);
	for (int i = 0; i < 100; i++) {
		snprintf(key, sizeof(key), "large%d", i);
		seen_values_put(&all, 0, slice_str(key), SEEN_VALUE,
		                slice_of(large, sizeof(large)));
	}
	assert_int_equal(seen(all, key), SEEN_VALUE);
	assert_int_equal(seen(all, "large0"), SEEN_NOTHING);
	assert_true(seen_values_nbytes(all) < 2 * SEEN_VALUES_BYTES);
	seen_values_free(all);
}
