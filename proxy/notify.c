/* SPDX-License-Identifier: BSD-3-Clause */
#include "notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

/* A manager that does not read must not keep signals from being served. */
#define NOTIFY_SECONDS 2

/* A number in the environment; -1: it is not there, or no number. */
static long long notify_number(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long long n = text && *text ? strtoll(text, &end, 10) : -1;

	return n >= 0 && !*end ? n : -1;
}

void notify_init(struct notify *n)
{
	const char *path = getenv("NOTIFY_SOCKET");
	long long pid = notify_number("WATCHDOG_PID"), usec = notify_number("WATCHDOG_USEC");

	*n = (struct notify){ 0 };
	/* '@' stands for the NUL of an abstract address. */
	if (path && (*path == '/' || *path == '@'))
		n->path = path;
	if (n->path && usec > 0 && (pid < 0 || pid == (long long)getpid()))
		n->watchdog = (double)usec / 1e6;
	unsetenv("WATCHDOG_PID");
}

/* Returns 0; -1 with errno. */
static int notify_deliver(const char *path, const char *lines)
{
	const struct timeval most = { .tv_sec = NOTIFY_SECONDS };
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t n = strlen(path);
	int fd, saved;
	ssize_t sent;

	if (n >= sizeof(to.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(to.sun_path, path, n);
	if (*path == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
	sent = sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (struct sockaddr *)&to,
	              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	saved = errno;
	close(fd);
	errno = saved;
	return sent < 0 ? -1 : 0;
}

void notify_send(const struct notify *n, const char *lines)
{
	if (n->path && notify_deliver(n->path, lines) < 0)
		log_warning("notify socket=%s reason=\"%s\"", n->path, strerror(errno));
}
