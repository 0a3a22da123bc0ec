/* SPDX-License-Identifier: BSD-3-Clause
 *
 * apply: changes the holds after the reply to a call that took a lock, set its expiry, or gave
 * it up.
 */
#include "lock/hold/hold_internal.h"

#include <math.h>

/* If a connection has this many holds, hasp forgets an old one that it neither renews nor
 * releases. (Without this limit, such a hold would stay until the connection ends.) */
#define REMEMBERED_MAX 1024
/* How many holds hasp checks, each time that a lock is taken, to find one to forget. */
#define FORGET_TRIES 32

/* True if hasp only remembers the hold, and neither renews nor releases it. */
static bool is_only_remembered(const struct hold *hold)
{
	const struct lock_layout *layout = layout_of(hold->kind);

	return !hold_is_renewed(hold) && !layout->voted && (layout->by_value || !hold->release);
}

/* If the connection has REMEMBERED_MAX holds, forgets an old one that hasp only remembers. */
static void forget_oldest(struct hold_owner *o)
{
	for (int left = FORGET_TRIES; left && o->n >= REMEMBERED_MAX; left--) {
		struct hold *hold = container_of(o->holds.next, struct hold, node);
		if (is_only_remembered(hold)) {
			hold_free(hold);
			return;
		}
		list_move(&o->holds, &hold->node);
	}
}

/* True if the hold stays when `p` takes the same lock. One owner can have both sides of a
 * read-write lock. Several owners can share that lock, or have a place each in a semaphore. */
static bool holds_other_side(const struct hold *hold, const struct lock_request *p)
{
	const struct lock_layout *had = layout_of(hold->kind), *taken = layout_of(p->kind);

	if (!had->has_owners || !taken->has_owners || had->side != taken->side)
		return false;
	if (hold_has_token(hold, p))
		return hold->kind != p->kind;
	return hold->kind == p->kind && p->kind != LOCK_KIND_EXCLUSIVE;
}

/* Copies to *was the lease of a hold that ends because its owner has taken the lock again. If
 * several holds end, copies the lease that ends last. Also copies the latest fencing token, and
 * when hasp first read it. */
static void remember_lease(const struct hold *hold, struct hold_lease *was)
{
	if (hold->fence > was->fence ||
	    (hold->fence == was->fence && hold->fenced_at < was->fenced_at)) {
		was->fence = hold->fence;
		was->fenced_at = hold->fenced_at;
	}
	if (hold->good_until <= was->good_until)
		return;
	was->good_until = hold->good_until;
	was->lease_ms = hold->lease_ms;
	was->leased = hold->leased;
	was->renewed = hold_is_renewed(hold);
	was->renewing = renewal_is_under_way(hold);
}

/* Another owner has the lock now: reports the lock as lost if hasp should have kept it. */
static void tell_former_owner(const struct hold *hold, const struct hold_owner *o)
{
	if (hold->owner != o && hold_is_renewed(hold) && !renewal_may_be_released(hold))
		renewal_lost(hold, "another owner has it");
}

/* The servers of a quorum have granted the lock again: the connection's earlier hold was lost,
 * or another connection has released the lock. (Other connections' holds end when hasp next
 * renews them.) */
static void supersede_voted(struct hold *hold, const struct hold_owner *o)
{
	if (hold->owner != o)
		return;
	hold_release_voted(hold);
	hold_free(hold);
}

/* Ends the holds of the former owner of a lock that was acquired. (In a layout that counts,
 * connections with the same token keep their holds; in a semaphore, other owners do, too.)
 * Returns the connection's own hold if that stays. Writes to *was the lease that the owner had
 * before. If this connection already had the lock, was->since is when it got the lock, and
 * `place` keeps its hold's place in the order of age. Writes *hash, for hold_new(). */
static struct hold *apply_supersede(struct holds *h, const struct hold_owner *o,
                                    const struct lock_request *p, struct slice key, int db,
                                    struct hold_lease *was, struct list *place, uint64_t *hash)
{
	struct hold *next = hold_first_hashed(h, db, key, hash), *own = NULL, *hold;

	*was = (struct hold_lease){ 0 };
	while ((hold = next)) {
		bool same, good = hold->good_until > p->sent_at;
		next = hold_next(hold);
		if (layout_of(p->kind)->voted) {
			supersede_voted(hold, o);
			continue;
		}
		if (layout_of(p->kind)->by_value && hold->owner != o)
			continue;
		if (holds_other_side(hold, p))
			continue;
		same = hold_has_token(hold, p);
		if (good && (same || layout_of(p->kind)->by_value))
			remember_lease(hold, was);
		if (hold->owner == o && good && same) {
			was->since = hold->since;
			list_remove(place);
			if (hold->counted)
				list_append(&hold->by_age, place);
			/* The owner still has the lock, so hasp counts no end of this hold. */
			hold_events_count_at(hold, NULL);
		}
		if (!same)
			tell_former_owner(hold, o);
		if (!layout_of(p->kind)->counts || !same)
			hold_free(hold);
		else if (hold->owner == o)
			own = hold;
	}
	return own;
}

