/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_op: one command on guarded keys, from its first try to its answer: what has been sent,
 * what an answer means, and what is to be done next. No I/O: client/guard_exchange.c sends.
 *
 * A command that one script can carry out (GUARD_OP_SCRIPT):
 *
 *      NEW --+--> TRY --not free--> SCRIPT <--NOSCRIPT, granted, or its place was lost--.
 *            |     |                 ^ | | `--QUEUED------> QUEUED ---------------------'
 *            |     | reply           | | `----GRANTED---.      |
 *            `-----+-----------------' | reply          v      | timed out
 *                  `-------------------+------------> EXECUTE  |
 *                                      v                 |     v
 *                                     DONE <--reply------'   DONE
 *
 * In a transaction of hasp's own, of which the guards are watched, around the command
 * (GUARD_OP_SINGLE) or instead of the application's (GUARD_OP_BLOCK):
 *
 *      NEW -+--> ACQUIRE --GRANTED-.      .---- a guard changed ----.
 *           |     | ^              v      v                         |
 *           `-----|-|------------> CHECK -----GRANTED----> EXECUTE -'--reply--> DONE
 *                 | |              | ^
 *          QUEUED | | granted      | | granted
 *                 v |              v |
 *                QUEUED           QUEUED --timed out--> DONE
 *
 * An application may swallow the error of a read that was refused. So its next write is refused
 * (read_set_entry_refused()).
 *
 * A script that refuses (REFUSED) ends it, too: DONE. So does the end of the wait, if the
 * script was sent and no server of a cluster has it: then it was withdrawn. Where replicas must
 * have the guards, they are asked after GRANTED, before what follows is sent; if too few have
 * them (UNACKED), it is over.
 *
 * Around the application's own WATCH, its MULTI waits for a CHECK (GUARD_OP_WATCH_MULTI), and
 * its EXEC is sent as it is (GUARD_OP_WATCH_EXEC: EXECUTE).
 */
#ifndef HASP_LOCK_GUARD_GUARD_OP_H
#define HASP_LOCK_GUARD_GUARD_OP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/freelist.h"
#include "base/slice.h"
#include "lock/guard/read_set.h"
#include "lock/rewrite/guard.h"
#include "resp/reply.h"

enum guard_op_kind {
	GUARD_OP_SCRIPT, /* check and command are one script */
	GUARD_OP_SINGLE, /* a transaction, of which the guards are watched, around the command
	                  */
	GUARD_OP_BLOCK, /* the application's transaction, likewise */
	GUARD_OP_WATCH_MULTI, /* the application watches keys of its own: its MULTI */
	GUARD_OP_WATCH_EXEC, /* and its EXEC */
};

/* What is in flight, or waited for. */
enum guard_op_phase {
	GUARD_OP_NEW, /* nothing was sent yet */
	GUARD_OP_TRY, /* an optimistic acquire: three commands instead of a script */
	GUARD_OP_SCRIPTED, /* the script that checks, and carries out the command */
	GUARD_OP_ACQUIRE, /* the script that acquires what the transaction reads */
	GUARD_OP_CHECK, /* WATCH, and the script that checks all guards */
	GUARD_OP_QUEUED, /* nothing is in flight: it waits in line for a guard */
	GUARD_OP_EXECUTE, /* the command as it came, or MULTI ... EXEC */
	GUARD_OP_DONE,
};
#define GUARD_OP_PHASES (GUARD_OP_DONE + 1)

/* What happens to it. */
enum guard_op_event {
	GUARD_EVENT_START, /* it may be sent */
	GUARD_EVENT_NOSCRIPT,
	GUARD_EVENT_GRANTED, /* `+GRANTED ...` */
	GUARD_EVENT_QUEUED, /* `+QUEUED ...` */
	GUARD_EVENT_REFUSED, /* an error in the place of those */
	GUARD_EVENT_NOT_FREE, /* the optimistic acquire was in vain */
	GUARD_EVENT_REPLY, /* of the command, or of EXEC */
	GUARD_EVENT_CHANGED, /* EXEC answered nil: a guard changed meanwhile */
	GUARD_EVENT_RESUMED, /* the guard was handed to it, or its place in line was lost */
	GUARD_EVENT_TIMED_OUT,
	GUARD_EVENT_UNACKED, /* too few replicas have what was granted */
};
#define GUARD_OP_EVENTS (GUARD_EVENT_UNACKED + 1)

/* What is to be done next. */
enum guard_op_step {
	GUARD_STEP_NONE, /* the event does not belong to the phase: a bug, or a broken server */
	GUARD_STEP_SEND_TRY,
	GUARD_STEP_SEND_SCRIPT,
	GUARD_STEP_SEND_NEXT, /* guard_op_write_next() */
	GUARD_STEP_SEND_COMMAND, /* as it came */
	GUARD_STEP_SEND_EXEC, /* MULTI, the commands, EXEC; or the application's EXEC */
	GUARD_STEP_WAIT, /* it is in line for a guard */
	GUARD_STEP_BEGIN_MULTI, /* the application's MULTI */
	GUARD_STEP_ABORT, /* nothing is carried out; the error is its answer */
	GUARD_STEP_GIVE_UP, /* nothing is carried out: the guards changed too often */
	GUARD_STEP_TIME_OUT,
	GUARD_STEP_FINISH, /* the reply is its answer */
};

/* What became of it. */
enum guard_op_result {
	GUARD_OP_CARRIED_OUT,
	GUARD_OP_PARTLY, /* of a transaction's commands, one or the other may have failed: what
	                    they read counts as read, and what they wrote, as not written yet */
	GUARD_OP_FAILED, /* nothing was done */
};

/* Which script a GUARD_OP_SCRIPT needs. */
enum guard_op_script {
	GUARD_OP_READ, /* guard_read.lua, which carries it out */
	GUARD_OP_READ_APART, /* guard_read.lua, which leaves the command to hasp */
	GUARD_OP_WRITE, /* guard_finish.lua or guard_write.lua */
};

#define GUARD_OP_TICKET_MAX 40
struct guard_op {
	enum guard_op_kind kind;
	enum guard_op_phase phase; /* guard_op_step.c writes it */
	enum guard_op_script script;
	struct read_sets *table;
	struct freelist *freelist; /* where its memory goes; NULL: to the heap */
	bool optimistic; /* it begins with an optimistic acquire */
	bool writes;
	bool has_waiters; /* TRY: clients wait for the guard */
	bool acquired; /* it has guards that it did not have before */
	unsigned due; /* answers that come before the one that decides */
	unsigned attempts; /* how often a guard changed under the transaction */
	double sent_at; /* clock_now(), in seconds */
	int64_t wait_ms; /* for how long it may be in line; 0: not at all */
	int64_t replicas, replicas_timeout_ms; /* that must have what it acquires; 0: none */
	char ticket[GUARD_OP_TICKET_MAX]; /* of what was sent last */
	size_t ncommands; /* BLOCK: in `block` */
	struct buf block; /* BLOCK: its commands */
	bool block_open; /* BLOCK: Redis has queued them; they must be discarded first */
	struct buf error; /* the first one among what was due; empty: none */
	bool aborted; /* BLOCK: Redis had refused to queue one of its commands */
	bool answered; /* (failed) the client was told in Redis' words what is there, as by
	                * WRONGTYPE: its reads were not refused */
	size_t queued_at; /* QUEUED: index of the key for whose guard it waits */
	size_t n;
	struct guard_op_key {
		struct read_set_entry *entry;
		int64_t lease_ms;
		bool must_own; /* its connection may have read it */
		bool writes; /* it may be written */
		bool acquires; /* read last */
		bool told; /* its owner heard that it was lost: a write was refused, and a
		            * read of before counts no more */
		bool releases;
	} keys[]; /* in the keys' order */
};

/* An operation of one key, as most are. */
#define GUARD_OP_SINGLE_SIZE (sizeof(struct guard_op) + sizeof(struct guard_op_key))

/* `freelist`: of blocks of GUARD_OP_SINGLE_SIZE bytes, which outlives it; `now`: clock_now().
 */
struct guard_op *guard_op_new(struct read_sets *table, struct freelist *freelist,
                              struct read_set *r, int db, const struct guarded_command *g,
                              enum guard_op_kind kind, double now);
/* One of all that was read in database `db`. NULL: nothing was. */
struct guard_op *guard_op_of_read_set(struct read_sets *table, struct freelist *freelist,
                                      struct read_set *r, int db, enum guard_op_kind kind,
                                      double now);
void guard_op_free(struct guard_op *op); /* NULL is allowed */
size_t guard_op_nbytes(const struct guard_op *op); /* of memory */

/* After so many changes of its guards a transaction is given up. */
#define GUARD_OP_ATTEMPTS 100

/* Something happened. Returns what is to be done, and changes the phase accordingly. */
enum guard_op_step guard_op_step(struct guard_op *op, enum guard_op_event event);

/* The event that a line, `+...` or `-...`, of an answer to a script is. */
enum guard_op_event guard_op_event_of(struct slice line);

/* --- what is sent --- */

/* `how->ticket` and the time count from here on; `now`: clock_now(). */
void guard_op_sent(struct guard_op *op, struct slice ticket, double now);
/* The optimistic acquire of `req`. Its answers before the last one go to guard_op_tried(). */
void guard_op_write_try(struct guard_op *op, struct buf *out, const struct resp_view *req);
/* The script for `req`. `args`: the indices of all its keys, guarded or not. */
void guard_op_write_script(struct guard_op *op, struct buf *out, const struct resp_view *req,
                           const size_t *args, size_t nargs, const struct rewrite_how *how);
/* The next step of a transaction, up to the script that decides about the one behind it; sets
 * the phase to ACQUIRE or CHECK. Returns how many answers come before that one's. */
unsigned guard_op_write_next(struct guard_op *op, struct buf *out,
                             const struct rewrite_how *how);

/* --- what is answered --- */

/* (TRY) One of the answers before the last. True: there are others to come. False: the acquire
 * was in vain. Sets op->due to 0 when the last one counts. */
bool guard_op_tried(struct guard_op *op, const struct resp_reply *reply);
/* `+GRANTED ...`: the guards are its owner's. */
void guard_op_granted(struct guard_op *op, struct slice line);
/* An error: a key that was lost counts as read no more. One that is not hasp's own may stand
 * for a script that Redis has not run. */
void guard_op_refused(struct guard_op *op, struct slice line);
/* It has to wait for the key that `+QUEUED place now held i` names. Returns what a waiter must
 * know, with the guard's name in `name`, and writes the guard's lease; returns false when there
 * is no such key. */
bool guard_op_queue(struct guard_op *op, struct slice line, struct buf *name,
                    struct lock_try *t, int64_t *lease_ms);
/* Redis carried it out, or not. Its keys' entries are as they are to be then. */
void guard_op_complete(struct guard_op *op, enum guard_op_result result);
/* It was not carried out, and is decided about anew: its keys count as they did before. */
void guard_op_withdraw(struct guard_op *op);
/* hasp will not see the answer: what it reads counts as read. Frees it. */
void guard_op_assume(struct guard_op *op);
/* The answer will never come: it leaves the line, and what it acquired is released;
 * `keeps_read`: but not the guards of what the connection had read before. */
void guard_op_undo(struct guard_op *op, bool keeps_read);

/* Must replicas have what was granted, before it goes on? */
bool guard_op_awaits_replicas(const struct guard_op *op);
/* One of the guards that it has, with its name in `name`. A script has written all of them. */
struct lock_try guard_op_granted_try(const struct guard_op *op, struct buf *name);

/* The first of its keys, in their order. */
struct slice guard_op_first_key(const struct guard_op *op);
/* The key that it waits for. */
struct slice guard_op_queued_key(const struct guard_op *op);

/* --- what is released --- */

/* Appends the calls that release the guards which the command does not need any more and, if it
 * `acquired` guards, those that it did not read under. Returns how many. */
size_t guard_op_write_release(const struct guard_op *op, enum guard_op_result result,
                              bool acquired, struct buf *out);
/* As guard_op_write_release(), by hasp's own connection. */
void guard_op_release(const struct guard_op *op, enum guard_op_result result, bool acquired);

#endif
