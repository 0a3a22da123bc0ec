/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker_report: for each rule a line of totals, what they mean, and the keys that were harmed
 * most.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "base/quote.h"
#include "watch/tracker_internal.h"

#define ULL(n) ((unsigned long long)(n))

static uint64_t harm_done(const struct tracked_key *k)
{
	uint64_t sum = k->stale;

	for (size_t e = 0; e < EVENTS; e++)
		sum += k->events[e];
	return sum;
}

/* Most first. */
static int compare_harm(const void *a, const void *b)
{
	const struct tracked_key *x = *(const struct tracked_key *const *)a;
	const struct tracked_key *y = *(const struct tracked_key *const *)b;

	if (x->lost != y->lost)
		return x->lost < y->lost ? 1 : -1;
	if (harm_done(x) != harm_done(y))
		return harm_done(x) < harm_done(y) ? 1 : -1;
	return 0;
}

static void report_clients(const struct tracked_key *k, const char *of, struct buf *out)
{
	if (k->by)
		buf_printf(out, " last_by=%s", QUOTE_STR(k->by->text));
	if (k->of)
		buf_printf(out, " %s=%s", of, QUOTE_STR(k->of->text));
	buf_puts(out, "\n");
}

static void report_key(const struct tracked_key *k, struct buf *out)
{
	const uint64_t *n = k->events;

	if (k->rule->kind == TRACKER_GUARD) {
		buf_printf(out, "observed guard=%s key=", k->rule->name);
		tracker_print_key(out, tracked_key_name(k));
		buf_printf(out, " lost_updates=%lld stale_writes=%llu writes=%llu",
		           (long long)k->lost, ULL(k->stale), ULL(k->writes));
		report_clients(k, "overwritten", out);
		return;
	}
	buf_printf(out, "observed lock=%s key=", k->rule->name);
	tracker_print_key(out, tracked_key_name(k));
	buf_printf(out,
	           " deleted_by_others=%llu changed_by_others=%llu outlived_lease=%llu "
	           "without_expiry=%llu",
	           ULL(n[EVENT_DELETED]), ULL(n[EVENT_CHANGED]), ULL(n[EVENT_OUTLIVED]),
	           ULL(n[EVENT_NO_EXPIRY]));
	report_clients(k, "holder", out);
}

static void report_keys(struct tracker *t, const struct tracker_rule *rule, struct buf *out)
{
	const struct tracked_key **all = xcalloc(t->keys.n + 1,
	                                         sizeof(const struct tracked_key *));
	struct list *at;
	size_t n = 0;

	for (at = t->harmed.next; at != &t->harmed; at = at->next) {
		const struct tracked_key *k = container_of(at, struct tracked_key, node);
		if (k->rule == rule)
			all[n++] = k;
	}
	qsort(all, n, sizeof(const struct tracked_key *), compare_harm);
	for (size_t i = 0; i < n && i < t->limits.ntop; i++)
		report_key(all[i], out);
	if (n > t->limits.ntop)
		buf_printf(out, "observed %s=%s more_keys=%zu\n",
		           rule->kind == TRACKER_GUARD ? "guard" : "lock", rule->name,
		           n - t->limits.ntop);
	free(all);
}

/* How many keys are followed, and what was not. */
static void report_gaps(const struct tracker_rule *rule, struct buf *out)
{
	buf_printf(out, " keys=%llu", ULL(rule->nkeys));
	if (rule->forgotten_keys || rule->forgotten_accesses)
		buf_printf(out, " forgotten_keys=%llu forgotten_marks=%llu",
		           ULL(rule->forgotten_keys), ULL(rule->forgotten_accesses));
	if (rule->too_long)
		buf_printf(out, " keys_too_long=%llu", ULL(rule->too_long));
	buf_puts(out, "\n");
}

static void report_guard(const struct tracker_rule *rule, struct buf *out)
{
	double share = rule->writes ? 100.0 * (double)rule->stale / (double)rule->writes : 0;

	buf_printf(out,
	           "observed guard=%s reads=%llu writes=%llu unread_writes=%llu "
	           "stale_writes=%llu lost_updates=%lld",
	           rule->name, ULL(rule->reads), ULL(rule->writes), ULL(rule->unread),
	           ULL(rule->stale), (long long)rule->lost);
	report_gaps(rule, out);
	if (rule->stale)
		buf_printf(out,
		           "observed guard=%s verdict=\"%.1f %% of the writes overwrote what "
		           "their client had not seen; mode = enforce would have prevented "
		           "that\"\n",
		           rule->name, share);
	else
		buf_printf(out, "observed guard=%s verdict=\"no lost update was seen\"\n",
		           rule->name);
}