/* Forgets the value that the connection has read before: the value that it has stored counts
 * now. (If the stored value is too long to remember, the connection may release any value.) */
static void apply_stored(struct hold_owner *o, const struct lock_request *p, int db)
{
	seen_values_put(&o->seen, db, p->keys[0],
	                lock_request_begins_hold(p) ? SEEN_NOTHING : SEEN_ANY, SLICE_NONE);
}

void hold_assume_stored(struct hold_owner *o, const struct lock_request *p, int db)
{
	if (p && db >= 0 && effect_terms[p->effect].stores)
		seen_values_put(&o->seen, db, p->keys[0], SEEN_VALUE, token_slice(p->token));
}

/* True for SET ... KEEPTTL. */
static bool keeps_expiry(const struct lock_request *p)
{
	return p->leased && p->ends_ms == 0;
}

static void apply_taken(struct holds *h, struct hold_owner *o, const struct lock_request *p,
                        struct slice key, int db, const struct resp_reply *r, double now)
{
	struct hold_lease was;
	struct list place = { &place, &place };
	uint64_t hash;
	struct hold *hold = apply_supersede(h, o, p, key, db, &was, &place, &hash);
	double until = p->sent_at + (double)p->lease_ms / 1000;
	bool goes_on = hold && p->leased &&
	               (hold_is_renewed(hold) || hold->good_until >= until);

	if (was.since <= 0)
		stats_add(p->stats, STAT_ACQUIRED);
	if (layout_of(p->kind)->by_value)
		apply_stored(o, p, db);
	if (lock_request_begins_hold(p) && !hold) {
		forget_oldest(o);
		hold = hold_new(h, o, p, key, db, hash);
		if (!list_empty(&place))
			list_append(&place, &hold->by_age);
	}
	list_remove(&place);
	if (!hold)
		return;
	hold_events_count_at(hold, p->stats);
	if (was.since > 0)
		hold->since = was.since;
	hold->release |= p->release;
	hold->closes = p->closes;
	hold->learnt_at = now;
	hold->fence = r->type == ':' ? r->integer : 0;
	hold->fenced_at = hold->fence == was.fence ? was.fenced_at : now;
	if (p->max_hold_ms)
		hold->hold_until = p->sent_at + (double)p->max_hold_ms / 1000;
	if (layout_of(p->kind)->voted)
		hold_set_value(hold, p->ticket);
	else
		hold_add_ticket(hold, p->ticket);
	/* An owner that takes its lock again does not make the hold end earlier. */
	if (goes_on)
		return;
	hold->slack = (float)(now - p->sent_at);
	if (keeps_expiry(p) && was.good_until > 0) {
		renewal_keep(hold, &was);
		return;
	}
	hold->good_until = was.good_until;
	hold->leased = was.leased;
	renewal_begin(hold, p, p->leased, was.renewing);
}

/* Stops renewing other connections' holds if the lock ends earlier now. (Under owner = value, a
 * pool may take the lock by one connection, and set its expiry by another.) */
static void shorten_others(struct holds *h, const struct hold_owner *o,
                           const struct lock_request *p, int db)
{
	struct hold *hold = hold_first(h, db, p->keys[0]);

	for (; hold; hold = hold_next(hold))
		if (hold->owner != o && layout_of(hold->kind)->by_value &&
		    hold_is_renewed(hold) && renewal_is_shortened(hold, p))
			renewal_begin(hold, p, true, renewal_is_under_way(hold));
}

static void apply_expiry(struct holds *h, struct hold_owner *o, const struct lock_request *p,
                         int db)
{
	struct hold *hold = hold_find(h, o, layout_of(p->kind)->by_value, db, p->keys[0],
	                              token_slice(p->token)),
		    *other;

	if (layout_of(p->kind)->by_value)
		shorten_others(h, o, p, db);
	if (!hold)
		return;
	renewal_begin(hold, p, true, renewal_is_under_way(hold));
	if (hold->kind != LOCK_KIND_EXCLUSIVE)
		return;
	/* The owner's read side gets the new lease, too. */
	for (other = hold_first(h, db, p->keys[0]); other; other = hold_next(other))
		if (other->owner == hold->owner && other->kind == LOCK_KIND_SHARED &&
		    slice_eq(hold_token(other), hold_token(hold)))
			renewal_begin(other, p, true, renewal_is_under_way(other));
}

