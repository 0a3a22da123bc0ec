/* SPDX-License-Identifier: BSD-3-Clause
 *
 * reading: a worker's books of what its connections have read under a guard and not written
 * since. They outlive the guard: who wants to write what it once read must still have the guard
 * then, however long that takes. Whether it has, the scripts decide.
 *
 *   begin --answered--> reading --written or lost--> gone
 *     `-- refused --> gone              `-- the connection ends --> its guard is released
 */
#ifndef HASP_LOCK_READING_H
#define HASP_LOCK_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"
#include "lock/errand.h"
#include "lock/guarded.h"
#include "resp/reply.h"

/* A connection has no more than this. One that wants more forgets the oldest, and has, from
 * then on, to have read whatever guarded key it writes. */
#define READINGS_MAX 1024

struct readings; /* a worker's */

struct readings *readings_new(struct errands *errands);
void readings_free(struct readings *r); /* no readers are left */

/* A connection's. */
struct reader {
	struct list readings;
	uint32_t n;
	bool forgot; /* there were more than READINGS_MAX; then those that are written stay, for
	              * what is not there counts as read */
};
void reader_init(struct reader *r);

/* One key. */
struct reading {
	struct map_node by_id; /* database and key */
	struct list node; /* in its reader's list, oldest first */
	struct reader *reader;
	struct readings *books;
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
struct reading *reading_find(struct readings *books, const struct reader *r, int db,
                             struct slice key);
struct slice reading_key(const struct reading *x);

/* The connection ended: guards that it may have are released. */
void reader_end(struct reader *r);

/* How it is made sure that nothing is written by who lost a guard. */
enum guarded_way {
	GUARDED_SCRIPT, /* check and command are one script */
	GUARDED_TRY, /* a read that may have to go by its script after all */
	GUARDED_ONE, /* a transaction, of which the guards are watched, around the command */
	GUARDED_BLOCK, /* the application's transaction, likewise */
	GUARDED_WATCHED, /* the same, and the application watches keys of its own */
};

/* What became of it. */
enum guarded_end {
	GUARDED_DONE,
	GUARDED_PARTLY, /* of a transaction's commands, one or the other may have failed: what
	                   they read counts as read, and what they wrote, as not written yet */
	GUARDED_FAILED, /* nothing was done */
};

/* A command on guarded keys that is under way: what becomes of its readings when it ends. */
#define GUARDED_TICKET_MAX 40
struct guarded_call {
	struct readings *books;
	bool writes;
	double sent_at; /* clock_now() */
	int64_t wait_ms; /* it may stand in line for so long */
	char ticket[GUARDED_TICKET_MAX]; /* of the try */
	enum guarded_way way;
	unsigned due; /* answers before the one that decides */
	unsigned tries;
	bool waited_for; /* GUARDED_TRY: somebody stands in line */
	bool executing; /* else it is being checked */
	bool taking; /* those that guarded_call_takes() */
	bool anew; /* (taken) nobody had read under one of them: what was read before is old */
	bool taken; /* they were, or (GUARDED_SCRIPT, GUARDED_TRY) what a read needs */
	size_t ncommands; /* in the transaction */
	struct buf block; /* its commands; GUARDED_ONE: empty, it is the client's request */
	struct buf error; /* the first one among what was due; empty: none */
	bool handing_on; /* it was carried out, and its guards are being released */
	enum guarded_end end; /* (handing_on) its own */
	struct buf answer; /* (handing_on) Redis' whole answer */
	size_t answer_from; /* where in it the client's begins */
	struct resp_reply reply; /* (handing_on) that tells of it */
	size_t stands_at; /* the key for which it stands in line */
	size_t n;
	struct guarded_part {
		struct reading *reading;
		int64_t lease_ms;
		bool must_own; /* its connection may have read it */
		bool writes; /* it may be written */
		bool acquires; /* read last */
		bool releases;
	} parts[]; /* in the keys' order */
};

struct guarded_call *guarded_call_new(struct readings *books, struct reader *r, int db,
                                      const struct guarded *g, bool writes,
                                      struct slice ticket);
/* One of all that the reader has read in database `db`. NULL: nothing. */
struct guarded_call *guarded_call_of_reader(struct readings *books, struct reader *r, int db);
void guarded_call_free(struct guarded_call *call); /* NULL is allowed */

/* The call that checks all of its keys: see rewrite_guarded_check(). For another try, with
 * another ticket. */
void guarded_call_write_check(struct guarded_call *call, struct buf *out,
                              struct rewrite_how how);
/* Is its guard to be taken before the check? */
bool guarded_call_takes(const struct guarded_call *call, size_t i);
/* The call that takes those: see rewrite_guarded_read(). */
void guarded_call_write_take(struct guarded_call *call, struct buf *out,
                             struct rewrite_how how);
/* WATCH with the guards' names. */
void guarded_call_write_watch(const struct guarded_call *call, struct buf *out);

/* Where key `i` of those that were sent stands among the parts; n: there is none. */
size_t guarded_call_part(const struct guarded_call *call, size_t i);
/* What a waiter needs to know of part `i`; `name`: room for its guard's name. */
struct lock_try guarded_call_try(const struct guarded_call *call, size_t i, struct buf *name);

/* (GUARDED_SCRIPT) The guards are its owner's now, as `line` has it: +GRANTED ... */
void guarded_call_granted(struct guarded_call *call, struct slice line);
/* It was answered with this error line: a key that was lost counts as read no more. */
void guarded_call_failed(struct guarded_call *call, struct slice line);
/* It was answered. */
void guarded_call_end(struct guarded_call *call, enum guarded_end end);
/* Nobody will see the answer: what it reads counts as read. Frees it. */
void guarded_call_assume(struct guarded_call *call);
/* The answer will never come: it leaves the line, and what it took is given back. */
void guarded_call_undo(struct guarded_call *call);
/* Appends the calls that give back what the command does not need any more, and, if it `took`
 * guards for itself, those that it has not read under, or that note what it has read; returns
 * how many. */
size_t guarded_call_write_release(const struct guarded_call *call, enum guarded_end end,
                                  bool took, struct buf *out);
/* Does it release or note, when it is done, guards of owners that other connections are, too?
 * Those must not go on before Redis has done so: what they read then would be forgotten. */
bool guarded_call_is_others(const struct guarded_call *call);
/* The same by hasp's own connection, when there is no other. */
void guarded_call_release(const struct guarded_call *call, enum guarded_end end, bool took);

#endif
