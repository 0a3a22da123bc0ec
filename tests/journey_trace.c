/* SPDX-License-Identifier: BSD-3-Clause
 *
 * journey_trace: records for tests/journey which functions a program enters and leaves, and
 * what it reads from and writes to its sockets. Loaded in front of the C library with
 * LD_PRELOAD into a program that was built with -finstrument-functions; the library's own
 * hooks and calls do nothing of this. It is no part of hasp.
 *
 * Events go into one array of all threads, in the order in which they happened. At exit the
 * array is written to the file that $JOURNEY_OUT names; tests/journey tells what it means.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

/* Pages that are never touched take no memory. */
#define EVENTS_MAX ((size_t)4 << 20)
#define TEXT_MAX 96

enum { ENTER = 'E', LEAVE = 'L', READ = 'R', WRITE = 'W' };

/* Without padding: tests/journey unpacks it. */
struct event {
	uint64_t ns; /* CLOCK_MONOTONIC */
	uint64_t address; /* the function's; of ENTER and LEAVE */
	uint64_t nbytes; /* of READ and WRITE */
	uint32_t thread;
	uint16_t port; /* the port of the socket's peer; 0: not TCP */
	char kind;
	uint8_t ntext;
	char text[TEXT_MAX]; /* the first bytes that were read or written */
};

static struct event *events;
static atomic_size_t nevents;

#define UNTRACED __attribute__((no_instrument_function))

UNTRACED static uint16_t peer_port(int fd)
{
	struct sockaddr_storage peer;
	socklen_t len = sizeof(peer);

	if (getpeername(fd, (struct sockaddr *)&peer, &len) < 0)
		return 0;
	if (peer.ss_family == AF_INET)
		return ntohs(((struct sockaddr_in *)&peer)->sin_port);
	if (peer.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)&peer)->sin6_port);
	return 0;
}

UNTRACED static struct event *next_event(char kind)
{
	static __thread uint32_t thread;
	struct timespec now;
	struct event *e;
	size_t at;

	if (!events)
		return NULL;
	at = atomic_fetch_add(&nevents, 1);
	if (at >= EVENTS_MAX)
		return NULL;
	if (!thread)
		thread = (uint32_t)gettid();
	clock_gettime(CLOCK_MONOTONIC, &now);
	e = &events[at];
	e->ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	e->thread = thread;
	e->kind = kind;
	return e;
}

UNTRACED static void note_bytes(char kind, int fd, const void *p, ssize_t n)
{
	struct event *e = n > 0 ? next_event(kind) : NULL;

	if (!e)
		return;
	e->port = peer_port(fd);
	e->nbytes = (uint64_t)n;
	e->ntext = (uint8_t)(n < TEXT_MAX ? n : TEXT_MAX);
	memcpy(e->text, p, e->ntext);
}

/* Notes only the beginning of the first piece. */
UNTRACED static void note_pieces(char kind, int fd, const struct iovec *iov, ssize_t n)
{
	struct event *e = n > 0 ? next_event(kind) : NULL;
	size_t shown;

	if (!e)
		return;
	e->port = peer_port(fd);
	e->nbytes = (uint64_t)n;
	shown = iov->iov_len < (size_t)n ? iov->iov_len : (size_t)n;
	e->ntext = (uint8_t)(shown < TEXT_MAX ? shown : TEXT_MAX);
	memcpy(e->text, iov->iov_base, e->ntext);
}

/* --- the compiler's hooks --- */

UNTRACED void __cyg_profile_func_enter(void *function, void *caller);
UNTRACED void __cyg_profile_func_exit(void *function, void *caller);

void __cyg_profile_func_enter(void *function, void *caller)
{
	struct event *e = next_event(ENTER);

	(void)caller;
	if (e)
		e->address = (uint64_t)(uintptr_t)function;
}

void __cyg_profile_func_exit(void *function, void *caller)
{
	struct event *e = next_event(LEAVE);

	(void)caller;
	if (e)
		e->address = (uint64_t)(uintptr_t)function;
}

/* --- the C library's calls that move bytes --- */

static long (*real_syscall)(long, ...);

/* Like the C library's syscall(), passes on six arguments, whether there are so many or not. */
UNTRACED long syscall(long number, ...)
{
	long a[6], n;
	va_list args;

	va_start(args, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(args, long);
	va_end(args);
	if (!real_syscall)
		*(void **)&real_syscall = dlsym(RTLD_NEXT, "syscall");
	n = real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (number == SYS_recvfrom || number == SYS_read)
		note_bytes(READ, (int)a[0], (const void *)a[1], n);
	else if (number == SYS_sendto || number == SYS_write)
		note_bytes(WRITE, (int)a[0], (const void *)a[1], n);
	return n;
}

UNTRACED ssize_t recv(int fd, void *p, size_t n, int flags)
{
	return syscall(SYS_recvfrom, fd, p, n, flags, NULL, NULL);
}

UNTRACED ssize_t send(int fd, const void *p, size_t n, int flags)
{
	return syscall(SYS_sendto, fd, p, n, flags, NULL, 0);
}

UNTRACED ssize_t read(int fd, void *p, size_t n)
{
	return syscall(SYS_read, fd, p, n);
}

UNTRACED ssize_t write(int fd, const void *p, size_t n)
{
	return syscall(SYS_write, fd, p, n);
}

UNTRACED ssize_t readv(int fd, const struct iovec *iov, int count)
{
	ssize_t n = syscall(SYS_readv, fd, iov, count);

	note_pieces(READ, fd, iov, n);
	return n;
}

UNTRACED ssize_t writev(int fd, const struct iovec *iov, int count)
{
	ssize_t n = syscall(SYS_writev, fd, iov, count);

	note_pieces(WRITE, fd, iov, n);
	return n;
}

UNTRACED ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
	ssize_t n = syscall(SYS_recvmsg, fd, msg, flags);

	note_pieces(READ, fd, msg->msg_iov, n);
	return n;
}

UNTRACED ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t n = syscall(SYS_sendmsg, fd, msg, flags);

	note_pieces(WRITE, fd, msg->msg_iov, n);
	return n;
}

/* --- begin and end --- */

UNTRACED __attribute__((constructor)) static void begin(void)
{
	void *p;

	if (!getenv("JOURNEY_OUT"))
		return;
	p = mmap(NULL, EVENTS_MAX * sizeof(*events), PROT_READ | PROT_WRITE,
	         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p != MAP_FAILED)
		events = p;
}

UNTRACED __attribute__((destructor)) static void end(void)
{
	const char *name = getenv("JOURNEY_OUT");
	size_t n = atomic_load(&nevents);
	FILE *out;

	if (!events || !name || n > EVENTS_MAX)
		return; /* too much for one command: tests/journey says that nothing came */
	out = fopen(name, "wb");
	if (!out)
		return;
	fwrite(events, sizeof(*events), n, out);
	fclose(out);
}
