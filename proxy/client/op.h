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
	OP_LINE, /* Redis' reply is `line`, a status or an error; the client has not got it */
	OP_REPLY, /* a reply of Redis is complete; the link has passed or discarded it */
	OP_NOT_FREE, /* a guard that hasp tried to acquire was not free */
	OP_GRANTED, /* the waiter has the lock */
	OP_ACKED, /* the replicas have answered, or did not in time */
	OP_TIMED_OUT, /* the time of the wait is over */
	OP_DEADLOCK, /* the wait is part of a deadlock; `line` is the error */
};

struct op_event {
	enum op_event_kind kind;
	struct slice line; /* LINE, DEADLOCK: the line, with CR LF */
	const struct resp_reply *reply; /* REPLY: the description of the reply */
	struct slice captured; /* REPLY: the reply's bytes, if the link captured them */
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
	bool in_line; /* the client waits in line for a lock */
	struct waiter *waiter; /* NULL: the request did not have to wait yet */
	const struct hold_owner *holds;
	bool has_link;
	const struct waiters *waiters;
	double now; /* clock_now() at the event */
	struct slice bytes; /* the request, as it came */
	struct slice outage; /* TIMED_OUT: an error if hasp cannot reach the lock's server */
	struct op_out *out;
};

enum op_act {
	OP_PASS, /* after a LINE: the client gets the reply unchanged */
	OP_AWAIT, /* await the reply to the bytes in op_out.send */
	OP_AGAIN, /* send the request again, with the script's text if `eval` */
	OP_NEXT, /* send what guard_steps_next() writes, with the script's text if `eval` */
	OP_BEGIN_MULTI, /* send the application's MULTI, which hasp held back until now */
	OP_WAIT, /* put the client in line for the lock op_out.lock */
	OP_CONFIRM, /* ask Redis whether the client still has the lock op_out.lock */
	OP_ASK_REPLICAS, /* ask replicas whether they have the lock op_out.lock */
	OP_ANSWER, /* send the answer to the client, and end a call on a lock with `reply` */
	OP_END, /* send the answer, if there is one, and end the request with `reply` */
	OP_DONE, /* as OP_END, but the session, locks and watched keys stay as they are */
	OP_CLOSE, /* close the client: hasp does not understand Redis' answer */
};

/* Bytes that exchange.c sends over the client's link before it takes the action, and how the
 * link handles their replies. */
struct op_send {
	struct buf bytes; /* the first bytes; exchange.c releases the buffer */
	struct slice more; /* bytes after `bytes`, which another struct owns */
	bool is_call; /* `more` calls a script, which keeps Redis busy for longer */
	unsigned ndiscards; /* number of first replies, which hasp discards */
	unsigned nunseen, unseen; /* number of further replies, and how the link handles them:
	                           * LINK_* */
	unsigned flags; /* how the link handles the last reply; 0: there is none */
};

/* The output of a step table, besides the action. exchange.c empties the struct before the
 * step, and releases its buffers after the action. */
struct op_out {
	struct op_send send;
	struct buf own; /* memory for bytes of `lock` or of the answer */
	char text[64]; /* space for a short answer */
	struct attempt lock; /* WAIT, CONFIRM, ASK_REPLICAS: the lock of the action */
	struct slice line; /* WAIT: Redis' answer `+QUEUED place now held` */
	/* WAIT: the counters of the key's section; NULL: hasp does not count the waiter. */
	struct section_stats *stats;
	int64_t wait_ms; /* WAIT, if the client has no waiter: how long the client may wait */
	double sent_at; /* WAIT, if the client has no waiter: when hasp sent the request */
	struct replica_ask_terms terms; /* ASK_REPLICAS: the terms of the question */
};

