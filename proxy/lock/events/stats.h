/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stats: counts the outcomes of the commands on each section's keys, in numbers that only rise.
 * Each worker counts for itself, so that counting costs a plain addition; a reader adds the
 * numbers up, from any thread.
 *
 *   worker --stats_add()--> section_stats of this worker --.
 *   worker --stats_add()--> section_stats of this worker ---`-- stats_each() --> report,
 * metrics
 *
 * A section is identified by its kind and name. Its numbers go on over reloads, until the
 * process ends.
 */
#ifndef HASP_LOCK_EVENTS_STATS_H
#define HASP_LOCK_EVENTS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/top_keys.h"

enum stats_kind { STATS_LOCK, STATS_GUARD, STATS_VERBS, STATS_QUORUM };

enum stats_field {
	STAT_ACQUIRED, /* by an owner that did not have the lock before; includes
	                * STAT_HANDED_OVER */
	STAT_RELEASED, /* commands that released a lock, or one hold of it */
	STAT_RENEWED, /* leases that hasp began again */
	STAT_REFUSED, /* tries that got no lock, without waiting */
	STAT_WRITES_REFUSED,
	STAT_DELETES_REFUSED,
	STAT_UPDATES_REFUSED, /* guards: the key had been read under a guard that was lost */
	STAT_WAITED, /* tries that waited in line */
	STAT_HANDED_OVER, /* STAT_WAITED that got the lock */
	STAT_TIMED_OUT, /* STAT_WAITED that did not get it in time */
	STAT_DEADLOCKS, /* STAT_WAITED that ended with -DEADLOCK */
	STAT_RELEASED_AT_DISCONNECT,
	STAT_LOST, /* the lease was over before it was renewed, or a server forgot the lock */
};
#define STATS (STAT_LOST + 1)

/* Numbers that rise and fall. */
enum stats_gauge {
	STAT_HELD, /* locks whose lease is not over, as far as hasp knows; without guards */
	STAT_WAITERS, /* tries that wait in line */
};
#define STATS_GAUGES (STAT_WAITERS + 1)

/* Events that hasp logs, each with a limit of its own. event.c has their names. */
enum lock_event {
	LOCK_EVENT_LOCK_REFUSED,
	LOCK_EVENT_WRITE_REFUSED,
	LOCK_EVENT_DELETE_REFUSED,
	LOCK_EVENT_UPDATE_REFUSED,
	LOCK_EVENT_WAIT_TIMED_OUT,
	LOCK_EVENT_DEADLOCK,
	LOCK_EVENT_RELEASED_AT_DISCONNECT,
	LOCK_EVENT_LOST,
	LOCK_EVENT_HELD_LONG,
	LOCK_EVENT_WAITED_LONG,
};
#define LOCK_EVENTS (LOCK_EVENT_WAITED_LONG + 1)

/* The numbers of one worker and one section. Only that worker's thread writes them, and uses
 * the fields after `held`. */
struct section_stats {
	struct metrics_counter n[STATS]; /* indexed by enum stats_field */
	struct metrics_counter now[STATS_GAUGES]; /* indexed by enum stats_gauge */
	struct metrics_histogram waited; /* how long tries waited in line, with any outcome */
	struct metrics_histogram held; /* how long locks were held, at their end */
	enum stats_kind kind;
	const char *name; /* name of the section; for [verbs] the name of LOCK */
	bool log_events;
	int64_t log_held_ms, log_waited_ms; /* 0: not logged */
	bool watches_reads; /* notes which connections read its locks, for the log */
	struct log_limit limits[LOCK_EVENTS];
	struct top_keys *contended; /* contended keys of all of that worker's sections */
};

/* Counts an outcome; nothing if `s` is NULL. */
static inline void stats_add(struct section_stats *s, enum stats_field what)
{
	if (s)
		metrics_count(&s->n[what], 1);
}

/* Counts one more, or one less. */
static inline void stats_change(struct section_stats *s, enum stats_gauge what, bool more)
{
	if (s)
		metrics_count(&s->now[what], more ? 1 : UINT64_MAX);
}

static inline void stats_waited(struct section_stats *s, double seconds)
{
	if (s)
		metrics_observe(&s->waited, seconds);
}

static inline void stats_held(struct section_stats *s, double seconds)
{
	if (s)
		metrics_observe(&s->held, seconds);
}

/* Events of keys that several owners want, counted by top_keys. */
enum contention {
	CONTENTION_REFUSED, /* an owner was refused because another one has the lock */
	CONTENTION_WAITED, /* an owner waited in line */
};

/* Counts an event of `key`. `now`: clock_now(). */
static inline void stats_contended(struct section_stats *s, enum contention what, int db,
                                   struct slice key, double now)
{
	if (s)
		top_keys_add(s->contended, s, db, key, what, now);
}

/* Sums over all workers. */
struct stats_sums {
	uint64_t n[STATS], now[STATS_GAUGES];
	struct metrics_sums waited, held;
};

struct stats; /* all workers' */

struct stats *stats_new(size_t nworkers);
void stats_free(struct stats *s); /* no worker runs any more */

/* Returns that worker's numbers of the section; valid until stats_free(). From any thread. */
struct section_stats *stats_section(struct stats *s, enum stats_kind kind, const char *name,
                                    size_t worker);

/* Calls `fn` with each section and its sums over all workers, in the order of their first use.
 * From any thread; `fn` must not call this module. */
typedef void stats_fn(void *arg, enum stats_kind kind, const char *name,
                      const struct stats_sums *sums);
void stats_each(struct stats *s, stats_fn *fn, void *arg);
/* Returns the sums over all sections. From any thread. */
struct stats_sums stats_total(struct stats *s);

/* Returns that worker's most contended keys of the last minutes, of all sections; `of` is the
 * section's struct section_stats. On that worker's thread. */
struct top_keys *stats_contended_keys(struct stats *s, size_t worker);

/* "lock", "guard", "verbs" or "quorum" */
const char *stats_kind_word(enum stats_kind kind);

/* "acquired" and the like */
const char *stats_field_word(enum stats_field what);
/* True if sections of that kind count this field. */
bool stats_field_counts(enum stats_field what, enum stats_kind kind);

/* Appends a line for each section with its sums. */
void stats_report(struct stats *s, struct buf *out);

#endif
