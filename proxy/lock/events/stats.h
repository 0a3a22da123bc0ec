/* SPDX-License-Identifier: BSD-3-Clause
 *
 * stats: counts the outcomes of the commands on each section's keys. Each worker counts for
 * itself, so that counting costs a plain addition; any thread may read the sums.
 *
 *   worker --stats_add()--> section_stats of this worker --.
 *   worker --stats_add()--> section_stats of this worker --`-- stats_each() --> log, metrics
 *
 * A section is identified by its kind and name. A reload keeps its numbers.
 *
 * Also writes the log line for a lock that a section has refused, released or lost:
 *
 *   lock_refused mode=enforce lock=NAME key="..." by="127.0.0.1:4711 shop" holder="..." ...
 *
 * The format and the limit are those of mode = observe: each worker writes at most ten lines in
 * ten seconds for each event of each section, and the next line counts the suppressed ones. The
 * line omits unknown facts, and quotes all texts that peers have written.
 */
#ifndef HASP_LOCK_EVENTS_STATS_H
#define HASP_LOCK_EVENTS_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/slice.h"
#include "base/top_keys.h"
#include "lock/model/lock_id.h"

enum stats_kind { STATS_LOCK, STATS_GUARD, STATS_VERBS, STATS_QUORUM };

enum stats_field {
	STAT_ACQUIRED, /* tries that got a lock, at once or after waiting; not if their owner
	                * already had it */
	STAT_RELEASED, /* commands that released a lock, or one hold of it */
	STAT_RENEWED, /* leases that hasp extended */
	STAT_REFUSED, /* tries that got no lock, and did not wait */
	STAT_WRITES_REFUSED,
	STAT_DELETES_REFUSED,
	STAT_UPDATES_REFUSED, /* writes of a guarded key whose guard was lost since the read */
	STAT_WAITED, /* tries that waited in a lock's queue */
	STAT_HANDED_OVER, /* tries that waited, and got the lock */
	STAT_TIMED_OUT, /* tries that waited, and did not get the lock in time */
	STAT_DEADLOCKS, /* tries that waited, and got -DEADLOCK */
	STAT_RELEASED_AT_DISCONNECT,
	STAT_LOST, /* locks that ended before hasp renewed them, or that a server forgot */
};
#define STATS (STAT_LOST + 1)

/* Numbers that rise and fall. */
enum stats_gauge {
	STAT_HELD, /* locks whose lease runs, as far as hasp knows; no guards */
	STAT_WAITERS, /* tries that wait in a lock's queue now */
};
#define STATS_GAUGES (STAT_WAITERS + 1)

/* Events that hasp logs. Each event has its own limit of log lines. */
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

/* One section's numbers at one worker. Only that worker's thread writes the numbers, or uses
 * the fields after `held`. */
struct section_stats {
	struct metrics_counter n[STATS]; /* indexed by enum stats_field */
	struct metrics_counter now[STATS_GAUGES]; /* indexed by enum stats_gauge */
	struct metrics_histogram waited; /* how long tries waited, whatever their outcome */
	struct metrics_histogram held; /* how long locks were held; counted when they end */
	enum stats_kind kind;
	const char *name; /* name of the section; for [verbs], the name that the section gives
	                   * LOCK */
	bool log_events;
	/* hasp logs holds and waits that are longer than this, in ms; 0: none */
	int64_t log_held_ms, log_waited_ms;
	/* hasp notes which connections read the locks, for a hint in the log */
	bool watches_reads;
	struct log_limit limits[LOCK_EVENTS];
	struct top_keys *contended; /* shared by all of the worker's sections */
};

/* Counts an outcome. Does nothing if `s` is NULL, like the functions below. */
static inline void stats_add(struct section_stats *s, enum stats_field what)
{
	if (s)
		metrics_count(&s->n[what], 1);
}

/* Adds one to the gauge if `more`, else subtracts one. */
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

/* Events that top_keys counts for keys that several owners want. */
enum contention {
	CONTENTION_REFUSED, /* an owner was refused because another owner has the lock */
	CONTENTION_WAITED, /* an owner waited in the lock's queue */
};

/* Counts an event of `key` for stats_contended_keys(). `now`: clock_now(). */
static inline void stats_contended(struct section_stats *s, enum contention what, int db,
                                   struct slice key, double now)
{
	if (s)
		top_keys_add(s->contended, s, lock_db_shown(db), key, what, now);
}

