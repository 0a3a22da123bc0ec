/* SPDX-License-Identifier: BSD-3-Clause
 *
 * listeners: the listening sockets of the workers, the console and HTTP. hasp opens them before
 * its threads start, or inherits them from systemd or an older hasp, and removes the files of
 * unix sockets at the end. The threads own the descriptors and accept from them.
 *
 * If hasp opens a TCP address, each worker has a socket there, and the kernel spreads the
 * clients. Inherited sockets are spread so that each worker has a socket, and each socket a
 * worker. A socket without a worker would keep its clients waiting, and closing it would reset
 * the clients in its backlog.
 */
#ifndef HASP_PROCESS_LISTENERS_H
#define HASP_PROCESS_LISTENERS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "config/types.h"
#include "net/listen.h"

/* --- inherited sockets ----------------------------------------------------------------------
 *
 * The listening sockets that this process was started with. They come
 *
 *   from systemd    by socket activation, sd_listen_fds(3): systemd keeps the sockets when
 *                   hasp ends; their addresses show their purpose
 *   from a hasp     that is being upgraded: HASP_LISTEN_FDS has a word for each socket, as
 *                   FD:plain|tls|console|http:own|lent:ENTRY, with spaces between the words
 */

/* The list of inherited sockets. If all fields are zero, the list is empty. */
struct inherited_fds {
	char *text; /* contains the addresses of the entries; NULL: there are none */
	/* Each with the old hasp's entry, whose address is NULL if systemd passed the socket.
	 * An entry that takes the socket sets `fd` to -1. */
	struct listen_socket *sockets;
	size_t n;
};

/* Takes the sockets that HASP_LISTEN_FDS lists; without that variable, those of LISTEN_FDS.
 * Removes the variables, so that processes that hasp starts do not get them. Returns 0; -1,
 * with the reason logged, if a descriptor is not a listening stream socket. */
int inherited_fds_take(struct inherited_fds *h) __attribute__((warn_unused_result));

/* Closes the sockets of the old hasp that no entry took, because the configuration names them
 * no longer. `remove`: also removes the files of unix sockets, because the old hasp leaves.
 * Call this when hasp serves: if it cannot start, the old hasp still serves there. */
void inherited_fds_close(struct inherited_fds *h, bool remove);

/* Frees the list. Closes no socket. */
void inherited_fds_free(struct inherited_fds *h);

/* --- listeners ------------------------------------------------------------------------ */

/* Who accepts from the sockets. */
enum listeners_use { LISTENERS_CLIENTS, LISTENERS_CONSOLE, LISTENERS_HTTP };
#define LISTENERS_USES (LISTENERS_HTTP + 1)

/* Most sockets of one entry: its host name may have many addresses. Also most unix sockets. */
#define LISTENERS_MAX 64

/* The open sockets of one use. If all fields are zero, there are none. */
struct listeners {
	const char *what; /* name of the event that hasp logs for each address */
	int64_t unix_mode; /* permissions of unix sockets */
	size_t nworkers; /* number of threads that accept: the workers, or one */
	struct listen_socket *sockets;
	size_t n;
	const char *files[LISTENERS_MAX]; /* entries of the unix sockets that hasp removes */
	size_t nfiles;
};

/* Opens all sockets of `config`, which must outlive the listeners. An entry takes the sockets
 * in `inherited_fds` that are at its address; if there are none, it opens its own. Returns 0;
 * -1, with the reason logged, if an address is not available, or if an inherited socket has no
 * entry. */
int listeners_open(struct listeners all[LISTENERS_USES], const struct config *config,
                   struct inherited_fds *inherited_fds) __attribute__((warn_unused_result));

/* Describes all sockets for the next hasp: appends the descriptors to `fds`, as ints, and their
 * words for HASP_LISTEN_FDS to `text`. The next hasp must inherit every socket: if none has a
 * socket open, the kernel resets the clients in its backlog. */
void listeners_serialize(const struct listeners all[LISTENERS_USES], struct buf *fds,
                         struct buf *text);
/* Leaves the sockets to another process: the files of unix sockets stay. */
void listeners_leave(struct listeners all[LISTENERS_USES]);

/* Removes the files of the unix sockets. Call this while hasp still listens: no other process
 * can have replaced the files yet. */
void listeners_unlink(struct listeners *l);

/* Appends a line to `out` for each address in `config` at which another process listens. */
void listeners_check(const struct config *config, struct buf *out);

/* Frees the lists. Closes no socket: the threads own the descriptors. */
void listeners_free(struct listeners all[LISTENERS_USES]);

#endif
