/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of lock/hold/renewal.c: hasp renews a lock as long as it should, no longer, and
 * releases it at the end.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/hold/hold_internal.h"
#include "tests/unit/fake_redis.h"
#include "tests/unit/testing.h"

#define LEASE_MS 30000
#define LEASE ((double)LEASE_MS / 1000)
/* Longer than hasp gathers holds for one batch, in seconds. */
#define GATHERED 0.05

#define RENEW SCRIPT_RENEW
#define RELEASE SCRIPT_RELEASE

static const struct rule renewed = { .owner = OWNER_CONNECTION,
	                             .renew = RENEW_YES,
	                             .lease_ms = LEASE_MS };
static const struct rule unleased = { .owner = OWNER_CONNECTION,
	                              .renew = RENEW_UNLEASED,
	                              .lease_ms = LEASE_MS };
static const struct rule released = { .owner = OWNER_CONNECTION,
	                              .renew = RENEW_NO,
	                              .on_disconnect = DISCONNECT_RELEASE,
	                              .lease_ms = LEASE_MS };
static const struct rule of_value = { .owner = OWNER_VALUE,
	                              .renew = RENEW_YES,
	                              .lease_ms = LEASE_MS };

struct fixture {
	struct fake_redis redis;
	struct holds *holds;
	struct hold_owner owner, other;
	struct stats *stats;
	struct section_stats *section;
};

static void set_up(struct fixture *f)
{
	fake_redis_init(&f->redis);
	f->holds = holds_new(&f->redis.timers, f->redis.script_jobs);
	hold_owner_init(&f->owner);
	hold_owner_init(&f->other);
	f->stats = stats_new(1);
	f->section = stats_section(f->stats, STATS_LOCK, "rule", 0);
}

static void tear_down(struct fixture *f)
{
	script_jobs_stop(f->redis.script_jobs);
	fake_redis_break(&f->redis);
	hold_owner_end(&f->owner, true);
	hold_owner_end(&f->other, true);
	holds_free(f->holds);
	stats_free(f->stats);
	fake_redis_fini(&f->redis);
}

STRUCT_FIXTURE(set_up, tear_down);

/* Returns the request of a command on `key` that was sent; it succeeds if the reply is :1. */
static struct lock_request *sent(struct fixture *f, const struct rule *rule, const char *key,
                                 struct lock_call call)
{
	struct slice name = slice_str(key);
	struct hold_terms terms = { .rule = rule,
		                    .token = SLICE_LIT("token"),
		                    .stats = f->section };

	call.success = LOCK_IF_ONE;
	call.kind = rule->owner == OWNER_VALUE ? LOCK_KIND_VALUE : LOCK_KIND_RULE;
	call.value = SLICE_LIT("v");
	call.ticket = SLICE_LIT("worker-1");
	return lock_request_new(f->holds, &call, &name, 1, &terms);
}

static void succeed(struct fixture *f, struct lock_request *p)
{
	struct resp_reply one = { .type = ':', .integer = 1 };

	if (p)
		hold_apply(f->holds, &f->owner, p, 0, &one);
}

static void command(struct fixture *f, const struct rule *rule, const char *key,
                    struct lock_call call)
{
	succeed(f, sent(f, rule, key, call));
}

/* SETNX takes the lock with the rule's lease. */
static void take(struct fixture *f, const struct rule *rule, const char *key)
{
	command(f, rule, key,
	        (struct lock_call){ .effect = LOCK_EFFECT_TAKES, .lease_ms = rule->lease_ms });
}

static struct hold *hold_on(struct fixture *f, const char *key)
{
	return hold_first(f->holds, 0, slice_str(key));
}

static enum hold_state state_of(struct fixture *f, const char *key)
{
	struct hold *hold = hold_on(f, key);

	assert_non_null(hold);
	return hold->state;
}

/* Passes the time until the next renewal has been sent: a third of the lease, and the time
 * over which hasp spreads renewals. */
static void pass_a_third(struct fixture *f)
{
	fake_redis_advance(&f->redis, LEASE / 3 + GATHERED);
}

/* --- renewing ------------------------------------------------------------------------- */

