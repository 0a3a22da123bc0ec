/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum: locks that a majority of independent Redis servers grants, by the algorithm of
 * "Distributed Locks with Redis" (Redlock). A quorum uses no socket and no loop: requests go
 * out by opts.send(), answers and connections come in by quorum_on_*(), and its timers give the
 * time.
 *
 *   client            quorum_ops.c                    quorum_servers.c
 *     | LOCK            TAKE at all that vote ------->  EVAL quorum_take   at each of them
 *     |                 a majority: CONFIRM ---------->  EVAL quorum_confirm
 *     |                   the greatest fencing token
 *     |                   that is no more than an hour ahead
 *     |<- granted -------- a majority, and the lease is good yet
 *     |                 else: release at all; try again later (WAIT), or answer
 *
 *   LOCK                  TAKE -> CONFIRM -> ENDED; from both: -> PAUSE -> TAKE, or ENDED
 *
 *   LOCK.EXTEND, UNLOCK   READ -> EXTEND or RELEASE -> ENDED; READ finds the holder, only if
 *                         this client is not the holder; renewals begin at EXTEND
 *
 *   LOCK.INFO             READ -> ENDED
 */
#ifndef HASP_QUORUM_QUORUM_H
#define HASP_QUORUM_QUORUM_H

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

enum quorum_answer_kind {
	QUORUM_INTEGER, /* the answer is `n` */
	QUORUM_ROW, /* the answer is `text` and `n` */
	QUORUM_NIL,
	QUORUM_FAILED, /* an error, or no answer will come */
};

struct quorum_answer {
	enum quorum_answer_kind kind;
	int64_t n;
	struct slice text;
};

/* A call of a script that is not answered yet. */
struct quorum_call {
	void (*fn)(struct quorum_call *call, const struct quorum_answer *a);
	size_t server; /* number of the server */
	struct list node; /* for opts.send(), until the call is answered */
};

struct quorum_opts {
	struct timers *timers;
	const char *name; /* for the log; must outlive the quorum */
	size_t nservers;
	char *const
		*addresses; /* addresses of the servers, for the log; must outlive the quorum */
	int64_t timeout_ms; /* later answers do not count */
	int64_t restart_delay_ms; /* a server that runs for less than this has no vote; 0: all
	                           * have */
	/* Sends a request to a server that is up; quorum_on_answer() must follow later. */
	void (*send)(void *arg, size_t server, struct slice request, struct quorum_call *call);
	/* The time of day, in microseconds since 1970. */
	int64_t (*unix_us)(void *arg);
	void *arg;
	struct section_stats *stats; /* counts the clients that wait; NULL: none are counted */
};

struct quorum *quorum_new(const struct quorum_opts *opts);
/* Call it only when all servers are down, and all operations have ended. */
void quorum_free(struct quorum *q);
const struct quorum_opts *quorum_terms(const struct quorum *q);
/* Returns `lease_ms`, or less, so that a lock that a server may have forgotten has ended when
 * the server votes again. */
int64_t quorum_bound_lease(const struct quorum *q, int64_t lease_ms);
/* True if a server has yet to answer. */
bool quorum_is_asked(const struct quorum *q);

enum quorum_server_state {
	QUORUM_SERVER_DOWN, /* or it does not answer within the time-out */
	QUORUM_SERVER_UNCOUNTED, /* started too recently to vote */
	QUORUM_SERVER_UP
};
enum quorum_server_state quorum_server_state(const struct quorum *q, size_t server);
/* Removes ended releases. Call it about once a second. */
void quorum_tick(struct quorum *q);

/* A server is connected and has reported its run_id and uptime by INFO. Returns in how many
 * seconds the server votes; 0: at once. */
double quorum_on_up(struct quorum *q, size_t server, const char *run_id, int64_t uptime);
/* After this, the caller must answer the calls in flight as QUORUM_FAILED. */
void quorum_on_down(struct quorum *q, size_t server);
void quorum_on_answer(struct quorum *q, struct quorum_call *call,
                      const struct quorum_answer *a);

/* --- quorum_ops.c: one request ------------------------------------------------------------ */

enum quorum_request { QUORUM_LOCK, QUORUM_UNLOCK, QUORUM_EXTEND, QUORUM_INFO };

struct quorum_result {
	enum quorum_verdict verdict; /* never OPEN */
	size_t nanswered; /* number of servers that answered */
	struct voted_lock lock; /* INFO, UNLOCK: only its value; EXTEND: also its lease */
	int64_t lease_ms; /* LOCK, EXTEND */
	struct slice key, owner; /* of the lock; INFO: its owner */
	int64_t ttl_ms; /* INFO */
	uint32_t absent; /* EXTEND: servers that lack the lock, as bits */
	size_t nno; /* number of servers that refused */
};

/* The slices of the result are valid during the call. */
typedef void quorum_done_fn(void *arg, const struct quorum_result *r);

struct quorum_ask {
	enum quorum_request request;
	struct slice key;
	struct quorum_claim claim; /* INFO: only `of_rule` counts */
	struct slice value; /* EXTEND, UNLOCK: value of the hold; empty: not known here */
	int64_t lease_ms; /* LOCK, EXTEND */
	int64_t wait_ms; /* LOCK: how long to try again, after random pauses */
	bool renews; /* EXTEND: waits for the answers of all servers */
	quorum_done_fn *done;
	/* LOCK: called after a failed try; returns true to try again. NULL: try again for
	 * wait_ms. */
	bool (*goes_on)(const void *arg);
	void *arg;
};

/* Makes an operation, which quorum_op_start() starts; that may call done(). The operation ends
 * when done() is called, or by quorum_op_cancel(), which releases what it may have got. */
struct quorum_op *quorum_op_new(struct quorum *q, const struct quorum_ask *ask);
void quorum_op_start(struct quorum_op *op);
void quorum_op_cancel(struct quorum_op *op);

/* --- quorum_holds.c ----------------------------------------------------------------------- */

/* Lets `h` keep the locks that the quorum has granted; `closes`: see struct voters. */
void quorum_keep_holds(struct quorum *q, struct holds *h, bool closes);

#endif
