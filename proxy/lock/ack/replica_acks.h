/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replica_acks: asks whether replicas have a lock that was taken (`replicas_ack`), and gives it
 * back if too few do.
 *
 * WAIT concerns what its own connection wrote, and blocks it. The lock was written over another
 * one, which serves others meanwhile: a client's link, or that of the one that handed it off.
 * So hasp asks over a connection for that alone (node_acks()), and for all locks at once that
 * were taken meanwhile, as a database commits:
 *
 *   replica_ask_new() --> waiting                                  the next group gathers
 *                            | no question is in flight
 *                            v
 *         a look at each lock, a write, WAIT n  --answer--> enough --------------> fn(true)
 *                                                  |
 *                                                  `------> given back by ticket -> fn(false)
 *
 * A replica that has acknowledged the write has all that was written before it. The look shows
 * that the lock was: that the connection leads to the server which has it, and not to one that
 * was promoted without it. If the slot of a lock has moved, its new node is asked.
 */
#ifndef HASP_LOCK_ACK_REPLICA_ACKS_H
#define HASP_LOCK_ACK_REPLICA_ACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/timers.h"
#include "lock/rewrite/rewrite.h"
#include "lock/scripts/script_job.h"
#include "upstream/topology.h"

struct replica_acks; /* a worker's */
struct replica_ask; /* about one lock */

/* All outlive it. */
struct replica_acks *replica_acks_new(struct timers *timers, struct topology *topology,
                                      struct script_jobs *script_jobs);
/* After topology_stop(). Clients that still ask are not answered. */
void replica_acks_free(struct replica_acks *all);

struct replica_ask_terms {
	int db;
	int64_t replicas; /* > 0 */
	int64_t timeout_ms; /* > 0; a group that is in flight is waited for besides */
	bool releases; /* else the caller does so, if it is told that too few have it */
	double until; /* when the lease of the lock is over, by the timers' clock */
};

/* `enough`: so many replicas have the lock. False: too few, or that is not known; if it was to
 * be given back, it was, or will be as soon as Redis answers. */
typedef void replica_ask_fn(void *arg, bool enough);

/* Asks about the lock that the try `t` (copied) has got. `fn` runs once, after this has
 * returned, and the question is gone then. */
struct replica_ask *replica_ask_new(struct replica_acks *all, const struct lock_try *t,
                                    const struct replica_ask_terms *terms, replica_ask_fn *fn,
                                    void *arg);
/* `fn` shall not run: the caller gives the lock back. NULL is allowed. */
void replica_ask_cancel(struct replica_ask *a);

#endif
