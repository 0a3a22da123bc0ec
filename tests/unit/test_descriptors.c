/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of net/descriptors.c: for which users hasp reserves the last descriptors, and what it
 * logs if it gets too few.
 */

#include <sys/resource.h>

#include "net/descriptors.h"
#include "tests/unit/log_fixture.h"
#include "tests/unit/testing.h"

static struct rlimit before;

static int set_up(void **state)
{
	(void)state;
	log_fixture_open();
	return getrlimit(RLIMIT_NOFILE, &before);
}

static int tear_down(void **state)
{
	(void)state;
	log_fixture_close();
	return setrlimit(RLIMIT_NOFILE, &before);
}

FIXTURE(set_up, tear_down);

static void limit_to(rlim_t n)
{
	struct rlimit limit = before;

	limit.rlim_cur = n;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* Asserts that hasp may keep `fd` for this use, but no smaller one. */
static void assert_kept_from(int fd, enum descriptor_use use)
{
	assert_false(descriptor_is_kept(fd - 1, use));
	assert_true(descriptor_is_kept(fd, use));
}

TEST(clients_leave_a_quarter_to_the_rest)
{
	limit_to(256);
	assert_kept_from(192, DESCRIPTOR_CLIENT);
	assert_kept_from(208, DESCRIPTOR_PRIVATE_LINK);
	assert_kept_from(216, DESCRIPTOR_SHARED_LINK);
	assert_kept_from(256, DESCRIPTOR_OWN);
}

TEST(no_more_is_kept_than_hasp_can_use)
{
	limit_to(4096);
	assert_kept_from(4096 - 512, DESCRIPTOR_CLIENT);
	assert_kept_from(4096, DESCRIPTOR_OWN);
}

/* covers: descriptors_too_few */
TEST(a_descriptor_limit_that_cannot_be_raised_is_logged)
{
	/* No fs.nr_open is as great. */
	descriptors_raise_limit(2000000000);
	assert_logged("descriptors_too_few limit=");
}
