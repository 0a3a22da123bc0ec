/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_sections: writes the report and the section for a pattern of keys: [lock] if the
 * keys are locks, [guard] if clients read their values and write them back.
 */
#include "watch/tracker_internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "watch/key_pattern.h"

/* --- numbers, times and keys for people --------------------------------------------------- */

const char *words_number(struct words *w, uint64_t n)
{
	char digits[24];
	size_t length = (size_t)snprintf(digits, sizeof(digits), "%" PRIu64, n), at = 0;

	for (size_t i = 0; i < length; i++) {
		if (i && (length - i) % 3 == 0)
			w->text[at++] = ',';
		w->text[at++] = digits[i];
	}
	w->text[at] = '\0';
	return w->text;
}

const char *words_count(struct words *w, uint64_t n, const char *what)
{
	size_t at = strlen(words_number(w, n));

	snprintf(w->text + at, sizeof(w->text) - at, " %s%s", what, n == 1 ? "" : "s");
	return w->text;
}

const char *words_time(struct words *w, double seconds)
{
	if (seconds < 0.01)
		snprintf(w->text, sizeof(w->text), "%.1f ms", seconds * 1e3);
	else if (seconds < 1)
		snprintf(w->text, sizeof(w->text), "%.0f ms", seconds * 1e3);
	else if (seconds < 120)
		snprintf(w->text, sizeof(w->text), "%.1f s", seconds);
	else
		snprintf(w->text, sizeof(w->text), "%.0f minutes", seconds / 60);
	return w->text;
}

/* Returns the first of `steps`, which end with 0, that is at least `least`; else the last
 * one. */
static int words_round_up(const int *steps, double least)
{
	while (steps[1] && *steps < least)
		steps++;
	return *steps;
}

/* The arguments of %.*s for the pattern. */
#define PATTERN(f) (int)buf_len(&(f)->pattern), buf_head(&(f)->pattern)

static bool finding_has_name(const struct finding *f)
{
	return key_pattern_has_name(buf_slice(&f->pattern));
}

static void put_example(struct buf *out, const struct finding *f)
{
	if (!f->example)
		return;
	buf_puts(out, ";   such as ");
	key_pattern_literal(out, slice_of(f->example->sample, f->example->nsample));
	buf_puts(out, "\n");
}

/* --- locks ------------------------------------------------------------------------------- */

/* max_hold is at least this many times the longest hold that was seen. */
#define MAX_HOLD_TIMES 10
#define MAX_HOLD_UNSEEN 600 /* max_hold in seconds, if hasp saw no hold end */
/* The lease to propose for locks that the application takes without an expiry. hasp renews
 * them; when a holder dies, its lock keeps other clients out for this long. */
#define LEASE_UNSEEN_MS 5000
#define LEASE_UNSET 30 /* the default of `lease` in [lock], in seconds */

/* If clients take more than one lock in BACK_SHARE again soon after they have released it, they
 * may poll. Below, "nearly all" means that at most one in BACK_SHARE is an exception. */
#define BACK_SHARE 10

/* True if most clients that were refused the lock tried again soon. */
static bool is_retried(const struct lock_sums *l)
{
	uint64_t tries = l->tries[WAY_SETNX] + l->tries[WAY_SET_NX];

	return tries > 0 && l->n[SEEN_RETRIED] * 2 >= tries;
}

/* True if nearly all retries have the value of the try before, and nearly all tries after a
 * release have another value than the released one: the tries up to a release are for one piece
 * of work. */
static bool is_insisted(const struct lock_sums *l)
{
	const uint64_t *n = l->n;

	return (n[SEEN_RETRIED] - n[SEEN_INSISTED]) * BACK_SHARE <= n[SEEN_RETRIED] &&
	       (n[SEEN_CAME_BACK] - n[SEEN_CAME_ANEW]) * BACK_SHARE <= n[SEEN_CAME_BACK];
}

/* True if clients often come back soon after they have released the lock. They may do so at set
 * times, whether or not they get it: after a wait, a client would repeat the work of the one
 * before. A client that waits for the lock to do work of its own goes away after that. */
