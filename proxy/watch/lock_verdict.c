/* SPDX-License-Identifier: BSD-3-Clause
 *
 * lock_verdict: concludes from a group's sums whether clients use its keys as locks, who owns
 * such a lock, and which harm was done. Observe and discovery report the same verdict.
 */
#include <ctype.h>

#include "base/fatal.h"
#include "watch/tracker_internal.h"

struct lock_sums *tracker_lock_sums(struct tracker *d, struct key_group *s)
{
	if (!s->lock) {
		s->lock = xcalloc(1, sizeof(*s->lock));
		d->used += tracker_cost(sizeof(*s->lock));
	}
	return s->lock;
}

struct guard_sums *tracker_guard_sums(struct tracker *d, struct key_group *s)
{
	if (!s->guard) {
		s->guard = xcalloc(1, sizeof(*s->guard));
		d->used += tracker_cost(sizeof(*s->guard));
	}
	return s->guard;
}

#define SHORTEST 1e-4 /* upper bound of the first bucket, in seconds */
#define GROWTH 1.3 /* each bound is this many times the one before; the last is over a day */

void durations_add(struct durations *d, double seconds)
{
	double bound = SHORTEST;
	int i = 0;

	while (i < DURATIONS_BUCKETS - 1 && seconds > bound) {
		bound *= GROWTH;
		i++;
	}
	d->n[i]++;
	d->total++;
	if (seconds > d->longest)
		d->longest = seconds;
}

void durations_merge(struct durations *to, const struct durations *from)
{
	for (int i = 0; i < DURATIONS_BUCKETS; i++)
		to->n[i] += from->n[i];
	to->total += from->total;
	if (from->longest > to->longest)
		to->longest = from->longest;
}

double durations_at(const struct durations *d, double share)
{
	double bound = SHORTEST;
	uint32_t seen = 0;

	if (d->total == 0)
		return 0;
	for (int i = 0; i < DURATIONS_BUCKETS; i++, bound *= GROWTH) {
		seen += d->n[i];
		if (seen >= share * d->total)
			break;
	}
	return bound < d->longest ? bound : d->longest;
}

static uint64_t sum_ways(const uint64_t n[WAYS])
{
	uint64_t sum = 0;

	for (size_t i = 0; i < WAYS; i++)
		sum += n[i];
	return sum;
}

uint64_t lock_taken(const struct lock_sums *l)
{
	return sum_ways(l->taken);
}

uint64_t lock_tries(const struct lock_sums *l)
{
	return sum_ways(l->tries);
}

/* Returns the number of releases by the owner or another connection, including those after the
 * owner's connection had closed. */
static uint64_t lock_released(const struct lock_sums *l)
{
	return l->n[SEEN_RELEASED] + l->n[SEEN_CHECKED] + l->n[SEEN_FOREIGN] +
	       l->n[SEEN_OUTLASTED];
}

/* --- the owner of a lock ------------------------------------------------------------------ */

/* Clients share a pool if at least one release in HOPS_SHARE came over another connection.
 * Fewer such releases may also be thefts. */
#define HOPS_SHARE 20
/* If more than one lock in UNRELEASED_SHARE expires unreleased, clients seem to leave locks to
 * expire on purpose. */
#define UNRELEASED_SHARE 20
/* If more than one lock expires unreleased for each LATE_SHARE_OPEN late holders, clients may
 * leave locks to expire on purpose. */
#define LATE_SHARE_OPEN 4
/* If clients hold a lock for more than this fraction of its expiry, hasp proposes renewal. */
#define HELD_SHARE 0.5
#define HELD_ENOUGH 10 /* with fewer holds, hasp proposes no renewal for HELD_SHARE */
/* If scripts set more than one lock in SCRIPT_SHARE, the section is for locks of scripts. */
#define SCRIPT_SHARE 20
/* If over BROKEN_SHARE - 1 of BROKEN_SHARE DELs look like takeovers, all may be takeovers. */
#define BROKEN_SHARE 4
/* If there is more than one extra DEL for LOSERS_SHARE locks, clients that were refused a lock
 * may have sent the extra DELs. */
#define LOSERS_SHARE 100
/* Values count as unique if clients set at least this many, and none twice. */
#define VALUES_ENOUGH 3

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

