/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue_internal: shared by the files of this folder. Each file needs only those above it:
 *
 *   queue_node.c  the subscriber at a node, and the waiters that need it
 *   line.c        the waiters of this worker for one lock, in the order of their places
 *   probe.c       a question to Redis about a lock or a waiter, and its answer, decoded; grants
 *   waiter.c      one waiter: its state, its own probes, how it leaves
 *   line_probe.c  when a line is probed, and what the answer means for its waiters
 *   waiters.c     all waiters: the subscription, tickets, tries that cannot be sent yet
 *
 * A lower file calls a higher one only through struct queue_hooks.
 */
#ifndef HASP_LOCK_QUEUE_QUEUE_INTERNAL_H
#define HASP_LOCK_QUEUE_QUEUE_INTERNAL_H

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "commands/args.h"
#include "lock/events/stats.h"
#include "lock/queue/waiters.h"

#define CHANNEL_PREFIX "hasp:worker:"
#define NUMBER_DIGITS 16
#define TICKET_MAX (NUMBER_DIGITS + 1 + NUMBER_DIGITS + 1)

/* Functions of the higher files, which waiters.c sets. */
struct queue_hooks {
	timer_fn *on_line_timer; /* it is time to probe the line, or to free it */
	timer_fn *on_recheck; /* of waiters.next_recheck */
	timer_fn *on_all_confirmed; /* of queue_node.wake: newcomers may be sent again */
	struct subscriber_opts subscriber; /* of all nodes */
};

struct waiters {
	struct timers *timers;
	struct script_jobs *script_jobs;
	const struct topology *topology;
	struct queue_hooks hooks;
	char channel[sizeof(CHANNEL_PREFIX) + NUMBER_DIGITS];
	char ticket[TICKET_MAX]; /* the latest: the channel's number, a dash, a serial */
	size_t nserial; /* digits of the serial */
	struct map by_ticket; /* waiters */
	struct map by_key; /* lines; those of several databases may have the same key */
	struct list rechecks; /* lines that are due for a recheck, the earliest first */
	struct timer next_recheck; /* runs while there are some */
	struct waiter_board *board;
	size_t nwaiting; /* waiters in all of the lines */
	size_t nbytes; /* their memory */
	struct list nodes; /* one for each node */
	struct queue_node *nowhere; /* for locks for which hasp knows no node */
	bool listening; /* the subscribers were opened */
};

/* A worker at one node. */
struct queue_node {
	struct list in_all;
	struct waiters *all;
	struct node *node; /* NULL: of waiters.nowhere */
	size_t nunconfirmed; /* waiters that may have lost their place there */
	struct list unsent; /* waiters that cannot be sent there yet */
	struct timer wake; /* sends them as soon as no waiter is unconfirmed */
};

/* A message to a worker: a script has granted the lock to a waiter. */
struct grant {
	long long fence; /* 0: none */
	int64_t ms; /* Redis' time */
	char proof[SHA1_HEX]; /* lock/model/proof.h */
};

enum waiter_state {
	WAITER_IDLE, /* nothing is under way: its owner has to act */
	WAITER_UNSENT, /* the try waits until newcomers can be sent to its node */
	WAITER_SENT, /* the answer to the try is due */
	WAITER_GRANTED_EARLY, /* the grant came before the answer to the try */
	WAITER_QUEUED, /* in its line */
	WAITER_CONFIRMING, /* in its line: it has a grant that is not fresh any more */
	WAITER_LEAVING, /* in its line: its time is over */
};
#define WAITER_STATES (WAITER_LEAVING + 1)

/* There may be thousands: the fields are in the order that leaves no gaps. */
struct waiter {
	struct waiters *all;
	const struct waiter_ops *ops;
	void *owner;
	const struct probe *check; /* the latest unanswered probe that asks for its place;
	                              NULL: none */
	struct list node; /* in its line, or in queue_node.unsent */
	struct line *line; /* NULL: in none */
	struct section_stats *stats; /* count the waiter while it is in a line; NULL: none */
	struct queue_node *at; /* the node of its lock; NULL: not needed, but never while
	                        * unconfirmed */
	struct map_node by_ticket;
	struct timer timer; /* the deadline; while it leaves, the grace */
	char *token; /* of the latest try that was in a line: a copy; NULL: none was */
	uint32_t token_len;
	uint32_t limit; /* attempt.limit, or UINT32_MAX if that is greater */
	double began, deadline, sent_at; /* by the timers' clock */
	int64_t place; /* 0: none */
	int64_t redis_ms; /* Redis' time when it was queued, at sent_at or later */
	int64_t lease_ms; /* 0: the application named its end */
	struct grant *early; /* of WAITER_GRANTED_EARLY; else NULL */
	unsigned nsent; /* its tries. (All tries of an MLOCK have one ticket.) */
	char ticket[TICKET_MAX];
	uint8_t nlate; /* grants after its deadline whose lease ended before hasp could report
	                  them */
	enum waiter_state state : 8; /* written by waiter_set_state() */
	enum lock_kind kind : 8;
	bool stores_token; /* attempt.value of its tries is the token; else empty */
	/* The waiter may have lost its place in Redis' queue: hasp asks for the place, and
	 * sends no newcomers until it is known. Not a state, because it may outlast the states:
	 * the waiter may be granted, lost or sent again. Written by waiter_set_unconfirmed().
	 */
	bool unconfirmed;
	/* The next try is sent although the subscriber at its node is down, because Redis could
	 * not be reached: the try fails, too, or reaches the server that has taken over. */
	bool unheard;
};

