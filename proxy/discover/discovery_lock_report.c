/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_lock_report: what is said of a pattern whose keys are locks, and the section that a
 * careful person would write for it.
 */
#include "discover/discovery_internal.h"

/* Fewer locks than this prove little. */
#define TAKEN_ENOUGH 20
/* Values that were never seen twice are unique if there were so many. */
#define VALUES_ENOUGH 3
/* One release of so many on another connection is enough to be sure of a pool. */
#define HOPS_SHARE 20
#define LEASES_ALIKE 4 /* at most so many times as long */
#define HELD_SHARE 0.5 /* of the expiry: longer is near it */

static bool is_unique(const struct lock_sums *l)
{
	return l->repeated == 0 && l->taken[DISCOVERY_INCR] == 0 &&
	       discovery_taken(l) >= VALUES_ENOUGH;
}

static bool hops(const struct lock_sums *l)
{
	uint64_t hopped = discovery_hopped(l);

	return hopped > 0 && hopped * HOPS_SHARE >= l->released + l->checked;
}

/* The value names the owner, for the application as for hasp. */
static bool is_owned_by_value(const struct lock_sums *l)
{
	return is_unique(l) && !hops(l) && (l->checked > l->released || l->refused_own > 0);
}

static const char *owner_of(const struct lock_sums *l)
{
	if (is_owned_by_value(l))
		return "value";
	if (hops(l) && l->foreign_name == l->foreign)
		return "name";
	if (hops(l) && l->foreign_address == l->foreign)
		return "address";
	return "connection";
}

static bool must_renew(const struct lock_sums *l)
{
	return l->outlived > 0 ||
	       (l->lease_ms_min > 0 &&
	        l->held.longest > HELD_SHARE * (double)l->lease_ms_min / 1e3);
}

/* Applications that try again and again may as well wait in line: but not where one connection
 * has several holders, whose releases would wait behind the tries. */
static int lock_wait_seconds(const struct lock_sums *l)
{
	static const int steps[] = { 1, 2, 5, 10 };
	uint64_t tries = l->tries[DISCOVERY_SETNX] + l->tries[DISCOVERY_SET_NX];
	double usual = durations_at(&l->waited, 0.9);
	size_t i = 0;

	if (tries == 0 || l->retries * 2 < tries || l->refused_own > 0)
		return 0;
	while (i < sizeof(steps) / sizeof(*steps) - 1 && steps[i] < usual)
		i++;
	return steps[i];
}

static bool is_harmed(const struct lock_sums *l)
{
	return discovery_stolen(l) > 0 || l->outlived > 0 || l->bare_stayed > 0;
}

/* Nobody looked whose lock it was, but nothing hints that it was ever another's, and no holder
 * came near its expiry. */
static bool is_deleted_well(const struct lock_sums *l)
{
	bool alike = l->foreign == l->foreign_address || l->foreign == l->foreign_name;

	return l->narrow == 0 && l->voids == 0 && l->deletes <= discovery_taken(l) &&
	       l->refused_own == 0 && alike;
}

/* By construction: nobody looks whose lock is deleted, or a lock may stay for ever. */
static bool is_at_risk(const struct lock_sums *l)
{
	return l->bare > 0 || (l->released + l->foreign > 0 && !is_deleted_well(l));
}

static unsigned ways_of(const struct lock_sums *l)
{
	unsigned ways = 0;

	for (size_t i = 0; i < DISCOVERY_WAYS; i++)
		ways |= l->taken[i] ? 1U << i : 0;
	return ways;
}

bool discovery_locks_are_alike(const struct lock_sums *a, const struct lock_sums *b)
{
	int64_t x = a->lease_ms_max, y = b->lease_ms_max;

	return ways_of(a) == ways_of(b) && strcmp(owner_of(a), owner_of(b)) == 0 &&
	       (is_harmed(a) || is_at_risk(a)) == (is_harmed(b) || is_at_risk(b)) &&
	       x <= LEASES_ALIKE * y && y <= LEASES_ALIKE * x;
}

static bool may_have_rule(const struct finding *f)
{
	struct slice p = buf_slice(&f->pattern);

	for (size_t i = 0; i < p.n; i++)
		if (p.p[i] != '*' && p.p[i] != '?')
			return f->nothers == 0 && !f->caught;
	return false;
}

bool discovery_lock_is_proposed(const struct finding *f)
{
	return may_have_rule(f) && (is_harmed(&f->lock) || is_at_risk(&f->lock));
}

/* --- words -------------------------------------------------------------------------------- */

static void put_ways(struct buf *out, const struct lock_sums *l)
{
	static const char *const names[] = { "SETNX", "SET NX", "INCR" };
	const char *before = "";

	for (size_t i = 0; i < DISCOVERY_WAYS; i++) {
		if (!l->taken[i])
			continue;
		buf_printf(out, "%s%s", before, names[i]);
		before = ", ";
	}
}

static void put_lock_use(struct buf *out, const struct finding *f)
{
	const struct lock_sums *l = &f->lock;
	bool dels = l->released + l->foreign > 0;

	buf_puts(out, "; ");
	buf_append(out, buf_slice(&f->pattern));
	buf_puts(out, "    ");
	discovery_put_count(out, f->nkeys, "key");
	buf_puts(out, ", taken ");
	discovery_put_count(out, discovery_taken(l), "time");
	buf_puts(out, " by ");
	put_ways(out, l);
	if (!dels && !l->checked)
		buf_puts(out, ", never released\n");
	else
		buf_printf(out, ", released by %s%s%s\n", dels ? "DEL" : "",
		           dels && l->checked ? " and by " : "",
		           l->checked ? "those who know its value" : "");
}

