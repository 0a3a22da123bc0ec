/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/password_command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/slice.h"

/* Most bytes that the command may print; a password file may have the same size. */
#define OUTPUT_MAX ((size_t)64 * 1024)
/* How often hasp checks whether a command that has closed its output has ended, in ms. */
#define REAP_MS 10
/* While Redis refuses logins, hasp runs the command at most once in this many seconds. */
#define REFUSED_SECONDS 10.0

extern char **environ;

/* --- one run -------------------------------------------------------------------------- */

/* Starts the command in a shell with a process group of its own, so that hasp can end all of a
 * pipeline. Errors go to hasp's standard error. Returns 0, or an errno. */
static int command_spawn(const char *command, int output, pid_t *pid)
{
	char *const argv[] = { "sh", "-c", (char *)command, NULL };
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, ignored;
	int rc;

	sigemptyset(&none);
	sigemptyset(&ignored);
	sigaddset(&ignored, SIGPIPE);
	sigaddset(&ignored, SIGXFSZ);
	if (posix_spawn_file_actions_init(&actions) != 0)
		return ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return ENOMEM;
	}
	rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
	                                             POSIX_SPAWN_SETPGROUP);
	if (rc == 0)
		rc = posix_spawnattr_setsigmask(&attr, &none);
	if (rc == 0)
		rc = posix_spawnattr_setsigdefault(&attr, &ignored);
	if (rc == 0)
		rc = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
		                                      O_RDONLY, 0);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
	if (rc == 0)
		rc = posix_spawn(pid, "/bin/sh", &actions, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

/* Awaits the end of the shell. At the deadline, or at once if `failed`, kills the shell's
 * process group. Returns the shell's status; -1: killed. */
static int command_reap(pid_t pid, double deadline, bool failed)
{
	int status;

	while (!failed) {
		if (waitpid(pid, &status, WNOHANG) == pid)
			return status;
		failed = clock_now() >= deadline;
		(void)!poll(NULL, 0, REAP_MS);
	}
	kill(-pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return -1;
}

/* Returns the password that the command prints; the caller frees it. NULL: the command failed,
 * and `why` has the reason. */
static char *command_run(const char *command, struct buf *why)
{
	double deadline = clock_now() + PASSWORD_COMMAND_SECONDS;
	struct buf text = BUF_INIT;
	char *password = NULL;
	int ends[2], status, rc;
	pid_t pid;

	if (pipe2(ends, O_CLOEXEC) < 0) {
		buf_printf(why, "cannot be run: %s", strerror(errno));
		return NULL;
	}
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	rc = command_spawn(command, ends[1], &pid);
	close(ends[1]);
	if (rc == 0) {
		int error = file_read_until(ends[0], OUTPUT_MAX, deadline, &text);

		status = command_reap(pid, deadline, error == EFBIG || error == ETIMEDOUT);
		if (buf_len(&text) > OUTPUT_MAX)
			buf_printf(why,
			           "printed more than %zu bytes; expected a password in the "
			           "first line",
			           OUTPUT_MAX);
		else if (status == -1)
			buf_printf(why, "did not end within %d seconds, and was killed",
			           PASSWORD_COMMAND_SECONDS);
		else if (WIFSIGNALED(status))
			buf_printf(why, "was killed by signal %d", WTERMSIG(status));
		else if (WEXITSTATUS(status) != 0)
			buf_printf(why,
			           "failed with exit status %d; see what it printed to "
			           "standard error",
			           WEXITSTATUS(status));
		else
			password = config_read_password(buf_slice(&text), why);
	} else {
		buf_printf(why, "cannot be run: /bin/sh: %s", strerror(rc));
	}
	close(ends[0]);
	buf_release(&text);
	return password;
}

int password_command_load(struct config *c, struct buf *faults)
{
	struct buf why = BUF_INIT;

	if (!c->password_command)
		return 0;
	c->upstream_password = command_run(c->password_command, &why);
	if (!c->upstream_password) {
		sources_print(&c->sources, c->password_command_line, faults);
		buf_printf(faults, ": '%s' of 'password_command' %.*s\n", c->password_command,
		           (int)buf_len(&why), buf_head(&why));
	}
	buf_release(&why);
	return c->upstream_password ? 0 : -1;
}

/* --- renewal -------------------------------------------------------------------------- */

void password_renewal_reset(struct password_renewal *r, double now)
{
	*r = (struct password_renewal){ .ran_at = now };
}

static bool renewal_is_due(const struct password_renewal *r, const struct config *c,
                           const struct worker_shared *shared, double now)
{
	double since = now - r->ran_at;
	double interval = (double)c->password_command_interval_ms / 1000;

	return (interval > 0 && since >= interval) ||
	       (since >= REFUSED_SECONDS && workers_login_is_refused(shared));
}

/* Returns the new password; NULL: it has not changed, or the command has failed. */
static char *renewal_run(struct password_renewal *r, const struct config *c)
{
	struct buf why = BUF_INIT;
	char *password = command_run(c->password_command, &why);

	if (!password && !r->failed)
		log_warning("password_command_failed kept=\"the old password\" reason=\"%.*s\"",
		            (int)buf_len(&why), buf_head(&why));
	r->failed = !password;
	buf_release(&why);
	if (password && strcmp(password, c->upstream_password) == 0) {
		free(password);
		return NULL;
	}
	return password;
}

struct config *password_renewal_tick(struct password_renewal *r, struct config *c,
                                     const struct worker_shared *shared, double now)
{
	char *password;

	if (!renewal_is_due(r, c, shared, now))
		return NULL;
	password = renewal_run(r, c);
	r->ran_at = clock_now();
	if (!password)
		return NULL;
	log_info("password_renewed effect=\"later logins of hasp use the new password\"");
	return config_with_password(c, password);
}
