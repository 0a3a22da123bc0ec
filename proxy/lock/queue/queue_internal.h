/* SPDX-License-Identifier: BSD-3-Clause
 *
 * waiting: what the files of a worker's waiters share: the waiters (wait.c), the lines in
 * which they stand, one for each lock (line.c), and all of them together (waits.c).
 */
#ifndef HASP_LOCK_QUEUE_QUEUE_INTERNAL_H
#define HASP_LOCK_QUEUE_QUEUE_INTERNAL_H

#include <hiredis/hiredis.h>

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "lock/queue/waiters.h"

#define CHANNEL_PREFIX "hasp:worker:"
#define NUMBER_DIGITS 16
#define TICKET_MAX (NUMBER_DIGITS + 1 + 20 + 1)

struct waiters {
	struct ev_loop *loop;
	struct script_jobs *script_jobs;
	struct subscriber *subscriber;
	char channel[sizeof(CHANNEL_PREFIX) + NUMBER_DIGITS];
	const char *number; /* in it */
	uint64_t serial;
	char ticket[TICKET_MAX];
	struct map by_ticket;
	struct map by_id; /* lines, by database and key */
	struct map by_key; /* and by key alone */
	struct waiter_board *board;
	size_t nwaiting; /* in all of the lines */
	size_t nunconfirmed; /* those who may have lost their place */
	struct list unsent;
	struct ev_timer wake; /* those in it, as soon as nobody is astray */
	struct buf room;
};

enum state {
	WAITER_NEW,
	WAITER_UNSENT, /* until the subscriber is up, and nobody is astray */
	WAITER_SENT,
	WAITER_QUEUED,
	WAITER_CONFIRMING, /* a grant that is not fresh any more */
	WAITER_LEAVING,
};

struct waiter {
	struct waiters *all;
	const struct waiter_ops *ops;
	void *owner;
	void *tag;
	enum state state;
	struct list node; /* in its line, or in waits.unsent */
	struct line *line; /* NULL: in none */
	struct map_node by_ticket;
	char ticket[TICKET_MAX];
	struct ev_timer timer; /* the deadline, then the grace */
	double deadline, sent_at; /* clock_now() */
	int64_t place; /* 0: none */
	int64_t redis_ms; /* Redis' time when it was queued, at sent_at or later */
	int64_t lease_ms; /* 0: the application named its end */
	enum lock_kind kind;
	struct buf bytes; /* the token, then the value */
	size_t token_len;
	bool unconfirmed; /* whether it is where it should be in Redis is being found out, and
	                   * mended: newcomers stay behind it meanwhile */
	bool granted; /* heard of before the answer to the try */
	long long fence; /* with `granted` */
	int64_t granted_ms; /* with `granted`: Redis' time */
};

/* Those here who wait for one lock. Outlives the last of them for a while. */
struct line {
	struct waiters *all;
	struct map_node by_id;
	struct map_node by_key;
	struct list members; /* by place */
	struct ev_timer timer; /* the next look; with nobody in it, the end */
	enum lock_kind kind;
	bool probing; /* a look is under way */
	bool probe_again; /* and another one was asked for */
	bool listening; /* to Redisson's channel */
	uint32_t slot; /* on the board */
};

/* A look or a leave under way. Points at nobody, for they may end meanwhile. */
struct probe {
	struct waiters *all;
	char ticket[TICKET_MAX];
	struct buf id; /* of the line */
	double sent_at;
	bool scheduled; /* the line's look, not one at a certain waiter */
	bool confirm; /* begin the lease again */
};

enum probe_outcome { PROBE_UNKNOWN, PROBE_QUEUED, PROBE_GRANTED, PROBE_GONE };

/* --- wait.c --- */

/* NULL: it has ended. */
struct waiter *waiter_find(struct waiters *all, struct slice ticket);
/* Its worker was told that it has the lock since `granted_ms` of Redis' time. */
void waiter_notified(struct waiter *w, long long fence, int64_t granted_ms);
/* What it wants; points into it. */
struct lock_try waiter_try(const struct waiter *w);
/* In seconds. */
double waiter_lease(const struct waiter *w);
/* It is where it should be, as far as can be known; or it may not be. */
void waiter_set_confirmed(struct waiter *w);
void waiter_set_unconfirmed(struct waiter *w);
/* A look at it, for which `m` was sent, has told. */
void waiter_probed(struct waiter *w, const struct probe *m, enum probe_outcome probe_outcome,
                   long long held_ms, long long fence);

/* --- line.c --- */

struct line *line_find(struct waiters *all, int db, struct slice key); /* NULL: none */
/* A lock's place on the board. */
uint32_t line_slot(int db, struct slice key);
/* The one there is, or a new one. */
struct line *line_of(struct waiters *all, int db, struct slice key, enum lock_kind kind);
void line_free(struct line *l);
/* At its place; and out again, wherever it is. */
void line_enqueue(struct line *l, struct waiter *w);
void line_remove(struct waiter *w);
struct waiter *line_first(const struct line *l); /* NULL: nobody */
/* Hears Redisson's clients, or does not any more. */
void line_listen(struct line *l, bool on);
/* Looks at the lock on behalf of the first in line. */
void line_probe(struct line *l);
/* The same when it has been held for `held_ms` more; -1: for ever. */
void line_probe_when_over(struct line *l, long long held_ms);
/* On behalf of one, or of each. */
void line_probe_waiter(struct waiter *w, bool confirm);
void line_probe_all(struct line *l);
/* Somebody has published on a channel of Redisson's. */
void lines_probe(struct waiters *all, struct slice channel);
/* Looks at a lock that nobody here waits for. */
void line_hand_off(struct waiters *all, int db, struct slice key, enum lock_kind kind);

struct probe *probe_new(const struct line *l, const char *ticket);
void probe_free(struct probe *m);
/* The answer of check.lua or leave.lua. */
enum probe_outcome probe_read(const redisReply *r, long long *held_ms, long long *fence);

#endif
