/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker_locks: notices how clients take, hold, release and lose locks.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/tracker_internal.h"

/* A try that follows a refused one within this time counts as a retry. A client that tries
 * again each second may be a scheduler, which leaves out its job when it is refused. */
#define RETRY_SECONDS 0.5
/* A release is narrow if less than LEFT_SECONDS of the expiry is left, or if more than the
 * fraction USED_SHARE has passed: another time, such a holder might outlive its lock. */
#define LEFT_SECONDS 30.0
#define USED_SHARE 0.1
/* How many expired holds of one key and owner hasp keeps, besides the newest. */
#define LATE_KEPT 4

/* --- holds -------------------------------------------------------------------------------- */

static uint64_t owner_of(const struct tracker_act *a)
{
	return a->owner ? a->owner : a->client->id;
}

static struct held_lock *newest_hold(const struct key *k)
{
	return list_entry(k->holds.prev, &k->holds, struct held_lock, in_key);
}

/* Returns the newest hold that existed when the act's command arrived: replies of several links
 * may come out of order. */
static struct held_lock *hold_then(const struct tracker_act *a, const struct key *k)
{
	list_each_back (struct held_lock, h, &k->holds, in_key) {
		if (h->taken <= a->sent)
			return h;
	}
	return NULL;
}

/* Returns the owner's newest hold; NULL: none is known. */
static struct held_lock *held_by(const struct key *k, uint64_t owner)
{
	list_each_back (struct held_lock, h, &k->holds, in_key) {
		if (h->owner == owner)
			return h;
	}
	return NULL;
}

static bool has_run_out(const struct held_lock *h, double at)
{
	return h->expires > 0 && at > h->expires;
}

/* True if the lock, which no longer exists, may have expired. hasp does not know the expiry of
 * a lock that a script set. */
static bool may_have_run_out(const struct held_lock *h, double now)
{
	return h->expires > 0 ? now >= h->soonest : h->way == WAY_SCRIPT;
}

static void begin_lease(struct held_lock *h, const struct tracker_act *a, int64_t lease_ms)
{
	double lease = (double)lease_ms / 1e3;

	h->begun = a->now;
	h->expires = lease_ms > 0 ? a->now + lease : 0;
	h->soonest = lease_ms > 0 ? a->sent + lease : 0;
	h->no_ttl = lease_ms == 0;
}

/* Returns the hold if it belongs to another owner and has not expired when the act runs; else
 * NULL. */
static struct held_lock *of_another(const struct tracker_act *a, struct held_lock *h)
{
	return h && (h->state == HOLD_HELD || h->state == HOLD_LEFT) &&
	                       h->owner != owner_of(a) && !has_run_out(h, a->now)
	               ? h
	               : NULL;
}

static void mark_lock(struct key *k)
{
	if (k->is_lock)
		return;
	k->is_lock = true;
	k->group->nlocks++;
	if (k->is_other)
		k->group->nothers--;
	k->is_other = false;
}

static void note_lapse(struct lock_sums *l, double seconds)
{
	if (seconds > l->lapsed_longest)
		l->lapsed_longest = seconds;
}

/* Counts a hold that was not released, when it ends or for a report on open holds. */
static void sum_up_unreleased(struct lock_sums *l, const struct held_lock *h, double now)
{
	if (h->state == HOLD_LEFT)
		return;
	if (!h->outlived && !(h->lapsed > 0) && (has_run_out(h, now) || h->retaken)) {
		l->n[SEEN_UNRELEASED]++;
		return;
	}
	l->n[SEEN_OVERWRITTEN] += h->noverwritten;
	if (h->outlived)
		return;
	if (h->lapsed > 0) {
		l->n[SEEN_LAPSED]++;
		note_lapse(l, h->lapsed - h->taken);
	} else {
		l->n[SEEN_ABANDONED] += h->client->is_closing;
	}
}

void tracker_add_open_holds(struct lock_sums *l, const struct key_group *group, double now)
{
	list_each (struct key, k, &group->keys, in_group) {
		list_each (struct held_lock, h, &k->holds, in_key) {
			if (h->state != HOLD_HELD)
				continue;
			sum_up_unreleased(l, h, now);
			l->n[SEEN_BARE_UNRELEASED] += h->no_ttl;
		}
	}
}

/* Sums up a hold that ends without a release, for example because its client has left. */
static void sum_up_held(struct held_lock *h, double now)
{
	struct lock_sums *l = h->key->group->lock;

	sum_up_unreleased(l, h, now);
	l->n[SEEN_BARE_LEFT] += h->no_ttl && h->client->is_closing;
	l->n[SEEN_BARE_STAYED] += h->no_ttl;
	l->n[SEEN_BARE_UNRELEASED] += h->no_ttl;
	if (h->way == WAY_INCR && verdict_says_lock(h->key->group->node.key))
		mark_lock(h->key);
}

