/* SPDX-License-Identifier: BSD-3-Clause
 *
 * renewal: keeps holds alive. Each hold has a timer. Holds whose timers fire within a few
 * milliseconds are renewed by one call; holds that are not renewed are forgotten when their
 * lease is over.
 *
 *             begin           timer         gather timer
 *   LEASED ---------> RENEWED ------> DUE --------------> IN_BATCH
 *   LEASED <-- stop - RENEWED <----------- answer ------- IN_BATCH
 *   LEASED <-- stop ----------------- DUE                   | ^
 *      ^                                               stop v | begin
 *      `------------------------ answer ------------- LEASED_IN_BATCH
 *
 *   begin: the application took the lock, or set its expiry, and hasp must renew the hold
 *   stop: hasp need not renew the hold any more, or max_hold or the lease is over
 *
 * The servers of a quorum renew each lock by a call of its own: its hold goes from RENEWED to
 * IN_BATCH at once. If no majority answers, hasp repeats the call until the lease is over.
 *
 * hasp may free a hold in each state: when the lease is over, when the lock is released or
 * another owner takes it, and when the connection ends. A batch under way then has a gap.
 */
#include "lock/hold/hold_internal.h"

#include <math.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/quote.h"

/* Holds that become due within this time are renewed together, at most BATCH_MAX in one
 * call. */
#define GATHER_SECONDS 0.02
#define BATCH_MAX 64
/* How many due holds hasp considers for each call. */
#define LOOK_AHEAD ((size_t)4 * BATCH_MAX)

/* Within how many seconds hasp renews the locks that a new server may not have. */
#define LOOK_SECONDS 1.0

/* If no majority agreed to a renewal, hasp repeats it after this share of the lease. */
#define VOTE_AGAIN_SHARE 0.1

/* By how many seconds the board of releases may round a time down. */
#define RELEASE_MS_ROUNDED 0.001

/* A renewal of several holds that awaits its answer. A hold that ends before the answer leaves
 * a gap; if hasp sends the call again, it leaves the gaps out. */
struct renewal_batch {
	struct holds *holds;
	enum script_id script;
	int db;
	double sent_at; /* when hasp last sent the call */
	size_t n;
	struct hold *members[BATCH_MAX]; /* NULL: the hold has ended */
};

static const unsigned char allowed_states[HOLD_STATES] = {
	[HOLD_LEASED] = 1 << HOLD_RENEWED,
	[HOLD_RENEWED] = 1 << HOLD_DUE | 1 << HOLD_IN_BATCH | 1 << HOLD_LEASED,
	[HOLD_DUE] = 1 << HOLD_IN_BATCH | 1 << HOLD_LEASED,
	[HOLD_IN_BATCH] = 1 << HOLD_RENEWED | 1 << HOLD_LEASED_IN_BATCH,
	[HOLD_LEASED_IN_BATCH] = 1 << HOLD_LEASED | 1 << HOLD_IN_BATCH,
};

bool renewal_allows(enum hold_state from, enum hold_state to)
{
	return allowed_states[from] >> to & 1;
}

void renewal_set_state(struct hold *hold, enum hold_state state)
{
	HASP_ASSERT(renewal_allows(hold->state, state));
	if (hold->state == HOLD_DUE)
		list_remove(&hold->due);
	if (state == HOLD_DUE) {
		enum key_naming naming = script_jobs_naming(hold_table(hold)->script_jobs);
		hold->slot = key_names_slot(naming, lock_id_key(hold->by_id.key));
		list_append(&hold_table(hold)->due, &hold->due);
	}
	hold->state = state;
}

static void stop_renewing(struct hold *hold)
{
	timer_stop(hold_table(hold)->timers, &hold->timer);
	if (hold->state == HOLD_IN_BATCH)
		renewal_set_state(hold, HOLD_LEASED_IN_BATCH);
	else if (hold_is_renewed(hold))
		renewal_set_state(hold, HOLD_LEASED);
}

/* The lease of the hold is over: ends the hold, but under owner = value keeps it, because the
 * connection's DEL needs the value. */
