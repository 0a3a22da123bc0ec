/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_fixture: a quorum with one client, a clock that the test sets, and five servers whose
 * answers the test chooses.
 */
#ifndef HASP_TESTS_UNIT_QUORUM_FIXTURE_H
#define HASP_TESTS_UNIT_QUORUM_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/timers.h"
#include "lock/events/stats.h"
#include "quorum/quorum.h"

#define TEST_FIXTURE struct fake_quorum *f /* for testing.h */

#define SERVERS 5
#define DELAY_MS 30000
#define LEASE_MS 10000
#define OLD 1000000 /* seconds for which a server runs */

struct fake_quorum {
	double now;
	struct timers timers;
	struct quorum *q;
	struct stats *stats;
	struct section_stats *section; /* counts of the client's requests */
	struct holds *holds;
	struct hold_owner owner;
	struct quorum_op *op; /* what the last ask_quorum() began; NULL: it has ended */
	int64_t max_hold_ms; /* option max_hold of the next LOCK; 0: none */
	bool leased; /* the next LOCK names its lease */
	struct lock_request *lock_request; /* NULL unless the client asked for a LOCK */
	struct list calls[SERVERS]; /* calls that the server has not answered, oldest first */
	size_t nsent; /* number of calls sent to all servers since the start */
	bool is_done;
	struct quorum_result result; /* of the client's last request; its slices are no longer
	                              * valid */
};

/* Values of the lock: this client's and another one's. */
#define MINE "me 0123456789abcdef0123456789abcdef"
#define OTHERS "you 0123456789abcdef0123456789abcdef"

int quorum_fixture_setup(void **state);
int quorum_fixture_teardown(void **state);

/* The server answers its oldest call. */
void answer_one(struct fake_quorum *f, size_t server, const redisReply *reply);
void answer_number(struct fake_quorum *f, size_t server, int64_t n);
/* A row with this value and 5000 ms left. */
void answer_row(struct fake_quorum *f, size_t server, const char *value);
/* Each server answers `n` to its oldest call. */
void answer_all(struct fake_quorum *f, int64_t n);
/* The connection breaks: all calls in flight fail. */
void go_down(struct fake_quorum *f, size_t server);
/* Number of calls that the server has not answered. */
size_t due_at(const struct fake_quorum *f, size_t server);

/* Time passes, and the timers run. */
void advance(struct fake_quorum *f, double seconds);

/* The client asks for the lock "key"; on_done() gets the result. */
void ask_quorum(struct fake_quorum *f, enum quorum_request request, int64_t wait_ms);
/* Stores the result, and the hold if the client got the lock. */
void on_done(void *arg, const struct quorum_result *r);
void expect_done(const struct fake_quorum *f, enum quorum_verdict verdict);
/* The client takes the lock. */
void take(struct fake_quorum *f);
/* Sends the request in `opts`. */
void ask_for(struct fake_quorum *f, const struct quorum_ask *opts);
/* The client's connection ends. */
void end_owner(struct fake_quorum *f, bool release);

#endif
