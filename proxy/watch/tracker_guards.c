/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker_guards: stale writes and lost updates; tracker.h says what these are.
 */
#include "watch/tracker_internal.h"

void tracker_read(const struct tracker_act *a)
{
	struct tracked_key *k = tracker_key(a);
	struct access *acc;

	a->rule->reads++;
	if (!k)
		return;
	acc = tracker_access_get(a, k);
	acc->version = k->writes;
	acc->depth = k->depth;
	acc->at = a->now;
}

/* What the client read was overwritten since, and it writes. */
static void update_lost(const struct tracker_act *a, struct tracked_key *k,
                        const struct access *acc)
{
	uint64_t missed = k->writes - acc->version;

	k->stale++;
	a->rule->stale++;
	if (tracker_event_begin(a, EVENT_LOST_UPDATE, k, k->last)) {
		buf_printf(a->told, " missed_writes=%llu read_ms_ago=%lld",
		           (unsigned long long)missed, (long long)((a->now - acc->at) * 1000));
		tracker_event_end(a);
	}
	tracker_harmed(a, k, a->client->name, k->last);
}

void tracker_wrote(const struct tracker_act *a, bool releases)
{
	struct tracked_key *k = tracker_key(a);
	struct access *acc;

	a->rule->writes++;
	if (!k)
		return;
	acc = tracker_access(a, k);
	if (acc) {
		int64_t lost = (int64_t)(k->depth - acc->depth);
		if (acc->version != k->writes)
			update_lost(a, k, acc);
		k->lost += lost;
		a->rule->lost += lost;
		k->depth = acc->depth;
	} else {
		a->rule->unread++;
	}
	k->depth++;
	k->writes++;
	client_name_set(&k->last, a->client->name);
	if (acc && releases) {
		tracker_access_free(acc);
	} else if (acc) {
		acc->version = k->writes;
		acc->depth = k->depth;
	}
}
