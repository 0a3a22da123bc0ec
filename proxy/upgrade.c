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
#include "net/fd_channel.h"

#define UPGRADE_SECONDS 30.0
#define READY_VARIABLE "HASP_READY_FD"

/* The byte that the new process sends when it is ready. */
enum {
	READY_ALONE = 0, /* the new process takes no clients, and closes the channel */
	READY_FOR_CLIENTS = 1,
};

extern char **environ;

static void upgrade_log_failed(const char *reason)
{
	log_error("upgrade_failed kept=\"the old process\" reason=\"%s\"", reason);
}

/* --- the new process ------------------------------------------------------------ */

void upgrade_init(struct upgrade *u, char **argv, const sigset_t *mask)
{
	const char *text = getenv(READY_VARIABLE);
	char *end;
	long fd = text && *text ? strtol(text, &end, 10) : -1;

	*u = (struct upgrade){ .argv = argv, .mask = *mask, .successor_fd = -1 };
	u->old_fd = u->ready_fd = u->new_fd = -1;
	if (fd > STDERR_FILENO && !*end && fcntl((int)fd, F_SETFD, FD_CLOEXEC) == 0)
		u->successor_fd = (int)fd;
	unsetenv(READY_VARIABLE);
}

bool upgrade_is_successor(const struct upgrade *u)
{
	return u->successor_fd >= 0;
}

bool upgrade_tell_ready(struct upgrade *u)
{
	bool told;
	char word;

	if (u->successor_fd < 0)
		return true;
	/* An old hasp that hands over no clients has passed a pipe instead of a channel. */
	word = fd_channel_is(u->successor_fd) ? READY_FOR_CLIENTS : READY_ALONE;
	told = write(u->successor_fd, &word, 1) == 1;
	if (!told)
		log_warning("hand_over_failed reason=\"the old process cannot be reached: %s\"",
		            strerror(errno));
	else if (word == READY_FOR_CLIENTS)
		u->old_fd = u->successor_fd;
	if (u->old_fd < 0)
		close(u->successor_fd);
	u->successor_fd = -1;
	return told;
}

bool upgrade_awaits_channels(const struct upgrade *u)
{
	return u->old_fd >= 0;
}

size_t upgrade_take_channels(struct upgrade *u, int *channels)
{
	size_t n;
	char byte = 0;

	if (fd_channel_receive(u->old_fd, &byte, 1, channels, UPGRADE_CHANNELS_MAX, &n) < 0 &&
	    errno == EAGAIN)
		return 0;
	close(u->old_fd);
	u->old_fd = -1;
	return n;
}

/* --- the old process ------------------------------------------------------------ */

/* Returns the environment with two more variables; the caller frees the array. Does not call
 * setenv(), because other threads may read the environment. */
static char **upgrade_environment(char *inherited_fds, char *ready)
{
	size_t n = 0;
	char **env;

	while (environ[n])
		n++;
	env = xcalloc(n + 3, sizeof(*env));
	memcpy(env, environ, n * sizeof(*env));
	env[n] = inherited_fds;
	env[n + 1] = ready;
	return env;
}

/* Starts the new process. A dup2() of each descriptor onto itself keeps it open over exec().
 * Returns 0, or an errno. */
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

void upgrade_start(struct upgrade *u, const int *fds, size_t nfds, char *inherited_fds,
                   double now)
{
	char ready[sizeof(READY_VARIABLE) + 16], **env;
	int ends[2], rc;

	if (u->pid) {
		log_warning("upgrade_refused pid=%ld reason=\"an upgrade is under way\"",
		            (long)u->pid);
		return;
	}
	/* A container (or another PID namespace) ends with its first process. */
	if (getpid() == 1) {
		log_warning(
			"upgrade_refused reason=\"hasp is the first process of a container: "
			"the container would end with the old process\"");
		return;
	}
	if (fd_channel_open(ends) < 0) {
		upgrade_log_failed(strerror(errno));
		return;
	}
	snprintf(ready, sizeof(ready), READY_VARIABLE "=%d", ends[1]);
	env = upgrade_environment(inherited_fds, ready);
	rc = upgrade_spawn(u, fds, nfds, ends[1], env);
	free(env);
	close(ends[1]);
	if (rc != 0) {
		close(ends[0]);
		u->pid = 0;
		log_error("upgrade_failed kept=\"the old process\" binary=%s reason=\"%s\"",
		          u->argv[0], strerror(rc));
		return;
	}
	u->ready_fd = ends[0];
	u->deadline = now + UPGRADE_SECONDS;
	log_info("upgrading pid=%ld binary=%s", (long)u->pid, u->argv[0]);
}

/* Ends the new process if it still runs. Returns its status. */
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
		if (byte == READY_FOR_CLIENTS)
			u->new_fd = u->ready_fd;
		else
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

bool upgrade_has_successor(const struct upgrade *u)
{
	siginfo_t ended = { 0 };

	/* WNOWAIT: no other process gets the pid. */
	return u->pid &&
	       waitid(P_PID, (id_t)u->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       ended.si_pid == 0;
}

void upgrade_abandon(struct upgrade *u, const char *reason)
{
	if (u->ready_fd < 0)
		return;
	/* The new process may serve clients by now, and then drains. */
	kill(u->pid, SIGTERM);
	u->pid = 0;
	close(u->ready_fd);
	u->ready_fd = -1;
	upgrade_log_failed(reason);
}

/* Opens `n` channels. Returns `n`; 0: this failed, and no channel is open. */
static size_t upgrade_open_channels(int *ours, int *theirs, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int ends[2];

		if (fd_channel_open(ends) < 0) {
			while (i--) {
				close(ours[i]);
				close(theirs[i]);
			}
			return 0;
		}
		ours[i] = ends[0];
		theirs[i] = ends[1];
	}
	return n;
}

bool upgrade_give_channels(struct upgrade *u, int *channels, size_t n)
{
	int theirs[UPGRADE_CHANNELS_MAX], rc = -1;

	HASP_ASSERT(n <= UPGRADE_CHANNELS_MAX);
	if (u->new_fd < 0)
		return false;
	if (upgrade_open_channels(channels, theirs, n)) {
		rc = fd_channel_send(u->new_fd, SLICE_LIT("c"), theirs, n);
		for (size_t i = 0; i < n; i++) {
			close(theirs[i]);
			if (rc < 0)
				close(channels[i]);
		}
	}
	if (rc < 0)
		log_warning("hand_over_failed effect=\"the old process keeps its clients until "
		            "they are idle\" reason=\"%s\"",
		            strerror(errno));
	close(u->new_fd);
	u->new_fd = -1;
	return rc == 0;
}