TEST(a_hold_is_renewed_each_third_of_its_lease)
{
	take(f, &renewed, "a");
	fake_redis_advance(&f->redis, 0.79 * LEASE / 3);
	assert_int_equal(fake_redis_ncalls(&f->redis), 0);
	for (int i = 0; i < 10; i++) {
		pass_a_third(f);
		assert_string_equal(fake_redis_next(&f->redis, RENEW).args,
		                    " a hasp:fence:{a} hasp:owner:{a} 30000 token");
		fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
		assert_int_equal(fake_redis_ncalls(&f->redis), 0);
	}
	assert_true(hold_on(f, "a")->good_until > f->redis.now + LEASE / 2);
}

TEST(a_renewed_lease_counts_from_when_the_renewal_was_sent)
{
	double sent_at;

	take(f, &renewed, "a");
	while (fake_redis_ncalls(&f->redis) == 0)
		fake_redis_advance(&f->redis, 0.01);
	sent_at = f->redis.now;
	fake_redis_advance(&f->redis, 3);
	fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	assert_true(hold_on(f, "a")->good_until <= sent_at + LEASE);
	assert_true(hold_on(f, "a")->good_until >= sent_at + LEASE - 0.01);
	assert_true(hold_on(f, "a")->slack >= 3);
}

/* By then, the first two renewals of the hold are overdue. */
TEST(a_hold_whose_reply_came_late_is_renewed_at_once)
{
	struct lock_call takes = { .effect = LOCK_EFFECT_TAKES, .lease_ms = LEASE_MS };
	struct lock_call expires = { .effect = LOCK_EFFECT_EXPIRES, .lease_ms = LEASE_MS };
	struct lock_request *p = sent(f, &renewed, "a", takes);

	fake_redis_advance(&f->redis, 0.8 * LEASE);
	succeed(f, p);
	fake_redis_advance(&f->redis, GATHERED);
	(void)fake_redis_next(&f->redis, RENEW);
	fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	p = sent(f, &renewed, "a", expires);
	fake_redis_advance(&f->redis, 0.25 * LEASE);
	assert_int_equal(state_of(f, "a"), HOLD_RENEWED);
	succeed(f, p);
	fake_redis_advance(&f->redis, 0.15 * LEASE);
	(void)fake_redis_next(&f->redis, RENEW);
}

TEST(a_lease_that_the_application_asked_for_is_not_renewed_under_unleased)
{
	take(f, &unleased, "a");
	command(f, &unleased, "b",
	        (struct lock_call){
			.effect = LOCK_EFFECT_TAKES, .leased = true, .lease_ms = LEASE_MS });
	assert_int_equal(state_of(f, "a"), HOLD_RENEWED);
	assert_int_equal(state_of(f, "b"), HOLD_LEASED);
}

TEST(an_expiry_that_the_application_sets_ends_renewal_under_unleased)
{
	take(f, &unleased, "a");
	command(f, &unleased, "a",
	        (struct lock_call){ .effect = LOCK_EFFECT_EXPIRES, .lease_ms = 5000 });
	assert_int_equal(state_of(f, "a"), HOLD_LEASED);
	fake_redis_advance(&f->redis, 4.9);
	assert_non_null(hold_on(f, "a"));
	fake_redis_advance(&f->redis, 0.2);
	assert_null(hold_on(f, "a"));
	assert_int_equal(fake_redis_ncalls(&f->redis), 0);
}

TEST(a_lease_whose_end_is_not_known_is_renewed_at_once)
{
	command(f, &renewed, "a",
	        (struct lock_call){ .effect = LOCK_EFFECT_TAKES, .leased = true });
	fake_redis_advance(&f->redis, GATHERED);
	(void)fake_redis_next(&f->redis, RENEW);
	fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	assert_int_equal(state_of(f, "a"), HOLD_RENEWED);
}

/* SET ... KEEPTTL: Redis keeps the expiry that the last call of hasp has set. */
static const struct lock_call keepttl = { .effect = LOCK_EFFECT_TAKES, .leased = true };

TEST(a_hold_that_keeps_its_expiry_is_renewed_when_the_earlier_one_was_due)
{
	double until = f->redis.now + LEASE;

	take(f, &of_value, "a");
	fake_redis_advance(&f->redis, 5);
	command(f, &of_value, "a", keepttl);
	assert_int_equal(state_of(f, "a"), HOLD_RENEWED);
	assert_true(hold_on(f, "a")->good_until == until);
	fake_redis_advance(&f->redis, LEASE / 3 - 5.1);
	assert_int_equal(fake_redis_ncalls(&f->redis), 0);
	fake_redis_advance(&f->redis, 0.1 + GATHERED);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
}

