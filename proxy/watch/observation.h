/* SPDX-License-Identifier: BSD-3-Clause
 *
 * observation: what a command does to keys that are only observed; kept until Redis has
 * answered it, and given to the tracker then.
 *
 *   policy/observe.c --> pending request --reply--> observation_complete() --> tracker
 *
 * The tracker is one for all workers of the process: `struct observers` holds it behind a lock.
 */
#ifndef HASP_WATCH_OBSERVATION_H
#define HASP_WATCH_OBSERVATION_H

#include <pthread.h>

#include "base/buf.h"
#include "commands/effect.h"
#include "resp/reply.h"
#include "watch/tracker.h"

struct observers {
	pthread_mutex_t lock; /* of the tracker */
	struct tracker *tracker;
	double (*clock)(void); /* seconds; never goes back */
};

/* One for all workers of the process. */
struct observers *observers_new(double (*clock)(void));
void observers_free(struct observers *o); /* no clients are left */
/* Logs what was observed; false: no rule ever did. From any thread. */
bool observers_report(struct observers *o);

/* A client, from its first command on an observed key. */
struct observer {
	struct observers *all;
	struct tracker_client *client;
	char *name; /* by CLIENT SETNAME, as the tracker knows it; NULL: none */
};
void observer_free(struct observer *o); /* NULL is allowed */

/* One key of a request; the bytes of token and key follow each other in observation.bytes. */
struct observed_key {
	struct tracker_rule *rule;
	enum effect_act act;
	bool is_lock; /* of a rule, not a guard */
	bool releases;
	int64_t lease_ms;
	size_t ntoken, nkey;
};

struct observation {
	struct observer *observer;
	struct effect effect;
	double sent_at; /* by the clock; 0: it is queued in a transaction */
	size_t nargs; /* keys that the command names, observed or not */
	struct buf bytes;
	size_t n;
	struct observed_key keys[];
};

void observation_free(struct observation *o); /* NULL is allowed */
size_t observation_nbytes(const struct observation *o); /* of memory */
/* It was answered, in database `db`. Its client's observer has not been freed. */
void observation_complete(const struct observation *o, int db, const struct resp_reply *reply);

#endif
