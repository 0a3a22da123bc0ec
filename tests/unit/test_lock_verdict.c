/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of the verdict on a lock's sums, at each of its boundaries, and of the report's words.
 */
#include <stdio.h>
#include <string.h>

#include "tests/unit/testing.h"
#include "watch/tracker_internal.h"

#define EACH(i, rows)                                                                          \
	size_t i = 0;                                                                          \
	i < sizeof(rows) / sizeof(*(rows));                                                    \
	i++

/* --- durations ----------------------------------------------------------------------- */

TEST(durations_are_known_to_a_third)
{
	struct durations d = { .total = 0 }, all = { .longest = 5 };

	assert_true(durations_at(&d, 0.9) == 0);
	durations_add(&d, 1e-4);
	assert_int_equal(d.n[0], 1);
	assert_true(durations_at(&d, 0.9) == 1e-4);
	durations_add(&d, 1.01e-4);
	assert_int_equal(d.n[1], 1);
	/* The longest duration is exact. */
	assert_true(d.longest == 1.01e-4);
	assert_true(durations_at(&d, 0.5) == 1e-4);
	assert_true(durations_at(&d, 0.51) == 1.01e-4);
	durations_add(&d, 1);
	durations_add(&d, 2);
	assert_true(durations_at(&d, 0.75) >= 1 && durations_at(&d, 0.75) <= 1.3);
	assert_true(durations_at(&d, 1) == 2);
	durations_add(&d, 1e9);
	assert_int_equal(d.n[DURATIONS_BUCKETS - 1], 1);
	assert_int_equal(d.total, 5);
	durations_merge(&all, &d);
	durations_merge(&all, &(struct durations){ .longest = 1, .n = { 3 }, .total = 3 });
	assert_int_equal(all.total, 8);
	assert_int_equal(all.n[0], 4);
	assert_int_equal(all.n[DURATIONS_BUCKETS - 1], 1);
	assert_true(all.longest == 1e9);
}

/* --- single questions ---------------------------------------------------------------- */

/* The tables are to be read by rows: */
/* clang-format off */
#define TAKEN(count) .taken = { [WAY_SET_NX] = (count) }

TEST(single_questions_about_the_sums)
{
	static const struct {
		struct lock_sums l;
		bool has_values, is_scripted, compares, may_count, was_left;
	} rows[] = {
		{ { TAKEN(2) }, false, false, false, false, false },
		{ { TAKEN(3) }, true, false, false, false, false },
		{ { TAKEN(3), .n = { [SEEN_REPEATED] = 1 } }, false, false, false, false, false },
		{ { TAKEN(4), .n = { [SEEN_REPEATED] = 1, [SEEN_RETURNED] = 2 } },
		  true, false, false, false, false },
		{ { TAKEN(5), .n = { [SEEN_REPEATED] = 1, [SEEN_RETURNED] = 2 } },
		  false, false, false, false, false },
		{ { .taken = { [WAY_SETNX] = 3, [WAY_INCR] = 1 } },
		  false, false, false, false, false },
		{ { .taken = { [WAY_SETNX] = 2, [WAY_SET] = 1 } }, true, false, false, false, false },
		{ { .taken = { [WAY_SETNX] = 19, [WAY_SCRIPT] = 1 } },
		  true, false, false, false, false },
		{ { .taken = { [WAY_SETNX] = 18, [WAY_SCRIPT] = 1 } },
		  true, true, false, false, false },
		/* At least half of the releases compare the value. */
		{ { TAKEN(1), .n = { [SEEN_COMPARED] = 1, [SEEN_RELEASED] = 2 } },
		  false, false, true, false, false },
		{ { TAKEN(1), .n = { [SEEN_COMPARED] = 1, [SEEN_RELEASED] = 3 } },
		  false, false, false, false, false },
		{ { TAKEN(1), .n = { [SEEN_FOREIGN_VALUE] = 1, [SEEN_FOREIGN] = 2 } },
		  false, false, true, false, false },
		{ { TAKEN(1), .n = { [SEEN_FOREIGN_VALUE] = 1, [SEEN_FOREIGN] = 3 } },
		  false, false, false, false, false },
		/* Locks by INCR. */
		{ { .taken = { [WAY_INCR] = 3 }, .n = { [SEEN_REFUSED_OWN] = 1 } },
		  false, false, false, true, false },
		{ { .taken = { [WAY_INCR] = 3 } }, false, false, false, false, false },
		{ { .taken = { [WAY_INCR] = 19 }, .n = { [SEEN_OUTLASTED] = 1 } },
		  false, false, false, true, false },
		{ { .taken = { [WAY_INCR] = 20 }, .n = { [SEEN_OUTLASTED] = 1 } },
		  false, false, false, false, false },
		{ { .taken = { [WAY_INCR] = 3, [WAY_SETNX] = 1 }, .n = { [SEEN_REFUSED_OWN] = 1 } },
		  false, false, false, false, false },
		{ { .taken = { [WAY_INCR] = 3 }, .n = { [SEEN_BARE_LEFT] = 1, [SEEN_RETRIED] = 1 } },
		  false, false, false, false, true },
		{ { .taken = { [WAY_INCR] = 3 }, .n = { [SEEN_BARE_LEFT] = 1 } },
		  false, false, false, false, false },
		{ { .taken = { [WAY_INCR] = 3 }, .n = { [SEEN_RETRIED] = 1 } },
		  false, false, false, false, false },
		{ { .taken = { [WAY_INCR] = 3, [WAY_SETNX] = 1 },
		    .n = { [SEEN_BARE_LEFT] = 1, [SEEN_RETRIED] = 1 } },
		  false, false, false, false, false },
	};
	static const int releases[] = { SEEN_RELEASED, SEEN_CHECKED, SEEN_FOREIGN, SEEN_OUTLASTED };

	for (EACH(i, rows)) {
		const struct lock_sums *l = &rows[i].l;

		if (verdict_has_values(l) != rows[i].has_values ||
		    verdict_is_scripted(l) != rows[i].is_scripted ||
		    verdict_compares(l) != rows[i].compares ||
		    verdict_may_count(l) != rows[i].may_count ||
		    verdict_was_left(l) != rows[i].was_left)
			fail_msg("row %zu", i);
	}
	/* A lock that was released was not left. */
	for (EACH(i, releases)) {
		struct lock_sums l = { .taken = { [WAY_INCR] = 3 },
			               .n = { [SEEN_BARE_LEFT] = 1, [SEEN_RETRIED] = 1 } };

		l.n[releases[i]] = 1;
		assert_false(verdict_was_left(&l));
	}
}

