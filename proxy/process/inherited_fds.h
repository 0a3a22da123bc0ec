/* SPDX-License-Identifier: BSD-3-Clause
 *
 * inherited_fds: the listening sockets that this process was started with. listeners.h finds
 * the entry of the ini file to which each belongs. The sockets come
 *
 *   from systemd    by socket activation, sd_listen_fds(3): systemd keeps the sockets when
 *                   hasp ends; their addresses show their purpose
 *   from a hasp     that is being upgraded: HASP_LISTEN_FDS has a word for each socket, as
 *                   FD:plain|tls|console|http:own|lent:ENTRY, with spaces between the words
 */
#ifndef HASP_PROCESS_INHERITED_FDS_H
#define HASP_PROCESS_INHERITED_FDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "net/listen.h"

struct inherited_fds_socket {
	int fd;
	bool taken; /* an entry has taken the socket, and owns `fd` */
	bool lent; /* systemd owns the socket, too, so a unix socket's file stays */
	struct listen_entry entry; /* the entry at the old hasp; address NULL: from systemd */
};

/* All zero: no sockets. */
struct inherited_fds {
	char *text; /* memory of the entries' addresses; NULL: none */
	struct inherited_fds_socket *sockets;
	size_t n;
};

/* Takes the sockets in HASP_LISTEN_FDS, else those in LISTEN_FDS. Removes these variables,
 * which are not for processes that hasp starts. Returns 0; -1, with the reason logged, if a
 * descriptor is not a listening stream socket. */
int inherited_fds_take(struct inherited_fds *h) __attribute__((warn_unused_result));

/* Appends the word for a socket to the HASP_LISTEN_FDS of the next hasp. */
void inherited_fds_tell(struct buf *out, int fd, bool lent, const struct listen_entry *entry);

/* True if the socket belongs to the entry, whose address is `at`. */
bool inherited_fds_is_for(const struct inherited_fds_socket *s,
                          const struct listen_entry *entry, const struct address *at);

/* Logs the sockets that no entry took. Closes those of the old hasp, which the file no longer
 * names. Returns 0; -1 if one of them is systemd's, whose clients would get no answer. */
int inherited_fds_finish(struct inherited_fds *h) __attribute__((warn_unused_result));

/* Frees the list. Closes no socket. */
void inherited_fds_free(struct inherited_fds *h);

#endif
