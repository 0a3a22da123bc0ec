/* SPDX-License-Identifier: BSD-3-Clause
 *
 * observe: writes the report on the rules and guards in mode OBSERVE.
 *
 * For a guard, observe reports two numbers: stale writes and lost updates. A write is stale if
 * its client read the key before another client's last write. An update is lost if it is not in
 * the chain of writes that led to the stored value; each write follows from the value that its
 * client had read. If the application counts, its sum is short by the number of lost updates.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "base/quote.h"
#include "watch/tracker_internal.h"

#define KEYS_REPORTED 10 /* most keys that are reported for a rule */
#define ULL(n) ((unsigned long long)(n))

/* --- the keys of a report ----------------------------------------------------------------- */

static uint64_t harm_done(const struct key_harm *h)
{
	uint64_t sum = 0;

	for (size_t e = 0; e < LOGGED_EVENTS; e++)
		sum += h->n[e];
	return sum;
}

/* Sorts the most harmed keys first. */
static int compare_harm(const void *a, const void *b)
{
	const struct key_harm *x = (*(const struct key *const *)a)->harm;
	const struct key_harm *y = (*(const struct key *const *)b)->harm;

	if (x->lost != y->lost)
		return x->lost < y->lost ? 1 : -1;
	if (harm_done(x) != harm_done(y))
		return harm_done(x) < harm_done(y) ? 1 : -1;
	return 0;
}

static void report_key(const struct key *k, struct buf *out)
{
	const struct key_harm *h = k->harm;
	const struct observed_rule *rule = k->group->rule;
	bool is_guard = rule->kind == OBSERVED_GUARD;

	buf_printf(out, "observed %s=%s key=", is_guard ? "guard" : "lock", rule->name);
	seen_put_key(out, h->name);
	if (is_guard)
		buf_printf(out, " lost_updates=%lld stale_writes=%llu writes=%llu",
		           (long long)h->lost, ULL(h->n[LOST_UPDATE]), ULL(k->writes));
	else
		buf_printf(out,
		           " deleted_by_others=%llu changed_by_others=%llu "
		           "outlived_lease=%llu without_expiry=%llu",
		           ULL(h->n[SEEN_DELETED]), ULL(h->n[SEEN_CHANGED]),
		           ULL(h->n[SEEN_OUTLIVED]), ULL(h->n[SEEN_BARE]));
	buf_printf(out, " last_by=%s", QUOTE_STR(h->by->text));
	if (h->of)
		buf_printf(out, " %s=%s", is_guard ? "overwritten" : "holder",
		           QUOTE_STR(h->of->text));
	buf_puts(out, "\n");
}

static void report_keys(const struct observed_rule *rule, struct buf *out)
{
	const struct list *keys = &rule->group.keys;
	const struct key **harmed = xcalloc(rule->group.nkeys + 1, sizeof(const struct key *));
	size_t n = 0;

	list_each (struct key, k, keys, in_group) {
		if (k->harm)
			harmed[n++] = k;
	}
	qsort(harmed, n, sizeof(const struct key *), compare_harm);
	for (size_t i = 0; i < n && i < KEYS_REPORTED; i++)
		report_key(harmed[i], out);
	if (n > KEYS_REPORTED)
		buf_printf(out, "observed %s=%s more_keys=%zu\n",
		           rule->kind == OBSERVED_GUARD ? "guard" : "lock", rule->name,
		           n - KEYS_REPORTED);
	free(harmed);
}

/* Writes how many keys there were, and how many commands on keys that hasp did not follow. */
static void report_gaps(const struct key_group *group, struct buf *out)
{
	buf_printf(out, " keys=%llu", ULL(group->nkeys) << group->shift);
	if (group->passed_over)
		buf_printf(out, " not_followed=%llu", ULL(group->passed_over));
	buf_puts(out, "\n");
}

/* --- guards ------------------------------------------------------------------------------- */

static void report_guard(const struct observed_rule *rule, struct buf *out)
{
	const struct key_group *group = &rule->group;
	const struct guard_sums *g = group->guard;
	uint64_t stale = g->stale + g->stale_under_lock + g->stale_near_lock;

	buf_printf(out,
	           "observed guard=%s reads=%llu writes=%llu unread_writes=%llu "
	           "stale_writes=%llu lost_updates=%lld",
	           rule->name, ULL(group->nread), ULL(group->nwritten),
	           ULL(group->nwritten - g->written_back), ULL(stale), (long long)g->lost);
	report_gaps(group, out);
	if (stale)
		buf_printf(out,
		           "observed guard=%s verdict=\"%.1f %% of the writes overwrote what "
		           "their client had not seen; mode = enforce would have prevented "
		           "that\"\n",
		           rule->name, 100.0 * (double)stale / (double)group->nwritten);
	else
		buf_printf(out, "observed guard=%s verdict=\"no lost update was seen\"\n",
		           rule->name);
}

/* --- locks -------------------------------------------------------------------------------- */

