/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery: writes the configuration that would have prevented harm, from the tracker's sums.
 *
 *   tracker --> snapshot: sums of each pattern --> merge --> verdicts --> ini
 */
#ifndef HASP_WATCH_DISCOVERY_H
#define HASP_WATCH_DISCOVERY_H

#include "watch/tracker.h"

struct discovery_result {
	const char *listen; /* as in the file, for [hasp]; NULL: there are other sections in
	                     * force, and the result has the new ones only */
	const char *address; /* for [upstream], or words that say which server it is */
	/* Return true if a section in force has the key, or that name. NULL: none has. */
	bool (*covers)(void *arg, struct slice key);
	bool (*has_section)(void *arg, bool is_guard, const char *name);
	void *arg;
	bool examples; /* shows one key of each pattern */
	uint64_t commands; /* commands with keys */
};

/* A copy of the sums of each pattern, a few kilobytes each. Any thread may read it. `so_far`:
 * the discovery goes on; else its open holds end now. */
struct discovery_snapshot;
struct discovery_snapshot *discovery_snapshot_new(struct tracker *t, bool so_far, double now);
void discovery_snapshot_free(struct discovery_snapshot *s);
/* Appends the ini. Compares each pattern with all others: 4,000 take a third of a second. */
void discovery_report(struct discovery_snapshot *s, const struct discovery_result *r,
                      struct buf *out);
struct discovery_progress {
	double seconds;
	uint64_t commands; /* the caller's count of commands with keys */
	uint64_t key_patterns; /* patterns of keys */
	uint64_t locks, guards; /* kinds of locks, and of values that are written back */
	uint64_t harm; /* events of harm */
};
/* Counts the findings so far. */
void discovery_count(struct tracker *t, double now, struct discovery_progress *p);
/* Appends a line about the progress. */
void discovery_put_progress(const struct discovery_progress *p, struct buf *out);

#endif
