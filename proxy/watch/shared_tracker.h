/* SPDX-License-Identifier: BSD-3-Clause
 *
 * shared_tracker: the process' only tracker, which all workers share, protected by a lock.
 */
#ifndef HASP_WATCH_SHARED_TRACKER_H
#define HASP_WATCH_SHARED_TRACKER_H

#include <pthread.h>
#include <stdatomic.h>

#include "watch/discovery.h"
#include "watch/sampling.h"
#include "watch/tracker.h"

struct shared_tracker {
	pthread_mutex_t lock; /* protects the tracker */
	struct tracker *tracker;
	bool discovers; /* the tracker follows all keys; else only observed keys */
	bool observes; /* there is or was a rule in mode OBSERVE */
	size_t memory; /* limit for discovery, in bytes */
	struct sampling *sampling; /* the tracker's sampling; needs no lock */
	double (*clock)(void); /* returns the time in seconds; never goes back */
	_Atomic uint64_t commands; /* commands with keys that discovery has seen */
};

struct shared_tracker *shared_tracker_new(double (*clock)(void));
void shared_tracker_free(struct shared_tracker *s); /* call it when no clients are left */

/* Any thread may call these functions. */

/* Starts discovery, or changes its memory. With less memory, discovery starts afresh. */
void shared_tracker_discover(struct shared_tracker *s, size_t memory);
/* Ends discovery, and forgets its findings. */
void shared_tracker_stop(struct shared_tracker *s);
/* Appends the ini file, with the tracker's own count of commands instead of r->commands.
 * `so_far`: as for discovery_snapshot_new(). */
void shared_tracker_report(struct shared_tracker *s, const struct discovery_result *r,
                           bool so_far, struct buf *out);
void shared_tracker_progress(struct shared_tracker *s, struct discovery_progress *p);
/* As tracker_rule(). */
struct key_group *shared_tracker_rule(struct shared_tracker *s, enum observed_kind kind,
                                      const char *name, bool by_value);
/* Like tracker_each_observed(); `fn` must not call this module. */
void shared_tracker_each_observed(struct shared_tracker *s, observed_fn *fn, void *arg);
/* Logs the report of observe.c. Returns false if no rule ever observed. */
bool shared_tracker_log(struct shared_tracker *s);

/* Counts the client, and makes it if *client is NULL. `name`: the client's present name; NULL:
 * none. After the call, the client's own thread may read the label without the lock. */
void shared_tracker_see(struct shared_tracker *s, struct tracker_client **client,
                        struct slice address, const char *name);
void shared_tracker_label(struct shared_tracker *s, struct tracker_client *client,
                          const char *label);
void shared_tracker_forget(struct shared_tracker *s,
                           struct tracker_client *client); /* NULL is allowed */

#endif