TEST(a_hold_that_keeps_an_expiry_that_is_not_known_is_renewed_at_once)
{
	command(f, &of_value, "a", keepttl);
	command(f, &of_value, "a", keepttl);
	fake_redis_advance(&f->redis, GATHERED);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
}

TEST(a_lease_that_is_kept_can_be_shortened_and_replaced)
{
	struct lock_call leased = { .effect = LOCK_EFFECT_TAKES,
		                    .leased = true,
		                    .lease_ms = 60000 };
	const struct lock_call expires = { .effect = LOCK_EFFECT_EXPIRES,
		                           .leased = true,
		                           .lease_ms = 5000 };

	command(f, &of_value, "a", leased);
	command(f, &of_value, "a", keepttl);
	command(f, &of_value, "a", expires);
	assert_int_equal(state_of(f, "a"), HOLD_LEASED);
	assert_true(hold_on(f, "a")->good_until == f->redis.now + 5);
	command(f, &of_value, "a", leased);
	assert_true(hold_on(f, "a")->good_until == f->redis.now + 60);
	/* SET ... PXAT, 5 s after the request's time */
	leased.lease_ms = 0;
	leased.until_ms = 5000;
	command(f, &of_value, "a", leased);
	assert_int_equal(state_of(f, "a"), HOLD_LEASED);
	assert_true(hold_on(f, "a")->good_until == f->redis.now + 5);
}

TEST(a_hold_that_goes_on_counts_the_next_renewal_from_the_new_try)
{
	take(f, &renewed, "a");
	fake_redis_advance(&f->redis, 0.5 * LEASE / 3);
	take(f, &renewed, "a");
	fake_redis_advance(&f->redis, 0.7 * LEASE / 3);
	assert_int_equal(fake_redis_ncalls(&f->redis), 0);
	fake_redis_advance(&f->redis, 0.4 * LEASE / 3);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
}

TEST(after_max_hold_nothing_is_renewed_and_the_lease_runs_out)
{
	struct rule rule = renewed;

	rule.max_hold_ms = 2 * LEASE_MS;
	take(f, &rule, "a");
	for (int i = 0; i < 5; i++) {
		pass_a_third(f);
		fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	}
	assert_int_equal(state_of(f, "a"), HOLD_RENEWED);
	fake_redis_advance(&f->redis, LEASE / 3 + 5);
	while (fake_redis_ncalls(&f->redis))
		fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	pass_a_third(f);
	assert_int_equal(state_of(f, "a"), HOLD_LEASED);
	fake_redis_advance(&f->redis, LEASE);
	assert_null(hold_on(f, "a"));
	assert_int_equal(fake_redis_ncalls(&f->redis), 0);
}

/* --- losing it -------------------------------------------------------------------------- */

TEST(a_hold_that_redis_gives_to_nobody_any_more_is_forgotten)
{
	take(f, &renewed, "a");
	pass_a_third(f);
	fake_redis_answer(&f->redis, "*1\r\n:0\r\n");
	assert_null(hold_on(f, "a"));
	assert_int_equal(f->owner.n, 0);
}

static bool is_a(void *arg, struct slice key)
{
	(void)arg;
	return slice_eq(key, SLICE_LIT("a"));
}

TEST(a_hold_that_a_new_server_may_not_have_is_looked_at_soon)
{
	static const struct {
		const char *answer;
		uint64_t nlost;
	} each[] = { { "*1\r\n:0\r\n", 1 }, { "*1\r\n:-2\r\n", 2 } };

	take(f, &renewed, "b");
	for (size_t i = 0; i < 2; i++) {
		take(f, &renewed, "a");
		renewal_mark_unknown(f->holds, is_a, NULL);
		fake_redis_advance(&f->redis, 1 + GATHERED);
		/* The other hold is on another server. */
		assert_int_equal(fake_redis_ncalls(&f->redis), 1);
		fake_redis_answer(&f->redis, each[i].answer);
		assert_null(hold_on(f, "a"));
		assert_int_equal(metrics_counted(&f->section->n[STAT_LOST]), each[i].nlost);
	}
	assert_int_equal(state_of(f, "b"), HOLD_RENEWED);
}

static bool is_any(void *arg, struct slice key)
{
	(void)arg;
	(void)key;
	return true;
}

