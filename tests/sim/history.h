/* SPDX-License-Identifier: BSD-3-Clause
 *
 * history: records what clients asked for and got of locks, and finds what is wrong. It reads
 * Redis at the moment of each answer, past the network. The faults:
 *
 *   two holders   a client got the lock while another one surely had it; or more than LIMIT
 *   not held      a client was told that it has the lock, and Redis knows nothing of it
 *   lost          a lock that hasp renews went to another client, and nothing had happened
 *   stolen        a release was confirmed of what was another client's by then
 *   refused       a release was refused of what the client surely had
 *   over          a transaction took a lock, and is answered when the lease has ended
 *   fence         a fencing token is not greater than those that were known before
 *   overtaken     a client got the lock before one that had been in the queue when it asked
 *   early, late   a waiter was told before its time that it did not get the lock, or long after
 *   failed        an error or a lost connection, and nothing had happened
 *   kept          Redis has the lock for a client that has released it, or never got it
 *   idle          the lock is free, clients wait for it, and none of them gets it
 *   circle        clients waited for each other to the end of their time
 *   left behind   keys in Redis when all clients have left
 *   hangs         a client that gets no answer
 *
 * What a fault explains is not wrong: see machine.disturbed_until. After faults a client may
 * lose a lock or wait longer, but there are never two holders within their leases.
 */
#ifndef HASP_TESTS_SIM_HISTORY_H
#define HASP_TESTS_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "tests/sim/simulation.h"

enum try_state { TRY_ASKED, TRY_HELD, TRY_RELEASING, TRY_OVER };

/* One try to take a lock, until it has been released. The caller fills in what is first. */
struct
try {
	const char *key;
	char who[24]; /* the try's name in Redis: the lock's value, or its owner */
	const struct machine *client, *hasp;
	int limit; /* how many owners may have the lock; 1: no semaphore */
	bool shared, is_writer; /* sides of a read-write lock */
	bool is_verb;
	bool of_quorum; /* a quorum's servers have the lock; then it is named */
	bool is_named; /* `who` is in Redis, also if the lock is a verb's */
	bool is_fair; /* the try does not overtake waiters */
	bool is_renewed; /* hasp renews the lock until it is released */
	bool ends_with_connection; /* on_disconnect = release */
	bool is_crowd; /* several clients have holds of this owner, each its own */
	bool is_marked; /* `over:WHO` was set with the lock, for 300 ms longer */
	bool is_rechecked; /* hasp checks a late grant: see hasp-locks(7), WHEN SOMETHING FAILS
	                    */
	int64_t wait_us, lease_us;
	/* The history writes the fields below. */
	enum try_state state;
	struct list node;
	unsigned number;
	int64_t answer_began; /* when the first byte of the answer came */
	int64_t sent, granted, sure_until, release_sent;
	int64_t fence; /* 0: none */
	int64_t fence_asked; /* when the request was sent that brought `fence` */
	int64_t check_at; /* when to check that the lock is gone; 0: no check */
	int64_t over_at;
	int64_t lease_ends; /* latest end of the lease, by hasp's clock */
	bool was_lost; /* another try was granted meanwhile, or Redis lost the lock */
	unsigned ahead[16]; /* numbers of the tries in the queue when this one was sent */
	size_t nahead;
};

void history_begin(struct simulation *s);
void history_end(void);
/* Watches `key` for waiters that hasp does not serve. */
void history_add_key(const char *key);
/* Redis has lost its data. */
void history_data_lost(void);

/* The try is sent now. It stays valid until history_end(). */
struct try *history_ask(const struct try *t);
void history_grant(struct try *t, int64_t fence);
void history_refuse(struct try *t); /* the answer was: another client has the lock */
/* A command that sets the lease of a lock is sent now; its answer is `fence` (0: of a command
 * that returns none), or that the client has no such lock. */
void history_change(struct try *t);
void history_changed(struct try *t, int64_t lease_us, int64_t fence);
void history_change_refused(struct try *t);
/* The answer was an error, or the connection ended: the try may have got the lock. */
void history_fail_try(struct try *t, const char *why);
bool history_has(const struct try *t); /* Redis has the lock for the try now */
/* The try has waited to the end, though no holder keeps a lock for long. This is a fault,
 * unless a killed hasp may have left a lock behind, which stays for at most `lease_us`. */
void history_circle(const struct try *t, int64_t lease_us);
void history_give_up(struct try *t); /* the client has gone while it waited or held */
void history_release(struct try *t); /* the release is sent now */
void history_keep(struct try *t); /* the release gave back one hold of several */
void history_released(struct try *t, bool confirmed);

/* Reports a fault that nothing explains. */
void history_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Number of faults; the first ones in words, a line for each. */
size_t history_nfailures(void);
const char *history_failures(void);
size_t history_ngrants(void);

#endif