/* Which `owner` has the connections of the pool as one; NULL: none has all of them. */
static const char *pool_owner(const struct tracker_rule *rule)
{
	if (rule->kin[KIN_VALUE] == rule->pooled)
		return "value";
	if (rule->kin[KIN_NAME] == rule->pooled)
		return "name";
	return rule->kin[KIN_ADDRESS] == rule->pooled ? "address" : NULL;
}

static void report_pool(const struct tracker_rule *rule, struct buf *out)
{
	const char *owner = pool_owner(rule);

	buf_printf(
		out,
		"%llu times another connection released what the holder's had taken, as a pool "
		"does, ",
		ULL(rule->pooled));
	if (rule->by_value && rule->kin[KIN_VALUE] == rule->pooled)
		buf_puts(out, "and had read the value, as owner = value needs; ");
	else if (rule->by_value)
		buf_puts(out, "and not all had read the value: enforcing needs foreign_del = "
		              "allow; ");
	else if (owner)
		buf_printf(out, "which the rule would refuse: first set owner = %s; ", owner);
	else
		buf_puts(out, "which the rule would refuse, and no one owner fits them all; ");
}

static void report_lock(const struct tracker_rule *rule, struct buf *out)
{
	const uint64_t *n = rule->events;
	uint64_t stolen = n[EVENT_DELETED] + n[EVENT_CHANGED];

	buf_printf(out,
	           "observed lock=%s taken=%llu refused=%llu deleted_by_others=%llu "
	           "changed_by_others=%llu outlived_lease=%llu without_expiry=%llu",
	           rule->name, ULL(rule->taken), ULL(rule->refused), ULL(n[EVENT_DELETED]),
	           ULL(n[EVENT_CHANGED]), ULL(n[EVENT_OUTLIVED]), ULL(n[EVENT_NO_EXPIRY]));
	if (rule->expired)
		buf_printf(out, " expired_unreleased=%llu", ULL(rule->expired));
	if (rule->expiry_later)
		buf_printf(out, " expiry_later=%llu expiry_later_max_ms=%.1f",
		           ULL(rule->expiry_later), rule->gap_max * 1000);
	if (rule->pooled)
		buf_printf(
			out,
			" released_in_pool=%llu same_address=%llu same_name=%llu had_read=%llu",
			ULL(rule->pooled), ULL(rule->kin[KIN_ADDRESS]),
			ULL(rule->kin[KIN_NAME]), ULL(rule->kin[KIN_VALUE]));
	report_gaps(rule, out);
	buf_printf(out, "observed lock=%s verdict=\"", rule->name);
	if (rule->pooled)
		report_pool(rule, out);
	if (stolen)
		buf_printf(out,
		           "%llu times somebody else's lock was deleted or changed, which any "
		           "rule prevents; ",
		           ULL(stolen));
	/* An application that deletes what it did not get deletes more often than it takes. */
	if (rule->maybe_pooled && rule->deletes <= rule->taken)
		buf_printf(
			out,
			"%llu of these by a connection like the holder's: if that is a pool, "
			"set owner = address, name or value first; ",
			ULL(rule->maybe_pooled));
	if (n[EVENT_OUTLIVED])
		buf_printf(
			out,
			"%llu times the work took longer than the lock lasted, which renew = "
			"yes prevents; ",
			ULL(n[EVENT_OUTLIVED]));
	if (n[EVENT_NO_EXPIRY])
		buf_printf(out,
		           "%llu times a lock had no expiry when it was taken, and would have "
		           "stayed if its holder had died then; ",
		           ULL(n[EVENT_NO_EXPIRY]));
	if (rule->expired > n[EVENT_OUTLIVED])
		buf_printf(out,
		           "%llu times the next client got a lock that had expired unreleased: "
		           "where "
		           "the work goes on until then, renew = yes prevents that; ",
		           ULL(rule->expired - n[EVENT_OUTLIVED]));
	buf_puts(out, stolen || rule->expired || rule->pooled || n[EVENT_OUTLIVED] ||
	                              n[EVENT_NO_EXPIRY]
	                      ? "see mode = enforce\"\n"
	                      : "nothing wrong was seen\"\n");
}

void tracker_report(struct tracker *t, struct buf *out)
{
	struct list *at;

	for (at = t->rules.next; at != &t->rules; at = at->next) {
		const struct tracker_rule *rule = container_of(at, struct tracker_rule, node);
		if (rule->kind == TRACKER_GUARD)
			report_guard(rule, out);
		else
			report_lock(rule, out);
		report_keys(t, rule, out);
	}
}
