/* SPDX-License-Identifier: BSD-3-Clause
 *
 * read_set: the guarded keys that a connection has read and not written since. An entry
 * outlives its guard: when the connection writes a key that it has read, it must still have the
 * guard, however long after the read. The scripts check whether it has.
 *
 *   read_set_add() --the read is answered--> read --written--> gone
 *        |                                    |  ^ `-- the connection ends --> released
 *        |                             guard lost | read again
 *        |                                    v  |
 *        `-----the read is refused---------> lost --a write is refused--> gone
 */
#ifndef HASP_LOCK_GUARD_READ_SET_H
#define HASP_LOCK_GUARD_READ_SET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/map.h"
#include "base/slice.h"
#include "lock/events/stats.h"
#include "lock/rewrite/guard.h"
#include "lock/scripts/script_job.h"

/* A connection has at most this many entries. A further entry replaces the oldest; from then on
 * hasp treats a write to a key without an entry as if the key had been read. */
#define READ_SET_MAX 1024

/* Stands for the digest of a value that hasp has not seen. No value has this digest. */
#define READ_SET_UNSEEN SLICE_LIT("-")
/* Stands for the digest of a key for which MGET answered nil: there is no key, or it has
 * another type than a string. */
#define READ_SET_NO_STRING "*"

struct read_sets; /* the read sets of a worker's connections */

struct read_set;
/* Appends the name of the connection for the log, "127.0.0.1:4711 name", to `out`. */
typedef void read_sets_describe_fn(const struct read_set *r, struct buf *out);
/* `jobs` must outlive the result. `describe`: NULL: the log names no connection. */
struct read_sets *read_sets_new(struct script_jobs *jobs, read_sets_describe_fn *describe);
void read_sets_free(struct read_sets *r); /* no read set may have entries */
struct script_jobs *read_sets_jobs(const struct read_sets *r);

/* The guarded keys of one connection. */
struct read_set {
	struct list entries; /* the least recently used first */
	size_t nbytes; /* memory of the entries, in bytes */
	uint32_t n; /* number of entries */
	uint32_t nkept; /* how many of the latest entries may not be dropped for a new one */
	/* entries were dropped: a key without an entry counts as read, so the entry of a
	 * written key stays */
	bool overflowed;
	bool unchecked; /* like `overflowed`, for keys of guards with strategy = check */
	bool ended; /* read_set_end() was called */
};
void read_set_init(struct read_set *r);
/* hasp refused a read before it could add an entry: from now on a key without an entry counts
 * as read. */
void read_set_overflow(struct read_set *r);

/* A guarded key that a connection has read, or is reading or writing. */
struct read_set_entry {
	struct map_node by_id; /* keyed by read set, database and key */
	struct map_node by_lock; /* keyed by database and key */
	struct list node; /* in read_set.entries */
	struct read_set *read_set;
	struct read_sets *table;
	struct slice token; /* token of the guard's owner; if `checked`, digest of the value */
	double since; /* when the guard was acquired, by clock_now() */
	double until; /* when the guard's lease ends, by clock_now() */
	/* when the hold that statistics count began, by clock_now(); 0: none */
	double counts_from;
	bool read; /* the connection has read the key */
	bool release; /* release the guard when the connection ends */
	bool checked; /* strategy = check: there is no guard */
	bool lost; /* another owner has had the guard since the read; if `checked`, the read
	            * has failed */
	int64_t lease_ms; /* lease of the guard, in ms */
	struct section_stats *stats; /* counters of the guard's section; NULL: none */
};

/* Returns the key's entry; NULL: there is none. */
struct read_set_entry *read_set_find(struct read_sets *table, const struct read_set *r, int db,
                                     struct slice key);
struct slice read_set_entry_key(const struct read_set_entry *e);
int read_set_entry_db(const struct read_set_entry *e);

/* Returns the key's entry, or a new one, and makes it the latest of its set. `until`: when the
 * lease ends if the guard is acquired now. */
struct read_set_entry *read_set_add(struct read_sets *table, struct read_set *r, int db,
                                    const struct guarded_key *k, double until);
/* Notes a read of a key whose guard has strategy = check, with the `digest` that
 * check_write.lua expects. Returns true if the key did not count as read before. */
bool read_set_checked(struct read_sets *table, struct read_set *r, int db, struct slice key,
                      struct section_stats *stats, struct slice digest);
/* The read of a key whose guard has strategy = check has failed: the next write is refused,
 * unless an earlier read still counts. */
void read_set_check_failed(struct read_sets *table, struct read_set *r, int db,
                           struct slice key, struct section_stats *stats);
/* Makes the key's entry the latest, if there is one. */
void read_set_keep(struct read_sets *table, struct read_set *r, int db, struct slice key);

/* A request that is sent `now` acquires the guard, or begins its lease again. The lease ends at
 * `until`. */
void read_set_entry_sent(struct read_set_entry *e, double now, double until);

/* Takes the next step through the entries of all connections: see map_scan(). `fn` gets their
 * nodes `by_id`. */
uint64_t read_sets_walk(const struct read_sets *table, uint64_t cursor, map_scan_fn *fn,
                        void *arg);

/* Returns the entry of this worker's connection that has the key's guard; NULL: there is none.
 * The owner must be `token`, or, if `other`, a different one. If several connections seem to
 * have the guard, returns the last to acquire it. */
const struct read_set_entry *read_sets_holder(struct read_sets *table, int db, struct slice key,
                                              struct slice token, bool other, double now);

/* The connection has read the key under its guard. */
void read_set_entry_read(struct read_set_entry *e);
/* hasp refused the read, and the application may ignore the error. So the read counts, with a
 * lost guard, unless an earlier read counts. */
void read_set_entry_refused(struct read_set_entry *e);
/* The connection has written the key after its read, or the read failed: the read no longer
 * counts. Frees the entry, but keeps it in a set that has overflowed. */
void read_set_entry_over(struct read_set_entry *e);
/* Frees the entry: Redis did not run the command that added it, or it is not needed. */
void read_set_entry_drop(struct read_set_entry *e);
/* The guard has ended at `now`: counts how long it was held. Later calls do nothing. */
void read_set_entry_ended(struct read_set_entry *e, double now);
/* Releases the guard over hasp's own connection. */
void read_set_entry_release(const struct read_set_entry *e);

/* True if the connection has read a key whose guard's lease still runs, and not written that
 * key yet. A refused read counts, too. `now`: clock_now(). */
bool read_set_has_any(const struct read_set *r, double now);

/* True if each entry is checked, so that the connection has no guard, not even an ended one. */
bool read_set_only_checks(const struct read_set *r);

/* The connection has ended: releases the guards that it may still have. `keeps_read`: does not
 * release the guards of keys that it has read; these end with their leases. */
void read_set_end(struct read_set *r, double now, bool keeps_read);

#endif
