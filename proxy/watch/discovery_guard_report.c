/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_guard_report: what is said of a pattern whose values are read and written back, and
 * the section for it.
 */
#include "watch/tracker_internal.h"

#define LEASE_DEFAULT 5.0 /* seconds */
#define LEASE_SHARE 3.0 /* times the time between read and write */
#define WRITES_ENOUGH 20
/* One write of so many that is outside any lock is too few. */
#define OUTSIDE_SHARE 10
#define REREAD_SHARE 10
/* One read of so many that is not written back is too many for strategy = lock. */
#define UNWRITTEN_SHARE 10
/* Updates in turn that show that clients share the values. */
#define IN_TURN_ENOUGH 2
/* One write of so many that comes over another connection than a read is too many. */
#define HOPPED_SHARE 4
/* One write of so many that is nested is too many. */
#define NESTED_SHARE 20

static bool may_have_guard(const struct finding *f)
{
	struct slice p = buf_slice(&f->pattern);

	for (size_t i = 0; i < p.n; i++)
		if (p.p[i] != '*' && p.p[i] != '?')
			return !f->caught && f->nlocks == 0;
	return false;
}

/* Clients would wait for each other. */
static bool is_nested_often(const struct guard_sums *g)
{
	return g->nested * NESTED_SHARE > g->written_back;
}

/* A pool may read over one connection and write over another one, which its guard keeps out. */
static bool is_hopping(const struct finding *f)
{
	return f->hopped * HOPPED_SHARE > f->guard.written_back;
}

/* No update was lost, but only because no two came at once. */
static bool is_predicted(const struct guard_sums *g)
{
	uint64_t outside = g->written_back - g->under_lock - g->near_lock;

	return g->stale + g->stale_near_lock == 0 && g->in_turn >= IN_TURN_ENOUGH &&
	       outside * OUTSIDE_SHARE >= g->written_back && !verdict_is_refresh(g);
}

bool discovery_guard_is_proposed(const struct finding *f)
{
	const struct guard_sums *g = &f->guard;

	return (g->stale + g->stale_near_lock > 0 || is_predicted(g)) && may_have_guard(f) &&
	       !is_nested_often(g);
}

/* Nearly all were written while somebody of their clients' name or address had a lock, which
 * may be what has to protect them. */
static bool is_near_lock(const struct guard_sums *g)
{
	uint64_t outside = g->written_back - g->under_lock - g->near_lock;

	return g->near_lock > 0 && outside * OUTSIDE_SHARE < g->written_back;
}

/* Where many reads are not written back, a guard that each of them takes would keep others out
 * until its lease ends. */
static bool is_read_mostly(const struct finding *f)
{
	return (f->nread - f->guard.written_back) * UNWRITTEN_SHARE > f->nread;
}

/* So that all who come at once have their turn. */
static int guard_wait_seconds(const struct guard_sums *g)
{
	static const int steps[] = { 2, 5, 10, 30, 60 };
	double all = 2 * g->crowd * durations_at(&g->between, 0.5);
	size_t i = 0;

	while (i < sizeof(steps) / sizeof(*steps) - 1 && steps[i] < all)
		i++;
	return steps[i];
}

static void put_guard_use(struct buf *out, const struct finding *f)
{
	const struct guard_sums *g = &f->guard;

	buf_puts(out, "; ");
	buf_append(out, buf_slice(&f->pattern));
	buf_puts(out, "    ");
	discovery_put_count(out, f->nkeys, "key");
	buf_puts(out, ", read and written back ");
	discovery_put_count(out, g->written_back, "time");
	buf_puts(out, "\n");
}

/* strategy = check compares strings. */
static bool can_check(const struct finding *f)
{
	return is_read_mostly(f) && !(f->guard.how & READ_HGET);
}

static void put_hopped(struct buf *out, const struct finding *f)
{
	buf_puts(out, ";   ");
	discovery_put_count(out, f->hopped, "more write");
	buf_puts(out, " came over another connection than a read, of the same address or name: "
	              "a guard would keep its own pool out.\n"
	              ";   Question: does each client read and write over one connection? If "
	              "so, use this section; remove each leading \";\".\n"
	              ";     If not, leave it out.\n");
}

static void put_predicted(struct buf *out, const struct finding *f)
{
	const char *get = f->guard.how & READ_GET    ? "GET"
	                  : f->guard.how & READ_MGET ? "MGET"
	                                             : "HGET";
	const char *set = f->guard.how & (READ_GET | READ_MGET) ? "SET" : "HSET";

	buf_puts(out, ";   predicted: ");
	discovery_put_count(out, f->guard.in_turn, "time");
	buf_printf(out,
	           " a connection wrote back what another one had written back before, always "
	           "one after the other.\n"
	           ";     If two do so at once, one update is lost:\n"
	           ";       one connection:   %s\n"
	           ";       another one:      %s, %s\n"
	           ";       the first one:    %s, over the other's value\n"
	           ";   Question: can two do so at once, and is the value that is written "
	           "computed from the value that was read?\n"
	           ";     If so, use this section; remove each leading \";\".\n",
	           get, get, set, set);
}