static bool is_polled(const struct lock_sums *l)
{
	return l->n[SEEN_CAME_BACK] * BACK_SHARE > lock_taken(l) && !is_insisted(l);
}

/* Returns a `wait` in seconds: of the clients that repeat their attempts, most get the lock
 * within that time. Returns 0 if
 *   - few clients repeat attempts, or none of these got the lock
 *   - clients leave locks to expire as marks
 *   - an attempt that waits would delay other commands, because holders share a connection, or
 *     a connection has several uses */
static int useful_wait_seconds(const struct lock_sums *l)
{
	static const int steps[] = { 1, 2, 5, 10, 0 };

	if (!is_retried(l) || l->waited.total == 0 || lock_verdict(l).is_left ||
	    l->n[SEEN_REFUSED_OWN] > 0 || l->n[SEEN_MULTIPLEXED] > 0)
		return 0;
	return words_round_up(steps, durations_at(&l->waited, 0.9));
}

/* Returns the `wait` to propose, in seconds; 0: none. */
static int lock_wait_seconds(const struct lock_sums *l)
{
	return is_polled(l) ? 0 : useful_wait_seconds(l);
}

/* True if no DEL seems to have removed another holder's lock, and no holder came near the
 * expiry of its lock. */
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

/* True if hasp saw how long the late holders worked. If another connection of a pool would have
 * released the lock, hasp only knows that the expiry passed. */
static bool is_longest_seen(const struct lock_sums *l, const struct lock_verdict *v)
{
	return v->longest <= l->held.longest || v->longest <= l->lapsed_longest;
}

static void put_late(struct buf *out, const struct lock_sums *l, const struct lock_verdict *v)
{
	put_fact(out, v->late, "holder", "outlived the expiry of their lock:");
	buf_puts(out, ";     held for ");
	if (l->held.total)
		buf_printf(out, "%s (p99), ", TIME(durations_at(&l->held, 0.99)));
	buf_printf(out, is_longest_seen(l, v) ? "%s at most" : "some for at least %s",
	           TIME(v->longest));
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
	         l->n[SEEN_REFUSED_OWN] == 0
	                 ? "expired without a release, although the connection stayed open"
	                 : "expired without a release, or with a late one that hasp took for "
	                   "another user's of the same connection");
	put_fact(out, l->n[SEEN_BARE], "lock", "had no expiry, at least for a while");
	put_fact(out, l->n[SEEN_BARE_LEFT], "lock",
	         "stayed without an expiry when the holder's connection closed");
	if (verdict_was_left(l))
		put_fact(out, l->tries[WAY_INCR], "more count",
		         "followed: only the key's name shows that this is a lock and not a "
		         "counter");
	/* Explain why hasp proposes a section although it saw no harm. */
	if (l->n[SEEN_OUTLASTED])
		put_fact(out, l->n[SEEN_OUTLASTED], "release",
		         "came after the connection that took the lock had closed: hasp cannot "
		         "see whether the holder released it");
	else if (!verdict_is_harmed(l) && !l->n[SEEN_OVERWRITTEN] && !v->unreleased)
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
	uint64_t others = l->n[SEEN_OUTLASTED];

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
	if (v->owner_open)
		others = l->n[SEEN_STRANGE];
	else if (v->hopped)
		others = v->hopped;
	buf_printf(out,
	           ";   %s released by the connection that took the lock, %s by another one",
	           NUMBER(v->own), NUMBER(others));
	if (!v->owner_open && v->hopped)
		buf_printf(out, " of the same %s", v->owner);
	if (!v->owner_open)
		buf_printf(out, ": owner = %s", v->owner);
	buf_puts(out, "\n");
}

/* Asks about keys of another use, whose names hasp does not keep. `what`: the keys that the
 * pattern should match. */
static void put_may_catch(struct buf *out, const struct finding *f, const char *what)
{
	if (f->may_catch)
		buf_printf(out,
		           ";   Question: are all keys that the pattern matches %s? There were "
		           "too many names of the form %.*s to compare each of them.\n"
		           ";     If the pattern matches others, give one that leaves them "
		           "out.\n",
		           what, (int)f->may_catch->node.key.n, f->may_catch->node.key.p);
}

