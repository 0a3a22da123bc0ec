/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deadlock: owners that wait for each other's locks in a circle. A client that begins to wait
 * is entered into the graph of all workers; then hasp follows the chain:
 *
 *   its lock --who has it? (Redis)--> owner --what does that wait for? (graph)--> lock --> ...
 *       ^                                                                           |
 *       `------------ a circle, when one of those owners is the client's own <------'
 *
 * The last one to enter finds all others there. Redis is asked once more about each lock before
 * the client is told: every first answer was there before the first of the second ones, and all
 * of these owners waited throughout, so there was a moment at which they all waited for each
 * other. Then the client's wait leaves the graph, if all others are still there, in one step:
 * so nobody else is told of the same circle.
 *
 * Only owners that are one at a time can be in a circle: connections, those that AS names, and
 * values. Of an address, a name or a user, another connection may release the lock meanwhile.
 * Nor is who waits for one of several places of a semaphore, which any of its owners may give
 * back: only who wants to be alone there waits for each of them, and so for that which Redis
 * names. Nor is who waits for a side of a read-write lock, for that may have a thousand
 * readers.
 */
#ifndef HASP_LOCK_DEADLOCK_DEADLOCK_H
#define HASP_LOCK_DEADLOCK_DEADLOCK_H

#include "base/timers.h"
#include "lock/deadlock/wait_graph.h"
#include "lock/rewrite/rewrite.h"
#include "lock/scripts/script_job.h"

struct deadlocks; /* a worker's */
struct deadlock_watch; /* one client that waits */

/* All outlive it. */
struct deadlocks *deadlocks_new(struct timers *timers, struct script_jobs *jobs,
                                struct wait_graph *graph);
void deadlocks_free(struct deadlocks *all); /* no watch is left, no answer is due */

struct deadlock_terms {
	int db;
	const struct lock_try *wanted;
	struct slice shown; /* what the client calls the key that is locked */
	struct slice user; /* that the client is logged in as in Redis; empty: not known */
	struct slice connection; /* the token of its connection; empty: that has nothing */
};

/* It would wait for ever, or until somebody's time is over; `error`: what its client is told,
 * with its line end. Called once at most; the watch is to be ended. */
typedef void deadlock_fn(void *arg, struct slice error);

/* It stands in line from now on. NULL: it can be in no circle. `fn` does not run before this
 * returns. */
struct deadlock_watch *deadlock_watch_new(struct deadlocks *all,
                                          const struct deadlock_terms *terms, deadlock_fn *fn,
                                          void *arg);
/* It does not wait any more. Frees it. */
void deadlock_watch_end(struct deadlock_watch *w);

#endif