TEST(a_name_may_say_lock)
{
	static const char *const yes[] = { "lock", "a:lock", "lock:a", "a-locks-b", "x.mutex" };
	static const char *const no[] = { "", "clock", "locked", "lock2", "a:b", ":", "mutexes" };

	for (EACH(i, yes))
		assert_true(verdict_says_lock(slice_str(yes[i])));
	for (EACH(i, no))
		assert_false(verdict_says_lock(slice_str(no[i])));
	assert_true(verdict_says_lock(slice_of("lock2", 4)));
}

TEST(keys_are_locks_if_they_are_released_like_locks)
{
	static const struct {
		const char *key;
		struct lock_sums l;
		bool is_lock;
	} rows[] = {
		{ "k", { TAKEN(5) }, false },
		{ "k", { TAKEN(5), .n = { [SEEN_RELEASED] = 1 } }, true },
		{ "k", { TAKEN(5), .n = { [SEEN_CHECKED] = 1 } }, true },
		{ "k", { TAKEN(5), .n = { [SEEN_FOREIGN] = 1 } }, true },
		{ "k", { TAKEN(5), .n = { [SEEN_OUTLASTED] = 1 } }, true },
		/* Counters that expire. */
		{ "k", { .taken = { [WAY_INCR] = 4 }, .n = { [SEEN_RELEASED] = 1 } }, false },
		{ "k", { .taken = { [WAY_INCR] = 4 }, .n = { [SEEN_RELEASED] = 1 },
		         .lease_ms_max = 1 }, true },
		{ "k", { .taken = { [WAY_INCR] = 4 },
		         .n = { [SEEN_RELEASED] = 1, [SEEN_REFUSED_OWN] = 1 },
		         .lease_ms_max = 1 }, false },
		{ "k", { .taken = { [WAY_INCR] = 4 },
		         .n = { [SEEN_RELEASED] = 2, [SEEN_REFUSED_OWN] = 1 },
		         .lease_ms_max = 1 }, true },
		{ "k", { .taken = { [WAY_INCR] = 8 },
		         .n = { [SEEN_RELEASED] = 1, [SEEN_CHECKED] = 1, [SEEN_FOREIGN] = 1,
		                [SEEN_OUTLASTED] = 1, [SEEN_REFUSED_OWN] = 1 },
		         .lease_ms_max = 1 }, true },
		/* Counters that were never deleted. */
		{ "k:lock", { .taken = { [WAY_INCR] = 4 },
		              .n = { [SEEN_BARE_LEFT] = 1, [SEEN_RETRIED] = 1 } }, true },
		{ "k", { .taken = { [WAY_INCR] = 4 },
		         .n = { [SEEN_BARE_LEFT] = 1, [SEEN_RETRIED] = 1 } }, false },
		/* Scripts: half of the locks are released by the value. */
		{ "k", { .taken = { [WAY_SCRIPT] = 4 }, .n = { [SEEN_CHECKED] = 2 } }, true },
		{ "k", { .taken = { [WAY_SCRIPT] = 5 }, .n = { [SEEN_CHECKED] = 2 } }, false },
		{ "k", { .taken = { [WAY_SCRIPT] = 5 },
		         .n = { [SEEN_CHECKED] = 1, [SEEN_COMPARED] = 1, [SEEN_FOREIGN_VALUE] = 1 } },
		  true },
		{ "k", { .taken = { [WAY_SCRIPT] = 4 },
		         .n = { [SEEN_CHECKED] = 2, [SEEN_REPEATED] = 1 } }, false },
		{ "k", { .taken = { [WAY_SCRIPT] = 4, [WAY_SETNX] = 1 },
		         .n = { [SEEN_RELEASED] = 1 } }, true },
	};

	for (EACH(i, rows)) {
		struct lock_sums l = rows[i].l;
		struct guard_sums written = { .written_back = 1 }, read = { .reread = 1 };
		struct key_group s = { .node.key = slice_str(rows[i].key), .lock = &l };

		if (verdict_is_lock(&s) != rows[i].is_lock)
			fail_msg("row %zu", i);
		assert_false(verdict_is_guard(&s));
		s.guard = &written;
		assert_int_equal(verdict_is_guard(&s), !rows[i].is_lock);
		s.guard = &read;
		assert_false(verdict_is_guard(&s));
		s.lock = NULL;
		assert_false(verdict_is_lock(&s));
	}
}