/* Sums up a hold that its client, or another connection, has released. */
static void sum_up_hold(struct held_lock *h, double at)
{
	struct lock_sums *l = h->key->group->lock;

	durations_add(&l->held, at - h->taken);
	l->n[SEEN_OVERWRITTEN] += h->noverwritten;
	l->n[SEEN_BARE_STAYED] += h->no_ttl;
	mark_lock(h->key);
	if (!h->opposes)
		return;
	h->key->group->opposed++;
	h->opposes->opposed += h->opposes != h->key->group;
}

void tracker_hold_end(struct tracker *d, struct held_lock *h, double now)
{
	struct lock_sums *l = h->key->group->lock;

	switch (h->state) {
	case HOLD_LEFT:
		break;
	case HOLD_HELD:
		sum_up_held(h, now);
		break;
	case HOLD_MAYBE:
		l->n[SEEN_CHECKED]++;
		sum_up_hold(h, h->ended);
		break;
	case HOLD_REMOVED:
		if (!h->stolen) {
			sum_up_hold(h, h->ended);
			break;
		}
		l->n[SEEN_OVERWRITTEN] += h->noverwritten;
		if (!h->compares && !h->client->is_closing)
			l->n[h->stolen == STOLEN_BY_SET ? SEEN_YIELDED : SEEN_UNRELEASED]++;
		break;
	}
	tracker_hold_free(d, h);
}

void tracker_hold_leave(struct tracker *d, struct held_lock *h, double now)
{
	if (h->state != HOLD_HELD || has_run_out(h, now) || h->retaken) {
		tracker_hold_end(d, h, now);
		return;
	}
	sum_up_held(h, now);
	list_remove(&h->in_client);
	h->client->nholds--;
	h->client = NULL;
	h->state = HOLD_LEFT;
}

/* Counts an owner that uses its lock after the expiry. `next`: the hold of another client that
 * has the lock now; NULL: no client has. */
static void note_overlap(struct held_lock *h, const struct held_lock *next)
{
	if (!next || h->overlapped)
		return;
	h->overlapped = true;
	h->key->group->lock->n[SEEN_OVERLAPPED]++;
}

/* Counts a hold that has expired while its owner still works. `next`: the present hold; NULL:
 * the lock is free. */
static void note_outlived(const struct tracker_act *a, struct held_lock *h,
                          const struct held_lock *next)
{
	char more[96];

	if (h->outlived || h->state == HOLD_LEFT)
		return;
	h->outlived = true;
	note_overlap(h, next);
	snprintf(more, sizeof(more), " lease_ms=%lld over_ms=%lld",
	         (long long)((h->expires - h->begun) * 1000),
	         (long long)((a->now - h->soonest) * 1000));
	seen_event(a, h->key, SEEN_OUTLIVED, next ? next->label : NULL, more);
}

/* --- work under a lock -------------------------------------------------------------------- */

/* kin_lock() compares at most this many locks with a connection's name or address. */
#define KIN_SEEN 64

static struct list *kin_by_address(struct tracker *t, uint64_t address)
{
	return &t->by_address[address >> 1 & (KIN_SLOTS - 1)];
}

static struct list *kin_by_name(struct tracker *t, uint64_t name)
{
	return &t->by_name[name >> 1 & (KIN_SLOTS - 1)];
}

/* True if, as far as hasp knows, the client has not released the lock. */
static bool is_worked_under(const struct held_lock *h)
{
	return (h->state == HOLD_HELD || h->stolen) && tracker_may_be_lock(h);
}

/* Returns the newest lock of a connection with the client's name (`by_name`) or address; NULL:
 * there is no such lock. */
static const struct held_lock *kin_lock(const struct tracker_act *a, bool by_name)
{
	uint64_t called = by_name ? a->client->name : a->client->address;
	const struct list *head = by_name ? kin_by_name(a->tracker, called)
	                                  : kin_by_address(a->tracker, called);
	const struct list *at = head->prev;

	for (size_t n = 0; called && at != head && n < KIN_SEEN; n++, at = at->prev) {
		const struct held_lock *h =
			by_name ? container_of(at, struct held_lock, in_name)
				: container_of(at, struct held_lock, in_address);
		if ((by_name ? h->name : h->address) == called && is_worked_under(h) &&
		    !has_run_out(h, a->sent))
			return h;
	}
	return NULL;
}

