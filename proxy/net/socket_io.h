/* SPDX-License-Identifier: BSD-3-Clause
 *
 * socket_io: recv(2) and send(2) as direct system calls. The C library's functions are
 * cancellation points. hasp never cancels a thread, but in a process with several threads the
 * library's bookkeeping takes an eighth of the instructions that a short request costs.
 *
 * The sockets do not block, so no call fails by EINTR: a signal interrupts only what waits
 * (signal(7)).
 */
#ifndef HASP_NET_SOCKET_IO_H
#define HASP_NET_SOCKET_IO_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/slice.h"

/* As recv(fd, p, n, 0). */
static inline ssize_t socket_receive(int fd, char *p, size_t n)
{
	return syscall(SYS_recvfrom, fd, p, n, 0, NULL, NULL);
}

/* As send(fd, ..., MSG_NOSIGNAL). */
static inline ssize_t socket_transmit(int fd, struct slice bytes)
{
	return syscall(SYS_sendto, fd, bytes.p, bytes.n, MSG_NOSIGNAL, NULL, 0);
}

#endif