/* True if clients take the lock by GETSET or SET. These have no reply that means "refused", so
 * hasp must refuse them by an error. */
static bool may_need_errors(const struct lock_sums *l)
{
	return l->n[SEEN_YIELDED] > 0 || 2 * l->taken[WAY_SET] > lock_taken(l);
}

/* True if the locks without an expiry may be marks. If the name says lock, the few that were
 * not released are probably those of holders that died. */
static bool may_be_marks(const struct finding *f)
{
	return verdict_may_mark(&f->lock) &&
	       (2 * f->lock.n[SEEN_BARE_UNRELEASED] > lock_taken(&f->lock) ||
	        !verdict_says_lock(buf_slice(&f->pattern)));
}

static const char *why_counter(const struct lock_sums *l)
{
	if (l->taken[WAY_INCR] < lock_taken(l))
		return "Clients set the key by NX, and count it up.";
	if (l->n[SEEN_REFUSED_OWN])
		return "A connection that had counted to 1 counted on before the key was "
		       "deleted.";
	if (l->n[SEEN_FOREIGN])
		return "A connection counted to 1, and another one deleted the key.";
	if (l->n[SEEN_OUTLASTED])
		return "A connection that had counted to 1 closed, and another one deleted the "
		       "key.";
	if (verdict_was_left(l))
		return "Clients that counted further used other keys in between.";
	if (lock_tries(l) == 0)
		return "No client counted further than 1.";
	return "Most of the keys were not deleted.";
}

/* Writes the questions that only the user can answer. Returns true if there is one: the section
 * is then a comment until the user knows the answer. */
