/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_live: lists the locks and guards of all workers' clients, the waiters, and the most
 * contended keys, for the console and HTTP. The workers answer by worker_ask.h, in small steps.
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

/* The most entries by which the longest can be chosen; a caller that wants more gets all. */
#define LIVE_MOST 500
/* How many bytes of a key, an owner or a client are listed. */
#define LIVE_TEXT 200

enum live_what {
	LIVE_HELD, /* locks, and guards, that clients have */
	LIVE_LOCKS, /* of these, the locks */
	LIVE_GUARDS, /* the guards */
	LIVE_WAITING, /* clients that stand in line */
};

/* One lock, guard or wait of one connection. */
struct live_row {
	size_t want, nbytes; /* worker_live.c's */
	int worker; /* its number */
	uint64_t client_id; /* client_list_id() */
	const struct section_stats *section; /* its kind and name; NULL: not configured now */
	int db; /* -1: not known */
	double since; /* clock_now() when it got it, or began to wait */
	double until; /* when its lease may be over, or it stops waiting; INFINITY: not known */
	bool renewed; /* (held) hasp renews it */
	long long fence; /* (held, verbs) the fencing token; else 0 */
	size_t key_len; /* the whole key's; `key` has LIVE_TEXT bytes of it at most */
	struct slice key;
	struct slice owner; /* (held) as owner_describe_token() has it; empty: it is the
	                     * application's own affair */
	struct slice client; /* "127.0.0.1:4711 name" */
};

struct live {
	uint64_t total; /* there are */
	bool whole; /* all workers have answered; else it is of those that have */
	size_t n;
	struct live_row *rows; /* the longest held, or waiting, first */
};

/* One kind of entry that the caller wants. */
struct live_want {
	enum live_what what;
	size_t most; /* how many of the longest; more than LIVE_MOST: all */
	struct live *live; /* gets them */
};
#define LIVE_WANTS_MAX 2

/* Cuts a text to LIVE_TEXT bytes. */
struct slice live_text(struct slice text);

/* Asks for all `wants` at once, so that they are of about the same time. The rows point to
 * `answers`; live_fini() of all is due. As to threads, see workers_ask(). */
void workers_live(struct worker_shared *shared, const struct live_want *wants, size_t nwants,
                  int64_t timeout_ms, struct worker_answers *answers);
void live_fini(const struct live_want *wants, size_t nwants, struct worker_answers *answers);

/* A key that clients were refused, or waited for, in the last minutes. */
struct contended_key {
	enum stats_kind kind;
	const char *section; /* its name */
	struct top_key key;
	struct top_key_counts counts; /* by enum contention */
};

/* The most contended ones, the first one most, `out[most]`. Returns how many there are. As to
 * threads, see workers_ask(). */
size_t workers_contended(struct worker_shared *shared, struct contended_key *out, size_t most,
                         int64_t timeout_ms);

#endif