/* The table may grow during the scan, which moves entries. */
TEST(each_of_many_holds_is_looked_at)
{
	char key[24];
	size_t n = 0;

	while (n < 100000 && !f->holds->by_id.old) {
		snprintf(key, sizeof(key), "k%zu", n++);
		take(f, &renewed, key);
	}
	assert_non_null(f->holds->by_id.old);
	renewal_mark_unknown(f->holds, is_any, NULL);
	for (size_t i = 0; i < n; i++) {
		snprintf(key, sizeof(key), "k%zu", i);
		assert_true(hold_on(f, key)->unknown);
	}
}

TEST(a_hold_that_the_new_server_has_is_known_again)
{
	take(f, &renewed, "a");
	renewal_mark_unknown(f->holds, is_a, NULL);
	fake_redis_advance(&f->redis, 1 + GATHERED);
	assert_true(hold_on(f, "a")->unknown);
	fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	assert_false(hold_on(f, "a")->unknown);
}

TEST(a_hold_that_is_taken_again_is_known_again)
{
	take(f, &renewed, "a");
	renewal_mark_unknown(f->holds, is_a, NULL);
	take(f, &renewed, "a");
	assert_false(hold_on(f, "a")->unknown);
}

TEST(a_hold_that_is_gone_is_lost_unless_its_owner_may_have_released_it)
{
	struct release_board board = { 0 };

	holds_set_releases(f->holds, &board);
	take(f, &renewed, "a");
	pass_a_third(f);
	holds_note_release(f->holds, 0, SLICE_LIT("a"), SLICE_LIT("token"));
	fake_redis_answer(&f->redis, "*1\r\n:0\r\n");
	assert_int_equal(metrics_counted(&f->section->n[STAT_LOST]), 0);
	fake_redis_advance(&f->redis, 1);
	/* Commands sent before the lock was taken do not count, nor commands of another
	 * owner. */
	take(f, &renewed, "a");
	holds_note_release(f->holds, 0, SLICE_LIT("a"), SLICE_LIT("other"));
	pass_a_third(f);
	fake_redis_answer(&f->redis, "*1\r\n:-2\r\n");
	assert_int_equal(metrics_counted(&f->section->n[STAT_LOST]), 1);
	assert_null(hold_on(f, "a"));
}

/* Connection `o` takes the lock as the owner `token`. */
static void take_as(struct fixture *f, struct hold_owner *o, const struct rule *rule,
                    const char *token)
{
	const struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
		                        .kind = LOCK_KIND_RULE,
		                        .success = LOCK_IF_ONE,
		                        .lease_ms = LEASE_MS,
		                        .ticket = SLICE_LIT("worker-1") };
	const struct hold_terms terms = { .rule = rule,
		                          .token = slice_str(token),
		                          .stats = f->section };
	const struct resp_reply one = { .type = ':', .integer = 1 };
	struct slice key = SLICE_LIT("a");

	hold_apply(f->holds, o, lock_request_new(f->holds, &call, &key, 1, &terms), 0, &one);
}

static void assert_lost(struct fixture *f, uint64_t n)
{
	assert_int_equal(metrics_counted(&f->section->n[STAT_LOST]), n);
}

TEST(a_hold_that_another_owner_takes_is_lost_if_it_was_to_be_kept)
{
	struct release_board board = { 0 };

	holds_set_releases(f->holds, &board);
	take_as(f, &f->owner, &released, "one");
	take_as(f, &f->other, &renewed, "two"); /* no option asks to keep the first hold */
	assert_int_equal(f->owner.n, 0);
	assert_lost(f, 0);
	take_as(f, &f->owner, &renewed, "one");
	assert_int_equal(f->other.n, 0);
	assert_lost(f, 1);
	/* The same connection takes the lock as another owner. */
	take_as(f, &f->owner, &renewed, "three");
	assert_int_equal(f->owner.n, 1);
	assert_lost(f, 1);
	fake_redis_advance(&f->redis, 0.1);
	holds_note_release(f->holds, 0, SLICE_LIT("a"), SLICE_LIT("three"));
	take_as(f, &f->other, &renewed, "two");
	assert_lost(f, 1);
}

TEST(a_lease_that_is_over_before_the_answer_is_lost)
{
	take(f, &renewed, "a");
	pass_a_third(f);
	fake_redis_advance(&f->redis, LEASE);
	assert_null(hold_on(f, "a"));
	assert_int_equal(metrics_counted(&f->section->n[STAT_LOST]), 1);
	/* The late answer finds no hold. */
	fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	assert_null(hold_on(f, "a"));
}