TEST(a_key_that_NX_sets_is_a_lock_until_twenty_were_set)
{
	static const struct {
		enum lock_way way;
		struct lock_sums l;
		bool may_be_lock;
	} rows[] = {
		{ WAY_SETNX, { TAKEN(19) }, true },
		{ WAY_SETNX, { TAKEN(20) }, false },
		{ WAY_SETNX, { TAKEN(20), .n = { [SEEN_RELEASED] = 1 } }, true },
		{ WAY_INCR, { TAKEN(19) }, false },
		{ WAY_SCRIPT, { TAKEN(19) }, false },
		{ WAY_SCRIPT, { TAKEN(19), .n = { [SEEN_RELEASED] = 1 } }, true },
	};

	for (EACH(i, rows)) {
		struct lock_sums l = rows[i].l;
		struct key_group s = { .lock = &l };
		struct key k = { .group = &s };

		if (tracker_may_be_lock(&(struct held_lock){ .key = &k, .way = rows[i].way }) !=
		    rows[i].may_be_lock)
			fail_msg("row %zu", i);
	}
}

TEST(a_refresh_is_seldom_early)
{
	assert_false(verdict_is_refresh(&(struct guard_sums){ .had_ttl = 0 }));
	assert_true(verdict_is_refresh(&(struct guard_sums){ .had_ttl = 10, .late = 9 }));
	assert_false(verdict_is_refresh(&(struct guard_sums){ .had_ttl = 10, .late = 8 }));
	assert_true(verdict_is_refresh(&(struct guard_sums){ .had_ttl = 1, .late = 1 }));
	assert_false(
		verdict_is_refresh(&(struct guard_sums){ .had_ttl = 10, .late = 10, .lasting = 1 }));
}

/* --- the verdict --------------------------------------------------------------------- */