enum line_probing {
	LINE_UNPROBED, /* no answer is due */
	LINE_PROBED, /* an answer is due */
	LINE_PROBED_AGAIN, /* an answer is due, but the question came too early: ask again */
};

/* This worker's waiters for one lock. Outlives the last of them for a while. */
struct line {
	struct waiters *all;
	struct queue_node *at;
	struct map_node by_key;
	struct list members; /* by place */
	/* The next probe; of an empty line, its end. A line that needs only a recheck is in
	 * waiters.rechecks instead, or in a call for many. */
	struct timer timer;
	struct list recheck;
	double recheck_at; /* in waiters.rechecks: at this time; in a call: INFINITY */
	int db;
	uint16_t slot; /* on the board */
	uint8_t recheck_slot; /* in that call */
	enum lock_kind kind : 8;
	enum line_probing probing : 8; /* written by line_set_probing() */
	bool listening; /* to Redisson's channel */
	char key[]; /* its bytes */
};

static inline struct slice line_key(const struct line *l)
{
	return l->by_key.key;
}

enum probe_outcome { PROBE_UNKNOWN, PROBE_QUEUED, PROBE_GRANTED, PROBE_GONE };

/* Redis' answer about a waiter, or only (PROBE_GONE) about its lock. */
struct probe_answer {
	enum probe_outcome outcome;
	long long held_ms; /* how much longer the lock is held; -1: for ever, or not known */
	long long fence;
};

/* A question to Redis. It has the names of the waiter and the line instead of pointers, because
 * both may end before the answer. */
struct probe {
	struct waiters *all;
	void (*on_answer)(const struct probe *p, const struct probe_answer *a);
	char ticket[TICKET_MAX]; /* empty: the probe is about no waiter */
	unsigned nsent; /* the waiter's `nsent` when hasp asked */
	int db; /* of a line's probe: the line's database */
	struct buf key; /* the key of that line */
	double sent_at;
	bool check_if_late; /* the script begins the lease of a grant again */
};

/* No time in ms, place or fencing token is greater: Lua's numbers are exact up to here. */
#define NUMBER_MAX (INT64_C(1) << 53)
/* Cuts the next word from *s. False: it is no number from `min` to NUMBER_MAX. */
static inline bool cut_number(struct slice *s, int64_t min, int64_t *n)
{
	struct slice word;

	return slice_cut(s, ' ', &word) && args_integer(word, n) && *n >= min &&
	       *n <= NUMBER_MAX;
}

/* --- queue_node.c --- */

/* Makes a queue_node for each node, and all->nowhere. */
void queue_nodes_init(struct waiters *all);
void queue_nodes_fini(struct waiters *all); /* none has waiters */
/* Adds a new node. */
void queue_node_add(struct waiters *all, struct node *node);
/* Returns the queue_node of the node; NULL: hasp does not listen there. */
struct queue_node *queue_node_find(struct waiters *all, const struct node *node);
/* Closes the subscriber, and frees `at`. Nothing may refer to `at` any more. */
void queue_node_remove(struct queue_node *at);
/* Returns the node that serves the lock `key`, or all->nowhere. */
struct queue_node *queue_node_of(struct waiters *all, struct slice key);
/* Opens all subscribers, because a client is going to wait. */
void queue_nodes_open(struct waiters *all);
bool queue_node_is_up(const struct queue_node *at);
/* Returns the error by which Redis last refused the subscription; NULL: it did not. */
const char *queue_node_refusal(const struct queue_node *at);
/* True if newcomers can be sent to the node. */
bool queue_node_is_ready(const struct queue_node *at);
/* One of the node's waiters is not unconfirmed any more. */
void queue_node_confirmed(struct queue_node *at);

/* --- line.c --- */

