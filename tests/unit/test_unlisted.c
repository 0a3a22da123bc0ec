/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Reads of shared owners that failed, and of which Redis does not know yet.
 */
#include "lock/guard/unlisted.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define NOW 1000.0

static struct unlisted_board board;
static const struct slice key = SLICE_LIT("stock:1"), token = SLICE_LIT("n:one");

static int set_up(void **state)
{
	(void)state;
	board = (struct unlisted_board){ .was_up = false };
	return 0;
}

static bool counts(double now)
{
	return unlisted_may_have(&board, unlisted_slot(0, key, token), true, now);
}

static void read_counts_until_it_is_listed(void **state)
{
	uint32_t slot = unlisted_slot(0, key, token);

	(void)state;
	assert_false(counts(NOW));
	unlisted_add(&board, slot);
	unlisted_add(&board, slot);
	unlisted_remove(&board, slot);
	assert_true(counts(NOW));
	unlisted_remove(&board, slot);
	assert_false(counts(NOW));
}

static void read_that_was_given_up_counts_for_its_time(void **state)
{
	uint32_t slot = unlisted_slot(0, key, token);

	(void)state;
	unlisted_add(&board, slot);
	unlisted_give_up(&board, slot, NOW + 5);
	unlisted_add(&board, slot);
	unlisted_give_up(&board, slot, NOW + 1);
	assert_true(counts(NOW + 4.9));
	assert_false(counts(NOW + 5));
}

static void other_owners_keys_and_databases_are_others(void **state)
{
	uint32_t slot = unlisted_slot(0, key, token);

	(void)state;
	assert_int_not_equal(slot, unlisted_slot(1, key, token));
	assert_int_not_equal(slot, unlisted_slot(0, SLICE_LIT("stock:2"), token));
	assert_int_not_equal(slot, unlisted_slot(0, key, SLICE_LIT("n:two")));
	assert_int_not_equal(slot, unlisted_slot(0, SLICE_LIT("stock:1n"), SLICE_LIT(":one")));
}

static void everything_counts_while_redis_is_away_and_for_a_while_after(void **state)
{
	uint32_t slot = unlisted_slot(0, key, token);

	(void)state;
	/* hasp has just begun. */
	assert_false(unlisted_may_have(&board, slot, false, NOW));
	unlisted_redis_up(&board, false, NOW);
	assert_false(counts(NOW));
	assert_true(unlisted_may_have(&board, slot, false, NOW + 10));
	unlisted_redis_up(&board, true, NOW + 20);
	assert_true(counts(NOW + 20));
	assert_true(counts(NOW + 20 + UNLISTED_SETTLE_SECONDS - 0.1));
	assert_false(counts(NOW + 20 + UNLISTED_SETTLE_SECONDS));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(read_counts_until_it_is_listed, set_up),
		cmocka_unit_test_setup(read_that_was_given_up_counts_for_its_time, set_up),
		cmocka_unit_test_setup(other_owners_keys_and_databases_are_others, set_up),
		cmocka_unit_test_setup(
			everything_counts_while_redis_is_away_and_for_a_while_after, set_up),
	};

	return cmocka_run_group_tests_name("unlisted", tests, NULL, NULL);
}
