/* SPDX-License-Identifier: BSD-3-Clause
 *
 * refusals: counts and logs commands on rules' and verbs' locks that were not carried out
 * because another owner has the lock, or that waited for it. The facts come from the holds of
 * this worker, from a script's refusal, and from the other workers. hasp does not ask Redis.
 */
#include "lock/hold/hold_internal.h"

/* Returns another owner's hold of the lock, if this worker has one; else NULL. */
static struct hold *other_hold(struct holds *h, const struct hold_owner *o,
                               const struct lock_request *p, int db, struct slice key)
{
	double now = timers_now(h->timers);
	struct hold *hold;

	for (hold = hold_first(h, db, key); hold; hold = hold_next(hold))
		if (hold->owner != o && hold->good_until > now && !hold_has_token(hold, p))
			return hold;
	return NULL;
}

/* Returns the hold that made a try fail: another owner's, or one of the try's own owner. NULL:
 * this worker has none. */
static struct hold *any_hold(struct holds *h, const struct hold_owner *o,
                             const struct lock_request *p, int db)
{
	struct hold *hold = other_hold(h, o, p, db, p->keys[0]);

	if (!hold)
		hold = hold_find(h, o, layout_of(p->kind)->by_value, db, p->keys[0],
		                 token_slice(p->token));
	return hold && hold->good_until > timers_now(h->timers) ? hold : NULL;
}

/* How hasp counts and logs a refusal, or the end of a wait, which is counted already. */
struct refusal {
	enum stats_field stat;
	enum lock_event event;
	struct slice key;
	const struct hold *hold; /* the hold in the way; NULL: this worker does not have it */
};

/* Counts a refusal. (A failed release does not make the key contended.) */
static void count_refusal(const struct lock_request *p, int db, const struct refusal *r,
                          double now)
{
	stats_add(p->stats, r->stat);
	if (r->stat == STAT_REFUSED || r->stat == STAT_WRITES_REFUSED)
		stats_contended(p->stats, CONTENTION_REFUSED, db, r->key, now);
}

/* Begins to watch which connections read the section's locks, if Redis refused a release and no
 * fact explains why the connection tried. If the connection reads the lock before its next
 * release, owner = value would fit. (Under owner = value, hasp watches all reads anyway.) */
static void watch_reads(struct holds *h, const struct lock_request *p,
                        const struct event_to_log *event)
{
	if (event->event != LOCK_EVENT_DELETE_REFUSED || layout_of(p->kind)->by_value ||
	    p->stats->watches_reads || event_hint(event))
		return;
	p->stats->watches_reads = true;
	h->begins_watching = true;
}

static double read_ago(const struct hold_owner *o, int db, struct slice key, double now)
{
	double at = seen_values_read_at(o->seen, db, key);

	return at < 0 ? -1 : now - at;
}

static void log_refusal(struct holds *h, const struct hold_owner *o,
                        const struct lock_request *p, int db, const struct refusal *r,
                        double waited)
{
	double now = timers_now(h->timers);
	struct event_to_log event;

	if (!event_begin(&event, p->stats, r->event, db, r->key, now))
		return;
	hold_events_describe(h, o, &event.by);
	if (r->hold) {
		hold_events_describe(h, r->hold->owner, &event.holder);
		event.held = now - r->hold->since;
	} else if (p->state == LOCK_REQUEST_REFUSED) {
		owner_describe_token(&event.holder, buf_slice(&p->answer));
	}
	event.waited = waited;
	event.read_ago = read_ago(o, db, r->key, now);
	watch_reads(h, p, &event);
	/* Do not ask the other workers about a long wait: the client itself has the lock
	 * now. */
	if (r->hold || !h->hooks.ask || r->event == LOCK_EVENT_WAITED_LONG)
		event_log(&event);
	else
		h->hooks.ask(h->hooks.arg, &event, token_slice(p->token));
}

/* Returns true, and writes *out, if another owner's lock was in the way. */
static bool find_refusal(struct holds *h, const struct hold_owner *o,
                         const struct lock_request *p, int db, const struct resp_reply *r,
                         struct refusal *out)
{
	const struct effect_terms *effect = &effect_terms[p->effect];

	*out = (struct refusal){ STAT_WRITES_REFUSED, LOCK_EVENT_WRITE_REFUSED, p->keys[0],
		                 NULL };
	if (p->state == LOCK_REQUEST_REFUSED) {
		out->stat = STAT_DELETES_REFUSED;
		out->event = LOCK_EVENT_DELETE_REFUSED;
		out->key = p->keys[p->refused - 1];
		out->hold = other_hold(h, o, p, db, out->key);
		return true;
	}
	if (p->state == LOCK_REQUEST_LOCKED) {
		if (p->script == SCRIPT_WRITE && p->effect == LOCK_EFFECT_DROPS) {
			out->stat = STAT_DELETES_REFUSED;
			out->event = LOCK_EVENT_DELETE_REFUSED;
		}
		/* If there are several keys, name the first that another owner has. */
		for (size_t i = 0; i < p->nkeys && !out->hold; i++) {
			out->key = p->keys[i];
			out->hold = other_hold(h, o, p, db, out->key);
		}
		if (!out->hold)
			out->key = p->keys[0];
		return true;
	}
	if (resp_reply_is_error(r))
		return false;
	if (effect->acquires && p->script != SCRIPT_SET) {
		out->stat = p->waited > 0 ? STAT_TIMED_OUT : STAT_REFUSED;
		out->event = p->waited > 0 ? LOCK_EVENT_WAIT_TIMED_OUT
		                           : LOCK_EVENT_LOCK_REFUSED;
		out->hold = any_hold(h, o, p, db);
		return true;
	}
	/* SET XX and EXPIRE may have failed because there is no such key. */
	if (!effect->has_lease)
		return false;
	out->hold = other_hold(h, o, p, db, out->key);
	return out->hold != NULL;
}

void refusals_tell(struct holds *h, const struct hold_owner *o, const struct lock_request *p,
                   int db, const struct resp_reply *r)
{
	struct refusal refusal;

	/* For an MSETNX, report the first of its locks that this worker has a hold of. */
	for (const struct lock_request *at = p; p->next && at; at = at->next) {
		if (any_hold(h, o, at, db)) {
			p = at;
			break;
		}
	}
	if (!p->stats || !find_refusal(h, o, p, db, r, &refusal))
		return;
	if (p->waited > 0) {
		stats_waited(p->stats, p->waited);
		if (!p->queued)
			stats_wait_began(p->stats, db, lock_request_key(p),
			                 timers_now(h->timers));
	}
	count_refusal(p, db, &refusal, timers_now(h->timers));
	log_refusal(h, o, p, db, &refusal, p->waited > 0 ? p->waited : -1);
}

void refusals_log_wait(const struct lock_request *p, const struct hold_owner *o, int db,
                       enum lock_event end, double waited)
{
	struct refusal refusal = { .event = end, .key = lock_request_key(p) };

	if (end != LOCK_EVENT_WAITED_LONG)
		refusal.hold = any_hold(p->holds, o, p, db);
	log_refusal(p->holds, o, p, db, &refusal, waited);
}
