/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_pause: on the operator's word requests are held back, so that Redis can be restarted
 * and no client notices more than a delay.
 *
 *           workers_pause()            nothing is under way
 *   SERVES -----------------> PAUSING ----------------------> PAUSED
 *     ^                        |  ^                            |
 *     |      workers_resume()  |  | workers_pause()            |
 *     |                        v  |                            |
 *     '--- Redis answers --- RESUMING <---- workers_resume() --'
 *
 * What is in flight ends. So does what a client has begun: it goes on in its transaction, and
 * between the read of a guarded key and its write. hasp itself sends renewals only; its own
 * connections come back by themselves when Redis does. A reload changes nothing of it.
 *
 * The functions are for any thread but a worker's, while no worker is joined yet.
 */
#ifndef HASP_WORKER_WORKER_PAUSE_H
#define HASP_WORKER_WORKER_PAUSE_H

#include <stdbool.h>
#include <stddef.h>

#include "worker/worker.h"

/* They return at once. workers_resume(): `at_once`: not only when Redis answers. */
void workers_pause(struct worker_shared *shared);
void workers_resume(struct worker_shared *shared, bool at_once);

/* How far they are. */
enum workers_pause {
	WORKERS_SERVE,
	WORKERS_PAUSING, /* something is still under way */
	WORKERS_PAUSED,
	WORKERS_RESUMING, /* not all have been answered by Redis */
};
/* `nbound`: once they are paused, how many connections of clients end when Redis does, for they
 * listen, or are blocked; NULL is allowed. */
enum workers_pause workers_pause_state(struct worker_shared *shared, size_t *nbound);

/* Clients go to new connections as soon as nothing of theirs is under way on the old ones,
 * which are closed. Not in front of a cluster. */
void workers_reconnect(struct worker_shared *shared);

#endif
