/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_lock_report: writes the report and the [lock] section for a pattern whose keys are
 * locks.
 */
#include "watch/tracker_internal.h"

/* max_hold is at least this many times the longest hold that was seen. */
#define MAX_HOLD_TIMES 10
#define MAX_HOLD_UNSEEN 600 /* seconds, if no hold was seen to its end */
/* The lease of locks that the application takes without an expiry. hasp renews them; when a
 * holder dies, its lock keeps other clients out for this long. */
#define LEASE_UNSEEN_MS 5000

/* Returns the `wait` in seconds. 0 if few clients retry, or if a connection has several
 * holders: a waiting attempt would hold up the releases behind it. */
static int lock_wait_seconds(const struct lock_sums *l)
{
	static const int steps[] = { 1, 2, 5, 10, 0 };
	uint64_t tries = l->tries[WAY_SETNX] + l->tries[WAY_SET_NX];

	if (tries == 0 || l->n[SEEN_RETRIED] * 2 < tries || l->n[SEEN_REFUSED_OWN] > 0)
		return 0;
	return words_round_up(steps, durations_at(&l->waited, 0.9));
}

/* True if no DEL seems to have removed another holder's lock, and no holder came near its
 * expiry. */
static bool is_deleted_well(const struct lock_sums *l)
{
	bool alike = l->n[SEEN_FOREIGN] == l->n[SEEN_FOREIGN_ADDRESS] ||
	             l->n[SEEN_FOREIGN] == l->n[SEEN_FOREIGN_NAME];

	return l->n[SEEN_NARROW] == 0 && l->n[SEEN_VOIDS] == 0 &&
	       l->n[SEEN_DELETES] <= lock_taken(l) && l->n[SEEN_REFUSED_OWN] == 0 && alike;
}

/* True if the lock is used unsafely: a DEL may remove another holder's lock, or a lock may stay
 * for ever. */
static bool is_at_risk(const struct lock_sums *l)
{
	return l->n[SEEN_BARE] > 0 ||
	       (l->n[SEEN_RELEASED] + l->n[SEEN_FOREIGN] + l->n[SEEN_OUTLASTED] > 0 &&
	        !is_deleted_well(l));
}

bool discovery_lock_needs_rule(const struct lock_sums *l)
{
	return verdict_is_harmed(l) || is_at_risk(l);
}

bool discovery_lock_is_proposed(const struct finding *f)
{
	if (!finding_has_name(f) || f->caught)
		return false;
	return verdict_is_harmed(&f->lock) || (f->nothers == 0 && is_at_risk(&f->lock));
}

/* --- words -------------------------------------------------------------------------------- */

static void put_lock_use(struct buf *out, const struct finding *f)
{
	static const char *const names[] = { "SETNX", "SET NX", "INCR", "GETSET or SET",
		                             "a script" };
	const struct lock_sums *l = &f->lock;
	bool dels = l->n[SEEN_RELEASED] + l->n[SEEN_FOREIGN] + l->n[SEEN_OUTLASTED] > 0;
	bool checks = l->n[SEEN_CHECKED] > 0;
	const char *before = "by";

	buf_printf(out, "; %.*s    %s, taken %s ", PATTERN(f), COUNT(f->nkeys, "key"),
	           COUNT(lock_taken(l), "time"));
	for (size_t i = 0; i < WAYS; i++)
		if (l->taken[i]) {
			buf_printf(out, "%s %s", before, names[i]);
			before = ",";
		}
	buf_printf(out, ", %s%s%s%s%s\n", dels || checks ? "released by " : "never released",
	           dels ? "DEL" : "",
	           dels && verdict_compares(l) ? " after a look at the value" : "",
	           dels && checks ? " and by " : "",
	           checks ? "scripts or transactions that compare the value" : "");
}

/* Writes a line such as "12 holders ...", or nothing if `n` is 0. */
static void put_fact(struct buf *out, uint64_t n, const char *what, const char *rest)
{
	if (n)
		buf_printf(out, ";   %s %s\n", COUNT(n, what), rest);
}

static void put_late(struct buf *out, const struct lock_sums *l, const struct lock_verdict *v)
{
	put_fact(out, v->late, "holder", "outlived the expiry of their lock:");
	buf_puts(out, ";     held for ");
	if (l->held.total)
		buf_printf(out, "%s (p99), ", TIME(durations_at(&l->held, 0.99)));
	buf_printf(out, "%s at most", TIME(v->longest));
	if (l->lease_ms_max)
		buf_printf(out, "; expiry %s", TIME((double)l->lease_ms_max / 1e3));
	buf_puts(out, "\n");
}