uint64_t tracker_hold_over(const struct tracker_act *a, const struct key_group **group)
{
	const struct tracker_client *c = a->client;
	const struct held_lock *kin;

	*group = NULL;
	if (a->under_lock)
		return HOLD_OTHER;
	list_each_back (struct held_lock, h, &c->holds, in_client) {
		*group = h->key->group;
		if (is_worked_under(h))
			return h->id;
	}
	/* A client that never takes locks is not in a pool that works under locks. */
	kin = c->has_locked ? kin_lock(a, true) : NULL;
	if (c->has_locked && !kin)
		kin = kin_lock(a, false);
	*group = kin ? kin->key->group : NULL;
	return kin ? kin->id : 0;
}

bool tracker_hold_lasts(const struct tracker_act *a, uint64_t hold)
{
	const struct list *head = &a->client->holds;

	list_each_back (struct held_lock, h, head, in_client) {
		if (h->id == hold)
			return is_worked_under(h) && !verdict_may_count(h->key->group->lock);
	}
	return hold == HOLD_OTHER;
}

/* --- taking ------------------------------------------------------------------------------- */

static void note_lease(struct lock_sums *l, int64_t lease_ms)
{
	if (lease_ms <= 0)
		return;
	if (l->lease_ms_min == 0 || lease_ms < l->lease_ms_min)
		l->lease_ms_min = lease_ms;
	if (lease_ms > l->lease_ms_max)
		l->lease_ms_max = lease_ms;
}

/* Notes how much of the expiry is left when a holder releases the lock or prolongs it. */
static void note_margin(const struct held_lock *h, double now)
{
	struct lock_sums *l = h->key->group->lock;
	double left = h->expires - now;

	if (left < LEFT_SECONDS || now - h->begun > USED_SHARE * (h->expires - h->begun))
		l->n[SEEN_NARROW]++;
	else if (l->least_left == 0 || left < l->least_left)
		l->least_left = left;
}

static void note_value(struct lock_sums *l, uint64_t value)
{
	uint64_t *slot = &l->values[(value >> 1) % VALUES_KEPT];

	l->n[SEEN_REPEATED] += *slot == value;
	*slot = value;
}

/* True if the hold has probably expired, but another thread with the same connection may still
 * use the hold's value, for example to release the lock. The tracker keeps such a hold, so that
 * it notices the late use. */
static bool may_come_late(const struct held_lock *h, uint64_t value, double now)
{
	return h->state == HOLD_HELD && h->value && h->value != value && !h->lapsed &&
	       (h->way == WAY_SCRIPT || has_run_out(h, now));
}

/* True if the hold is over but its owner has not released it: it expired, was stolen, or a late
 * DEL for another lock removed it. */
static bool hold_is_lost(const struct held_lock *h, double at)
{
	return !h->explains &&
	       (h->robbed || h->stolen || (h->state == HOLD_HELD && has_run_out(h, at)));
}

/* Ends the earlier holds, which are obsolete when a client takes the lock with `value`. */
static void end_earlier(const struct tracker_act *a, struct key *k, uint64_t value)
{
	size_t nlate = 0;
	list_each_back (struct held_lock, h, &k->holds, in_key) {
		h->retaken |= h->way == WAY_SCRIPT && h->state == HOLD_HELD;
		if (h->owner == owner_of(a) && may_come_late(h, value, a->now) &&
		    nlate++ < LATE_KEPT)
			continue;
		if (h->owner == owner_of(a) && hold_is_lost(h, a->sent)) {
			k->lost_address = h->address;
			k->lost_name = h->name;
		}
		if (h->state == HOLD_MAYBE || h->state == HOLD_LEFT || h->owner == owner_of(a))
			tracker_hold_end(a->tracker, h, a->now);
	}
}

/* Returns true if the client tries to take the lock soon after it was refused. */
static bool note_retry(const struct tracker_act *a, struct lock_sums *l, const struct key *k)
{
	const struct tracker_client *c = a->client;

	if (c->tried != k->hash || a->now - c->tried_last >= RETRY_SECONDS)
		return false;
	l->n[SEEN_MULTIPLEXED] += c->strayed || a->npipelined != c->tried_npipelined;
	return true;
}

/* Notes that the client releases the lock of the hold `h`; NULL: hasp knows of none. */
static void note_given(const struct tracker_act *a, const struct key *k,
                       const struct held_lock *h)
{
	a->client->gave = k->hash;
	a->client->gave_value = h ? h->value : 0;
	a->client->gave_at = a->now;
}

/* Notices a client that tries to take the lock, by storing `value`, soon after it has released
 * it. */
static void note_return(const struct tracker_act *a, struct lock_sums *l, const struct key *k,
                        uint64_t value)
{
	struct tracker_client *c = a->client;

	if (c->gave == k->hash && a->now - c->gave_at < RETRY_SECONDS) {
		l->n[SEEN_CAME_BACK]++;
		l->n[SEEN_CAME_ANEW] += value && c->gave_value && value != c->gave_value;
	}
	if (c->gave == k->hash)
		c->gave = 0;
}

