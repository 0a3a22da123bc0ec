/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum: locks that a majority of independent Redis servers grants, by the algorithm of
 * "Distributed Locks with Redis" (Redlock). A quorum uses no socket and no loop: the caller
 * sends requests (opts.send()), and reports answers and connections by quorum_on_*().
 *
 *   client            quorum_ops.c                    quorum_servers.c
 *     | LOCK            TAKE at all voting servers -->  EVAL quorum_take   at each server
 *     |                 a majority: CONFIRM ---------->  EVAL quorum_confirm
 *     |                   the greatest fencing token
 *     |                   that is no more than an hour ahead
 *     |<- granted -------- a majority, and the lease still runs
 *     |                 else: release at all servers; try again later (WAIT), or answer
 *
 *   LOCK                  TAKE -> CONFIRM -> ENDED; if a step fails: PAUSE -> TAKE, or ENDED
 *
 *   LOCK.EXTEND, UNLOCK   READ -> EXTEND or RELEASE -> ENDED; without READ if hasp knows the
 *                         value of the lock, as for each renewal
 *
 *   LOCK.INFO             READ -> ENDED
 */
#ifndef HASP_QUORUM_QUORUM_H
#define HASP_QUORUM_QUORUM_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/slice.h"
#include "lock/hold/holds.h"
#include "quorum/quorum_values.h"
#include "quorum/quorum_votes.h"

struct quorum;
struct quorum_call;
struct quorum_op;

#define QUORUM_RUN_ID_SIZE 48

/* A script call that the server has not answered yet. */
struct quorum_call {
	/* Gets the reply; NULL: the server's connection was lost. */
	void (*fn)(struct quorum_call *call, const redisReply *reply);
	size_t server; /* index of the server in quorum_opts.addresses */
	struct list node; /* opts.send() may use it until the call is answered */
};

struct quorum_opts {
	struct timers *timers;
	const char *name; /* section [quorum NAME], for the log; must outlive the quorum */
	size_t nservers;
	char *const *addresses; /* addresses of the servers, for the log; must outlive the
	                         * quorum */
	int64_t timeout_ms; /* an answer that takes longer does not count */
	int64_t restart_delay_ms; /* a server votes only after it has run for this long; 0:
	                           * at once */
	/* Sends a request to a server that is up; quorum_on_answer() must follow, but not
	 * before send() has returned. */
	void (*send)(void *arg, size_t server, struct slice request, struct quorum_call *call);
	/* The time of day, in microseconds since 1970. */
	int64_t (*unix_us)(void *arg);
	void *arg;
	struct section_stats *stats; /* counts the waiting clients; NULL: no counters */
};

struct quorum *quorum_new(const struct quorum_opts *opts);
/* Call it only when all servers are down, and all operations have ended. */
void quorum_free(struct quorum *q);
const struct quorum_opts *quorum_terms(const struct quorum *q);
/* Returns `lease_ms`, or restart_delay_ms if that is less (and not 0). The limit makes the
 * locks that a restarted server has forgotten end before the server votes again. */
int64_t quorum_bound_lease(const struct quorum *q, int64_t lease_ms);
/* True if a call is in flight to a server that is up and not silent. */
bool quorum_is_asked(const struct quorum *q);

enum quorum_server_state {
	QUORUM_SERVER_DOWN, /* not connected, or silent for longer than the time-out */
	QUORUM_SERVER_UNCOUNTED, /* started too recently to vote */
	QUORUM_SERVER_UP
};
enum quorum_server_state quorum_server_state(const struct quorum *q, size_t server);
/* Repeats releases that a server has refused, and removes those older than twice the lease.
 * Call it about once a second. */
void quorum_tick(struct quorum *q);

/* A server is connected and has reported its run_id and uptime (in seconds) by INFO. Returns
 * the seconds until the server votes; 0: it votes at once. */
double quorum_on_up(struct quorum *q, size_t server, const char *run_id, int64_t uptime);
/* After this, the caller must answer the calls in flight by NULL. */
void quorum_on_down(struct quorum *q, size_t server);
void quorum_on_answer(struct quorum *q, struct quorum_call *call, const redisReply *reply);

/* --- quorum_ops.c: one request ------------------------------------------------------------ */

enum quorum_request { QUORUM_LOCK, QUORUM_UNLOCK, QUORUM_EXTEND, QUORUM_INFO };

struct quorum_result {
	enum quorum_verdict verdict; /* never QUORUM_OPEN */
	size_t nanswered; /* number of servers that answered */
	/* LOCK: all is set; EXTEND: the value and the lease; UNLOCK, INFO: only the value. */
	struct voted_lock lock;
	int64_t lease_ms; /* LOCK, EXTEND: the requested lease; INFO: how much of it is left */
	struct slice key; /* key of the request */
	struct slice owner; /* owner in the request; INFO: the lock's owner */
	bool is_gone; /* EXTEND, UNLOCK: a majority does not have the lock */
	struct quorum_op *op; /* the operation, which has ended */
};

/* Reports how the request ended. The slices of the result are valid during the call. */
typedef void quorum_done_fn(void *arg, const struct quorum_result *r);

struct quorum_ask {
	enum quorum_request request;
	struct slice key;
	struct quorum_claim claim; /* INFO uses only `of_rule` */
	struct slice value; /* EXTEND, UNLOCK: the lock's value at the servers; empty: READ
	                     * finds it */
	int64_t lease_ms; /* lease of the lock; INFO: unused */
	int64_t wait_ms; /* LOCK: how long to try again, after random pauses */
	bool renews; /* EXTEND: a renewal, which waits for the answers of all servers */
	quorum_done_fn *done;
	/* LOCK: called after a failed try; returns true to try again. NULL: try again for
	 * wait_ms. */
	bool (*goes_on)(const void *arg);
	void *arg;
};

/* Makes an operation. quorum_op_start() sends its first requests, and may already call done().
 * The operation ends with done(), or by quorum_op_cancel(), which also releases a lock that the
 * operation may have got. */
struct quorum_op *quorum_op_new(struct quorum *q, const struct quorum_ask *ask);
void quorum_op_start(struct quorum_op *op);
void quorum_op_cancel(struct quorum_op *op);

/* --- clients' locks ----------------------------------------------------------------------- */

/* Makes the quorum renew and release the locks in `h` that it granted; `closes`: see struct
 * voters. */
void quorum_keep_holds(struct quorum *q, struct holds *h, bool closes);

#endif
