/* SPDX-License-Identifier: BSD-3-Clause */
#include <inttypes.h>

#include "base/log.h"
#include "base/quote.h"
#include "lock/events/event.h"
#include "quorum/quorum_internal.h"

#define WARNINGS_MAX 10 /* lines in 10 seconds */

/* --- lines of the log --------------------------------------------------------------------- */

static struct event_facts facts_of(struct slice key)
{
	struct event_facts facts = EVENT_FACTS_INIT;

	facts.key = key;
	return facts;
}

static void describe(const struct quorum *q, const struct quorum_owner *o, struct buf *out)
{
	if (q->opts.describe)
		q->opts.describe(o, out);
}

static double held_for(const struct quorum_hold *h)
{
	double now = timers_now(h->q->opts.timers);

	return (now < h->good_until ? now : h->good_until) - h->since;
}

static void log_quorum_hold(const struct quorum_hold *h, enum lock_event e)
{
	const struct quorum *q = h->q;
	struct event_facts facts = facts_of(buf_slice(&h->key));
	struct buf holder = BUF_INIT;
	uint32_t suppressed;

	if (!event_is_logged(q->opts.stats, e, timers_now(q->opts.timers), &suppressed))
		return;
	describe(q, h->of, &holder);
	facts.holder = buf_slice(&holder);
	facts.held = held_for(h);
	event_log(q->opts.stats, e, &facts, suppressed);
	buf_release(&holder);
}

static void log_quorum_try(const struct quorum *q, const struct quorum_owner *o,
                           struct slice key, enum lock_event e, double waited)
{
	struct event_facts facts = facts_of(key);
	struct buf by = BUF_INIT;
	uint32_t suppressed;

	if (!event_is_logged(q->opts.stats, e, timers_now(q->opts.timers), &suppressed))
		return;
	describe(q, o, &by);
	facts.by = buf_slice(&by);
	facts.waited = waited;
	event_log(q->opts.stats, e, &facts, suppressed);
	buf_release(&by);
}

/* --- holds -------------------------------------------------------------------------------- */

void quorum_events_held(const struct quorum_hold *h)
{
	stats_change(h->q->opts.stats, STAT_HELD, true);
}

void quorum_events_ended(const struct quorum_hold *h)
{
	struct section_stats *s = h->q->opts.stats;

	stats_change(s, STAT_HELD, false);
	stats_held(s, held_for(h));
	if (s && event_is_long(held_for(h), s->log_held_ms))
		log_quorum_hold(h, LOCK_EVENT_HELD_LONG);
}

void quorum_events_renewed(const struct quorum_hold *h)
{
	stats_add(h->q->opts.stats, STAT_RENEWED);
}

void quorum_events_lost(const struct quorum_hold *h, const char *reason)
{
	stats_add(h->q->opts.stats, STAT_LOST);
	log_warning("quorum_lost quorum=%s key=%s owner=%s reason=\"%s\"", h->q->opts.name,
	            QUOTE(buf_slice(&h->key)), QUOTE(buf_slice(&h->owner)), reason);
}

void quorum_events_dropped(const struct quorum_hold *h)
{
	stats_add(h->q->opts.stats, STAT_RELEASED_AT_DISCONNECT);
	log_quorum_hold(h, LOCK_EVENT_RELEASED_AT_DISCONNECT);
}

/* --- requests ----------------------------------------------------------------------------- */

void quorum_events_fence_refused(struct quorum *q, size_t server, int64_t token, int64_t limit)
{
	uint32_t suppressed;

	if (log_limit_pass(&q->refused_fences, timers_now(q->opts.timers), WARNINGS_MAX,
	                   &suppressed))
		log_warning("quorum_fence_refused quorum=%s address=%s token=%" PRId64
		            " limit=%" PRId64 " suppressed=%" PRIu32,
		            q->opts.name, q->opts.addresses[server], token, limit, suppressed);
}

void quorum_events_waits(const struct quorum *q, bool waits)
{
	stats_change(q->opts.stats, STAT_WAITERS, waits);
}

static void count_wait(struct section_stats *s, bool won, double waited)
{
	stats_add(s, STAT_WAITED);
	stats_waited(s, waited);
	stats_add(s, won ? STAT_HANDED_OVER : STAT_TIMED_OUT);
}

void quorum_events_answered(const struct quorum *q, const struct quorum_owner *o,
                            const struct quorum_result *r)
{
	struct section_stats *s = q->opts.stats;
	double now = timers_now(q->opts.timers), waited = now - r->since;
	bool won = r->verdict == QUORUM_WON;

	if (r->waited)
		count_wait(s, won, waited);
	else if (!won)
		stats_add(s, STAT_REFUSED);
	if (won)
		stats_add(s, STAT_ACQUIRED);
	if (r->waited || !won)
		stats_contended(s, r->waited ? CONTENTION_WAITED : CONTENTION_REFUSED, 0,
		                r->key, now);
	if (!won)
		log_quorum_try(q, o, r->key,
		               r->waited ? LOCK_EVENT_WAIT_TIMED_OUT : LOCK_EVENT_LOCK_REFUSED,
		               r->waited ? waited : -1);
	else if (s && r->waited && event_is_long(waited, s->log_waited_ms))
		log_quorum_try(q, o, r->key, LOCK_EVENT_WAITED_LONG, waited);
}

void quorum_events_released(const struct quorum *q)
{
	stats_add(q->opts.stats, STAT_RELEASED);
}