static void renewal_expired(struct hold *hold)
{
	stop_renewing(hold);
	if (layout_of(hold->kind)->by_value)
		hold_events_count(hold, false);
	else
		hold_free(hold);
}

static void renewal_on_timer(struct timer *t, double now);

/* Stops renewing the hold, which stays until its lease is over. */
static void let_expire(struct hold *hold)
{
	stop_renewing(hold);
	if (!isinf(hold->good_until))
		timer_start(hold_table(hold)->timers, &hold->timer, renewal_on_timer,
		            hold->good_until, 0);
}

static void close_losers(struct timer *t, double now)
{
	struct holds *h = container_of(t, struct holds, close);

	(void)now;
	list_shift_each (struct hold_owner, o, &h->losers, lost)
		h->hooks.lost(o);
}

void renewal_lost(const struct hold *hold, const char *reason)
{
	struct holds *h = hold_table(hold);

	hold_events_lost(hold, reason);
	if (layout_of(hold->kind)->voted)
		hold_release_voted(hold);
	if (!hold->closes || !h->hooks.lost)
		return;
	/* Close the connection later: the caller may be handling a reply to another client. */
	list_move(&h->losers, &hold->owner->lost);
	timer_start(h->timers, &h->close, close_losers, timers_now(h->timers), 0);
}

bool renewal_may_be_released(const struct hold *hold)
{
	double now = timers_now(hold_table(hold)->timers);
	const struct holds_hooks *hooks = &hold_table(hold)->hooks;
	const struct release_board *b = hold_table(hold)->releases;
	int db = lock_id_db(hold->by_id.key);
	struct slice key = lock_id_key(hold->by_id.key);
	double at = b ? release_board_at(b, db, key, hold_token(hold)) : 0;

	if (!layout_of(hold->kind)->by_verb && hooks->has_rule &&
	    !hooks->has_rule(hooks->arg, key))
		return true;

	/* Under foreign_del = allow, a connection that knows no value may delete the lock. */
	if (at <= 0 && b && layout_of(hold->kind)->by_value)
		at = release_board_at(b, db, key, SLICE_NONE);

	return at > 0 && at >= hold->since - RELEASE_MS_ROUNDED &&
	       at > now - (double)hold->lease_ms / 1000;
}

void renewal_gone(struct hold *hold, bool has_owner, bool renewed)
{
	if (layout_of(hold->kind)->voted)
		renewal_lost(hold, "a majority of the servers does not have it any more");
	else if (hold->unknown)
		renewal_lost(hold, has_owner ? "on the new primary another owner has it"
		                             : "the new primary does not have it");
	else if (renewed && !renewal_may_be_released(hold))
		renewal_lost(hold, has_owner ? "another owner has it" : "it is gone");
	renewal_expired(hold);
}

static void renewal_failed(const struct hold *hold, double now)
{
	struct holds *h = hold_table(hold);
	uint32_t dropped;

	h->nfailed++;
	if (log_limit_pass(&h->limit, now, 10, &dropped))
		log_warning("renewal_failed db=%d key=%s total_failed=%llu suppressed=%u",
		            lock_id_db(hold->by_id.key), QUOTE(lock_id_key(hold->by_id.key)),
		            (unsigned long long)h->nfailed, dropped);
}

/* `result`: the script's result. 1: renewed; 0: the lock is free; -2: another owner has the
 * lock; any other: not known. */
static void end_renewal(struct hold *hold, const struct renewal_batch *b, long long result,
                        double now)
{
	bool renewed = hold->state == HOLD_IN_BATCH;

	renewal_set_state(hold, renewed ? HOLD_RENEWED : HOLD_LEASED);
	if (result == 0 || result == -2) {
		renewal_gone(hold, result == -2, renewed);
	} else if (result != 1) {
		renewal_failed(hold, now);
	} else {
		stats_add(hold->stats, STAT_RENEWED);
		hold->unknown = false;
		hold->good_until = b->sent_at + (double)hold->lease_ms / 1000;
		hold->slack = (float)(now - b->sent_at);
		if (!renewed)
			let_expire(hold);
	}
}

