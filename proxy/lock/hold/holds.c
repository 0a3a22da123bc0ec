/* SPDX-License-Identifier: BSD-3-Clause
 *
 * holds: the table of holds, with the owner and the tickets of each; and their release when the
 * connection ends.
 */
#include "lock/hold/hold_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"

/* Space for a hold with an id of usual length. */
#define SMALL_SIZE (sizeof(struct hold) + 32)
/* For how many seconds after its lease hasp tries to release a hold with a shared token. */
#define SHARED_RELEASE_SECONDS 3600
/* If a connection has no more holds than this, hasp searches these before the table. */
#define OWN_SEARCHED_MAX 16
/* If hasp ends a hold later than this many seconds after its lease, the hasp process was
 * suspended, or did not run for another reason. */
#define SUSPENDED_SECONDS 0.005
/* If hasp was suspended when a lease ended, UNLOCK names the hold for this many seconds more.
 * By then hasp has read each UNLOCK that came in time. */
#define NAMED_SECONDS 1
/* How many ended holds, the latest first, hasp searches for the one that an UNLOCK names. */
#define ENDED_SEARCHED_MAX 256

struct holds *holds_new(struct timers *timers, struct script_jobs *script_jobs)
{
	struct holds *h = xcalloc(1, sizeof(*h));

	h->timers = timers;
	h->script_jobs = script_jobs;
	list_init(&h->due);
	list_init(&h->losers);
	list_init(&h->by_age);
	freelist_init(&h->pending, LOCK_REQUEST_SIZE);
	freelist_init(&h->small, SMALL_SIZE);
	map_init(&h->by_id);
	return h;
}

void holds_set_hooks(struct holds *h, const struct holds_hooks *hooks)
{
	h->hooks = *hooks;
}

void holds_set_voters(struct holds *h, const struct voters *voters)
{
	h->voters = *voters;
}

void holds_set_releases(struct holds *h, struct release_board *releases)
{
	h->releases = releases;
}

void holds_note_release(struct holds *h, int db, struct slice key, struct slice token)
{
	if (h->releases)
		release_board_note(h->releases, db, key, token, timers_now(h->timers));
}

void hold_owner_init(struct hold_owner *o)
{
	list_init(&o->holds);
	list_init(&o->ended);
	list_init(&o->lost);
	o->table = NULL;
	o->n = 0;
	o->nbytes = 0;
	o->seen = NULL;
}

/* --- holds ----------------------------------------------------------------------- */

static void count_memory(struct hold_owner *o, ptrdiff_t nbytes)
{
	o->nbytes += (size_t)nbytes;
	o->table->nbytes += (size_t)nbytes;
}

/* Returns a reference to the request's token. If the latest hold has an equal token, returns a
 * reference to that one. */
static struct token *hold_token_take(const struct hold_owner *o, const struct lock_request *p)
{
	struct token *latest = list_empty(&o->holds)
	                               ? p->token
	                               : container_of(o->holds.prev, struct hold, node)->token;
	bool same = latest == p->token || slice_eq(token_slice(p->token), token_slice(latest));

	return token_ref(same ? latest : p->token);
}

/* Returns the size of a hold with this id, which follows the struct, in bytes. */
static size_t hold_size(struct slice id)
{
	return sizeof(struct hold) + id.n;
}

/* Returns the memory of a hold with one ticket, or with the value at a quorum's servers, in
 * bytes. */
static ptrdiff_t hold_nbytes(const struct hold *hold)
{
	size_t token = hold->counts_token ? sizeof(*hold->token) + hold->token->n : 0;
	size_t value = layout_of(hold->kind)->voted && hold->value ? hold->value->n : 0;

	return (ptrdiff_t)(hold_size(hold->by_id.key) + TICKET_SIZE + token + value);
}

struct hold *hold_new(struct holds *h, struct hold_owner *o, const struct lock_request *p,
                      struct slice key, int db, uint64_t hash)
{
	struct slice id = lock_id_write(&h->scratch, db, key);
	size_t size = hold_size(id);
	struct hold *hold = size <= SMALL_SIZE ? freelist_take(&h->small) : xmalloc(size);
	char *bytes = (char *)(hold + 1);