static void note_wait(const struct tracker_act *a, struct lock_sums *l, const struct key *k)
{
	if (note_retry(a, l, k))
		durations_add(&l->waited, a->now - a->client->tried_first);
	a->client->tried = 0;
}

/* INCR also writes the key: notes a write, for clients that read the key and write it back. */
static void note_count(const struct tracker_act *a, struct key *k, enum lock_way way)
{
	if (way != WAY_INCR)
		return;
	key_note_write(k, a->client, 0);
	k->number = a->number;
}

static struct held_lock *take_hold(const struct tracker_act *a, struct key *k,
                                   enum lock_way way, int64_t lease_ms, uint64_t value)
{
	struct tracker_client *c = a->client;
	struct held_lock *h = xcalloc(1, sizeof(*h));

	c->has_locked |= way != WAY_INCR;
	*h = (struct held_lock){ .key = k,
		                 .client = c,
		                 .owner = owner_of(a),
		                 .address = c->address,
		                 .name = c->name,
		                 .value = value,
		                 .way = way,
		                 .taken = a->now };
	client_label_set(&h->label, c->label);
	begin_lease(h, a, lease_ms);
	h->id = ++a->tracker->nholds;
	list_append(&k->holds, &h->in_key);
	list_append(&c->holds, &h->in_client);
	list_append(kin_by_address(a->tracker, c->address), &h->in_address);
	list_append(kin_by_name(a->tracker, c->name), &h->in_name);
	c->nholds++;
	a->tracker->used += tracker_cost(sizeof(*h));
	return h;
}

/* Notices requests in opposite order: this client has a lock and asks for `asked`; another
 * client had `asked` and asked for that lock. They count when a client releases the lock that
 * it had: if it never does, the key may be a marker, for which no client waits. */
static void note_order(const struct tracker_act *a, struct key *asked)
{
	list_each_back (struct held_lock, h, &a->client->holds, in_client) {
		size_t slot = (h->key->hash ^ asked->hash) >> 1 & (PAIRS_KEPT - 1);
		struct lock_pair *p = &a->tracker->pairs[slot];
		if (h->key == asked || h->state != HOLD_HELD || has_run_out(h, a->now))
			continue;
		if (p->had == asked->hash && p->asked == h->key->hash &&
		    p->client != a->client->id) {
			struct held_lock *other = held_by(asked, p->client);
			if (other)
				other->opposes = h->key->group;
			else
				h->opposes = asked->group;
		}
		*p = (struct lock_pair){ h->key->hash, asked->hash, a->client->id };
	}
}

void tracker_took(const struct tracker_act *a, enum lock_way way, int64_t lease_ms,
                  uint64_t value)
{
	struct key *k = tracker_key(a);
	struct tracker_client *c = a->client;
	struct held_lock *last = k ? newest_hold(k) : NULL;
	struct lock_sums *l;

	if (!k)
		return;
	l = tracker_lock_sums(a->tracker, k->group);
	note_count(a, k, way);
	if (way == WAY_SET && of_another(a, last))
		seen_event(a, k, SEEN_CHANGED, last->label, "");
	if (last && last->state == HOLD_HELD && !last->expired &&
	    may_have_run_out(last, a->now)) {
		l->n[SEEN_EXPIRED]++;
		last->expired = true;
		last->expires = last->soonest;
	}
	l->n[SEEN_BROKEN] += k->breaker == c->id;
	k->breaker = 0;
	end_earlier(a, k, value);
	if (c->nholds == HOLDS_MAX)
		tracker_hold_end(a->tracker,
		                 container_of(c->holds.next, struct held_lock, in_client),
		                 a->now);
	/* Skip no command from now on. hasp never skips INCR, scripts and their releases. */
	if (way != WAY_INCR && way != WAY_SCRIPT && k->sampled)
		sampling_make_whole(k->sampled);
	l->taken[way]++;
	if (lease_ms == 0)
		seen_event(a, k, SEEN_BARE, NULL, "");
	note_lease(l, lease_ms);
	if (way != WAY_INCR) {
		note_value(l, value);
		k->number = NUMBER_UNKNOWN;
	}
	note_wait(a, l, k);
	note_return(a, l, k, value);
	note_order(a, k);
	k->was_taken |= way != WAY_INCR && way != WAY_SCRIPT;
	if (k->is_other && k->was_taken && !k->is_written) {
		k->group->nothers--;
		k->is_other = false;
	}
	take_hold(a, k, way, lease_ms, value);
}

