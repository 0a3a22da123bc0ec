/* SPDX-License-Identifier: BSD-3-Clause
 *
 * voted_holds: holds of locks that the servers of a quorum have granted. They are in the table
 * of holds with LOCK_DB_QUORUM in place of a database. hasp renews each hold by a call of its
 * own. If no majority agrees, hasp repeats the renewal until the lease is over.
 */
#include "lock/hold/hold_internal.h"

#include <math.h>
#include <stdlib.h>

/* hasp renews each third of the lease, and repeats a failed renewal after a tenth of it. */
#define RENEWALS_PER_LEASE 3
#define RETRIES_PER_LEASE 10

struct voted_renewal {
	struct hold *hold; /* NULL: the hold has ended */
};

void holds_set_voters(struct holds *h, const struct voters *voters)
{
	h->voters = *voters;
}

struct lock_request *lock_request_voted(struct holds *h, const struct lock_call *call,
                                        const struct hold_terms *terms)
{
	struct lock_request *p = lock_request_new(h, call, &call->key, 1, terms);

	p->kind = LOCK_KIND_QUORUM;
	p->closes = h->voters.closes;
	return p;
}

/* --- the table ---------------------------------------------------------------------------- */

struct hold *voted_find(struct holds *h, const struct hold_owner *o, struct slice key,
                        struct slice token)
{
	struct hold *hold = o->n ? hold_find(h, o, true, LOCK_DB_QUORUM, key, token) : NULL;

	return hold && (!token.n || slice_eq(hold_token(hold), token)) ? hold : NULL;
}

int64_t voted_lease_ms(const struct hold *hold)
{
	return hold->lease_ms;
}

long long voted_fence(const struct hold *hold)
{
	return hold->fence;
}

void voted_end(struct holds *h, struct slice key, struct slice value)
{
	struct hold *hold = hold_first(h, LOCK_DB_QUORUM, key);

	while (hold && !slice_eq(voted_value(hold), value))
		hold = hold_next(hold);
	if (hold)
		hold_free(hold);
}

/* --- renewal ------------------------------------------------------------------------------ */

static void voted_on_timer(struct timer *t, double now);

static void voted_await(struct hold *hold, double at)
{
	timer_start(hold_table(hold)->timers, &hold->timer, voted_on_timer,
	            at < hold->good_until ? at : hold->good_until, 0);
}

static void voted_lost(struct hold *hold, const char *reason)
{
	renewal_lost(hold, reason);
	hold_release_voted(hold);
	hold_free(hold);
}

static void voted_keep(struct hold *hold, double began, bool renewed)
{
	enum hold_state state = renewed ? HOLD_RENEWED : HOLD_LEASED;

	if (hold->state != state)
		renewal_set_state(hold, state);
	voted_await(hold, renewed ? began + (double)hold->lease_ms / 1000 / RENEWALS_PER_LEASE
	                          : INFINITY);
}

static void voted_renew(struct hold *hold)
{
	const struct voters *v = &hold_table(hold)->voters;
	struct voted_renewal *r = xmalloc(sizeof(*r));

	renewal_set_state(hold, HOLD_IN_BATCH);
	r->hold = hold;
	hold->batch_slot = &r->hold;
	voted_await(hold, INFINITY);
	v->renew(v->arg, lock_id_key(hold->by_id.key), voted_value(hold), hold->lease_ms, r);
}

bool voted_renewal_end(struct voted_renewal *r, enum vote vote, double began, double good_until)
{
	struct hold *hold = r->hold;
	double now;

	free(r);
	if (!hold)
		return false;
	now = timers_now(hold_table(hold)->timers);
	renewal_set_state(hold, HOLD_RENEWED);
	if (now >= hold->good_until) {
		voted_lost(hold, "no majority renewed it in time");
	} else if (vote == VOTE_NO) {
		voted_lost(hold, "a majority of the servers does not have it any more");
	} else if (vote == VOTE_YES) {
		stats_add(hold->stats, STAT_RENEWED);
		if (good_until > hold->good_until)
			hold->good_until = good_until;
		voted_keep(hold, began, true);
		return true;
	} else {
		voted_await(hold, now + (double)hold->lease_ms / 1000 / RETRIES_PER_LEASE);
	}
	return false;
}

static void voted_on_timer(struct timer *t, double now)
{
	struct hold *hold = container_of(t, struct hold, timer);

	if (now >= hold->good_until && hold_is_renewed(hold))
		voted_lost(hold, "no majority renewed it in time");
	else if (now >= hold->good_until)
		hold_free(hold);
	else if (hold->hold_until > 0 && now >= hold->hold_until)
		voted_keep(hold, now, false);
	else
		voted_renew(hold);
}

/* --- answers ------------------------------------------------------------------------------ */

/* Ends the connection's earlier hold of the key. The servers have granted the lock again, so
 * the earlier hold was lost, or another connection has released the lock. */
static void voted_end_earlier(struct holds *h, const struct hold_owner *o, struct slice key)
{
	struct hold *hold;

	while ((hold = voted_find(h, o, key, SLICE_NONE))) {
		hold_release_voted(hold);
		hold_free(hold);
	}
}

static void voted_add(struct holds *h, struct hold_owner *o, const struct lock_request *p,
                      const struct voted_lock *v)
{
	struct slice key = p->keys[0];
	struct hold *hold;
	uint64_t hash;

	voted_end_earlier(h, o, key);
	(void)hold_first_hashed(h, LOCK_DB_QUORUM, key, &hash);
	hold = hold_new(h, o, p, key, LOCK_DB_QUORUM, hash);
	hold_set_value(hold, v->value);
	hold->fence = v->fence;
	hold->lease_ms = p->lease_ms;
	hold->since = hold->learnt_at = timers_now(h->timers);
	hold->good_until = v->good_until;
	if (p->max_hold_ms)
		hold->hold_until = v->began + (double)p->max_hold_ms / 1000;
	hold_events_count(hold, true);
	voted_keep(hold, v->began,
	           p->renew == RENEW_YES || (p->renew == RENEW_UNLEASED && !p->leased));
}

void voted_apply(struct holds *h, struct hold_owner *o, struct lock_request *p,
                 const struct voted_lock *v)
{
	static const struct resp_reply nothing = { .type = '_', .nil = true };
	double waited = v->waited ? timers_now(h->timers) - p->sent_at : 0;

	if (!v->won) {
		lock_request_has_waited(p, waited, false);
		refusals_tell(h, o, p, LOCK_DB_QUORUM, &nothing);
	} else {
		if (v->waited) {
			refusals_waits(p, LOCK_DB_QUORUM);
			refusals_waited(p, o, LOCK_DB_QUORUM, waited, WAIT_GRANTED);
		}
		stats_add(p->stats, STAT_ACQUIRED);
		voted_add(h, o, p, v);
	}
	lock_request_free(p);
}

void voted_extend(struct hold *hold, double began, double good_until, int64_t lease_ms)
{
	/* Ignore the answer to a renewal that is under way. */
	if (hold->state == HOLD_IN_BATCH) {
		*hold->batch_slot = NULL;
		renewal_set_state(hold, HOLD_RENEWED);
	}
	if (good_until > hold->good_until)
		hold->good_until = good_until;
	if (lease_ms > hold->lease_ms)
		hold->lease_ms = lease_ms;
	voted_keep(hold, began, hold->renew == RENEW_YES && hold_is_renewed(hold));
}
