/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_locks: what becomes of the locks that clients take.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/discovery_internal.h"

/* A try this soon after one that was refused is another try for the same end. */
#define RETRY_SECONDS 2.0
/* A holder that has less than this left of its expiry, or has used a greater share of it than
 * that, might outlive it another time: because it is paused, or has more to do. */
#define LEFT_SECONDS 30.0
#define USED_SHARE 0.1

/* --- holds -------------------------------------------------------------------------------- */

static struct held_lock *newest_hold(const struct key *k)
{
	return list_empty(&k->holds) ? NULL
	                             : container_of(k->holds.prev, struct held_lock, in_key);
}

/* NULL: it has none, as far as is known. */
static struct held_lock *held_by(const struct key *k, const struct discovery_client *c)
{
	for (struct list *at = k->holds.next; at != &k->holds; at = at->next) {
		struct held_lock *h = container_of(at, struct held_lock, in_key);
		if (h->client == c)
			return h;
	}
	return NULL;
}

static bool has_run_out(const struct held_lock *h, double at)
{
	return h->expires > 0 && at > h->expires;
}

static void mark_lock(struct key *k)
{
	if (k->is_lock)
		return;
	k->is_lock = true;
	k->shape->nlocks++;
	if (k->is_other)
		k->shape->nothers--;
	k->is_other = false;
}

void discovery_sum_up_unreleased(struct lock_sums *l, const struct held_lock *h, double now)
{
	if (h->lapsed > 0) {
		l->lapsed++;
		if (h->lapsed - h->taken > l->lapsed_longest)
			l->lapsed_longest = h->lapsed - h->taken;
	} else if (has_run_out(h, now)) {
		l->unreleased++;
	} else {
		l->abandoned += h->client->is_closing;
	}
}

/* It was released, by its client or on behalf of it. */
static void sum_up_hold(struct held_lock *h, double at)
{
	struct lock_sums *l = h->key->shape->lock;

	durations_add(&l->held, at - h->taken);
	l->bare_stayed += h->bare;
	mark_lock(h->key);
}