struct op_action {
	enum op_act act;
	enum transaction_guards guards; /* BEGIN_MULTI: how guards affect the transaction */
	bool drops_head; /* first of all, the link discards the reply that is due next */
	bool eval; /* AGAIN, NEXT: Redis lacks the script, so send its text */
	bool carried_out; /* END: EXEC's reply reports the locks as taken */
	struct slice answer; /* points into the request, into op_out or to a constant. Empty:
	                      * there is no answer */
	struct resp_reply reply; /* ANSWER, END: the command's reply */
	struct slice captured; /* END: the reply's bytes, if it is EXEC's */
};

/* Redis' error for a write that reaches too few replicas. */
#define OP_NOREPLICAS "-NOREPLICAS Not enough good replicas to write.\r\n"

/* A request that is about to be sent, for the first time or again. */
struct op_request {
	const struct resp_view *req;
	struct command_keys keys;
	const struct rewrite_opts *opts;
	struct buf *out; /* the buffer for the call */
};

/* The steps of a call on a lock (lock_op.c), for all events but OP_REPLY. */
struct op_action lock_op_step(const struct op_facts *f, const struct op_event *e);
/* Returns how the link must handle the reply to a call: LINK_*. `waits`: the call may have to
 * wait in line. */
unsigned lock_op_flags(const struct pending_request *r, bool waits,
                       const struct rewrite_opts *opts);
/* Ends a request with `reply`, after the client has got its answer. `is_cut_off`: hasp can send
 * the client no more bytes. If false, does nothing for a success without a waiter. */
void lock_op_reply(const struct pending_request *r, const struct hold_owner *holds, int db,
                   const struct waiter *waiter, bool is_cut_off,
                   const struct resp_reply *reply);
/* True if hasp must confirm a success before the client gets the reply: much of the lease may
 * be over, or replicas must have the lock. */
bool lock_op_is_late(const struct lock_request *p);
/* Undoes the locks of an MLOCK that ends without all of them, or about which hasp decides
 * again. Does nothing for a request of one lock. */
void lock_op_undo_parts(const struct pending_request *r, int db);
/* Call this when an EXEC is sent: begins the leases of the locks that it takes. Returns true if
 * its reply may come too late. */
bool lock_op_exec_sent(struct pending_request *exec);
/* True if the transaction took a lock that ended before the reply to EXEC came. */
bool lock_op_exec_is_late(const struct pending_request *exec);

/* The steps of a command on guarded keys (guard_steps.c). */
struct op_action guard_steps_step(const struct op_facts *f, const struct op_event *e);
/* True if `line`, Redis' reply, goes to the client unchanged, and no step follows. */
bool guard_steps_passes(const struct guard_op *op, struct slice line);
/* Handles most replies: those after which hasp sends nothing. Returns OP_AWAIT if another reply
 * is due; OP_DONE if the request ends; OP_AGAIN if the event OP_NOT_FREE must follow; OP_PASS,
 * having done nothing, if the event OP_REPLY must follow. */
enum op_act guard_steps_reply(struct guard_op *op, const struct resp_reply *reply,
                              struct slice captured);
/* Sends the first step, or the step at which the operation was interrupted. */
void guard_steps_send(const struct op_facts *f, const struct op_request *call);
/* Sends the next step of a transaction, for OP_NEXT. */
void guard_steps_next(const struct op_facts *f, const struct rewrite_opts *opts);
/* Ends an operation that needs to wait for its guard but cannot. */
void guard_steps_give_up(const struct op_facts *f);
/* Returns how long the next step may wait in line, at most `most`, in ms. */
int64_t guard_steps_wait_ms(const struct guard_op *op, int64_t most);
/* True if hasp must repeat the step with the script's text, because Redis lacks the script. */
bool guard_steps_lacks_script(const struct guard_op *op);
/* True if EXEC's reply goes to the client unchanged. */
bool guard_steps_forward(const struct guard_op *op);
/* True if hasp may withdraw the last request, so that Redis does not execute it. */
bool guard_steps_may_be_withdrawn(const struct guard_op *op);

#endif
