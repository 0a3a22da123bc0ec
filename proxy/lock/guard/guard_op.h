/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reading: a worker's books of what its connections have read under a guard and not written
 * since. They outlive the guard: who wants to write what it once read must still have the guard
 * then, however long that takes. Whether it has, the scripts decide.
 *
 *   begin --answered--> reading --written or lost--> gone
 *     `-- refused --> gone              `-- the connection ends --> its guard is released
 */
#ifndef HASP_LOCK_GUARD_GUARD_OP_H
#define HASP_LOCK_GUARD_GUARD_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"
#include "lock/scripts/script_job.h"
#include "lock/rewrite/guard.h"
#include "resp/reply.h"

/* A connection has no more than this. One that wants more forgets the oldest, and has, from
 * then on, to have read whatever guarded key it writes. */
#define READ_SET_MAX 1024

struct read_sets; /* a worker's */

struct read_sets *read_sets_new(struct script_jobs *script_jobs);
void read_sets_free(struct read_sets *r); /* no readers are left */

/* A connection's. */
struct read_set {
	struct list read_sets;
	uint32_t n;
	bool overflowed; /* there were more than READ_SET_MAX; then those that are written stay,
	                  * for what is not there counts as read */
};
void read_set_init(struct read_set *r);

/* One key. */
struct read_set_entry {
	struct map_node by_id; /* database and key */
	struct list node; /* in its reader's list, oldest first */
	struct read_set *read_set;
	struct read_sets *table;
	struct slice token; /* by which the guard was taken */
	double until; /* clock_now(): when the guard may be over, if it is not taken again */
	bool read; /* answered; else it is being asked for */
	bool release; /* with the connection */
	bool shared; /* several connections may be this owner */
	bool renamed; /* what counts as read was so under another token */
	bool lost; /* another one had the guard since it was read, as far as is known here */
	int64_t lease_ms;
};

/* NULL: none. */
struct read_set_entry *read_set_find(struct read_sets *table, const struct read_set *r, int db,
                                     struct slice key);
struct slice read_set_entry_key(const struct read_set_entry *x);

/* The connection ended: guards that it may have are released. */
void read_set_end(struct read_set *r);

/* How it is made sure that nothing is written by who lost a guard. */
enum guard_op_kind {
	GUARD_OP_SCRIPT, /* check and command are one script */
	GUARD_OP_OPTIMISTIC, /* a read that may have to go by its script after all */
	GUARD_OP_SINGLE, /* a transaction, of which the guards are watched, around the command
	                  */
	GUARD_OP_BLOCK, /* the application's transaction, likewise */
	GUARD_OP_WATCHED, /* the same, and the application watches keys of its own */
};

/* What became of it. */
enum guard_op_result {
	GUARD_OP_DONE,
	GUARD_OP_PARTLY, /* of a transaction's commands, one or the other may have failed: what
	                   they read counts as read, and what they wrote, as not written yet */
	GUARD_OP_FAILED, /* nothing was done */
};

/* A command on guarded keys that is under way: what becomes of its readings when it ends. */
#define GUARD_OP_TICKET_MAX 40
struct guard_op {
	struct read_sets *table;
	bool writes;
	double sent_at; /* clock_now() */
	int64_t wait_ms; /* it may stand in line for so long */
	char ticket[GUARD_OP_TICKET_MAX]; /* of the try */
	enum guard_op_kind kind;
	unsigned due; /* answers before the one that decides */
	unsigned attempts;
	bool has_waiters; /* GUARD_OP_OPTIMISTIC: somebody stands in line */
	bool executing; /* else it is being checked */
	bool taking; /* those that guard_op_takes() */
	bool is_new; /* (taken) nobody had read under one of them: what was read before is old
	              */
	bool taken; /* they were, or (GUARD_OP_SCRIPT, GUARD_OP_OPTIMISTIC) what a read needs */
	size_t ncommands; /* in the transaction */
	struct buf block; /* its commands; GUARD_OP_SINGLE: empty, it is the client's request */
	struct buf error; /* the first one among what was due; empty: none */
	bool handing_off; /* it was carried out, and its guards are being released */
	enum guard_op_result end; /* (handing_off) its own */
	struct buf answer; /* (handing_off) Redis' whole answer */
	size_t answer_from; /* where in it the client's begins */
	struct resp_reply reply; /* (handing_off) that tells of it */
	size_t queued_at; /* the key for which it stands in line */
	size_t n;
	struct guard_op_key {
		struct read_set_entry *read_set_entry;
		int64_t lease_ms;
		bool must_own; /* its connection may have read it */
		bool writes; /* it may be written */
		bool acquires; /* read last */
		bool releases;
	} keys[]; /* in the keys' order */
};

struct guard_op *guard_op_new(struct read_sets *table, struct read_set *r, int db,
                              const struct guarded_command *g, bool writes,
                              struct slice ticket);
/* One of all that the reader has read in database `db`. NULL: nothing. */
struct guard_op *guard_op_of_read_set(struct read_sets *table, struct read_set *r, int db);
void guard_op_free(struct guard_op *call); /* NULL is allowed */

/* The call that checks all of its keys: see rewrite_guard_check(). For another try, with
 * another ticket. */
void guard_op_write_check(struct guard_op *call, struct buf *out, struct rewrite_how how);
/* Is its guard to be taken before the check? */
bool guard_op_takes(const struct guard_op *call, size_t i);
/* The call that takes those: see rewrite_guard_read(). */
void guard_op_write_acquire(struct guard_op *call, struct buf *out, struct rewrite_how how);
/* WATCH with the guards' names. */
void guard_op_write_watch(const struct guard_op *call, struct buf *out);

/* Guards that are not their owner's yet are acquired first, so that a transaction that reads
 * has them when it has ended. */
bool guard_op_must_acquire(const struct guard_op *op);
/* Appends the next step of a transaction, up to the script that decides about the one behind
 * it. Returns how many answers come before that one's. */
unsigned guard_op_write_next(struct guard_op *op, struct rewrite_how how, struct buf *out);

/* Where key `i` of those that were sent stands among the parts; n: there is none. */
size_t guard_op_key_at(const struct guard_op *call, size_t i);
/* What a waiter needs to know of part `i`; `name`: room for its guard's name. */
struct lock_try guard_op_try(const struct guard_op *call, size_t i, struct buf *name);

/* (GUARD_OP_SCRIPT) The guards are its owner's now, as `line` has it: +GRANTED ... */
void guard_op_granted(struct guard_op *call, struct slice line);
/* It was answered with this error line: a key that was lost counts as read no more. */
void guard_op_failed(struct guard_op *call, struct slice line);
/* It was answered. */
void guard_op_complete(struct guard_op *call, enum guard_op_result end);
/* Nobody will see the answer: what it reads counts as read. Frees it. */
void guard_op_assume(struct guard_op *call);
/* The answer will never come: it leaves the line, and what it took is given back. */
void guard_op_undo(struct guard_op *call);
/* Appends the calls that give back what the command does not need any more, and, if it `took`
 * guards for itself, those that it has not read under, or that note what it has read; returns
 * how many. */
size_t guard_op_write_release(const struct guard_op *call, enum guard_op_result end, bool took,
                              struct buf *out);
/* Does it release or note, when it is done, guards of owners that other connections are, too?
 * Those must not go on before Redis has done so: what they read then would be forgotten. */
bool guard_op_is_shared(const struct guard_op *call);
/* The same by hasp's own connection, when there is no other. */
void guard_op_release(const struct guard_op *call, enum guard_op_result end, bool took);

#endif
