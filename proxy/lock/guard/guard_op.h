/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_op: one command on guarded keys, from hasp's first request to the client's answer.
 * Writes the requests, and turns Redis' answers into the next step. No I/O: client/exchange.c
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
 * In a transaction of hasp's own, which watches the guards: around one command
 * (GUARD_OP_SINGLE), or in place of the application's transaction (GUARD_OP_BLOCK):
 *
 *      NEW -+--> ACQUIRE --GRANTED-.      .---- a guard changed ----.
 *           |     | ^              v      v                         |
 *           `-----|-|------------> CHECK -----GRANTED----> EXECUTE -'--reply--> DONE
 *                 | |              | ^
 *          QUEUED | | granted      | | granted
 *                 v |              v |
 *                QUEUED           QUEUED --timed out--> DONE
 *
 * The operation also ends (DONE) if a script refuses (REFUSED), or if the time to wait is over
 * and hasp has withdrawn the script, because no server of a cluster has it. If replicas must
 * have the guards, hasp asks them after GRANTED, before the next step; if too few have them
 * (UNACKED), the operation ends.
 *
 * If the application itself uses WATCH, its MULTI waits for a CHECK (GUARD_OP_WATCH_MULTI), and
 * hasp sends its EXEC unchanged (GUARD_OP_WATCH_EXEC: EXECUTE).
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
	GUARD_OP_SCRIPT, /* one script checks the guards and runs the command */
	GUARD_OP_SINGLE, /* a transaction around the command, which watches the guards */
	GUARD_OP_BLOCK, /* the application's transaction; hasp adds a WATCH for the guards */
	GUARD_OP_WATCH_MULTI, /* MULTI of an application that has sent WATCH */
	GUARD_OP_WATCH_EXEC, /* EXEC of an application that has sent WATCH */
};

/* The request in flight, or the event that the operation waits for. */
enum guard_op_phase {
	GUARD_OP_NEW, /* nothing was sent yet */
	GUARD_OP_TRY, /* an optimistic acquire: three commands instead of a script */
	GUARD_OP_SCRIPTED, /* the script that checks the guards and runs the command */
	GUARD_OP_ACQUIRE, /* the script that acquires the guards that the transaction needs */
	GUARD_OP_CHECK, /* WATCH, and the script that checks all guards */
	GUARD_OP_QUEUED, /* nothing is in flight: the operation waits in line for a guard */
	GUARD_OP_EXECUTE, /* the client's command unchanged, or MULTI ... EXEC */
	GUARD_OP_DONE,
};
#define GUARD_OP_PHASES (GUARD_OP_DONE + 1)

/* Events of an operation. */
enum guard_op_event {
	GUARD_EVENT_START, /* hasp may send the first request */
	GUARD_EVENT_NOSCRIPT,
	GUARD_EVENT_GRANTED, /* a script answered `+GRANTED ...` */
	GUARD_EVENT_QUEUED, /* a script answered `+QUEUED ...` */
	GUARD_EVENT_REFUSED, /* a script answered an error */
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
	GUARD_STEP_NONE, /* the phase does not allow the event: a bug, or a broken server */
	GUARD_STEP_SEND_TRY,
	GUARD_STEP_SEND_SCRIPT,
	GUARD_STEP_SEND_NEXT, /* send what guard_op_write_next() writes */
	GUARD_STEP_SEND_COMMAND, /* send the command as the client sent it */
	GUARD_STEP_SEND_EXEC, /* send MULTI, the commands, EXEC; or the application's EXEC */
	GUARD_STEP_WAIT, /* wait in line for a guard */
	GUARD_STEP_BEGIN_MULTI, /* send the application's MULTI */
	GUARD_STEP_ABORT, /* forward the error to the client; the command was not run */
	GUARD_STEP_GIVE_UP, /* the guards changed too often; the command was not run */
	GUARD_STEP_TIME_OUT,
	GUARD_STEP_FINISH, /* forward the reply to the client */
};

/* How an operation ended. */
enum guard_op_result {
	GUARD_OP_CARRIED_OUT,
	GUARD_OP_PARTLY, /* some of a transaction's commands may have failed: the keys that they
	                  * read count as read, and the keys that they wrote as not written */
	GUARD_OP_FAILED, /* the command was not run */
};

/* The script that a GUARD_OP_SCRIPT needs. */
enum guard_op_script {
	GUARD_OP_READ, /* guard_read.lua, which also runs the command */
	GUARD_OP_READ_APART, /* guard_read.lua; hasp sends the command after it */
	GUARD_OP_WRITE, /* guard_finish.lua or guard_write.lua */
};

#define GUARD_OP_TICKET_MAX 40
struct guard_op {
	enum guard_op_kind kind;
	enum guard_op_phase phase; /* written by guard_op_step() only */
	enum guard_op_script script;
	struct read_sets *table;
	struct freelist *freelist; /* owns the operation's memory; NULL: the heap does */
	bool optimistic; /* the operation begins with an optimistic acquire */
	bool writes; /* the command may write */
	bool has_waiters; /* TRY: clients wait for the guard */
	bool acquired; /* the operation has acquired guards */
	unsigned due; /* how many replies come before the one with the result */
	unsigned attempts; /* how often a guard changed under the transaction */
	double sent_at; /* when the last request was sent, by clock_now() */
	int64_t wait_ms; /* how long the operation may wait in line; 0: not at all */
	int64_t replicas, replicas_timeout_ms; /* replicas that must have the guards; 0: none */
	char ticket[GUARD_OP_TICKET_MAX]; /* ticket of the last request */
	size_t ncommands; /* BLOCK: number of commands in `block` */
	struct buf block; /* BLOCK: the transaction's commands */
	bool block_open; /* BLOCK: Redis has queued the commands; send DISCARD first */
	struct buf error; /* the first error among the `due` replies; empty: none */
	bool aborted; /* BLOCK: Redis has refused to queue one of the commands */
	/* the operation failed, but no read counts as refused: Redis answered WRONGTYPE, or nil
	 * to the EXEC of GUARD_OP_WATCH_EXEC, or the client has not logged in */
	bool answered;
	size_t queued_at; /* QUEUED: index of the key whose guard the operation waits for */
	size_t n;
	struct guarded_key keys[]; /* sorted by the bytes of the keys */
};

/* Size of an operation with one key: most have one. */
#define GUARD_OP_SINGLE_SIZE (sizeof(struct guard_op) + sizeof(struct guarded_key))

/* `freelist`: has blocks of GUARD_OP_SINGLE_SIZE bytes, and must outlive the operation; `now`:
 * clock_now(). */
struct guard_op *guard_op_new(struct read_sets *table, struct freelist *freelist,
                              struct read_set *r, int db, const struct guarded_command *g,
                              enum guard_op_kind kind, double now);
/* Makes a GUARD_OP_WATCH_MULTI of all guarded keys that the connection has read in database
 * `db`; NULL: there are none. */
struct guard_op *guard_op_of_read_set(struct read_sets *table, struct freelist *freelist,
                                      struct read_set *r, int db, double now);
void guard_op_free(struct guard_op *op); /* NULL is allowed */
size_t guard_op_nbytes(const struct guard_op *op); /* returns its memory in bytes */

/* True if hasp must acquire the guard of key `i` before the check: the transaction reads the
 * key, so the connection must have the guard when the transaction has ended. */
static inline bool guard_op_acquires_first(const struct guard_op *op, size_t i)
{
	const struct guarded_key *k = &op->keys[i];

	if (op->kind == GUARD_OP_BLOCK)
		return !k->entry->read || (k->acquires && k->entry->lost);
	return op->kind == GUARD_OP_SINGLE && k->acquires;
}

/* hasp gives up a transaction when its guards have changed this often. */
#define GUARD_OP_ATTEMPTS 100

/* Handles an event: changes the phase, and returns the next step. */
enum guard_op_step guard_op_step(struct guard_op *op, enum guard_op_event event);

/* Returns the event for a script's reply `line`, which begins with + or -. */
enum guard_op_event guard_op_event_of(struct slice line);

/* --- requests --- */

/* Records that hasp sends a request now, with this ticket; `now`: clock_now(). */
void guard_op_sent(struct guard_op *op, struct slice ticket, double now);
/* Writes the optimistic acquire for `req`. The caller passes all replies but the last to
 * guard_op_tried(). */
void guard_op_write_try(struct guard_op *op, struct buf *out, const struct resp_view *req);
/* Writes the script for `req`. `all`: the keys of `req`, guarded or not. */
void guard_op_write_script(struct guard_op *op, struct buf *out, const struct resp_view *req,
                           struct command_keys all, const struct rewrite_opts *opts);
/* Writes the next request of a transaction: in ACQUIRE a script, in CHECK a WATCH and a script.
 * Returns how many replies come before the script's reply. */
unsigned guard_op_write_next(struct guard_op *op, struct buf *out,
                             const struct rewrite_opts *opts);

/* --- answers --- */

/* TRY: handles a reply before the last one. Returns false if the acquire has failed. */
bool guard_op_tried(struct guard_op *op, const struct resp_reply *reply);
/* Handles `+GRANTED ...`: the owner has the guards. */
void guard_op_granted(struct guard_op *op, struct slice line);
/* Handles a script's error. If the error says that a key's guard was lost, earlier reads of the
 * key do not count any more. */
void guard_op_refused(struct guard_op *op, struct slice line);
/* Handles `+QUEUED place now held i`: the operation waits for the guard of key i. Writes the
 * try for its waiter, with the guard's name in `name`. Returns false if there is no key i. */
bool guard_op_queue(struct guard_op *op, struct slice line, struct buf *name,
                    struct attempt *t);
/* The operation has ended with this result: updates the entries of its keys. */
void guard_op_complete(struct guard_op *op, enum guard_op_result result);
/* Redis did not run the command, and hasp decides again: restores which keys count as read. */
void guard_op_withdraw(struct guard_op *op);
/* hasp will not see the reply: the keys that the command reads count as read. Frees `op`. */
void guard_op_assume(struct guard_op *op);
/* Undoes an operation that gets no reply: leaves the queue, and releases the acquired guards.
 * `keeps_read`: keeps the guards of keys that the connection had read before. */
void guard_op_undo(struct guard_op *op, bool keeps_read);

/* True if replicas must have the granted guards before the next step. */
bool guard_op_awaits_replicas(const struct guard_op *op);
/* Returns the try of one of the operation's guards, with the guard's name in `name`. Replicas
 * that have this guard have all of them, because one script has written them. */
struct attempt guard_op_granted_try(const struct guard_op *op, struct buf *name);

/* Returns the key whose guard the operation waits for. */
struct slice guard_op_queued_key(const struct guard_op *op);

/* --- release --- */

/* Appends calls that release guards which the connection no longer needs: those of a write that
 * was run and, if `acquired`, those of keys that the command did not read. Returns how many. */
size_t guard_op_write_release(const struct guard_op *op, enum guard_op_result result,
                              bool acquired, struct buf *out);
/* Releases the guards of guard_op_write_release() over hasp's own connection. */
void guard_op_release(const struct guard_op *op, enum guard_op_result result, bool acquired);

#endif
