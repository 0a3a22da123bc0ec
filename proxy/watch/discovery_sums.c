/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_sums: what the sums of a shape say of the use of its keys.
 */
#include <ctype.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/discovery_internal.h"

struct lock_sums *discovery_lock_sums(struct discovery *d, struct shape *s)
{
	if (!s->lock) {
		s->lock = xcalloc(1, sizeof(*s->lock));
		d->used += discovery_cost(sizeof(*s->lock));
	}
	return s->lock;
}

uint64_t discovery_taken(const struct lock_sums *l)
{
	uint64_t n = 0;

	for (size_t i = 0; i < DISCOVERY_WAYS; i++)
		n += l->taken[i];
	return n;
}

/* --- who owns a lock ---------------------------------------------------------------------- */

/* A pool is one if at least one release of so many came from another connection. */
#define HOPS_SHARE 20
/* At most one lock of so many may be left to expire where locks are to be renewed. */
#define UNRELEASED_SHARE 20
#define HELD_SHARE 0.5 /* of the expiry: a longer hold is near it */
/* Values that were never seen twice are unique if there were so many. */
#define VALUES_ENOUGH 3

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static bool is_unique(const struct lock_sums *l)
{
	return l->repeated == 0 && l->taken[DISCOVERY_INCR] == 0 &&
	       discovery_taken(l) >= VALUES_ENOUGH;
}

bool discovery_compares(const struct lock_sums *l)
{
	return (l->compared > 0 && l->compared * 2 >= l->released) ||
	       (l->foreign_value > 0 && l->foreign_value * 2 >= l->foreign);
}

/* DELs too many, of losers and cleaners: each lock that was kept until its release explains
 * one.
 */
static uint64_t extra_deletes(const struct lock_sums *l)
{
	return less(l->deletes, less(discovery_taken(l),
	                             l->abandoned + l->checked + l->unreleased + l->lapsed));
}

/* Sets `hopped` and `stolen`. In a pool the connection that took a lock often sends no DEL for
 * it, and another one does. Where a connection is the owner, a DEL by a connection without a
 * lock is one DEL too many. */
static void judge_releases(struct lock_verdict *v, const struct lock_sums *l)
{
	uint64_t hops = less(l->strange, extra_deletes(l));

	v->own = l->released + l->checked;
	v->hopped = l->strange ? l->foreign * hops / l->strange : 0;
	if (v->hopped * HOPS_SHARE < v->own)
		v->hopped = 0;
	v->stolen = l->stolen + l->foreign - v->hopped;
}

/* Locks that ended without a release: did their holders come late, or never? */
static void judge_expiry(struct lock_verdict *v, const struct lock_sums *l)
{
	uint64_t lapsed = l->worked < l->lapsed ? l->worked : l->lapsed;

	if (discovery_compares(l))
		lapsed = l->lapsed;
	v->late = l->outlived + lapsed;
	v->unreleased = l->unreleased + l->lapsed - lapsed;
	/* A pool sends the late DEL on a connection that does not have the lock. */
	if (v->hopped) {
		uint64_t never = less(discovery_taken(l),
		                      l->deletes + l->abandoned + l->checked + l->lapsed);
		uint64_t late = less(l->unreleased, never);
		v->late += late;
		v->unreleased -= late;
	}
	v->longest = l->held.longest;
	if (lapsed && l->lapsed_longest > v->longest)
		v->longest = l->lapsed_longest;
}

/* The pool's releases that do not have it in common are the harm that was seen. */
static bool fits(const struct lock_verdict *v, const struct lock_sums *l, uint64_t n)
{
	uint64_t harm = extra_deletes(l) + v->late + v->unreleased + l->voids;

	return n * 2 > l->foreign && l->foreign - n <= harm;
}