struct line *line_find(struct waiters *all, int db, struct slice key); /* NULL: none */
/* Returns a lock's place on the board. */
uint16_t line_slot(int db, struct slice key);
/* Returns the line of the lock, or a new one. */
struct line *line_get(struct waiters *all, int db, struct slice key, enum lock_kind kind);
void line_free(struct line *l);
/* Puts `w` into the line, at its place; line_remove() takes it out, if it is in one. */
void line_enqueue(struct line *l, struct waiter *w);
void line_remove(struct waiter *w);
struct waiter *line_first(const struct line *l); /* NULL: it is empty */
struct waiter *line_behind(const struct waiter *w); /* NULL: it is the last */
/* Subscribes to the channel of Redisson's clients, or unsubscribes. */
void line_listen(struct line *l, bool on);
/* The subscriber's connection is gone, and the subscription with it. */
void line_forget_channel(struct line *l);
void line_set_probing(struct line *l, enum line_probing probing);
bool line_allows(enum line_probing from, enum line_probing to); /* for the tests */
/* Makes the next probe a regular recheck, with other lines: nothing should happen
 * before, or the recheck makes up for a lost answer. */
void line_probe_later(struct line *l);
/* Sets the next probe for the time when the lock should be free, in `held_ms` (-1: it is held
 * for ever), or a regular recheck if that is earlier. If the line is empty, sets its end. */
void line_probe_when_over(struct line *l, long long held_ms);
/* The lock was granted for `lease_ms`: the next probe is no later than the end of that. */
void line_probe_before(struct line *l, int64_t lease_ms);
/* Probes the lock soon after `w` has come. The lock, which was held for `held_ms` more (-1: for
 * ever), may have been released while the first waiter's try was on its way, when Redis had no
 * waiter to notify. */
void line_probe_soon(struct line *l, const struct waiter *w, int64_t held_ms);
/* True if a probe or a recheck is due. */
bool line_has_next(const struct line *l);
/* Keeps the empty line for a while. */
void line_linger(struct line *l);

/* --- probe.c --- */

struct probe *probe_new(struct waiters *all, const char *ticket,
                        void (*on_answer)(const struct probe *, const struct probe_answer *));
/* Asks poll.lua about `t`; the script may hand the lock over. lease_ms > 0: the script begins
 * the lease of its grant again. hasp retries until `until`; 0: it asks once. on_answer() runs
 * once, maybe before this returns, and `p` is freed. `p` NULL: the answer does not matter. */
void probe_check(struct waiters *all, int db, const struct attempt *t, int64_t lease_ms,
                 double until, struct probe *p);
/* Takes `t` out of the queue by dequeue.lua; `undo`: also releases a lock that `t` may have
 * been granted. hasp retries until `until`. `p`: as in probe_check(). */
void probe_leave(struct waiters *all, int db, const struct attempt *t, bool undo, double until,
                 struct probe *p);

/* Reads `<fencing token or -> <ms of Redis' time> <proof>`. False: `s` is no grant. */
bool grant_parse(struct grant *g, struct slice s);
/* True if a script of this process published the grant, for this ticket and lock. */
bool grant_is_proved(const struct grant *g, struct proofs *proofs, int db, struct slice key,
                     const char *ticket);

/* --- waiter.c --- */

/* The only writer of w->state. */
void waiter_set_state(struct waiter *w, enum waiter_state state);
bool waiter_allows(enum waiter_state from, enum waiter_state to); /* for the tests */
/* The lock of `w` is at the node `at`. */
void waiter_set_at(struct waiter *w, struct queue_node *at);
/* Returns the waiter with this ticket; NULL: it has ended. */
struct waiter *waiter_find(struct waiters *all, struct slice ticket);
/* Returns the try of `w`, which must be in a line. The slices point into `w`. */
struct attempt waiter_try(const struct waiter *w);
/* Handles the message that `w` has the lock. False: the message has no proof, and the caller
 * must ask Redis. */
bool waiter_notified(struct waiter *w, const struct grant *g);
/* Makes `w` unconfirmed, because it may have lost its place, and asks Redis. */
void waiter_check(struct waiter *w);
/* Handles the answer to `p`. */
void waiter_probed(struct waiter *w, const struct probe *p, const struct probe_answer *a);

/* --- line_probe.c --- */

/* Asks about the lock on behalf of the first in line. */
void line_probe(struct line *l);
/* Asks about each waiter, because all may have lost their places. */
void line_probe_members(struct line *l);
/* Moves the line and its waiters to the node `at`, which serves the lock from now on: the
 * waiters become unconfirmed. */
void line_move(struct line *l, struct queue_node *at);
/* Handles a message from a channel of Redisson's clients. */
void line_probe_channel(struct waiters *all, struct slice channel);
void line_probe_on_timer(struct timer *t, double now);

/* Lines that are due within this time go in one call. */
#define RECHECK_GATHER_SECONDS 0.1
void recheck_on_timer(struct timer *t, double now);

#endif
