/* SPDX-License-Identifier: BSD-3-Clause
 *
 * listeners: the sockets that `listen` and `listen_tls` name, for all workers together: opened
 * before a worker is there, or handed over by systemd or by the hasp that this one upgrades,
 * and the files of unix sockets removed at the end. Workers own the descriptors and accept from
 * them.
 *
 * A TCP address that hasp opens has a socket for each worker, so that the kernel spreads the
 * clients. Whatever was handed over, each worker has some of it, and each of it has a worker: a
 * socket from which nobody accepts would keep its clients waiting, and one that is closed would
 * reset those that are in its backlog.
 */
#ifndef HASP_LISTENERS_H
#define HASP_LISTENERS_H

#include <stddef.h>

#include "config/types.h"
#include "handed.h"
#include "net/listen.h"
#include "privileges.h"

#define LISTENERS_WORKERS_MAX 64 /* as many as `workers` allows */
/* Addresses in `listen` and `listen_tls`, each of which may be a name for several. */
#define LISTENERS_MAX 64

/* What one worker accepts from. */
struct listeners_worker {
	int *fds;
	struct listen_entry *entries; /* that each of the fds is of */
	bool *lent; /* by systemd, which keeps it */
	size_t n;
};

/* All zero: none are open. */
struct listeners {
	const struct config *config; /* that hasp was started with */
	const char *what; /* how the log calls such a listener */
	int64_t unix_mode; /* of unix sockets */
	size_t nworkers; /* for each of whom there are sockets */
	struct listeners_worker workers[LISTENERS_WORKERS_MAX];
	const char *files[LISTENERS_MAX]; /* entries whose unix sockets are ours to remove */
	size_t nfiles;
};

/* Opens them for as many workers as `config` has; `config` must outlive the listeners. An entry
 * at whose address there is a socket in `handed` gets that, and opens none. Returns 0; -1 when
 * an address cannot be had, or a socket that was handed over is of no entry; the reason is
 * logged. */
int listeners_open(struct listeners *l, const struct config *config, struct handed *handed,
                   const struct privileges *as) __attribute__((warn_unused_result));

/* The same for the console, which has one thread: the sockets are those of worker 0. Before
 * listeners_open(), which refuses what is left in `handed`. */
int listeners_open_console(struct listeners *l, const struct config *config,
                           struct handed *handed, const struct privileges *as)
	__attribute__((warn_unused_result));

/* The same for `[http] listen`. */
int listeners_open_http(struct listeners *l, const struct config *config, struct handed *handed,
                        const struct privileges *as) __attribute__((warn_unused_result));

/* What the next hasp gets: appends all descriptors to `fds`, as ints, and what tells it of them
 * to `text`. They are inherited as they are: of several sockets at one address each has a
 * backlog of its own, and all clients in it are reset when its last descriptor is closed. */
void listeners_tell(const struct listeners *l, struct buf *fds, struct buf *text);
/* Another process has them now: the files of unix sockets stay. */
void listeners_leave(struct listeners *l);

/* Removes the unix sockets' files. Call it while this process still listens: as long as it
 * does, no other can have replaced them. */
void listeners_unlink(struct listeners *l, const struct privileges *as);

/* Appends a line to `out` for each address of the file at which somebody listens. */
void listeners_check(const struct config *config, struct buf *out);

/* When no worker is left. */
void listeners_free(struct listeners *l);

#endif