TEST(a_renewal_that_redis_refuses_is_tried_at_the_next_third)
{
	take(f, &renewed, "a");
	pass_a_third(f);
	fake_redis_answer(&f->redis, "-WRONGTYPE no\r\n");
	assert_int_equal(f->holds->nfailed, 1);
	assert_int_equal(state_of(f, "a"), HOLD_RENEWED);
	pass_a_third(f);
	fake_redis_answer(&f->redis, "*1\r\n:-1\r\n");
	assert_int_equal(f->holds->nfailed, 2);
	assert_int_equal(state_of(f, "a"), HOLD_RENEWED);
}

TEST(without_a_connection_a_renewal_waits_until_the_lease_is_over)
{
	take(f, &renewed, "a");
	take(f, &renewed, "b");
	fake_redis_break(&f->redis);
	pass_a_third(f);
	assert_true(f->holds->nfailed > 0);
	assert_int_equal(state_of(f, "a"), HOLD_IN_BATCH);
	fake_redis_repair(&f->redis);
	while (fake_redis_ncalls(&f->redis))
		fake_redis_answer(&f->redis, "*2\r\n:1\r\n:1\r\n");
	assert_int_equal(state_of(f, "a"), HOLD_RENEWED);
	fake_redis_break(&f->redis);
	/* Had both been due at once, that answer would have renewed them: hasp forgets them at
	 * the first third that ends after the lease. */
	fake_redis_advance(&f->redis, LEASE + LEASE / 3 + 1);
	assert_null(hold_on(f, "a"));
	assert_null(hold_on(f, "b"));
}

TEST(a_value_stays_known_when_its_lease_is_over)
{
	take(f, &of_value, "a");
	pass_a_third(f);
	fake_redis_answer(&f->redis, "*1\r\n:0\r\n");
	assert_int_equal(state_of(f, "a"), HOLD_LEASED);
	assert_true(
		slice_eq(hold_value(f->holds, &f->owner, 0, SLICE_LIT("a")), SLICE_LIT("v")));
	fake_redis_advance(&f->redis, 10 * LEASE);
	assert_int_equal(fake_redis_ncalls(&f->redis), 0);
}

/* --- how many there are ------------------------------------------------------------------ */

static void assert_held(struct fixture *f, uint64_t n)
{
	assert_int_equal(metrics_counted(&f->section->now[STAT_HELD]), n);
}

TEST(a_hold_counts_until_its_lease_is_over_or_it_is_given_up)
{
	take(f, &released, "a");
	take(f, &released, "b");
	take(f, &released, "b"); /* the lock is refreshed */
	assert_held(f, 2);
	command(f, &released, "a", (struct lock_call){ .effect = LOCK_EFFECT_DROPS });
	assert_held(f, 1);
	fake_redis_advance(&f->redis, LEASE + 1);
	assert_held(f, 0);
	take(f, &released, "c");
	hold_owner_end(&f->owner, true);
	assert_held(f, 0);
}

TEST(how_long_a_lock_was_held_is_measured_when_it_ends)
{
	struct metrics_sums sums = { .total_us = 0 };

	take(f, &released, "a");
	fake_redis_advance(&f->redis, 1);
	take(f, &released, "a"); /* the hold continues */
	metrics_add_up(&sums, &f->section->held);
	assert_int_equal(sums.total_us, 0);
	fake_redis_advance(&f->redis, 1);
	command(f, &released, "a", (struct lock_call){ .effect = LOCK_EFFECT_DROPS });
	metrics_add_up(&sums, &f->section->held);
	assert_int_equal(sums.total_us, 2000000);
}

TEST(a_value_that_is_only_remembered_does_not_count)
{
	struct rule leased = of_value;

	leased.renew = RENEW_NO;
	take(f, &leased, "a");
	assert_held(f, 1);
	fake_redis_advance(&f->redis, LEASE + 1);
	assert_held(f, 0);
	assert_non_null(hold_on(f, "a"));
	take(f, &leased, "a");
	assert_held(f, 1);
	take(f, &of_value, "b");
	pass_a_third(f);
	fake_redis_answer(&f->redis, "*1\r\n:0\r\n");
	assert_held(f, 1);
}

TEST(memory_of_holds_is_that_of_those_there_are)
{
	size_t one;

	take(f, &released, "a");
	one = holds_nbytes(f->holds);
	assert_true(one >= sizeof(struct hold));
	take(f, &released, "b");
	/* The holds share the token. */
	assert_int_equal(holds_nbytes(f->holds),
	                 2 * one - sizeof(struct token) - strlen("token"));
	hold_owner_end(&f->owner, true);
	assert_int_equal(holds_nbytes(f->holds), 0);
}