static const char *owner_of_pool(struct lock_verdict *v, const struct lock_sums *l)
{
	const char *owner = "name";
	uint64_t n = 0;

	if (is_unique(l) && fits(v, l, l->foreign_value)) {
		owner = "value";
		n = l->foreign_value;
	} else if (fits(v, l, l->foreign_name)) {
		n = l->foreign_name;
	} else if (fits(v, l, l->foreign_address)) {
		owner = "address";
		n = l->foreign_address;
	} else {
		v->owner_is_open = true;
		return owner;
	}
	if (n < v->hopped) {
		v->stolen += v->hopped - n;
		v->hopped = n;
	}
	return owner;
}

struct lock_verdict discovery_judge(const struct lock_sums *l)
{
	struct lock_verdict v = { .owner = "connection" };
	uint64_t own_deletes = less(l->deletes, l->strange) + l->checked;

	judge_releases(&v, l);
	judge_expiry(&v, l);
	if (v.hopped)
		v.owner = owner_of_pool(&v, l);
	else if (is_unique(l) &&
	         (l->checked > l->released || l->refused_own > 0 || discovery_compares(l)))
		v.owner = "value";
	else
		v.owner_is_open = l->strange > 0 &&
		                  own_deletes * 2 < less(discovery_taken(l), v.unreleased);
	if (v.late) {
		v.renew = true;
		v.renew_is_open = v.unreleased * UNRELEASED_SHARE > discovery_taken(l);
	} else {
		v.renew = v.unreleased == 0 && l->lease_ms_min > 0 &&
		          v.longest > HELD_SHARE * (double)l->lease_ms_min / 1e3;
	}
	return v;
}

bool discovery_is_harmed(const struct lock_sums *l)
{
	struct lock_verdict v = discovery_judge(l);

	return v.stolen > 0 || v.late > 0 || l->bare_stayed > 0;
}

/* --- what is a lock ----------------------------------------------------------------------- */

bool discovery_says_lock(struct slice pattern)
{
	static const char *const words[] = { "lock", "locks", "mutex" };
	size_t end;

	for (size_t at = 0; at < pattern.n; at = end + 1) {
		for (end = at; end < pattern.n && isalnum((unsigned char)pattern.p[end]); end++)
			;
		for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
			if (slice_is(slice_of(pattern.p + at, end - at), words[i]))
				return true;
	}
	return false;
}

bool discovery_was_left(const struct lock_sums *l)
{
	return discovery_taken(l) == l->taken[DISCOVERY_INCR] && l->bare_left > 0 &&
	       l->retries > 0 && l->released + l->checked + l->foreign + l->outlasted == 0;
}

/* A count that is begun anew by DEL is no lock; nor is one that only goes on, unless its name
 * says so. */
bool discovery_is_lock(const struct shape *s)
{
	const struct lock_sums *l = s->lock;

	if (l && discovery_was_left(l))
		return discovery_says_lock(s->node.key);
	if (!l || l->released + l->checked + l->foreign + l->outlasted == 0)
		return false;
	return l->taken[DISCOVERY_INCR] < discovery_taken(l) ||
	       (l->lease_ms_max > 0 && l->refused_own == 0);
}

/* So many that were taken by NX and never released are markers. */
#define MARKERS_ENOUGH 20

/* A count is one only if it is released; what is set by NX, unless many were and none was
 * released: a marker. */
bool discovery_may_be_lock(const struct held_lock *h)
{
	const struct shape *s = h->key->shape;

	return discovery_is_lock(s) ||
	       (h->way != DISCOVERY_INCR && discovery_taken(s->lock) < MARKERS_ENOUGH);
}

/* One write of so many that is made early might be a coincidence. */
#define REFRESH_EARLY_SHARE 10

bool discovery_is_refresh(const struct guard_sums *g)
{
	return g->lasting == 0 && g->dated > 0 &&
	       (g->dated - g->late) * REFRESH_EARLY_SHARE <= g->dated;
}

bool discovery_is_guard(const struct shape *s)
{
	return s->guard && s->guard->written_back > 0 && !discovery_is_lock(s);
}
