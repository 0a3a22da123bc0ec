/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker: what happened to the keys of rules and guards in mode OBSERVE: which client read
 * what and which one wrote it since, which took a lock and which took it away. One for all
 * workers of a process, because their clients meet on the same keys; the caller sees to it that
 * no two threads use it at once. No I/O; `now` is an argument, in seconds, and never goes back.
 *
 *   replies, in the order in which they come --> keys and accesses --> lines for the log
 *                                                        `--> the report
 *
 * A guard counts two things. A write is stale when its client read the key before another
 * client's last write to it. An update is lost when what is stored now does not descend from
 * it: each write descends from what its client had read. Stale writes lose updates, and a chain
 * of them may bring some back: of writes numbered 1 to n, as many are lost as the chain that
 * leads to the last one leaves out, and for an application that counts, that is exactly how
 * much the sum is short.
 *
 * Memory is bounded: there are at most limits.nkeys keys and limits.naccesses accesses. What
 * was not used for longest is forgotten, first among keys without harm, and the report says how
 * often that happened. Keys longer than TRACKER_KEY_MAX are not followed.
 */
#ifndef HASP_WATCH_TRACKER_H
#define HASP_WATCH_TRACKER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

#define TRACKER_KEY_MAX 256 /* bytes */

struct tracker_limits {
	size_t nkeys;
	size_t naccesses;
	size_t ntop; /* keys of each rule in the report */
	uint32_t burst; /* lines per 10 seconds for each rule and kind of event */
};

struct tracker;
struct tracker *tracker_new(const struct tracker_limits *limits);
void tracker_free(struct tracker *t); /* no clients are left */

enum tracker_kind { TRACKER_GUARD, TRACKER_LOCK };

/* The rule of that kind and name. It is there until the end: its counts go on over reloads.
 * `by_value`: what is stored names the owner of a lock, not the connection that took it. */
struct tracker_rule;
struct tracker_rule *tracker_rule(struct tracker *t, enum tracker_kind kind, const char *name);
void tracker_rule_by_value(struct tracker_rule *rule, bool by_value);

/* A connection. `called`: its name for the log. */
struct tracker_client;
struct tracker_client *tracker_client_new(const char *called);
void tracker_client_rename(struct tracker_client *c, const char *called);
/* It ended, and will not write any more what it has read. */
void tracker_client_free(struct tracker_client *c);

/* Something that a client did to a key. */
struct tracker_act {
	struct tracker *tracker;
	struct tracker_rule *rule;
	struct tracker_client *client;
	struct slice token; /* of the owner that the client counts as */
	int db;
	struct slice key;
	double now;
	double sent; /* the same clock, before Redis carried it out: when leases begin */
	struct buf *told; /* lines for the log are appended to it */
};

/* --- guards --- */

void tracker_read(const struct tracker_act *a);
/* `releases`: the guard would have been released with it. */
void tracker_wrote(const struct tracker_act *a, bool releases);

/* --- locks --- */

/* It was taken or, `forced`, set even if another owner had it. lease_ms: 0: without an expiry;
 * negative: with one that is not known. */
void tracker_took(const struct tracker_act *a, int64_t lease_ms, bool forced);
/* Its value was read; or `gone`: there was none. */
void tracker_seen(const struct tracker_act *a, bool gone);
/* A try was refused. */
void tracker_refused(const struct tracker_act *a);
/* Its expiry was set, or (lease_ms 0) taken away. */
void tracker_expires(const struct tracker_act *a, int64_t lease_ms);
/* It is not there any more, as far as its expiry is asked for. */
void tracker_expires_not(const struct tracker_act *a);
enum tracker_gone { TRACKER_GONE, TRACKER_WAS_GONE, TRACKER_MAY_BE_GONE };
/* It was deleted; or there was nothing to delete. */
void tracker_deleted(const struct tracker_act *a, enum tracker_gone gone);
/* Something else was done to it. */
void tracker_changed(const struct tracker_act *a);

/* --- the report --- */

/* Lines for the log: each rule's totals, and the keys that were harmed most. None when no rule
 * ever observed. */
void tracker_report(struct tracker *t, struct buf *out);

#endif
