/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery: learns from the commands of all clients which keys are locks, and which ones are
 * read and written back without one, and writes the configuration that would have helped.
 *
 *   replies, in their order --> keys: what is going on --> shapes: sums --> merge --> ini
 *
 * Of a key only a hash is kept, and what is going on at it: who has taken it and not released
 * it yet, who has read it and not written it since. What that came to is summed up by the key's
 * shape (key_shape.h) at once. Of values there are keyed hashes, to tell whether two are the
 * same, and nothing else.
 *
 * Memory is bounded: when `memory` is spent, every other key of the shape that has most of them
 * is not followed any more, nor are new ones of that half; so it goes on. Keys longer than
 * DISCOVERY_KEY_MAX are not followed, nor are those of new shapes when there are
 * DISCOVERY_SHAPES_MAX. The result says so.
 *
 * No I/O; `now` is an argument, in seconds, and never goes back. One thread at a time.
 */
#ifndef HASP_WATCH_DISCOVERY_H
#define HASP_WATCH_DISCOVERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/siphash.h"
#include "base/slice.h"

#define DISCOVERY_KEY_MAX 256 /* bytes */
#define DISCOVERY_SHAPES_MAX 4096

struct sampling;
struct discovery;
/* `memory`: bytes. */
struct discovery *discovery_new(const uint8_t secret[SIPHASH_SECRET_SIZE], size_t memory,
                                double now);
void discovery_free(struct discovery *d); /* no clients are left */
/* Forgets what it has learnt, and begins anew; clients stay. */
void discovery_clear(struct discovery *d, double now);
/* Not less than before, unless it begins anew. */
void discovery_set_memory(struct discovery *d, size_t memory);

/* Which commands it wants to know of; as long as the discovery. */
struct sampling *discovery_sampling(const struct discovery *d);

/* What stands for a value, a name or an address. */
uint64_t discovery_hash(const struct discovery *d, struct slice s);

/* A connection; `address` and `name` are such hashes, 0: it has none. */
struct discovery_client;
struct discovery_client *discovery_client_new(struct discovery *d, uint64_t address);
/* It did something; each is counted once since the last discovery_clear(). */
void discovery_client_count(struct discovery *d, struct discovery_client *c);
void discovery_client_rename(struct discovery_client *c, uint64_t name);
void discovery_client_free(struct discovery *d, struct discovery_client *c, double now);

/* Something that Redis did for a client to a key. */
struct discovery_act {
	struct discovery *discovery;
	struct discovery_client *client;
	int db;
	struct slice key;
	double now;
	double sent; /* the same clock, when the command came */
	bool watches; /* in a transaction that watches keys: the client checks for itself */
	bool covered; /* a rule in force has the key: nothing is proposed for it, but who has
	               * taken it as a lock is under a lock */
	bool under_lock; /* the client has a lock of another kind, such as LOCK's */
};

/* --- what is done to locks --- */

enum discovery_way { DISCOVERY_SETNX, DISCOVERY_SET_NX, DISCOVERY_INCR, DISCOVERY_WAYS };
/* lease_ms: 0: without an expiry; negative: with one that is not known. */
void discovery_took(const struct discovery_act *a, enum discovery_way way, int64_t lease_ms,
                    uint64_t value);
/* A try was refused. */
void discovery_refused(const struct discovery_act *a, enum discovery_way way);
/* Its expiry was set, or (lease_ms 0) taken away. */
void discovery_expires(const struct discovery_act *a, int64_t lease_ms);
/* It was deleted; `gone` is false: there was nothing to delete. */
void discovery_deleted(const struct discovery_act *a, bool gone);
/* A script that names it was run with these arguments, as hashes. */
void discovery_script(const struct discovery_act *a, const uint64_t *args, size_t nargs);

/* --- what is done to others --- */

enum discovery_read { DISCOVERY_GET = 1, DISCOVERY_MGET = 2 };
/* Its value was read. */
void discovery_read(const struct discovery_act *a, enum discovery_read how);
/* It was asked for, and there was none, or it is not known whether there was. */
void discovery_missed(const struct discovery_act *a);
/* It was set to a value, whatever it was. lease_ms: 0: without an expiry; negative: with the
 * one that it had. */
void discovery_wrote(const struct discovery_act *a, uint64_t value, int64_t lease_ms);
/* Something else was done to it; `writes`: its value is another one. */
void discovery_used(const struct discovery_act *a, bool writes);

/* --- the result --- */

struct discovery_result {
	const char *listen; /* as in the file, for [hasp]; NULL: there are other sections in
	                     * force, and the result has the new ones only */
	const char *address; /* for [upstream], or words that say which server it is */
	/* NULL: no. Has a section in force the key? Is there one of that name? */
	bool (*covers)(void *arg, struct slice key);
	bool (*has_section)(void *arg, bool is_guard, const char *name);
	void *arg;
	bool examples; /* with each pattern, one of its keys */
	uint64_t commands; /* with keys */
};

/* What was found until now, apart from the discovery, and so of any thread. `so_far`: it goes
 * on; else what is going on counts as ended. A copy of what is known of each pattern: a few
 * kilobytes for each. */
struct discovery_snapshot;
struct discovery_snapshot *discovery_snapshot_new(struct discovery *d, bool so_far, double now);
void discovery_snapshot_free(struct discovery_snapshot *s);
/* Appends the ini. Compares each pattern with all others: 4,000 take a third of a second. */
void discovery_report(struct discovery_snapshot *s, const struct discovery_result *r,
                      struct buf *out);
struct discovery_progress {
	double seconds;
	uint64_t commands; /* the caller's count, with keys */
	uint64_t shapes; /* of keys */
	uint64_t locks, guards; /* kinds of locks, and of values that are written back */
	uint64_t harm; /* seen so often */
};
/* What was found until now. */
void discovery_count(const struct discovery *d, double now, struct discovery_progress *p);
/* Appends a line on it. */
void discovery_put_progress(const struct discovery_progress *p, struct buf *out);

#endif
