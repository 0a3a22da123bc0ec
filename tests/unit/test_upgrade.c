/* SPDX-License-Identifier: BSD-3-Clause
 *
 * Tests of an upgrade: the new process is this program, run again. Its first argument chooses
 * what it does. It lives as long as the test keeps its end of a pipe open.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/log_fixture.h"
#include "tests/unit/testing.h"
#include "upgrade.h"

#define READY "HASP_READY_FD"
#define HANDED "HASP_TEST_HANDED"
/* The tests' clock starts at this time. */
#define START 1000.0
#define DEADLINE 30.0
/* A new process that does nothing for this long has hung; in milliseconds. */
#define PATIENCE_MS 20000

/* --- the new process ---------------------------------------------------------------------- */

/* The descriptor that $HASP_TEST_HANDED names; -1: the old process has handed none over. */
static int inherited_fds_fd(void)
{
	const char *inherited_fds = getenv(HANDED);
	int fd = inherited_fds ? atoi(inherited_fds) : -1;

	return fcntl(fd, F_GETFD) < 0 ? -1 : fd;
}

/* Waits until the descriptor's other end is closed. */
static int await_end(void)
{
	char byte;

	return read(inherited_fds_fd(), &byte, 1) == 0 ? 0 : 1;
}

/* SIGUSR1 was blocked in the old process before it blocked signals of its own. */
static bool has_old_mask(void)
{
	sigset_t mask;

	sigprocmask(SIG_BLOCK, NULL, &mask);
	return sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGUSR2) == 0;
}

/* Waits for channels, and sends on each its number; ends with the old process. */
static int echo(struct upgrade *u)
{
	int channels[UPGRADE_CHANNELS_MAX];
	size_t n = 0;

	while (upgrade_awaits_channels(u)) {
		struct pollfd p = { .fd = u->old_fd, .events = POLLIN };

		poll(&p, 1, PATIENCE_MS);
		n = upgrade_take_channels(u, channels);
	}
	for (size_t i = 0; i < n; i++) {
		char number = (char)('0' + i);
		if (write(channels[i], &number, 1) != 1)
			return 1;
	}
	return await_end();
}

static int act(char **argv)
{
	struct upgrade u;
	sigset_t none;

	sigemptyset(&none);
	if (strcmp(argv[1], "ends") == 0)
		return 7;
	if (strcmp(argv[1], "crashes") == 0)
		raise(SIGKILL);
	if (strcmp(argv[1], "serves") == 0) {
		upgrade_init(&u, argv, &none);
		if (!upgrade_is_successor(&u) || !has_old_mask() || inherited_fds_fd() < 0)
			return 1;
		upgrade_tell_ready(&u);
		return upgrade_awaits_channels(&u) ? echo(&u) : 1;
	}
	return await_end();
}

/* --- the old process ---------------------------------------------------------------------- */

/* getpid() returns this instead of the number of this process, unless it is 0. */
static pid_t pretended_pid;

/* upgrade.c calls this function instead of the C library's. */
pid_t getpid(void)
{
	return pretended_pid ? pretended_pid : (pid_t)syscall(SYS_getpid);
}

/* True: a signal interrupts the next waitpid() that blocks. */
static bool is_interrupted;

/* upgrade.c calls this function instead of the C library's. */
pid_t waitpid(pid_t pid, int *status, int options)
{
	if (is_interrupted && !options) {
		is_interrupted = false;
		errno = EINTR;
		return -1;
	}
	return wait4(pid, status, options, NULL);
}

struct fixture {
	struct upgrade u;
	char *argv[3];
	int life[2]; /* the new process ends when life[1] is closed */
	char inherited_fds[64];
};

static void set_up(struct fixture *f)
{
	log_fixture_open();
	assert_int_equal(pipe2(f->life, O_CLOEXEC), 0);
	snprintf(f->inherited_fds, sizeof(f->inherited_fds), HANDED "=%d", f->life[0]);
}

static void tear_down(struct fixture *f)
{
	close(f->life[1]);
	close(f->life[0]);
	if (f->u.new_fd >= 0)
		close(f->u.new_fd);
	while (f->u.pid && waitpid(f->u.pid, NULL, 0) < 0 && errno == EINTR)
		;
	log_fixture_close();
}

STRUCT_FIXTURE(set_up, tear_down);

static void start(struct fixture *f, const char *binary, const char *what)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	f->argv[0] = (char *)(uintptr_t)binary;
	f->argv[1] = (char *)(uintptr_t)what;
	upgrade_init(&f->u, f->argv, &mask);
	upgrade_start(&f->u, &f->life[0], 1, f->inherited_fds, START);
}