void tracker_refused(const struct tracker_act *a, enum lock_way way)
{
	struct key *k = tracker_key(a);
	struct tracker_client *c = a->client;
	struct lock_sums *l;
	const struct held_lock *h;

	if (!k)
		return;
	l = tracker_lock_sums(a->tracker, k->group);
	note_count(a, k, way);
	l->tries[way]++;
	h = newest_hold(k);
	l->n[SEEN_REFUSED_OWN] += h && h->owner == owner_of(a);
	note_order(a, k);
	if (note_retry(a, l, k)) {
		l->n[SEEN_RETRIED]++;
		l->n[SEEN_INSISTED] += a->tried && a->tried == c->tried_value;
	} else {
		c->tried_first = a->sent;
	}
	note_return(a, l, k, a->tried);
	c->tried = k->hash;
	c->tried_value = a->tried;
	c->strayed = false;
	c->tried_npipelined = a->npipelined;
	c->tried_last = a->now;
}

/* Notes the new expiry of a lock. */
static void set_expiry(const struct tracker_act *a, struct held_lock *h, int64_t lease_ms)
{
	struct lock_sums *l = h->key->group->lock;
	double gap = a->now - h->begun;

	if (!h->no_ttl && h->state == HOLD_HELD) {
		note_margin(h, a->now);
		l->n[SEEN_PROLONGED]++;
	}
	if (h->no_ttl && lease_ms > 0) {
		l->n[SEEN_EXPIRY_LATER]++;
		if (gap > l->expiry_later_longest)
			l->expiry_later_longest = gap;
	} else if (!h->no_ttl && lease_ms == 0) {
		seen_event(a, h->key, SEEN_BARE, NULL, "");
	}
	h->lapsed = 0;
	begin_lease(h, a, lease_ms);
	note_lease(l, lease_ms);
}

/* True if the client has read the value since the lock was taken. */
static bool knows_value(const struct held_lock *h, const struct tracker_client *c)
{
	const struct last_read *r = tracker_last_read(h->key, c);

	return r && r->at >= h->taken;
}

static bool is_like_holder(const struct tracker_client *c, const struct held_lock *h)
{
	return (c->address && c->address == h->address) || (c->name && c->name == h->name);
}

/* True if hasp saw that the client was refused this lock since it was taken. */
static bool was_refused(const struct held_lock *h, const struct tracker_client *c)
{
	return c->tried == h->key->hash && c->tried_last >= h->taken;
}

/* True if the client, which has not taken the lock, is probably in the holder's pool. A client
 * that was refused the lock probably steals it, unless it has read the value. */
static bool is_akin(const struct held_lock *h, const struct tracker_client *c)
{
	const struct observed_rule *rule = h->key->group->rule;

	if (knows_value(h, c) || (rule && rule->by_value))
		return true;
	return !was_refused(h, c) && is_like_holder(c, h);
}

/* Notes that a client that has not taken the lock sets its expiry, as a thread does that
 * prolongs the lock over a connection of its own. */
static void note_extended(const struct tracker_act *a, const struct held_lock *h,
                          bool has_value)
{
	struct lock_sums *l = h->key->group->lock;
	const struct tracker_client *c = a->client;

	if (was_refused(h, c) && !has_value)
		return;
	l->n[SEEN_EXTENDED]++;
	l->n[SEEN_EXTENDED_ADDRESS] += c->address && c->address == h->address;
	l->n[SEEN_EXTENDED_NAME] += c->name && c->name == h->name;
	l->n[SEEN_EXTENDED_VALUE] += has_value;
}

void tracker_expires(const struct tracker_act *a, int64_t lease_ms)
{
	struct key *k = tracker_key(a);
	struct held_lock *h = k ? newest_hold(k) : NULL, *own;

	if (!h) {
		tracker_used(a, false);
		if (k)
			k->life = 0;
		return;
	}
	own = held_by(k, owner_of(a));
	if (of_another(a, h) && !own && (is_akin(h, a->client) || !k->group->rule))
		note_extended(a, h, knows_value(h, a->client));
	if (of_another(a, h) && (own || !is_akin(h, a->client))) {
		seen_event(a, k, SEEN_CHANGED, h->label, "");
		if (own && own->state == HOLD_HELD && has_run_out(own, a->sent))
			note_outlived(a, own, h);
	}
	set_expiry(a, h, lease_ms);
}

void tracker_expires_not(const struct tracker_act *a)
{
	struct key *k = tracker_known_key(a);
	struct held_lock *h = k ? held_by(k, owner_of(a)) : NULL;

	if (h && h->state == HOLD_HELD && may_have_run_out(h, a->now))
		note_outlived(a, h, NULL);
}

void tracker_changed(const struct tracker_act *a)
{
	struct key *k = tracker_key(a);
	struct held_lock *h = k ? newest_hold(k) : NULL;

	if (of_another(a, h))
		seen_event(a, k, SEEN_CHANGED, h->label, "");
}