bool verdict_has_values(const struct lock_sums *l)
{
	bool alone = l->n[SEEN_REPEATED] == 0 || l->n[SEEN_RETURNED] * 2 >= lock_taken(l);

	return alone && l->taken[WAY_INCR] == 0 && lock_taken(l) >= VALUES_ENOUGH;
}

bool verdict_is_scripted(const struct lock_sums *l)
{
	return l->taken[WAY_SCRIPT] * SCRIPT_SHARE > lock_taken(l);
}

bool verdict_compares(const struct lock_sums *l)
{
	return (l->n[SEEN_COMPARED] > 0 && l->n[SEEN_COMPARED] * 2 >= l->n[SEEN_RELEASED]) ||
	       (l->n[SEEN_FOREIGN_VALUE] > 0 &&
	        l->n[SEEN_FOREIGN_VALUE] * 2 >= l->n[SEEN_FOREIGN]);
}

/* Returns how many DELs no lock explains: those of clients that had not got the lock, or that
 * cleaned up. Each lock that was held until its release explains one DEL. */
static uint64_t extra_deletes(const struct lock_sums *l)
{
	uint64_t abandoned = less(l->n[SEEN_ABANDONED], l->n[SEEN_HANDED_ON]);

	return less(l->n[SEEN_DELETES],
	            less(lock_taken(l), abandoned + l->n[SEEN_CHECKED] + l->n[SEEN_UNRELEASED] +
	                                        l->n[SEEN_LAPSED] + l->n[SEEN_YIELDED]));
}

/* Sets v->own, v->hopped and v->stolen. In a pool, another connection often sends the DEL for a
 * lock, in place of the connection that took the lock. If the owner is one connection, the DEL
 * of another connection comes in addition to the owner's. */
static void judge_releases(struct lock_verdict *v, const struct lock_sums *l)
{
	uint64_t hops = less(l->n[SEEN_STRANGE], extra_deletes(l));

	v->own = l->n[SEEN_RELEASED] + l->n[SEEN_CHECKED];
	v->hopped = l->n[SEEN_STRANGE] ? l->n[SEEN_FOREIGN] * hops / l->n[SEEN_STRANGE] : 0;
	v->stolen = l->n[SEEN_STOLEN] + l->n[SEEN_FOREIGN] - v->hopped;
}

/* Counts the holders of unreleased locks, except `never` of them, as late holders. */
static void count_as_late(struct lock_verdict *v, uint64_t never)
{
	uint64_t late = less(v->unreleased, never);

	v->late += late;
	v->unreleased -= late;
}

/* True if most holders read the lock's value before they release it, by DEL or by a transaction
 * that watches the key. */
static bool holders_look(const struct lock_sums *l)
{
	return verdict_compares(l) ||
	       (l->n[SEEN_WATCHED] > 0 && l->n[SEEN_WATCHED] >= l->n[SEEN_RELEASED]);
}

/* Decides how many holders of locks that expired unreleased were late, and how many never tried
 * to release. */
static void judge_expiry(struct lock_verdict *v, const struct lock_sums *l)
{
	uint64_t lapsed = l->n[SEEN_WORKED] < l->n[SEEN_LAPSED] ? l->n[SEEN_WORKED]
	                                                        : l->n[SEEN_LAPSED];

	if (holders_look(l))
		lapsed = l->n[SEEN_LAPSED];
	v->late = l->n[SEEN_OUTLIVED] + lapsed;
	v->unreleased = l->n[SEEN_UNRELEASED] + l->n[SEEN_LAPSED] - lapsed;
	/* If holders read the value before their DEL, a holder that finds another value, or
	 * none, is late and sends no DEL. */
	if (holders_look(l))
		count_as_late(
			v, less(lock_taken(l) + l->n[SEEN_WATCHED],
		                l->n[SEEN_LOOKS] + l->n[SEEN_ABANDONED] + l->n[SEEN_CHECKED]));
	/* In a pool, a connection other than the holder's sends the late DEL. */
	if (v->hopped)
		count_as_late(v, less(lock_taken(l), l->n[SEEN_DELETES] + l->n[SEEN_ABANDONED] +
		                                             l->n[SEEN_CHECKED] +
		                                             l->n[SEEN_LAPSED]));
	v->longest = l->held.longest;
	if ((lapsed || l->n[SEEN_SEIZED]) && l->lapsed_longest > v->longest)
		v->longest = l->lapsed_longest;
	if (v->late && v->longest < (double)l->lease_ms_min / 1e3)
		v->longest = (double)l->lease_ms_min / 1e3;
}

