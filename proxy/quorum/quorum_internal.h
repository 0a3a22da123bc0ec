/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_internal: a quorum and its parts. Each file calls only those above it in this list:
 *
 *   quorum_peers.c      the known state of the servers: which may be asked, and vote
 *   quorum_releases.c   frees locks at all servers, until each has confirmed it
 *   quorum_values.c     the values that servers store under a lock's key
 *   quorum_ops.c        one request: its tries and steps
 *   quorum_holds.c      renews and releases clients' locks
 *   quorum.c            beginning and end; answers of the servers
 */
#ifndef HASP_QUORUM_QUORUM_INTERNAL_H
#define HASP_QUORUM_QUORUM_INTERNAL_H

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/timers.h"
#include "lock/scripts/script.h"
#include "quorum/quorum.h"

struct quorum_peer {
	bool up; /* connected, and has reported its run_id */
	char run_id[QUORUM_RUN_ID_SIZE]; /* run_id of the last process that was up; empty: none
	                                  * yet */
	double counts_from; /* when it votes again, by the clock, in seconds */
	size_t ninflight; /* calls without an answer yet */
	double quiet_since; /* if there are such calls: the server is silent since then */
};

struct quorum {
	struct quorum_opts opts;
	struct quorum_peer peers[QUORUM_PEERS_MAX];
	struct list releases; /* oldest first */
	size_t nreleases;
	struct log_limit refused_fences;
};

/* --- quorum_peers.c ----------------------------------------------------------------------- */

/* True if the server is connected, and answers. */
bool quorum_peer_can_be_asked(const struct quorum *q, size_t server, double now);
/* True if the server also votes: it has forgotten no lock that may still be held. */
bool quorum_peer_counts(const struct quorum *q, size_t server, double now);
/* True if the server has not answered within the time-out. */
bool quorum_peer_is_silent(const struct quorum *q, size_t server, double now);
/* Calls a script for the lock `key`. Its arguments are the value, unless that is empty, and `n`
 * numbers. `call` must live until its fn() ran. False: the call was not sent, and gets no
 * answer. */
bool quorum_peer_call(struct quorum *q, size_t server, enum script_id script, struct slice key,
                      struct slice value, const int64_t *numbers, size_t n,
                      struct quorum_call *call);

/* --- quorum_releases.c -------------------------------------------------------------------- */

typedef void quorum_released_fn(void *arg, size_t server, const struct quorum_answer *a);

/* Frees the lock that has `value` under `key` at the servers in `among` (bits), even if they
 * may not have it, and repeats this until all leases are over. `fn` gets the servers'
 * answers; the result lives until quorum_release_forget(). NULL: the caller ignores the result.
 */
struct quorum_release *quorum_release_new(struct quorum *q, struct slice key,
                                          struct slice value, uint32_t among, int64_t lease_ms,
                                          quorum_released_fn *fn, void *arg);
/* Returns how many servers have got the release, but have not answered yet. */
size_t quorum_release_ndue(const struct quorum_release *r);
/* Stops the calls of `fn`. */
void quorum_release_forget(struct quorum_release *r);
/* The server can be asked again: sends it the releases that it has not got yet. */
void quorum_releases_resend(struct quorum *q, size_t server);
/* Removes the releases that have ended. */
void quorum_releases_trim(struct quorum *q, double now);
void quorum_releases_free(struct quorum *q);

#endif
