/* SPDX-License-Identifier: BSD-3-Clause
 *
 * op: a request that is answered step by step: each step table (lock_op.c, guard_op.c) gets an
 * event and returns the action that exchange.c takes next. A step table touches no socket, and
 * knows no client.
 */
#ifndef HASP_CLIENT_OP_H
#define HASP_CLIENT_OP_H

#include "lock/ack/replica_acks.h"
#include "lock/hold/holds.h"
#include "lock/queue/waiters.h"
#include "session/pending.h"

enum op_event_kind {
	OP_LINE, /* Redis' reply begins with `line`, a status or an error, and is held back */
	OP_REPLY, /* Redis' reply; the client has got it, unless it was to be discarded */
	OP_GRANTED, /* the waiter has the lock */
	OP_ACKED, /* replicas were asked whether they have the lock */
	OP_TIMED_OUT, /* the wait is over */
	OP_DEADLOCK, /* the wait is part of a deadlock; `line` is the error */
};

struct op_event {
	enum op_event_kind kind;
	struct slice line; /* LINE, DEADLOCK: with its line end */
	const struct resp_reply *reply; /* REPLY */
	struct slice captured; /* REPLY: its bytes, if they were asked for */
	long long fence; /* GRANTED */
	double since; /* GRANTED: since when the waiter has the lock, at the latest */
	bool enough; /* ACKED: enough replicas have it */
};

/* What a step table may know of the client. */
struct op_facts {
	struct pending_request *request;
	int db;
	bool resp3;
	bool in_line; /* the client is CLIENT_PARKED_TURN */
	bool is_cut_off; /* no bytes can be sent to the client any more */
	struct waiter *waiter; /* NULL: the request did not have to wait yet */
	const struct hold_owner *holds;
	struct slice outage; /* TIMED_OUT: the error, if the lock's server cannot be reached */
};

enum op_act {
	OP_PASS, /* (of a LINE) the reply is the client's answer, as it comes */
	OP_AGAIN, /* send the request once more; with the script's text, if `eval` */
	OP_WAIT, /* the client waits in line for the lock of `lock` */
	OP_CONFIRM, /* ask Redis whether the client still has the lock of `lock` */
	OP_ASK_REPLICAS, /* ask replicas whether they have the lock of `lock` */
	OP_ANSWER, /* send `answer`, which means `reply`: the event OP_REPLY follows */
	OP_REFUSE, /* send `answer`, which means nothing, and end the request */
	OP_END, /* end the request: the client got its answer, which means `reply` */
	OP_CLOSE, /* close the client: Redis' answer is not understood */
};

struct op_action {
	enum op_act act;
	bool eval; /* AGAIN */
	struct lock_try lock; /* WAIT, CONFIRM, ASK_REPLICAS */
	int64_t lease_ms; /* WAIT, CONFIRM: 0: the application named the lease's end */
	struct slice line; /* WAIT: Redis' answer `+QUEUED place now held` */
	struct section_stats *stats; /* WAIT: count the waiter; NULL: none do */
	struct replica_ask_terms terms; /* ASK_REPLICAS */
	struct resp_reply reply; /* ANSWER, END */
	struct slice
		answer; /* ANSWER, REFUSE: lies in the request, or is constant; empty: ... */
	char text[64]; /* ... this is the answer */
};

static inline struct slice op_answer(const struct op_action *a)
{
	return a->answer.n ? a->answer : slice_str(a->text);
}

/* Too few replicas have it, in Redis' words. */
#define OP_NOREPLICAS "-NOREPLICAS Not enough good replicas to write.\r\n"

/* The steps of a call on a lock (lock_op.c). */
struct op_action lock_op_step(const struct op_facts *f, const struct op_event *e);
/* Returns how the link must handle the reply to the call: LINK_*. `waits`: the call may have to
 * wait in line. */
unsigned lock_op_flags(const struct pending_request *r, bool waits,
                       const struct rewrite_how *how);
/* True if a reply of success must be confirmed before the client gets it: much of the lease may
 * be over, or replicas must have the lock. */
bool lock_op_is_late(const struct pending_lock *p);
/* Undoes the locks of a request that takes several, when it ends without all of them or is
 * decided again. Does nothing for a request of one lock. */
void lock_op_undo_parts(const struct pending_request *r, int db);

#endif
