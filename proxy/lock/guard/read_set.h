/* SPDX-License-Identifier: BSD-3-Clause
 *
 * read_set: the guarded keys that a connection has read and not written since. An entry
 * outlives its guard: a connection that writes a key that it once read must still have the
 * guard then, however long that takes. The scripts decide whether it has.
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

/* How many entries a connection has at most. A new one then replaces the oldest; from then on a
 * key without an entry counts as read when it is written. */
#define READ_SET_MAX 1024

/* Stands for the digest of a value that hasp has not seen. No value has it. */
#define READ_SET_UNSEEN SLICE_LIT("-")

struct read_sets; /* a worker's */

struct read_sets *read_sets_new(struct script_jobs *jobs); /* must outlive the read sets */
void read_sets_free(struct read_sets *r); /* no read set has entries */
void read_sets_trim(struct read_sets *r); /* frees memory that a long key took */
struct script_jobs *read_sets_jobs(const struct read_sets *r);
/* As script_jobs_opts(). */
struct rewrite_opts read_sets_opts(const struct read_sets *r, int db);

struct read_set;
/* Appends the name of the connection for the log, "127.0.0.1:4711 name", to `out`. */
typedef void read_sets_describe_fn(const struct read_set *r, struct buf *out);
/* Without `describe`, the log names no connection. */
void read_sets_set_describe(struct read_sets *table, read_sets_describe_fn *describe);

/* The guarded keys of one connection. */
struct read_set {
	struct list entries; /* oldest first */
	size_t nbytes; /* of memory */
	uint32_t n;
	bool overflowed; /* a read has no entry: entries then stay when their key is written,
	                  * because a key without one counts as read */
	bool unchecked; /* like `overflowed`, for keys that are checked */
	bool ended; /* read_set_end() was called */
};
void read_set_init(struct read_set *r);
/* A read without an entry was refused: from now on a key without an entry counts as read. */
void read_set_overflow(struct read_set *r);

/* One key. */
struct read_set_entry {
	struct map_node by_id; /* read set, database and key */
	struct map_node by_lock; /* database and key */
	struct list node; /* in its read set */
	struct read_set *read_set;
	struct read_sets *table;
	struct slice token; /* token that acquired the guard; (checked) the digest of the
	                     * value */
	double since; /* clock_now(): when the guard was acquired, if it is held */
	double until; /* clock_now(): when the guard ends, unless it is acquired again */
	double counts_from; /* clock_now(): since when the guard counts as held; 0: not at all
	                     */
	bool read; /* the read was answered */
	bool release; /* the guard is released when the connection ends */
	bool checked; /* strategy = check: there is no guard */
	bool lost; /* hasp knows that another owner had the guard since the read; or (checked)
	            * the read failed */
	int64_t lease_ms; /* lease of the guard */
	struct section_stats *stats; /* counters of its section; NULL: none */
};

/* Returns the key's entry; NULL: there is none. */
struct read_set_entry *read_set_find(struct read_sets *table, const struct read_set *r, int db,
                                     struct slice key);
struct slice read_set_entry_key(const struct read_set_entry *e);
int read_set_entry_db(const struct read_set_entry *e);

/* Returns the key's entry, or a new one, and makes it the latest of its set. The guard is good
 * until `until` if it is acquired now. */
struct read_set_entry *read_set_add(struct read_sets *table, struct read_set *r, int db,
                                    const struct guarded_key *k, double until);
/* Notes a read of a key whose guard has strategy = check, with the `digest` that
 * check_write.lua expects. Returns true if the key did not count as read before. */
bool read_set_checked(struct read_sets *table, struct read_set *r, int db, struct slice key,
                      struct section_stats *stats, struct slice digest);
/* Notes that the read of a checked key failed: as read_set_entry_refused(). */
void read_set_check_failed(struct read_sets *table, struct read_set *r, int db,
                           struct slice key, struct section_stats *stats);
/* Makes the key's entry the latest, if there is one. */
void read_set_keep(struct read_sets *table, struct read_set *r, int db, struct slice key);

/* A request that is sent now acquires the guard, or begins its lease again; the lease ends at
 * `until`. */
void read_set_entry_sent(struct read_set_entry *e, double now, double until);

/* Takes the next step through the entries of all connections: see map_scan(). */
typedef void read_sets_walk_fn(void *arg, const struct read_set_entry *e);
uint64_t read_sets_walk(const struct read_sets *table, uint64_t cursor, read_sets_walk_fn *fn,
                        void *arg);

/* Returns the entry, of any connection of this worker, whose guard was acquired last and has
 * not ended yet: a guard of the owner `token`, or (`other`) of another owner. NULL: there is
 * none. */
const struct read_set_entry *read_sets_holder(struct read_sets *table, int db, struct slice key,
                                              struct slice token, bool other, double now);

/* The key was read under its guard. */
void read_set_entry_read(struct read_set_entry *e);
/* The read was refused, and the application may have swallowed the error: counts as a read
 * whose guard was lost, unless the key was read before. */
void read_set_entry_refused(struct read_set_entry *e);
/* The key was written after its read, or the read failed. Frees the entry unless its set
 * overflowed. */
void read_set_entry_over(struct read_set_entry *e);
/* Redis did not carry out the first command on this key: frees the entry. The key then counts
 * as before: as read if its set overflowed. */
void read_set_entry_drop(struct read_set_entry *e);
/* The guard that was acquired at `counts_from` ends now for its connection: counts how long it
 * was held. Only the first call counts. */
void read_set_entry_ended(struct read_set_entry *e, double now);
/* hasp's own connection releases the guard. */
void read_set_entry_release(const struct read_set_entry *e);

/* True if the connection is between a read and its write, and a lease has not ended. Also true
 * after a refused read, because the write will be refused, too. `now`: clock_now(). */
bool read_set_has_any(const struct read_set *r, double now);

/* The connection has ended: releases the guards that it may still have. `keeps_read`: those
 * under which it has read end with their leases instead. */
void read_set_end(struct read_set *r, double now, bool keeps_read);

#endif
