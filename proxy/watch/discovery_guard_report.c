/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_guard_report: writes the report and the [guard] section for a pattern whose values
 * clients read and write back.
 */
#include "watch/tracker_internal.h"

#define LEASE_DEFAULT 5.0 /* seconds */
#define LEASE_SHARE 3.0 /* the lease is this many times the time from read to write (p99) */
#define WRITES_ENOUGH 20 /* fewer writes are little evidence */
/* If less than one write in OUTSIDE_SHARE is outside any lock, locks protect the values. */
#define OUTSIDE_SHARE 10
/* If more than one write in REREAD_SHARE follows several reads, users may share a
 * connection. */
#define REREAD_SHARE 10
/* If more than one read in UNWRITTEN_SHARE has no write, strategy = lock would make clients
 * wait in vain. */
#define UNWRITTEN_SHARE 100
/* At least this many updates in turn show that clients share the values. */
#define IN_TURN_ENOUGH 2
/* If more than one write in HOPPED_SHARE comes over another connection than its read, clients
 * use a pool. */
#define HOPPED_SHARE 4
/* If more than one write in NESTED_SHARE is nested, guards would wait for each other. */
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
 * connection with the writer's name or address does. */
static bool is_near_lock(const struct guard_sums *g)
{
	return g->near_lock > 0 && is_under_locks(g);
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

/* True if many reads have no write: the guard of each would keep other clients out until its
 * lease ends. */
static bool is_read_mostly(const struct finding *f)
{
	return f->unwritten * UNWRITTEN_SHARE > f->nread;
}

/* True if strategy = check fits: it guards strings only. */
static bool can_check(const struct finding *f)
{
	return is_read_mostly(f) && !(f->guard.how & READ_HGET);
}

/* Returns a wait in which all clients that come at the same time get their turn. */
static int guard_wait_seconds(const struct guard_sums *g)
{
	static const int steps[] = { 2, 5, 10, 30, 60, 0 };

	return words_round_up(steps, 2 * g->max_readers * durations_at(&g->between, 0.5));
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
	           COUNT(lost_updates(g), "write"), is_refresh ? "" : ": lost updates");
	if (is_near_lock(g))
		buf_puts(out,
		         ";   nearly all writes came while a connection of the writer's "
		         "address or name held a lock.\n"
		         ";   Question: does that lock protect these values? If so, use the "
		         "lock's section only, and leave this one out.\n"
		         ";     If not, use this section; remove each leading \";\".\n");
	else if (is_hopping(f))
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
	if (!is_read_mostly(f) || verdict_is_refresh(&f->guard))
		return;
	buf_printf(out, ";   %s had no write back: %s", COUNT(f->unwritten, "read"),
	           can_check(f)
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
	bool is_open = is_predicted(g) || verdict_is_refresh(g) || is_near_lock(g) ||
	               is_hopping(f) || (is_read_mostly(f) && !can_check(f));
	const char *mark = is_open ? ";" : "";
	double lease = LEASE_SHARE * durations_at(&g->between, 0.99);

	buf_printf(out, "%s[guard %s]\n%spattern = %.*s\n%sacquire_on =%s%s%s\n", mark, name,
	           mark, PATTERN(f), mark, g->how & READ_GET ? " GET" : "",
	           g->how & READ_MGET ? " MGET" : "", g->how & READ_HGET ? " HGET" : "");
	if (can_check(f))
		buf_printf(out, "%sstrategy = check\n", mark);
	else if (lease > LEASE_DEFAULT)
		buf_printf(out, "%slease = %.0fs\n", mark, lease);
	if (!can_check(f))
		buf_printf(out, "%swait = %ds\n", mark, guard_wait_seconds(g));
	buf_printf(out, "%smode = observe          ; then enforce\n\n", mark);
}

void discovery_put_guard(struct buf *out, const struct finding *f, const char *name)
{
	const struct guard_sums *g = &f->guard;

	put_guard_use(out, f);
	discovery_put_example(out, f);
	put_lost(out, f);
	buf_printf(out, ";   between read and write: %s (median), %s (p99); up to %s at once\n",
	           TIME(durations_at(&g->between, 0.5)), TIME(durations_at(&g->between, 0.99)),
	           COUNT(g->max_readers, "connection"));
	put_reads(out, f);
	if (g->written_back < WRITES_ENOUGH)
		buf_puts(out, ";   little evidence: watch for longer\n");
	put_guard_section(out, f, name);
}

void discovery_put_guard_left(struct buf *out, const struct finding *f)
{
	const struct guard_sums *g = &f->guard;

	put_guard_use(out, f);
	if (lost_updates(g) && is_nested_often(g))
		buf_printf(
			out,
			";     not proposed: %s seen, but the clients read several keys, one "
			"after the other, before they write:\n"
			";     their guards would wait for each other; lock all keys at once, "
			"as MLOCK of [verbs] does\n",
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