static void put_harm(struct buf *out, const struct lock_sums *l, const struct lock_verdict *v)
{
	put_fact(out, v->stolen, "release", "removed another holder's lock");
	put_fact(out, l->n[SEEN_SEIZED], "time",
	         "a client took the lock over: it read another holder's value and set its own");
	put_fact(out, l->n[SEEN_YIELDED], "holder",
	         "never released a lock that was taken over");
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
		         "followed: only the key's name shows that this is a lock and not a "
		         "counter");
	/* Explain why hasp proposes a section although it saw no harm. */
	if (!verdict_is_harmed(l) && !l->n[SEEN_OVERWRITTEN] && !v->unreleased)
		buf_printf(out,
		           ";   no harm was seen: no holder outlived its lock or removed "
		           "another's, "
		           "and no update was lost under the lock;\n;     but %s\n",
		           l->n[SEEN_BARE]
		                   ? "a holder that dies before it sets the expiry leaves its "
		                     "lock for ever"
		           : verdict_compares(l)
		                   ? "the lock may change hands between the look at its "
		                     "value and the DEL"
		                   : "DEL removes the lock even if another client holds "
		                     "it by then");
}

static void put_owner_reason(struct buf *out, const struct lock_sums *l,
                             const struct lock_verdict *v)
{
	if (strcmp(v->owner, "value") == 0) {
		buf_puts(out,
		         verdict_has_values(l)
		                 ? ";   each holder stores a value of its own: owner = value\n"
		                 : ";   scripts set this lock, and hasp follows them for owner "
		                   "= "
		                   "value only\n");
		return;
	}
	if (v->own + v->hopped == 0 && !v->owner_open) {
		buf_puts(out, ";   no release was seen: owner = connection\n");
		return;
	}
	buf_printf(out,
	           ";   %s released by the connection that took the lock, %s by another one",
	           NUMBER(v->own), NUMBER(v->owner_open ? l->n[SEEN_STRANGE] : v->hopped));
	if (!v->owner_open && v->hopped)
		buf_printf(out, " of the same %s", v->owner);
	if (!v->owner_open)
		buf_printf(out, ": owner = %s", v->owner);
	buf_puts(out, "\n");
}

/* True if hasp must refuse by an error, because GETSET or SET has no reply that means
 * "refused". */
static bool may_need_errors(const struct lock_sums *l)
{
	return l->n[SEEN_YIELDED] > 0 || 2 * l->taken[WAY_SET] > lock_taken(l);
}

/* Writes the questions that only the user can answer; the section is a comment until then.
 * Returns true if there is a question. */
static bool put_questions(struct buf *out, const struct finding *f,
                          const struct lock_verdict *v)
{
	size_t before = buf_len(out);

	if (v->owner_open == OPEN_UNLIKE)
		buf_puts(
			out,
			";   Question: which connections share a lock? Those that released it "
			"have neither name nor address in common\n"
			";     with those that took it. If they are one application, have each "
			"send CLIENT SETNAME with one name: owner = name.\n"
			";     If each must release what it took: owner = connection.\n");
	else if (v->owner_open)
		buf_printf(out,
		           ";   Question: does each client take and release a lock over one "
		           "connection? If so: owner = connection.\n"
		           ";     If connections are a pool, an owner that they share lets "
		           "each of them release the lock, also for clients that %s.\n"
		           ";     hasp cannot tell those apart: the application has to send a "
		           "value of its own with each lock, and compare it in a script.\n",
		           v->owner_open == OPEN_TAKEOVERS
		                   ? "end the lock of a holder that takes too long"
		                   : "delete a lock that they did not get");
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
	if (may_need_errors(&f->lock))
		buf_printf(
			out,
			";   Question: does the application take an error for a refusal? While "
			"one client has the lock, another one's\n"
			";     GETSET or SET gets -LOCKED.%s\n",
			f->lock.n[SEEN_YIELDED]
				? " Late holders left their lock to others: hasp would keep "
				  "it for as long as max_hold says."
				: "");
	else if (v->renew_is_open)
		buf_puts(out,
		         ";   Question: is a lock left to expire on purpose, as a mark that "
		         "something was done? If so, remove renew:\n"
		         ";     it would keep such marks for as long as max_hold says. If not, "
		         "a holder that forgets its lock keeps others out until then.\n");
	if (f->nothers)
		buf_printf(
			out,
			";   Question: are all keys of this pattern locks? %s of it had other "
			"uses.\n"
			";     If there are others, give a pattern that leaves them out.\n",
			COUNT(f->nothers, "key"));
	return buf_len(out) > before;
}

/* Writes the option `lease`: in seconds if possible, else in milliseconds. */
static void put_lease(struct buf *out, const char *mark, int64_t ms)
{
	bool whole = ms % 1000 == 0;

	buf_printf(out, "%slease = %lld%s\n", mark, (long long)(whole ? ms / 1000 : ms),
	           whole ? "s" : "ms");
}

