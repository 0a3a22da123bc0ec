/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery: turns the tracker's sums into the configuration that would have prevented the
 * harm.
 *
 *   tracker --> snapshot: sums of each pattern --> merge --> verdicts --> ini
 */
#ifndef HASP_WATCH_DISCOVERY_H
#define HASP_WATCH_DISCOVERY_H

#include "watch/tracker.h"

struct discovery_result {
	const char *listen; /* value of `listen`; NULL: write only the new [lock] and [guard]
	                     * sections, because hasp already has a configuration file */
	const char *address; /* value of `address`, or words that describe the server */
	/* covers() returns true if a section in force matches the key; has_section(), if one
	 * has the name. Either may be NULL. */
	bool (*covers)(void *arg, struct slice key);
	bool (*has_section)(void *arg, bool is_guard, const char *name);
	void *arg;
	bool examples; /* write an example key for each pattern */
	uint64_t commands; /* number of commands with keys */
};

/* A copy of the sums of each pattern, a few kilobytes each. Any thread may read the copy. */
struct discovery_snapshot;
/* If `so_far` is false, discovery ends: the tracker first sums up the holds that are over. */
struct discovery_snapshot *discovery_snapshot_new(struct tracker *t, bool so_far, double now);
void discovery_snapshot_free(struct discovery_snapshot *s);
/* Appends the ini file. Compares each pattern with all others: 1/3 s for 4,000 patterns. */
void discovery_report(struct discovery_snapshot *s, const struct discovery_result *r,
                      struct buf *out);
struct discovery_progress {
	double seconds;
	uint64_t commands; /* commands with keys; the caller sets it */
	uint64_t key_patterns; /* patterns of keys */
	uint64_t locks, guards; /* patterns of locks, and of values that are written back */
	uint64_t harm; /* harmful events, such as a stolen lock */
};
/* Counts the findings so far. */
void discovery_count(struct tracker *t, double now, struct discovery_progress *p);
/* Appends a line about the progress. */
void discovery_put_progress(const struct discovery_progress *p, struct buf *out);

#endif
