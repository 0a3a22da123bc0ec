/* SPDX-License-Identifier: BSD-3-Clause
 *
 * calls: the simulation's answers to hasp's calls of the C library: the linker sends each call
 * of NAME to __wrap_NAME (Makefile.am, sim_calls). Time and the process id are the machine's,
 * sockets are the network's; calls on other descriptors go to the library. There are no
 * threads: pthread_create() notes what the thread would run, and its loop is stepped.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/fatal.h"
#include "base/random.h"
#include "tests/sim/breaks.h"
#include "tests/sim/loop.h"
#include "tests/sim/simnet.h"
#include "tests/sim/world.h"

/* --- time and chance ---------------------------------------------------------------------- */

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
time_t __wrap_time(time_t *out);
pid_t __wrap_getpid(void);

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	bool is_date = clock == CLOCK_REALTIME || break_is("wall_clock");
	int64_t us = is_date ? world_date(world_current()) : world_now();

	*ts = (struct timespec){ us / SECOND, us % SECOND * 1000 };
	return 0;
}

time_t __wrap_time(time_t *out)
{
	time_t now = world_date(world_current()) / SECOND;

	if (out)
		*out = now;
	return now;
}

pid_t __wrap_getpid(void)
{
	return world_current() ? world_current()->number : 1;
}

void random_bytes(void *out, size_t n)
{
	chance_bytes(out, n);
	if (break_is("same_random"))
		memset(out, 7, n);
}

/* --- sockets ------------------------------------------------------------------------------ */

int __real_close(int fd);
ssize_t __real_write(int fd, const void *p, size_t n);
int __wrap_socket(int family, int type, int protocol);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len);
int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags);
int __wrap_close(int fd);
int __wrap_shutdown(int fd, int how);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_getsockname(int fd, struct sockaddr *at, socklen_t *len);
int __wrap_getpeername(int fd, struct sockaddr *at, socklen_t *len);
ssize_t __wrap_recv(int fd, void *p, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *p, size_t n, int flags);
long __wrap_syscall(long number, ...);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
ssize_t __wrap_write(int fd, const void *p, size_t n);

int __wrap_socket(int family, int type, int protocol)
{
	(void)type;
	(void)protocol;
	HASP_ASSERT(family == AF_INET);
	return simnet_socket();
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t len)
{
	(void)len;
	return simnet_connect_fd(
		fd, ntohs(((const struct sockaddr_in *)(const void *)to)->sin_port));
}

static void write_address(const struct sock *s, struct sockaddr *out, socklen_t *len)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };

	sin.sin_port = htons((uint16_t)(s ? sock_port(s) : 0));
	sin.sin_addr.s_addr = htonl(0x0a000000u + (s ? (unsigned)sock_machine(s)->number : 0));
	memcpy(out, &sin, *len < sizeof(sin) ? *len : sizeof(sin));
	*len = sizeof(sin);
}

int __wrap_accept4(int fd, struct sockaddr *peer, socklen_t *len, int flags)
{
	int got = simnet_accept(fd);

	(void)flags;
	if (got >= 0)
		write_address(sock_peer(simnet_sock(got)), peer, len);
	return got;
}

int __wrap_close(int fd)
{
	return simnet_has(fd) ? simnet_close(fd) : __real_close(fd);
}

int __wrap_shutdown(int fd, int how)
{
	HASP_ASSERT(how == SHUT_WR);
	return simnet_shutdown(fd);
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	if (level != SOL_SOCKET || name != SO_ERROR) {
		errno = ENOPROTOOPT;
		return -1;
	}
	HASP_ASSERT(*len == sizeof(int));
	*(int *)value = simnet_error(fd);
	return 0;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	(void)fd;
	(void)level;
	(void)name;
	(void)value;
	(void)len;
	return 0;
}

int __wrap_getsockname(int fd, struct sockaddr *at, socklen_t *len)
{
	write_address(simnet_sock(fd), at, len);
	return 0;
}

int __wrap_getpeername(int fd, struct sockaddr *at, socklen_t *len)
{
	write_address(sock_peer(simnet_sock(fd)), at, len);
	return 0;
}

ssize_t __wrap_recv(int fd, void *p, size_t n, int flags)
{
	return simnet_receive(fd, p, n, flags & MSG_PEEK);
}

ssize_t __wrap_send(int fd, const void *p, size_t n, int flags)
{
	(void)flags;
	return simnet_send(fd, slice_of(p, n));
}

/* socket_receive() and socket_transmit(). */
long __wrap_syscall(long number, ...)
{
	va_list ap;
	size_t n;
	void *p;
	int fd;

	HASP_ASSERT(number == SYS_recvfrom || number == SYS_sendto);
	va_start(ap, number);
	fd = va_arg(ap, int);
	p = va_arg(ap, void *);
	n = va_arg(ap, size_t);
	va_end(ap);
	return number == SYS_recvfrom ? simnet_receive(fd, p, n, false)
	                              : simnet_send(fd, slice_of(p, n));
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	HASP_ASSERT(n == 1);
	if (fds->fd == STDERR_FILENO)
		return __real_poll(fds, n, timeout);
	HASP_ASSERT(timeout == 0);
	fds->revents = simnet_is_hung_up(fds->fd) ? POLLRDHUP : 0;
	return fds->revents != 0;
}

/* hasp's log goes into the trace, without the date. */
ssize_t __wrap_write(int fd, const void *p, size_t n)
{
	const char *line = p, *text = memchr(line, ' ', n);

	if (fd != STDERR_FILENO || !world_current() || !text || line[n - 1] != '\n')
		return __real_write(fd, p, n);
	trace("log:%.*s", (int)(n - (size_t)(text - line) - 1), text);
	return (ssize_t)n;
}

/* --- threads ------------------------------------------------------------------------------ */

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg);
int __wrap_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_setname_np(pthread_t thread, const char *name);

struct thread {
	void *(*start)(void *);
	void *arg;
};

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *),
                          void *arg)
{
	struct thread *t = xcalloc(1, sizeof(*t));

	(void)attr;
	t->start = start;
	t->arg = arg;
	*thread = (pthread_t)t;
	return 0;
}

/* The thread's function only runs its loop, which was asked to end, or has ended. */
int __wrap_pthread_join(pthread_t thread, void **result)
{
	struct thread *t = (struct thread *)thread;
	void *end = t->start(t->arg);

	free(t);
	if (result)
		*result = end;
	return 0;
}

int __wrap_pthread_setname_np(pthread_t thread, const char *name)
{
	(void)thread;
	(void)name;
	return 0;
}
