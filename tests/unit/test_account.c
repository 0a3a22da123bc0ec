/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of base/account.c: it sums the bytes that holders keep, and finds the heaviest holders.
 */

#include "base/account.h"
#include "tests/unit/testing.h"

#define KB ((size_t)1024)
#define MANY 300

TEST(the_sum_follows_each_holder)
{
	struct account_share s[MANY];
	struct account a;
	size_t expected = 0;

	account_init(&a, SIZE_MAX);
	for (size_t i = 0; i < MANY; i++) {
		account_share_init(&s[i]);
		account_set(&a, &s[i], 5 * KB + i * i);
	}
	for (size_t i = 0; i < MANY; i++) {
		size_t nbytes = i % 3 ? 5 * KB * i : 0;
		account_set(&a, &s[i], nbytes);
		expected += nbytes;
	}
	assert_int_equal(a.total, expected);
	for (size_t i = 0; i < MANY; i++)
		account_set(&a, &s[i], 0);
	assert_int_equal(a.total, 0);
	assert_true(list_empty(&a.shares));
}

TEST(what_everybody_may_have_is_not_counted)
{
	struct account_share s;
	struct account a;

	account_init(&a, 0);
	account_share_init(&s);
	account_set(&a, &s, ACCOUNT_LEAST - 1);
	assert_int_equal(a.total, 0);
	assert_true(list_empty(&a.shares));
	account_set(&a, &s, ACCOUNT_LEAST);
	assert_int_equal(a.total, ACCOUNT_LEAST);
	assert_true(account_is_over(&a));
}

static double by_size(const struct account_share *s)
{
	return (double)s->nbytes;
}

TEST(the_heaviest_is_found)
{
	struct account_share s[MANY];
	struct account a;
	size_t most = 0;

	account_init(&a, SIZE_MAX);
	assert_null(account_heaviest(&a, by_size));
	for (size_t i = 0; i < MANY; i++) {
		size_t nbytes = 4 * KB + (i * 7919) % 1000 * ((size_t)1 << i % 30);
		account_share_init(&s[i]);
		account_set(&a, &s[i], nbytes);
		most = nbytes > most ? nbytes : most;
		assert_int_equal(account_heaviest(&a, by_size)->nbytes, most);
	}
}

TEST(of_equals_the_first_is_the_heaviest)
{
	struct account_share one, two;
	struct account a;

	account_init(&a, SIZE_MAX);
	account_share_init(&one);
	account_share_init(&two);
	account_set(&a, &two, 100 * KB);
	account_set(&a, &one, 100 * KB);
	assert_ptr_equal(account_heaviest(&a, by_size), &two);
	account_set(&a, &two, 0);
	assert_ptr_equal(account_heaviest(&a, by_size), &one);
}

TEST(what_does_not_fit_puts_it_over_its_limit)
{
	struct account_share s;
	struct account a;

	account_init(&a, 100 * KB);
	account_share_init(&s);
	account_set(&a, &s, 60 * KB);
	assert_true(account_admits(&a, &s, 40 * KB));
	assert_false(account_is_over(&a));
	assert_false(account_admits(&a, &s, 41 * KB));
	assert_false(account_admits(&a, &s, SIZE_MAX));
	assert_true(account_is_over(&a));
	account_reset_wanted(&a);
	assert_false(account_is_over(&a));
	account_set(&a, &s, 101 * KB);
	assert_true(account_is_over(&a));
	assert_false(account_admits(&a, &s, 0));
}

TEST(what_was_wanted_goes_with_the_one_that_wanted_it)
{
	struct account_share greedy, other;
	struct account a;

	account_init(&a, 100 * KB);
	account_share_init(&greedy);
	account_share_init(&other);
	account_set(&a, &other, 50 * KB);
	account_set(&a, &greedy, 40 * KB);
	assert_false(account_admits(&a, &greedy, 80 * KB));
	account_set(&a, &other, 45 * KB);
	assert_true(account_is_over(&a));
	account_set(&a, &greedy, 0);
	assert_false(account_is_over(&a));
}
