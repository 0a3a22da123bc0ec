/* SPDX-License-Identifier: BSD-3-Clause
 *
 * listeners: the sockets that `listen` and `listen_tls` name, for all workers together. They
 * are opened before a worker starts, or handed over by systemd or by the hasp that this one
 * upgrades. The files of unix sockets are removed at the end. Workers own the descriptors and
 * accept from them.
 *
 * A TCP address that hasp opens has a socket for each worker, so that the kernel spreads the
 * clients. Sockets that were handed over are spread so that each worker has one, and each
 * socket has a worker. A socket without a worker would keep its clients waiting, and closing it
 * would reset the clients in its backlog.
 */
#ifndef HASP_PROCESS_LISTENERS_H
#define HASP_PROCESS_LISTENERS_H

#include <stddef.h>

#include "config/types.h"
#include "net/listen.h"
#include "process/inherited_fds.h"

#define LISTENERS_WORKERS_MAX 64 /* largest value of `workers` */
/* Addresses in `listen` and `listen_tls`, each of which may be a name for several. */
#define LISTENERS_MAX 64

/* The sockets from which one worker accepts. */
struct listeners_worker {
	int *fds;
	struct listen_entry *entries; /* the entry of each of the fds */
	bool *lent; /* for each descriptor: systemd owns it and keeps it open */
	size_t n;
};

/* All zero: no socket is open. */
struct listeners {
	const struct config *config; /* the configuration with which hasp was started */
	const char *what; /* the word for such a listener in the log */
	int64_t unix_mode; /* permissions of unix sockets */
	size_t nworkers; /* number of workers with sockets */
	struct listeners_worker workers[LISTENERS_WORKERS_MAX];
	const char *files[LISTENERS_MAX]; /* entries whose unix sockets hasp removes */
	size_t nfiles;
};

/* Opens the sockets for all workers of `config`, which must outlive the listeners. An entry
 * takes the sockets in `inherited_fds` that are at its address; otherwise it opens its own.
 * Returns 0; -1, with the reason logged, if an address is not available, or if an inherited
 * socket has no entry. */
int listeners_open(struct listeners *l, const struct config *config,
                   struct inherited_fds *inherited_fds) __attribute__((warn_unused_result));

/* Like listeners_open(), for the console: its only thread gets the sockets as worker 0. Call it
 * before listeners_open(), which rejects the sockets that are left in `inherited_fds`. */
int listeners_open_console(struct listeners *l, const struct config *config,
                           struct inherited_fds *inherited_fds)
	__attribute__((warn_unused_result));

/* Like listeners_open_console(), for `[http] listen`. */
int listeners_open_http(struct listeners *l, const struct config *config,
                        struct inherited_fds *inherited_fds)
	__attribute__((warn_unused_result));

/* Hands all sockets to the next hasp: appends the descriptors to `fds`, as ints, and their
 * description to `text`. The next hasp inherits every socket: several sockets at one address
 * have a backlog each, and the clients in it are reset when its last descriptor is closed. */
void listeners_serialize(const struct listeners *l, struct buf *fds, struct buf *text);
/* Leaves the sockets to another process: the files of unix sockets stay. */
void listeners_leave(struct listeners *l);

/* Removes the unix sockets' files. Call it while this process still listens: until then no
 * other process can have replaced them. */
void listeners_unlink(struct listeners *l);

/* Appends a line to `out` for each address of the file at which another process listens. */
void listeners_check(const struct config *config, struct buf *out);

/* Call it when all workers are gone. */
void listeners_free(struct listeners *l);

#endif
