/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker: turns commands and Redis' replies into events: a client took a lock, was refused a
 * lock, released its own or another client's lock, outlived its lock or let it expire; or a
 * value changed between a client's read and its write.
 *
 *   replies, in their order --> keys: present state --> groups: sums --> verdicts, reports
 *                                     `--> lines for the log
 *
 * Events are summed up by group. A group is a rule or guard in mode OBSERVE (observe.c), or
 * the pattern of similar keys (key_pattern.h), for which discovery proposes a section
 * (discovery.h). All groups use the same events and the same verdict (lock_verdict.c).
 *
 * The tracker keeps a hash of each key, with the key's present state: the clients that hold it
 * as a lock, and the clients that have read it and not written it since. It keeps keyed hashes
 * of values, to see whether two are the same, but no values. It keeps the names of one key of
 * each pattern, and of observed keys that were harmed.
 *
 * Memory is bounded: when `memory` is spent, the tracker drops half of the keys of the group
 * that has most keys, and follows no new key of that half. It ignores keys longer than
 * TRACKER_KEY_MAX, and new patterns when there are TRACKER_SHAPES_MAX. The reports say so.
 *
 * No I/O; `now` is an argument, in seconds, and never goes back. For one thread at a time.
 */
#ifndef HASP_WATCH_TRACKER_H
#define HASP_WATCH_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/siphash.h"
#include "base/slice.h"

#define TRACKER_KEY_MAX 256 /* longest key that the tracker follows, in bytes */
#define TRACKER_SHAPES_MAX 4096

#define NUMBER_UNKNOWN INT64_MIN

struct key_group;
struct tracker;
/* `memory`: limit, in bytes. */
struct tracker *tracker_new(const uint8_t secret[SIPHASH_SECRET_SIZE], size_t memory,
                            double now);
void tracker_free(struct tracker *t); /* call it when no clients are left */
/* Forgets the patterns and begins again; clients and observed rules stay. */
void tracker_clear(struct tracker *t, double now);

/* Returns the group of all keys that a rule in force matches. Discovery proposes nothing for
 * them, but a client that has taken one of them works under a lock. */
struct key_group *tracker_covered(struct tracker *t);

enum observed_kind { OBSERVED_LOCK, OBSERVED_GUARD };

/* Returns the group of the rule or guard in mode OBSERVE with this kind and name. The group
 * exists until the tracker is freed, so its counts survive reloads. `by_value`: the stored
 * value identifies the owner of a lock, not the connection that took it. */
struct key_group *tracker_rule(struct tracker *t, enum observed_kind kind, const char *name,
                               bool by_value);

/* Appends lines for the log (observe.c): for each rule that ever observed, its totals and the
 * keys with most harm. */
void observe_report(struct tracker *t, double now, struct buf *out);

/* Calls `fn` with the number of each event of each rule that ever observed. `kind`: "lock" or
 * "guard". An event has the name of its line in the log; lock_lost has no line. */
typedef void observed_fn(void *arg, const char *kind, const char *rule, const char *event,
                         uint64_t n);
void tracker_each_observed(const struct tracker *t, observed_fn *fn, void *arg);

/* Returns the keyed hash of a value, a name, an address or an owner. */
uint64_t tracker_hash(const struct tracker *t, struct slice s);

/* A connection. `address` and `name` are hashes by tracker_hash(); 0: none. */
struct tracker_client;
struct tracker_client *tracker_client_new(struct tracker *t, uint64_t address);
/* Counts an active client, once after each tracker_clear(). */
void tracker_client_count(struct tracker *t, struct tracker_client *c);
/* Sets the client's name. If the name has changed, drops the client's label. */
void tracker_client_rename(struct tracker_client *c, uint64_t name);
/* The label names the client in the log. */
bool tracker_client_is_labelled(const struct tracker_client *c);
void tracker_client_label(struct tracker_client *c, const char *label);
void tracker_client_free(struct tracker *t, struct tracker_client *c, double now);

/* The effect of a client's command on a key. */
struct tracker_act {
	struct tracker *tracker;
	struct key_group *group; /* the group that counts the act; NULL: the key's pattern */
	struct tracker_client *client;
	uint64_t owner; /* hash of the owner's token; 0: the connection is the owner */
	int db;
	struct slice key;
	uint64_t field; /* hash of the name of a hash field, which counts as a key; 0: none */
	double now;
	double sent; /* when the command arrived, by the clock of `now`; if it was queued in a
	              * transaction, when it ran */
	double queued; /* seconds that the command was queued in a transaction; 0: none */
	bool watches; /* in a transaction after WATCH: Redis detects changes for the client */
	uint32_t npipelined; /* the client's commands, with this one, that arrived before the
	                      * replies to earlier ones */
	uint64_t tried; /* hash of the value that a try to take a lock would store; 0: not known
	                 */
	bool under_lock; /* the client has a lock that the tracker does not follow */
	int64_t number; /* the integer reply to a change: for a counter, its new number;
	                 * NUMBER_UNKNOWN: there is none */
	struct buf *told; /* receives lines for the log; may be NULL if no rule observes */
};

/* --- acts on locks --- */

enum lock_way { WAY_SETNX, WAY_SET_NX, WAY_INCR, WAY_SET, WAY_SCRIPT, WAYS };
/* The client took the lock; by WAY_SET without a check whether the lock was free. `lease_ms`:
 * 0: the lock has no expiry; negative: hasp does not know the expiry. */
void tracker_took(const struct tracker_act *a, enum lock_way way, int64_t lease_ms,
                  uint64_t value);
/* The client tried to take the lock and was refused. */
void tracker_refused(const struct tracker_act *a, enum lock_way way);
/* A command set the key's expiry, or (lease_ms 0) removed it. */
void tracker_expires(const struct tracker_act *a, int64_t lease_ms);
/* A command tried to set the key's expiry, but the key did not exist. */
void tracker_expires_not(const struct tracker_act *a);
enum tracker_gone { TRACKER_GONE, TRACKER_WAS_GONE, TRACKER_MAY_BE_GONE };
/* A command deleted the key, or did not find it. */
void tracker_deleted(const struct tracker_act *a, enum tracker_gone gone);
/* A command of any other kind wrote to a lock of an observed rule. */
void tracker_changed(const struct tracker_act *a);
/* A call of a script, with the key among the call's KEYS. */
struct tracker_script {
	uint64_t id; /* identifies the script */
	const uint64_t *args; /* hashes of the first arguments */
	size_t nargs;
	size_t nkeys; /* number of keys that the call names */
	bool did; /* the reply is neither nil nor 0 */
	uint64_t returned; /* hash of the integer reply; 0: none */
};
void tracker_script(const struct tracker_act *a, const struct tracker_script *s);

/* --- acts on other keys --- */

enum read_opts { READ_GET = 1, READ_MGET = 2, READ_HGET = 4 };
/* A command read the key's value. For a guarded key, call it also if the key did not exist. */
void tracker_read(const struct tracker_act *a, enum read_opts how);
/* A command read the key, or (`is_look`) asked whether it exists; the key did not exist, or
 * hasp cannot tell. */
void tracker_missed(const struct tracker_act *a, bool is_look);
/* A command set the key. `value`: the value's hash; 0: not known. lease_ms: 0: no expiry;
 * negative: the key keeps its expiry. `keeps_read`: a later write may still be based on the
 * same read, because a guard would not be released by this write. */
void tracker_wrote(const struct tracker_act *a, uint64_t value, int64_t lease_ms,
                   bool keeps_read);
/* GETSET set the key; `was_there`: the key existed before. Returns true if GETSET was a try to
 * take a lock. If not, the caller must call tracker_wrote(). */
bool tracker_swapped(const struct tracker_act *a, uint64_t value, bool was_there);
/* A command read elements of the list. */
void tracker_listed(const struct tracker_act *a);
/* A command looked at the key: its reply depends on the key's value, or on its existence.
 * `shown`: the integer reply, 0 for nil, 1 for another value, or NUMBER_UNKNOWN. `is_string`:
 * the reply is the key's string, which may be a number. */
void tracker_looked(const struct tracker_act *a, int64_t shown, bool is_string);
/* A command such as DECR, SADD or HSET changed the key, or found nothing to change. Call it
 * before tracker_used(). */
void tracker_acted(const struct tracker_act *a);
/* A command of any other kind used the key; `writes`: the command changed the value. */
void tracker_used(const struct tracker_act *a, bool writes);

#endif
