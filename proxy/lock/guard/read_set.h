/* SPDX-License-Identifier: BSD-3-Clause
 *
 * read_set: the guarded keys that a connection has read and not written since. An entry
 * outlives its guard: a connection that writes what it once read must still have the guard
 * then, however long that takes. Whether it has, the scripts decide.
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

/* A connection has no more entries than this. For another one the oldest is dropped; from then
 * on a key without an entry counts as read when it is written. */
#define READ_SET_MAX 1024

/* Stands for the digest of a value that hasp has not seen. No value has it. */
#define READ_SET_UNSEEN SLICE_LIT("-")

struct read_sets; /* a worker's */

struct read_sets *read_sets_new(struct script_jobs *jobs); /* which outlive it */
void read_sets_free(struct read_sets *r); /* no read set has entries */
void read_sets_trim(struct read_sets *r); /* gives back what a long key took */
struct script_jobs *read_sets_jobs(const struct read_sets *r);
/* script_jobs_how() */
struct rewrite_how read_sets_how(const struct read_sets *r, int db);

struct read_set;
/* Appends what the log calls the connection, "127.0.0.1:4711 name", to `out`. */
typedef void read_sets_describe_fn(const struct read_set *r, struct buf *out);
/* Without it the log names nobody. */
void read_sets_set_describe(struct read_sets *table, read_sets_describe_fn *describe);

/* A connection's. */
struct read_set {
	struct list entries; /* oldest first */
	size_t nbytes; /* of memory */
	uint32_t n;
	bool overflowed; /* a read has no entry; then those that are written stay, because a
	                  * key without one counts as read */
	bool unchecked; /* as `overflowed`, for keys that are checked */
	bool ended; /* read_set_end() was called */
};
void read_set_init(struct read_set *r);
/* A read was refused of which no entry tells: from now on a key without an entry counts as
 * read. */
void read_set_overflow(struct read_set *r);

/* One key. */
struct read_set_entry {
	struct map_node by_id; /* read set, database and key */
	struct map_node by_lock; /* database and key */
	struct list node; /* in its read set */
	struct read_set *read_set;
	struct read_sets *table;
	struct slice token; /* by which the guard was acquired; or (checked) the digest of what
	                     * was read */
	double since; /* clock_now(): when the guard was acquired, if it is held */
	double until; /* the same: when it is over, unless it is acquired again */
	double counts_from; /* the same: since when it counts as held; 0: it does not, or no
	                     * more
	                     */
	bool read; /* the read was answered */
	bool release; /* the guard is released when the connection ends */
	bool checked; /* strategy = check: there is no guard */
	bool lost; /* another owner had the guard since the read, as far as is known here; or
	            * (checked) the read failed */
	int64_t lease_ms; /* of the guard */
	struct section_stats *stats; /* of its section; NULL: none */
};

/* NULL: none. */
struct read_set_entry *read_set_find(struct read_sets *table, const struct read_set *r, int db,
                                     struct slice key);
struct slice read_set_entry_key(const struct read_set_entry *e);
int read_set_entry_db(const struct read_set_entry *e);

/* The entry of the key, or a new one; the latest of the set from now on. The guard is good
 * until `until` if it is acquired now. */
struct read_set_entry *read_set_add(struct read_sets *table, struct read_set *r, int db,
                                    const struct guarded_key *k, double until);
/* A key whose guard has strategy = check was read, with the `digest` that check_write.lua
 * expects. Returns true if the key did not count as read before. */
bool read_set_checked(struct read_sets *table, struct read_set *r, int db, struct slice key,
                      struct section_stats *stats, struct slice digest);
/* The same, but the read failed: as read_set_entry_refused(). */
void read_set_check_failed(struct read_sets *table, struct read_set *r, int db,
                           struct slice key, struct section_stats *stats);
/* Makes the key's entry the latest, if there is one. */
void read_set_keep(struct read_sets *table, struct read_set *r, int db, struct slice key);

/* The guard is acquired, or its lease begun again, by what is sent now: until then. */
void read_set_entry_sent(struct read_set_entry *e, double now, double until);

/* The next step through the entries of all connections: see map_scan(). */
typedef void read_sets_walk_fn(void *arg, const struct read_set_entry *e);
uint64_t read_sets_walk(const struct read_sets *table, uint64_t cursor, read_sets_walk_fn *fn,
                        void *arg);

/* The entry, of any connection, whose guard was acquired last and is good still, as far as is
 * known here: of the owner `token`, or of any other. NULL: there is none. */
const struct read_set_entry *read_sets_holder(struct read_sets *table, int db, struct slice key,
                                              struct slice token, bool other, double now);

/* The key was read under its guard. */
void read_set_entry_read(struct read_set_entry *e);
/* The read was refused, and the application may have swallowed the error: counts as a read
 * whose guard was lost, unless the key was read before. */
void read_set_entry_refused(struct read_set_entry *e);
/* What was read is written, or the read failed. Frees the entry unless its set overflowed. */
void read_set_entry_over(struct read_set_entry *e);
/* What was begun with a key that had no entry was not carried out: it has none again, and
 * counts as read as before if its set overflowed. Frees the entry. */
void read_set_entry_drop(struct read_set_entry *e);
/* The guard that was acquired at `counts_from` ends now, as far as its connection is concerned:
 * it counts how long that was. Once. */
void read_set_entry_ended(struct read_set_entry *e, double now);
/* hasp's own connection releases the guard. */
void read_set_entry_release(const struct read_set_entry *e);

/* Is the connection between a read and its write, by the leases of the guards? Also when the
 * read was refused: so will be the write. `now`: clock_now(). */
bool read_set_has_any(const struct read_set *r, double now);

/* The connection ended: guards that it may still have are released. `keeps_read`: those under
 * which it has read run out with their leases. */
void read_set_end(struct read_set *r, double now, bool keeps_read);

#endif