static void on_renewed(void *arg, const redisReply *reply)
{
	struct renewal_batch *b = arg;
	bool good = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == b->n;
	double now = timers_now(b->holds->timers);

	for (size_t i = 0; i < b->n; i++)
		if (b->members[i])
			end_renewal(b->members[i], b, good ? reply->element[i]->integer : -1,
			            now);
	free(b);
}

/* Writes the call for those holds of the batch that have not ended. */
static void write_renewals(void *arg, struct buf *out)
{
	struct renewal_batch *b = arg;
	struct lock_renewal renewals[BATCH_MAX];
	struct rewrite_opts opts = script_jobs_opts(b->holds->script_jobs, b->db);
	size_t n = 0;

	for (size_t i = 0; i < b->n; i++) {
		struct hold *hold = b->members[i];
		if (!hold)
			continue;
		renewals[n] = (struct lock_renewal){ hold_ident(hold), hold->lease_ms,
			                             hold->fence };
		hold->batch_slot = &b->members[n];
		b->members[n++] = hold;
	}
	b->n = n;
	b->sent_at = timers_now(b->holds->timers);
	(void)rewrite_renew(out, b->script, renewals, n, &opts);
}

/* True if one call can renew both holds. */
static bool share_call(const struct hold *a, const struct hold *b)
{
	return rewrite_renewal(a->kind) == rewrite_renewal(b->kind) && a->slot == b->slot &&
	       lock_id_db(a->by_id.key) == lock_id_db(b->by_id.key);
}

/* Renews the first due hold, and other due holds that the same call can renew. */
static void renew_batch(struct holds *h, double now)
{
	struct renewal_batch *b = xcalloc(1, sizeof(*b));
	struct list *at = h->due.next, *next;
	struct hold *first = container_of(at, struct hold, due);
	double until = INFINITY;

	b->holds = h;
	b->db = lock_id_db(first->by_id.key);
	b->script = rewrite_renewal(first->kind);
	for (size_t seen = 0; at != &h->due && b->n < BATCH_MAX && seen < LOOK_AHEAD;
	     at = next, seen++) {
		struct hold *hold = container_of(at, struct hold, due);
		next = at->next;
		if (!share_call(first, hold))
			continue;
		renewal_set_state(hold, HOLD_IN_BATCH);
		hold->batch_slot = &b->members[b->n];
		b->members[b->n++] = hold;
		if (hold->good_until < until)
			until = hold->good_until;
	}
	/* Log the failure at once, although the connection may be up again in time. */
	if (!script_jobs_are_up(h->script_jobs, lock_id_key(first->by_id.key)))
		renewal_failed(first, now);
	script_job_run_written(h->script_jobs, b->db, b->script, write_renewals,
	                       isinf(until) ? 0 : until, on_renewed, b);
}

static void renewal_on_gather(struct timer *t, double now)
{
	struct holds *h = container_of(t, struct holds, gather);

	while (!list_empty(&h->due))
		renew_batch(h, now);
}

static void renew_voted(struct hold *hold);

static void renewal_on_timer(struct timer *t, double now)
{
	struct hold *hold = container_of(t, struct hold, timer);
	struct holds *h = hold_table(hold);
	bool renewed = hold_is_renewed(hold);

	if (renewed && now >= hold->good_until)
		renewal_lost(hold, layout_of(hold->kind)->voted
		                           ? "no majority renewed it in time"
		                           : "its lease ended before hasp renewed it");
	if (!renewed || now >= hold->good_until) {
		renewal_expired(hold);
	} else if (hold->hold_until > 0 && now >= hold->hold_until) {
		let_expire(hold);
	} else if (hold->state == HOLD_RENEWED && layout_of(hold->kind)->voted) {
		renew_voted(hold);
	} else if (hold->state == HOLD_RENEWED) {
		renewal_set_state(hold, HOLD_DUE);
		if (!timer_is_running(&h->gather))
			timer_start(h->timers, &h->gather, renewal_on_gather,
			            now + GATHER_SECONDS, 0);
	}
}

