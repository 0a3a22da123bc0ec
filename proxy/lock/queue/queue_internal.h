/* SPDX-License-Identifier: BSD-3-Clause
 *
 * queue_internal: declarations that the files of this folder share. Each file needs only those
 * above it in this list:
 *
 *   queue_node.c  the subscriber at a node, and the waiters that need it
 *   line.c        the waiters of this worker for one lock, in the order of their places
 *   waiter.c      one waiter: its state, its own probes, its grants, how it leaves
 *   line_probe.c  when a line is probed, and what the answer means for its waiters
 *   waiters.c     all waiters: the subscription, tickets, tries that cannot be sent yet
 *
 * A file calls those below it only through struct queue_hooks.
 */
#ifndef HASP_LOCK_QUEUE_QUEUE_INTERNAL_H
#define HASP_LOCK_QUEUE_QUEUE_INTERNAL_H

#include "base/buf.h"
#include "base/list.h"
#include "base/map.h"
#include "lock/events/stats.h"
#include "lock/model/owner.h"
#include "lock/queue/waiters.h"

#define CHANNEL_PREFIX "hasp:worker:"
#define NUMBER_DIGITS 16
#define TICKET_MAX (NUMBER_DIGITS + 1 + NUMBER_DIGITS + 1)

/* Callbacks from a lower layer of this folder to a higher one. */
struct queue_hooks {
	timer_fn *on_line_timer; /* for line.timer: probes or frees the line */
	timer_fn *on_recheck; /* for waiters.next_recheck: sends rechecks */
	timer_fn *on_all_confirmed; /* for queue_node.wake: sends the unsent tries */
	struct subscriber_opts subscriber; /* for the subscribers at all nodes */
};

struct waiters {
	struct timers *timers;
	struct script_jobs *script_jobs;
	const struct topology *topology;
	struct queue_hooks hooks;
	const struct waiter_ops *ops; /* for the owner of each waiter */
	char channel[sizeof(CHANNEL_PREFIX) + NUMBER_DIGITS];
	char ticket[TICKET_MAX]; /* the latest ticket: the channel's number, a dash, a serial */
	size_t nserial; /* digits of the serial */
	struct map by_ticket; /* each struct waiter, by ticket */
	struct map by_key; /* each struct line, by key; two databases may have the same key */
	struct list rechecks; /* lines that wait for a recheck, the earliest first */
	/* Sends the rechecks that are due; stopped if there are none. */
	struct timer next_recheck;
	struct waiter_board *board;
	size_t nwaiting; /* number of waiters in all lines */
	size_t nbytes; /* memory of the waiters in all lines, in bytes */
	struct list nodes; /* each struct queue_node */
	struct queue_node *nowhere; /* for locks whose node is not known */
	bool listening; /* the subscribers were opened */
};

/* A worker's subscriber and waiters at one node. */
struct queue_node {
	struct list in_all; /* node in waiters.nodes */
	struct waiters *all;
	struct node *node; /* NULL in waiters.nowhere */
	size_t nunconfirmed; /* waiters at this node that are unconfirmed */
	struct list unsent; /* waiters whose tries cannot be sent to this node yet */
	struct timer wake; /* sends the tries in `unsent` when no waiter is unconfirmed */
};

/* The content of a message to a worker: a script has granted the lock to a waiter. */
struct grant {
	long long fence; /* fencing token; 0: none */
	int64_t ms; /* when the script granted the lock, by Redis' clock */
	char proof[SHA1_HEX]; /* the script's signature: lock/model/proof.h */
};

enum waiter_state {
	WAITER_IDLE, /* no request is under way: the waiter's owner has to act */
	WAITER_UNSENT, /* the try waits until newcomers can be sent to its node */
	WAITER_SENT, /* the answer to the try is due */
	WAITER_GRANTED_EARLY, /* the grant came before the answer to the try */
	WAITER_QUEUED, /* the waiter is in its line */
	WAITER_CONFIRMING, /* in its line; hasp asks Redis whether a late grant still holds */
	WAITER_LEAVING, /* in its line; its time is over, and Redis must forget it */
};
#define WAITER_STATES (WAITER_LEAVING + 1)

/* One client that waits, or may have to wait: waiter.c. The order of the fields leaves no gaps,
 * because a worker may have thousands of waiters. */
