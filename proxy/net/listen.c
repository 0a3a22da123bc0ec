/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/listen.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fatal.h"
#include "net/loop_timers.h"
#include "net/watch.h"

/* Connections that are accepted per event. More would delay the connected clients (with 64 the
 * 99th percentile was 33 ms). */
#define ACCEPT_BURST 8
#define EXHAUSTED_PAUSE_SECONDS 0.1

struct acceptor {
	struct ev_loop *loop;
	struct list node;
	const struct acceptor_ops *ops;
	void *owner;
	struct watch readable;
	struct loop_timer pause; /* ends the pause after descriptors ran out */
};

/* Closes `fd`, keeps errno, and returns -1. */
static int close_failed(int fd)
{
	int saved = errno;

	close(fd);
	errno = saved;
	return -1;
}

static int bind_socket(const struct sockaddr *sa, socklen_t len, const struct listen_opts *opts)
{
	int on = 1;
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (opts->share && sa->sa_family != AF_UNIX)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	/* For `*`, hasp also opens an IPv4 socket, so this one must be for IPv6 only. */
	if (sa->sa_family == AF_INET6)
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	return bind(fd, sa, len) == 0 ? fd : close_failed(fd);
}

static int start_listening(int fd, const struct listen_opts *opts)
{
	return listen(fd, (int)opts->backlog) == 0 ? fd : close_failed(fd);
}

/* Removes the file of a unix socket that refuses connections, because its process has ended. A
 * file that is no socket refuses connections, too; lstat() detects such a file. Returns 0; -1
 * with errno: the file must stay. */
static int remove_stale(const char *path, const struct sockaddr *sa, socklen_t len)
{
	struct stat st;
	int fd;

	if (lstat(path, &st) < 0)
		return -1;
	if (!S_ISSOCK(st.st_mode)) {
		errno = EADDRINUSE;
		return -1;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	/* EAGAIN: a process listens, but its backlog is full. */
	if (connect(fd, sa, len) == 0 || errno == EAGAIN)
		errno = EADDRINUSE;
	close_failed(fd);
	return errno == ECONNREFUSED ? unlink(path) : -1;
}

static int open_unix(const char *path, const struct listen_opts *opts)
{
	struct sockaddr_storage ss;
	socklen_t len = address_unix(path, &ss);
	int fd;

	if (!len) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = bind_socket((struct sockaddr *)&ss, len, opts);
	if (fd < 0 && errno == EADDRINUSE) {
		if (remove_stale(path, (struct sockaddr *)&ss, len) < 0)
			return -1;
		fd = bind_socket((struct sockaddr *)&ss, len, opts);
	}
	if (fd < 0)
		return -1;
	/* The umask may allow more than unix_mode; no client can connect before listen(). */
	if (chmod(path, (mode_t)opts->unix_mode) < 0)
		return close_failed(fd);
	return start_listening(fd, opts);
}

/* Listens at each address, except those of a family that the system lacks. Returns the number
 * of sockets; -1 with errno if there is no socket, or if a socket failed. */
static int open_all(const struct addrinfo *list, const struct listen_opts *opts, int *fds,
                    size_t max)
{
	size_t n = 0;

	for (; list && n < max; list = list->ai_next) {
		int fd = bind_socket(list->ai_addr, list->ai_addrlen, opts);
		if (fd >= 0)
			fd = start_listening(fd, opts);
		if (fd >= 0) {
			fds[n++] = fd;
			continue;
		}
		if (errno == EAFNOSUPPORT)
			continue;
		while (n)
			close_failed(fds[--n]);
		return -1;
	}
	return n ? (int)n : -1;
}

/* Resolves a host to addresses, for freeaddrinfo(). Returns what getaddrinfo() returns. */
static int resolve(const struct address *at, struct addrinfo **list)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
		                  .ai_flags = AI_PASSIVE | AI_NUMERICSERV };

	return getaddrinfo(at->host[0] ? at->host : NULL, at->port, &hints, list);
}

