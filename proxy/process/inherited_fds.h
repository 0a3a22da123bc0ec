/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inherited_fds: listening sockets that this process was started with. listeners.h finds the
 * entry of each. They come
 *
 *   from systemd    by socket activation, sd_listen_fds(3): systemd keeps the sockets when
 *                   hasp ends; their addresses show their purpose
 *   from a hasp     that is being upgraded: HASP_LISTEN_FDS has the entry of each socket, as
 *                   FD:plain|tls|console|http:own|lent:ENTRY, with spaces between them
 */
#ifndef HASP_PROCESS_INHERITED_FDS_H
#define HASP_PROCESS_INHERITED_FDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "net/listen.h"

struct inherited_fds_socket {
	int fd; /* the caller that takes the socket owns it */
	bool taken;
	bool lent; /* systemd listens, too, so a unix socket's file stays when hasp ends */
	struct listen_entry entry; /* from the old hasp; address NULL: from systemd */
};

/* All zero: no sockets. */
struct inherited_fds {
	char *text; /* holds the entries' addresses; NULL: none */
	struct inherited_fds_socket *sockets;
	size_t n;
};

/* Takes the sockets in HASP_LISTEN_FDS, else those of LISTEN_PID and LISTEN_FDS, and removes
 * these variables: they are not for processes that hasp starts. Returns 0; -1, with the reason
 * logged, if a descriptor is no listening stream socket. */
int inherited_fds_take(struct inherited_fds *h) __attribute__((warn_unused_result));

/* Appends a socket's description for the next hasp, after those of other sockets. */
void inherited_fds_tell(struct buf *out, int fd, bool lent, const struct listen_entry *entry);

/* True if the socket belongs to the entry, whose address is `at`. */
bool inherited_fds_is_for(const struct inherited_fds_socket *s,
                          const struct listen_entry *entry, const struct address *at);

/* Logs the sockets that no entry took. Closes those from the old hasp, because the file no
 * longer names them. Returns 0; -1 if systemd has one of them, because its clients would get
 * no answer. */
int inherited_fds_finish(struct inherited_fds *h) __attribute__((warn_unused_result));

/* Frees the list and the entries that were handed over, but closes no socket. */
void inherited_fds_free(struct inherited_fds *h);

#endif
