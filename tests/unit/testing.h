/* SPDX-License-Identifier: BSD-3-Clause
 *
 * testing: cmocka, and tests that register themselves:
 *
 *   TEST(keys_are_case_sensitive)
 *   {
 *           assert_false(...);
 *   }
 *
 * defines a test that main(), in testing.c, runs in the order of the file.
 */
#ifndef HASP_TESTS_UNIT_TESTING_H
#define HASP_TESTS_UNIT_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

void register_test(const struct CMUnitTest *test);
/* Runs all tests for main(). Returns the number of tests that failed. */
int run_registered_tests(void);

/* Functions that cmocka calls before the first test and after the last one, or NULL. */
extern CMFixtureFunction group_set_up, group_tear_down;

/* Functions that cmocka calls before and after each TEST of this file. FIXTURE() sets them. */
static CMFixtureFunction test_set_up __attribute__((unused));
static CMFixtureFunction test_tear_down __attribute__((unused));
#define FIXTURE(set_up, tear_down)                                                             \
	static CMFixtureFunction test_set_up = set_up, test_tear_down = tear_down

#define GROUP_FIXTURE(set_up, tear_down)                                                       \
	__attribute__((constructor)) static void set_group_fixture(void)                       \
	{                                                                                      \
		group_set_up = set_up;                                                         \
		group_tear_down = tear_down;                                                   \
	}                                                                                      \
	extern CMFixtureFunction group_set_up

#define TEST(name) TEST_WITH(name, test_set_up, test_tear_down)

/* A test with other functions before and after it. */
#define TEST_WITH(name, set_up, tear_down)                                                     \
	static void name(void **state);                                                        \
	__attribute__((constructor)) static void register_##name(void)                         \
	{                                                                                      \
		register_test(&(struct CMUnitTest){ #name, name, set_up, tear_down, NULL });   \
	}                                                                                      \
	static void name(void **state __attribute__((unused)))

#endif
