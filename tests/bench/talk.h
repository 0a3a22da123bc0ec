/* SPDX-License-Identifier: BSD-3-Clause
 *
 * talk: how the loads of the benchmarks (contend.c, locks.c) talk to a server.
 */
#ifndef HASP_TESTS_BENCH_TALK_H
#define HASP_TESTS_BENCH_TALK_H

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/slice.h"

static _Noreturn inline void fail(const char *what, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, why);
	exit(1);
}

static inline uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int connect_to(const struct addrinfo *to)
{
	int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 || connect(fd, to->ai_addr, to->ai_addrlen) < 0)
		fail("connect", strerror(errno));
	if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)) < 0)
		fail("TCP_NODELAY", strerror(errno));
	return fd;
}

/* Sends the bytes by one call: they are few, and the socket buffer is empty, because Redis has
 * answered the request before. */
static inline void write_all(int fd, struct slice bytes)
{
	if (send(fd, bytes.p, bytes.n, MSG_NOSIGNAL) != (ssize_t)bytes.n)
		fail("send", strerror(errno));
}

#endif
