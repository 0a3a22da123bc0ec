/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replica_acks: asks whether replicas have a lock that was taken (`replicas_ack`), and gives it
 * back if too few do.
 *
 * WAIT concerns the writes of its own connection, and blocks it. The lock was written over
 * another connection, which must go on to serve clients: the link of its client, or of the
 * client that handed the lock off. So hasp asks over a connection for this purpose alone
 * (node_acks()). One question covers all locks that were taken since the last one, as in a
 * group commit:
 *
 *   replica_ask_new() --> waiting                                  the next group gathers
 *                            | no question is in flight
 *                            v
 *         a look at each lock, a write, WAIT n  --answer--> enough --------------> fn(true)
 *                                                  |
 *                                                  `------> given back by ticket -> fn(false)
 *
 * A replica that has acknowledged the write has all earlier writes. The look shows that the
 * lock is one of them: that the connection leads to the server which has the lock, and not to
 * one that was promoted without it. If the slot of a lock has moved, hasp asks its new node.
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
struct replica_ask; /* a question about one lock */

/* The arguments must outlive the result. */
struct replica_acks *replica_acks_new(struct timers *timers, struct topology *topology,
                                      struct script_jobs *script_jobs);
/* To be called after topology_stop(). `fn` does not run for open questions. */
void replica_acks_free(struct replica_acks *all);

struct replica_ask_terms {
	int db;
	int64_t replicas; /* > 0 */
	int64_t timeout_ms; /* > 0; the wait for the group in flight comes on top */
	bool releases; /* false: the caller releases the lock if too few replicas have it */
	double until; /* when the lease of the lock is over, by the timers' clock */
};

/* `enough`: `replicas` replicas have the lock. False: too few, or not known; if `releases`,
 * hasp has released the lock, or will as soon as Redis answers. */
typedef void replica_ask_fn(void *arg, bool enough);

/* Asks about the lock that the try `t` (copied) has got. `fn` runs once, after this has
 * returned, and the question is freed then. */
struct replica_ask *replica_ask_new(struct replica_acks *all, const struct attempt *t,
                                    const struct replica_ask_terms *terms, replica_ask_fn *fn,
                                    void *arg);
/* Cancels the question: `fn` does not run; the caller releases the lock. `a` may be NULL. */
void replica_ask_cancel(struct replica_ask *a);

#endif
