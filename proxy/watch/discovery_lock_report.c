/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_lock_report: what is said of a pattern whose keys are locks, and the section that a
 * careful person would write for it.
 */
#include "watch/tracker_internal.h"

/* Fewer locks than this prove little. */
#define TAKEN_ENOUGH 20
#define LEASES_ALIKE 4 /* at most so many times as long */
/* max_hold is at least so many times the longest hold that was seen. */
#define MAX_HOLD_TIMES 10
#define MAX_HOLD_UNSEEN 600 /* seconds, where no hold was seen to its end */
/* For locks that are renewed, and that the application takes without any expiry: a dead holder
 * keeps others out for so long. */
#define LEASE_UNSEEN_MS 5000

/* Applications that try again and again may as well wait in line: but not where one connection
 * has several holders, whose releases would wait behind the tries. */
static int lock_wait_seconds(const struct lock_sums *l)
{
	static const int steps[] = { 1, 2, 5, 10 };
	uint64_t tries = l->tries[WAY_SETNX] + l->tries[WAY_SET_NX];
	double usual = durations_at(&l->waited, 0.9);
	size_t i = 0;

	if (tries == 0 || l->n[SEEN_RETRIED] * 2 < tries || l->n[SEEN_REFUSED_OWN] > 0)
		return 0;
	while (i < sizeof(steps) / sizeof(*steps) - 1 && steps[i] < usual)
		i++;
	return steps[i];
}

/* Nobody looked whose lock it was, but nothing hints that it was ever another's, and no holder
 * came near its expiry. */
static bool is_deleted_well(const struct lock_sums *l)
{
	bool alike = l->n[SEEN_FOREIGN] == l->n[SEEN_FOREIGN_ADDRESS] ||
	             l->n[SEEN_FOREIGN] == l->n[SEEN_FOREIGN_NAME];

	return l->n[SEEN_NARROW] == 0 && l->n[SEEN_VOIDS] == 0 &&
	       l->n[SEEN_DELETES] <= lock_taken(l) && l->n[SEEN_REFUSED_OWN] == 0 && alike;
}

/* By construction: nobody looks whose lock is deleted, or a lock may stay for ever. */
static bool is_at_risk(const struct lock_sums *l)
{
	return l->n[SEEN_BARE] > 0 ||
	       (l->n[SEEN_RELEASED] + l->n[SEEN_FOREIGN] + l->n[SEEN_OUTLASTED] > 0 &&
	        !is_deleted_well(l));
}

static unsigned ways_of(const struct lock_sums *l)
{
	unsigned ways = 0;

	for (size_t i = 0; i < WAYS; i++)
		ways |= l->taken[i] ? 1U << i : 0;
	return ways;
}

struct lock_use discovery_lock_use(const struct lock_sums *l)
{
	struct lock_verdict v = lock_verdict(l);

	return (struct lock_use){ .ways = ways_of(l),
		                  .owner = v.owner,
		                  .owner_is_open = v.owner_is_open,
		                  .renew_is_open = v.renew_is_open,
		                  .is_left = v.is_left,
		                  .may_count = verdict_may_count(l),
		                  .is_returned = l->n[SEEN_RETURNED] > 0,
		                  .needs_rule = verdict_is_harmed(l) || is_at_risk(l),
		                  .lease_ms = l->lease_ms_max };
}

bool discovery_locks_are_alike(const struct lock_use *a, const struct lock_use *b)
{
	return a->ways == b->ways && strcmp(a->owner, b->owner) == 0 &&
	       a->owner_is_open == b->owner_is_open && a->renew_is_open == b->renew_is_open &&
	       a->may_count == b->may_count && a->is_returned == b->is_returned &&
	       a->needs_rule == b->needs_rule && a->lease_ms <= LEASES_ALIKE * b->lease_ms &&
	       b->lease_ms <= LEASES_ALIKE * a->lease_ms;
}

static bool has_fixed_part(const struct finding *f)
{
	struct slice p = buf_slice(&f->pattern);

	for (size_t i = 0; i < p.n; i++)
		if (p.p[i] != '*' && p.p[i] != '?')
			return true;
	return false;
}