bool tracker_lock_set_again(const struct tracker_act *a, struct key *k, uint64_t value,
                            int64_t lease_ms)
{
	struct held_lock *h = held_by(k, owner_of(a));

	if (!h || h->state != HOLD_HELD)
		return false;
	if (has_run_out(h, a->sent)) {
		note_overlap(h, of_another(a, newest_hold(k)));
		return false;
	}
	if (newest_hold(k) != h)
		return false;
	h->value = value;
	if (lease_ms >= 0)
		set_expiry(a, h, lease_ms);
	return true;
}

/* --- taking without NX -------------------------------------------------------------------- */

/* Ends a hold that another client has removed. */
static void lose_hold(struct held_lock *h, enum theft how, double now)
{
	h->state = h->state == HOLD_LEFT ? HOLD_LEFT : HOLD_REMOVED;
	h->stolen = how;
	h->ended = now;
}

bool tracker_lock_seized(const struct tracker_act *a, struct key *k, uint64_t value,
                         int64_t lease_ms)
{
	struct held_lock *h = of_another(a, newest_hold(k));

	if (h && value && h->value == value && lease_ms >= 0 && !held_by(k, owner_of(a))) {
		note_extended(a, h, true);
		set_expiry(a, h, lease_ms);
		return true;
	}
	if (!h || !value || h->value == value || !knows_value(h, a->client))
		return false;
	k->group->lock->n[SEEN_SEIZED]++;
	note_lapse(k->group->lock, a->now - h->taken);
	lose_hold(h, STOLEN_BY_SET, a->now);
	tracker_took(a, WAY_SET, lease_ms, value);
	return true;
}

void tracker_looker_set(const struct tracker_act *a, struct key *k)
{
	struct tracker_client *c = a->client;

	if (c->missed != k->hash)
		return;
	c->missed = 0;
	if (!tracker_knew(a, c->missed_at))
		return;
	k->group->filled++;
	k->group->raced += k->looker && k->looker != c->id && c->missed_at < k->looker_at;
	k->looker = c->id;
	k->looker_at = a->now;
	c->filled = k->hash;
}

/* Some applications take locks by GETSET: the client that finds no value has the lock. Others
 * set values by GETSET. Only the key's name shows which. */
bool tracker_swapped(const struct tracker_act *a, uint64_t value, bool was_there)
{
	struct key *k = tracker_key(a);
	struct held_lock *h = k ? newest_hold(k) : NULL;
	bool is_lock = k && !k->group->rule && verdict_says_lock(k->group->node.key);

	if (is_lock && !was_there)
		tracker_took(a, WAY_SET, 0, value);
	else if (is_lock && h && h->way == WAY_SET && h->value == value)
		tracker_refused(a, WAY_SET);
	else
		return false;
	return true;
}

/* Handles the DEL of a key that was taken by a read and a SET. */
static void looker_deleted(struct key *k, struct tracker_client *c)
{
	k->looker = 0;
	if (c->filled != k->hash)
		return;
	c->filled = 0;
	k->group->looked++;
}

/* --- releasing ---------------------------------------------------------------------------- */

/* Handles the DEL of an owner that believes it has the lock. `there`: the hold at the DEL. */
static void release_own(const struct tracker_act *a, struct held_lock *h,
                        struct held_lock *there, enum tracker_gone gone)
{
	struct lock_sums *l = h->key->group->lock;
	struct held_lock *n = of_another(a, there);

	a->client->has_locked = true;
	/* If the DEL removed the owner's own lock after its expiry, a script or a client that
	 * hasp does not see has prolonged the lock. */
	if (gone == TRACKER_GONE && there == h ? false
	    : gone == TRACKER_WAS_GONE || n    ? may_have_run_out(h, a->now)
	                                       : has_run_out(h, a->sent))
		note_outlived(a, h, n);
	if (a->watches) {
		l->n[SEEN_CHECKED]++;
		l->n[SEEN_WATCHED]++;
	} else {
		l->n[SEEN_RELEASED]++;
		l->n[SEEN_COMPARED] += h->compares;
		note_margin(h, a->now);
	}
	if (gone != TRACKER_WAS_GONE && n) {
		l->n[SEEN_STOLEN]++;
		seen_event(a, h->key, SEEN_DELETED, n->label, "");
		lose_hold(n, STOLEN_BY_DEL, a->now);
	}
	sum_up_hold(h, a->now);
	tracker_hold_free(a->tracker, h);
}

/* Ends a hold that was probably released by a client that knew or watched the value. */
static void release_known(struct held_lock *h, double now)
{
	h->state = HOLD_MAYBE;
	h->ended = now;
	h->expires = 0;
	mark_lock(h->key);
}

/* Ends a hold whose lock another connection deleted in a transaction that watched the key. */
static void release_watched(struct held_lock *h, double now)
{
	h->key->group->lock->n[SEEN_WATCHED]++;
	release_known(h, now);
}

