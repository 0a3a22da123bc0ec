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
 * often that happened is told. Longer keys than WITNESS_KEY_MAX are not followed.
 */
#ifndef HASP_LOCK_WITNESS_H
#define HASP_LOCK_WITNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

#define WITNESS_KEY_MAX 256 /* bytes */

struct witness_limits {
	size_t nkeys;
	size_t nmarks;
	size_t ntop; /* keys of each rule in the report */
	uint32_t burst; /* lines per 10 seconds for each rule and kind of event */
};

struct witness;
struct witness *witness_new(uint64_t seed, const struct witness_limits *limits);
void witness_free(struct witness *w); /* no clients are left */

enum witness_kind { WITNESS_GUARD, WITNESS_LOCK };

/* The rule of that kind and name. It is there until the end: its counts go on over reloads.
 * `by_value`: a lock is not known by who took it, but by what is stored. */
struct witness_rule;
struct witness_rule *witness_rule(struct witness *w, enum witness_kind kind, const char *name);
void witness_rule_by_value(struct witness_rule *rule, bool by_value);

/* A connection. `called`: who it is, for the log. */
struct witness_client;
struct witness_client *witness_client_new(const char *called);
void witness_client_call(struct witness_client *c, const char *called);
/* It ended: what it has read it will not write any more. */
void witness_client_free(struct witness_client *c);

/* Whoever did something, and to what. */
struct witness_act {
	struct witness *witness;
	struct witness_rule *rule;
	struct witness_client *client;
	struct slice token; /* the owner that it counts as */
	int db;
	struct slice key;
	double now;
	double sent; /* the same clock, before Redis carried it out: when leases begin */
	struct buf *told; /* lines for the log are appended to it */
};

/* --- guards --- */

void witness_read(const struct witness_act *a);
/* `releases`: the guard would have been released with it. */
void witness_wrote(const struct witness_act *a, bool releases);

/* --- locks --- */

/* It was taken or, `forced`, set whoever had it. lease_ms: 0: without an expiry; negative: with
 * one that is not known. */
void witness_took(const struct witness_act *a, int64_t lease_ms, bool forced);
/* A try was refused. */
void witness_refused(const struct witness_act *a);
/* Its expiry was set, or (lease_ms 0) taken away. */
void witness_expires(const struct witness_act *a, int64_t lease_ms);
/* It is not there any more, as far as its expiry is asked for. */
void witness_expires_not(const struct witness_act *a);
enum witness_gone { WITNESS_GONE, WITNESS_WAS_GONE, WITNESS_MAY_BE_GONE };
/* It was deleted; or there was nothing to delete. */
void witness_dropped(const struct witness_act *a, enum witness_gone gone);
/* Something else was done to it. */
void witness_changed(const struct witness_act *a);

/* --- the report --- */

/* Lines for the log: each rule's totals, and the keys that suffered most. None when no rule
 * ever observed. */
void witness_report(struct witness *w, struct buf *out);

#endif
