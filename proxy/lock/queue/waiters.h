/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waiters: a worker's clients that wait in line for a lock. The queue itself is in Redis
 * (scripts/includes/hand_off.lua), so that all connections, workers and proxies share one; here
 * is which client waits, until when, and what is done about it:
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
 * A probe asks Redis about the lock and its first waiter. It makes good what was missed: the
 * end of a lease (no script runs then), a message that was lost, a queue that went down with
 * Redis. A grant that took long to arrive begins its lease anew before the client hears of it.
 *
 * A waiter that may have lost its place, because hasp did not hear Redis for a while or because
 * the queue was lost, is unconfirmed until Redis has told its place. Newcomers of this worker
 * are not sent meanwhile: only this worker knows that the line is longer than Redis thinks.
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

/* Where the workers of a process see for which locks any of them has waiters: a count for each
 * hash of a name, which several names may share. */
#define WAITER_BOARD_SLOTS 4096
struct waiter_board {
	_Atomic uint32_t total;
	_Atomic uint32_t waiting[WAITER_BOARD_SLOTS];
};

/* All of them outlive it. The subscribers of the nodes that there are are made here. All times
 * are those of the timers' clock. */
struct waiters *waiters_new(struct timers *timers, const struct topology *topology,
                            struct script_jobs *script_jobs, struct waiter_board *board);
void waiters_free(struct waiters *w); /* no waiters are left */

/* A node has come; hasp listens there, too, as soon as a client waits anywhere. */
void waiters_listen_at(struct waiters *w, struct node *n);
/* The node, which serves no key any more, is about to be freed; after waiters_rerouted(). */
void waiters_forget(struct waiters *w, struct node *n);
/* Other nodes serve some of the keys. Those who wait for them stand in line there, in the order
 * that they had. */
void waiters_rerouted(struct waiters *w);

/* A name for one try to take a lock, of this worker's. Valid until the next call. */
struct slice waiters_ticket(struct waiters *w);

/* What all of them begin with, up to the dash, and no other worker's do. Any thread may read
 * it.
 */
struct slice waiters_number(const struct waiters *w);

/* script_jobs_how(), script_jobs_naming() */
struct rewrite_how waiters_how(struct waiters *w, int db);
enum key_naming waiters_naming(const struct waiters *w);

size_t waiters_nbytes(const struct waiters *w); /* of memory, of those that stand in line */

/* Has this worker, or another of this process, a waiter for any lock? For this lock, as far as
 * the board tells? */
bool waiters_any(const struct waiters *w);
bool waiters_for(const struct waiters *w, int db, struct slice key);

/* Something may have released the lock: hands it off if it is free. `kind`: of a lock that no
 * waiter of this worker waits for. */
void waiters_probe(struct waiters *w, int db, struct slice key, enum lock_kind kind);

struct waiter_ops {
	/* The try that could not be sent yet can be, or is to be given up. */
	void (*on_ready)(void *owner);
	/* It has the lock, with `fence` if the kind has one, since `since` at the latest. The
	 * owner ends the waiter. */
	void (*on_granted)(void *owner, long long fence, double since);
	/* It did not get the lock in time, or could not be told in time that it has it. It has
	 * left the queue or is about to. The owner ends the waiter. */
	void (*on_timed_out)(void *owner);
	/* Its time is over, and the answer to its try is due: if no server has the try the
	 * owner need not wait for that. Called again and again. */
	void (*on_overdue)(void *owner);
	/* It lost its place, through no fault of its own: the owner tries again, in place
	 * waiter_place(). */
	void (*on_lost)(void *owner);
};

/* For a client that waits for at most `wait_ms` from now. */
struct waiter *waiter_new(struct waiters *w, int64_t wait_ms, const struct waiter_ops *ops,
                          void *owner);
/* For a client whose try was sent with this ticket at `sent_at`, before it was known that it
 * has to wait. waiters_are_ready() was true then. */
struct waiter *waiter_new_sent(struct waiters *w, int64_t wait_ms, double sent_at,
                               struct slice ticket, const struct waiter_ops *ops, void *owner);
/* How long it may go on waiting; >= 0. */
int64_t waiter_left_ms(const struct waiter *w);
/* Since when it waits; for how long, in seconds. */
double waiter_began(const struct waiter *w);
double waiter_waited(const struct waiter *w);
/* The place that it had in the queue; 0: none. */
int64_t waiter_place(const struct waiter *w);

size_t waiter_nbytes(const struct waiter *w); /* of memory */

enum try_readiness {
	TRY_READY, /* the try can be sent */
	TRY_NOT_YET, /* on_ready() will be called */
	TRY_REFUSED, /* Redis refuses what waiting needs; see waiter_refusal() */
};
/* For the lock `key`. */
enum try_readiness waiter_ready(struct waiter *w, struct slice key);
/* Can a try to take the lock `key` that is sent now be queued? */
bool waiters_are_ready(struct waiters *w, struct slice key);
/* May a try that was sent be kept from all servers for a while? */
bool waiter_may_be_held_back(const struct waiters *w);
/* Returns true if hasp has no connection of its own to the server of the lock `key`. */
bool waiters_are_cut_off(const struct waiters *w, struct slice key);
/* After TRY_REFUSED: Redis' error. */
const char *waiter_refusal(const struct waiter *w);

/* The try is about to be sent, with this ticket. */
void waiter_sent(struct waiter *w, struct slice ticket);

/* The answer `+QUEUED place now held`, whole. What the try wants and stores is in `t` (copied;
 * its place does not matter), its lease in `lease_ms` (0: the application named its end).
 * Callbacks may run before this returns. Returns 0; -1 when no
 * try was sent or the line is not understood. */
int waiter_queued(struct waiter *w, int db, const struct lock_try *t, int64_t lease_ms,
                  struct slice line) __attribute__((warn_unused_result));

/* It counts among the waiters of that section while it stands in line, from the next time on
 * that it does. */
void waiter_count_at(struct waiter *w, struct section_stats *stats);

/* The try was answered by success, but so late that the lease of what it took may be over: asks
 * Redis whether it has the lock still, and begins the lease anew. If it has, on_granted() is
 * called; if not, on_lost(), and when that happens too often, on_timed_out(). The arguments are
 * those of waiter_queued(). */
void waiter_answered_late(struct waiter *w, int db, const struct lock_try *t, int64_t lease_ms);

/* The next step through those that are in line, as map_scan() does it. */
typedef void waiters_walk_fn(void *arg, const struct waiter *w, void *owner);
uint64_t waiters_walk(const struct waiters *all, uint64_t cursor, waiters_walk_fn *fn,
                      void *arg);

/* It waits no more: if it is in line, it leaves the queue as with waiter_end(). What its owner
 * still sends on its behalf is watched like a try whose time is over (on_overdue()). */
void waiter_leave(struct waiter *w);

/* Frees it; if it is in line, it leaves the queue, and what it may have been granted is
 * released. NULL is allowed. */
void waiter_end(struct waiter *w);

#endif
