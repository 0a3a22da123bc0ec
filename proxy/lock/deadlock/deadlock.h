/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deadlock: owners that wait for each other's locks in a circle. When a client begins to wait,
 * hasp adds it to the graph of all workers, and follows the chain:
 *
 *   its lock --who has it? (Redis)--> owner --what does that wait for? (graph)--> lock --> ...
 *       ^                                                                           |
 *       `------------ a circle, when one of those owners is the client's own <------'
 *
 * The last client of a circle to enter finds all others there. hasp asks Redis once more about
 * each lock before it reports the circle. All first answers came before all second ones, and
 * all these owners waited throughout; so there was a moment at which they all waited for each
 * other. Then the client's wait leaves the graph, if all others are still there, in one step:
 * so no other client gets an error for the same circle.
 *
 * Only single owners can be in a circle: connections, tokens that AS names, and values. An
 * address, a name or a user cannot: another connection of it may release the lock. A waiter for
 * one of several places of a semaphore cannot, because any owner may give its place back; but a
 * try with LIMIT 1 waits for every owner, and so for the one that Redis names. A waiter for a
 * side of a read-write lock cannot, because the lock may have a thousand readers.
 */
#ifndef HASP_LOCK_DEADLOCK_DEADLOCK_H
#define HASP_LOCK_DEADLOCK_DEADLOCK_H

#include "base/timers.h"
#include "lock/deadlock/wait_graph.h"
#include "lock/rewrite/rewrite.h"
#include "lock/scripts/script_job.h"

struct deadlocks; /* a worker's */
struct deadlock_watch; /* one client that waits */

/* The arguments must outlive the result. */
struct deadlocks *deadlocks_new(struct timers *timers, struct script_jobs *jobs,
                                struct wait_graph *graph);
void deadlocks_free(struct deadlocks *all); /* no watch is left, no answer is due */

struct deadlock_terms {
	int db;
	const struct attempt *wanted;
	struct slice shown; /* the locked key, as the client names it */
	struct slice user; /* the client's Redis user; empty: not known */
	struct slice connection; /* its connection's token; empty: that has no lock */
};

/* The client is in a circle, and would wait until a time-out ends it. `error`: the reply for
 * the client, with its line end. Called once at most; the callee must end the watch. */
typedef void deadlock_fn(void *arg, struct slice error);

/* Makes a watch for a client that waits from now on. NULL: the client cannot be in a circle.
 * `fn` does not run before this returns. */
struct deadlock_watch *deadlock_watch_new(struct deadlocks *all,
                                          const struct deadlock_terms *terms, deadlock_fn *fn,
                                          void *arg);
/* The client does not wait any more. Frees the watch. */
void deadlock_watch_end(struct deadlock_watch *w);

#endif
