/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hold_events: holds that end otherwise than by their owner, or late: counted, and logged.
 */
#include "lock/hold/hold_internal.h"

void hold_events_describe(const struct holds *h, const struct hold_owner *o, struct buf *out)
{
	if (h->describe)
		h->describe(o, out);
}

static void log_hold(const struct hold *hold, enum lock_event e, const char *reason)
{
	struct event_facts facts = EVENT_FACTS_INIT;
	double now = timers_now(hold->holds->timers);
	double until = now < hold->good_until ? now : hold->good_until;
	struct buf holder = BUF_INIT;
	uint32_t suppressed;

	if (!event_is_logged(hold->stats, e, now, &suppressed))
		return;
	hold_events_describe(hold->holds, hold->owner, &holder);
	facts.db = lock_id_db(hold->by_id.key);
	facts.key = lock_id_key(hold->by_id.key);
	facts.holder = buf_slice(&holder);
	facts.held = until - hold->since;
	facts.reason = reason;
	event_log(hold->stats, e, &facts, suppressed);
	buf_release(&holder);
}

void hold_events_released(const struct hold *hold)
{
	stats_add(hold->stats, STAT_RELEASED_AT_DISCONNECT);
	log_hold(hold, LOCK_EVENT_RELEASED_AT_DISCONNECT, NULL);
}

void hold_events_lost(const struct hold *hold, const char *reason)
{
	stats_add(hold->stats, STAT_LOST);
	log_hold(hold, LOCK_EVENT_LOST, reason);
}

void hold_events_ended(const struct hold *hold)
{
	double now = timers_now(hold->holds->timers);
	double until = now < hold->good_until ? now : hold->good_until;

	stats_held(hold->stats, until - hold->since);
	if (hold->stats && event_is_long(until - hold->since, hold->stats->log_held_ms))
		log_hold(hold, LOCK_EVENT_HELD_LONG, NULL);
}

void hold_events_count(struct hold *hold, bool held)
{
	if (hold->counted != held)
		stats_change(hold->stats, STAT_HELD, held);
	hold->counted = held;
}

void hold_events_count_at(struct hold *hold, struct section_stats *stats)
{
	bool held = hold->counted;

	hold_events_count(hold, false);
	hold->stats = stats;
	hold_events_count(hold, held);
}
