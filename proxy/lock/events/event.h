/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event: the log line for a lock that a rule, a guard or the verbs have refused, released or
 * lost:
 *
 *   lock_refused mode=enforce lock=NAME key="..." by="127.0.0.1:4711 shop" holder="..." ...
 *
 * The format and the limit are those of mode = observe: each worker writes at most ten lines in
 * ten seconds for each event of each section, and the next line counts the suppressed ones. The
 * line omits unknown facts, and quotes all texts that peers have written.
 */
#ifndef HASP_LOCK_EVENTS_EVENT_H
#define HASP_LOCK_EVENTS_EVENT_H

#include "base/slice.h"
#include "lock/events/stats.h"

struct event_facts {
	int db; /* LOCK_DB_QUORUM: the line names no database */
	struct slice key;
	struct slice by, holder; /* clients: "127.0.0.1:4711 name"; empty: not known */
	double held, waited; /* seconds; negative: not known */
	double read_ago; /* seconds since `by` read the key; negative: not known */
	const char *reason; /* why a lock was lost; NULL: none */
};
#define EVENT_FACTS_INIT                                                                       \
	{                                                                                      \
		.held = -1, .waited = -1, .read_ago = -1                                       \
	}

/* The arguments of event_log(), for a caller that logs later. */
struct event_to_log {
	const struct section_stats *stats;
	enum lock_event event;
	double at; /* time of the event, by clock_now() */
	uint32_t suppressed; /* from event_is_logged() */
	struct event_facts facts;
};

/* True if hasp must log the event. Call it once for each event, before you gather its facts,
 * and pass *suppressed on to event_log(). `s` NULL: false. A lost lock is logged even if its
 * section logs nothing else. `now`: seconds, in all calls by the same clock. */
bool event_is_logged(struct section_stats *s, enum lock_event e, double now,
                     uint32_t *suppressed);
void event_log(const struct section_stats *s, enum lock_event e,
               const struct event_facts *facts, uint32_t suppressed);

/* True if the event's line has a hint about the configuration. */
bool event_has_hint(enum lock_event e, const struct event_facts *facts);

/* True if `seconds` is long enough to be logged. `limit_ms` 0: never. */
static inline bool event_is_long(double seconds, int64_t limit_ms)
{
	return limit_ms && seconds * 1000 >= (double)limit_ms;
}

#endif
