/* SPDX-License-Identifier: BSD-3-Clause
 *
 * admin: the thread that serves the console. It is not a worker, so the console delays no
 * client's request.
 */
#ifndef HASP_ADMIN_ADMIN_H
#define HASP_ADMIN_ADMIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "config/types.h"
#include "worker/worker.h"

struct admin;

/* How the console ends hasp. */
enum admin_shutdown {
	ADMIN_DRAIN, /* after lame_duck, and after clients have finished their work */
	ADMIN_SHUTDOWN, /* without lame_duck */
	ADMIN_SHUTDOWN_NOW, /* without waiting for clients */
};

/* What the console asks the process to do. The functions run on the admin thread, and return
 * before it is done. */
struct admin_ops {
	void (*reload)(void *arg); /* the process calls admin_reloaded() when it is done */
	void (*shut_down)(void *arg, enum admin_shutdown how);
};

/* Takes the listening sockets, whose descriptors it owns from now on. Keeps a reference to
 * `config`. */
struct admin *admin_new(struct config *config, const struct listen_socket *sockets,
                        size_t nsockets, struct worker_shared *shared,
                        const struct admin_ops *ops, void *arg);
/* Starts the thread. Returns 0, or an errno. */
int admin_start(struct admin *a) __attribute__((warn_unused_result));
/* Returns how many RELOAD commands have come so far. Call it before reading the configuration
 * file: a later RELOAD needs another reload. From any thread. */
uint64_t admin_reloads(const struct admin *a);
/* Answers the first `reloads` RELOAD commands. `config`: the new configuration; NULL: the
 * reload failed for the reason `why`, in one line. From any thread, while the admin thread
 * runs. */
void admin_reloaded(struct admin *a, uint64_t reloads, struct config *config, struct slice why);
/* Stops accepting connections, because the next hasp takes the sockets over. Open connections
 * stay. */
void admin_leave(struct admin *a);
/* Ends the thread. Call it before any worker is joined. */
void admin_stop(struct admin *a);
/* Frees `a`. Call it after admin_stop() and after all workers are joined: until then a worker
 * may send an answer. */
void admin_free(struct admin *a);

#endif
