/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handed: listening sockets that this process was started with: systemd opened them (socket
 * activation, sd_listen_fds(3)), and keeps them when hasp ends. Whose they are is found out by
 * their addresses; see listeners.h.
 */
#ifndef HASP_HANDED_H
#define HASP_HANDED_H

#include <stdbool.h>
#include <stddef.h>

struct handed_socket {
	int fd; /* whoever takes it owns it */
	bool taken;
};

/* All zero: none. */
struct handed {
	struct handed_socket *sockets;
	size_t n;
};

/* Takes what LISTEN_PID and LISTEN_FDS say, and removes these variables: they are not for
 * processes that hasp starts. Returns 0; -1, with the reason logged, when one of the
 * descriptors is no listening socket of streams. */
int handed_take(struct handed *h) __attribute__((warn_unused_result));

/* Is each of them taken? Otherwise logs which is not, for clients would connect to it in vain.
 */
bool handed_is_used_up(const struct handed *h);

/* Closes none. */
void handed_free(struct handed *h);

#endif
