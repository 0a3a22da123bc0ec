/* SPDX-License-Identifier: BSD-3-Clause
 *
 * deadlock: finds owners that wait for each other's locks in a circle. When a client begins to
 * wait, hasp adds the wait to the graph of all workers, and follows the chain:
 *
 *   its lock --who has it? (Redis)--> owner --what does that wait for? (graph)--> lock --> ...
 *       ^                                                                           |
 *       `------------ a circle, when one of those owners is the client's own <------'
 *
 * The last client of a circle that begins to wait finds all others in the graph. hasp asks
 * Redis once more about each lock before it reports the circle. All first answers came before
 * all second ones, and all these owners waited throughout; so there was a moment at which they
 * all waited for each other. Then, in one step, hasp removes the client's wait from the graph
 * if all others are still there: so no other client gets an error for the same circle.
 *
 * An owner can be in a circle if it is a connection, a token that AS names, or a value. An
 * address, a name or a user cannot, because another of its connections may release the lock.
 * Waits for a semaphore with LIMIT 2 or more are not searched, because any owner may give its
 * place back; with LIMIT 1 the client waits for the one owner that Redis names. Waits for a
 * side of a read-write lock are not searched either, because the lock may have a thousand
 * readers.
 */
#ifndef HASP_LOCK_DEADLOCK_DEADLOCK_H
#define HASP_LOCK_DEADLOCK_DEADLOCK_H

#include "base/timers.h"
#include "lock/deadlock/wait_graph.h"
#include "lock/rewrite/rewrite.h"
#include "lock/scripts/script_job.h"

struct deadlocks; /* all searches of a worker */
struct deadlock_watch; /* one client that waits */

/* The arguments must outlive the new struct. */
struct deadlocks *deadlocks_new(struct timers *timers, struct script_jobs *jobs,
                                struct wait_graph *graph);
/* Call it when no watch is left, and no answer from Redis is due. */
void deadlocks_free(struct deadlocks *all);

struct deadlock_terms {
	int db;
	const struct attempt *wanted;
	struct slice shown; /* the locked key, as the client names it */
	struct slice user; /* the client's Redis user; empty: not known */
	struct slice connection; /* token of the client's connection; empty: the connection has
	                          * no lock */
};

/* Called at most once, if the client is in a circle. `error`: the reply for the client, with
 * its line end. The callee must end the watch. */
typedef void deadlock_fn(void *arg, struct slice error);

/* Makes a watch for a client that waits from now on. NULL: the client cannot be in a circle.
 * `fn` does not run before deadlock_watch_new() has returned. */
struct deadlock_watch *deadlock_watch_new(struct deadlocks *all,
                                          const struct deadlock_terms *terms, deadlock_fn *fn,
                                          void *arg);
/* The client does not wait any more. Frees the watch. */
void deadlock_watch_end(struct deadlock_watch *w);

#endif
