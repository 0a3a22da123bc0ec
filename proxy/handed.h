/* SPDX-License-Identifier: BSD-3-Clause
 *
 * handed: listening sockets that this process was started with. Whose they are is found out by
 * listeners.h. They come
 *
 *   from systemd    socket activation, sd_listen_fds(3): it keeps them when hasp ends, and
 * their addresses tell what they are for from a hasp     that is being upgraded:
 * HASP_LISTEN_FDS tells the entry of each of them, as FD:plain|tls|console|http:own|lent:ENTRY,
 * with spaces between them
 */
#ifndef HASP_HANDED_H
#define HASP_HANDED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "net/listen.h"

struct handed_socket {
	int fd; /* whoever takes it owns it */
	bool taken;
	bool lent; /* systemd listens, too: the file of a unix socket stays when hasp ends */
	struct listen_entry
		entry; /* of the hasp that handed it over; its address NULL: systemd's */
};

/* All zero: none. */
struct handed {
	char *text; /* that the entries' addresses are in; NULL: none are */
	struct handed_socket *sockets;
	size_t n;
};

/* Takes what HASP_LISTEN_FDS says, else LISTEN_PID and LISTEN_FDS, and removes these variables:
 * they are not for processes that hasp starts. Returns 0; -1, with the reason logged, when one
 * of the descriptors is no listening socket of streams. */
int handed_take(struct handed *h) __attribute__((warn_unused_result));

/* Appends what tells the next hasp of a socket, behind that of others. */
void handed_tell(struct buf *out, int fd, bool lent, const struct listen_entry *entry);

/* Is it of the entry, whose address is `at`? */
bool handed_is_for(const struct handed_socket *s, const struct listen_entry *entry,
                   const struct address *at);

/* Logs which are not taken. Those that a hasp handed over are closed: the file does not name
 * them any more. Returns 0; -1 when one is systemd's, for clients would connect to it in vain.
 */
int handed_finish(struct handed *h) __attribute__((warn_unused_result));

/* Closes none. Entries that were handed over end with it. */
void handed_free(struct handed *h);

#endif
