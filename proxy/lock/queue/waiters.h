/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waiters: a worker's clients that wait in line for a lock. The queue itself is in Redis
 * (scripts/includes/hand_off.lua): all connections, workers and hasp processes share it. The
 * worker knows only its own waiters and their deadlines:
 *
 *   try --`+QUEUED`--> waiter_queued() --message on the worker's channel--> on_granted()
 *                           |    ^
 *                 deadline  |    `-- probe --> granted, lost, or still waiting
 *                           v
 *                 leave the queue --> on_timed_out()
 *
 * hasp probes a lock when its lease should end, when a write names it, when Redisson's clients
 * publish its release, and at least each second. The probe asks Redis about the lock and its
 * first waiter. So hasp notices the end of a lease (no script runs then), a lost message, and a
 * queue that Redis lost. If a grant took long to arrive, hasp begins its lease again before it
 * reports the lock.
 *
 * A waiter that may have lost its place, because the subscriber was down or the queue was lost,
 * is unconfirmed until Redis has answered where its place is. Until then the worker sends no
 * newcomers: they would overtake that waiter.
 */
#ifndef HASP_LOCK_QUEUE_WAITERS_H
#define HASP_LOCK_QUEUE_WAITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/timers.h"
#include "config/types.h"
#include "lock/scripts/script_job.h"
#include "lock/rewrite/rewrite.h"
#include "upstream/topology.h"

struct section_stats; /* lock/events/stats.h */
struct waiters; /* all waiters of a worker */
struct waiter; /* one client that waits, or may have to wait */
struct waiter_ops;

/* Shows each worker of a process which locks have waiters at any worker: a count for each hash
 * of a lock's name. Several names may share a hash. */
#define WAITER_BOARD_SLOTS 4096
struct waiter_board {
	_Atomic uint32_t total;
	_Atomic uint32_t waiting[WAITER_BOARD_SLOTS];
};

/* Makes a subscriber for each node of the topology. The arguments must outlive the waiters. All
 * times in this header are those of the timers' clock. */
struct waiters *waiters_new(struct timers *timers, const struct topology *topology,
                            struct script_jobs *script_jobs, struct waiter_board *board,
                            const struct waiter_ops *ops);
void waiters_free(struct waiters *w); /* no waiter may be left */

/* Adds a node; hasp subscribes there, too, while clients wait at any node. */
void waiters_listen_at(struct waiters *w, struct node *n);
/* Removes a node that serves no key any more and is about to be freed; call it after
 * waiters_rerouted(). */
void waiters_forget(struct waiters *w, struct node *n);
/* Other nodes serve some of the keys now: moves the waiters for these keys to their new nodes,
 * in the same order. */
void waiters_rerouted(struct waiters *w);

/* Returns a new ticket, which names one try of this worker to take a lock. Valid until the next
 * call. */
struct slice waiters_ticket(struct waiters *w);

size_t waiters_nbytes(const struct waiters *w); /* memory of the waiters in line, in bytes */

/* True if any worker of this process has a waiter for any lock. */
bool waiters_any(const struct waiters *w);
/* True if any worker of this process has a waiter for this lock, or for another lock with the
 * same hash: see struct waiter_board. */
bool waiters_for(const struct waiters *w, int db, struct slice key);

/* Something may have released the lock: hands it off if it is free. `kind`: the kind of lock to
 * ask Redis about if no client of this worker waits for it. */
void waiters_probe(struct waiters *w, int db, struct slice key, enum lock_kind kind);

/* Callbacks to the owner of a waiter; the same for all waiters. */
struct waiter_ops {
	/* The owner shall send the try that could not be sent yet, or give it up. */
	void (*on_ready)(void *owner);
	/* The waiter has the lock. `since`: when the lease began, or a little earlier; `fence`:
	 * the fencing token, or 0. The owner must end the waiter. */
	void (*on_granted)(void *owner, long long fence, double since);
	/* The waiter did not get the lock in time, or its grants arrived too late. It has left
	 * the queue or is leaving it. The owner must end the waiter. */
	void (*on_timed_out)(void *owner);
	/* The waiter's time is over, but its try is not answered yet. If hasp has sent the try
	 * to no server, the owner need not wait for an answer. Called repeatedly. */
	void (*on_overdue)(void *owner);
	/* The waiter lost its place in Redis' queue: the owner shall send the try again, with
	 * the place waiter_place(). */
	void (*on_lost)(void *owner);
};

/* Makes a waiter for a client that may wait for `wait_ms` from now. */
struct waiter *waiter_new(struct waiters *w, int64_t wait_ms, void *owner);
/* Makes a waiter for a client whose try was sent with this ticket at `sent_at`, before hasp
 * knew that the client has to wait. waiters_are_ready() must have been true then. */
struct waiter *waiter_new_sent(struct waiters *w, int64_t wait_ms, double sent_at,
                               struct slice ticket, void *owner);
/* Returns how long the client may go on waiting, in ms; >= 0. */
int64_t waiter_left_ms(const struct waiter *w);
double waiter_waited(const struct waiter *w); /* seconds since the start of the wait */
/* Returns the place that the waiter had in Redis' queue; 0: none. */
int64_t waiter_place(const struct waiter *w);

size_t waiter_nbytes(const struct waiter *w); /* returns its memory in bytes */

enum try_readiness {
	TRY_READY, /* the try can be sent */
	TRY_NOT_YET, /* hasp will call on_ready() */
	TRY_REFUSED, /* Redis refuses the subscription; see waiter_refusal() */
};
/* Returns whether the waiter's try for the lock `key` can be sent. */
enum try_readiness waiter_ready(struct waiter *w, struct slice key);
/* True if a newcomer's try for the lock `key` can be sent. */
bool waiters_are_ready(struct waiters *w, struct slice key);
/* True in a cluster: hasp may hold a try back from all nodes for a while. */
bool waiter_may_be_held_back(const struct waiters *w);
/* Returns the error by which Redis refused the subscription, after TRY_REFUSED. */
const char *waiter_refusal(const struct waiter *w);

/* The try is about to be sent, with this ticket. */
void waiter_sent(struct waiter *w, struct slice ticket);

/* Handles the answer `+QUEUED place now held` to the try `t`, whose value is the token or
 * empty; t->place is ignored. Callbacks may run before waiter_queued() returns. Returns 0, or
 * -1 if no try was sent or hasp does not understand `line`. */
int waiter_queued(struct waiter *w, int db, const struct attempt *t, struct slice line)
	__attribute__((warn_unused_result));

/* Makes `stats` count the waiter while it is in line. Does nothing if it is in line already. */
void waiter_count_at(struct waiter *w, struct section_stats *stats);

/* The try took the lock, but the answer came so late that the lease may be over: asks Redis
 * whether the client still has the lock, and begins the lease again. Then calls on_granted(),
 * or on_lost() if the client has lost the lock, or on_timed_out() if this was repeated too
 * often after the deadline. The arguments are those of waiter_queued(). */
void waiter_answered_late(struct waiter *w, int db, const struct attempt *t);

/* Calls `fn` for some waiters in line, and returns the next cursor, as map_scan() does. */
typedef void waiters_walk_fn(void *arg, const struct waiter *w, void *owner);
uint64_t waiters_walk(const struct waiters *all, uint64_t cursor, waiters_walk_fn *fn,
                      void *arg);

/* Ends the wait, but does not free the waiter: leaves the queue as waiter_end() does. In a
 * cluster, on_overdue() then runs for requests that the owner still sends for the waiter. */
void waiter_leave(struct waiter *w);

/* Frees the waiter. If the waiter is in line, hasp removes it from the queue, and releases a
 * lock that it may have been granted. NULL is allowed. */
void waiter_end(struct waiter *w);

#endif