/* --- an UNLOCK that comes late ---------------------------------------------------------- */

/* Checks which acquisition an UNLOCK of `key` by one of several connections names. */
static void assert_named_of(struct fixture *f, const char *key, const char *named)
{
	struct buf out = BUF_INIT;

	hold_given_back(f->holds, &f->owner, 0, slice_str(key), SLICE_LIT("token"), &out);
	assert_true(slice_is(buf_slice(&out), named));
	buf_release(&out);
}

static void assert_named(struct fixture *f, const char *named)
{
	assert_named_of(f, "a", named);
}

/* LOCK name PX LEASE_MS AS token. */
static void lock_name_as(struct fixture *f, const char *name)
{
	static const struct verbs verbs = { .lease_ms = LEASE_MS,
		                            .on_disconnect = DISCONNECT_RELEASE };
	struct hold_terms terms = { .verbs = &verbs, .token = SLICE_LIT("token") };
	struct lock_call call = { .effect = LOCK_EFFECT_TAKES,
		                  .success = LOCK_IF_ONE,
		                  .kind = LOCK_KIND_COUNT,
		                  .shared_owner = true,
		                  .leased = true,
		                  .lease_ms = LEASE_MS,
		                  .ticket = SLICE_LIT("worker-1") };
	struct slice key = slice_str(name);

	succeed(f, lock_request_new(f->holds, &call, &key, 1, &terms));
}

static void lock_as(struct fixture *f)
{
	lock_name_as(f, "a");
}

TEST(an_unlock_names_the_last_fence_also_of_a_lock_that_was_taken_again)
{
	lock_as(f);
	fake_redis_advance(&f->redis, 10);
	lock_as(f);
	assert_named(f, "worker-1 39999001,");
}

TEST(a_hold_is_named_for_a_second_if_hasp_was_stopped_when_its_lease_ended)
{
	for (int stopped = 0; stopped < 2; stopped++) {
		lock_as(f);
		assert_named(f, "worker-1 29999001,");
		if (stopped)
			f->redis.now += LEASE + 0.5;
		fake_redis_advance(&f->redis, stopped ? 0 : LEASE);
		assert_int_equal(f->owner.n, 0);
		assert_named(f, stopped ? "worker-1 29999001," : ",");
	}
	fake_redis_advance(&f->redis, 1);
	assert_named(f, ",");
	assert_int_equal(holds_nbytes(f->holds), 0);
}

/* A client may hold many locks, and send UNLOCK for each. */
TEST(only_the_latest_256_ended_holds_are_named)
{
	char key[8];

	for (int i = 0; i < 257; i++) {
		snprintf(key, sizeof(key), "%d", i);
		lock_name_as(f, key);
		f->redis.now += 0.001;
	}
	f->redis.now += LEASE + 0.5;
	fake_redis_advance(&f->redis, 0);
	assert_named_of(f, "0", ",");
	assert_named_of(f, "1", "worker-1 29999001,");
	assert_named_of(f, "256", "worker-1 29999001,");
}

/* --- batches ---------------------------------------------------------------------------- */

TEST(holds_that_are_due_together_are_renewed_by_one_call)
{
	/* The ends of these holds are unknown, so they are due now. */
	for (char key[] = "a"; *key < 'd'; (*key)++) {
		command(f, &renewed, key,
		        (struct lock_call){ .effect = LOCK_EFFECT_TAKES, .leased = true });
		fake_redis_advance(&f->redis, 0.001);
	}
	fake_redis_advance(&f->redis, GATHERED);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
	assert_string_equal(fake_redis_next(&f->redis, RENEW).args,
	                    " a hasp:fence:{a} hasp:owner:{a} b hasp:fence:{b} hasp:owner:{b}"
	                    " c hasp:fence:{c} hasp:owner:{c}"
	                    " 30000 token 30000 token 30000 token");
	fake_redis_answer(&f->redis, "*3\r\n:1\r\n:0\r\n:-1\r\n");
	assert_int_equal(state_of(f, "a"), HOLD_RENEWED);
	assert_null(hold_on(f, "b"));
	assert_int_equal(state_of(f, "c"), HOLD_RENEWED);
	assert_int_equal(f->holds->nfailed, 1);
}

static size_t count_of(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what)) && ++n)
		text += strlen(what);
	return n;
}