	memcpy(bytes, id.p, id.n);
	buf_trim(&h->scratch);
	o->table = h;
	*hold = (struct hold){
		.owner = o,
		.by_id.key = slice_of(bytes, id.n),
		.token = hold_token_take(o, p),
		.kind = p->kind,
		.shared = !p->exclusive,
		.release = p->release,
		.closes = p->closes,
		.stats = p->stats,
		.since = p->sent_at,
		.renew = p->renew,
	};
	hold->counts_token = !hold->token->counted;
	hold->token->counted = true;
	list_init(&hold->by_age);
	map_put_hashed(&h->by_id, &hold->by_id, hash);
	list_append(&o->holds, &hold->node);
	o->n++;
	count_memory(o, hold_nbytes(hold));
	return hold;
}

void hold_set_value(struct hold *hold, struct slice value)
{
	hold->value = token_new(value);
	hold->ntickets = 1;
	hold->since = hold->learnt_at;
	count_memory(hold->owner, (ptrdiff_t)value.n);
}

static void leave_renewal(struct hold *hold)
{
	switch (hold->state) {
	case HOLD_LEASED:
	case HOLD_RENEWED:
		break;
	case HOLD_DUE:
		list_remove(&hold->due);
		break;
	case HOLD_IN_BATCH:
	case HOLD_LEASED_IN_BATCH:
		*hold->batch_slot = NULL;
		break;
	}
}

/* Frees a hold that is not in the table any more. */
static void hold_forget(struct hold *hold)
{
	bool is_small = hold_size(hold->by_id.key) <= SMALL_SIZE;
	struct holds *h = hold_table(hold);

	timer_stop(h->timers, &hold->timer);
	list_remove(&hold->node);
	count_memory(hold->owner, -hold_nbytes(hold));
	if (hold->counts_token)
		hold->token->counted = false;
	token_release(hold->token);
	free(hold->tickets);
	if (is_small)
		freelist_give(&h->small, hold);
	else
		free(hold);
}

static void hold_on_forgotten(struct timer *t, double now)
{
	(void)now;
	hold_forget(container_of(t, struct hold, timer));
}

/* True if hasp was suspended when the lease ended. An UNLOCK of the hold may then be unread: it
 * must not release a later hold of the owner. */
static bool is_named_after_end(const struct hold *hold)
{
	return hold->shared && hold->fence && hold->count && hold->ntickets >= hold->count &&
	       timers_now(hold_table(hold)->timers) > hold->good_until + SUSPENDED_SECONDS;
}

void hold_free(struct hold *hold)
{
	struct holds *h = hold_table(hold);

	hold_events_ended(hold);
	hold_events_count(hold, false);
	leave_renewal(hold);
	list_remove(&hold->by_age);
	map_remove(&h->by_id, &hold->by_id);
	hold->owner->n--;
	if (!is_named_after_end(hold)) {
		hold_forget(hold);
		return;
	}
	list_move(&hold->owner->ended, &hold->node);
	timer_start(h->timers, &hold->timer, hold_on_forgotten,
	            timers_now(h->timers) + NAMED_SECONDS, 0);
}

static struct hold *hold_of(struct map_node *node)
{
	return node ? container_of(node, struct hold, by_id) : NULL;
}

void holds_free(struct holds *h)
{
	map_drain (&h->by_id, node)
		hold_free(hold_of(node));
	timer_stop(h->timers, &h->gather);
	timer_stop(h->timers, &h->close);
	map_fini(&h->by_id);
	freelist_fini(&h->pending);
	freelist_fini(&h->small);
	buf_release(&h->scratch);
	free(h);
}

size_t holds_nbytes(const struct holds *h)
{
	return h->nbytes;
}

bool holds_begins_watching(struct holds *h)
{
	bool begins = h->begins_watching;

	h->begins_watching = false;
	return begins;
}

struct hold *hold_first(struct holds *h, int db, struct slice key)
{
	struct map_node *first = map_get(&h->by_id, lock_id_write(&h->scratch, db, key));

