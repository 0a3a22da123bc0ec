/* SPDX-License-Identifier: BSD-3-Clause */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/log.h"

/* Descriptors beside the clients' and their links': listeners, loops, logs. */
#define DAEMON_DESCRIPTORS 128

static int daemon_fail(const char *what, const char *about, const char *reason)
{
	log_error("%s %s: %s", what, about, reason);
	return -1;
}

/* --- background --------------------------------------------------------------- */

int daemon_fork(struct daemon *d)
{
	int pipefd[2], null;
	char status = 1;
	pid_t pid;

	if (pipe2(pipefd, O_CLOEXEC) < 0 || (pid = fork()) < 0)
		return daemon_fail("daemonize", "", strerror(errno));
	if (pid > 0) {
		close(pipefd[1]);
		if (read(pipefd[0], &status, 1) != 1)
			status = 1;
		_exit(status);
	}
	close(pipefd[0]);
	d->ready_fd = pipefd[1];
	setsid();
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	if (null < 0)
		return daemon_fail("daemonize", "/dev/null", strerror(errno));
	dup2(null, STDIN_FILENO);
	dup2(null, STDOUT_FILENO);
	/* stderr stays until all faults of starting are told. */
	return 0;
}

void daemon_ready(struct daemon *d, const char *log)
{
	int null;

	if (d->ready_fd < 0)
		return;
	if (strcmp(log, "stderr") == 0)
		log_warning("log target=stderr hint=\"in the background nobody reads it; "
		            "set log to a file or syslog\"");
	null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	if (null >= 0)
		dup2(null, STDERR_FILENO);
	if (write(d->ready_fd, "", 1) < 0)
		log_warning("daemonize parent=gone");
	close(d->ready_fd);
	d->ready_fd = -1;
}

/* --- limits and privileges ---------------------------------------------------- */

void daemon_raise_descriptor_limit(int64_t max_clients)
{
	/* Each client needs a descriptor, and its link another one. */
	rlim_t want = (rlim_t)max_clients * 2 + DAEMON_DESCRIPTORS;
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0 || limit.rlim_cur >= want)
		return;
	limit.rlim_cur = want;
	if (limit.rlim_max < want && geteuid() == 0)
		limit.rlim_max = want;
	else if (limit.rlim_max < want)
		limit.rlim_cur = limit.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &limit) < 0 && errno == EPERM) {
		getrlimit(RLIMIT_NOFILE, &limit);
		limit.rlim_cur = limit.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &limit);
	}
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < want)
		log_warning("descriptors limit=%llu wanted=%llu hint=\"raise the limit "
		            "or lower max_clients\"",
		            (unsigned long long)limit.rlim_cur, (unsigned long long)want);
}

int daemon_drop_privileges(const struct config *config, const struct listeners *l)
{
	const char *user = config->user, *log = config->log;
	struct passwd *pw;

	if (!user)
		return 0;
	errno = 0;
	pw = getpwnam(user);
	if (!pw)
		return daemon_fail("user", user, errno ? strerror(errno) : "no such user");
	if (geteuid() == pw->pw_uid)
		return 0;
	if (listeners_chown(l, pw->pw_uid, pw->pw_gid) < 0)
		return -1;
	if (log[0] == '/' && chown(log, pw->pw_uid, pw->pw_gid) < 0)
		return daemon_fail("log", log, strerror(errno));
	if (initgroups(user, pw->pw_gid) < 0 || setgid(pw->pw_gid) < 0 ||
	    setuid(pw->pw_uid) < 0)
		return daemon_fail("user", user, strerror(errno));
	return 0;
}

/* --- the file with the process' number ---------------------------------------- */

int daemon_write_pid_file(struct daemon *d, const char *path)
{
	FILE *f;

	if (!path)
		return 0;
	f = fopen(path, "we");
	if (!f || fprintf(f, "%ld\n", (long)getpid()) < 0 || fclose(f) != 0)
		return daemon_fail("pid_file", path, strerror(errno));
	d->pid_file = path;
	return 0;
}

void daemon_unlink_pid_file(struct daemon *d)
{
	long pid = 0;
	FILE *f;

	if (!d->pid_file)
		return;
	f = fopen(d->pid_file, "re");
	if (!f)
		return;
	/* The next hasp may have been started while this one drained. */
	if (fscanf(f, "%ld", &pid) == 1 && pid == (long)getpid())
		unlink(d->pid_file);
	fclose(f);
	d->pid_file = NULL;
}
