/* SPDX-License-Identifier: BSD-3-Clause
 *
 * quorum_internal: a quorum and its parts. Each file calls only those above it in this list:
 *
 *   quorum_peers.c      which servers hasp may ask, and which of them vote; frees locks at all
 *                       servers, until each has confirmed it
 *   quorum_values.c     the values that servers store under a lock's key
 *   quorum_ops.c        one request: its tries and steps
 *   quorum.c            creates and frees a quorum; handles connections and answers; renews and
 *                       releases clients' locks
 */
#ifndef HASP_QUORUM_QUORUM_INTERNAL_H
#define HASP_QUORUM_QUORUM_INTERNAL_H

#include "base/buf.h"
#include "base/list.h"
#include "base/log.h"
#include "base/timers.h"
#include "lock/scripts/script_call.h"
#include "quorum/quorum.h"

struct quorum_peer {
	bool up; /* connected, and has reported its run_id */
	char run_id[QUORUM_RUN_ID_SIZE]; /* from the server's last INFO; empty: none yet */
	double counts_from; /* when the server votes, by the timers' clock, in seconds */
	size_t ninflight; /* calls that the server has not answered yet */
	double quiet_since; /* time of the last answer, or of the first call after a time
	                     * without calls in flight */
	struct log_state refusing; /* the server answers calls by errors */
};

struct quorum {
	struct quorum_opts opts;
	struct quorum_peer peers[QUORUM_PEERS_MAX];
	struct list releases; /* oldest first */
	size_t nreleases;
	struct log_limit refused_fences; /* limits the log line quorum_fence_refused */
};

/* --- quorum_peers.c ----------------------------------------------------------------------- */

/* True if the server is connected and not silent. */
bool quorum_peer_can_be_asked(const struct quorum *q, size_t server, double now);
/* True if the server can be asked and votes: it has run for long enough to know all locks. */
bool quorum_peer_counts(const struct quorum *q, size_t server, double now);
/* True if calls are in flight, and the server has answered none within the time-out. */
bool quorum_peer_is_silent(const struct quorum *q, size_t server, double now);
/* Calls a script for the lock `key`. The script's arguments are the value, unless that is
 * empty, and `n` numbers. `call` must live until call->fn() has run. Returns false if the
 * server is down: then fn() does not run. */
bool quorum_peer_call(struct quorum *q, size_t server, enum script_id script, struct slice key,
                      struct slice value, const int64_t *numbers, size_t n,
                      struct quorum_call *call);

/* Frees the lock that has `value` under `key` at the servers in `among` (bits). If a server is
 * down, hasp sends it the release when it is up again, until twice the lease has passed. */
void quorum_release(struct quorum *q, struct slice key, struct slice value, uint32_t among,
                    int64_t lease_ms);
/* The server can be asked again: sends it each release that it has not confirmed. */
void quorum_releases_resend(struct quorum *q, size_t server);
void quorum_releases_free(struct quorum *q);

/* --- quorum_ops.c ------------------------------------------------------------------------- */

/* EXTEND, during done(): takes the lock at the servers that lack it. They were restarted, or
 * hasp did not reach them. A majority has the lock, so no other client can have it. */
void quorum_op_take_at_absent(struct quorum_op *op);

#endif