bool discovery_lock_is_proposed(const struct finding *f)
{
	if (!has_fixed_part(f) || f->caught)
		return false;
	return verdict_is_harmed(&f->lock) || (f->nothers == 0 && is_at_risk(&f->lock));
}

/* --- words -------------------------------------------------------------------------------- */

static void put_ways(struct buf *out, const struct lock_sums *l)
{
	static const char *const names[] = { "SETNX", "SET NX", "INCR", "SET", "a script" };
	const char *before = "";

	for (size_t i = 0; i < WAYS; i++) {
		if (!l->taken[i])
			continue;
		buf_printf(out, "%s%s", before, names[i]);
		before = ", ";
	}
}

static void put_lock_use(struct buf *out, const struct finding *f)
{
	const struct lock_sums *l = &f->lock;
	bool dels = l->n[SEEN_RELEASED] + l->n[SEEN_FOREIGN] + l->n[SEEN_OUTLASTED] > 0;

	buf_puts(out, "; ");
	buf_append(out, buf_slice(&f->pattern));
	buf_puts(out, "    ");
	discovery_put_count(out, f->nkeys, "key");
	buf_puts(out, ", taken ");
	discovery_put_count(out, lock_taken(l), "time");
	buf_puts(out, " by ");
	put_ways(out, l);
	if (!dels && !l->n[SEEN_CHECKED])
		buf_puts(out, ", never released\n");
	else
		buf_printf(out, ", released by %s%s%s\n",
		           !dels                 ? ""
		           : verdict_compares(l) ? "DEL after a look at the value"
		                                 : "DEL",
		           dels && l->n[SEEN_CHECKED] ? " and by " : "",
		           l->n[SEEN_CHECKED] ? "scripts or transactions that compare the value"
		                              : "");
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

static void put_late(struct buf *out, const struct lock_sums *l, const struct lock_verdict *v)
{
	put_fact(out, v->late, "holder", "outlived the expiry of their lock:");
	buf_puts(out, ";     held for ");
	if (l->held.total) {
		discovery_put_time(out, durations_at(&l->held, 0.99));
		buf_puts(out, " (p99), ");
	}
	discovery_put_time(out, v->longest);
	buf_puts(out, " at most");
	if (l->lease_ms_max) {
		buf_puts(out, "; expiry ");
		discovery_put_time(out, (double)l->lease_ms_max / 1e3);
	}
	buf_puts(out, "\n");
}

/* Why there is a section all the same. */
static void put_no_harm(struct buf *out, const struct lock_sums *l)
{
	buf_puts(out, ";   no harm was seen: no holder outlived its lock or removed another's, "
	              "and no update was lost under the lock;\n;     but ");
	if (l->n[SEEN_BARE])
		buf_puts(out,
		         "a holder that dies before it sets the expiry leaves its lock for "
		         "ever\n");
	else if (verdict_compares(l))
		buf_puts(out, "the lock may change hands between the look at its value and the "
		              "DEL\n");
	else
		buf_puts(out, "DEL removes the lock even if another client holds it by then\n");
}

static void put_harm(struct buf *out, const struct lock_sums *l, const struct lock_verdict *v)
{
	put_fact(out, v->stolen, "release", "removed another holder's lock");
	if (v->late)
		put_late(out, l, v);
	put_fact(out, l->n[SEEN_OVERWRITTEN], "write",
	         "under this lock overwrote another client's: the lock did not protect the "
	         "value");
	put_fact(out, v->unreleased, "lock",
	         "expired without a release, although the connection stayed open");
	put_fact(out, l->n[SEEN_BARE], "lock", "had no expiry, at least for a while");
	put_fact(out, l->n[SEEN_BARE_LEFT], "lock",
	         "stayed without an expiry when the holder's connection closed");
	if (verdict_was_left(l))
		put_fact(out, l->tries[WAY_INCR], "more count",
		         "followed: only the key's name tells that this is a lock and not a "
		         "counter");
	if (!verdict_is_harmed(l) && !l->n[SEEN_OVERWRITTEN] && !v->unreleased)
		put_no_harm(out, l);
}

static void put_owner_reason(struct buf *out, const struct lock_sums *l,
                             const struct lock_verdict *v)
{
	buf_puts(out, ";   ");
	if (strcmp(v->owner, "value") == 0) {
		buf_puts(out, "each holder stores a value of its own: owner = value\n");
		return;
	}
	if (v->own + v->hopped == 0 && !v->owner_is_open) {
		buf_puts(out, "no release was seen: owner = connection\n");
		return;
	}
	discovery_put_number(out, v->own);
	buf_puts(out, " released by the connection that took the lock, ");
	discovery_put_number(out, v->owner_is_open ? l->n[SEEN_STRANGE] : v->hopped);
	buf_puts(out, " by another one");
	if (v->owner_is_open)
		buf_puts(out, "\n");
	else
		buf_printf(out, "%s%s: owner = %s\n", v->hopped ? " of the same " : "",
		           v->hopped ? v->owner : "", v->owner);
}

/* What hasp cannot know. The section stands as comments until the user has answered. */
static void put_questions(struct buf *out, const struct finding *f,
                          const struct lock_verdict *v)
{
	if (v->owner_is_open)
		buf_puts(
			out,
			";   Question: which connections share a lock? Those that released it "
			"have neither name nor address in common\n"
			";     with those that took it. If they are one application, have each "
			"send CLIENT SETNAME with one name: owner = name.\n"
			";     If each must release what it took: owner = connection.\n");
	if (f->lock.n[SEEN_RETURNED])
		buf_puts(out,
		         ";   Question: is the integer that the script returns the time "
		         "at which the lock ends? If so, other clients compare that time,\n"
		         ";     and no rule keeps them out when it has passed: have the "
		         "application ask for a longer time. If not, use this section.\n");
	if (verdict_may_count(&f->lock))
		buf_puts(out,
		         ";   Question: is this a lock, or a counter? A connection that had "
		         "counted to 1 counted on before the key was deleted.\n"
		         ";     If it is a counter, leave this section out: it has no "
		         "holders.\n");
	if (v->renew_is_open)
		buf_puts(out,
		         ";   Question: is a lock left to expire on purpose, as a mark that "
		         "something was done? If so, remove renew:\n"
		         ";     it would keep such marks for as long as max_hold says. If not, "
		         "holders that forget to release keep others out for so long.\n");
	if (f->nothers) {
		buf_puts(out, ";   Question: are all keys of this pattern locks? ");
		discovery_put_count(out, f->nothers, "key");
		buf_puts(out,
		         " of it had other uses.\n"
		         ";     If there are others, give a pattern that leaves them out.\n");
	}
}

/* The expiry that the application itself sets, if a little later. */
static void put_lease(struct buf *out, const char *mark, int64_t ms)
{
	bool whole = ms % 1000 == 0;

	buf_printf(out, "%slease = %lld%s\n", mark, (long long)(whole ? ms / 1000 : ms),
	           whole ? "s" : "ms");
}

/* In seconds, with room for holds that are much longer than those that were seen. */
static int max_hold_seconds(const struct lock_sums *l, const struct lock_verdict *v)
{
	static const int steps[] = { 5,    10,   20,   30,   60,    120,   300,  600,
		                     1200, 1800, 3600, 7200, 14400, 43200, 86400 };
	double least = v->longest > 0 ? MAX_HOLD_TIMES * v->longest : MAX_HOLD_UNSEEN;
	size_t i = 0;

	if (least < 2 * (double)l->lease_ms_max / 1e3)
		least = 2 * (double)l->lease_ms_max / 1e3;
	while (i < sizeof(steps) / sizeof(*steps) - 1 && steps[i] < least)
		i++;
	return steps[i];
}

static bool has_question(const struct finding *f, const struct lock_verdict *v)
{
	return v->owner_is_open || v->renew_is_open || f->nothers > 0 ||
	       verdict_may_count(&f->lock) || f->lock.n[SEEN_RETURNED] > 0;
}

static void put_section(struct buf *out, const struct finding *f, const struct lock_verdict *v,
                        const char *name)
{
	const struct lock_sums *l = &f->lock;
	const char *mark = has_question(f, v) ? ";" : "";
	int wait = lock_wait_seconds(l);

	buf_printf(out, "%s[lock %s]\n%spattern = ", mark, name, mark);
	buf_append(out, buf_slice(&f->pattern));
	buf_printf(out, "\n%sowner = %s\n", mark, v->owner);
	if (l->n[SEEN_BARE])
		put_lease(out, mark, l->lease_ms_max ? l->lease_ms_max : LEASE_UNSEEN_MS);
	if (v->renew)
		buf_printf(out, "%srenew = yes\n%smax_hold = %ds\n", mark, mark,
		           max_hold_seconds(l, v));
	if (wait)
		buf_printf(out, "%swait = %ds\n", mark, wait);
	buf_printf(out, "%smode = observe          ; then enforce\n\n", mark);
}

void discovery_put_lock(struct buf *out, const struct finding *f, const char *name)
{
	const struct lock_sums *l = &f->lock;
	struct lock_verdict v = lock_verdict(l);

	put_lock_use(out, f);
	discovery_put_example(out, f);
	put_harm(out, l, &v);
	put_owner_reason(out, l, &v);
	if (l->n[SEEN_BARE] && !l->lease_ms_max)
		buf_puts(out,
		         ";   no expiry was ever set: the lock is renewed while its holder's "
		         "connection lives, and ends soon after it\n");
	if (v.renew && v.longest > 0) {
		buf_puts(out, ";   no lock was seen held for longer than ");
		discovery_put_time(out, v.longest);
		buf_printf(out, ": max_hold = %ds leaves room for %d times that\n",
		           max_hold_seconds(l, &v), MAX_HOLD_TIMES);
	}
	if (lock_wait_seconds(l)) {
		buf_puts(out, ";   clients repeated attempts that were refused, for ");
		discovery_put_time(out, durations_at(&l->waited, 0.9));
		buf_puts(out, " (p90) until they got the lock\n");
	}
	if (lock_taken(l) < TAKEN_ENOUGH)
		buf_puts(out, ";   little evidence: watch for longer\n");
	put_questions(out, f, &v);
	if (has_question(f, &v))
		buf_puts(out, ";   This section is a comment until you know the answer: then "
		              "remove each leading \";\".\n");
	put_section(out, f, &v, name);
}

static void put_sound(struct buf *out, const struct lock_sums *l)
{
	if (l->taken[WAY_SCRIPT] == lock_taken(l)) {
		buf_puts(out,
		         ";     sound as far as was seen: no holder found at its release that "
		         "the lock was gone\n");
		return;
	}
	if (l->n[SEEN_RELEASED] + l->n[SEEN_FOREIGN] == 0) {
		buf_puts(out,
		         ";     sound: always with an expiry, which no holder outlived, and "
		         "released by a comparison of the value\n");
		return;
	}
	buf_puts(out, ";     sound as far as was seen: always with an expiry, and at least ");
	discovery_put_time(out, l->least_left);
	buf_puts(out, " before it when the lock was released\n");
	if (lock_taken(l) < TAKEN_ENOUGH)
		buf_puts(out, ";     little evidence: watch for longer\n");
}

void discovery_put_lock_left(struct buf *out, const struct finding *f)
{
	const struct lock_sums *l = &f->lock;

	put_lock_use(out, f);
	if (f->caught) {
		buf_puts(out,
		         ";     not proposed: the pattern also matches keys that are no such "
		         "locks, those of ");
		buf_append(out, f->caught->node.key);
		buf_puts(out, "\n");
	} else if (!has_fixed_part(f)) {
		buf_puts(out,
		         ";     not proposed: these names have no fixed part for a pattern\n");
	} else if (f->nothers) {
		buf_puts(out, ";     not proposed: ");
		discovery_put_count(out, f->nothers, "key");
		buf_puts(out, " of this pattern had other uses, and no harm was seen\n");
	} else {
		put_sound(out, l);
	}
}
