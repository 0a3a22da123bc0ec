/* SPDX-License-Identifier: BSD-3-Clause
 *
 * op: a request that is answered step by step: each step table (lock_op.c, guard_steps.c) gets
 * an event and returns the action that exchange.c takes next. A step table touches no socket,
 * and knows no client.
 */
#ifndef HASP_CLIENT_OP_H
#define HASP_CLIENT_OP_H

#include "lock/ack/replica_acks.h"
#include "lock/hold/holds.h"
#include "lock/queue/waiters.h"
#include "resp/request.h"
#include "session/pending.h"
#include "session/transaction.h"

enum op_event_kind {
	OP_LINE, /* Redis' reply begins with `line`, a status or an error, and is held back */
	OP_REPLY, /* Redis' reply; the client has got it, unless it was to be discarded */
	OP_NOT_FREE, /* a guard that hasp tried to acquire was not free */
	OP_GRANTED, /* the waiter has the lock */
	OP_ACKED, /* the replicas have answered, or did not in time */
	OP_TIMED_OUT, /* the wait is over */
	OP_DEADLOCK, /* the wait is part of a deadlock; `line` is the error */
};

struct op_event {
	enum op_event_kind kind;
	struct slice line; /* LINE, DEADLOCK: the line, with CR LF */
	const struct resp_reply *reply; /* REPLY */
	struct slice captured; /* REPLY: the reply's bytes, if they were captured */
	long long fence; /* GRANTED: the fencing token */
	double since; /* GRANTED: the latest time at which the waiter may have got the lock */
	bool enough; /* ACKED: enough replicas have the lock */
};

struct op_out;

/* The facts about the client that a step table may use. The fields from `has_link` to `bytes`
 * are for commands on guarded keys only. */
struct op_facts {
	struct pending_request *request;
	int db;
	bool resp3;
	bool in_line; /* the client is CLIENT_PARKED_TURN */
	struct waiter *waiter; /* NULL: the request did not have to wait yet */
	const struct hold_owner *holds;
	bool has_link;
	const struct waiters *waiters;
	double now; /* clock_now() of the event */
	struct slice bytes; /* the request, as it came */
	struct slice outage; /* TIMED_OUT: the error if the lock's server cannot be reached */
	struct op_out *out;
};

enum op_act {
	OP_PASS, /* after a LINE: the client gets the reply unchanged */
	OP_AWAIT, /* await the reply to the sent bytes */
	OP_AGAIN, /* send the request again, with the script's text if `eval` */
	OP_NEXT, /* send what guard_steps_next() returns, with the script's text if `eval` */
	OP_BEGIN_MULTI, /* send the application's MULTI, which hasp held back until now */
	OP_WAIT, /* the client waits in line for the lock of `lock` */
	OP_CONFIRM, /* ask Redis whether the client still has the lock of `lock` */
	OP_ASK_REPLICAS, /* ask replicas whether they have the lock of `lock` */
	OP_ANSWER, /* send the answer, which stands for `reply`, and end the call on a lock */
	OP_END, /* send the answer, if there is one, and end the request with `reply` */
	OP_DONE, /* send the answer, if any, and end the request. The session, locks and watched
	          * keys stay as they are. */
	OP_CLOSE, /* close the client: hasp does not understand Redis' answer */
};

/* Bytes that hasp sends over the client's link first, in this order, and their replies. */
struct op_send {
	struct buf bytes; /* exchange.c releases it */
	struct slice more; /* sent after `bytes`, and owned by another struct */
	bool is_call; /* `more` calls a script, which keeps Redis busy for longer */
	unsigned ndiscards; /* number of first replies that hasp discards */
	unsigned nunseen, unseen; /* number of replies after these, and how the link handles
	                           * them: LINK_* */
	unsigned flags; /* how the link handles the last reply; 0: there is none */
};

/* The output of a step table, besides the action. exchange.c empties the struct before, and
 * releases its buffers after. */
struct op_out {
	struct op_send send;
	struct buf own; /* owns bytes of `lock` or of the answer */
	char text[64]; /* the answer, if action.answer is empty; empty: none */
	struct attempt lock; /* WAIT, CONFIRM, ASK_REPLICAS */
	int64_t lease_ms; /* (WAIT, CONFIRM) the lease; 0: the application has set the expiry */
	struct slice line; /* WAIT: Redis' answer `+QUEUED place now held` */
	/* (WAIT) The counters of the key's section; NULL: the waiter is not counted. */
	struct section_stats *stats;
	int64_t wait_ms; /* WAIT: how long the client may wait, if it has no waiter yet */
	double sent_at; /* WAIT: when the request was sent, if the client has no waiter yet */
	struct replica_ask_terms terms; /* ASK_REPLICAS */
};

