/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker: turns commands and Redis' replies into events. A lock was taken, refused, released
 * by its holder or by another client, outlived or left to expire. A value changed between a
 * client's read and its write.
 *
 *   replies, in their order --> keys: present state --> groups: sums --> verdicts, reports
 *                                     `--> lines for the log
 *
 * Events are summed up by group. A group is a rule or guard in mode OBSERVE (observe.c), or
 * the pattern of similar keys (key_pattern.h), for which discovery proposes a section
 * (discovery.h). Both use the same events and the same verdict (lock_verdict.c).
 *
 * The tracker keeps a hash of each key, with the key's present state: the client that has
 * taken it and not released it yet, and the clients that have read it and not written it
 * since. It keeps only keyed hashes of values, to see whether two are the same, and the names
 * of observed keys that were harmed.
 *
 * Memory is bounded: when `memory` is spent, the tracker drops every other key of the group
 * that has most keys, and follows no new key of that half. It ignores keys longer than
 * TRACKER_KEY_MAX, and new patterns when there are TRACKER_SHAPES_MAX. The reports say so.
 *
 * No I/O; `now` is an argument, in seconds, and never goes back. One thread at a time.
 */
#ifndef HASP_WATCH_TRACKER_H
#define HASP_WATCH_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/siphash.h"
#include "base/slice.h"

#define TRACKER_KEY_MAX 256 /* bytes */
#define TRACKER_SHAPES_MAX 4096

struct key_group;
struct sampling;
struct tracker;
/* `memory`: limit, in bytes. */
struct tracker *tracker_new(const uint8_t secret[SIPHASH_SECRET_SIZE], size_t memory,
                            double now);
void tracker_free(struct tracker *t); /* no clients are left */
/* Forgets the patterns and begins again; clients and observed rules stay. */
void tracker_clear(struct tracker *t, double now);
/* The memory must not shrink, unless the tracker starts afresh. */
void tracker_set_memory(struct tracker *t, size_t memory);

/* Decides which commands the tracker wants to see; lives as long as the tracker. */
struct sampling *tracker_sampling(const struct tracker *t);

/* Returns the group of keys that a rule in force matches: nothing is proposed for them, but a
 * client that has taken one of them is under a lock. */
struct key_group *tracker_covered(struct tracker *t);

enum observed_kind { OBSERVED_LOCK, OBSERVED_GUARD };

/* Returns the group of the rule or guard in mode OBSERVE of that kind and name. It exists
 * until the tracker is freed: its counts go on over reloads. `by_value`: the stored value
 * names the owner of a lock, not the connection that took it. */
struct key_group *tracker_rule(struct tracker *t, enum observed_kind kind, const char *name,
                               bool by_value);

/* Appends lines for the log (observe.c): each rule's totals, and the keys that were harmed
 * most. None when no rule ever observed. */
void observe_report(struct tracker *t, double now, struct buf *out);

/* Calls `fn` with the number of each event of each rule that ever observed. `kind`: "lock" or
 * "guard". Events have the names of their lines in the log; lock_lost has no line. */
typedef void observed_fn(void *arg, const char *kind, const char *rule, const char *event,
                         uint64_t n);
void tracker_each_observed(const struct tracker *t, observed_fn *fn, void *arg);

/* Returns the keyed hash of a value, a name, an address or an owner. */
uint64_t tracker_hash(const struct tracker *t, struct slice s);

/* A connection; `address` and `name` are such hashes; 0: none. */
struct tracker_client;
struct tracker_client *tracker_client_new(struct tracker *t, uint64_t address);
/* Counts a client that did something, once after each tracker_clear(). */
void tracker_client_count(struct tracker *t, struct tracker_client *c);
/* A client with a new name has no label until it gets one. */
void tracker_client_rename(struct tracker_client *c, uint64_t name);
/* The client's name in the log; true if it has one. */
bool tracker_client_is_labelled(const struct tracker_client *c);
void tracker_client_label(struct tracker_client *c, const char *label);
void tracker_client_free(struct tracker *t, struct tracker_client *c, double now);

/* An act of Redis for a client on a key. */
struct tracker_act {
	struct tracker *tracker;
	struct key_group *group; /* counts the act; NULL: the group of the key's pattern */
	struct tracker_client *client;
	uint64_t owner; /* hash of the owner's token by the observed rule; 0: the connection */
	int db;
	struct slice key;
	uint64_t field; /* hash of the field of a hash; each counts as a key; 0: none */
	double now;
	double sent; /* arrival of the command, by the same clock */
	bool watches; /* in a transaction that watches keys: the client checks for itself */
	bool under_lock; /* the client has a lock of another kind, such as LOCK's */
	struct buf *told; /* gets lines for the log; NULL unless observed */
};

/* --- acts on locks --- */

enum lock_way { WAY_SETNX, WAY_SET_NX, WAY_INCR, WAY_SET, WAY_SCRIPT, WAYS };
/* WAY_SET: the lock was set whichever owner had it; for observed rules only. lease_ms: 0:
 * without an expiry; negative: with one that is not known. */
void tracker_took(const struct tracker_act *a, enum lock_way way, int64_t lease_ms,
                  uint64_t value);
/* A try was refused. */
void tracker_refused(const struct tracker_act *a, enum lock_way way);
/* A command set the key's expiry, or (lease_ms 0) removed it. */
void tracker_expires(const struct tracker_act *a, int64_t lease_ms);
/* A command tried to set the key's expiry, but the key did not exist. */
void tracker_expires_not(const struct tracker_act *a);
enum tracker_gone { TRACKER_GONE, TRACKER_WAS_GONE, TRACKER_MAY_BE_GONE };
/* A command deleted the key, or found none. */
void tracker_deleted(const struct tracker_act *a, enum tracker_gone gone);
/* Something else was done to a lock. */
void tracker_changed(const struct tracker_act *a);
/* The call of a script that names the key. */
struct tracker_script {
	uint64_t id; /* the same number for each call of one script */
	const uint64_t *args; /* hashes */
	size_t nargs;
	size_t nkeys; /* number of keys that the script names */
	bool did; /* the reply is neither nil nor 0 */
	uint64_t returned; /* hash of the integer that it returned; 0: none */
};
void tracker_script(const struct tracker_act *a, const struct tracker_script *s);

/* --- acts on other keys --- */

enum read_opts { READ_GET = 1, READ_MGET = 2, READ_HGET = 4 };
/* A command read the key's value; for a guarded key, also if there was none. */
void tracker_read(const struct tracker_act *a, enum read_opts how);
/* A read of the key, or (`is_look`) a question whether it exists, has found none, or hasp does
 * not know whether it has. */
void tracker_missed(const struct tracker_act *a, bool is_look);
/* The key was set; `value`: the value's hash; 0: not known. lease_ms: 0: without an expiry;
 * negative: the key keeps its expiry. `keeps_read`: this write would not release a guard. */
void tracker_wrote(const struct tracker_act *a, uint64_t value, int64_t lease_ms,
                   bool keeps_read);
/* GETSET set the key; `was_there`: there was a value before. True: it was a try to take a
 * lock; false: the caller reports it by tracker_wrote(). */
bool tracker_swapped(const struct tracker_act *a, uint64_t value, bool was_there);
/* The elements of the list were read. */
void tracker_listed(const struct tracker_act *a);
/* The key was used otherwise; `writes`: the use changed its value. */
void tracker_used(const struct tracker_act *a, bool writes);

#endif