static void start_self(struct fixture *f, const char *what)
{
	start(f, "/proc/self/exe", what);
	assert_true(f->u.pid > 0);
	assert_logged("level=info event=upgrading pid=");
}

/* Waits until the new process says that it is ready, or ends. */
static void await_word(const struct fixture *f)
{
	struct pollfd p = { .fd = f->u.ready_fd, .events = POLLIN };

	assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
}

static void assert_gone(pid_t pid)
{
	assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

TEST(new_process_that_serves_takes_over)
{
	pid_t pid;

	start_self(f, "serves");
	pid = f->u.pid;
	await_word(f);
	/* The old process looks after the deadline; the new one was ready in time. */
	assert_int_equal(upgrade_poll(&f->u, START + 2 * DEADLINE), UPGRADE_READY);
	assert_int_equal(f->u.pid, pid);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	assert_int_equal(upgrade_poll(&f->u, START + 2 * DEADLINE), UPGRADE_NONE);
	assert_nothing_logged();
	upgrade_start(&f->u, &f->life[0], 1, f->inherited_fds, START);
	assert_int_equal(f->u.pid, pid);
	assert_logged("level=warning event=upgrade_refused pid=");
}

TEST(new_process_gets_the_channels_in_their_order)
{
	int channels[3];
	char byte;

	start_self(f, "serves");
	await_word(f);
	assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_READY);
	assert_true(upgrade_give_channels(&f->u, channels, 3));
	for (int i = 0; i < 3; i++) {
		struct pollfd p = { .fd = channels[i], .events = POLLIN };

		assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
		assert_int_equal(read(channels[i], &byte, 1), 1);
		assert_int_equal(byte, '0' + i);
		close(channels[i]);
	}
	assert_false(upgrade_give_channels(&f->u, channels, 3));
	assert_nothing_logged();
}

/* covers: hand_over_failed */
TEST(new_process_that_ended_gets_no_channels)
{
	int channels[3];

	start_self(f, "serves");
	await_word(f);
	assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_READY);
	assert_int_equal(kill(f->u.pid, SIGKILL), 0);
	assert_int_equal(waitpid(f->u.pid, NULL, 0), f->u.pid);
	assert_false(upgrade_give_channels(&f->u, channels, 3));
	assert_logged("level=warning event=hand_over_failed effect=\"the old process keeps its "
	              "clients until they are idle\" reason=\"Broken pipe\"");
}

TEST(new_process_that_is_not_ready_at_the_deadline_is_ended)
{
	pid_t pid;

	start_self(f, "hangs");
	pid = f->u.pid;
	assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_WAITING);
	assert_int_equal(upgrade_poll(&f->u, START + DEADLINE - 0.1), UPGRADE_WAITING);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	is_interrupted = true;
	assert_int_equal(upgrade_poll(&f->u, START + DEADLINE), UPGRADE_FAILED);
	assert_false(is_interrupted);
	assert_gone(pid);
	assert_logged("level=error event=upgrade_failed kept=\"the old process\" reason=\"the "
	              "new process was "
	              "not ready "
	              "within 30 s\"");
	assert_int_equal(upgrade_poll(&f->u, START + DEADLINE), UPGRADE_NONE);
}

TEST(new_process_that_ends_has_failed)
{
	pid_t pid;

	start_self(f, "ends");
	pid = f->u.pid;
	await_word(f);
	assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_FAILED);
	assert_gone(pid);
	assert_logged(
		"kept=\"the old process\" reason=\"the new process ended with status 7\"");
	assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_NONE);
}

TEST(new_process_that_crashes_has_failed)
{
	start_self(f, "crashes");
	await_word(f);
	assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_FAILED);
	assert_logged(
		"kept=\"the old process\" reason=\"the new process was ended by signal 9\"");
}

TEST(another_upgrade_may_follow_one_that_failed)
{
	start_self(f, "ends");
	await_word(f);
	assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_FAILED);
	f->argv[1] = (char *)(uintptr_t) "hangs";
	upgrade_start(&f->u, &f->life[0], 1, f->inherited_fds, START + DEADLINE);
	/* The second upgrade has a deadline of its own. */
	assert_int_equal(upgrade_poll(&f->u, START + 2 * DEADLINE - 0.1), UPGRADE_WAITING);
}

