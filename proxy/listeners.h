/* SPDX-License-Identifier: BSD-3-Clause
 *
 * listeners: the sockets that `listen` and `listen_tls` name, for all workers together: opened
 * before a worker is there, and the files of unix sockets removed at the end. Workers own the
 * descriptors and accept from them.
 */
#ifndef HASP_LISTENERS_H
#define HASP_LISTENERS_H

#include <stddef.h>

#include "config/types.h"
#include "net/listen.h"
#include "privileges.h"

#define LISTENERS_WORKERS_MAX 64 /* as many as `workers` allows */
/* Addresses in `listen` and `listen_tls`, each of which may be a name for several. */
#define LISTENERS_MAX 64

/* All zero: none are open. */
struct listeners {
	const struct config *config; /* that hasp was started with */
	size_t nworkers;
	int fds[LISTENERS_WORKERS_MAX][LISTENERS_MAX]; /* by worker */
	struct listen_entry entries[LISTENERS_MAX]; /* that each of a worker's fds is of */
	size_t nfds; /* of each worker; 0 again when the files of unix sockets are gone */
};

/* Opens them for as many workers as `config` has; `config` must outlive the listeners.
 * Returns 0; -1 when an address cannot be had, and the reason is logged. */
int listeners_open(struct listeners *l, const struct config *config,
                   const struct privileges *as) __attribute__((warn_unused_result));

/* Removes the unix sockets' files. Call it while this process still listens: as long as it
 * does, no other can have replaced them. */
void listeners_unlink(struct listeners *l, const struct privileges *as);

#endif