/* Renews the hold soon, to learn whether the new server has the lock. */
static void look_soon(struct hold *hold)
{
	struct timers *timers = hold_table(hold)->timers;
	double every = (double)hold->lease_ms / 3000;
	double spread = every < LOOK_SECONDS ? every : LOOK_SECONDS;

	if (!hold_is_renewed(hold) || layout_of(hold->kind)->voted)
		return;
	hold->unknown = true;
	if (hold->state == HOLD_RENEWED)
		timer_start(timers, &hold->timer, renewal_on_timer,
		            timers_now(timers) +
		                    spread * (double)(hold->by_id.hash & 255) / 255,
		            every);
}

void renewal_mark_unknown(struct holds *h, bool (*concerns)(void *arg, struct slice key),
                          void *arg)
{
	map_each (&h->by_id, node)
		if (concerns(arg, lock_id_key(node->key)))
			look_soon(container_of(node, struct hold, by_id));
}

bool renewal_is_shortened(const struct hold *hold, const struct lock_request *p)
{
	return p->ends_ms < 0 || (p->ends_ms > 0 && hold->leased &&
	                          p->sent_at + (double)p->ends_ms / 1000 < hold->good_until);
}

static void set_lease(struct hold *hold, const struct lock_request *p, bool shortened)
{
	int64_t lease_ms = shortened ? p->ends_ms : p->lease_ms;

	hold->good_until = INFINITY;
	hold->lease_ms = p->default_lease_ms;
	if (lease_ms < 0)
		hold->good_until = p->sent_at;
	if (lease_ms <= 0)
		return;
	hold->lease_ms = lease_ms;
	hold->good_until = p->sent_at + (double)lease_ms / 1000;
}

bool renewal_is_under_way(const struct hold *hold)
{
	return hold->state == HOLD_IN_BATCH || hold->state == HOLD_LEASED_IN_BATCH;
}

/* Starts the timer of the hold: at `first`, and each third of its lease after that. */
static void renew_from(struct hold *hold, double first)
{
	if (hold->state == HOLD_LEASED)
		renewal_set_state(hold, HOLD_RENEWED);
	else if (hold->state == HOLD_LEASED_IN_BATCH)
		renewal_set_state(hold, HOLD_IN_BATCH);
	timer_start(hold_table(hold)->timers, &hold->timer, renewal_on_timer, first,
	            (double)hold->lease_ms / 3000);
}

/* The application let the lock end earlier while a renewal was under way, which may reach Redis
 * later. So shortens the lease again: this call reaches Redis after the renewal, because both
 * use hasp's own connection. */
static void end_in_time(const struct hold *hold)
{
	const struct holds *h = hold_table(hold);
	struct job_call call = script_jobs_call(h->script_jobs, lock_id_db(hold->by_id.key));
	struct lock_ident id = hold_ident(hold);
	double left = (hold->good_until - timers_now(h->timers)) * 1000;

	call.script = rewrite_end_in(&call.bytes, &id, left > 1 ? (int64_t)left : 1,
	                             &call.opts);
	script_job_run(&call, 0, NULL, NULL);
}

void renewal_begin(struct hold *hold, const struct lock_request *p, bool leased, bool renewing)
{
	bool shortened = leased && renewal_is_shortened(hold, p);
	double first = 0;

	hold->unknown = false;
	hold_events_count(hold, true);
	set_lease(hold, p, shortened);
	hold->leased = leased;
	if (shortened ||
	    (hold->renew != RENEW_YES && (leased || hold->renew != RENEW_UNLEASED))) {
		if (shortened && renewing)
			end_in_time(hold);
		let_expire(hold);
		return;
	}
	/* Spread the renewals of locks that were taken at the same time. But if the application
	 * has named an end (EXAT), that may be near: begin to renew at once. */
	if (p->lease_ms)
		first = (double)hold->lease_ms / 3000 *
		        (0.8 + 0.2 * (double)(hold->by_id.hash & 255) / 255);
	/* Count from `sent_at`: if the answer was late, a part of the lease is over. */
	renew_from(hold, p->sent_at + first);
}

