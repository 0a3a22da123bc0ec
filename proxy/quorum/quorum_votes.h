/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_votes: counts the answers of a quorum's servers to one request, and computes the
 * fencing token of a granted lock and how long the lock is valid. Pure. It follows "Distributed
 * Locks with Redis", the Redlock page of Redis' documentation: a lock is taken if a majority
 * granted it, and is valid for its lease, less the time that the request took and the drift of
 * the servers' clocks.
 */
#ifndef HASP_QUORUM_QUORUM_VOTES_H
#define HASP_QUORUM_QUORUM_VOTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUORUM_PEERS_MAX 15 /* servers of a quorum */

enum quorum_verdict {
	QUORUM_OPEN, /* the outcome depends on answers that may still arrive */
	QUORUM_WON, /* a majority agreed */
	QUORUM_REFUSED, /* a majority answered, and too few of them agreed */
	QUORUM_UNREACHED, /* fewer than a majority answered */
};

struct quorum_votes {
	size_t nservers; /* all servers of the quorum */
	size_t nasked; /* servers that hasp has sent the request to */
	size_t nyes, nno, nfailed; /* answers so far; failed: an error, or the connection was
	                            * lost */
};

/* Returns how many of `nservers` servers are a majority. */
size_t quorum_majority(size_t nservers);

/* Returns how many servers have answered. Before the time-out (`is_over` false), also counts
 * servers that may still answer. */
size_t quorum_nanswered(const struct quorum_votes *v, bool is_over);

/* Returns the outcome of the vote. `is_over`: the time-out has passed, and later answers do not
 * count. `is_patient`: before the time-out, the vote stays open until all have answered. */
enum quorum_verdict quorum_verdict(const struct quorum_votes *v, bool is_over, bool is_patient);

/* The fencing token of a lock that a majority granted. */
struct quorum_fence {
	int64_t token; /* > 0 */
	int64_t limit; /* hasp ignores greater proposals */
};

/* Chooses the greatest of the servers' `proposals` (0: no proposal) that is at most f->limit.
 * Without a limit, one server could use up all tokens. The limit is an hour after `unix_us`, in
 * microseconds since 1970. If a majority proposes more, clocks were set back, and the limit is
 * an hour above the greatest number that a majority reaches. Returns false if fewer than a
 * majority propose f->limit or less: f->token could then be less than an earlier token. */
bool quorum_fence_choose(struct quorum_fence *f, const int64_t *proposals, size_t nservers,
                         int64_t unix_us);

/* Returns when a lease of `lease_ms` that was requested at `began` ends, in seconds. Subtracts
 * 1 % of the lease and 2 ms for the drift of clocks. */
double quorum_good_until(double began, int64_t lease_ms);

/* Returns when a server begins to vote, in seconds; 0: at once. hasp connected to the server at
 * `now`, when it had run for `uptime` seconds. `is_another`: it was restarted since its last
 * connection. */
double quorum_counts_from(double now, int64_t uptime, int64_t restart_delay_ms,
                          bool is_another);

#endif
