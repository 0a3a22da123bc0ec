/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_op: one command on guarded keys, from its first try to its answer: the requests that
 * hasp sends for it, and the steps that the answers lead to. No I/O: client/exchange.c
 * sends.
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
 * In a transaction of hasp's own, which watches the guards, around the command
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
 * If a script refuses (REFUSED), the operation ends, too: DONE. It also ends when the time to
 * wait is over and hasp has withdrawn the script, because no server of a cluster has it. If
 * replicas must have the guards, hasp asks them after GRANTED, before the next step; if too few
 * have them (UNACKED), the operation ends.
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
	GUARD_OP_SINGLE, /* a transaction around the command, which watches the guards */
	GUARD_OP_BLOCK, /* the application's transaction, which watches the guards, too */
	GUARD_OP_WATCH_MULTI, /* the application watches keys of its own: its MULTI */
	GUARD_OP_WATCH_EXEC, /* and its EXEC */
};

/* The request in flight, or the event that the operation waits for. */
enum guard_op_phase {
	GUARD_OP_NEW, /* nothing was sent yet */
	GUARD_OP_TRY, /* an optimistic acquire: three commands instead of a script */
	GUARD_OP_SCRIPTED, /* the script that checks, and carries out the command */
	GUARD_OP_ACQUIRE, /* the script that acquires the guards that the transaction needs */
	GUARD_OP_CHECK, /* WATCH, and the script that checks all guards */
	GUARD_OP_QUEUED, /* nothing is in flight: the operation waits in line for a guard */
	GUARD_OP_EXECUTE, /* the command as it came, or MULTI ... EXEC */
	GUARD_OP_DONE,
};
#define GUARD_OP_PHASES (GUARD_OP_DONE + 1)

/* Events of an operation. */
enum guard_op_event {
	GUARD_EVENT_START, /* hasp may send the first request */
	GUARD_EVENT_NOSCRIPT,
	GUARD_EVENT_GRANTED, /* `+GRANTED ...` */
	GUARD_EVENT_QUEUED, /* `+QUEUED ...` */
	GUARD_EVENT_REFUSED, /* an error instead of one of these */
	GUARD_EVENT_NOT_FREE, /* the optimistic acquire failed */
	GUARD_EVENT_REPLY, /* reply of the command, or of EXEC */
	GUARD_EVENT_CHANGED, /* EXEC answered nil: a guard changed before it */
	GUARD_EVENT_RESUMED, /* Redis granted the guard, or the place in line was lost */
	GUARD_EVENT_TIMED_OUT,
	GUARD_EVENT_UNACKED, /* too few replicas have the granted guards */
};
#define GUARD_OP_EVENTS (GUARD_EVENT_UNACKED + 1)

/* The next step for the caller. */
enum guard_op_step {
	GUARD_STEP_NONE, /* the event does not belong to the phase: a bug, or a broken server */
	GUARD_STEP_SEND_TRY,
	GUARD_STEP_SEND_SCRIPT,
	GUARD_STEP_SEND_NEXT, /* guard_op_write_next() */
	GUARD_STEP_SEND_COMMAND, /* unchanged, as the client sent it */
	GUARD_STEP_SEND_EXEC, /* MULTI, the commands, EXEC; or the application's EXEC */
	GUARD_STEP_WAIT, /* in line for a guard */
	GUARD_STEP_BEGIN_MULTI, /* send the application's MULTI */
	GUARD_STEP_ABORT, /* answer by the error; Redis has carried out nothing */
	GUARD_STEP_GIVE_UP, /* the guards changed too often; Redis has carried out nothing */
	GUARD_STEP_TIME_OUT,
	GUARD_STEP_FINISH, /* answer by the reply */
};

/* How an operation ended. */
enum guard_op_result {
	GUARD_OP_CARRIED_OUT,
	GUARD_OP_PARTLY, /* some of a transaction's commands may have failed: the keys that they
	                  * read count as read, and the keys that they wrote as not written */
	GUARD_OP_FAILED, /* Redis has done nothing */
};

/* The script that a GUARD_OP_SCRIPT needs. */
enum guard_op_script {
	GUARD_OP_READ, /* guard_read.lua, which carries out the command */
	GUARD_OP_READ_APART, /* guard_read.lua, which leaves the command to hasp */
	GUARD_OP_WRITE, /* guard_finish.lua or guard_write.lua */
};

#define GUARD_OP_TICKET_MAX 40
struct guard_op {
	enum guard_op_kind kind;
	enum guard_op_phase phase; /* guard_op_step.c writes it */
	enum guard_op_script script;
	struct read_sets *table;
	struct freelist *freelist; /* the operation's memory goes there; NULL: to the heap */
	bool optimistic; /* the operation begins with an optimistic acquire */
	bool writes;
	bool has_waiters; /* TRY: clients wait for the guard */
	bool acquired; /* the operation has acquired guards */
	unsigned due; /* replies to skip before the one that decides */
	unsigned attempts; /* how often a guard changed under the transaction */
	double sent_at; /* clock_now(), in seconds */
	int64_t wait_ms; /* how long it may wait in line; 0: not at all */
	int64_t replicas, replicas_timeout_ms; /* how many must have its guards; 0: none */
	char ticket[GUARD_OP_TICKET_MAX]; /* ticket of the last request */
	size_t ncommands; /* BLOCK: commands in `block` */
	struct buf block; /* BLOCK: its commands */
	bool block_open; /* BLOCK: Redis has queued them; they must be discarded first */
	struct buf error; /* the first error among the `due` answers; empty: none */
	bool aborted; /* BLOCK: Redis had refused to queue one of its commands */
	bool answered; /* (failed) the client got Redis' own error about the key, such as
	                * WRONGTYPE: hasp did not refuse its reads */
	size_t queued_at; /* QUEUED: index of the key for whose guard it waits */
	size_t n;
	struct guard_op_key {
		struct read_set_entry *entry;
		int64_t lease_ms;
		bool must_own; /* the connection may have read the key */
		bool writes; /* the command may write the key */
		bool acquires; /* the last access is a read */
		bool told; /* the owner got the error that it was lost: hasp refused a write,
		            * and an earlier read counts no more */
		bool releases;
	} keys[]; /* in the keys' order */
};