/* True if `p` can have ended the hold. False if another connection got the hold after `p` was
 * sent: Redis may have handed the lock off to that connection, and hasp may have read that
 * before the answer to `p`. (A connection's own requests wait for one another.) */
static bool may_end(const struct hold *hold, const struct hold_owner *o,
                    const struct lock_request *p)
{
	return hold->owner == o || hold->learnt_at <= p->sent_at;
}

/* A lock with owner = value is gone: ends the holds of all connections, also of the one that
 * stored the value. That connection's next DEL is for a later lock. */
static void apply_gone(struct holds *h, const struct hold_owner *o,
                       const struct lock_request *p, int db)
{
	struct hold *next = hold_first(h, db, p->keys[0]), *hold;

	while ((hold = next)) {
		next = hold_next(hold);
		if (!layout_of(hold->kind)->by_value || !may_end(hold, o, p))
			continue;
		/* The released lock had the value p->token: a hold of another value was lost
		 * before. */
		if (p->token->n && !hold_has_token(hold, p))
			tell_former_owner(hold, o);
		hold_free(hold);
	}
}

/* Ends the holds of the keys of `p`. (If Redis has deleted only some of the keys, hasp stops
 * renewing all of them, and the remaining locks end with their leases.) */
static void apply_dropped(struct holds *h, struct hold_owner *o, const struct lock_request *p,
                          int db)
{
	for (size_t i = 0; i < p->nkeys; i++) {
		struct hold *hold = hold_find(h, o, layout_of(p->kind)->by_value, db,
		                              p->keys[i], token_slice(p->token));
		/* Another owner may have this key. */
		if (!hold || (!layout_of(p->kind)->by_value && !hold_has_token(hold, p)) ||
		    !may_end(hold, o, p))
			continue;
		/* This table lacks the holds of other workers: the next renewal shows whether
		 * another connection's last hold is gone. */
		if (layout_of(hold->kind)->counts &&
		    (layout_of(p->kind)->counts || layout_of(hold->kind)->side) &&
		    hold->owner != o && hold->count == 1)
			continue;
		hold_remove_ticket(hold);
		if (hold->count == 0)
			hold_free(hold);
	}
	if (layout_of(p->kind)->by_value && p->single_key)
		apply_gone(h, o, p, db);
}

/* True if Redis has answered that the owner `p->token` has none of the locks. */
static bool has_none(const struct lock_request *p, const struct resp_reply *r)
{
	if (r->type != ':' || r->integer != 0)
		return false;
	return p->script == SCRIPT_UNLOCK || p->script == SCRIPT_MUNLOCK ||
	       p->script == SCRIPT_EXTEND ||
	       (p->script == SCRIPT_DEL && p->nkeys == 1 && !layout_of(p->kind)->by_value);
}

/* Ends the connection's own holds of locks that Redis no longer has, for example after a loss
 * of data. If a hold stayed, and another connection of this owner took the lock, this
 * connection would never wait for that lock. */
static void apply_none(struct holds *h, const struct hold_owner *o,
                       const struct lock_request *p, int db)
{
	for (size_t i = 0; i < p->nkeys; i++) {
		struct hold *next = hold_first(h, db, p->keys[i]), *hold;
		while ((hold = next)) {
			next = hold_next(hold);
			if (hold->owner == o && hold_has_token(hold, p))
				renewal_gone(hold, p->state == LOCK_REQUEST_REFUSED,
				             hold_is_renewed(hold));
		}
	}
}

static void apply_failure(struct holds *h, const struct hold_owner *o,
                          const struct lock_request *p, int db, const struct resp_reply *r)
{
	refusals_tell(h, o, p, db, r);
	if (has_none(p, r))
		apply_none(h, o, p, db);
}

/* Counts the released keys: each key of an MUNLOCK; one for any other command. */
static void count_released(const struct lock_request *p, const struct resp_reply *r)
{
	size_t n = 1;

	if (p->script == SCRIPT_MUNLOCK)
		n = r->integer < (long long)p->nkeys ? (size_t)r->integer : p->nkeys;
	while (n-- > 0)
		stats_add(p->stats, STAT_RELEASED);
}

/* Changes the holds after a call that has succeeded. */
static void apply_success(struct holds *h, struct hold_owner *o, const struct lock_request *p,
                          int db, const struct resp_reply *r)
{
	double now;

	switch (p->effect) {
	case LOCK_EFFECT_TAKES:
		/* (Only MLOCK takes several locks by one request.) */
		now = timers_now(h->timers);
		for (size_t i = 0; i < p->nkeys; i++)
			apply_taken(h, o, p, p->keys[i], db, r, now);
		break;
	case LOCK_EFFECT_COUNTS:
		stats_add(p->stats, STAT_ACQUIRED);
		seen_values_put(&o->seen, db, p->keys[0], SEEN_ANY, SLICE_NONE);
		break;
	case LOCK_EFFECT_EXPIRES:
		apply_expiry(h, o, p, db);
		break;
	case LOCK_EFFECT_DROPS:
		count_released(p, r);
		if (p->state == LOCK_REQUEST_REFUSED || p->state == LOCK_REQUEST_LOCKED)
			refusals_tell(h, o, p, db, r);
		apply_dropped(h, o, p, db);
		break;
	case LOCK_EFFECT_STORES: /* see hold_apply() */
	case LOCK_EFFECT_NONE:
		break;
	}
}

