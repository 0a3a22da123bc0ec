/* SPDX-License-Identifier: BSD-3-Clause
 *
 * The guards' part of the witness: see witness.h for what counts.
 */
#include "lock/observe/tracker_internal.h"

void tracker_read(const struct tracker_act *a)
{
	struct tracked_key *s = tracker_key(a);
	struct access *m;

	a->rule->reads++;
	if (!s)
		return;
	m = tracker_access_make(a, s);
	m->version = s->writes;
	m->depth = s->depth;
	m->at = a->now;
}

/* What the client read was overwritten since, and it writes. */
static void update_lost(const struct tracker_act *a, struct tracked_key *s,
                        const struct access *m)
{
	uint64_t missed = s->writes - m->version;

	s->stale++;
	a->rule->stale++;
	if (tracker_event_begin(a, EVENT_LOST_UPDATE, s, s->last)) {
		buf_printf(a->told, " missed_writes=%llu read_ms_ago=%lld",
		           (unsigned long long)missed, (long long)((a->now - m->at) * 1000));
		tracker_event_end(a);
	}
	tracker_harmed(a, s, a->client->client_label, s->last);
}

void tracker_wrote(const struct tracker_act *a, bool releases)
{
	struct tracked_key *s = tracker_key(a);
	struct access *m;

	a->rule->writes++;
	if (!s)
		return;
	m = tracker_access(a, s);
	if (m) {
		int64_t lost = (int64_t)(s->depth - m->depth);
		if (m->version != s->writes)
			update_lost(a, s, m);
		s->lost += lost;
		a->rule->lost += lost;
		s->depth = m->depth;
	} else {
		a->rule->unread++;
	}
	s->depth++;
	s->writes++;
	client_label_set(&s->last, a->client->client_label);
	if (m && releases) {
		tracker_access_free(m);
	} else if (m) {
		m->version = s->writes;
		m->depth = s->depth;
	}
}