static bool put_questions(struct buf *out, const struct finding *f,
                          const struct lock_verdict *v)
{
	size_t before = buf_len(out);

	if (v->owner_open == OPEN_UNLIKE)
		buf_printf(
			out,
			";   Question: which connections share a lock? %s released it have "
			"neither name nor address in common\n"
			";     with those that took it. If they are one application, have each "
			"send CLIENT SETNAME with one name: owner = name.\n"
			";     If each must release what it took: owner = connection.\n",
			f->lock.n[SEEN_FOREIGN_ADDRESS] + f->lock.n[SEEN_FOREIGN_NAME]
				? "Some that"
				: "Those that");
	else if (v->owner_open == OPEN_HANDED_ON)
		buf_puts(
			out,
			";   Question: which connections share a lock? Some closed while they "
			"had one, and another one released it.\n"
			";     If they are one application, have each send CLIENT SETNAME with "
			"one name: owner = name.\n"
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
	if (v->extends_is_open)
		buf_printf(
			out,
			";   Question: does one client use several connections? %s a "
			"connection "
			"that had not taken the lock set its expiry.\n"
			";     With this owner, hasp refuses that, and the lock ends while its "
			"holder works. %s\n",
			COUNT(f->lock.n[SEEN_EXTENDED], "time"),
			strcmp(v->owner, "value") == 0
				? "If so, have that connection read the value first."
				: "If so, choose an owner that both\n"
				  ";     connections share: owner = address, or have each send "
				  "CLIENT "
				  "SETNAME with one name: owner = name.");
	if (f->lock.n[SEEN_RETURNED])
		buf_puts(out,
		         ";   Question: is the integer that the script returns the time "
		         "at which the lock ends? If so, other clients compare that time,\n"
		         ";     and no rule keeps them out when it has passed: have the "
		         "application ask for a longer time. If not, use this section.\n");
	if (verdict_may_be_counter(&f->lock, buf_slice(&f->pattern)))
		buf_printf(out,
		           ";   Question: is this a lock, or a counter? %s\n"
		           ";     If it is a counter, leave this section out: it has no "
		           "holders.\n",
		           why_counter(&f->lock));
	if (f->lock.n[SEEN_WRITTEN])
		buf_printf(
			out,
			";   Question: is this a lock, or a value? %s a client changed it by a "
			"command that neither takes nor releases locks, as DECR or APPEND do.\n"
			";     If it is a value, leave this section out: it would refuse "
			"these commands, and let the value expire.\n",
			COUNT(f->lock.n[SEEN_WRITTEN], "time"));
	if (may_be_marks(f))
		buf_printf(
			out,
			";   Question: is a lock left without an expiry on purpose, as a mark "
			"that something was done? %s had neither an expiry nor a release.\n"
			";     If so, leave this section out: it would end such marks.\n",
			COUNT(f->lock.n[SEEN_BARE_UNRELEASED], "lock"));
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
	else
		put_may_catch(out, f, "such locks");
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

	/* hasp did not see the expiry that a script sets. */
	if (lease == 0 && l->n[SEEN_BARE] == 0)
		lease = LEASE_UNSET / 2.0;
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
	/* A max_hold below the default of `lease` would cause a warning. */
	if (l->n[SEEN_BARE] || (v->renew && max_hold_seconds(l, v) < LEASE_UNSET))
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
	/* Several holders share a connection: each of them may have one lock only. */
	if (f->lock.n[SEEN_REFUSED_OWN])
		return;
	put_fact(
		out, f->opposed, "time",
		"a client that had one lock asked for another one, and another client did so "
		"the other way round: if they\n"
		";     try until they get it, they may wait for each other. Take such locks in "
		"one order, or by MLOCK of [verbs]");
}

/* Writes why the section has a `wait`, or has none although clients repeat their attempts. */
static void put_wait(struct buf *out, const struct lock_sums *l)
{
	int wait = useful_wait_seconds(l);

	if (wait && is_polled(l))
		buf_printf(
			out,
			";   clients repeated attempts that were refused, but also came back "
			"soon after they had released the lock.\n"
			";     If a client that gets the lock late goes on with work of its "
			"own, add wait = %ds. If it would repeat\n"
			";     what another client has just done, as schedulers do, add "
			"none.\n",
			wait);
	else if (wait)
		buf_printf(
			out,
			";   clients repeated attempts that were refused, for %s (p90) until "
			"they got the lock.\n"
			";     While an attempt waits, later commands of its connection wait, "
			"too. Remove wait if a refused client leaves its work out.\n",
			TIME(durations_at(&l->waited, 0.9)));
	else if (is_retried(l) && l->n[SEEN_MULTIPLEXED])
		buf_puts(out, ";   clients repeated attempts that were refused, and sent other "
		              "commands over the connection in between: a wait would delay "
		              "those\n");
}

void discovery_put_lock(struct buf *out, const struct finding *f, const char *name)
{
	const struct lock_sums *l = &f->lock;
	struct lock_verdict v = lock_verdict(l);
	bool asks;

	put_lock_use(out, f);
	put_example(out, f);
	if (verdict_may_be_counter(l, buf_slice(&f->pattern)))
		buf_puts(out, ";   if this is a lock, and not a counter:\n");
	put_harm(out, l, &v);
	put_order(out, f);
	put_owner_reason(out, l, &v);
	if (l->n[SEEN_BARE] && !l->lease_ms_max)
		buf_puts(out,
		         ";   no expiry was ever set: the lock is renewed while its holder's "
		         "connection lives, and ends soon after it\n");
	if (v.renew && v.longest > 0 && is_longest_seen(l, &v) && !l->n[SEEN_BARE_UNRELEASED])
		buf_printf(
			out,
			";   no lock was seen held for longer than %s: max_hold = %ds leaves "
			"room for %d times that\n",
			TIME(v.longest), max_hold_seconds(l, &v), MAX_HOLD_TIMES);
	put_wait(out, l);
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
	uint64_t unreleased = lock_verdict(l).unreleased;

	if (unreleased)
		buf_printf(out,
		           ";     %s expired without a release, although the connection stayed "
		           "open: hasp cannot tell\n;     whether a holder forgot the lock, or "
		           "worked for longer than the lock lasted and did not try to release "
		           "it\n",
		           COUNT(unreleased, "lock"));
	if (l->taken[WAY_SCRIPT] == lock_taken(l))
		buf_puts(out,
		         ";     sound as far as was seen: no holder found at its release that "
		         "the lock was gone\n");
	else if (l->n[SEEN_RELEASED] + l->n[SEEN_FOREIGN] == 0)
		buf_puts(out, ";     sound as far as was seen: always with an expiry, which no "
		              "holder outlived, and released by a comparison of the value\n");
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

/* --- guards ------------------------------------------------------------------------------ */

#define LEASE_DEFAULT 5.0 /* the default of `lease`, in seconds */
#define LEASE_SHARE 3.0 /* the lease is this many times the time from read to write (p99) */
#define WRITES_ENOUGH 20 /* with fewer writes, there is little evidence */
/* If less than one write in OUTSIDE_SHARE is outside any lock, locks protect the values. */
#define OUTSIDE_SHARE 10
/* If more than one write in REREAD_SHARE follows several reads by its connection, several users
 * of the application may share the connection. */
#define REREAD_SHARE 10
/* If more than one read in UNWRITTEN_SHARE is not followed by a write, strategy = lock would
 * make clients wait for nothing. */
#define UNWRITTEN_SHARE 100
/* If more than one write in HOPPED_SHARE comes over another connection than its read, clients
 * use a pool. */
#define HOPPED_SHARE 4
/* If more than one write in NESTED_SHARE is nested (guard_sums), clients with guards would wait
 * for each other. */
#define NESTED_SHARE 20

/* True if guards would often make clients wait for each other. */
static bool is_nested_often(const struct guard_sums *g)
{
	return g->nested * NESTED_SHARE > g->written_back;
}

/* True if clients seem to read over one connection of a pool and to write over another: a guard
 * would refuse such writes. */
static bool is_hopping(const struct finding *f)
{
	return f->hopped * HOPPED_SHARE > f->guard.written_back;
}

static uint64_t lost_updates(const struct guard_sums *g)
{
	return g->stale + g->stale_near_lock;
}

/* True if nearly all writes were under locks of the client's connection, name or address. */
static bool is_under_locks(const struct guard_sums *g)
{
	uint64_t outside = g->written_back - g->under_lock - g->near_lock;

	return outside * OUTSIDE_SHARE < g->written_back;
}

/* True if a lock may protect the values although the writer does not hold it: another
 * connection with the writer's name or address holds it. */
static bool is_near_lock(const struct guard_sums *g)
{
	return g->near_lock > 0 && is_under_locks(g);
}

/* True if the overwritten updates may not be lost: a lock may protect them, or the connection
 * that wrote was not the one that read for the same client. */
static bool may_be_kept(const struct finding *f)
{
	return is_near_lock(&f->guard) || is_hopping(f);
}

/* True if no update was lost, but the first two clients that write at once will lose one. */
static bool is_predicted(const struct guard_sums *g)
{
	return lost_updates(g) == 0 && g->in_turn >= IN_TURN_ENOUGH && !is_under_locks(g) &&
	       !verdict_is_refresh(g);
}

bool discovery_guard_is_proposed(const struct finding *f)
{
	const struct guard_sums *g = &f->guard;

	return (lost_updates(g) > 0 || is_predicted(g)) && finding_has_name(f) && !f->caught &&
	       f->nlocks == 0 && !is_nested_often(g);
}

/* True if many reads are not followed by a write. The guard of such a read would keep other
 * clients out until the guard's lease ends. */
static bool is_read_mostly(const struct finding *f)
{
	return f->unwritten * UNWRITTEN_SHARE > f->nread;
}

/* True if strategy = check fits: clients mostly read, and the values are strings. */
static bool can_check(const struct finding *f)
{
	return is_read_mostly(f) && !(f->guard.how & READ_HGET);
}

static double guard_lease(const struct guard_sums *g)
{
	double lease = LEASE_SHARE * durations_at(&g->between, 0.99);

	return lease > LEASE_DEFAULT ? lease : LEASE_DEFAULT;
}

/* Returns a `wait`, in seconds, that is enough for all clients that come at once, and longer
 * than the lease if clients read without writing: such a read keeps the guard for its lease. */
static int guard_wait_seconds(const struct finding *f)
{
	static const int steps[] = { 2, 5, 10, 30, 60, 0 };
	const struct guard_sums *g = &f->guard;
	double least = 2 * g->max_readers * durations_at(&g->between, 0.5);

	return words_round_up(
		steps, f->unwritten && least < 2 * guard_lease(g) ? 2 * guard_lease(g) : least);
}

static void put_guard_use(struct buf *out, const struct finding *f)
{
	buf_printf(out, "; %.*s    %s, read and written back %s\n", PATTERN(f),
	           COUNT(f->nkeys, "key"), COUNT(f->guard.written_back, "time"));
}

#define USE_IF_SO "If so, use this section; remove each leading \";\".\n"

static void put_predicted(struct buf *out, const struct guard_sums *g)
{
	bool is_string = g->how & (READ_GET | READ_MGET);
	const char *get = g->how & READ_GET ? "GET" : is_string ? "MGET" : "HGET";
	const char *set = is_string ? "SET" : "HSET";

	buf_printf(out,
	           ";   predicted: %s a connection wrote back what another one had written "
	           "back before, always one after the other.\n"
	           ";     If two do so at once, one update is lost:\n"
	           ";       one connection:   %s\n"
	           ";       another one:      %s, %s\n"
	           ";       the first one:    %s, over the other's value\n"
	           ";   Question: can two do so at once, and is the value that is written "
	           "computed from the value that was read?\n"
	           ";     " USE_IF_SO,
	           COUNT(g->in_turn, "time"), get, get, set, set);
}

static void put_near_lock(struct buf *out, const struct finding *f, const char *mark)
{
	buf_printf(out,
	           "%snearly all writes came while a connection of the writer's address or "
	           "name held a lock%s%.*s.\n",
	           mark, f->near.n ? ", such as " : "", (int)f->near.n, f->near.p);
}

static void put_lost(struct buf *out, const struct finding *f)
{
	const struct guard_sums *g = &f->guard;
	bool is_refresh = verdict_is_refresh(g);

	if (is_predicted(g)) {
		put_predicted(out, g);
		return;
	}
	buf_printf(out,
	           ";   %s overwrote what another connection had written since the read%s\n",
	           COUNT(lost_updates(g), "write"),
	           is_refresh || may_be_kept(f) ? "" : ": lost updates");
	if (is_near_lock(g)) {
		put_near_lock(out, f, ";   ");
		buf_puts(out,
		         ";   Question: does that lock protect these values? If so, leave this "
		         "section out, and see what this file says of the lock.\n"
		         ";     If not, use this section; remove each leading \";\".\n");
	} else if (is_hopping(f))
		buf_printf(out,
		           ";   %s came over another connection than a read, of the same "
		           "address or name: a guard would keep its own pool out.\n"
		           ";   Question: does each client read and write over one "
		           "connection? " USE_IF_SO ";     If not, leave it out.\n",
		           COUNT(f->hopped, "more write"));
	if (g->lasting)
		return;
	buf_printf(out, ";   each write set an expiry of at most %s%s", TIME(g->life_max),
	           is_refresh ? ", and most of it had passed when the value was read:\n"
	                        ";     this looks like a cache that is refreshed early.\n"
	                        ";   Question: are the values computed from the value that was "
	                        "read? " USE_IF_SO
	                        ";     If they come from another source, leave it out.\n"
	                      : ": if the values come from another source, as those of a "
	                        "cache, leave this section out\n");
}

static void put_reads(struct buf *out, const struct finding *f)
{
	if (!f->unwritten || verdict_is_refresh(&f->guard))
		return;
	buf_printf(out, ";   %s had no write back: %s", COUNT(f->unwritten, "read"),
	           !is_read_mostly(f)
	                   ? "each keeps other clients waiting until the lease of its guard "
	                     "ends.\n"
	                     ";     If some clients only read, name them in `except`.\n"
	           : can_check(f)
	                   ? "strategy = check lets readers pass, and no client waits.\n"
	                     ";     A write that would overwrite another client's gets the "
	                     "error -LOCKLOST: the application has to read the value "
	                     "again.\n"
	                   : "each would keep the guard until its lease ends. (strategy = "
	                     "check, which lets readers pass, guards strings only.)\n"
	                     ";   Question: which clients only read? Name them in `except`; "
	                     "then use this section, and remove each leading \";\".\n");
}

/* Writes the section, or comments it out if hasp cannot tell whether it is right. */
static void put_guard_section(struct buf *out, const struct finding *f, const char *name)
{
	const struct guard_sums *g = &f->guard;
	bool is_open = f->may_catch || is_predicted(g) || verdict_is_refresh(g) ||
	               is_near_lock(g) || is_hopping(f) || (is_read_mostly(f) && !can_check(f));
	const char *mark = is_open ? ";" : "";

	buf_printf(out, "%s[guard %s]\n%spattern = %.*s\n%sacquire_on =%s%s%s\n", mark, name,
	           mark, PATTERN(f), mark, g->how & READ_GET ? " GET" : "",
	           g->how & READ_MGET ? " MGET" : "", g->how & READ_HGET ? " HGET" : "");
	if (can_check(f))
		buf_printf(out, "%sstrategy = check\n", mark);
	else if (guard_lease(g) > LEASE_DEFAULT)
		buf_printf(out, "%slease = %.0fs\n", mark, guard_lease(g));
	if (!can_check(f))
		buf_printf(out, "%swait = %ds\n", mark, guard_wait_seconds(f));
	buf_printf(out, "%smode = observe          ; then enforce\n\n", mark);
}

void discovery_put_guard(struct buf *out, const struct finding *f, const char *name)
{
	const struct guard_sums *g = &f->guard;

	put_guard_use(out, f);
	put_example(out, f);
	put_lost(out, f);
	buf_printf(out, ";   between read and write: %s (median), %s (p99); up to %s at once\n",
	           TIME(durations_at(&g->between, 0.5)), TIME(durations_at(&g->between, 0.99)),
	           COUNT(g->max_readers, "connection"));
	put_reads(out, f);
	put_may_catch(out, f, "such values");
	if (g->written_back < WRITES_ENOUGH)
		buf_puts(out, ";   little evidence: watch for longer\n");
	put_guard_section(out, f, name);
}

void discovery_put_guard_left(struct buf *out, const struct finding *f)
{
	const struct guard_sums *g = &f->guard;

	put_guard_use(out, f);
	if (lost_updates(g) && may_be_kept(f)) {
		buf_printf(out,
		           ";     %s overwrote what another connection had written since the "
		           "read. hasp cannot tell whether updates were lost:\n",
		           COUNT(lost_updates(g), "write"));
		if (is_near_lock(g))
			put_near_lock(out, f, ";     ");
		else
			buf_printf(out,
			           ";     %s came over another connection than a read, of the "
			           "same address or name\n",
			           COUNT(f->hopped, "more write"));
	} else if (lost_updates(g) && is_nested_often(g))
		buf_printf(
			out,
			";     not proposed: %s seen, but connections read several keys, one "
			"after the other, before they write:\n"
			";     their guards would wait for each other. If one client reads "
			"these "
			"keys, let it lock all of them at once, as MLOCK of [verbs] does.\n"
			";     If several clients share the connections, no guard tells them "
			"apart: let the application WATCH the key, or lock it.\n",
			COUNT(lost_updates(g), "lost update"));
	else if (lost_updates(g) && f->caught)
		buf_printf(
			out,
			";     not proposed: updates were lost, but the pattern also matches "
			"keys of another use, those of %.*s\n",
			(int)f->caught->node.key.n, f->caught->node.key.p);
	else if (lost_updates(g))
		buf_puts(out, ";     not proposed: updates were lost, but these names have no "
		              "fixed part for a pattern\n");
	else if (g->stale_under_lock)
		buf_printf(
			out,
			";     written by holders of a lock, %s over another client's value: "
			"cure the lock, not this key\n",
			COUNT(g->stale_under_lock, "time"));
	else if (g->under_lock + g->near_lock == g->written_back)
		buf_puts(out, ";     written by holders of a lock; no update was lost\n");
	else if (f->hopped)
		buf_printf(out,
		           ";     no connection overwrote what another one had written, but %s "
		           "came over another connection than a read:\n"
		           ";     hasp cannot tell whether these lost updates\n",
		           COUNT(f->hopped, "more write"));
	else if (g->reread * REREAD_SHARE > g->written_back)
		buf_puts(out, ";     no connection overwrote what another one had written; but "
		              "connections read several times before they write:\n"
		              ";     if several users share a connection, hasp cannot see the "
		              "updates that they lose\n");
	else
		buf_puts(out, ";     no update was lost\n");
}