static void report_pool(const struct observed_rule *rule, const struct lock_sums *l,
                        const struct lock_verdict *v, struct buf *out)
{
	if (l->n[SEEN_POOLED] == 0 && !v->owner_open) {
		buf_printf(out,
		           "%llu deletions came from a connection like the holder's: if these "
		           "connections are one pool, set owner = %s first; ",
		           ULL(v->hopped), v->owner);
		return;
	}
	buf_printf(out,
	           "%llu times another connection released a lock that the holder's connection "
	           "had taken, as a pool does, ",
	           ULL(v->hopped));
	if (rule->by_value && l->n[SEEN_FOREIGN_VALUE] == l->n[SEEN_FOREIGN])
		buf_puts(out, "and had read the value, as owner = value needs; ");
	else if (rule->by_value)
		buf_puts(out, "and not all had read the value: enforcing needs foreign_del = "
		              "allow; ");
	else if (v->owner_open)
		buf_puts(out, "which the rule would refuse, and no value of owner fits all of "
		              "them; ");
	else
		buf_printf(out, "which the rule would refuse: first set owner = %s; ",
		           v->owner);
}

static void report_times(uint64_t n, const char *what, struct buf *out)
{
	if (n)
		buf_printf(out, "%llu times %s; ", ULL(n), what);
}

/* Writes the same verdict as discovery, as advice on the rule's options. */
static void report_verdict(const struct observed_rule *rule, const struct lock_sums *l,
                           struct buf *out)
{
	struct lock_verdict v = lock_verdict(l);
	size_t before;

	buf_printf(out, "observed lock=%s verdict=\"", rule->name);
	before = buf_len(out);
	if (v.hopped)
		report_pool(rule, l, &v, out);
	report_times(v.stolen + l->n[SEEN_CHANGED],
	             "another client's lock was deleted or changed, which any rule prevents",
	             out);
	report_times(l->n[SEEN_OUTLASTED],
	             "a lock was released after the connection that took it had closed, which "
	             "needs on_disconnect = expire and an owner that both have in common",
	             out);
	report_times(l->n[SEEN_EXTENDED] - (rule->by_value ? l->n[SEEN_EXTENDED_VALUE] : 0),
	             rule->by_value ? "a connection that had not read the value set the expiry "
	                              "of a lock: enforcing needs foreign_del = allow"
	                            : "another connection set the expiry of a lock, which the "
	                              "rule would refuse: if it works for the holder, first "
	                              "set an owner that both have in common",
	             out);
	report_times(v.late,
	             "the work took longer than the lock lasted, which renew = yes prevents",
	             out);
	report_times(l->n[SEEN_BARE],
	             "a lock had no expiry when it was taken, and would have stayed if its "
	             "holder had died then",
	             out);
	report_times(v.unreleased,
	             "a lock expired unreleased, although its connection stayed open: if the "
	             "holder was still at work, renew = yes prevents that",
	             out);
	report_times(l->n[SEEN_LOST],
	             "a holder found its lock gone before its expiry: a client or script that "
	             "hasp does not see deleted it",
	             out);
	buf_puts(out, buf_len(out) > before ? "see mode = enforce\"\n"
	                                    : "nothing wrong was seen\"\n");
}

static void report_lock(const struct observed_rule *rule, double now, struct buf *out)
{
	struct lock_sums l = *rule->group.lock;

	tracker_add_open_holds(&l, &rule->group, now);
	buf_printf(out,
	           "observed lock=%s taken=%llu refused=%llu deleted_by_others=%llu "
	           "changed_by_others=%llu outlived_lease=%llu without_expiry=%llu",
	           rule->name, ULL(lock_taken(&l)), ULL(lock_tries(&l)), ULL(l.n[SEEN_DELETED]),
	           ULL(l.n[SEEN_CHANGED]), ULL(l.n[SEEN_OUTLIVED]), ULL(l.n[SEEN_BARE]));
	if (l.n[SEEN_EXPIRED])
		buf_printf(out, " expired_unreleased=%llu", ULL(l.n[SEEN_EXPIRED]));
	if (l.n[SEEN_EXPIRY_LATER])
		buf_printf(out, " expiry_later=%llu expiry_later_max_ms=%.1f",
		           ULL(l.n[SEEN_EXPIRY_LATER]), l.expiry_later_longest * 1000);
	if (l.n[SEEN_POOLED])
		buf_printf(
			out,
			" released_in_pool=%llu same_address=%llu same_name=%llu had_read=%llu",
			ULL(l.n[SEEN_POOLED]), ULL(l.n[SEEN_FOREIGN_ADDRESS]),
			ULL(l.n[SEEN_FOREIGN_NAME]), ULL(l.n[SEEN_FOREIGN_VALUE]));
	report_gaps(&rule->group, out);
	report_verdict(rule, &l, out);
}

void observe_report(struct tracker *t, double now, struct buf *out)
{
	list_each (struct observed_rule, rule, &t->rules, node) {
		if (rule->kind == OBSERVED_GUARD)
			report_guard(rule, out);
		else
			report_lock(rule, now, out);
		report_keys(rule, out);
	}
}
