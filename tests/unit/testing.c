/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/unit/testing.h"

#include <stdlib.h>

#define MAX_TESTS 200

CMFixtureFunction group_set_up, group_tear_down;

static struct CMUnitTest tests[MAX_TESTS];
static size_t ntests;

void register_test(const struct CMUnitTest *test)
{
	/* Constructors run before main(), so there is no test that could fail. */
	if (ntests == MAX_TESTS)
		abort();
	tests[ntests++] = *test;
}

int run_registered_tests(void)
{
	return _cmocka_run_group_tests("tests", tests, ntests, group_set_up, group_tear_down);
}

/* test_upgrade.c has a main() of its own. */
__attribute__((weak)) int main(int argc, char **argv)
{
	(void)argc, (void)argv;
	return run_registered_tests();
}
