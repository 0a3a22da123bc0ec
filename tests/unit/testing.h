/* SPDX-License-Identifier: BSD-3-Clause
 *
 * testing: cmocka, and tests that register themselves:
 *
 *   TEST(keys_are_case_sensitive)
 *   {
 *           assert_false(is_found(f, "KEY"));
 *   }
 *
 * defines a test, which gets its file's fixture as `f`: see TEST_FIXTURE. A program has the
 * tests of one or many files:
 *
 *   tests/unit/run             runs all, each file's in a process of its own
 *   tests/unit/run test_buf    runs the tests of test_buf.c in this process
 *   tests/unit/run --list      prints the names of the files
 */
#ifndef HASP_TESTS_UNIT_TESTING_H
#define HASP_TESTS_UNIT_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

void register_test(const char *path, const struct CMUnitTest *test);
void register_group_fixture(const char *path, CMFixtureFunction set_up,
                            CMFixtureFunction tear_down);
/* What main() does, see above. Returns the exit status. */
int run_registered_tests(int argc, char **argv);

/* The parameter of each test: what set_up() stored in *state. If a file's fixture has another
 * name, the file, or the header of the fixture, defines the parameter before this header. */
#ifndef TEST_FIXTURE
#define TEST_FIXTURE struct fixture *f
struct fixture;
#endif

/* Functions that cmocka calls before and after each TEST of this file. FIXTURE() sets them. */
static CMFixtureFunction test_set_up __attribute__((unused));
static CMFixtureFunction test_tear_down __attribute__((unused));
#define FIXTURE(set_up, tear_down)                                                             \
	static CMFixtureFunction test_set_up = set_up, test_tear_down = tear_down

/* As FIXTURE(), for a struct fixture of this file: set_up(f) gets it filled with zeros, and
 * tear_down(f) need not free it. */
#define STRUCT_FIXTURE(set_up, tear_down)                                                      \
	static int make_fixture(void **state)                                                  \
	{                                                                                      \
		*state = calloc(1, sizeof(struct fixture));                                    \
		assert_non_null(*state);                                                       \
		set_up(*state);                                                                \
		return 0;                                                                      \
	}                                                                                      \
	static int free_fixture(void **state)                                                  \
	{                                                                                      \
		tear_down(*state);                                                             \
		free(*state);                                                                  \
		return 0;                                                                      \
	}                                                                                      \
	FIXTURE(make_fixture, free_fixture)

/* Has cmocka call functions before the first test of this file and after the last one; each may
 * be NULL. */
#define GROUP_FIXTURE(set_up, tear_down)                                                       \
	__attribute__((constructor)) static void set_group_fixture(void)                       \
	{                                                                                      \
		register_group_fixture(__FILE__, set_up, tear_down);                           \
	}                                                                                      \
	void register_group_fixture(const char *, CMFixtureFunction, CMFixtureFunction)

#define TEST(name) TEST_WITH(name, test_set_up, test_tear_down)

/* A test with other functions before and after it. */
#define TEST_WITH(name, set_up, tear_down)                                                     \
	static void name(TEST_FIXTURE, void **state);                                          \
	static void run_##name(void **state)                                                   \
	{                                                                                      \
		name(*state, state);                                                           \
	}                                                                                      \
	__attribute__((constructor)) static void register_##name(void)                         \
	{                                                                                      \
		register_test(__FILE__, &(struct CMUnitTest){ #name, run_##name, set_up,       \
		                                              tear_down, NULL });              \
	}                                                                                      \
	static void name(TEST_FIXTURE __attribute__((unused)),                                 \
	                 void **state __attribute__((unused)))

#endif
