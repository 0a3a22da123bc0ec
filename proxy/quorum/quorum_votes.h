/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_votes: counts the answers of a quorum's servers to one question, and computes how long
 * a granted lock is valid, and its fencing token. Pure. After "Distributed Locks with Redis",
 * the Redlock page of Redis' documentation: a lock is taken if a majority granted it, and is
 * valid for the lease minus the time that this took and the drift of the servers' clocks.
 */
#ifndef HASP_QUORUM_QUORUM_VOTES_H
#define HASP_QUORUM_QUORUM_VOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUORUM_PEERS_MAX 15 /* servers */

enum quorum_verdict {
	QUORUM_OPEN, /* the outcome depends on answers that may still arrive */
	QUORUM_WON, /* a majority agreed */
	QUORUM_REFUSED, /* a majority answered, and too few of them agreed */
	QUORUM_UNREACHED, /* fewer than a majority answered */
};

struct quorum_votes {
	size_t nservers; /* number of servers in the quorum, asked or not */
	size_t nasked;
	size_t nyes, nno, nfailed; /* answers of the servers that were asked; failed: an error,
	                            * or the connection was lost */
};

/* Returns how many of `nservers` servers are a majority. */
size_t quorum_majority(size_t nservers);

/* Returns how many servers have answered or, unless `is_over`, may still answer. */
size_t quorum_nanswered(const struct quorum_votes *v, bool is_over);

/* `is_over`: no more answers count. `is_patient`: waits for all that may still come. */
enum quorum_verdict quorum_verdict(const struct quorum_votes *v, bool is_over, bool is_patient);

/* The fencing token of a lock that a majority granted. */
struct quorum_fence {
	int64_t token; /* > 0 */
	int64_t limit; /* greater proposals are refused */
};

/* Chooses the greatest of `proposals`: the servers', 0 where a server proposed none. Refuses
 * those that are more than an hour ahead of `unix_us`, the time in microseconds since 1970, for
 * one server could use up all tokens. If a majority is that far ahead, clocks were set back:
 * the limit is an hour ahead of what a majority reaches. Returns false if the servers that
 * propose no more than f->limit are no majority: f->token could be less than one that was
 * granted before. */
bool quorum_fence_choose(struct quorum_fence *f, const int64_t *proposals, size_t nservers,
                         int64_t unix_us);

/* Returns when a lease of `lease_ms` that was requested at `began` ends, in seconds. 1 % of it,
 * and 2 ms, are subtracted for the drift of clocks. */
double quorum_good_until(double began, int64_t lease_ms);

/* Returns when a server votes that was connected at `now` and has run for `uptime` whole
 * seconds. `is_another`: not the process that was there before. Seconds; 0: at once. */
double quorum_counts_from(double now, int64_t uptime, int64_t restart_delay_ms,
                          bool is_another);

#endif