TEST(the_owner_is_what_the_releases_show)
{
	static const struct {
		const char *owner;
		enum owner_open open;
		struct lock_sums l;
		uint64_t own, hopped, stolen;
	} rows[] = {
		{ "connection", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 3,
			[SEEN_CHECKED] = 1, [SEEN_DELETES] = 3 } }, 4, 0, 0 },
		/* More scripts than DELs compare a value that only the holder knows. */
		{ "value", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 1, [SEEN_CHECKED] = 2,
			[SEEN_DELETES] = 1 } }, 3, 0, 0 },
		{ "connection", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 2,
			[SEEN_CHECKED] = 2, [SEEN_DELETES] = 2 } }, 4, 0, 0 },
		{ "value", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 4, [SEEN_DELETES] = 4,
			[SEEN_REFUSED_OWN] = 1 } }, 4, 0, 0 },
		{ "value", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 4, [SEEN_DELETES] = 4,
			[SEEN_COMPARED] = 2 } }, 4, 0, 0 },
		{ "connection", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 4,
			[SEEN_DELETES] = 4, [SEEN_COMPARED] = 2, [SEEN_SEIZED] = 1 } }, 4, 0, 0 },
		{ "connection", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 4,
			[SEEN_DELETES] = 4, [SEEN_COMPARED] = 4, [SEEN_REPEATED] = 1 } }, 4, 0, 0 },
		/* Scripts take the lock. */
		{ "value", OPEN_NONE, { .taken = { [WAY_SCRIPT] = 4 }, .n = { [SEEN_RELEASED] = 4,
			[SEEN_DELETES] = 4, [SEEN_REPEATED] = 1 } }, 4, 0, 0 },
		/* A pool: the DEL of each lock comes over another connection. */
		{ "name", OPEN_NONE, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 4,
			[SEEN_DELETES] = 4, [SEEN_FOREIGN_NAME] = 4, [SEEN_FOREIGN_ADDRESS] = 4,
			[SEEN_REPEATED] = 1 } }, 0, 4, 0 },
		{ "address", OPEN_NONE, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 4,
			[SEEN_DELETES] = 4, [SEEN_FOREIGN_ADDRESS] = 4, [SEEN_REPEATED] = 1 } }, 0, 4, 0 },
		{ "value", OPEN_NONE, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 4,
			[SEEN_DELETES] = 4, [SEEN_FOREIGN_VALUE] = 4, [SEEN_FOREIGN_NAME] = 4 } },
		  0, 4, 0 },
		{ "name", OPEN_UNLIKE, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 4,
			[SEEN_DELETES] = 4, [SEEN_REPEATED] = 1 } }, 0, 4, 0 },
		/* One DEL too many for each lock is a theft. */
		{ "connection", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 3,
			[SEEN_FOREIGN] = 1, [SEEN_STRANGE] = 1, [SEEN_DELETES] = 5,
			[SEEN_FOREIGN_ADDRESS] = 1, [SEEN_REPEATED] = 1 } }, 3, 0, 1 },
		{ "connection", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 4,
			[SEEN_STOLEN] = 2, [SEEN_DELETES] = 4 , [SEEN_REPEATED] = 1} }, 4, 0, 2 },
		/* Clients that lost the race for a pool's lock delete it: more than one DEL in
		 * a hundred. */
		{ "address", OPEN_LOSERS, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4,
			[SEEN_STRANGE] = 5, [SEEN_DELETES] = 5, [SEEN_FOREIGN_ADDRESS] = 4,
			[SEEN_REPEATED] = 1 } }, 0, 3, 1 },
		{ "address", OPEN_NONE, { TAKEN(400), .n = { [SEEN_FOREIGN] = 400,
			[SEEN_STRANGE] = 400, [SEEN_DELETES] = 404, [SEEN_FOREIGN_ADDRESS] = 400,
			[SEEN_REPEATED] = 1 } }, 0, 396, 4 },
		{ "address", OPEN_LOSERS, { TAKEN(400), .n = { [SEEN_FOREIGN] = 400,
			[SEEN_STRANGE] = 400, [SEEN_DELETES] = 405, [SEEN_FOREIGN_ADDRESS] = 400,
			[SEEN_REPEATED] = 1 } }, 0, 395, 5 },
		/* Fewer than one release in twenty comes over another connection. */
		{ "address", OPEN_RARE, { TAKEN(22), .n = { [SEEN_RELEASED] = 21,
			[SEEN_FOREIGN] = 1, [SEEN_STRANGE] = 1, [SEEN_DELETES] = 22,
			[SEEN_FOREIGN_ADDRESS] = 1, [SEEN_REPEATED] = 1 } }, 21, 1, 0 },
		{ "address", OPEN_NONE, { TAKEN(21), .n = { [SEEN_RELEASED] = 20,
			[SEEN_FOREIGN] = 1, [SEEN_STRANGE] = 1, [SEEN_DELETES] = 21,
			[SEEN_FOREIGN_ADDRESS] = 1, [SEEN_REPEATED] = 1 } }, 20, 1, 0 },
		/* Takeovers: more than three quarters of the DELs by others, or a SET. */
		{ "address", OPEN_NONE, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 4,
			[SEEN_DELETES] = 4, [SEEN_FOREIGN_ADDRESS] = 4, [SEEN_BROKEN] = 3,
			[SEEN_REPEATED] = 1 } }, 0, 4, 0 },
		{ "address", OPEN_TAKEOVERS, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4,
			[SEEN_STRANGE] = 4, [SEEN_DELETES] = 4, [SEEN_FOREIGN_ADDRESS] = 4,
			[SEEN_BROKEN] = 4, [SEEN_REPEATED] = 1 } }, 0, 4, 0 },
		{ "address", OPEN_TAKEOVERS, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4,
			[SEEN_STRANGE] = 4, [SEEN_DELETES] = 4, [SEEN_FOREIGN_ADDRESS] = 4,
			[SEEN_SEIZED] = 1, [SEEN_REPEATED] = 1 } }, 0, 4, 0 },
		/* With values, DELs that compared count as takeovers; then the value is not
		 * the owner. */
		{ "connection", OPEN_TAKEOVERS, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4,
			[SEEN_STRANGE] = 4, [SEEN_DELETES] = 4, [SEEN_FOREIGN_VALUE] = 4,
			[SEEN_BROKEN] = 4 } }, 0, 4, 0 },
		/* Most of the pool's releases share an address or a name. Voids, late holders and
		 * unreleased locks do not show that the others were late. */
		{ "name", OPEN_UNLIKE, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 4,
			[SEEN_DELETES] = 4, [SEEN_FOREIGN_ADDRESS] = 3, [SEEN_VOIDS] = 1,
			[SEEN_REPEATED] = 1 } }, 0, 4, 0 },
		{ "name", OPEN_UNLIKE, { TAKEN(80), .n = { [SEEN_RELEASED] = 31,
			[SEEN_OUTLIVED] = 10, [SEEN_VOIDS] = 8, [SEEN_FOREIGN] = 41,
			[SEEN_STRANGE] = 41, [SEEN_DELETES] = 80, [SEEN_FOREIGN_ADDRESS] = 33,
			[SEEN_REPEATED] = 1 } }, 31, 41, 0 },
		{ "name", OPEN_UNLIKE, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 4,
			[SEEN_DELETES] = 4, [SEEN_FOREIGN_ADDRESS] = 3, [SEEN_REPEATED] = 1 } },
		  0, 4, 0 },
		{ "name", OPEN_UNLIKE, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 4,
			[SEEN_DELETES] = 4, [SEEN_FOREIGN_ADDRESS] = 2, [SEEN_VOIDS] = 2,
			[SEEN_REPEATED] = 1 } }, 0, 4, 0 },
		{ "name", OPEN_UNLIKE, { TAKEN(5), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 4,
			[SEEN_DELETES] = 4, [SEEN_FOREIGN_ADDRESS] = 3, [SEEN_UNRELEASED] = 1,
			[SEEN_REPEATED] = 1 } }, 0, 4, 0 },
		{ "address", OPEN_NONE, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 4,
			[SEEN_DELETES] = 4, [SEEN_FOREIGN_ADDRESS] = 3, [SEEN_FOREIGN_LATE] = 1,
			[SEEN_REPEATED] = 1 } }, 0, 3, 1 },
		{ "address", OPEN_LOSERS, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4,
			[SEEN_STRANGE] = 4, [SEEN_DELETES] = 7, [SEEN_FOREIGN_ADDRESS] = 1,
			[SEEN_REPEATED] = 1 } }, 0, 1, 3 },
		{ "address", OPEN_LOSERS, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4,
			[SEEN_STRANGE] = 4, [SEEN_DELETES] = 4, [SEEN_CHECKED] = 1,
			[SEEN_FOREIGN_ADDRESS] = 3, [SEEN_REPEATED] = 1 } }, 1, 3, 1 },
		/* However few extra DELs there are, they may be others than those of strangers. */
		{ "address", OPEN_LOSERS, { TAKEN(400), .n = { [SEEN_FOREIGN] = 400,
			[SEEN_STRANGE] = 400, [SEEN_DELETES] = 404, [SEEN_FOREIGN_ADDRESS] = 396,
			[SEEN_REPEATED] = 1 } }, 0, 396, 4 },
		{ "connection", OPEN_LOSERS, { TAKEN(400), .n = { [SEEN_FOREIGN] = 400,
			[SEEN_STRANGE] = 400, [SEEN_DELETES] = 404, [SEEN_FOREIGN_VALUE] = 396 } },
		  0, 396, 4 },
		/* A lock that was taken over explains no DEL. */
		{ "address", OPEN_NONE, { TAKEN(4), .n = { [SEEN_FOREIGN] = 2, [SEEN_STRANGE] = 2,
			[SEEN_DELETES] = 2, [SEEN_LAPSED] = 2, [SEEN_YIELDED] = 1,
			[SEEN_FOREIGN_ADDRESS] = 2, [SEEN_REPEATED] = 1 } }, 0, 1, 1 },
		/* With values, neither losers nor releases by others leave the owner open. */
		{ "value", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 4, [SEEN_DELETES] = 5,
			[SEEN_REFUSED_OWN] = 1 } }, 4, 0, 0 },
		{ "connection", OPEN_LOSERS, { TAKEN(4), .n = { [SEEN_RELEASED] = 4,
			[SEEN_DELETES] = 5, [SEEN_REFUSED_OWN] = 1, [SEEN_REPEATED] = 1 } }, 4, 0, 0 },
		{ "connection", OPEN_TAKEOVERS, { TAKEN(4), .n = { [SEEN_FOREIGN] = 4,
			[SEEN_STRANGE] = 4, [SEEN_DELETES] = 8, [SEEN_FOREIGN_VALUE] = 1,
			[SEEN_BROKEN] = 1, [SEEN_REPEATED] = 1 } }, 0, 0, 4 },
		{ "connection", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 1,
			[SEEN_CHECKED] = 1, [SEEN_STRANGE] = 1, [SEEN_DELETES] = 2,
			[SEEN_REPEATED] = 1 } }, 2, 0, 0 },
		{ "value", OPEN_NONE, { .taken = { [WAY_SCRIPT] = 4 }, .n = { [SEEN_STRANGE] = 1,
			[SEEN_DELETES] = 1, [SEEN_REPEATED] = 1 } }, 0, 0, 0 },
		/* Half of the locks have no DEL over their own connection. */
		{ "connection", OPEN_NONE, { TAKEN(4), .n = { [SEEN_STRANGE] = 1,
			[SEEN_DELETES] = 3, [SEEN_RELEASED] = 2, [SEEN_REPEATED] = 1 } }, 2, 0, 0 },
		{ "connection", OPEN_UNLIKE, { TAKEN(5), .n = { [SEEN_STRANGE] = 1,
			[SEEN_DELETES] = 3, [SEEN_RELEASED] = 2, [SEEN_REPEATED] = 1 } }, 2, 0, 0 },
		/* More than one lock in twenty outlasts its connection, and is released. */
		{ "connection", OPEN_HANDED_ON, { TAKEN(20), .n = { [SEEN_RELEASED] = 19,
			[SEEN_HANDED_ON] = 1, [SEEN_STRANGE] = 1, [SEEN_DELETES] = 20,
			[SEEN_REPEATED] = 1 } }, 19, 0, 0 },
		{ "connection", OPEN_NONE, { TAKEN(21), .n = { [SEEN_RELEASED] = 20,
			[SEEN_HANDED_ON] = 1, [SEEN_STRANGE] = 1, [SEEN_DELETES] = 21,
			[SEEN_REPEATED] = 1 } }, 20, 0, 0 },
		{ "connection", OPEN_HANDED_ON, { TAKEN(5), .n = { [SEEN_HANDED_ON] = 5,
			[SEEN_STRANGE] = 5, [SEEN_DELETES] = 5, [SEEN_REPEATED] = 1 } }, 0, 0, 0 },
		{ "value", OPEN_NONE, { TAKEN(4), .n = { [SEEN_RELEASED] = 3, [SEEN_DELETES] = 4,
			[SEEN_HANDED_ON] = 1, [SEEN_STRANGE] = 1, [SEEN_REFUSED_OWN] = 1 } }, 3, 0, 0 },
		{ "address", OPEN_HANDED_ON, { TAKEN(20), .n = { [SEEN_FOREIGN] = 19,
			[SEEN_FOREIGN_ADDRESS] = 19, [SEEN_HANDED_ON] = 1, [SEEN_ABANDONED] = 1,
			[SEEN_STRANGE] = 20, [SEEN_DELETES] = 20, [SEEN_REPEATED] = 1 } }, 0, 19, 0 },
		{ "name", OPEN_UNLIKE, { TAKEN(5), .n = { [SEEN_FOREIGN] = 4, [SEEN_STRANGE] = 5,
			[SEEN_HANDED_ON] = 1, [SEEN_DELETES] = 5, [SEEN_REPEATED] = 1 } }, 0, 4, 0 },
	};

	for (EACH(i, rows)) {
		struct lock_verdict v = lock_verdict(&rows[i].l);

		if (strcmp(v.owner, rows[i].owner) != 0 || v.owner_open != rows[i].open ||
		    v.own != rows[i].own || v.hopped != rows[i].hopped ||
		    v.stolen != rows[i].stolen)
			fail_msg("row %zu: %s, %d; %d own, %d hopped, %d stolen", i, v.owner,
			         (int)v.owner_open, (int)v.own, (int)v.hopped, (int)v.stolen);
	}
}