TEST(in_a_cluster_only_holds_of_a_slot_are_renewed_by_one_call)
{
	static const char *const keys[] = { "{a}1", "b", "{a}2" };

	script_jobs_set_naming(f->redis.script_jobs, KEY_NAMING_CLUSTER);
	for (int i = 0; i < 3; i++)
		command(f, &renewed, keys[i],
		        (struct lock_call){ .effect = LOCK_EFFECT_TAKES, .leased = true });
	fake_redis_advance(&f->redis, GATHERED);
	assert_string_equal(fake_redis_next(&f->redis, RENEW).args,
	                    " {a}1 hasp:fence:{a}1: hasp:owner:{a}1:"
	                    " {a}2 hasp:fence:{a}2: hasp:owner:{a}2:"
	                    " 30000 token 30000 token");
	fake_redis_answer(&f->redis, "*2\r\n:1\r\n:1\r\n");
	assert_string_equal(fake_redis_next(&f->redis, RENEW).args,
	                    " b hasp:fence:{b} hasp:owner:{b} 30000 token");
	fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	assert_int_equal(fake_redis_ncalls(&f->redis), 0);
}

TEST(a_batch_has_an_end)
{
	char key[8];

	for (int i = 0; i < 65; i++) {
		snprintf(key, sizeof(key), "k%d", i);
		command(f, &renewed, key,
		        (struct lock_call){ .effect = LOCK_EFFECT_TAKES, .leased = true });
	}
	fake_redis_advance(&f->redis, GATHERED);
	assert_int_equal(fake_redis_ncalls(&f->redis), 2);
	assert_int_equal(count_of(fake_redis_next(&f->redis, RENEW).args, " token"), 64);
	fake_redis_answer(&f->redis, "-ERR what\r\n");
	assert_int_equal(count_of(fake_redis_next(&f->redis, RENEW).args, " token"), 1);
}

static struct hold *first_of_batch(struct fixture *f)
{
	struct hold *first = NULL;

	for (char key[] = "a"; *key < 'd'; (*key)++)
		if (hold_on(f, key) &&
		    (!first || hold_on(f, key)->batch_slot < first->batch_slot))
			first = hold_on(f, key);
	return first;
}

TEST(a_hold_that_ends_in_a_batch_leaves_it)
{
	struct rule rule = renewed;

	/* The lease is so short that all holds are due within the gathering time. */
	rule.lease_ms = 60;
	for (char key[] = "a"; *key < 'd'; (*key)++)
		take(f, &rule, key);
	fake_redis_break(&f->redis);
	fake_redis_advance(&f->redis, 0.041);
	hold_free(first_of_batch(f));
	fake_redis_repair(&f->redis);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
	assert_int_equal(count_of(fake_redis_next(&f->redis, RENEW).args, " token"), 2);
	/* The later holds move up in the call. */
	hold_free(first_of_batch(f));
	fake_redis_answer(&f->redis, "*2\r\n:1\r\n:1\r\n");
	assert_int_equal(first_of_batch(f)->state, HOLD_RENEWED);
	assert_int_equal(metrics_counted(&f->section->n[STAT_LOST]), 0);
}

TEST(a_hold_that_is_leased_while_it_is_renewed_ends_as_the_answer_says)
{
	take(f, &unleased, "a");
	pass_a_third(f);
	assert_int_equal(state_of(f, "a"), HOLD_IN_BATCH);
	fake_redis_advance(&f->redis, 5);
	command(f, &unleased, "a",
	        (struct lock_call){ .effect = LOCK_EFFECT_EXPIRES, .lease_ms = 60000 });
	assert_int_equal(state_of(f, "a"), HOLD_LEASED_IN_BATCH);
	fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	assert_int_equal(state_of(f, "a"), HOLD_LEASED);
	/* The renewal was sent before this. */
	fake_redis_advance(&f->redis, 56);
	assert_null(hold_on(f, "a"));
}

TEST(a_hold_that_is_renewed_again_before_the_answer_goes_on)
{
	struct lock_request *p;

	take(f, &unleased, "a");
	pass_a_third(f);
	command(f, &unleased, "a",
	        (struct lock_call){ .effect = LOCK_EFFECT_EXPIRES, .lease_ms = 60000 });
	p = sent(f, &unleased, "a",
	         (struct lock_call){ .effect = LOCK_EFFECT_EXPIRES, .lease_ms = LEASE_MS });
	renewal_begin(hold_on(f, "a"), p, false, false);
	lock_request_free(p);
	assert_int_equal(state_of(f, "a"), HOLD_IN_BATCH);
	fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	assert_int_equal(state_of(f, "a"), HOLD_RENEWED);
}

