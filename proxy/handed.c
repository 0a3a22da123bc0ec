/* SPDX-License-Identifier: BSD-3-Clause */
#include "handed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/log.h"
#include "net/address.h"

#define FIRST_FD 3 /* SD_LISTEN_FDS_START */

/* The number that a variable of the environment holds; 0: none that is meant. */
static long handed_number(const char *name)
{
	const char *text = getenv(name);
	char *end;
	long n;

	if (!text || !*text)
		return 0;
	errno = 0;
	n = strtol(text, &end, 10);
	return errno || *end || n < 0 ? 0 : n;
}

static int handed_option(int fd, int option)
{
	int value = -1;
	socklen_t len = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, option, &value, &len) < 0 ? -1 : value;
}

/* systemd's block, and hasp's must not. */
static bool handed_prepare(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return handed_option(fd, SO_TYPE) == SOCK_STREAM &&
	       handed_option(fd, SO_ACCEPTCONN) == 1 && flags >= 0 &&
	       fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0 &&
	       fcntl(fd, F_SETFD, FD_CLOEXEC) == 0;
}

int handed_take(struct handed *h)
{
	long n = handed_number("LISTEN_PID") == (long)getpid() ? handed_number("LISTEN_FDS")
	                                                       : 0;

	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	if (n == 0)
		return 0;
	for (long fd = FIRST_FD; fd < FIRST_FD + n; fd++) {
		if (fd > INT_MAX || !handed_prepare((int)fd)) {
			log_error("listen LISTEN_FDS: descriptor %ld is no listening socket of "
			          "streams",
			          fd);
			return -1;
		}
		h->sockets = xrealloc(h->sockets, (h->n + 1) * sizeof(*h->sockets));
		h->sockets[h->n++] = (struct handed_socket){ .fd = (int)fd };
	}
	return 0;
}

bool handed_is_used_up(const struct handed *h)
{
	bool all = true;

	for (size_t i = 0; i < h->n; i++) {
		struct sockaddr_storage ss;
		socklen_t len = sizeof(ss);
		char text[128] = "a socket";

		if (h->sockets[i].taken)
			continue;
		if (getsockname(h->sockets[i].fd, (struct sockaddr *)&ss, &len) == 0)
			address_print((struct sockaddr *)&ss, len, text, sizeof(text));
		log_error("listen %s: systemd listens there for hasp, but neither listen nor "
		          "listen_tls names it",
		          text);
		all = false;
	}
	return all;
}

void handed_free(struct handed *h)
{
	free(h->sockets);
	*h = (struct handed){ .n = 0 };
}