/* Returns max_hold in seconds, with room for much longer holds than those seen. */
static int max_hold_seconds(const struct lock_sums *l, const struct lock_verdict *v)
{
	static const int steps[] = { 5,    10,   20,   30,   60,    120,   300,   600,
		                     1200, 1800, 3600, 7200, 14400, 43200, 86400, 0 };
	double least = v->longest > 0 ? MAX_HOLD_TIMES * v->longest : MAX_HOLD_UNSEEN;
	double lease = (double)l->lease_ms_max / 1e3;

	return words_round_up(steps, least < 2 * lease ? 2 * lease : least);
}

static void put_section(struct buf *out, const struct finding *f, const struct lock_verdict *v,
                        const char *name, bool as_comment)
{
	const struct lock_sums *l = &f->lock;
	const char *mark = as_comment ? ";" : "";
	int wait = lock_wait_seconds(l);

	buf_printf(out, "%s[lock %s]\n%spattern = %.*s\n%sowner = %s\n", mark, name, mark,
	           PATTERN(f), mark, v->owner);
	if (l->n[SEEN_BARE])
		put_lease(out, mark, l->lease_ms_max ? l->lease_ms_max : LEASE_UNSEEN_MS);
	if (v->renew)
		buf_printf(out, "%srenew = yes\n%smax_hold = %ds\n", mark, mark,
		           max_hold_seconds(l, v));
	if (wait)
		buf_printf(out, "%swait = %ds\n", mark, wait);
	buf_printf(out, "%smode = observe          ; then enforce\n\n", mark);
}

static void put_order(struct buf *out, const struct finding *f)
{
	put_fact(out, f->opposed, "time",
	         "a client that had one lock asked for another one, and another client did so "
	         "the other way round: they may\n"
	         ";     wait for each other. Take such locks in one order, or by MLOCK of "
	         "[verbs]");
}

void discovery_put_lock(struct buf *out, const struct finding *f, const char *name)
{
	const struct lock_sums *l = &f->lock;
	struct lock_verdict v = lock_verdict(l);
	bool asks;

	put_lock_use(out, f);
	discovery_put_example(out, f);
	put_harm(out, l, &v);
	put_order(out, f);
	put_owner_reason(out, l, &v);
	if (l->n[SEEN_BARE] && !l->lease_ms_max)
		buf_puts(out,
		         ";   no expiry was ever set: the lock is renewed while its holder's "
		         "connection lives, and ends soon after it\n");
	if (v.renew && v.longest > 0)
		buf_printf(
			out,
			";   no lock was seen held for longer than %s: max_hold = %ds leaves "
			"room for %d times that\n",
			TIME(v.longest), max_hold_seconds(l, &v), MAX_HOLD_TIMES);
	if (lock_wait_seconds(l))
		buf_printf(
			out,
			";   clients repeated attempts that were refused, for %s (p90) until "
			"they got the lock\n",
			TIME(durations_at(&l->waited, 0.9)));
	if (lock_taken(l) < TAKEN_ENOUGH)
		buf_puts(out, ";   little evidence: watch for longer\n");
	asks = put_questions(out, f, &v);
	if (asks)
		buf_puts(out, ";   This section is a comment until you know the answer: then "
		              "remove each leading \";\".\n");
	put_section(out, f, &v, name, asks);
}

static void put_sound(struct buf *out, const struct lock_sums *l)
{
	if (l->taken[WAY_SCRIPT] == lock_taken(l))
		buf_puts(out,
		         ";     sound as far as was seen: no holder found at its release that "
		         "the lock was gone\n");
	else if (l->n[SEEN_RELEASED] + l->n[SEEN_FOREIGN] == 0)
		buf_puts(out,
		         ";     sound: always with an expiry, which no holder outlived, and "
		         "released by a comparison of the value\n");
	else
		buf_printf(
			out,
			";     sound as far as was seen: always with an expiry, and at least "
			"%s before it when the lock was released\n%s",
			TIME(l->least_left),
			lock_taken(l) < TAKEN_ENOUGH
				? ";     little evidence: watch for longer\n"
				: "");
}

void discovery_put_lock_left(struct buf *out, const struct finding *f)
{
	const struct lock_sums *l = &f->lock;

	put_lock_use(out, f);
	if (f->caught)
		buf_printf(out,
		           ";     not proposed: the pattern also matches keys that are no such "
		           "locks, those of %.*s\n",
		           (int)f->caught->node.key.n, f->caught->node.key.p);
	else if (!finding_has_name(f))
		buf_puts(out,
		         ";     not proposed: these names have no fixed part for a pattern\n");
	else if (f->nothers)
		buf_printf(out,
		           ";     not proposed: %s of this pattern had other uses, and no harm "
		           "was seen\n",
		           COUNT(f->nothers, "key"));
	else
		put_sound(out, l);
	put_order(out, f);
}