	buf_trim(&h->scratch);
	return hold_of(first);
}

struct hold *hold_first_hashed(struct holds *h, int db, struct slice key, uint64_t *hash)
{
	struct slice id = lock_id_write(&h->scratch, db, key);
	struct map_node *first;

	*hash = map_hash(&h->by_id, id);
	first = map_get_hashed(&h->by_id, id, *hash);
	buf_trim(&h->scratch);
	return hold_of(first);
}

struct hold *hold_next(const struct hold *hold)
{
	return hold_of(map_next(&hold->by_id));
}

/* True if the hold may belong to `token`. (Only a semaphore and a read-write lock may have
 * several owners, even by one connection.) */
static bool is_of_token(const struct hold *hold, struct slice token)
{
	return !layout_of(hold->kind)->has_owners || slice_eq(hold_token(hold), token);
}

static bool is_of_lock(const struct hold *hold, int db, struct slice key)
{
	return lock_id_db(hold->by_id.key) == db && slice_eq(lock_id_key(hold->by_id.key), key);
}

/* As hold_find(), among the connection's own holds; NULL if these are too many to search. */
static struct hold *find_own(const struct hold_owner *o, int db, struct slice key,
                             struct slice token)
{
	struct hold *shared = NULL;

	if (o->n > OWN_SEARCHED_MAX)
		return NULL;
	list_each (struct hold, hold, &o->holds, node) {
		if (!is_of_lock(hold, db, key) || !is_of_token(hold, token))
			continue;
		if (hold->kind != LOCK_KIND_SHARED)
			return hold;
		shared = hold;
	}
	return shared;
}

struct hold *hold_find(struct holds *h, const struct hold_owner *o, bool by_value, int db,
                       struct slice key, struct slice token)
{
	struct hold *first = NULL, *own = find_own(o, db, key, token);

	if (own)
		return own;
	for (struct hold *hold = hold_first(h, db, key); hold; hold = hold_next(hold)) {
		if (!is_of_token(hold, token))
			continue;
		/* Of both sides of a read-write lock, the write side comes first. */
		if (hold->owner == o && hold->kind != LOCK_KIND_SHARED)
			return hold;
		if (!first || (hold->owner == o && first->owner != o))
			first = hold;
	}
	return by_value && first && first->owner != o ? NULL : first;
}

struct hold *voted_find(struct holds *h, const struct hold_owner *o, struct slice key,
                        struct slice token)
{
	struct hold *hold = o->n ? hold_find(h, o, true, LOCK_DB_QUORUM, key, token) : NULL;

	return hold && (!token.n || slice_eq(hold_token(hold), token)) ? hold : NULL;
}

struct slice voted_value(const struct hold *hold)
{
	return token_slice(hold->value);
}

void voted_end(struct holds *h, struct slice key, struct slice value)
{
	struct hold *hold = hold_first(h, LOCK_DB_QUORUM, key);

	while (hold && !slice_eq(voted_value(hold), value))
		hold = hold_next(hold);
	if (hold)
		hold_free(hold);
}

struct lock_ident hold_ident(const struct hold *hold)
{
	return (struct lock_ident){ hold->kind, lock_id_key(hold->by_id.key),
		                    hold_token(hold) };
}

bool hold_is_renewed(const struct hold *hold)
{
	return hold->state != HOLD_LEASED && hold->state != HOLD_LEASED_IN_BATCH;
}

struct slice hold_value(struct holds *h, const struct hold_owner *o, int db, struct slice key)
{
	struct hold *hold = o->n ? hold_find(h, o, true, db, key, SLICE_NONE) : NULL;

	return hold && layout_of(hold->kind)->by_value ? hold_token(hold) : SLICE_NONE;
}

size_t hold_own_tokens(struct holds *h, const struct hold_owner *o, int db, struct slice key,
                       struct slice *out, size_t max)
{
	struct hold *hold = o->n ? hold_first(h, db, key) : NULL;
	size_t n = 0;

	for (; hold; hold = hold_next(hold)) {
		if (hold->owner != o)
			continue;
		if (n < max)
			out[n] = hold_token(hold);
		n++;
	}
	return n;
}

