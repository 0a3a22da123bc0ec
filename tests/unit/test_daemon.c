/* SPDX-License-Identifier: BSD-3-Clause
 *
 * What hasp logs when it cannot go into the background. The rest is in
 * tests/e2e/test_starting.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "daemon.h"
#include "tests/unit/log_fixture.h"

static int set_up(void **state)
{
	(void)state;
	log_fixture_open();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	log_fixture_close();
	return 0;
}

/* covers: daemonize */
static void a_parent_that_was_killed_is_logged(void **state)
{
	struct daemon d = DAEMON_INIT;
	int pipefd[2], old_stderr = dup(STDERR_FILENO);

	(void)state;
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(pipefd), 0);
	close(pipefd[0]);
	d.ready_fd = pipefd[1];
	daemon_ready(&d, "syslog");
	/* daemon_ready() has redirected stderr to /dev/null. */
	dup2(old_stderr, STDERR_FILENO);
	close(old_stderr);
	assert_int_equal(d.ready_fd, -1);
	assert_logged("daemonize parent=gone");
}

static void without_descriptors_it_stays_in_the_foreground(void **state)
{
	struct daemon d = DAEMON_INIT;
	struct rlimit limit, none;
	int rc;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	rc = daemon_fork(&d);
	setrlimit(RLIMIT_NOFILE, &limit);
	assert_int_equal(rc, -1);
	assert_int_equal(d.ready_fd, -1);
	assert_logged("daemonize : Too many open files");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_parent_that_was_killed_is_logged, set_up,
		                                tear_down),
		cmocka_unit_test_setup_teardown(without_descriptors_it_stays_in_the_foreground,
		                                set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
