/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fake_line: a worker's waiters, and clients that only record what hasp reports to them.
 */
#ifndef HASP_TESTS_UNIT_FAKE_LINE_H
#define HASP_TESTS_UNIT_FAKE_LINE_H

#include "lock/queue/queue_internal.h"
#include "tests/unit/fake_redis.h"

#define LEASE_MS 10000
#define WAIT_MS 5000
/* Longer than a waiter's grace. */
#define GRACE 0.1

struct fake_line {
	struct fake_redis redis;
	struct waiter_board board;
	struct waiters *all;
};

/* The waiter's callbacks since the test last read them. */
struct client {
	struct waiter *waiter; /* NULL: it has ended */
	const char *told; /* "ready", "granted", "timed out", "overdue", "lost"; "": nothing */
	long long fence; /* the lock's token, with "granted" */
	double since;
	bool stays; /* the client does not end its waiter at a grant or time-out */
};

extern const struct waiter_ops fake_line_ops; /* for waiters_new() */

int fake_line_set_up(void **state); /* a struct fake_line, whose subscriber is up */
int fake_line_tear_down(void **state); /* no waiters are left */

/* A client that waits for at most WAIT_MS. */
struct client *client_come(struct fake_line *f);
/* Ends the client's waiter, if it still exists, and frees the client. */
void client_leave(struct client *c);
/* Returns the callbacks since the last call. */
const char *client_told(struct client *c);
/* Sends an attempt, for which the waiter is ready. */
void client_send(struct client *c);
/* Redis answers that the attempt is queued, in that place; the lock is held for 3 s more. The
 * lock has the layout `count`, so that messages on Redisson's channel count. */
void client_queued(struct client *c, const char *key, int place);
/* Redis answers late that the client has the lock. */
void client_answered_late(struct client *c, const char *key);
/* As above, for an attempt with another ticket than the waiter's. */
void client_answered_late_as(struct client *c, const char *key, const char *ticket);
/* The client sends an attempt, and Redis queues it. */
struct client *client_in_line(struct fake_line *f, const char *key, int place);
/* Redis publishes that the client got the lock `key` after `ms` in the queue. */
void client_notify(struct client *c, int ms);
/* A script publishes `text` about the lock `key` in `db`. */
void client_notify_as(struct client *c, int ms, const char *key, int db);
/* A client that knows the ticket but not the secret publishes a grant. */
void client_forge(struct client *c, int ms);

/* Checks that the next call is a probe, or a leave, for `c`; NULL: for no client. */
struct fake_call expect_probe(struct fake_line *f, const struct client *c);
struct fake_call expect_leave(struct fake_line *f, const struct client *c, bool undo);
/* Answers the next call. */
void answer_queued(struct fake_line *f, int held_ms);
void answer_granted(struct fake_line *f, int left_ms);
void answer_gone(struct fake_line *f);
void answer_unknown(struct fake_line *f);
/* Checks that hasp has made no call. */
void expect_quiet(struct fake_line *f);

#endif
