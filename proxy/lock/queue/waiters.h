/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waiters: a worker's clients that wait in line for a lock. The queue itself is in Redis
 * (scripts/includes/hand_off.lua), so that all connections, workers and proxies share one. The
 * worker keeps which of its clients wait, and until when:
 *
 *   try --`+QUEUED`--> waiter_queued() --message on the worker's channel--> on_granted()
 *                           |    ^
 *                 deadline  |    `-- probe --> granted, lost, or still waiting
 *                           v
 *                 leave the queue --> on_timed_out()
 *
 * A lock is probed when its lease should end, when a write names it, when Redisson's clients
 * publish its release, and at least each second.
 *
 * A probe asks Redis about the lock and its first waiter. It finds what hasp has missed: the
 * end of a lease (no script runs then), a lost message, a queue that went down with Redis. If a
 * grant took long to arrive, hasp begins its lease again before it reports the lock.
 *
 * A waiter that may have lost its place, because the subscriber was down or the queue was lost,
 * is unconfirmed until Redis has answered where its place is. Until then the worker sends no
 * newcomers: only this worker knows that the line is longer than Redis thinks.
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
struct waiters; /* a worker's */
struct waiter; /* one client that may have to wait, or does */

/* Shows the workers of a process which locks have waiters in any of them: a count for each hash
 * of a name, which several names may share. */
#define WAITER_BOARD_SLOTS 4096
struct waiter_board {
	_Atomic uint32_t total;
	_Atomic uint32_t waiting[WAITER_BOARD_SLOTS];
};

/* The arguments must outlive the waiters. Makes the subscribers of the present nodes. All times
 * are those of the timers' clock. */
struct waiters *waiters_new(struct timers *timers, const struct topology *topology,
                            struct script_jobs *script_jobs, struct waiter_board *board);
void waiters_free(struct waiters *w); /* no waiters are left */

/* Adds a node; hasp listens there, too, as soon as a client waits anywhere. */
void waiters_listen_at(struct waiters *w, struct node *n);
/* Removes a node that serves no key any more and is about to be freed; call it after
 * waiters_rerouted(). */
void waiters_forget(struct waiters *w, struct node *n);
/* Other nodes serve some of the keys now. The waiters for these keys queue there, in the order
 * that they had. */
void waiters_rerouted(struct waiters *w);

/* Returns a new name for one try of this worker to take a lock. Valid until the next call. */
struct slice waiters_ticket(struct waiters *w);

/* script_jobs_opts(), script_jobs_naming() */
struct rewrite_opts waiters_opts(struct waiters *w, int db);
enum key_naming waiters_naming(const struct waiters *w);

size_t waiters_nbytes(const struct waiters *w); /* memory of the waiters in line, in bytes */

/* True if any worker of this process has a waiter for any lock; waiters_for(): for this lock,
 * or for one that shares its slot on the board. */
bool waiters_any(const struct waiters *w);
bool waiters_for(const struct waiters *w, int db, struct slice key);

/* Hands the lock off if it is free, because something may have released it. `kind`: counts if
 * no client of this worker waits for the lock. */
void waiters_probe(struct waiters *w, int db, struct slice key, enum lock_kind kind);

struct waiter_ops {
	/* The try that could not be sent yet can be sent now, or the owner must give it up. */
	void (*on_ready)(void *owner);
	/* The waiter has the lock, with `fence` if the kind has one, since `since` at the
	 * latest. The owner ends the waiter. */
	void (*on_granted)(void *owner, long long fence, double since);
	/* The waiter did not get the lock in time, or its grants arrived too late. It has left
	 * the queue or is about to. The owner ends the waiter. */
	void (*on_timed_out)(void *owner);
	/* The waiter's time is over, and the answer to its try is due: if no server has the
	 * try, the owner need not wait for the answer. Called again and again. */
	void (*on_overdue)(void *owner);
	/* The waiter lost its place, through no fault of its own: the owner tries again, at the
	 * place waiter_place(). */
	void (*on_lost)(void *owner);
};

/* For a client that waits for at most `wait_ms` from now. */
struct waiter *waiter_new(struct waiters *w, int64_t wait_ms, const struct waiter_ops *ops,
                          void *owner);
/* For a client whose try was sent with this ticket at `sent_at`, before hasp knew that the
 * client has to wait. waiters_are_ready() was true then. */
struct waiter *waiter_new_sent(struct waiters *w, int64_t wait_ms, double sent_at,
                               struct slice ticket, const struct waiter_ops *ops, void *owner);
/* Returns how long the client may go on waiting, in ms; >= 0. */
int64_t waiter_left_ms(const struct waiter *w);
/* Returns when the wait began; waiter_waited(): how long it has taken, in seconds. */
double waiter_began(const struct waiter *w);
double waiter_waited(const struct waiter *w);
/* Returns the place that the waiter had in the queue; 0: none. */
int64_t waiter_place(const struct waiter *w);

size_t waiter_nbytes(const struct waiter *w); /* of memory */

enum try_readiness {
	TRY_READY, /* the try can be sent */
	TRY_NOT_YET, /* on_ready() will be called */
	TRY_REFUSED, /* Redis refuses the subscription; see waiter_refusal() */
};
/* Returns whether a try for the lock `key` can be sent. */
enum try_readiness waiter_ready(struct waiter *w, struct slice key);
/* True if Redis can queue a try for the lock `key` that is sent now. */
bool waiters_are_ready(struct waiters *w, struct slice key);
/* True if hasp may hold a sent try back from all servers for a while. */
bool waiter_may_be_held_back(const struct waiters *w);
/* Returns true if hasp has no connection of its own to the server of the lock `key`. */
bool waiters_are_cut_off(const struct waiters *w, struct slice key);
/* Returns Redis' error after TRY_REFUSED. */
const char *waiter_refusal(const struct waiter *w);

/* The try is about to be sent, with this ticket. */
void waiter_sent(struct waiter *w, struct slice ticket);

/* Handles the whole answer `+QUEUED place now held`. `t`: the try. Its value is the token or
 * empty; its place does not matter. `lease_ms`: its lease; 0: the application set the time at
 * which it ends. Callbacks may run before this returns. Returns 0; -1 when no try was sent or
 * hasp does not understand the line. */
int waiter_queued(struct waiter *w, int db, const struct attempt *t, int64_t lease_ms,
                  struct slice line) __attribute__((warn_unused_result));

/* Counts the waiter among those of that section while it is in a line, from the next time on
 * that it enters one. */
void waiter_count_at(struct waiter *w, struct section_stats *stats);

/* The try took the lock, but the answer came so late that the lease may be over: asks Redis
 * whether the client still has the lock, and begins the lease again. Calls on_granted() if it
 * has; on_lost() if not; on_timed_out() if that happens too often. The arguments are those of
 * waiter_queued(). */
void waiter_answered_late(struct waiter *w, int db, const struct attempt *t, int64_t lease_ms);

/* Takes the next step through the waiters in line, as map_scan() does. */
typedef void waiters_walk_fn(void *arg, const struct waiter *w, void *owner);
uint64_t waiters_walk(const struct waiters *all, uint64_t cursor, waiters_walk_fn *fn,
                      void *arg);

/* Ends the wait: if the waiter is in line, it leaves the queue as with waiter_end(). For
 * requests that its owner still sends on its behalf, on_overdue() is called as for a try whose
 * time is over. */
void waiter_leave(struct waiter *w);

/* Frees the waiter; if it is in line, it leaves the queue and releases a lock that it may have
 * been granted. NULL is allowed. */
void waiter_end(struct waiter *w);

#endif