/* Returns how many releases by other connections were no late DELs, key by key. */
static uint64_t foreign_in_time(const struct lock_sums *l)
{
	return l->n[SEEN_FOREIGN] - l->n[SEEN_FOREIGN_LATE];
}

/* True if the connections of a pool share a trait, such as their name. `n`: how many releases
 * by other connections came from one with the trait of the holder's. They must be the majority,
 * or at least v->hopped. The rest must be late DELs, or may be DELs of clients that had not got
 * the lock. Late holders and expired locks explain nothing here: the DEL of such a holder, if
 * it removed another holder's lock, already counts as SEEN_FOREIGN_LATE. */
static bool fits(const struct lock_verdict *v, const struct lock_sums *l, uint64_t n)
{
	uint64_t in_time = foreign_in_time(l);

	return (n * 2 > in_time || n >= v->hopped) && in_time <= n + extra_deletes(l);
}

static const char *owner_of_pool(struct lock_verdict *v, const struct lock_sums *l)
{
	const char *owner = "name";
	uint64_t n = 0;

	if (verdict_has_values(l) && fits(v, l, l->n[SEEN_FOREIGN_VALUE])) {
		owner = "value";
		n = l->n[SEEN_FOREIGN_VALUE];
	} else if (fits(v, l, l->n[SEEN_FOREIGN_NAME])) {
		n = l->n[SEEN_FOREIGN_NAME];
	} else if (fits(v, l, l->n[SEEN_FOREIGN_ADDRESS])) {
		owner = "address";
		n = l->n[SEEN_FOREIGN_ADDRESS];
	} else {
		v->owner_open = OPEN_UNLIKE;
		return owner;
	}
	if (n < v->hopped) {
		v->stolen += v->hopped - n;
		v->hopped = n;
	}
	/* Nothing shows that the extra DELs are those of the clients without the trait. */
	if (foreign_in_time(l) > n)
		v->owner_open = OPEN_LOSERS;
	return owner;
}

/* Returns why hasp does not know the owner. In a pool, another connection sends the DEL; but so
 * does a client that takes the lock away from a holder with the same address or name. With the
 * address or the name as owner, hasp would allow both. */
static enum owner_open why_open(const struct lock_verdict *v, const struct lock_sums *l)
{
	bool by_value = strcmp(v->owner, "value") == 0;
	uint64_t foreign = l->n[v->hopped && !by_value ? SEEN_FOREIGN : SEEN_FOREIGN_VALUE];
	uint64_t losers = less(l->n[SEEN_DELETES] + l->n[SEEN_CHECKED], lock_taken(l));

	/* In a pool, the connection that sends a DEL seldom takes the lock next. */
	if (l->n[SEEN_BROKEN] * BROKEN_SHARE > foreign * (BROKEN_SHARE - 1) ||
	    (v->hopped && l->n[SEEN_SEIZED]))
		return OPEN_TAKEOVERS;
	if (by_value)
		return OPEN_NONE;
	/* A pool sends one DEL for each lock, however late. Only a connection with several
	 * users tries to take a lock that it already has. */
	if ((v->hopped || l->n[SEEN_REFUSED_OWN]) && losers * LOSERS_SHARE > lock_taken(l))
		return OPEN_LOSERS;
	return v->hopped && v->hopped * HOPS_SHARE < v->own ? OPEN_RARE : OPEN_NONE;
}

/* True if connections often close while they have a lock, and other connections release that
 * lock. Then a connection is no owner, and hasp does not know what else the owner's connections
 * have in common. */
static bool is_handed_on(const struct lock_verdict *v, const struct lock_sums *l)
{
	return strcmp(v->owner, "value") != 0 &&
	       l->n[SEEN_HANDED_ON] * HOPS_SHARE > v->own + v->hopped;
}