enum lock_kind hold_own_kind(const struct hold_owner *o, int db, struct slice key,
                             bool *reentered)
{
	enum lock_kind kind = 0;

	*reentered = false;
	if (o->n > OWN_SEARCHED_MAX)
		return 0;
	list_each (const struct hold, hold, &o->holds, node) {
		if (!layout_of(hold->kind)->by_verb || !is_of_lock(hold, db, key))
			continue;
		*reentered = *reentered || kind || hold->reentered;
		/* UNLOCK gives back the write side of a read-write lock first. */
		if (kind != LOCK_KIND_EXCLUSIVE)
			kind = hold->kind;
	}
	return kind;
}

static const struct hold *find_ended(const struct hold_owner *o, int db, struct slice key,
                                     struct slice token)
{
	unsigned left = ENDED_SEARCHED_MAX;

	list_each_back (const struct hold, hold, &o->ended, node) {
		if (is_of_lock(hold, db, key) && slice_eq(hold_token(hold), token))
			return hold;
		if (--left == 0)
			break;
	}
	return NULL;
}

/* Returns the greatest fencing token that a later acquisition can have got before the hold's
 * lease ended. (Before such an acquisition, the owner released the lock, perhaps by another
 * connection. A token is Redis' time in us. Redis rounds the end of a lease down to ms.)
 * Returns 0 if the token of the hold or the end of its lease is not known. */
static long long last_fence(const struct hold *hold)
{
	double least_us = (hold->good_until - hold->fenced_at) * 1e6 - 1000;

	if (!hold->fence || isinf(hold->good_until))
		return 0;
	return hold->fence + (least_us > 0 ? (long long)least_us : 0);
}

void hold_given_back(struct holds *h, const struct hold_owner *o, int db, struct slice key,
                     struct slice token, struct buf *out)
{
	const struct hold *hold = o->n ? hold_find(h, o, true, db, key, token) : NULL;
	long long fence;

	if (!hold || !slice_eq(hold_token(hold), token))
		hold = find_ended(o, db, key, token);
	/* A hold with fewer tickets than `count` has forgotten its first ticket. */
	if (hold && hold->ntickets && hold->ntickets >= hold->count) {
		buf_puts(out, hold->tickets[0]);
		fence = last_fence(hold);
		if (fence)
			buf_printf(out, " %lld", fence);
	}
	buf_append(out, SLICE_LIT(","));
}

enum seen_value hold_seen_value(struct holds *h, const struct hold_owner *o, int db,
                                struct slice key, struct slice *value)
{
	enum seen_value what = seen_values_find(o->seen, db, key, value);

	if (what != SEEN_NOTHING)
		return what;
	*value = hold_value(h, o, db, key);
	return value->p ? SEEN_VALUE : SEEN_NOTHING;
}

/* --- tickets -------------------------------------------------------------------- */

static void forget_oldest_ticket(struct hold *hold)
{
	hold->ntickets--;
	memmove(hold->tickets, hold->tickets + 1, hold->ntickets * sizeof(*hold->tickets));
}

void hold_add_ticket(struct hold *hold, struct slice ticket)
{
	hold->reentered = hold->count++ > 0 || hold->reentered;
	/* Only two calls need tickets: the release at disconnect, and an UNLOCK by one of
	 * several connections with the same token. */
	if ((!hold->release && !(hold->shared && layout_of(hold->kind)->counts)) ||
	    ticket.n == 0 || ticket.n >= TICKET_SIZE)
		return;
	if (hold->ntickets == TICKETS_KEPT)
		forget_oldest_ticket(hold);
	else
		hold->tickets = xrealloc(hold->tickets,
		                         (hold->ntickets + 1) * sizeof(*hold->tickets));
	memset(hold->tickets[hold->ntickets], 0, TICKET_SIZE);
	memcpy(hold->tickets[hold->ntickets++], ticket.p, ticket.n);
}

/* Forgets the oldest ticket, if the hold has more tickets than `count`. */
void hold_remove_ticket(struct hold *hold)
{
	hold->count--;
	if (hold->ntickets > hold->count)
		forget_oldest_ticket(hold);
}

