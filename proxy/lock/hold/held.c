/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/hold/held.h"

#include "lock/hold/hold_internal.h"

static struct held held_of(const struct hold *hold)
{
	return (struct held){
		.db = lock_id_db(hold->by_id.key),
		.key = lock_id_key(hold->by_id.key),
		.token = hold_token(hold),
		.kind = hold->kind,
		.owner = hold->owner,
		.stats = hold->stats,
		.fence = layout_of(hold->kind)->by_verb ? hold->fence : 0,
		.since = hold->since,
		.learnt_at = hold->learnt_at,
		.good_until = hold->good_until,
		.lease_ms = hold->lease_ms,
		.renewed = hold_is_renewed(hold),
	};
}

bool held_find(struct holds *h, int db, struct slice key, struct slice token, long long fence,
               double other_at, struct held *out)
{
	const struct hold *found = NULL;

	for (const struct hold *hold = hold_first(h, db, key); hold; hold = hold_next(hold)) {
		bool is_own = slice_eq(hold_token(hold), token);
		bool fits = other_at > 0 ? !is_own && hold->since <= other_at &&
		                                   hold->good_until > other_at
		                         : is_own && (!fence || hold->fence == fence);

		if (fits && (!found || hold->learnt_at > found->learnt_at))
			found = hold;
	}
	if (found)
		*out = held_of(found);
	return found;
}

bool held_longest(struct holds *h, held_longest_fn *fn, void *arg)
{
	list_each (const struct hold, hold, &h->by_age, by_age) {
		const struct held held = held_of(hold);

		if (!fn(arg, &held))
			return false;
	}
	return true;
}

size_t held_count(const struct holds *h)
{
	return h->ncounted;
}

struct held_walk_arg {
	held_fn *fn;
	void *arg;
};

static void walk_hold(void *arg, struct map_node *node)
{
	const struct held_walk_arg *w = arg;
	const struct held held = held_of(container_of(node, struct hold, by_id));

	w->fn(w->arg, &held);
}

uint64_t held_walk(struct holds *h, uint64_t cursor, held_fn *fn, void *arg)
{
	struct held_walk_arg w = { fn, arg };

	return map_scan(&h->by_id, cursor, walk_hold, &w);
}