/* True if hasp would refuse no client that sets the expiry of a lock. */
static bool extends_as_owner(const struct lock_verdict *v, const struct lock_sums *l)
{
	enum seen like = strcmp(v->owner, "value") == 0  ? SEEN_EXTENDED_VALUE
	                 : strcmp(v->owner, "name") == 0 ? SEEN_EXTENDED_NAME
	                                                 : SEEN_EXTENDED_ADDRESS;

	return l->n[SEEN_EXTENDED] == (strcmp(v->owner, "connection") == 0 ? 0 : l->n[like]);
}

/* Returns true if locks that seemed to expire without a release may have been released late. A
 * DEL that came over another connection of a pool, and removed another holder's lock, may be
 * such a release. If users share a connection, hasp takes a late DEL of one user for the
 * release of the lock that another user has now. */
static bool may_hide_late(const struct lock_verdict *v, const struct lock_sums *l)
{
	return (v->hopped && v->stolen) || (l->n[SEEN_REFUSED_OWN] && !verdict_may_count(l));
}

struct lock_verdict lock_verdict(const struct lock_sums *l)
{
	struct lock_verdict v = { .owner = "connection" };
	uint64_t own_deletes = less(l->n[SEEN_DELETES], l->n[SEEN_STRANGE]) +
	                       l->n[SEEN_CHECKED];

	judge_releases(&v, l);
	judge_expiry(&v, l);
	if (v.hopped)
		v.owner = owner_of_pool(&v, l);
	else if (!l->n[SEEN_SEIZED] && verdict_has_values(l) &&
	         (l->n[SEEN_CHECKED] > l->n[SEEN_RELEASED] || l->n[SEEN_REFUSED_OWN] > 0 ||
	          verdict_compares(l)))
		v.owner = "value";
	else if (l->n[SEEN_STRANGE] > 0 && own_deletes * 2 < less(lock_taken(l), v.unreleased))
		v.owner_open = OPEN_UNLIKE;
	if (is_handed_on(&v, l) && !(v.hopped && v.owner_open == OPEN_UNLIKE))
		v.owner_open = OPEN_HANDED_ON;
	if (v.owner_open == OPEN_NONE)
		v.owner_open = why_open(&v, l);
	if (v.owner_open != OPEN_NONE && strcmp(v.owner, "value") == 0)
		v.owner = "connection";
	v.is_left = v.unreleased * UNRELEASED_SHARE > lock_taken(l);
	if (verdict_is_scripted(l)) {
		v.owner = "value";
		v.owner_open = OPEN_NONE;
	}
	v.extends_is_open = v.owner_open == OPEN_NONE && !extends_as_owner(&v, l);
	if (v.late) {
		v.renew = true;
		v.renew_is_open = v.is_left || l->likes_left ||
		                  v.unreleased * LATE_SHARE_OPEN > v.late;
	} else if (v.unreleased && may_hide_late(&v, l)) {
		v.renew = v.renew_is_open = true;
	} else {
		/* A holder that prolongs its own lock needs no renewal, which would also go on
		 * if the holder hangs. */
		v.renew = v.unreleased == 0 && !l->likes_left && l->lease_ms_min > 0 &&
		          l->n[SEEN_PROLONGED] == 0 && l->held.total >= HELD_ENOUGH &&
		          v.longest > HELD_SHARE * (double)l->lease_ms_min / 1e3;
	}
	/* If locks have no expiry, holders may work as long as their connections live. */
	if (l->n[SEEN_BARE] > 0 && l->lease_ms_max == 0)
		v.renew = true;
	/* Renewal would keep a lock that its holder leaves to other clients. */
	v.renew_is_open |= l->n[SEEN_YIELDED] > 0;
	return v;
}

bool verdict_is_harmed(const struct lock_sums *l)
{
	struct lock_verdict v = lock_verdict(l);

	return v.stolen > 0 || v.late > 0 || l->n[SEEN_BARE_STAYED] > 0 ||
	       l->n[SEEN_SEIZED] > 0;
}

/* --- locks and other keys ----------------------------------------------------------------- */

/* Clients seldom delete keys if they release less than one in COUNTS_SHARE. Keys that are
 * seldom deleted are no locks if clients raise a key to 1 by INCR and then raise it again
 * themselves. */
#define COUNTS_SHARE 2
/* One connection raises a key to 1 by INCR, and another one deletes it. If this happens to more
 * than one key in RESETS_SHARE, the keys may be counters: the client that counts last deletes
 * the key, or a client that no longer needs the count does. */