/* --- release --------------------------------------------------------------------- */

void hold_release_voted(const struct hold *hold)
{
	const struct voters *v = &hold_table(hold)->voters;

	v->release(v->arg, lock_id_key(hold->by_id.key), voted_value(hold), hold->lease_ms);
}

static struct job_call release_call(const struct hold *hold)
{
	return script_jobs_call(hold_table(hold)->script_jobs, lock_id_db(hold->by_id.key));
}

void hold_release_try(const struct hold *hold, struct slice ticket, int64_t most_ms,
                      double until)
{
	struct lock_ident id = hold_ident(hold);
	struct job_call call = release_call(hold);

	if (layout_of(hold->kind)->release != RELEASE_VALUE)
		call.script = rewrite_unlock(&call.bytes, &id, ticket, &call.opts);
	else
		call.script = rewrite_release(&call.bytes, &id,
		                              ticket.n ? ticket : slice_str(TICKET_NONE),
		                              most_ms, &call.opts);
	script_job_run(&call, until, NULL, NULL);
}

static void release_each_try(const struct hold *hold, double until)
{
	struct attempt t = { .id = hold_ident(hold) };

	for (unsigned i = 0; i < hold->ntickets; i++) {
		struct job_call call = release_call(hold);

		t.ticket = slice_str(hold->tickets[i]);
		call.script = rewrite_dequeue(&call.bytes, &t, true, &call.opts);
		script_job_run(&call, until, NULL, NULL);
	}
}

/* Releases this connection's acquisitions of the lock by their tickets, so that other
 * connections with the same token keep theirs. If no other connection can have the token, names
 * no ticket: after a lost reply to a refresh, hasp does not know the ticket in the record. A
 * counted lock of such a token is released as a whole if the hold has forgotten tickets. */
static void hold_release(const struct hold *hold)
{
	enum lock_release how = layout_of(hold->kind)->release;
	double left = hold->good_until - timers_now(hold_table(hold)->timers) + hold->slack;
	/* After the lease, there is usually nothing to release. But another connection of the
	 * owner may have begun the lease again while hasp could not send the release. */
	double longer = hold->shared && layout_of(hold->kind)->counts ? SHARED_RELEASE_SECONDS
	                                                              : 0;
	double until = isinf(hold->good_until) ? 0 : hold->good_until + longer;
	int64_t most_ms = 0;

	if (layout_of(hold->kind)->voted) {
		hold_release_voted(hold);
		return;
	}
	/* If more than `most_ms` is left of the lease, another connection with the same token
	 * has taken the lock again at another worker. */
	if (hold->shared && !isinf(left))
		most_ms = left > 0 ? (int64_t)(left * 1000) + RELEASE_SLACK_MS : 1;
	if (how == RELEASE_EACH_TRY && !hold->shared && hold->count > hold->ntickets)
		hold_release_try(hold, SLICE_LIT(TICKETS_ALL), most_ms, until);
	else if (how == RELEASE_EACH_TRY)
		release_each_try(hold, until);
	else if (how != RELEASE_NOT)
		hold_release_try(hold,
		                 hold->shared ? slice_str(hold->tickets[hold->ntickets - 1])
		                              : SLICE_LIT(""),
		                 most_ms, until);
}

bool hold_owner_has_any(const struct hold_owner *o, double now)
{
	list_each (const struct hold, hold, &o->holds, node)
		if (hold->good_until > now)
			return true;
	return false;
}

void hold_owner_end(struct hold_owner *o, bool release)
{
	list_remove(&o->lost);
	list_shift_each (struct hold, hold, &o->holds, node) {
		if (release && hold->release && hold->ntickets) {
			hold_events_released(hold);
			hold_release(hold);
		}
		hold_free(hold);
	}
	list_drain (struct hold, hold, &o->ended, node)
		hold_forget(hold);
	seen_values_free(o->seen);
	o->seen = NULL;
}

/* --- facts for SHOW and logs ------------------------------------------------------------- */

struct held held_of(const struct hold *hold)
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
		                         : is_own && hold->fence >= fence;

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
