/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_live: lists the locks and guards of all workers' clients, the waiters, and the most
 * contended keys, for the console and HTTP. The workers answer in small steps: worker_ask.h.
 */
#ifndef HASP_WORKER_WORKER_LIVE_H
#define HASP_WORKER_WORKER_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "base/top_keys.h"
#include "lock/events/stats.h"
#include "worker/worker_ask.h"

/* A caller that wants at most this many entries gets the longest held; if more, all entries. */
#define LIVE_MOST 500
/* Bytes of a key, an owner or a client in a row, at most. */
#define LIVE_TEXT 200

/* Which entries the caller wants besides the waiters, which are the clients in line. */
enum live_what {
	LIVE_HELD, /* locks and guards of clients */
	LIVE_LOCKS, /* only locks */
	LIVE_GUARDS, /* only guards */
	LIVE_WAITING, /* none */
};

/* One lock, guard or wait of one connection. */
struct live_row {
	bool waits; /* for worker_live.c: the row is of live.waiters */
	size_t nbytes; /* for worker_live.c */
	uint64_t client_id; /* client_list_id() */
	const struct section_stats *section; /* kind and name of the rule or guard; NULL: it is
	                                      * not configured now */
	int db; /* -1: not known */
	double since; /* clock_now() when the client got the lock, or began to wait */
	double until; /* clock_now() when the lease or the wait may end; INFINITY: not known */
	bool renewed; /* held: hasp renews the lock */
	long long fence; /* held by a verb: the fencing token; else 0 */
	size_t key_len; /* length of the whole key; `key` has at most LIVE_TEXT bytes of it */
	struct slice key;
	struct slice owner; /* held: text of owner_describe_token(); empty: only the
	                     * application knows the owner */
	struct slice client; /* "127.0.0.1:4711 name" */
	uint64_t waiters; /* held: number of listed waiters for the lock */
};

struct live_list {
	uint64_t total; /* number of all entries, listed or not */
	size_t n;
	struct live_row *rows; /* the longest held, or waiting, first */
};

struct live {
	bool whole; /* false: the entries of some workers, which did not answer, are missing */
	struct live_list held, waiters;
	struct worker_answers answers; /* the rows point to them */
};

/* Lists entries and waiters at once, so that both lists are of about the same time. `most`: the
 * limit of each list; above LIVE_MOST: none. Always call live_fini() afterwards. Call it from
 * the threads that workers_ask() allows. */
void workers_live(struct worker_shared *shared, enum live_what what, size_t most,
                  int64_t timeout_ms, struct live *live);
/* Sorts the waiters by the lock or guard that they wait for, and counts the waiters of each
 * held row. It is declared for the tests; workers_live() calls it. */
void live_count_waiters(struct live_list *held, struct live_list *waiters);
void live_fini(struct live *live);

/* A key whose lock was refused to clients, or for which clients waited, in the last minutes. */
struct contended_key {
	enum stats_kind kind;
	const char *section; /* name of its section */
	struct top_key key;
	struct top_key_counts counts; /* by enum contention */
};

/* Writes the keys to `out[most]`, the most contended first. Returns their number. Call it from
 * the threads that workers_ask() allows. */
size_t workers_contended(struct worker_shared *shared, struct contended_key *out, size_t most,
                         int64_t timeout_ms);

#endif
