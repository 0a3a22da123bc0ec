/* SPDX-License-Identifier: BSD-3-Clause */
#include "upgrade.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/log.h"

#define UPGRADE_SECONDS 30.0
#define READY_VARIABLE "HASP_READY_FD"

extern char **environ;

static void upgrade_log_failed(const char *reason)
{
	log_error("upgrade_failed kept=old reason=\"%s\"", reason);
}

/* --- the new process ------------------------------------------------------------ */

void upgrade_init(struct upgrade *u, char **argv, const sigset_t *mask)
{
	const char *text = getenv(READY_VARIABLE);
	char *end;
	long fd = text && *text ? strtol(text, &end, 10) : -1;

	*u = (struct upgrade){ .argv = argv, .mask = *mask, .heir_fd = -1, .ready_fd = -1 };
	if (fd > STDERR_FILENO && !*end && fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0)
		u->heir_fd = (int)fd;
	unsetenv(READY_VARIABLE);
}

bool upgrade_is_heir(const struct upgrade *u)
{
	return u->heir_fd >= 0;
}

void upgrade_tell_ready(struct upgrade *u)
{
	if (u->heir_fd < 0)
		return;
	if (write(u->heir_fd, "", 1) < 0)
		log_warning("upgrade old=gone reason=\"%s\"", strerror(errno));
	close(u->heir_fd);
	u->heir_fd = -1;
}

/* --- the old process ------------------------------------------------------------ */

/* The environment, and two variables more. They are not set here, for other threads may read
 * the environment. The caller frees the array. */
static char **upgrade_environment(char *handed, char *ready)
{
	size_t n = 0;
	char **env;

	while (environ[n])
		n++;
	env = xcalloc(n + 3, sizeof(*env));
	memcpy(env, environ, n * sizeof(*env));
	env[n] = handed;
	env[n + 1] = ready;
	return env;
}

/* Returns 0, or an errno. A descriptor that is copied onto itself is not closed by exec(). */
static int upgrade_spawn(struct upgrade *u, const int *fds, size_t nfds, int ready_fd,
                         char **env)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	int rc;

	if (posix_spawn_file_actions_init(&actions) != 0)
		return ENOMEM;
	if (posix_spawnattr_init(&attr) != 0) {
		posix_spawn_file_actions_destroy(&actions);
		return ENOMEM;
	}
	rc = posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	if (rc == 0)
		rc = posix_spawnattr_setsigmask(&attr, &u->mask);
	if (rc == 0)
		rc = posix_spawn_file_actions_adddup2(&actions, ready_fd, ready_fd);
	for (size_t i = 0; rc == 0 && i < nfds; i++)
		rc = posix_spawn_file_actions_adddup2(&actions, fds[i], fds[i]);
	if (rc == 0)
		rc = posix_spawnp(&u->pid, u->argv[0], &actions, &attr, u->argv, env);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&actions);
	return rc;
}

void upgrade_start(struct upgrade *u, const int *fds, size_t nfds, char *handed, double now)
{
	char ready[sizeof(READY_VARIABLE) + 16], **env;
	int pipefd[2], rc;

	if (u->pid) {
		log_warning("upgrade_refused pid=%ld reason=\"an upgrade is under way\"",
		            (long)u->pid);
		return;
	}
	if (pipe2(pipefd, O_CLOEXEC | O_NONBLOCK) < 0) {
		upgrade_log_failed(strerror(errno));
		return;
	}
	snprintf(ready, sizeof(ready), READY_VARIABLE "=%d", pipefd[1]);
	env = upgrade_environment(handed, ready);
	rc = upgrade_spawn(u, fds, nfds, pipefd[1], env);
	free(env);
	close(pipefd[1]);
	if (rc != 0) {
		close(pipefd[0]);
		u->pid = 0;
		log_error("upgrade_failed kept=old binary=%s reason=\"%s\"", u->argv[0],
		          strerror(rc));
		return;
	}
	u->ready_fd = pipefd[0];
	u->deadline = now + UPGRADE_SECONDS;
	log_info("upgrading pid=%ld binary=%s", (long)u->pid, u->argv[0]);
}

/* Ends the new process, if it has not ended by itself, and returns its status. */
static int upgrade_reap(struct upgrade *u)
{
	int status = 0;

	close(u->ready_fd);
	u->ready_fd = -1;
	kill(u->pid, SIGKILL);
	while (waitpid(u->pid, &status, 0) < 0 && errno == EINTR)
		;
	u->pid = 0;
	return status;
}

enum upgrade_state upgrade_poll(struct upgrade *u, double now)
{
	char byte, reason[96];
	ssize_t n;
	int status;

	if (u->ready_fd < 0)
		return UPGRADE_NONE;
	n = read(u->ready_fd, &byte, 1);
	if (n == 1) {
		close(u->ready_fd);
		u->ready_fd = -1;
		return UPGRADE_READY;
	}
	if (n < 0 && now < u->deadline)
		return UPGRADE_WAITING;
	status = upgrade_reap(u);
	if (n < 0)
		snprintf(reason, sizeof(reason), "the new process was not ready within %.0f s",
		         UPGRADE_SECONDS);
	else if (WIFSIGNALED(status))
		snprintf(reason, sizeof(reason), "the new process was ended by signal %d",
		         WTERMSIG(status));
	else
		snprintf(reason, sizeof(reason), "the new process ended with status %d",
		         WEXITSTATUS(status));
	upgrade_log_failed(reason);
	return UPGRADE_FAILED;
}

void upgrade_abandon(struct upgrade *u)
{
	if (u->ready_fd < 0)
		return;
	(void)upgrade_reap(u);
	upgrade_log_failed("hasp leaves");
}
