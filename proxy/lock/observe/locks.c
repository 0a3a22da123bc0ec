/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The locks' part of the witness: who holds which lock, for how long, and who else lays hands
 * on it. A mark is what an owner believes to hold; the key's holder is who took it last.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/observe/tracker_internal.h"

static double lease_end(double now, int64_t lease_ms)
{
	if (lease_ms <= 0)
		return (double)lease_ms;
	return now + (double)lease_ms / 1000;
}

static bool is_over(double until, double now)
{
	return until > 0 && now >= until;
}

static void let_go(struct tracked_key *s)
{
	free((char *)s->holder.p);
	s->holder = SLICE_NONE;
	client_label_set(&s->holds, NULL);
}

static bool is_held(const struct tracked_key *s, double now)
{
	return s->holder.p && !is_over(s->until, now);
}

static bool is_anothers(const struct tracker_act *a, const struct tracked_key *s)
{
	return is_held(s, a->now) && !slice_eq(s->holder, a->token);
}

/* Counts it, and says so. `of`: the other one, NULL where there is none. */
static void happened(const struct tracker_act *a, struct tracked_key *s, enum event e,
                     struct client_label *of)
{
	a->rule->events[e]++;
	s->events[e]++;
	tracker_harmed(a, s, a->client->client_label, of);
}

static void log_event(const struct tracker_act *a, struct tracked_key *s, enum event e,
                      struct client_label *of)
{
	happened(a, s, e, of);
	if (tracker_event_begin(a, e, s, of))
		tracker_event_end(a);
}

void tracker_refused(const struct tracker_act *a)
{
	a->rule->refused++;
}

void tracker_took(const struct tracker_act *a, int64_t lease_ms, bool forced)
{
	struct tracked_key *s = tracker_key(a);
	struct access *m;

	a->rule->taken++;
	if (!s)
		return;
	if (forced && is_anothers(a, s))
		log_event(a, s, EVENT_CHANGED, s->holds);
	let_go(s);
	s->holder = slice_of(xmemdup(a->token.p, a->token.n), a->token.n);
	client_label_set(&s->holds, a->client->client_label);
	s->since = a->now;
	s->until = lease_end(a->sent, lease_ms);
	if (lease_ms == 0)
		log_event(a, s, EVENT_NO_EXPIRY, NULL);
	m = tracker_access_make(a, s);
	m->at = a->sent;
	m->until = s->until;
	m->outlived = false;
}

/* It is at work still, and its lease is over. */
static void outlived(const struct tracker_act *a, struct tracked_key *s, struct access *m)
{
	struct client_label *next = is_anothers(a, s) ? s->holds : NULL;

	if (m->outlived)
		return;
	m->outlived = true;
	happened(a, s, EVENT_OUTLIVED, next);
	if (!tracker_event_begin(a, EVENT_OUTLIVED, s, next))
		return;
	buf_printf(a->told, " lease_ms=%lld over_ms=%lld",
	           (long long)((m->until - m->at) * 1000),
	           (long long)((a->now - m->until) * 1000));
	tracker_event_end(a);
}

void tracker_expires_not(const struct tracker_act *a)
{
	struct tracked_key *s = tracker_key(a);
	struct access *m = s ? tracker_access(a, s) : NULL;

	if (m && is_over(m->until, a->now))
		outlived(a, s, m);
}

void tracker_expires(const struct tracker_act *a, int64_t lease_ms)
{
	struct tracked_key *s = tracker_key(a);
	struct access *m;

	if (!s || !s->holder.p)
		return;
	m = tracker_access(a, s);
	if (is_anothers(a, s)) {
		log_event(a, s, EVENT_CHANGED, s->holds);
		if (m && is_over(m->until, a->now))
			outlived(a, s, m);
	} else if (s->until == 0 && lease_ms) {
		double gap = a->now - s->since;
		a->rule->expiry_later++;
		if (gap > a->rule->gap_max)
			a->rule->gap_max = gap;
	} else if (s->until != 0 && lease_ms == 0) {
		log_event(a, s, EVENT_NO_EXPIRY, NULL);
		s->since = a->now;
	}
	s->until = lease_end(a->sent, lease_ms);
	if (m && slice_eq(s->holder, a->token)) {
		m->at = a->sent;
		m->until = s->until;
	}
}

void tracker_deleted(const struct tracker_act *a, enum tracker_gone gone)
{
	struct tracked_key *s = tracker_key(a);
	struct access *m;
	bool mine;

	if (!s)
		return;
	m = tracker_access(a, s);
	mine = s->holder.p && slice_eq(s->holder, a->token);
	/* What was there to be deleted, and was its own, cannot have been over: somebody who is
	 * not seen here prolonged it. */
	if (m && is_over(m->until, a->now) && !(mine && gone == TRACKER_GONE))
		outlived(a, s, m);
	/* Where the value is the owner, a pool may delete on any connection. */
	if (gone != TRACKER_WAS_GONE && is_anothers(a, s) && (m || !a->rule->by_value))
		log_event(a, s, EVENT_DELETED, s->holds);
	let_go(s);
	if (m)
		tracker_access_free(m);
}

void tracker_changed(const struct tracker_act *a)
{
	struct tracked_key *s = tracker_key(a);

	if (s && is_anothers(a, s))
		log_event(a, s, EVENT_CHANGED, s->holds);
}
