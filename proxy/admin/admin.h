/* SPDX-License-Identifier: BSD-3-Clause
 *
 * admin: the thread that serves the console, beside the workers, so that the console delays no
 * request.
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

/* Actions of the process that the console asks for. They run on the admin thread and return at
 * once: they do not wait until the action is done. */
enum admin_shutdown {
	ADMIN_DRAIN, /* waits for lame_duck first */
	ADMIN_SHUTDOWN, /* does not wait for lame_duck */
	ADMIN_SHUTDOWN_NOW, /* does not let clients finish their work */
};

struct admin_ops {
	void (*reload)(void *arg); /* admin_reloaded() must follow */
	void (*shut_down)(void *arg, enum admin_shutdown how);
};

/* Takes the listening sockets `fds`, which it owns from now on. Keeps a reference to `config`.
 */
struct admin *admin_new(struct config *config, const int *fds, size_t nfds,
                        struct worker_shared *shared, const struct admin_ops *ops, void *arg);
/* Starts the thread. Returns 0, or an errno. */
int admin_start(struct admin *a) __attribute__((warn_unused_result));
/* Returns how many reloads the console has asked for so far. Call it before the file is read:
 * a request after that needs another reload. From any thread. */
uint64_t admin_reloads(const struct admin *a);
/* Reports that `reloads` of them are done. `config`: in force from now on; NULL: the old one is
 * kept, for the reason `why`, in one line. From any thread, while the admin thread runs. */
void admin_reloaded(struct admin *a, uint64_t reloads, struct config *config, struct slice why);
/* Accepts no more connections, because the next hasp takes the sockets over. Open connections
 * stay. */
void admin_leave(struct admin *a);
/* Ends the thread. Call it before any worker is joined. */
void admin_stop(struct admin *a);
/* Call it after admin_stop(), and when all workers are joined: until then a worker may send an
 * answer. */
void admin_free(struct admin *a);

#endif
