/* SPDX-License-Identifier: BSD-3-Clause
 *
 * hold_events: counts holds, and logs those that last long, or that their owners did not end.
 */
#include "lock/hold/hold_internal.h"

#include "base/quote.h"

/* With how many of the latest holds age_insert() compares a new one. */
#define AGES_LOOKED_AT 64

void hold_events_describe(const struct holds *h, const struct hold_owner *o, struct buf *out)
{
	if (h->hooks.describe)
		h->hooks.describe(o, out);
}

static void log_hold(const struct hold *hold, enum lock_event e, const char *reason)
{
	struct slice id = hold->by_id.key;
	double now = timers_now(hold_table(hold)->timers);
	double until = now < hold->good_until ? now : hold->good_until;
	struct event_to_log event;

	if (!event_begin(&event, hold->stats, e, lock_id_db(id), lock_id_key(id), now))
		return;
	hold_events_describe(hold_table(hold), hold->owner, &event.holder);
	event.held = until - hold->since;
	event.reason = reason;
	event_log(&event);
}

void hold_events_released(const struct hold *hold)
{
	stats_add(hold->stats, STAT_RELEASED_AT_DISCONNECT);
	log_hold(hold, LOCK_EVENT_RELEASED_AT_DISCONNECT, NULL);
}

void hold_events_lost(const struct hold *hold, const char *reason)
{
	double now = timers_now(hold_table(hold)->timers);
	uint32_t suppressed;

	stats_add(hold->stats, STAT_LOST);
	if (!layout_of(hold->kind)->voted)
		log_hold(hold, LOCK_EVENT_LOST, reason);
	else if (event_is_logged(hold->stats, LOCK_EVENT_LOST, now, &suppressed))
		log_warning("quorum_lost quorum=%s key=%s owner=%s reason=\"%s\" suppressed=%u",
		            hold->stats->name, QUOTE(lock_id_key(hold->by_id.key)),
		            QUOTE(hold_token(hold)), reason, suppressed);
}

void hold_events_ended(const struct hold *hold)
{
	double now = timers_now(hold_table(hold)->timers);
	double until = now < hold->good_until ? now : hold->good_until;

	stats_held(hold->stats, until - hold->since);
	if (hold->stats && event_is_long(until - hold->since, hold->stats->log_held_ms))
		log_hold(hold, LOCK_EVENT_HELD_LONG, NULL);
}

/* Puts the hold in the order of age. Usually it is the latest; if its reply came very late,
 * some holds at the end of the list are younger. */
static void age_insert(struct hold *hold)
{
	struct list *head = &hold_table(hold)->by_age, *at = head->prev;

	for (size_t i = 0; i < AGES_LOOKED_AT && at != head; i++, at = at->prev)
		if (container_of(at, struct hold, by_age)->since <= hold->since)
			break;
	list_prepend(at, &hold->by_age);
}

void hold_events_count(struct hold *hold, bool held)
{
	if (hold->counted == held)
		return;
	hold->counted = held;
	stats_change(hold->stats, STAT_HELD, held);
	if (!held) {
		list_remove(&hold->by_age);
		hold_table(hold)->ncounted--;
		return;
	}
	/* (A hold that has replaced an earlier one is in the list already.) */
	if (list_empty(&hold->by_age))
		age_insert(hold);
	hold_table(hold)->ncounted++;
}

void hold_events_count_at(struct hold *hold, struct section_stats *stats)
{
	if (hold->counted) {
		stats_change(hold->stats, STAT_HELD, false);
		stats_change(stats, STAT_HELD, true);
	}
	hold->stats = stats;
}