/* "12 holders ...". Nothing when there are none. */
static void put_fact(struct buf *out, uint64_t n, const char *what, const char *rest)
{
	if (!n)
		return;
	buf_puts(out, ";   ");
	discovery_put_count(out, n, what);
	buf_printf(out, " %s\n", rest);
}

static void put_harm(struct buf *out, const struct lock_sums *l)
{
	put_fact(out, discovery_stolen(l), "release", "removed another holder's lock");
	if (l->outlived) {
		put_fact(out, l->outlived, "holder", "outlived the expiry of their lock:");
		buf_puts(out, ";     held for ");
		discovery_put_time(out, durations_at(&l->held, 0.99));
		buf_puts(out, " (p99), ");
		discovery_put_time(out, l->held.longest);
		buf_puts(out, " at most; expiry ");
		discovery_put_time(out, (double)l->lease_ms_max / 1e3);
		buf_puts(out, "\n");
	}
	put_fact(out, l->bare, "lock", "had no expiry, at least for a while");
	put_fact(out, l->bare_left, "lock",
	         "of them stayed behind without one when its client went");
	if (discovery_was_left(l))
		put_fact(out, l->tries[DISCOVERY_INCR], "count",
		         "behind that, again and again: were the key's name not that of a "
		         "lock, it might just be a count");
	if (!is_harmed(l))
		buf_puts(out,
		         ";   no harm was seen, but whoever deletes it does not look whose it "
		         "is\n");
}

static void put_owner_reason(struct buf *out, const struct lock_sums *l)
{
	uint64_t own = l->released + l->checked, hopped = discovery_hopped(l);

	buf_puts(out, ";   ");
	if (is_owned_by_value(l)) {
		buf_puts(out, "each holder stores a value of its own");
	} else if (own + hopped == 0) {
		buf_puts(out, "nobody released it");
	} else {
		discovery_put_number(out, own);
		buf_puts(out, " released by the connection that took it, ");
		discovery_put_number(out, hopped);
		buf_puts(out, " by another one");
		if (hopped && l->foreign_name == l->foreign)
			buf_puts(out, " of the same name");
		else if (hopped && l->foreign_address == l->foreign)
			buf_puts(out, " of the same address");
	}
	buf_printf(out, ": owner = %s\n", owner_of(l));
	if (hops(l) && strcmp(owner_of(l), "connection") == 0)
		buf_puts(out,
		         ";   those others had neither address nor name in common: give the "
		         "pool's connections a name, and say owner = name\n");
}

/* The expiry that the application itself sets, if a little later. */
static void put_lease(struct buf *out, int64_t ms)
{
	bool whole = ms % 1000 == 0;

	buf_printf(out, "lease = %lld%s\n", (long long)(whole ? ms / 1000 : ms),
	           whole ? "s" : "ms");
}

void discovery_put_lock(struct buf *out, const struct finding *f, const char *name)
{
	const struct lock_sums *l = &f->lock;
	int wait = lock_wait_seconds(l);

	put_lock_use(out, f);
	discovery_put_example(out, f);
	put_harm(out, l);
	put_owner_reason(out, l);
	if (wait) {
		buf_puts(out, ";   tries that were refused were made again, for ");
		discovery_put_time(out, durations_at(&l->waited, 0.9));
		buf_puts(out, " (p90) until the lock was there\n");
	}
	if (discovery_taken(l) < TAKEN_ENOUGH)
		buf_puts(out, ";   that is little to go by: watch for longer\n");
	buf_printf(out, "[lock %s]\npattern = ", name);
	buf_append(out, buf_slice(&f->pattern));
	buf_printf(out, "\nowner = %s\n", owner_of(l));
	if (l->bare && l->lease_ms_max)
		put_lease(out, l->lease_ms_max);
	if (must_renew(l))
		buf_puts(out, "renew = yes\n");
	if (wait)
		buf_printf(out, "wait = %ds\n", wait);
	buf_puts(out, "mode = observe          ; then enforce\n\n");
}

static void put_sound(struct buf *out, const struct lock_sums *l)
{
	if (l->released + l->foreign == 0) {
		buf_puts(out, ";     sound: always with an expiry, which nobody outlived, and "
		              "released by value\n");
		return;
	}
	buf_puts(out,
	         ";     sound as far as was seen: always with an expiry, of which at least ");
	discovery_put_time(out, l->least_left);
	buf_puts(out, " were left when it was released\n");
	if (discovery_taken(l) < TAKEN_ENOUGH)
		buf_puts(out, ";     that is little to go by: watch for longer\n");
}

void discovery_put_lock_left(struct buf *out, const struct finding *f)
{
	const struct lock_sums *l = &f->lock;

	put_lock_use(out, f);
	if (f->caught) {
		buf_puts(
			out,
			";     not proposed: the pattern catches keys that are used otherwise, "
			"such as those of ");
		buf_append(out, f->caught->node.key);
		buf_puts(out, "\n");
	} else if (f->nothers) {
		buf_puts(out, ";     not proposed: ");
		discovery_put_count(out, f->nothers, "key");
		buf_puts(out, " of that pattern, used otherwise\n");
	} else if (!is_harmed(l) && !is_at_risk(l)) {
		put_sound(out, l);
	} else {
		buf_puts(out, ";     not proposed: there is nothing fixed in these names\n");
	}
}