#define RESETS_SHARE 20
/* If more than one lock in MARKED_SHARE has no expiry and no release, clients may leave locks
 * on purpose. */
#define MARKED_SHARE 20

bool verdict_says_lock(struct slice pattern)
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

bool verdict_was_left(const struct lock_sums *l)
{
	return lock_taken(l) == l->taken[WAY_INCR] && l->n[SEEN_BARE_LEFT] > 0 &&
	       l->n[SEEN_RETRIED] > 0 && lock_released(l) == 0;
}

bool verdict_may_mark(const struct lock_sums *l)
{
	return l->n[SEEN_BARE_UNRELEASED] * MARKED_SHARE > lock_taken(l) &&
	       l->n[SEEN_BARE_UNRELEASED] >= l->n[SEEN_EXPIRY_LATER] && !verdict_was_left(l);
}

bool verdict_may_count(const struct lock_sums *l)
{
	return l->taken[WAY_INCR] == lock_taken(l) &&
	       (l->n[SEEN_REFUSED_OWN] > 0 ||
	        (l->n[SEEN_OUTLASTED] + l->n[SEEN_FOREIGN]) * RESETS_SHARE > lock_taken(l));
}

bool verdict_is_seldom_deleted(const struct lock_sums *l)
{
	return l->taken[WAY_INCR] == lock_taken(l) &&
	       lock_released(l) * COUNTS_SHARE < lock_taken(l);
}

bool verdict_may_be_counter(const struct lock_sums *l, struct slice pattern)
{
	if (l->taken[WAY_INCR] + l->tries[WAY_INCR] == 0)
		return false;
	if (l->taken[WAY_INCR] < lock_taken(l) || verdict_may_count(l))
		return true;
	if (verdict_was_left(l) && l->n[SEEN_MULTIPLEXED])
		return true;
	return !verdict_says_lock(pattern) &&
	       (lock_tries(l) == 0 || verdict_is_seldom_deleted(l));
}

/* Keys that no client releases are no locks, unless verdict_was_left() and their name says
 * lock. Keys that only INCR sets, and that never get an expiry, are counters. */
bool verdict_is_lock(const struct key_group *s)
{
	const struct lock_sums *l = s->lock;
	uint64_t released = l ? lock_released(l) : 0, compared;

	if (l && verdict_was_left(l))
		return verdict_says_lock(s->node.key);
	if (released == 0)
		return false;
	compared = l->n[SEEN_CHECKED] + l->n[SEEN_COMPARED] + l->n[SEEN_FOREIGN_VALUE];
	if (l->taken[WAY_SCRIPT] == lock_taken(l))
		return verdict_has_values(l) && 2 * compared >= lock_taken(l);
	return l->taken[WAY_INCR] < lock_taken(l) ||
	       (l->lease_ms_max > 0 &&
	        (l->n[SEEN_REFUSED_OWN] == 0 || released * COUNTS_SHARE >= lock_taken(l)));
}

bool tracker_may_be_lock(const struct held_lock *h)
{
	const struct key_group *s = h->key->group;

	return verdict_is_lock(s) || (h->way != WAY_INCR && h->way != WAY_SCRIPT &&
	                              lock_taken(s->lock) < MARKERS_ENOUGH);
}

/* Fewer looks of each kind may differ by chance. */
#define LOOKS_ENOUGH 5

/* If at most one write in REFRESH_EARLY_SHARE follows a read in the first half of the value's
 * life, the values look like a cache. */
#define REFRESH_EARLY_SHARE 10

bool verdict_is_refresh(const struct guard_sums *g)
{
	return g->lasting == 0 && g->had_ttl > 0 &&
	       (g->had_ttl - g->late) * REFRESH_EARLY_SHARE <= g->had_ttl;
}

bool verdict_depends(const struct key_group *s)
{
	const struct numbers *on = &s->acted_on, *at = &s->left_at;

	return s->acted_since >= LOOKS_ENOUGH && at->n >= LOOKS_ENOUGH &&
	       2 * on->n >= s->acted && (on->most < at->least || at->most < on->least);
}

bool verdict_is_guard(const struct key_group *s)
{
	return s->guard && s->guard->written_back > 0 && !verdict_is_lock(s);
}
