/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The guards' part of the witness: see witness.h for what counts.
 */
#include "lock/witnesses.h"

void witness_read(const struct witness_act *a)
{
	struct seen *s = witness_seen(a);
	struct mark *m;

	a->rule->reads++;
	if (!s)
		return;
	m = witness_mark_make(a, s);
	m->version = s->writes;
	m->depth = s->depth;
	m->at = a->now;
}

/* What the client read was overwritten since, and it writes. */
static void lose(const struct witness_act *a, struct seen *s, const struct mark *m)
{
	uint64_t missed = s->writes - m->version;

	s->stale++;
	a->rule->stale++;
	if (witness_tell(a, EVENT_LOST_UPDATE, s, s->last)) {
		buf_printf(a->told, " missed_writes=%llu read_ms_ago=%lld",
		           (unsigned long long)missed, (long long)((a->now - m->at) * 1000));
		witness_tell_end(a);
	}
	witness_hurt(a, s, a->client->who, s->last);
}

void witness_wrote(const struct witness_act *a, bool releases)
{
	struct seen *s = witness_seen(a);
	struct mark *m;

	a->rule->writes++;
	if (!s)
		return;
	m = witness_mark(a, s);
	if (m) {
		int64_t lost = (int64_t)(s->depth - m->depth);
		if (m->version != s->writes)
			lose(a, s, m);
		s->lost += lost;
		a->rule->lost += lost;
		s->depth = m->depth;
	} else {
		a->rule->unread++;
	}
	s->depth++;
	s->writes++;
	who_set(&s->last, a->client->who);
	if (m && releases) {
		witness_unmark(m);
	} else if (m) {
		m->version = s->writes;
		m->depth = s->depth;
	}
}