/* True if another client deleted the lock of the hold `h`, and the owner of `h` now deletes the
 * lock `there` of another owner. */
static bool is_foreign(const struct held_lock *h, const struct held_lock *there)
{
	return h->state == HOLD_REMOVED && !h->stolen && there && there != h &&
	       there->state == HOLD_HELD;
}

/* True if the client's DEL comes late: it removes the lock `h`, but was meant for an earlier
 * lock, which a connection with the client's address or name has lost. The holder of `h` has
 * another address and name. Each lost lock explains one DEL. */
static bool comes_late(const struct tracker_act *a, const struct held_lock *h)
{
	const struct tracker_client *c = a->client;
	struct key *k = h->key;

	if (is_like_holder(c, h))
		return false;
	list_each (struct held_lock, lost, &k->holds, in_key) {
		if (lost == h || !hold_is_lost(lost, a->sent) || !is_like_holder(c, lost))
			continue;
		lost->explains = true;
		return true;
	}
	if (!(c->address && c->address == k->lost_address) &&
	    !(c->name && c->name == k->lost_name))
		return false;
	k->lost_address = k->lost_name = 0;
	return true;
}

/* Handles a DEL that removes another owner's lock. */
static void remove_foreign(const struct tracker_act *a, struct held_lock *h)
{
	struct lock_sums *l = h->key->group->lock;
	const struct tracker_client *c = a->client;

	h->robbed = comes_late(a, h);
	l->n[SEEN_FOREIGN_LATE] += h->robbed;
	note_margin(h, a->now);
	h->state = HOLD_REMOVED;
	h->ended = a->now;
	a->client->has_locked = h->client->has_locked = true;
	l->n[SEEN_FOREIGN]++;
	l->n[SEEN_FOREIGN_ADDRESS] += c->address && c->address == h->address;
	l->n[SEEN_FOREIGN_NAME] += c->name && c->name == h->name;
	l->n[SEEN_FOREIGN_VALUE] += knows_value(h, c);
	h->key->breaker = was_refused(h, c) && knows_value(h, c) ? c->id : 0;
	if (is_akin(h, c))
		l->n[SEEN_POOLED]++;
	else
		seen_event(a, h->key, SEEN_DELETED, h->label, "");
	mark_lock(h->key);
}

/* Counts the release of a lock whose connection had closed; `h`: its hold; NULL: not known. */
static void release_outlasting(const struct tracker_act *a, struct key *k, struct held_lock *h)
{
	struct lock_sums *l = k->group->lock;

	l->n[SEEN_OUTLASTED]++;
	l->n[SEEN_NARROW]++;
	mark_lock(k);
	if (!h)
		return;
	l->n[SEEN_HANDED_ON] += !was_refused(h, a->client);
	l->n[SEEN_BARE_UNRELEASED] -= h->no_ttl;
	tracker_hold_free(a->tracker, h);
}

static void count_delete(const struct tracker_act *a, const struct key *k, bool was_gone)
{
	struct lock_sums *l = k->group->lock;

	if (!l || a->watches || (!k->is_lock && !k->was_taken && list_empty(&k->holds)))
		return;
	l->n[SEEN_DELETES]++;
	l->n[SEEN_VOIDS] += was_gone;
	l->n[SEEN_STRANGE] += !held_by(k, owner_of(a));
}

void tracker_deleted(const struct tracker_act *a, enum tracker_gone gone)
{
	struct key *k = tracker_key(a);
	bool was_there = gone != TRACKER_WAS_GONE;
	struct held_lock *own, *there;

	if (!k)
		return;
	tracker_list_written(k, a->client, false);
	if (was_there)
		key_note_write(k, a->client, 0);
	looker_deleted(k, a->client);
	own = held_by(k, owner_of(a));
	note_given(a, k, own);
	there = hold_then(a, k);
	count_delete(a, k, !was_there);
	if (own && !(was_there && is_foreign(own, there)))
		release_own(a, own, there, gone);
	else if (was_there && there && there->state == HOLD_LEFT)
		release_outlasting(a, k, there);
	else if (was_there && there && there->state == HOLD_HELD && a->watches)
		release_watched(there, a->now);
	else if (was_there && there && there->state == HOLD_HELD &&
	         !has_run_out(there, a->sent))
		remove_foreign(a, there);
	else if (was_there && k->was_taken && list_empty(&k->holds))
		release_outlasting(a, k, NULL);
	else if (was_there && list_empty(&k->holds))
		tracker_used(a, false);
}