void discovery_hold_end(struct discovery *d, struct held_lock *h, double now)
{
	struct lock_sums *l = h->key->shape->lock;

	switch (h->state) {
	case HOLD_HELD:
		discovery_sum_up_unreleased(l, h, now);
		l->bare_left += h->bare;
		l->bare_stayed += h->bare;
		if (h->way == DISCOVERY_INCR && discovery_says_lock(h->key->shape->node.key))
			mark_lock(h->key);
		break;
	case HOLD_MAYBE:
		l->checked++;
		sum_up_hold(h, h->ended);
		break;
	case HOLD_REMOVED:
		if (!h->stolen)
			sum_up_hold(h, h->ended);
		break;
	}
	discovery_hold_free(d, h);
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

/* The holder releases it, or sets its expiry again. */
static void note_margin(const struct held_lock *h, double now)
{
	struct lock_sums *l = h->key->shape->lock;
	double left = h->expires - now;

	if (left < LEFT_SECONDS || now - h->begun > USED_SHARE * (h->expires - h->begun))
		l->narrow++;
	else if (l->least_left == 0 || left < l->least_left)
		l->least_left = left;
}

static void note_value(struct lock_sums *l, uint64_t value)
{
	uint64_t *slot = &l->values[(value >> 1) % VALUES_KEPT];

	l->repeated += *slot == value;
	*slot = value;
}

/* What can be said of earlier holds, now that the lock was free. */
static void end_earlier(const struct discovery_act *a, struct key *k)
{
	struct list *next;

	for (struct list *at = k->holds.next; at != &k->holds; at = next) {
		struct held_lock *h = container_of(at, struct held_lock, in_key);
		next = at->next;
		if (h->state == HOLD_MAYBE || h->client == a->client)
			discovery_hold_end(a->discovery, h, a->now);
	}
}

static void note_wait(struct lock_sums *l, struct discovery_client *c, const struct key *k,
                      double now)
{
	if (c->tried == k->hash && now - c->tried_last < RETRY_SECONDS)
		durations_add(&l->waited, now - c->tried_first);
	c->tried = 0;
}

/* A count is a write, for those who read the key and write it back. */
static void note_count(struct key *k, const struct discovery_client *c, enum discovery_way way)
{
	if (way == DISCOVERY_INCR)
		discovery_note_write(k, c, 0);
}

void discovery_took(const struct discovery_act *a, enum discovery_way way, int64_t lease_ms,
                    uint64_t value)
{
	struct key *k = discovery_key(a);
	struct discovery_client *c = a->client;
	struct lock_sums *l;
	struct held_lock *h;

	if (!k)
		return;
	l = discovery_lock_sums(a->discovery, k->shape);
	note_count(k, c, way);
	end_earlier(a, k);
	if (c->nholds == HOLDS_MAX)
		discovery_hold_end(a->discovery,
		                   container_of(c->holds.next, struct held_lock, in_client),
		                   a->now);
	/* INCR, and what ends such a lock, is never passed by. */
	if (way != DISCOVERY_INCR)
		sampling_make_whole(k->sampled);
	l->taken[way]++;
	l->bare += lease_ms == 0;
	note_lease(l, lease_ms);
	if (way != DISCOVERY_INCR)
		note_value(l, value);
	note_wait(l, c, k, a->now);
	h = xcalloc(1, sizeof(*h));
	*h = (struct held_lock){ .key = k,
		                 .client = c,
		                 .address = c->address,
		                 .name = c->name,
		                 .value = value,
		                 .way = way,
		                 .taken = a->now,
		                 .begun = a->now };
	h->expires = lease_ms > 0 ? a->now + (double)lease_ms / 1e3 : 0;
	h->bare = lease_ms == 0;
	k->was_taken |= way != DISCOVERY_INCR;
	if (k->is_other && k->was_taken && !k->is_written) {
		k->shape->nothers--;
		k->is_other = false;
	}
	list_append(&k->holds, &h->in_key);
	list_append(&c->holds, &h->in_client);
	c->nholds++;
	a->discovery->used += discovery_cost(sizeof(*h));
}

void discovery_refused(const struct discovery_act *a, enum discovery_way way)
{
	struct key *k = discovery_key(a);
	struct discovery_client *c = a->client;
	struct lock_sums *l;
	const struct held_lock *h;

	if (!k)
		return;
	l = discovery_lock_sums(a->discovery, k->shape);
	note_count(k, c, way);
	l->tries[way]++;
	h = newest_hold(k);
	l->refused_own += h && h->client == c;
	if (c->tried == k->hash && a->now - c->tried_last < RETRY_SECONDS)
		l->retries++;
	else
		c->tried_first = a->sent;
	c->tried = k->hash;
	c->tried_last = a->now;
}

/* Of a lock that is there. */
static void set_expiry(struct held_lock *h, int64_t lease_ms, double now)
{
	if (!h->bare && h->state == HOLD_HELD) {
		note_margin(h, now);
		h->key->shape->prolonged++;
	}
	h->lapsed = 0;
	h->begun = now;
	h->expires = lease_ms > 0 ? now + (double)lease_ms / 1e3 : 0;
	h->bare = lease_ms == 0;
	note_lease(h->key->shape->lock, lease_ms);
}

void discovery_expires(const struct discovery_act *a, int64_t lease_ms)
{
	struct key *k = discovery_key(a);
	struct held_lock *h = k ? newest_hold(k) : NULL;

	if (!h) {
		discovery_used(a, false);
		if (k)
			k->life = 0;
		return;
	}
	set_expiry(h, lease_ms, a->now);
}

bool discovery_lock_set_again(const struct discovery_act *a, struct key *k, uint64_t value,
                              int64_t lease_ms)
{
	struct held_lock *h = held_by(k, a->client);

	if (!h || h->state != HOLD_HELD)
		return false;
	h->value = value;
	if (lease_ms >= 0)
		set_expiry(h, lease_ms, a->now);
	return true;
}

/* --- taking without NX -------------------------------------------------------------------- */

void discovery_looker_set(struct key *k, struct discovery_client *c)
{
	if (c->missed != k->hash)
		return;
	c->missed = 0;
	k->shape->met += k->looker && k->looker != c->id;
	k->looker = c->id;
}

void discovery_looker_deleted(struct key *k, const struct discovery_client *c)
{
	k->shape->looked += k->looker == c->id;
	k->looker = 0;
}

/* --- releasing ---------------------------------------------------------------------------- */

/* The client's own, as far as it knows. */
static void release_own(const struct discovery_act *a, struct held_lock *h, bool gone)
{
	struct lock_sums *l = h->key->shape->lock;
	struct held_lock *n = newest_hold(h->key);

	l->outlived += has_run_out(h, a->sent);
	if (a->watches) {
		l->checked++;
	} else {
		l->released++;
		l->compared += h->compares;
		note_margin(h, a->now);
	}
	if (gone && n != h && n->state == HOLD_HELD && !has_run_out(n, a->sent)) {
		l->stolen++;
		n->state = HOLD_REMOVED;
		n->stolen = true;
		n->ended = a->now;
	}
	sum_up_hold(h, a->now);
	discovery_hold_free(a->discovery, h);
}

/* By one that knows or has watched the value; or it was made to last. */
static void release_known(struct held_lock *h, double now)
{
	h->state = HOLD_MAYBE;
	h->ended = now;
	h->expires = 0;
	mark_lock(h->key);
}

/* Its client's lock was deleted by another connection, and now it deletes that of another. */
static bool is_foreign(const struct held_lock *h)
{
	const struct held_lock *n = newest_hold(h->key);

	return h->state == HOLD_REMOVED && !h->stolen && n != h && n->state == HOLD_HELD;
}

/* Has the client read the value since the lock was taken? */
static bool knows_value(const struct held_lock *h, const struct discovery_client *c)
{
	const struct last_read *r = discovery_last_read(h->key, c);

	return r && r->at >= h->taken;
}

/* Another client's. */
static void remove_foreign(const struct discovery_act *a, struct held_lock *h)
{
	struct lock_sums *l = h->key->shape->lock;
	const struct discovery_client *c = a->client;

	note_margin(h, a->now);
	h->state = HOLD_REMOVED;
	h->ended = a->now;
	l->foreign++;
	l->foreign_address += c->address && c->address == h->address;
	l->foreign_name += c->name && c->name == h->name;
	l->foreign_value += knows_value(h, c);
	mark_lock(h->key);
}

/* A lock that outlasted its connection, which nothing more is known of. */
static void release_outlasting(struct key *k)
{
	struct lock_sums *l = k->shape->lock;

	l->outlasted++;
	l->narrow++;
	mark_lock(k);
}

static void count_delete(const struct discovery_act *a, const struct key *k, bool gone)
{
	struct lock_sums *l = k->shape->lock;

	if (!l || a->watches || (!k->is_lock && !k->was_taken && list_empty(&k->holds)))
		return;
	l->deletes++;
	l->voids += !gone;
	l->strange += !held_by(k, a->client);
}

void discovery_deleted(const struct discovery_act *a, bool gone)
{
	struct key *k = discovery_key(a);
	struct held_lock *h;

	if (!k)
		return;
	if (gone)
		discovery_note_write(k, a->client, 0);
	discovery_looker_deleted(k, a->client);
	h = held_by(k, a->client);
	count_delete(a, k, gone);
	if (h && !(gone && is_foreign(h))) {
		release_own(a, h, gone);
		return;
	}
	h = newest_hold(k);
	if (gone && h && h->state == HOLD_HELD && a->watches)
		release_known(h, a->now);
	else if (gone && h && h->state == HOLD_HELD && !has_run_out(h, a->sent))
		remove_foreign(a, h);
	else if (!h && gone && k->was_taken && list_empty(&k->holds))
		release_outlasting(k);
	else if (!h && gone)
		discovery_used(a, false);
}

void discovery_lock_read(const struct discovery_act *a, struct key *k)
{
	struct held_lock *h = held_by(k, a->client);

	if (!h || h->state != HOLD_HELD)
		return;
	h->compares = true;
	if (!h->lapsed && has_run_out(h, a->sent))
		h->lapsed = a->now;
}

void discovery_lock_worked(const struct discovery_act *a, double read_at, bool stale)
{
	const struct list *head = &a->client->holds;

	for (struct list *at = head->next; at != head; at = at->next) {
		struct held_lock *h = container_of(at, struct held_lock, in_client);
		struct lock_sums *l = h->key->shape->lock;
		if (h->state == HOLD_MAYBE || !discovery_may_be_lock(h))
			continue;
		l->overwritten += stale;
		/* The work spans the expiry. */
		if (h->state == HOLD_HELD && has_run_out(h, a->sent) && read_at >= h->taken &&
		    read_at <= h->expires) {
			l->worked++;
			if (!h->lapsed)
				h->lapsed = a->now;
		}
	}
}

static bool knows(const struct held_lock *h, const uint64_t *args, size_t nargs)
{
	for (size_t i = 0; i < nargs; i++)
		if (args[i] == h->value)
			return true;
	return false;
}

/* Whether it released the lock or made it last is told by what comes next. */
void discovery_script(const struct discovery_act *a, const uint64_t *args, size_t nargs)
{
	struct key *k = discovery_key(a);

	if (!k)
		return;
	if (!k->is_lock && list_empty(&k->holds))
		k->shape->nscripted++;
	for (struct list *at = k->holds.next; at != &k->holds; at = at->next) {
		struct held_lock *h = container_of(at, struct held_lock, in_key);
		if (h->state == HOLD_REMOVED || !knows(h, args, nargs))
			continue;
		k->shape->lock->outlived += has_run_out(h, a->sent);
		release_known(h, a->now);
		return;
	}
}