struct waiter {
	struct waiters *all;
	void *owner;
	const struct probe *check; /* the latest probe that asks for the waiter's place, while
	                              its answer is due; else NULL */
	struct list node; /* in line.members, or in queue_node.unsent */
	struct line *line; /* NULL: the waiter is in no line */
	struct section_stats *stats; /* count the waiter while it is in a line; NULL: none */
	struct queue_node *at; /* the node of the lock; never NULL while `unconfirmed` */
	struct map_node by_ticket;
	struct timer timer; /* runs until the wait's deadline; then until WAITER_LEAVING ends */
	struct token *token; /* token of the latest queued try; NULL: none was queued */
	uint32_t limit; /* attempt.limit, or UINT32_MAX if that is greater */
	unsigned nsent; /* number of tries: tells the tries of an MLOCK apart, which have one
	                 * ticket */
	double began, deadline, sent_at; /* by the timers' clock */
	int64_t place; /* place in Redis' queue; 0: none */
	int64_t redis_ms; /* Redis' time when the try was queued, at sent_at or later */
	int64_t lease_ms; /* lease in ms; 0: the application named the time at which it ends */
	struct grant *early; /* the grant of WAITER_GRANTED_EARLY; else NULL */
	char ticket[TICKET_MAX];
	uint8_t nlate; /* how many grants came too late to report: see count_late() */
	enum waiter_state state : 8; /* written by waiter_set_state() */
	enum lock_kind kind : 8;
	bool stores_token : 1; /* attempt.value of the tries is the token; else it is empty */
	/* The waiter may have lost its place in Redis' queue: hasp asks for the place, and
	 * until then sends no newcomers to the node. Not a state, because it may outlast
	 * states: the waiter may be granted, lost or sent again. Written by
	 * waiter_set_unconfirmed(). */
	bool unconfirmed : 1;
	/* Send the next try although the subscriber at its node is down. The subscriber could
	 * not reach Redis; so the try fails, too, or reaches a server that has taken over. */
	bool unheard : 1;
};

enum line_probing {
	LINE_UNPROBED, /* no answer is due */
	LINE_PROBED, /* an answer is due */
	LINE_PROBED_AGAIN, /* an answer is due, but something has happened since hasp asked: ask
	                    * again */
};

/* A worker's waiters for one lock. A line is kept for a while after its last waiter. */
struct line {
	struct waiters *all;
	struct queue_node *at; /* the node of the lock */
	struct map_node by_key;
	struct list members; /* waiters, by place */
	/* Runs until the next probe; in an empty line, until the line ends. Stopped while the
	 * line waits for a recheck. */
	struct timer timer;
	struct list recheck; /* node in waiters.rechecks or in recheck.lines; or in no list */
	double recheck_at; /* when the recheck is due; INFINITY while the line is in
	                    * recheck.lines */
	int db;
	uint16_t slot; /* index in waiter_board.waiting */
	uint8_t recheck_slot; /* index among the locks of the recheck's call */
	enum lock_kind kind : 8;
	enum line_probing probing : 8; /* written by line_set_probing() */
	bool listening; /* subscribed to Redisson's channel */
	char key[]; /* bytes of the lock's key */
};

enum probe_outcome { PROBE_UNKNOWN, PROBE_QUEUED, PROBE_GRANTED, PROBE_GONE };

/* Redis' answer about a waiter and its lock. */
struct probe_answer {
	enum probe_outcome outcome; /* PROBE_GONE: the waiter is not in the queue */
	long long held_ms; /* how much longer the lock is held; -1: for ever, or not known */
	long long fence; /* fencing token; 0: none */
};

/* A question to Redis. It names the waiter and the line instead of pointing to them, because
 * both may end before the answer. */
struct probe {
	struct waiters *all;
	void (*on_answer)(const struct probe *p, const struct probe_answer *a);
	char ticket[TICKET_MAX]; /* the waiter's ticket; empty: the probe is about no waiter */
	unsigned nsent; /* the waiter's `nsent` when hasp asked */
	int db; /* database of the line, if line_probe() asks */
	struct buf key; /* key of the line, if line_probe() asks */
	double sent_at; /* when hasp asked, by the timers' clock */
	bool check_if_late; /* the script begins the lease of a grant again */
};

/* --- queue_node.c --- */

/* Makes a queue_node for each node, and all->nowhere. */
void queue_nodes_init(struct waiters *all);
void queue_nodes_fini(struct waiters *all); /* no node may have waiters */
void queue_node_add(struct waiters *all, struct node *node);
/* Returns the queue_node of the node; NULL: there is none. */
struct queue_node *queue_node_find(struct waiters *all, const struct node *node);
/* Closes the subscriber, and frees `at`. Nothing may refer to `at` any more. */
void queue_node_remove(struct queue_node *at);
/* Returns the node that serves the lock `key`, or all->nowhere. */
struct queue_node *queue_node_of(struct waiters *all, struct slice key);
/* Opens the subscribers at all nodes: call it before a client waits. */
void queue_nodes_open(struct waiters *all);
/* True if the worker is subscribed at the node. */
bool queue_node_is_up(const struct queue_node *at);
/* Returns the error by which Redis last refused the subscription; NULL: none. */
const char *queue_node_refusal(const struct queue_node *at);
/* True if newcomers can be sent to the node: it is up, and no waiter there is unconfirmed. */
bool queue_node_is_ready(const struct queue_node *at);
/* Counts one unconfirmed waiter less at the node. */
void queue_node_confirmed(struct queue_node *at);

