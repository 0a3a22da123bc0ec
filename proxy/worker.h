/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker: one thread, one loop, and all that lives on it: listeners, clients, links, holds.
 * Workers share nothing but a few counters and what they observe; they are spoken to through
 * their mailbox.
 */
#ifndef HASP_WORKER_H
#define HASP_WORKER_H

#include <stddef.h>

#include "config/types.h"
#include "lock/queue/waiters.h"

struct worker;

/* What the process counts over all workers. */
struct worker_shared {
	_Atomic long clients; /* open now */
	_Atomic int running; /* workers whose thread has not ended */
	struct waiter_board board;
	struct proof_secret secret;
	struct observers *observers; /* lock/observe/observation.h */
};

void workers_init(struct worker_shared *shared, const struct config *config);
void workers_fini(struct worker_shared *shared); /* all have been joined */
/* Logs what rules and guards in mode OBSERVE saw; false: there never was one. From any thread.
 */
bool workers_report(struct worker_shared *shared);

/* Takes the listening sockets `fds`, which it owns from now on; `entries`: of `listen`, that
 * each is of, which must outlive the worker. Keeps a reference to `config`. */
struct worker *worker_new(int number, struct config *config, const int *fds,
                          const char *const *entries, size_t nfds,
                          struct worker_shared *shared);

/* Starts the thread. Returns 0, or an errno. */
int worker_start(struct worker *w) __attribute__((warn_unused_result));

/* From any thread, while the worker runs: */
void worker_reload(struct worker *w, struct config *config);
/* Takes no new clients. The others are closed when they come to rest, at the latest after
 * drain_timeout; then the thread ends. */
void worker_drain(struct worker *w);
/* The thread ends at once. */
void worker_stop(struct worker *w);

/* Waits for the thread's end and frees the worker. */
void worker_join(struct worker *w);

#endif