/* Redis may get either one first, but gets hasp's later calls after the renewal. */
TEST(a_hold_that_ends_earlier_ends_so_although_it_is_being_renewed)
{
	take(f, &renewed, "a");
	command(f, &renewed, "a",
	        (struct lock_call){
			.effect = LOCK_EFFECT_EXPIRES, .leased = true, .lease_ms = LEASE_MS });
	pass_a_third(f);
	assert_int_equal(state_of(f, "a"), HOLD_IN_BATCH);
	command(f, &renewed, "a",
	        (struct lock_call){
			.effect = LOCK_EFFECT_EXPIRES, .leased = true, .lease_ms = 500 });
	assert_int_equal(state_of(f, "a"), HOLD_LEASED_IN_BATCH);
	assert_int_equal(fake_redis_ncalls(&f->redis), 2);
	(void)fake_redis_next(&f->redis, SCRIPT_RENEW);
	fake_redis_answer(&f->redis, "*1\r\n:1\r\n");
	assert_string_equal(
		fake_redis_next(&f->redis, SCRIPT_EXPIRE).args,
		" a hasp:owner:{a} hasp:fence:{a} token 500 1000000000000000   PEXPIRE 500");
	fake_redis_answer(&f->redis, ":1\r\n");
	fake_redis_advance(&f->redis, 1);
	assert_null(hold_on(f, "a"));
	assert_int_equal(fake_redis_ncalls(&f->redis), 0);
}

/* --- the end ------------------------------------------------------------------------------ */

TEST(what_is_to_be_released_at_disconnect_is_released_then)
{
	take(f, &released, "a");
	take(f, &renewed, "b");
	hold_owner_end(&f->owner, true);
	assert_int_equal(fake_redis_ncalls(&f->redis), 1);
	assert_non_null(strstr(fake_redis_next(&f->redis, RELEASE).args, " a "));
	assert_null(hold_on(f, "a"));
	assert_null(hold_on(f, "b"));
	assert_int_equal(f->redis.timers.n, 0);
}

TEST(a_release_is_tried_for_as_long_as_the_lease_lasts)
{
	take(f, &released, "a");
	fake_redis_break(&f->redis);
	hold_owner_end(&f->owner, true);
	fake_redis_advance(&f->redis, LEASE - 1);
	assert_false(script_jobs_are_done(f->redis.script_jobs));
	fake_redis_advance(&f->redis, 2);
	assert_true(script_jobs_are_done(f->redis.script_jobs));
}

/* Another connection of the owner may begin the lease again in that time. */
TEST(a_release_for_one_of_several_connections_is_tried_for_longer_than_the_lease)
{
	lock_as(f);
	fake_redis_break(&f->redis);
	hold_owner_end(&f->owner, true);
	fake_redis_advance(&f->redis, LEASE + 3599);
	assert_false(script_jobs_are_done(f->redis.script_jobs));
	fake_redis_advance(&f->redis, 2);
	assert_true(script_jobs_are_done(f->redis.script_jobs));
}

TEST(what_is_forgotten_when_its_lease_is_over_is_not_released)
{
	take(f, &released, "a");
	fake_redis_advance(&f->redis, LEASE + 1);
	assert_null(hold_on(f, "a"));
	hold_owner_end(&f->owner, true);
	assert_int_equal(fake_redis_ncalls(&f->redis), 0);
}

/* --- states ------------------------------------------------------------------------------- */

TEST(a_hold_changes_its_state_only_as_it_may)
{
	/* A row for each state; columns: LEASED, RENEWED, DUE, IN_BATCH, LEASED_IN_BATCH. */
	static const bool allowed[HOLD_STATES][HOLD_STATES] = {
		[HOLD_LEASED] = { 0, 1, 0, 0, 0 },
		[HOLD_RENEWED] = { 1, 0, 1, 1, 0 },
		[HOLD_DUE] = { 1, 0, 0, 1, 0 },
		[HOLD_IN_BATCH] = { 0, 1, 0, 0, 1 },
		[HOLD_LEASED_IN_BATCH] = { 1, 0, 0, 1, 0 },
	};

	for (int from = 0; from < HOLD_STATES; from++)
		for (int to = 0; to < HOLD_STATES; to++)
			assert_int_equal(
				renewal_allows((enum hold_state)from, (enum hold_state)to),
				allowed[from][to]);
}