int listen_open(const struct address *at, const struct listen_opts *opts, int *fds, size_t max,
                const char **reason)
{
	struct addrinfo *list;
	int rc;

	if (at->local) {
		fds[0] = open_unix(at->host, opts);
		*reason = strerror(errno);
		return fds[0] < 0 ? -1 : 1;
	}
	rc = resolve(at, &list);
	if (rc != 0) {
		*reason = gai_strerror(rc);
		return -1;
	}
	rc = open_all(list, opts, fds, max);
	*reason = strerror(errno);
	freeaddrinfo(list);
	return rc;
}

int listen_open_same(int fd, const struct listen_opts *opts)
{
	struct sockaddr_storage ss = { 0 };
	socklen_t len = sizeof(ss);
	int again;

	if (getsockname(fd, (struct sockaddr *)&ss, &len) < 0)
		return -1;
	again = bind_socket((struct sockaddr *)&ss, len, opts);
	return again < 0 ? -1 : start_listening(again, opts);
}

bool listen_is_with(int fd, int other)
{
	char one[128], two[128];

	return address_print_own(fd, one, sizeof(one)) == 0 &&
	       address_print_own(other, two, sizeof(two)) == 0 && strcmp(one, two) == 0;
}

bool listen_is_at(int fd, const struct address *at)
{
	struct sockaddr_storage bound = { 0 }, ss;
	socklen_t len = sizeof(bound), unix_len;
	struct addrinfo *list;
	bool is = false;

	if (getsockname(fd, (struct sockaddr *)&bound, &len) < 0)
		return false;
	if (at->local) {
		unix_len = address_unix(at->host, &ss);
		return unix_len && bound.ss_family == AF_UNIX &&
		       address_is_same((struct sockaddr *)&bound, len, (struct sockaddr *)&ss,
		                       unix_len);
	}
	if (bound.ss_family == AF_UNIX || resolve(at, &list) != 0)
		return false;
	for (struct addrinfo *ai = list; ai && !is; ai = ai->ai_next)
		is = address_is_same((struct sockaddr *)&bound, len, ai->ai_addr,
		                     ai->ai_addrlen);
	freeaddrinfo(list);
	return is;
}

static void acceptor_on_pause_over(void *arg)
{
	struct acceptor *a = arg;

	watch_change(a->loop, &a->readable, EV_READ);
}

static void acceptor_on_readable(struct watch *w, int events)
{
	struct acceptor *a = container_of(w, struct acceptor, readable);
	struct sockaddr_storage peer;

	(void)events;
	for (int i = 0; i < ACCEPT_BURST; i++) {
		socklen_t len = sizeof(peer);
		int fd = accept4(watch_fd(w), (struct sockaddr *)&peer, &len,
		                 SOCK_NONBLOCK | SOCK_CLOEXEC);
		if (fd >= 0) {
			a->ops->on_accept(a->owner, fd, (struct sockaddr *)&peer, len);
			continue;
		}
		if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
			/* The socket stays readable: without a pause the loop would spin. */
			watch_change(a->loop, &a->readable, 0);
			loop_timer_start(&a->pause, EXHAUSTED_PAUSE_SECONDS);
			a->ops->on_exhausted(a->owner, errno);
		}
		return;
	}
}

void acceptors_add(struct list *acceptors, struct ev_loop *loop, int fd,
                   const struct acceptor_ops *ops, void *owner)
{
	struct acceptor *a = xcalloc(1, sizeof(*a));

	a->loop = loop;
	a->ops = ops;
	a->owner = owner;
	watch_init(&a->readable, acceptor_on_readable);
	loop_timer_init(&a->pause, loop, acceptor_on_pause_over, a);
	watch_start(loop, &a->readable, fd, EV_READ);
	list_append(acceptors, &a->node);
}

void acceptors_free(struct list *acceptors)
{
	list_shift_each (struct acceptor, a, acceptors, node) {
		loop_timer_stop(&a->pause);
		close(watch_stop(a->loop, &a->readable));
		free(a);
	}
}
