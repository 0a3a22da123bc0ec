/* SPDX-License-Identifier: BSD-3-Clause
 *
 * listeners: the sockets that `listen` names, for all workers together: opened before a worker
 * is there, and the files of unix sockets removed at the end. Workers own the descriptors and
 * accept from them.
 */
#ifndef HASP_LISTENERS_H
#define HASP_LISTENERS_H

#include <stddef.h>

#include "config/types.h"
#include "privileges.h"

#define LISTENERS_WORKERS_MAX 64 /* as many as `workers` allows */
/* Addresses in `listen`, each of which may be a name for several. */
#define LISTENERS_MAX 64

/* All zero: none are open. */
struct listeners {
	const struct strings *list; /* `listen`, as hasp was started with */
	size_t nopened; /* of `list`; 0 again when their files are gone */
	size_t nworkers;
	int fds[LISTENERS_WORKERS_MAX][LISTENERS_MAX]; /* by worker */
	const char *entries[LISTENERS_MAX]; /* of `list`, that each of a worker's fds is of */
	size_t nfds; /* of each worker */
};

/* Opens `listen` for as many workers as `config` has; `config` must outlive the listeners.
 * Returns 0; -1 when an address cannot be had, and the reason is logged. */
int listeners_open(struct listeners *l, const struct config *config,
                   const struct privileges *as) __attribute__((warn_unused_result));

/* Removes the unix sockets' files. Call it while this process still listens: as long as it
 * does, no other can have replaced them. */
void listeners_unlink(struct listeners *l, const struct privileges *as);

#endif