TEST(locks_that_stay_without_an_expiry_may_be_marks)
{
	static const struct {
		struct lock_sums l;
		bool may_mark;
	} rows[] = {
		{ { TAKEN(20) }, false },
		{ { TAKEN(20), .n = { [SEEN_BARE_UNRELEASED] = 1 } }, false },
		{ { TAKEN(19), .n = { [SEEN_BARE_UNRELEASED] = 1 } }, true },
		{ { TAKEN(19), .n = { [SEEN_BARE_UNRELEASED] = 1, [SEEN_EXPIRY_LATER] = 2 } },
		  false },
		{ { TAKEN(19), .n = { [SEEN_BARE_UNRELEASED] = 2, [SEEN_EXPIRY_LATER] = 2 } },
		  true },
		{ { .taken = { [WAY_INCR] = 1 }, .n = { [SEEN_BARE_UNRELEASED] = 1,
			[SEEN_BARE_LEFT] = 1, [SEEN_RETRIED] = 1 } }, false },
	};

	for (EACH(i, rows))
		if (verdict_may_mark(&rows[i].l) != rows[i].may_mark)
			fail_msg("row %zu", i);
}

TEST(the_expiry_and_its_holders_show_whether_to_renew)
{
	static const struct {
		struct lock_sums l;
		uint64_t late, unreleased;
		bool renew, is_left, is_open;
		double longest;
	} rows[] = {
		{ { TAKEN(4), .lease_ms_min = 1000 }, 0, 0, false, false, false, 0 },
		/* A holder that was late; the expiry is the shortest time that it held the
		 * lock. */
		{ { TAKEN(4), .lease_ms_min = 1000, .n = { [SEEN_OUTLIVED] = 1 } },
		  1, 0, true, false, false, 1 },
		{ { TAKEN(4), .lease_ms_min = 1000, .held.longest = 3,
		    .n = { [SEEN_OUTLIVED] = 1 } }, 1, 0, true, false, false, 3 },
		{ { TAKEN(4), .n = { [SEEN_LAPSED] = 2, [SEEN_WORKED] = 1 }, .lapsed_longest = 2 },
		  1, 1, true, true, true, 2 },
		{ { TAKEN(4), .n = { [SEEN_LAPSED] = 1, [SEEN_WORKED] = 2 }, .lapsed_longest = 2 },
		  1, 0, true, false, false, 2 },
		{ { TAKEN(4), .n = { [SEEN_SEIZED] = 1 }, .lapsed_longest = 2, .held.longest = 1 },
		  0, 0, false, false, false, 2 },
		{ { TAKEN(4), .n = { [SEEN_SEIZED] = 1 }, .lapsed_longest = 2, .held.longest = 3 },
		  0, 0, false, false, false, 3 },
		{ { TAKEN(4), .n = { [SEEN_UNRELEASED] = 1 }, .lapsed_longest = 2 },
		  0, 1, false, true, false, 0 },
		/* One lock in twenty may be left, and one for four late releases. */
		{ { TAKEN(20), .n = { [SEEN_UNRELEASED] = 1, [SEEN_OUTLIVED] = 4 } },
		  4, 1, true, false, false, 0 },
		{ { TAKEN(19), .n = { [SEEN_UNRELEASED] = 1, [SEEN_OUTLIVED] = 4 } },
		  4, 1, true, true, true, 0 },
		{ { TAKEN(20), .n = { [SEEN_UNRELEASED] = 1, [SEEN_OUTLIVED] = 3 } },
		  3, 1, true, false, true, 0 },
		{ { TAKEN(20), .likes_left = true, .n = { [SEEN_OUTLIVED] = 4 } },
		  4, 0, true, false, true, 0 },
		/* Ten holds show how close they come to the expiry. */
		{ { TAKEN(10), .lease_ms_min = 1000, .held = { .total = 10, .longest = 0.51 } },
		  0, 0, true, false, false, 0.51 },
		{ { TAKEN(10), .lease_ms_min = 1000, .held = { .total = 10, .longest = 0.5 } },
		  0, 0, false, false, false, 0.5 },
		{ { TAKEN(10), .lease_ms_min = 1000, .held = { .total = 9, .longest = 0.51 } },
		  0, 0, false, false, false, 0.51 },
		{ { TAKEN(10), .lease_ms_min = 1000, .held = { .total = 10, .longest = 0.51 },
		    .n = { [SEEN_PROLONGED] = 1 } }, 0, 0, false, false, false, 0.51 },
		{ { TAKEN(10), .held = { .total = 10, .longest = 0.51 } },
		  0, 0, false, false, false, 0.51 },
		{ { TAKEN(10), .lease_ms_min = 1000, .likes_left = true,
		    .held = { .total = 10, .longest = 0.51 } }, 0, 0, false, false, false, 0.51 },
		{ { TAKEN(100), .lease_ms_min = 1000, .held = { .total = 10, .longest = 0.51 },
		    .n = { [SEEN_UNRELEASED] = 1 } }, 0, 1, false, false, false, 0.51 },
		{ { TAKEN(10), .lease_ms_min = 1, .held = { .total = 10, .longest = 0.51e-3 } },
		  0, 0, true, false, false, 0.51e-3 },
		/* Locks without an expiry. */
		{ { TAKEN(4), .n = { [SEEN_BARE] = 1 } }, 0, 0, true, false, false, 0 },
		{ { TAKEN(4), .n = { [SEEN_BARE] = 1 }, .lease_ms_max = 1 },
		  0, 0, false, false, false, 0 },
		{ { TAKEN(4), .n = { [SEEN_YIELDED] = 1 } }, 0, 0, false, false, true, 0 },
		/* Holders that compare before a DEL: those that did not compare again came
		 * late. */
		{ { TAKEN(4), .n = { [SEEN_COMPARED] = 1, [SEEN_RELEASED] = 2, [SEEN_UNRELEASED] = 2,
		                     [SEEN_LOOKS] = 3 } }, 1, 1, true, true, true, 0 },
		{ { TAKEN(4), .n = { [SEEN_COMPARED] = 1, [SEEN_RELEASED] = 2, [SEEN_UNRELEASED] = 2,
		                     [SEEN_LOOKS] = 1, [SEEN_ABANDONED] = 1, [SEEN_CHECKED] = 1 } },
		  1, 1, true, true, true, 0 },
		{ { TAKEN(4), .n = { [SEEN_COMPARED] = 1, [SEEN_RELEASED] = 1, [SEEN_LAPSED] = 2,
		                     [SEEN_LOOKS] = 4 } }, 2, 0, true, false, false, 0 },
		{ { TAKEN(4), .n = { [SEEN_COMPARED] = 1, [SEEN_RELEASED] = 1, [SEEN_LAPSED] = 2,
		                     [SEEN_LOOKS] = 2 } }, 2, 0, true, false, false, 0 },
		/* A pool: locks without a DEL were late. */
		{ { TAKEN(8), .n = { [SEEN_FOREIGN] = 2, [SEEN_STRANGE] = 2, [SEEN_DELETES] = 3,
		                     [SEEN_ABANDONED] = 1, [SEEN_CHECKED] = 1, [SEEN_LAPSED] = 1,
		                     [SEEN_UNRELEASED] = 3, [SEEN_FOREIGN_ADDRESS] = 2,
		                     [SEEN_REPEATED] = 1 } }, 2, 2, true, true, true, 0 },
		/* The pool's thefts may be late releases, too. */
		{ { TAKEN(4), .n = { [SEEN_FOREIGN] = 3, [SEEN_STRANGE] = 3, [SEEN_DELETES] = 3,
		                     [SEEN_STOLEN] = 1, [SEEN_UNRELEASED] = 1,
		                     [SEEN_FOREIGN_ADDRESS] = 3, [SEEN_REPEATED] = 1 } },
		  0, 1, true, true, true, 0 },
		{ { TAKEN(4), .n = { [SEEN_FOREIGN] = 2, [SEEN_STRANGE] = 2, [SEEN_DELETES] = 2,
		                     [SEEN_FOREIGN_ADDRESS] = 2, [SEEN_UNRELEASED] = 2,
		                     [SEEN_REPEATED] = 1 } }, 0, 2, false, true, false, 0 },
		{ { TAKEN(4), .n = { [SEEN_FOREIGN] = 2, [SEEN_STRANGE] = 2, [SEEN_DELETES] = 3,
		                     [SEEN_FOREIGN_ADDRESS] = 2, [SEEN_UNRELEASED] = 2,
		                     [SEEN_REPEATED] = 1 } }, 1, 1, true, true, true, 0 },
		/* Users of one connection: another user's DEL may have come late. */
		{ { TAKEN(40), .n = { [SEEN_REFUSED_OWN] = 1, [SEEN_UNRELEASED] = 1 } },
		  0, 1, true, false, true, 0 },
		{ { TAKEN(40), .n = { [SEEN_REFUSED_OWN] = 1 } }, 0, 0, false, false, false, 0 },
		{ { .taken = { [WAY_INCR] = 40 },
		    .n = { [SEEN_REFUSED_OWN] = 1, [SEEN_UNRELEASED] = 1 } },
		  0, 1, false, false, false, 0 },
	};

	for (EACH(i, rows)) {
		struct lock_verdict v = lock_verdict(&rows[i].l);

		if (v.late != rows[i].late || v.unreleased != rows[i].unreleased ||
		    v.renew != rows[i].renew || v.is_left != rows[i].is_left ||
		    v.renew_is_open != rows[i].is_open || v.longest != rows[i].longest)
			fail_msg("row %zu: %d late, %d unreleased, renew %d, left %d, open %d, "
			         "longest %g", i, (int)v.late, (int)v.unreleased, v.renew,
			         v.is_left, v.renew_is_open, v.longest);
	}
}

