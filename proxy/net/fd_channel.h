/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fd_channel: a pair of connected unix sockets, over which one process gives descriptors to
 * another (SCM_RIGHTS in unix(7)). Each message comes whole, in the order in which it was sent,
 * with its descriptors. Neither end blocks.
 */
#ifndef HASP_NET_FD_CHANNEL_H
#define HASP_NET_FD_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/slice.h"

/* The most bytes and descriptors of one message. (By default, Linux takes messages of up to
 * 208 kB.) */
#define FD_CHANNEL_MESSAGE_MAX ((size_t)192 * 1024)
#define FD_CHANNEL_FDS_MAX 64

/* Returns 0; -1 with errno. */
int fd_channel_open(int ends[2]) __attribute__((warn_unused_result));

/* True if the descriptor is an end of a channel. */
bool fd_channel_is(int fd);

/* Sends a message that is not empty, with copies of the descriptors `fds`. Returns 0; -1 with
 * errno: EAGAIN if it can be sent later. */
int fd_channel_send(int end, struct slice bytes, const int *fds, size_t nfds)
	__attribute__((warn_unused_result));

/* Receives a message of at most `size` bytes, and at most `most` descriptors, which the caller
 * owns; writes their number to *nfds. Descriptors above this process' limit are missing.
 * Returns the message's length; 0: the other end is closed; -1 with errno: EAGAIN if there is
 * no message yet. */
ssize_t fd_channel_receive(int end, char *p, size_t size, int *fds, size_t most, size_t *nfds);

#endif