void tracker_lock_read(const struct tracker_act *a, struct key *k, bool is_there)
{
	struct held_lock *h = held_by(k, owner_of(a)), *next = of_another(a, newest_hold(k));
	bool run_out, looks = h;

	list_each (struct held_lock, at, &k->holds, in_key)
		looks |= is_like_holder(a->client, at);
	if (looks)
		k->group->lock->n[SEEN_LOOKS]++;
	if (!h || h->state == HOLD_LEFT)
		return;
	run_out = is_there && !next ? has_run_out(h, a->sent) : may_have_run_out(h, a->now);
	/* The owner reads the key, and finds that it has lost the lock. */
	if (!run_out && (!is_there || next) && !h->lost && h->state == HOLD_HELD) {
		h->lost = true;
		h->key->group->lock->n[SEEN_LOST]++;
	}
	if (h->state != HOLD_HELD)
		return;
	h->compares = true;
	if (run_out)
		note_overlap(h, next);
	if (!h->lapsed && run_out)
		h->lapsed = a->now;
	/* A rule's key is certainly a lock: a single read shows that the owner still works. */
	if (run_out && k->group->rule && (!is_there || next))
		note_outlived(a, h, next);
}

void tracker_lock_worked(const struct tracker_act *a, double read_at, bool stale)
{
	const struct list *head = &a->client->holds;
	bool is_newest = true;

	list_each_back (struct held_lock, h, head, in_client) {
		struct lock_sums *l = h->key->group->lock;
		if (!is_worked_under(h) || read_at < h->taken)
			continue;
		h->noverwritten += stale;
		/* Count work that spans the expiry, but only of the newest lock: the client may
		 * have forgotten an older one. */
		if (is_newest && h->state == HOLD_HELD && has_run_out(h, a->sent) &&
		    read_at <= h->expires) {
			l->n[SEEN_WORKED]++;
			if (!h->lapsed)
				h->lapsed = a->now;
		}
		is_newest = false;
	}
}

static bool is_called_with(const struct tracker_script *s, uint64_t value)
{
	for (size_t i = 0; value && i < s->nargs; i++)
		if (s->args[i] == value)
			return true;
	return false;
}

static bool knows(const struct held_lock *h, const struct tracker_script *s)
{
	return is_called_with(s, h->value) || is_called_with(s, h->returned);
}

/* True if a script that returned 0 or nil did not find the lock. Most scripts that release a
 * lock return 1, but some return 0. */
static bool found_it_gone(const struct tracker_act *a, const struct held_lock *h)
{
	const struct lock_sums *l = h->key->group->lock;

	if (h->way == WAY_SCRIPT)
		return l->n[SEEN_CHECKED] > l->n[SEEN_OUTLIVED];
	return may_have_run_out(h, a->now);
}

/* Handles a script that got the value of the hold as an argument. */
static void script_compared(const struct tracker_act *a, struct held_lock *h,
                            const struct tracker_script *s)
{
	/* The script that took the lock got the value again, to prolong the lock or to take it
	 * once more. If the lock may have been released in between, the value may not name one
	 * hold, but be the same for all holds. */
	if (h->script == s->id) {
		h->key->group->lock->n[SEEN_REPEATED] += h->state == HOLD_MAYBE;
		return;
	}
	h->key->group->lock->n[SEEN_RETURNED] += !is_called_with(s, h->value);
	if (!s->did && h->state == HOLD_HELD && found_it_gone(a, h)) {
		note_outlived(a, h, of_another(a, newest_hold(h->key)));
		h->key->group->lock->n[SEEN_CHECKED]++;
		sum_up_hold(h, a->now);
		tracker_hold_free(a->tracker, h);
		return;
	}
	/* The next commands show whether the script released the lock or prolonged it. */
	if (has_run_out(h, a->sent))
		note_outlived(a, h, NULL);
	note_given(a, h->key, h);
	release_known(h, a->now);
}

/* A script with a new value, as its argument or its reply, may take a lock. It did take a lock
 * if another script gets that value later. */
void tracker_script(const struct tracker_act *a, const struct tracker_script *s)
{
	struct key *k = tracker_key(a);

	if (!k)
		return;
	if (!k->is_lock)
		k->group->nscripted++;
	list_each (struct held_lock, h, &k->holds, in_key) {
		if (h->state == HOLD_REMOVED || h->state == HOLD_LEFT || !knows(h, s) ||
		    (s->returned && s->id == h->script))
			continue;
		script_compared(a, h, s);
		return;
	}
	if (s->nkeys > 1 || (s->nargs == 0 && !s->returned) || k->group->rule)
		return;
	if (!s->did) {
		tracker_refused(a, WAY_SCRIPT);
		return;
	}
	tracker_took(a, WAY_SCRIPT, -1, s->nargs ? s->args[0] : 0);
	newest_hold(k)->script = s->id;
	newest_hold(k)->returned = s->returned;
}