TEST(upgrade_under_way_refuses_another_one)
{
	pid_t pid;
	int ready_fd;

	start_self(f, "hangs");
	pid = f->u.pid;
	ready_fd = f->u.ready_fd;
	upgrade_start(&f->u, &f->life[0], 1, f->inherited_fds, START + 20);
	assert_int_equal(f->u.pid, pid);
	assert_int_equal(f->u.ready_fd, ready_fd);
	assert_logged("level=warning event=upgrade_refused pid=");
	/* The deadline of the first upgrade stays. */
	assert_int_equal(upgrade_poll(&f->u, START + DEADLINE), UPGRADE_FAILED);
}

TEST(first_process_of_a_container_refuses)
{
	pretended_pid = 1;
	start(f, "/proc/self/exe", "ends");
	pretended_pid = 0;
	assert_int_equal(f->u.pid, 0);
	assert_logged("level=warning event=upgrade_refused reason=\"hasp is the first process");
	assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_NONE);
}

TEST(binary_that_cannot_be_run_leaves_the_old_process_alone)
{
	start(f, "/there/is/no/hasp", "serves");
	assert_int_equal(f->u.pid, 0);
	assert_logged("level=error event=upgrade_failed kept=\"the old process\" "
	              "binary=/there/is/no/hasp "
	              "reason=\"No such "
	              "file or directory\"");
	assert_int_equal(upgrade_poll(&f->u, START + DEADLINE), UPGRADE_NONE);
	assert_nothing_logged();
}

TEST(old_process_that_leaves_ends_one_that_is_not_ready)
{
	pid_t pid;
	int status;

	start_self(f, "hangs");
	pid = f->u.pid;
	upgrade_abandon(&f->u, "hasp is shutting down");
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	assert_logged("level=error event=upgrade_failed kept=\"the old process\" reason=\"hasp "
	              "is shutting down\"");
	assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_NONE);
	upgrade_abandon(&f->u, "hasp is shutting down");
	assert_nothing_logged();
}

TEST(old_process_that_leaves_does_not_end_one_that_serves)
{
	start_self(f, "serves");
	await_word(f);
	assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_READY);
	upgrade_abandon(&f->u, "hasp is shutting down");
	assert_int_equal(waitpid(f->u.pid, NULL, WNOHANG), 0);
}

TEST(process_without_a_predecessor_is_no_heir)
{
	static const char *const values[] = { NULL, "", "x", "2", "-1", "7x", "1000000" };

	for (size_t i = 0; i < sizeof(values) / sizeof(*values); i++) {
		if (values[i])
			setenv(READY, values[i], 1);
		upgrade_init(&f->u, f->argv, &(sigset_t){ 0 });
		assert_false(upgrade_is_successor(&f->u));
		assert_null(getenv(READY));
		upgrade_tell_ready(&f->u);
		assert_int_equal(upgrade_poll(&f->u, START), UPGRADE_NONE);
	}
}

TEST(heir_tells_once_that_it_is_ready)
{
	char number[16], bytes[4];
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	snprintf(number, sizeof(number), "%d", fds[1]);
	setenv(READY, number, 1);
	upgrade_init(&f->u, f->argv, &(sigset_t){ 0 });
	assert_true(upgrade_is_successor(&f->u));
	assert_null(getenv(READY));
	/* The new process' children must not keep the pipe open. */
	assert_int_equal(fcntl(fds[1], F_GETFD), FD_CLOEXEC);
	assert_true(upgrade_tell_ready(&f->u));
	assert_false(upgrade_is_successor(&f->u));
	assert_true(upgrade_tell_ready(&f->u));
	assert_int_equal(read(fds[0], bytes, sizeof(bytes)), 1);
	/* No clients come over a pipe. */
	assert_false(upgrade_awaits_channels(&f->u));
	assert_int_equal(read(fds[0], bytes, sizeof(bytes)), 0);
	close(fds[0]);
}

/* covers: hand_over_failed */
TEST(heir_of_a_process_that_was_killed_logs_that)
{
	char number[16];
	int fds[2];

	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	snprintf(number, sizeof(number), "%d", fds[1]);
	setenv(READY, number, 1);
	upgrade_init(&f->u, f->argv, &(sigset_t){ 0 });
	assert_false(upgrade_tell_ready(&f->u));
	signal(SIGPIPE, SIG_DFL);
	assert_logged("level=warning event=hand_over_failed reason=\"the old process cannot be "
	              "reached: ");
}

int main(int argc, char **argv)
{
	return argc > 1 ? act(argv) : run_registered_tests(argc, argv);
}
