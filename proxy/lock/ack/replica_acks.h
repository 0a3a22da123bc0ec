/* SPDX-License-Identifier: BSD-3-Clause
 *
 * replica_acks: asks how many replicas have a lock that was taken (`replicas_ack`), and
 * releases the lock if too few have it.
 *
 * WAIT covers the writes of its own connection, and blocks that connection. The lock was
 * written over a link that must go on serving clients. So hasp asks over a connection for this
 * purpose alone (node_acks()). One WAIT covers all locks that were taken since the last one, as
 * in a group commit:
 *
 *   replica_ask_new() --> waiting                                  the next group gathers
 *                            | no question is in flight
 *                            v
 *         a look at each lock, a write, WAIT n  --answer--> enough --------------> fn(true)
 *                                                  |
 *                                                  `------> released by ticket --> fn(false)
 *
 * A replica that has acknowledged the write has all earlier writes. The look shows that the
 * lock is among these writes: the connection leads to the server that has the lock, and not to
 * a server that was promoted without it. If the slot of a lock has moved, hasp asks the slot's
 * new node.
 */
#ifndef HASP_LOCK_ACK_REPLICA_ACKS_H
#define HASP_LOCK_ACK_REPLICA_ACKS_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/timers.h"
#include "lock/model/key_names.h"
#include "lock/rewrite/rewrite.h"
#include "lock/scripts/script_job.h"
#include "upstream/topology.h"

struct replica_acks; /* all questions of a worker */
struct replica_ask; /* a question about one lock */

/* The arguments must outlive the new struct. */
struct replica_acks *replica_acks_new(struct timers *timers, struct topology *topology,
                                      struct script_jobs *script_jobs);
/* Call it after topology_stop(). Drops the open questions: their `fn` does not run. */
void replica_acks_free(struct replica_acks *all);

struct replica_ask_terms {
	int db;
	int64_t replicas; /* how many replicas must have the lock; > 0 */
	int64_t timeout_ms; /* time-out of WAIT alone; > 0 */
	bool releases; /* hasp, not the caller, releases the lock if too few replicas have it */
	double until; /* end of the lock's lease, by the timers' clock */
};

/* `enough`: true if terms.replicas replicas have the lock. False: fewer have it, or hasp does
 * not know; if terms.releases, hasp has released the lock, or still tries to. */
typedef void replica_ask_fn(void *arg, bool enough);

/* Asks about the lock that the try `t` (copied) has got. `fn` runs once, after
 * replica_ask_new() has returned, and the question is then freed. */
struct replica_ask *replica_ask_new(struct replica_acks *all, const struct attempt *t,
                                    const struct replica_ask_terms *terms, replica_ask_fn *fn,
                                    void *arg);
/* Cancels the question: `fn` does not run; the caller releases the lock. NULL is allowed. */
void replica_ask_cancel(struct replica_ask *a);

/* Appends the command that checks whether a server has the lock that a try has got. */
void replica_look_write(const struct attempt *t, enum key_naming naming, struct buf *out);
/* True if `reply` shows that the try's owner has the lock. If Redis stores tickets for this
 * kind of lock, `reply` must also show the try's ticket. False if `reply` is NULL. */
bool replica_look_shows(const struct attempt *t, const redisReply *reply);

#endif
