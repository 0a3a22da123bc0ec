/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker_locks: which owner holds which lock, for how long, and which other clients delete or
 * change it. An access is what an owner took; the key's holder is the owner that took it last.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "watch/tracker_internal.h"

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

static void clear_holder(struct tracked_key *k)
{
	free((char *)k->holder.p);
	k->holder = SLICE_NONE;
	client_name_set(&k->holds, NULL);
}

static bool is_held(const struct tracked_key *k, double now)
{
	return k->holder.p && !is_over(k->until, now);
}

static bool is_held_by_another(const struct tracker_act *a, const struct tracked_key *k)
{
	return is_held(k, a->now) && !slice_eq(k->holder, a->token);
}

/* `of`: the other client, NULL where there is none. */
static void count_event(const struct tracker_act *a, struct tracked_key *k, enum event e,
                        struct client_name *of)
{
	a->rule->events[e]++;
	k->events[e]++;
	tracker_harmed(a, k, a->client->name, of);
}

static void log_event(const struct tracker_act *a, struct tracked_key *k, enum event e,
                      struct client_name *of)
{
	count_event(a, k, e, of);
	if (tracker_event_begin(a, e, k, of))
		tracker_event_end(a);
}

/* "127.0.0.1:4711 name": the part before the port, and the one behind the blank. */
static struct slice address_of(const struct client_name *client)
{
	size_t n = strcspn(client->text, " ");

	while (n && client->text[n] != ':')
		n--;
	return slice_of(client->text, n);
}

static struct slice name_of(const struct client_name *client)
{
	const char *blank = strchr(client->text, ' ');

	return blank ? slice_str(blank + 1) : SLICE_NONE;
}

/* Another connection's lock is released, or its expiry set, by one that did not take it before:
 * a pool's, if it is akin to the holder. Counts it then. */
static bool count_pooled(const struct tracker_act *a, const struct tracked_key *k,
                         const struct access *acc)
{
	const struct client_name *by = a->client->name, *holder = k->holds;
	bool kin[KINSHIPS], any = false;

	if (!holder || (acc && acc->took))
		return false;
	kin[KIN_ADDRESS] = slice_eq(address_of(by), address_of(holder));
	kin[KIN_NAME] = name_of(by).n && slice_eq(name_of(by), name_of(holder));
	kin[KIN_VALUE] = acc && acc->seen == k->ntaken;
	for (size_t i = 0; i < KINSHIPS; i++)
		any |= kin[i];
	if (!any)
		return false;
	if (acc && acc->refused == k->ntaken && !kin[KIN_VALUE]) {
		a->rule->maybe_pooled++;
		return false;
	}
	a->rule->pooled++;
	for (size_t i = 0; i < KINSHIPS; i++)
		a->rule->kin[i] += kin[i];
	return true;
}

/* The lock that it took is over: what it does next is not about that one. */
static void end_holder(const struct tracker_act *a, struct tracked_key *k)
{
	struct tracker_act of_holder = *a;
	struct access *acc;

	of_holder.token = k->holder;
	acc = k->holder.p ? tracker_access(&of_holder, k) : NULL;
	if (acc)
		tracker_access_free(acc);
}

void tracker_refused(const struct tracker_act *a)
{
	struct tracked_key *k = tracker_key(a);

	a->rule->refused++;
	if (k && is_held_by_another(a, k))
		tracker_access_get(a, k)->refused = k->ntaken;
}

void tracker_took(const struct tracker_act *a, int64_t lease_ms, bool forced)
{
	struct tracked_key *k = tracker_key(a);
	struct access *acc;

	a->rule->taken++;
	if (!k)
		return;
	if (forced && is_held_by_another(a, k))
		log_event(a, k, EVENT_CHANGED, k->holds);
	a->rule->expired += k->holder.p && is_over(k->until, a->now);
	clear_holder(k);
	k->holder = slice_of(xmemdup(a->token.p, a->token.n), a->token.n);
	client_name_set(&k->holds, a->client->name);
	k->since = a->now;
	k->until = lease_end(a->sent, lease_ms);
	k->ntaken++;
	if (lease_ms == 0)
		log_event(a, k, EVENT_NO_EXPIRY, NULL);
	acc = tracker_access_get(a, k);
	acc->at = a->sent;
	acc->until = k->until;
	acc->took = true;
	acc->outlived = false;
}