void renewal_keep(struct hold *hold, const struct hold_lease *was)
{
	hold_events_count(hold, true);
	hold->lease_ms = was->lease_ms;
	hold->good_until = was->good_until;
	hold->leased = was->leased;
	if (!was->renewed)
		let_expire(hold);
	else if (isinf(was->good_until))
		renew_from(hold, timers_now(hold_table(hold)->timers));
	else
		renew_from(hold, was->good_until - (double)was->lease_ms / 1500);
}

/* --- locks that the servers of a quorum have --------------------------------------- */

static void renew_voted(struct hold *hold)
{
	const struct voters *v = &hold_table(hold)->voters;
	struct hold **slot = xmalloc(sizeof(struct hold *));

	renewal_set_state(hold, HOLD_IN_BATCH);
	*slot = hold;
	hold->batch_slot = slot;
	timer_start(hold_table(hold)->timers, &hold->timer, renewal_on_timer, hold->good_until,
	            0);
	v->renew(v->arg, lock_id_key(hold->by_id.key), voted_value(hold), hold->lease_ms, slot);
}

bool renewal_voted(struct hold **slot, int result, double good_until)
{
	struct hold *hold = *slot;
	double now, again;

	free(slot);
	if (!hold)
		return false;
	now = timers_now(hold_table(hold)->timers);
	again = now + VOTE_AGAIN_SHARE * (double)hold->lease_ms / 1000;
	renewal_set_state(hold, HOLD_RENEWED);
	if (now >= hold->good_until) {
		renewal_on_timer(&hold->timer, now);
	} else if (result == 0) {
		renewal_gone(hold, false, true);
	} else if (result < 0) {
		timer_start(hold_table(hold)->timers, &hold->timer, renewal_on_timer,
		            again < hold->good_until ? again : hold->good_until, 0);
	} else {
		stats_add(hold->stats, STAT_RENEWED);
		hold->good_until = good_until;
		renew_from(hold, good_until - (double)hold->lease_ms / 1500);
		return true;
	}
	return false;
}

void voted_extend(struct hold *hold, double good_until, int64_t lease_ms)
{
	/* Ignore the answer to a renewal that is under way. */
	if (hold->state == HOLD_IN_BATCH) {
		*hold->batch_slot = NULL;
		renewal_set_state(hold, HOLD_RENEWED);
	}
	if (lease_ms > hold->lease_ms)
		hold->lease_ms = lease_ms;
	if (good_until > hold->good_until)
		hold->good_until = good_until;
	if (hold->renew == RENEW_YES && hold_is_renewed(hold))
		renew_from(hold, hold->good_until - (double)hold->lease_ms / 1500);
	else
		let_expire(hold);
}

/* --- the locks that an MLOCK has while it waits ------------------------------------ */

/* hasp does not know an MLOCK's fencing tokens, so it passes this number, which is greater than
 * any token. */
#define ANY_FENCE (1LL << 53)

static void renew_parts(struct timer *t, double now)
{
	const struct parts *parts = container_of(t, struct parts, timer);
	const struct lock_request *p = parts->lock;
	struct job_call call = script_jobs_call(p->holds->script_jobs, parts->db);
	int64_t lease_ms = rewrite_mlock_part_lease(p->lease_ms);
	struct lock_renewal v[MLOCK_KEYS_MAX];

	for (size_t i = 0; i < parts->n; i++)
		v[i] = (struct lock_renewal){ .id = { p->kind, p->keys[i],
			                              token_slice(p->token) },
			                      .lease_ms = lease_ms,
			                      .fence = ANY_FENCE };
	call.script = SCRIPT_RENEW_VERB;
	rewrite_renew(&call.bytes, call.script, v, parts->n, &call.opts);
	script_job_run(&call, now + (double)lease_ms / 1000, NULL, NULL);
}

void renewal_of_parts(struct parts *parts, int db, size_t n)
{
	struct timers *timers = parts->lock->holds->timers;
	double third = (double)rewrite_mlock_part_lease(parts->lock->lease_ms) / 3000;

	parts->db = db;
	parts->n = n;
	if (n == 0)
		timer_stop(timers, &parts->timer);
	else if (!timer_is_running(&parts->timer))
		timer_start(timers, &parts->timer, renew_parts, timers_now(timers) + third,
		            third);
}
