/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_pause: holds requests back when the operator asks for it. So Redis can be restarted,
 * and clients notice only a delay.
 *
 *           workers_pause()            nothing is under way
 *   SERVES -----------------> PAUSING ----------------------> PAUSED
 *     ^                        |  ^                            |
 *     |      workers_resume()  |  | workers_pause()            |
 *     |                        v  |                            |
 *     '--- Redis answers --- RESUMING <---- workers_resume() --'
 *
 * Requests in flight are answered. A client also goes on within a transaction, and between the
 * read of a guarded key and its write. hasp itself sends only renewals; its own connections
 * come back by themselves when Redis does. A reload does not end a pause.
 *
 * The functions are for any thread but a worker's, while no worker is joined yet.
 */
#ifndef HASP_WORKER_WORKER_PAUSE_H
#define HASP_WORKER_WORKER_PAUSE_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/worker.h"

/* Begin to pause, or to resume, and return at once. `at_once`: resume without waiting for Redis
 * to answer. */
void workers_pause(struct worker_shared *shared);
void workers_resume(struct worker_shared *shared, bool at_once);

/* The workers' progress. */
enum workers_pause {
	WORKERS_SERVE,
	WORKERS_PAUSING, /* something is still under way */
	WORKERS_PAUSED,
	WORKERS_RESUMING, /* not all have been answered by Redis */
};
/* Once the workers are paused, sets *nbound to the number of clients whose connections end when
 * Redis does, because they are subscribed or blocked. `nbound` may be NULL. */
enum workers_pause workers_pause_state(struct worker_shared *shared, size_t *nbound);

/* Clients go to new connections as soon as nothing of theirs is under way on the old ones,
 * which are closed. Not in front of a cluster. */
void workers_reconnect(struct worker_shared *shared);

#endif