struct op_action {
	enum op_act act;
	enum transaction_guards guards; /* BEGIN_MULTI */
	bool drops_head; /* before all else, the link discards the reply that is due next */
	bool eval; /* AGAIN, NEXT */
	bool carried_out; /* END: EXEC's reply reports the locks as taken */
	struct slice answer; /* points into the request, out.own or a constant; empty:
	                      * out.text */
	struct resp_reply reply; /* ANSWER, END: the command's reply */
	struct slice captured; /* END: the reply's bytes, if it is EXEC's */
};

static inline struct slice op_answer(const struct op_action *a, const struct op_out *out)
{
	return a->answer.n ? a->answer : slice_str(out->text);
}

/* Redis' error for a write that reaches too few replicas. */
#define OP_NOREPLICAS "-NOREPLICAS Not enough good replicas to write.\r\n"

/* A request that is about to be sent, for the first time or again. */
struct op_request {
	const struct resp_view *req;
	struct command_keys keys;
	const struct rewrite_opts *opts;
	struct buf *out; /* where the call is written */
};

/* The steps of a call on a lock (lock_op.c), for all events but OP_REPLY. */
struct op_action lock_op_step(const struct op_facts *f, const struct op_event *e);
/* Returns how the link must handle the reply to the call: LINK_*. `waits`: the call may have to
 * wait in line. */
unsigned lock_op_flags(const struct pending_request *r, bool waits,
                       const struct rewrite_opts *opts);
/* Ends a request with `reply`: the client has got its answer. `is_cut_off`: no more bytes can
 * be sent to the client. Does nothing for a success without a waiter. */
void lock_op_reply(const struct pending_request *r, const struct hold_owner *holds, int db,
                   const struct waiter *waiter, bool is_cut_off,
                   const struct resp_reply *reply);
/* True if a reply of success must be confirmed before the client gets it: much of the lease may
 * be over, or replicas must have the lock. */
bool lock_op_is_late(const struct lock_request *p);
/* Undoes the locks of a request that takes several, if it ends without all of them or is
 * decided about again. Does nothing for a request of one lock. */
void lock_op_undo_parts(const struct pending_request *r, int db);
/* Call this when an EXEC is sent: begins the leases of the locks that it takes. Returns
 * whether its reply may come too late. */
bool lock_op_exec_sent(struct pending_request *exec);
/* True if a lock that the transaction took ended before its reply came. */
bool lock_op_exec_is_late(const struct pending_request *exec);

/* The steps of a command on guarded keys (guard_steps.c). */
struct op_action guard_steps_step(const struct op_facts *f, const struct op_event *e);
/* True if the line goes to the client unchanged, and no step follows. */
bool guard_steps_passes(const struct guard_op *op, struct slice line);
/* Handles a reply after which nothing has to be sent, as is usual. Returns OP_AWAIT if another
 * reply is due; OP_DONE if the request ends; OP_AGAIN if the event OP_NOT_FREE must follow;
 * OP_PASS if it did nothing, and the event OP_REPLY must follow. */
enum op_act guard_steps_reply(struct guard_op *op, const struct resp_reply *reply,
                              struct slice captured);
/* Sends the first step, or the one at which the operation was interrupted. */
void guard_steps_send(const struct op_facts *f, const struct op_request *call);
/* Sends the next step of a transaction, for OP_NEXT. */
void guard_steps_next(const struct op_facts *f, const struct rewrite_opts *opts);
/* Ends an operation that cannot wait for its guard. */
void guard_steps_give_up(const struct op_facts *f);
/* Returns how long the next step may wait in line, at most `most`, in ms. */
int64_t guard_steps_wait_ms(const struct guard_op *op, int64_t most);
/* True if the step must be repeated with its script's text. */
bool guard_steps_lacks_script(const struct guard_op *op);
/* True if EXEC's reply goes to the client unchanged. */
bool guard_steps_forward(const struct guard_op *op);
/* True if the last request may be withdrawn, so that Redis does not execute it. */
bool guard_steps_may_be_withdrawn(const struct guard_op *op);

#endif
