/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watch: a socket on a loop. In each turn of the loop the sockets are served in the order in
 * which the kernel reported them: first come, first served.
 *
 *   epoll_wait(): A, B, C --> libev's callbacks: C, B, A --> ready: A, B, C --> on_ready()
 *
 * libev runs the callbacks of a turn from the last to the first, so that a plain ev_io would
 * serve the latest request first. A loop that has watches is made by watch_loop_new().
 */
#ifndef HASP_NET_WATCH_H
#define HASP_NET_WATCH_H

#include <ev.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/list.h"
#include "base/slice.h"

/* `flags`: those of ev_loop_new(). Returns NULL if libev cannot make the loop. */
struct ev_loop *watch_loop_new(unsigned flags) __attribute__((warn_unused_result));
void watch_loop_free(struct ev_loop *loop);

struct watch {
	struct ev_io io;
	struct list ready; /* in the loop's queue from the report until on_ready() */
	int reported; /* EV_READ, EV_WRITE; 0: not in `ready` */
	/* Called when the socket is ready for `events`. `events` may include an event that the
	 * owner has stopped awaiting after the kernel reported it. */
	void (*on_ready)(struct watch *w, int events);
};

void watch_init(struct watch *w, void (*on_ready)(struct watch *w, int events));

/* Returns the socket; -1: the watch has none. */
static inline int watch_fd(const struct watch *w)
{
	return w->io.fd;
}

/* Calls on_ready() when `fd` is ready for one of `events`, EV_READ and EV_WRITE; 0: never. */
void watch_start(struct ev_loop *loop, struct watch *w, int fd, int events);
/* Asks for other events of the same socket. */
void watch_change(struct ev_loop *loop, struct watch *w, int events);
/* Returns the socket, which the caller owns again; -1: there was none. */
int watch_stop(struct ev_loop *loop, struct watch *w);
/* Acts as if the kernel had reported EV_READ now, after all others of this turn. */
void watch_feed(struct ev_loop *loop, struct watch *w);

/* recv(2) and send(2) as direct system calls. The C library's functions are cancellation
 * points, and their bookkeeping takes an eighth of the instructions of a short request; hasp
 * never cancels a thread. No call fails with EINTR, because the sockets do not block
 * (signal(7)). */

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
