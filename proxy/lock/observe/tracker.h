/* SPDX-License-Identifier: BSD-3-Clause
 *
 * witness: what happened to the keys of rules and guards in mode OBSERVE: who read what and who
 * wrote it since, who took which lock and who took it away. One for all workers of a process,
 * because their clients meet on the same keys; whoever calls sees to it that nobody else does
 * meanwhile. No I/O; `now` is an argument (clock_now()), and is not to go back.
 *
 *   replies, in the order in which they come --> keys, readings, holds --> lines for the log
 *                                                        `--> the report
 *
 * A guard counts two things. A write is stale when its client read the key before somebody
 * else's last write to it. An update is lost when what is stored now does not descend from it:
 * each write descends from what its client had read. Stale writes lose updates, and a chain of
 * them may bring some back: of writes numbered 1 to n, as many are lost as the chain that leads
 * to the last one leaves out, and for an application that counts, that is exactly how much the
 * sum is short.
 *
 * Memory is bounded: there are at most limits.nkeys keys and limits.nmarks readings and holds;
 * what was not used for longest is forgotten, first among keys that suffered nothing, and how
 * often that happened is told. Longer keys than TRACKER_KEY_MAX are not followed.
 */
#ifndef HASP_LOCK_OBSERVE_TRACKER_H
#define HASP_LOCK_OBSERVE_TRACKER_H

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
struct tracker *tracker_new(uint64_t seed, const struct tracker_limits *limits);
void tracker_free(struct tracker *w); /* no clients are left */

enum tracker_kind { TRACKER_GUARD, TRACKER_LOCK };

/* The rule of that kind and name. It is there until the end: its counts go on over reloads.
 * `by_value`: a lock is not known by who took it, but by what is stored. */
struct tracker_rule;
struct tracker_rule *tracker_rule(struct tracker *w, enum tracker_kind kind, const char *name);
void tracker_rule_by_value(struct tracker_rule *rule, bool by_value);

/* A connection. `called`: who it is, for the log. */
struct tracker_client;
struct tracker_client *tracker_client_new(const char *called);
void tracker_client_rename(struct tracker_client *c, const char *called);
/* It ended: what it has read it will not write any more. */
void tracker_client_free(struct tracker_client *c);

/* Whoever did something, and to what. */
struct tracker_act {
	struct tracker *tracker;
	struct tracker_rule *rule;
	struct tracker_client *client;
	struct slice token; /* the owner that it counts as */
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

/* It was taken or, `forced`, set whoever had it. lease_ms: 0: without an expiry; negative: with
 * one that is not known. */
void tracker_took(const struct tracker_act *a, int64_t lease_ms, bool forced);
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

/* Lines for the log: each rule's totals, and the keys that suffered most. None when no rule
 * ever observed. */
void tracker_report(struct tracker *w, struct buf *out);

#endif
