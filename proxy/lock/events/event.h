/* SPDX-License-Identifier: BSD-3-Clause
 *
 * event: what a rule, a guard or the verbs have refused, released or lost, as a line of the
 * log:
 *
 *   lock_refused mode=enforce lock=NAME key="..." by="127.0.0.1:4711 shop" holder="..."
 * held_ms=12
 *
 * in the format of observing, and with its limit: of each event of each section ten lines in
 * ten seconds (for each worker); the next one tells how many were left out. What is not known
 * is left out of the line. Whatever peers have written is quoted.
 */
#ifndef HASP_LOCK_EVENTS_EVENT_H
#define HASP_LOCK_EVENTS_EVENT_H

#include "base/slice.h"
#include "lock/events/stats.h"

struct event_facts {
	int db;
	struct slice key;
	struct slice by, holder; /* "127.0.0.1:4711 name"; empty: not known */
	double held, waited; /* seconds; negative: not known */
	double read_ago; /* seconds since `by` read the key; negative: not known */
	const char *reason; /* NULL: none */
};
#define EVENT_FACTS_INIT                                                                       \
	{                                                                                      \
		.held = -1, .waited = -1, .read_ago = -1                                       \
	}

/* What event_log() is told, for those who put it off. */
struct event_to_log {
	const struct section_stats *stats;
	enum lock_event event;
	double at; /* when it was, by clock_now() */
	uint32_t suppressed; /* by event_is_logged() */
	struct event_facts facts;
};

/* Is a line to be written about it? Asked once for each event, before its facts are gathered;
 * *suppressed is then for event_log(). `s` may be NULL: no. A lock that was lost is logged also
 * if its section logs nothing else. `now`: seconds, of one clock. */
bool event_is_logged(struct section_stats *s, enum lock_event e, double now,
                     uint32_t *suppressed);
void event_log(const struct section_stats *s, enum lock_event e,
               const struct event_facts *facts, uint32_t suppressed);

/* Does the line tell what may be wrong with the configuration? */
bool event_has_hint(enum lock_event e, const struct event_facts *facts);

/* Was it so long that it is to be told? `limit_ms`: 0: never. */
static inline bool event_is_long(double seconds, int64_t limit_ms)
{
	return limit_ms && seconds * 1000 >= (double)limit_ms;
}

#endif