/* The owner is still at work, and its lease is over. */
static void note_outlived(const struct tracker_act *a, struct tracked_key *k,
                          struct access *acc)
{
	struct client_name *next = is_held_by_another(a, k) ? k->holds : NULL;

	if (acc->outlived)
		return;
	acc->outlived = true;
	count_event(a, k, EVENT_OUTLIVED, next);
	if (!tracker_event_begin(a, EVENT_OUTLIVED, k, next))
		return;
	buf_printf(a->told, " lease_ms=%lld over_ms=%lld",
	           (long long)((acc->until - acc->at) * 1000),
	           (long long)((a->now - acc->until) * 1000));
	tracker_event_end(a);
}

void tracker_seen(const struct tracker_act *a, bool gone)
{
	struct tracked_key *k = tracker_key(a);
	struct access *acc = k ? tracker_access(a, k) : NULL;

	if (!k)
		return;
	/* The owner looks whether it still has the lock. */
	if (acc && acc->took && is_over(acc->until, a->sent) &&
	    (gone || is_held_by_another(a, k)))
		note_outlived(a, k, acc);
	if (is_held(k, a->now))
		tracker_access_get(a, k)->seen = k->ntaken;
}

void tracker_expires_not(const struct tracker_act *a)
{
	struct tracked_key *k = tracker_key(a);
	struct access *acc = k ? tracker_access(a, k) : NULL;

	if (acc && is_over(acc->until, a->now))
		note_outlived(a, k, acc);
}

void tracker_expires(const struct tracker_act *a, int64_t lease_ms)
{
	struct tracked_key *k = tracker_key(a);
	struct access *acc;

	if (!k || !k->holder.p)
		return;
	acc = tracker_access(a, k);
	if (is_held_by_another(a, k) && !count_pooled(a, k, acc)) {
		log_event(a, k, EVENT_CHANGED, k->holds);
		if (acc && is_over(acc->until, a->now))
			note_outlived(a, k, acc);
	} else if (k->until == 0 && lease_ms) {
		double gap = a->now - k->since;
		a->rule->expiry_later++;
		if (gap > a->rule->gap_max)
			a->rule->gap_max = gap;
	} else if (k->until != 0 && lease_ms == 0) {
		log_event(a, k, EVENT_NO_EXPIRY, NULL);
		k->since = a->now;
	}
	k->until = lease_end(a->sent, lease_ms);
	if (acc && slice_eq(k->holder, a->token)) {
		acc->at = a->sent;
		acc->until = k->until;
	}
}

void tracker_deleted(const struct tracker_act *a, enum tracker_gone gone)
{
	struct tracked_key *k = tracker_key(a);
	struct access *acc;
	bool mine;

	a->rule->deletes++;
	if (!k)
		return;
	acc = tracker_access(a, k);
	mine = k->holder.p && slice_eq(k->holder, a->token);
	/* If the lock was there to be deleted, and was its own, its lease was not over: a
	 * client that is not observed here prolonged it. */
	if (acc && is_over(acc->until, a->now) && !(mine && gone == TRACKER_GONE))
		note_outlived(a, k, acc);
	/* Where the value is the owner, a pool may delete on any connection. */
	if (gone != TRACKER_WAS_GONE && is_held_by_another(a, k)) {
		if (count_pooled(a, k, acc))
			end_holder(a, k);
		else if ((acc && acc->took) || !a->rule->by_value)
			log_event(a, k, EVENT_DELETED, k->holds);
	}
	clear_holder(k);
	if (acc)
		tracker_access_free(acc);
}

void tracker_changed(const struct tracker_act *a)
{
	struct tracked_key *k = tracker_key(a);

	if (k && is_held_by_another(a, k))
		log_event(a, k, EVENT_CHANGED, k->holds);
}