/* Counts a client that begins to wait in line for `key`. */
static inline void stats_wait_began(struct section_stats *s, int db, struct slice key,
                                    double now)
{
	stats_add(s, STAT_WAITED);
	stats_contended(s, CONTENTION_WAITED, db, key, now);
}

/* The sums of all workers' numbers. */
struct stats_sums {
	uint64_t n[STATS], now[STATS_GAUGES];
	struct metrics_sums waited, held;
};

struct stats; /* the numbers of all sections at all workers */

struct stats *stats_new(size_t nworkers);
void stats_free(struct stats *s); /* call it when no worker runs any more */

/* Returns the section's numbers at `worker`, valid until stats_free(). Any thread may call
 * it. */
struct section_stats *stats_section(struct stats *s, enum stats_kind kind, const char *name,
                                    size_t worker);

/* Calls `fn` with each section and its sums, in the order of their first use. Any thread may
 * call it; `fn` must not call this module. */
typedef void stats_fn(void *arg, enum stats_kind kind, const char *name,
                      const struct stats_sums *sums);
void stats_each(struct stats *s, stats_fn *fn, void *arg);
/* Returns the sums over all sections. Any thread may call it. */
struct stats_sums stats_total(struct stats *s);

/* Returns the most contended keys of `worker` in the last minutes, of all sections. A key's
 * `of` is the section_stats of its section. Only the thread of `worker` may call it. */
struct top_keys *stats_contended_keys(struct stats *s, size_t worker);

/* Returns "lock", "guard", "verbs" or "quorum". */
const char *stats_kind_word(enum stats_kind kind);

/* Returns the field's name in reports and metrics, such as "acquired". */
const char *stats_field_word(enum stats_field what);
/* True if sections of `kind` count the field. */
bool stats_field_counts(enum stats_field what, enum stats_kind kind);

/* Appends one log line for each section, with the section's sums. */
void stats_report(struct stats *s, struct buf *out);

/* --- events ------------------------------------------------------------------------------ */

/* An event, and the facts for its line. */
struct event_to_log {
	const struct section_stats *stats;
	enum lock_event event;
	double at; /* time of the event, by clock_now() */
	uint32_t suppressed; /* from event_is_logged() */
	int db; /* LOCK_DB_QUORUM: the line names no database */
	struct slice key;
	struct buf by, holder; /* clients: "127.0.0.1:4711 name"; empty: not known */
	double held, waited; /* seconds; negative: not known */
	double read_ago; /* seconds since `by` read the key; negative: not known */
	const char *reason; /* why a lock was lost; NULL: none */
};

/* True if hasp must log the event. Call it once for each event. `s` NULL: false. A lost lock is
 * logged even if its section logs nothing else. `now`: seconds, in all calls by the same
 * clock. */
bool event_is_logged(struct section_stats *s, enum lock_event e, double now,
                     uint32_t *suppressed);
/* As event_is_logged(). If true, sets *e, with no more facts than `db` and `key`. The caller
 * adds the others, and then calls event_log(), maybe later. */
bool event_begin(struct event_to_log *e, struct section_stats *s, enum lock_event event, int db,
                 struct slice key, double now);
/* Logs the event, and frees its texts. */
void event_log(struct event_to_log *e);

/* Returns the hint about the configuration in the event's line; NULL: there is none. */
const char *event_hint(const struct event_to_log *e);

/* True if `seconds` is long enough to be logged. `limit_ms` 0: never. */
static inline bool event_is_long(double seconds, int64_t limit_ms)
{
	return limit_ms && seconds * 1000 >= (double)limit_ms;
}

/* Counts the end of a wait in line, after `waited` seconds. `end`: LOCK_EVENT_WAIT_TIMED_OUT or
 * _DEADLOCK; _WAITED_LONG: the waiter got the lock, however long it waited. Returns true if the
 * end must be logged. */
static inline bool stats_wait_ended(struct section_stats *s, enum lock_event end, double waited)
{
	stats_waited(s, waited);
	if (end == LOCK_EVENT_WAITED_LONG) {
		stats_add(s, STAT_HANDED_OVER);
		return s && event_is_long(waited, s->log_waited_ms);
	}
	stats_add(s, end == LOCK_EVENT_DEADLOCK ? STAT_DEADLOCKS : STAT_TIMED_OUT);
	return true;
}

#endif