static void put_lost(struct buf *out, const struct finding *f)
{
	const struct guard_sums *g = &f->guard;
	bool is_refresh = verdict_is_refresh(g);

	if (is_predicted(g)) {
		put_predicted(out, f);
		return;
	}
	buf_puts(out, ";   ");
	discovery_put_count(out, g->stale + g->stale_near_lock, "write");
	buf_printf(out, " overwrote what another connection had written since the read%s\n",
	           is_refresh ? "" : ": lost updates");
	if (is_near_lock(g))
		buf_puts(
			out,
			";   nearly all writes came while a connection of the writer's address "
			"or name held a lock.\n"
			";   Question: does that lock protect these values? If so, use the "
			"lock's section only, and leave this one out.\n"
			";     If not, use this section; remove each leading \";\".\n");
	else if (is_hopping(f))
		put_hopped(out, f);
	if (g->lasting)
		return;
	buf_puts(out, ";   each write set an expiry of at most ");
	discovery_put_time(out, g->life_max);
	if (is_refresh)
		buf_puts(out, ", and most of it had passed when the value was read:\n"
		              ";     this looks like a cache that is refreshed early.\n"
		              ";   Question: are the values computed from the value that was "
		              "read? If so, use this section; remove each leading \";\".\n"
		              ";     If they come from another source, leave it out.\n");
	else
		buf_puts(out, ": if the values come from another source, as those of a cache, "
		              "leave this section out\n");
}

static void put_reads(struct buf *out, const struct finding *f)
{
	if (!is_read_mostly(f) || verdict_is_refresh(&f->guard))
		return;
	buf_puts(out, ";   ");
	discovery_put_number(out, f->nread - f->guard.written_back);
	if (!can_check(f)) {
		buf_puts(out,
		         " reads were not written back: each would keep the guard until its "
		         "lease ends. (strategy = check, which lets readers pass, guards "
		         "strings only.)\n"
		         ";   Question: which clients only read? Name them in `except`; then "
		         "use this section, and remove each leading \";\".\n");
		return;
	}
	buf_puts(out,
	         " reads were not written back: strategy = check lets readers pass, and no "
	         "client waits.\n"
	         ";     A write that would overwrite another client's gets the error "
	         "-LOCKLOST: the application has to read the value again.\n");
}

/* Where it is not known whether it would be right, as a comment. */
static void put_guard_section(struct buf *out, const struct finding *f, const char *name)
{
	const struct guard_sums *g = &f->guard;
	bool is_open = is_predicted(g) || verdict_is_refresh(g) || is_near_lock(g) ||
	               is_hopping(f) || (is_read_mostly(f) && !can_check(f));
	const char *mark = is_open ? ";" : "";
	double lease = LEASE_SHARE * durations_at(&g->between, 0.99);

	buf_printf(out, "%s[guard %s]\n%spattern = ", mark, name, mark);
	buf_append(out, buf_slice(&f->pattern));
	buf_printf(out, "\n%sacquire_on =%s%s%s\n", mark, g->how & READ_GET ? " GET" : "",
	           g->how & READ_MGET ? " MGET" : "", g->how & READ_HGET ? " HGET" : "");
	if (can_check(f)) {
		buf_printf(out, "%sstrategy = check\n", mark);
	} else {
		if (lease > LEASE_DEFAULT)
			buf_printf(out, "%slease = %.0fs\n", mark, lease);
		buf_printf(out, "%swait = %ds\n", mark, guard_wait_seconds(g));
	}
	buf_printf(out, "%smode = observe          ; then enforce\n\n", mark);
}

void discovery_put_guard(struct buf *out, const struct finding *f, const char *name)
{
	const struct guard_sums *g = &f->guard;

	put_guard_use(out, f);
	discovery_put_example(out, f);
	put_lost(out, f);
	buf_puts(out, ";   between read and write: ");
	discovery_put_time(out, durations_at(&g->between, 0.5));
	buf_puts(out, " (median), ");
	discovery_put_time(out, durations_at(&g->between, 0.99));
	buf_puts(out, " (p99); up to ");
	discovery_put_count(out, g->crowd, "connection");
	buf_puts(out, " at once\n");
	put_reads(out, f);
	if (g->written_back < WRITES_ENOUGH)
		buf_puts(out, ";   little evidence: watch for longer\n");
	put_guard_section(out, f, name);
}

void discovery_put_guard_left(struct buf *out, const struct finding *f)
{
	const struct guard_sums *g = &f->guard;
	uint64_t stale = g->stale + g->stale_near_lock;

	put_guard_use(out, f);
	if (stale && f->caught) {
		buf_puts(out,
		         ";     not proposed: updates were lost, but the pattern also matches "
		         "keys of another use, those of ");
		buf_append(out, f->caught->node.key);
		buf_puts(out, "\n");
	} else if (stale && is_nested_often(g)) {
		buf_puts(out, ";     not proposed: ");
		discovery_put_count(out, stale, "lost update");
		buf_puts(out,
		         " seen, but the clients read several keys, one after the other, "
		         "before they write:\n;     their guards would wait for each other; "
		         "lock all keys at once, as MLOCK of [verbs] does\n");
	} else if (stale) {
		buf_puts(out,
		         ";     not proposed: updates were lost, but these names have no fixed "
		         "part for a pattern\n");
	} else if (g->stale_under_lock) {
		buf_puts(out, ";     written by holders of a lock, ");
		discovery_put_count(out, g->stale_under_lock, "time");
		buf_puts(out, " over another client's value: cure the lock, not this key\n");
	} else if (g->under_lock + g->near_lock == g->written_back) {
		buf_puts(out, ";     written by holders of a lock; no update was lost\n");
	} else if (f->hopped) {
		buf_puts(out,
		         ";     no connection overwrote what another one had written, but ");
		discovery_put_count(out, f->hopped, "more write");
		buf_puts(out, " came over another connection than a read:\n"
		              ";     hasp cannot tell whether these lost updates\n");
	} else if (g->reread * REREAD_SHARE > g->written_back) {
		buf_puts(out,
		         ";     no connection overwrote what another one had written; but "
		         "connections read several times before they write:\n;     if several "
		         "users share a connection, hasp cannot see the updates that they "
		         "lose\n");
	} else {
		buf_puts(out, ";     no update was lost\n");
	}
}