/* True if the expiry that was read after a script may be from hasp's own renewal of the hold:
 * Redis may run a renewal between the script and the reads. (For a lock without an expiry,
 * `good_until` is infinite before the first renewal.) */
static bool may_be_renewed_by_hasp(const struct hold *hold, const struct lock_request *p)
{
	double until = p->sent_at + (double)p->lease_ms / 1000;

	if (renewal_is_under_way(hold))
		return p->moved == EXPIRY_LATER || isinf(hold->good_until);
	return (p->moved == EXPIRY_LATER ||
	        (p->moved == EXPIRY_ADDED && isfinite(hold->good_until))) &&
	       until <= hold->good_until;
}

/* A script has changed the lock's expiry, but not its value: begins the new lease. */
static void apply_read_expiry(struct holds *h, const struct lock_request *p, int db)
{
	struct hold *hold = hold_first(h, db, p->keys[0]);

	for (; hold; hold = hold_next(hold))
		if (layout_of(hold->kind)->by_value && hold_has_token(hold, p) &&
		    !may_be_renewed_by_hasp(hold, p))
			renewal_begin(hold, p, true, renewal_is_under_way(hold));
}

/* Removes the script from the board of releases: it has not released the lock. */
static void forget_release(const struct holds *h, const struct lock_request *p, int db)
{
	if (!h->releases)
		return;
	release_board_forget(h->releases, db, p->keys[0], token_slice(p->token), p->sent_at);
	release_board_forget(h->releases, db, p->keys[0], SLICE_NONE, p->sent_at);
}

/* Handles the replies to a client's own script and to the reads of its lock. `pttl`: the last
 * reply. */
static void apply_followed(struct holds *h, struct hold_owner *o, struct lock_request *p,
                           int db, const struct resp_reply *pttl)
{
	static const struct resp_reply no_fence = { 0 };

	followed_script_end(p, pttl, (timers_now(h->timers) - p->sent_at) * 1000);
	/* (If the lock exists, p->token is its value.) */
	if (p->effect != LOCK_EFFECT_DROPS && p->token->n)
		forget_release(h, p, db);
	if (p->effect == LOCK_EFFECT_EXPIRES)
		apply_read_expiry(h, p, db);
	else
		apply_success(h, o, p, db, &no_fence);
}

void hold_apply(struct holds *h, struct hold_owner *o, struct lock_request *p, int db,
                const struct resp_reply *r)
{
	if (db >= 0 && p->followed) {
		apply_followed(h, o, p, db, r);
	} else if (db >= 0 && !rewrite_is_success(p->success, r)) {
		apply_failure(h, o, p, db, r);
	} else if (db >= 0 && p->effect == LOCK_EFFECT_STORES) {
		/* The lock was not free, but has the client's value now, as if just taken. */
		p->effect = LOCK_EFFECT_TAKES;
		forget_release(h, p, db);
		apply_success(h, o, p, db, r);
	} else if (db >= 0) {
		for (const struct lock_request *at = p; at; at = at->next)
			apply_success(h, o, at, db, r);
	}
	lock_request_free(p);
}

void hold_apply_voted(struct holds *h, struct hold_owner *o, struct lock_request *p,
                      const struct voted_lock *v)
{
	const struct resp_reply reply = { .type = v->fence ? ':' : '_',
		                          .nil = !v->fence,
		                          .integer = v->fence };

	if (v->waited)
		p->waited = timers_now(h->timers) - p->sent_at;
	if (v->waited && v->fence) {
		stats_wait_began(p->stats, LOCK_DB_QUORUM, p->keys[0], timers_now(h->timers));
		if (stats_wait_ended(p->stats, LOCK_EVENT_WAITED_LONG, p->waited))
			refusals_log_wait(p, o, LOCK_DB_QUORUM, LOCK_EVENT_WAITED_LONG,
			                  p->waited);
	}
	p->success = LOCK_IF_POSITIVE;
	/* The lease ends earlier than at one server: see quorum_good_until(). */
	p->sent_at = v->good_until - (double)p->lease_ms / 1000;
	/* Each try to take a lock stores another value: so the value is the try's ticket. */
	p->ticket = v->value;
	hold_apply(h, o, p, LOCK_DB_QUORUM, &reply);
}
