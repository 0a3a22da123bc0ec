/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The locks' part of the witness: who holds which lock, for how long, and who else lays hands
 * on it. A mark is what an owner believes to hold; the key's holder is who took it last.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "lock/witnesses.h"

static double end_of(double now, int64_t lease_ms)
{
	if (lease_ms <= 0)
		return (double)lease_ms;
	return now + (double)lease_ms / 1000;
}

static bool is_over(double until, double now)
{
	return until > 0 && now >= until;
}

static void let_go(struct seen *s)
{
	free((char *)s->holder.p);
	s->holder = SLICE_NONE;
	who_set(&s->holds, NULL);
}

static bool is_held(const struct seen *s, double now)
{
	return s->holder.p && !is_over(s->until, now);
}

static bool is_anothers(const struct witness_act *a, const struct seen *s)
{
	return is_held(s, a->now) && !slice_eq(s->holder, a->token);
}

/* Counts it, and says so. `of`: the other one, NULL where there is none. */
static void happened(const struct witness_act *a, struct seen *s, enum event e, struct who *of)
{
	a->rule->events[e]++;
	s->events[e]++;
	witness_hurt(a, s, a->client->who, of);
}

static void tell(const struct witness_act *a, struct seen *s, enum event e, struct who *of)
{
	happened(a, s, e, of);
	if (witness_tell(a, e, s, of))
		witness_tell_end(a);
}

void witness_refused(const struct witness_act *a)
{
	a->rule->refused++;
}

void witness_took(const struct witness_act *a, int64_t lease_ms, bool forced)
{
	struct seen *s = witness_seen(a);
	struct mark *m;

	a->rule->taken++;
	if (!s)
		return;
	if (forced && is_anothers(a, s))
		tell(a, s, EVENT_CHANGED, s->holds);
	let_go(s);
	s->holder = slice_of(xmemdup(a->token.p, a->token.n), a->token.n);
	who_set(&s->holds, a->client->who);
	s->since = a->now;
	s->until = end_of(a->sent, lease_ms);
	if (lease_ms == 0)
		tell(a, s, EVENT_NO_EXPIRY, NULL);
	m = witness_mark_make(a, s);
	m->at = a->sent;
	m->until = s->until;
	m->outlived = false;
}

/* It is at work still, and its lease is over. */
static void outlived(const struct witness_act *a, struct seen *s, struct mark *m)
{
	struct who *next = is_anothers(a, s) ? s->holds : NULL;

	if (m->outlived)
		return;
	m->outlived = true;
	happened(a, s, EVENT_OUTLIVED, next);
	if (!witness_tell(a, EVENT_OUTLIVED, s, next))
		return;
	buf_printf(a->told, " lease_ms=%lld over_ms=%lld",
	           (long long)((m->until - m->at) * 1000),
	           (long long)((a->now - m->until) * 1000));
	witness_tell_end(a);
}

void witness_expires_not(const struct witness_act *a)
{
	struct seen *s = witness_seen(a);
	struct mark *m = s ? witness_mark(a, s) : NULL;

	if (m && is_over(m->until, a->now))
		outlived(a, s, m);
}

void witness_expires(const struct witness_act *a, int64_t lease_ms)
{
	struct seen *s = witness_seen(a);
	struct mark *m;

	if (!s || !s->holder.p)
		return;
	m = witness_mark(a, s);
	if (is_anothers(a, s)) {
		tell(a, s, EVENT_CHANGED, s->holds);
		if (m && is_over(m->until, a->now))
			outlived(a, s, m);
	} else if (s->until == 0 && lease_ms) {
		double gap = a->now - s->since;
		a->rule->expiry_later++;
		if (gap > a->rule->gap_max)
			a->rule->gap_max = gap;
	} else if (s->until != 0 && lease_ms == 0) {
		tell(a, s, EVENT_NO_EXPIRY, NULL);
		s->since = a->now;
	}
	s->until = end_of(a->sent, lease_ms);
	if (m && slice_eq(s->holder, a->token)) {
		m->at = a->sent;
		m->until = s->until;
	}
}

void witness_dropped(const struct witness_act *a, enum witness_gone gone)
{
	struct seen *s = witness_seen(a);
	struct mark *m;
	bool mine;

	if (!s)
		return;
	m = witness_mark(a, s);
	mine = s->holder.p && slice_eq(s->holder, a->token);
	/* What was there to be deleted, and was its own, cannot have been over: somebody who is
	 * not seen here prolonged it. */
	if (m && is_over(m->until, a->now) && !(mine && gone == WITNESS_GONE))
		outlived(a, s, m);
	/* Where the value is the owner, a pool may delete on any connection. */
	if (gone != WITNESS_WAS_GONE && is_anothers(a, s) && (m || !a->rule->by_value))
		tell(a, s, EVENT_DELETED, s->holds);
	let_go(s);
	if (m)
		witness_unmark(m);
}

void witness_changed(const struct witness_act *a)
{
	struct seen *s = witness_seen(a);

	if (s && is_anothers(a, s))
		tell(a, s, EVENT_CHANGED, s->holds);
}