/* --- line.c --- */

/* NULL: the lock has no line */
struct line *line_find(struct waiters *all, int db, struct slice key);
/* Returns a lock's index in waiter_board.waiting. */
uint16_t line_slot(int db, struct slice key);
/* Returns the line of the lock, or a new one. */
struct line *line_get(struct waiters *all, int db, struct slice key, enum lock_kind kind);
void line_free(struct line *l);
/* Puts `w` into the line, at w->place. */
void line_enqueue(struct line *l, struct waiter *w);
/* Removes `w` from its line, or from queue_node.unsent, if it is in one of them. */
void line_remove(struct waiter *w);
struct waiter *line_first(const struct line *l); /* NULL: the line is empty */
/* Subscribes to Redisson's channel of the lock, or unsubscribes. */
void line_listen(struct line *l, bool on);
void line_set_probing(struct line *l, enum line_probing probing);
bool line_allows(enum line_probing from, enum line_probing to); /* for the tests */
/* Schedules a recheck in PROBE_SECONDS, together with other lines. */
void line_probe_later(struct line *l);
/* Schedules a probe for the time when the lock should be free, in `held_ms` (-1: it is held for
 * ever), or a recheck if that is earlier. An empty line lingers instead. */
void line_probe_when_over(struct line *l, long long held_ms);
/* The lock was granted for `lease_ms`: schedules the next probe no later than the lease's
 * end. */
void line_probe_before(struct line *l, int64_t lease_ms);
/* `w` has come into the line of a lock that is held for `held_ms` more (-1: for ever). If `w`
 * is the first, hasp probes soon: the lock may have been released while the try of `w` was on
 * its way, when Redis had no waiter to notify. */
void line_probe_soon(struct line *l, const struct waiter *w, int64_t held_ms);
/* True if a probe or a recheck is scheduled. */
bool line_has_next(const struct line *l);
/* Schedules the end of an empty line. */
void line_linger(struct line *l);

/* --- waiter.c --- */

/* The only writer of w->state. */
void waiter_set_state(struct waiter *w, enum waiter_state state);
bool waiter_allows(enum waiter_state from, enum waiter_state to); /* for the tests */
/* Sets the node of the lock of `w`. `at` NULL: no node, only for a confirmed waiter. */
void waiter_set_at(struct waiter *w, struct queue_node *at);
/* Returns the waiter with this ticket; NULL: the waiter has ended. */
struct waiter *waiter_find(struct waiters *all, struct slice ticket);
/* Returns the try of `w`, which must be in a line. The slices point into `w`. */
struct attempt waiter_try(const struct waiter *w);
/* Handles the rest of a message, after the ticket of `w`. Returns false if the message is no
 * grant, or has no proof: the caller must ask Redis. */
bool waiter_notified(struct waiter *w, struct slice message);
/* Makes `w` unconfirmed, and asks Redis for the place of `w` in the queue. */
void waiter_check(struct waiter *w);
/* Handles the answer to `p`, which asked about `w`. */
void waiter_probed(struct waiter *w, const struct probe *p, const struct probe_answer *a);

struct probe *probe_new(struct waiters *all, const char *ticket,
                        void (*on_answer)(const struct probe *, const struct probe_answer *));
/* Asks poll.lua about `t`. The script may hand the lock over. If `t` has the lock, and lease_ms
 * is above 0, the script begins the lease again. hasp repeats the question until `until`; 0: it
 * asks once. p->on_answer() runs once, maybe before probe_check() returns; then `p` is freed.
 * If `p` is NULL, hasp ignores the answer. */
void probe_check(struct waiters *all, int db, const struct attempt *t, int64_t lease_ms,
                 double until, struct probe *p);

/* --- line_probe.c --- */

/* Asks Redis about the lock on behalf of the first waiter. */
void line_probe(struct line *l);
/* Asks Redis about each waiter of the line: all may have lost their places. */
void line_probe_members(struct line *l);
/* The node `at` serves the lock from now on: moves the line there, and asks Redis about each
 * waiter. */
void line_move(struct line *l, struct queue_node *at);
/* Probes the lines of the lock for which Redisson's clients use this channel. */
void line_probe_channel(struct waiters *all, struct slice channel);
void line_probe_on_timer(struct timer *t, double now);

/* Lines whose rechecks are due within this time share a call. */
#define RECHECK_GATHER_SECONDS 0.1
void recheck_on_timer(struct timer *t, double now);

#endif
