/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fake_redis: the surroundings of lock/, driven by hand: a clock that a test advances, and
 * hasp's own connections, on which a test reads the calls and gives the answers. No socket, no
 * loop, no sleep.
 *
 *   lock/ --script_job--> control_call() --> fake_redis_next(), fake_redis_answer()
 *   lock/ <--timers-- fake_redis_advance()
 *   lock/queue <--subscriber-- fake_redis_publish(), fake_redis_subscriber_up() ...
 *
 * Its functions take the place of upstream/control, node and subscriber: a test that has it
 * among its sources does not link those.
 */
#ifndef HASP_TESTS_UNIT_FAKE_REDIS_H
#define HASP_TESTS_UNIT_FAKE_REDIS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/timers.h"
#include "lock/scripts/script_call.h"
#include "lock/scripts/script_job.h"
#include "upstream/subscriber.h"

struct fake_redis {
	double now;
	struct timers timers;
	struct control *control;
	struct node node; /* has that control */
	struct topology topology; /* has only that node */
	struct script_jobs *script_jobs;
};

/* The secret that scripts' proofs are made with. */
extern const struct proof_secret fake_redis_secret;

/* A call without an answer yet. */
struct fake_call {
	int db;
	enum script_id script; /* SCRIPT_COUNT: the call is no script's, but the one word in
	                        * `args` */
	bool eval; /* the script's text was sent */
	const char *args; /* the keys and arguments, each behind a blank; the secret of its
	                   * database as `secret` */
};

/* The clock stands at 1000, and the connection is up. */
void fake_redis_init(struct fake_redis *f);
/* Answers all open calls with NULL. */
void fake_redis_fini(struct fake_redis *f);

/* Runs the timers that become due, each at its time. */
void fake_redis_advance(struct fake_redis *f, double seconds);

/* --- hasp's own connection --- */

size_t fake_redis_ncalls(const struct fake_redis *f); /* number of calls without an answer */
/* Returns the oldest call without an answer; fails if there is none, or if it is another
 * script's. */
struct fake_call fake_redis_next(const struct fake_redis *f, enum script_id script);
/* Answers the call with `reply`, which is RESP2. */
void fake_redis_answer(struct fake_redis *f, const char *reply);
/* Breaks the connection: answers the calls with NULL. */
void fake_redis_break(struct fake_redis *f);
void fake_redis_repair(struct fake_redis *f);

/* --- the subscriber --- */

bool subscriber_was_opened(const struct subscriber *s);
void fake_redis_subscriber_up(struct subscriber *s);
void fake_redis_subscriber_down(struct subscriber *s);
/* `refusal`: Redis' error; NULL: it could not be reached. */
void fake_redis_subscriber_failed(struct subscriber *s, const char *refusal);
void fake_redis_subscribed(struct subscriber *s, const char *channel);
/* `channel`: NULL: the subscriber's own. */
void fake_redis_publish(struct subscriber *s, const char *channel, const char *message);
/* Returns the channels added ("+channel ") and removed ("-channel ") since the last call. */
const char *fake_redis_channels(struct subscriber *s);

#endif
