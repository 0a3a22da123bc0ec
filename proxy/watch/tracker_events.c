/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker_events: counts the events that an enforced rule would have prevented, and logs those
 * of observed keys.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "base/quote.h"
#include "watch/tracker_internal.h"

#define KEY_PRINTED_MAX 64 /* bytes of a key that a line shows */
#define LINES_BURST 10 /* most lines in 10 seconds, for each rule and event */

void client_label_set(struct client_label **at, struct client_label *label)
{
	if (label)
		label->refs++;
	if (*at && --(*at)->refs == 0)
		free(*at);
	*at = label;
}

/* The event's name in the log, and the name of the field that names the other client. */
static const struct {
	const char *name;
	const char *role;
} logged[LOGGED_EVENTS] = {
	[SEEN_BARE] = { "lock_without_expiry", NULL },
	[SEEN_DELETED] = { "lock_of_another_deleted", "holder" },
	[SEEN_CHANGED] = { "lock_of_another_changed", "holder" },
	[SEEN_OUTLIVED] = { "lock_outlived_lease", "holder" },
	[LOST_UPDATE] = { "lost_update", "overwritten" },
};

static void note_harm(const struct tracker_act *a, struct key *k, unsigned event,
                      struct client_label *of)
{
	if (!k->harm) {
		k->harm = xcalloc(1, sizeof(*k->harm));
		k->harm->name = slice_dup(a->key);
		a->tracker->used += tracker_cost(sizeof(*k->harm)) + tracker_cost(a->key.n);
	}
	k->harm->n[event]++;
	client_label_set(&k->harm->by, a->client->label);
	client_label_set(&k->harm->of, of);
}

void key_harm_free(struct tracker *d, struct key_harm *harm)
{
	if (!harm)
		return;
	d->used -= tracker_cost(sizeof(*harm)) + tracker_cost(harm->name.n);
	client_label_set(&harm->by, NULL);
	client_label_set(&harm->of, NULL);
	free((char *)harm->name.p);
	free(harm);
}

void seen_put_key(struct buf *out, struct slice key)
{
	struct quoted q = { "" };

	buf_puts(out, quote(&q, key, KEY_PRINTED_MAX));
}

void seen_event(const struct tracker_act *a, struct key *k, unsigned event,
                struct client_label *of, const char *more)
{
	struct observed_rule *rule = k->group->rule;
	uint32_t suppressed;

	if (event < SEEN_LOGGED)
		k->group->lock->n[event]++;
	if (!rule)
		return;
	note_harm(a, k, event, of);
	if (!log_limit_pass(&rule->limits[event], a->now, LINES_BURST, &suppressed))
		return;
	buf_printf(a->told, "%s mode=observe %s=%s key=", logged[event].name,
	           rule->kind == OBSERVED_GUARD ? "guard" : "lock", rule->name);
	seen_put_key(a->told, a->key);
	buf_printf(a->told, " by=%s", QUOTE_STR(a->client->label->text));
	if (logged[event].role && of)
		buf_printf(a->told, " %s=%s", logged[event].role, QUOTE_STR(of->text));
	buf_printf(a->told, " suppressed=%u%s\n", suppressed, more);
}

void tracker_each_observed(const struct tracker *t, observed_fn *fn, void *arg)
{
	list_each (struct observed_rule, r, &t->rules, node) {
		const struct guard_sums *g = r->group.guard;
		const struct lock_sums *l = r->group.lock;

		if (r->kind == OBSERVED_GUARD) {
			fn(arg, "guard", r->name, logged[LOST_UPDATE].name,
			   g->stale + g->stale_under_lock + g->stale_near_lock);
			continue;
		}
		for (size_t e = 0; e < SEEN_LOGGED; e++)
			fn(arg, "lock", r->name, logged[e].name, l->n[e]);
		fn(arg, "lock", r->name, "lock_lost", l->n[SEEN_LOST]);
	}
}
