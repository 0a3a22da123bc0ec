/* SPDX-License-Identifier: BSD-3-Clause */
#include "daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

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
	/* stderr stays open until all faults of the start are logged. */
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

/* --- the file with the process' number ---------------------------------------- */

static int daemon_write_pid(const char *path, void *arg)
{
	/* O_NONBLOCK: fails at once on a FIFO without a reader. */
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
	              0644);
	int n;

	(void)arg;
	if (fd < 0)
		return -1;
	n = dprintf(fd, "%ld\n", (long)getpid());
	return close(fd) == 0 && n > 0 ? 0 : -1;
}

int daemon_write_pid_file(struct daemon *d, const char *path, const struct privileges *as)
{
	if (!path)
		return 0;
	/* The file stays root's where it can be: root's scripts send signals to the process
	 * that it names. */
	if (privileges_use(as, path, daemon_write_pid, NULL, PRIVILEGES_KEEP) < 0)
		return daemon_fail("pid_file", path, strerror(errno));
	d->pid_file = path;
	return 0;
}

static int daemon_unlink_own(const char *path, void *arg)
{
	FILE *f = fopen(path, "re");
	long pid = 0;
	int rc = 0;

	(void)arg;
	if (!f)
		return -1;
	/* The next hasp may have been started while this one drained. */
	if (fscanf(f, "%ld", &pid) == 1 && pid == (long)getpid())
		rc = unlink(path);
	fclose(f);
	return rc;
}

void daemon_unlink_pid_file(struct daemon *d, const struct privileges *as)
{
	if (d->pid_file &&
	    privileges_use(as, d->pid_file, daemon_unlink_own, NULL, PRIVILEGES_KEEP) < 0 &&
	    errno != ENOENT)
		log_info("pid_file path=%s left=there reason=\"%s\"", d->pid_file,
		         strerror(errno));
	d->pid_file = NULL;
}