TEST(harm_and_risk_need_a_rule)
{
	static const struct {
		struct lock_sums l;
		bool harmed, needs_rule;
	} rows[] = {
		{ { TAKEN(4) }, false, false },
		{ { TAKEN(4), .n = { [SEEN_STOLEN] = 1 } }, true, true },
		{ { TAKEN(4), .n = { [SEEN_OUTLIVED] = 1 } }, true, true },
		{ { TAKEN(4), .n = { [SEEN_BARE_STAYED] = 1 } }, true, true },
		{ { TAKEN(4), .n = { [SEEN_SEIZED] = 1 } }, true, true },
		{ { TAKEN(4), .n = { [SEEN_BARE] = 1 } }, false, true },
		/* Each lock has a DEL, and none came close to its expiry. */
		{ { TAKEN(4), .n = { [SEEN_RELEASED] = 4, [SEEN_DELETES] = 4 } }, false, false },
		{ { TAKEN(4), .n = { [SEEN_RELEASED] = 4, [SEEN_DELETES] = 5 } }, false, true },
		{ { TAKEN(4), .n = { [SEEN_RELEASED] = 1, [SEEN_NARROW] = 1 } }, false, true },
		{ { TAKEN(4), .n = { [SEEN_RELEASED] = 1, [SEEN_VOIDS] = 1 } }, false, true },
		{ { TAKEN(4), .n = { [SEEN_RELEASED] = 1, [SEEN_REFUSED_OWN] = 1 } }, false, true },
		{ { TAKEN(4), .n = { [SEEN_CHECKED] = 4, [SEEN_NARROW] = 1 } }, false, false },
		{ { TAKEN(4), .n = { [SEEN_OUTLASTED] = 1, [SEEN_NARROW] = 1 } }, false, true },
		{ { TAKEN(4), .n = { [SEEN_RELEASED] = 1, [SEEN_FOREIGN] = 1, [SEEN_STRANGE] = 1,
		                     [SEEN_DELETES] = 2, [SEEN_FOREIGN_ADDRESS] = 1,
		                     [SEEN_NARROW] = 1 } }, false, true },
		{ { TAKEN(4), .n = { [SEEN_OUTLASTED] = 1, [SEEN_FOREIGN] = 1, [SEEN_STRANGE] = 1,
		                     [SEEN_DELETES] = 1, [SEEN_FOREIGN_ADDRESS] = 1,
		                     [SEEN_NARROW] = 1 } }, false, true },
		{ { TAKEN(4), .n = { [SEEN_FOREIGN] = 2, [SEEN_STRANGE] = 2, [SEEN_DELETES] = 2,
		                     [SEEN_FOREIGN_ADDRESS] = 2 } }, false, false },
		{ { TAKEN(4), .n = { [SEEN_FOREIGN] = 2, [SEEN_STRANGE] = 2, [SEEN_DELETES] = 2,
		                     [SEEN_FOREIGN_NAME] = 2 } }, false, false },
		{ { TAKEN(4), .n = { [SEEN_FOREIGN] = 2, [SEEN_STRANGE] = 2, [SEEN_DELETES] = 2,
		                     [SEEN_FOREIGN_NAME] = 1, [SEEN_FOREIGN_ADDRESS] = 1 } },
		  false, true },
	};

	for (EACH(i, rows))
		if (verdict_is_harmed(&rows[i].l) != rows[i].harmed ||
		    discovery_lock_needs_rule(&rows[i].l) != rows[i].needs_rule)
			fail_msg("row %zu", i);
}

/* clang-format on */