/* Size of an operation with one key, as most have. */
#define GUARD_OP_SINGLE_SIZE (sizeof(struct guard_op) + sizeof(struct guard_op_key))

/* `freelist`: has blocks of GUARD_OP_SINGLE_SIZE bytes, and must outlive the operation; `now`:
 * clock_now(). */
struct guard_op *guard_op_new(struct read_sets *table, struct freelist *freelist,
                              struct read_set *r, int db, const struct guarded_command *g,
                              enum guard_op_kind kind, double now);
/* Makes an operation of all keys that the connection has read in database `db`; NULL: none. */
struct guard_op *guard_op_of_read_set(struct read_sets *table, struct freelist *freelist,
                                      struct read_set *r, int db, enum guard_op_kind kind,
                                      double now);
void guard_op_free(struct guard_op *op); /* NULL is allowed */
size_t guard_op_nbytes(const struct guard_op *op); /* of memory */

/* After how many changes of its guards hasp gives up a transaction. */
#define GUARD_OP_ATTEMPTS 100

/* Handles an event: changes the phase, and returns the next step. */
enum guard_op_step guard_op_step(struct guard_op *op, enum guard_op_event event);

/* Returns the event that a line, `+...` or `-...`, of an answer to a script means. */
enum guard_op_event guard_op_event_of(struct slice line);

/* --- requests --- */

/* Notes that the request is sent now, with this ticket; `now`: clock_now(). */
void guard_op_sent(struct guard_op *op, struct slice ticket, double now);
/* Writes the optimistic acquire of `req`. The answers before the last one go to
 * guard_op_tried().
 */
void guard_op_write_try(struct guard_op *op, struct buf *out, const struct resp_view *req);
/* Writes the script for `req`. `all`: its keys, guarded or not. */
void guard_op_write_script(struct guard_op *op, struct buf *out, const struct resp_view *req,
                           struct command_keys all, const struct rewrite_opts *opts);
/* Writes the next step of a transaction, up to the script on which the step after it depends;
 * sets the phase to ACQUIRE or CHECK. Returns how many answers come before that script's. */
unsigned guard_op_write_next(struct guard_op *op, struct buf *out,
                             const struct rewrite_opts *opts);

/* --- answers --- */

/* (TRY) Handles an answer before the last one. Returns true if others will follow, false if the
 * acquire failed. Sets op->due to 0 when the last one counts. */
bool guard_op_tried(struct guard_op *op, const struct resp_reply *reply);
/* Handles `+GRANTED ...`: the owner has the guards. */
void guard_op_granted(struct guard_op *op, struct slice line);
/* Handles an error: a key that was lost counts as read no more. An error that is not hasp's own
 * may mean that Redis has not run the script. */
void guard_op_refused(struct guard_op *op, struct slice line);
/* The operation has to wait for the key that `+QUEUED place now held i` names. Writes the try
 * for its waiter, with the guard's name in `name`, and the guard's lease; returns false when
 * there is no such key. */
bool guard_op_queue(struct guard_op *op, struct slice line, struct buf *name, struct attempt *t,
                    int64_t *lease_ms);
/* The operation has ended with this result: updates the entries of its keys. */
void guard_op_complete(struct guard_op *op, enum guard_op_result result);
/* The command was not carried out, and hasp decides again about it: its keys count as before.
 */
void guard_op_withdraw(struct guard_op *op);
/* hasp will not see the answer: the keys that the command reads count as read. Frees `op`. */
void guard_op_assume(struct guard_op *op);
/* The answer will never come: leaves the line, and releases the acquired guards; with
 * `keeps_read`, except those of keys that the connection had read before. */
void guard_op_undo(struct guard_op *op, bool keeps_read);

/* True if replicas must have the granted guards before the next step. */
bool guard_op_awaits_replicas(const struct guard_op *op);
/* Returns the try of one of the operation's guards, with its name in `name`. One script has
 * written all of them. */
struct attempt guard_op_granted_try(const struct guard_op *op, struct buf *name);

/* Returns the first of the operation's keys, in their order. */
struct slice guard_op_first_key(const struct guard_op *op);
/* Returns the key that the operation waits for. */
struct slice guard_op_queued_key(const struct guard_op *op);

/* --- release --- */

/* Appends the calls that release the guards which the command does not need any more and, if it
 * `acquired` guards, those under which it did not read. Returns how many. */
size_t guard_op_write_release(const struct guard_op *op, enum guard_op_result result,
                              bool acquired, struct buf *out);
/* Like guard_op_write_release(), but over hasp's own connection. */
void guard_op_release(const struct guard_op *op, enum guard_op_result result, bool acquired);

#endif
