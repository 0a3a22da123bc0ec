/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/hold/hold_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"

/* Under owner = value a connection remembers what it stored for as long as it lives, but not
 * more locks than this. */
#define REMEMBERED_MAX 1024

/* What Redis' clock may be ahead of ours within a lease. */
#define RELEASE_SLACK_MS 50

struct holds *holds_new(struct ev_loop *loop, struct script_jobs *script_jobs)
{
	struct holds *h = xcalloc(1, sizeof(*h));

	h->loop = loop;
	h->script_jobs = script_jobs;
	list_init(&h->due);
	ev_timer_init(&h->gather, renewal_on_gather, 0, 0);
	h->gather.data = h;
	map_init(&h->by_id, (uint64_t)(uintptr_t)h);
	return h;
}

void hold_owner_init(struct hold_owner *o)
{
	list_init(&o->holds);
	o->n = 0;
	o->took_at = 0;
}

static struct slice copy_slice(struct slice s)
{
	return slice_of(xmemdup(s.p, s.n), s.n);
}

void hold_free(struct hold *hold)
{
	renewal_end(hold);
	map_remove(&hold->table->by_id, &hold->by_id);
	list_remove(&hold->node);
	hold->owner->n--;
	free((char *)hold->by_id.key.p);
	free((char *)hold->token.p);
	free(hold->tickets);
	free(hold);
}

static struct hold *hold_of(struct map_node *node)
{
	return node ? container_of(node, struct hold, by_id) : NULL;
}

void holds_free(struct holds *h)
{
	for (size_t i = 0; i < h->by_id.nbuckets; i++)
		while (h->by_id.buckets[i])
			hold_free(hold_of(h->by_id.buckets[i]));
	ev_timer_stop(h->loop, &h->gather);
	map_fini(&h->by_id);
	buf_release(&h->room);
	free(h);
}

struct hold *hold_find(struct holds *h, const struct hold_owner *o, bool by_value, int db,
                       struct slice key)
{
	struct map_node *first = map_get(&h->by_id, lock_id_write(&h->room, db, key));
	struct map_node *node = first;

	while (node && hold_of(node)->owner != o)
		node = map_next(node);
	return hold_of(node || by_value ? node : first);
}

struct lock_ident hold_ident(const struct hold *hold)
{
	return (struct lock_ident){ hold->kind, lock_id_key(hold->by_id.key), hold->token };
}

/* A connection that stores value after value forgets the oldest, but none that it
 * keeps alive. */
static void forget_oldest_value(struct hold_owner *o)
{
	for (size_t left = o->n; left && o->n >= REMEMBERED_MAX; left--) {
		struct hold *hold = container_of(o->holds.next, struct hold, node);
		if (!hold->renewed) {
			hold_free(hold);
			return;
		}
		list_remove(&hold->node);
		list_append(&o->holds, &hold->node);
	}
}

/* A lock is taken: who had it has it no more. But those who have the same token and layout
 * `count` have it together. Returns the connection's own hold, if that goes on. */
static struct hold *supersede(struct holds *h, const struct hold_owner *o,
                              const struct pending_lock *n, int db)
{
	struct map_node *node = map_get(&h->by_id, lock_id_write(&h->room, db, n->keys[0]));
	struct hold *own = NULL;

	while (node) {
		struct hold *hold = hold_of(node);
		node = map_next(node);
		if (n->by_value && hold->owner != o)
			continue;
		if (!n->counts || !slice_eq(hold->token, n->token))
			hold_free(hold);
		else if (hold->owner == o)
			own = hold;
	}
	return own;
}

static void forget_oldest_ticket(struct hold *hold)
{
	hold->ntickets--;
	memmove(hold->tickets, hold->tickets + 1, hold->ntickets * sizeof(*hold->tickets));
}

/* One more LOCK of the same lock. */
static void add_ticket(struct hold *hold, struct slice ticket)
{
	hold->count++;
	if (ticket.n == 0 || ticket.n >= TICKET_ROOM)
		return;
	if (hold->ntickets == TICKETS_KEPT)
		forget_oldest_ticket(hold);
	else
		hold->tickets = xrealloc(hold->tickets,
		                         (hold->ntickets + 1) * sizeof(*hold->tickets));
	memset(hold->tickets[hold->ntickets], 0, TICKET_ROOM);
	memcpy(hold->tickets[hold->ntickets++], ticket.p, ticket.n);
}

/* One UNLOCK. Which of its tickets counts no more does not matter, as long as one of them. */
static void remove_ticket(struct hold *hold)
{
	hold->count--;
	if (hold->ntickets > hold->count)
		forget_oldest_ticket(hold);
}

static struct hold *hold_new(struct holds *h, struct hold_owner *o,
                             const struct pending_lock *n, int db)
{
	struct hold *hold = xcalloc(1, sizeof(*hold));

	hold->table = h;
	hold->owner = o;
	hold->by_id.key = copy_slice(lock_id_write(&h->room, db, n->keys[0]));
	hold->token = copy_slice(n->token);
	hold->kind = n->call.kind;
	hold->shared = !n->exclusive;
	hold->release = n->release;
	hold->renew = n->renew;
	hold->default_lease_ms = n->default_lease_ms;
	ev_timer_init(&hold->timer, renewal_on_timer, 0, 0);
	hold->timer.data = hold;
	list_init(&hold->due);
	map_put(&h->by_id, &hold->by_id);
	list_append(&o->holds, &hold->node);
	o->n++;
	return hold;
}

static void apply_acquired(struct holds *h, struct hold_owner *o, const struct pending_lock *n,
                           int db, const struct resp_reply *r)
{
	struct hold *hold = supersede(h, o, n, db);
	double until = n->sent_at + (double)n->call.lease_ms / 1000;
	bool goes_on = hold && n->call.leased && (hold->renewed || hold->good_until >= until);

	if (!n->begins && !hold)
		return;
	if (n->by_value)
		forget_oldest_value(o);
	if (!hold)
		hold = hold_new(h, o, n, db);
	hold->release |= n->release;
	hold->begun = n->sent_at;
	hold->fence = r->type == ':' ? r->integer : 0;
	if (n->max_hold_ms)
		hold->hold_until = n->sent_at + (double)n->max_hold_ms / 1000;
	add_ticket(hold, n->ticket);
	/* No hold ends before it was to. */
	if (goes_on)
		return;
	hold->slack = clock_now() - n->sent_at;
	renewal_begin(hold, n->call.lease_ms, n->call.leased, n->sent_at);
}

static void expire(struct holds *h, struct hold_owner *o, const struct pending_lock *n, int db)
{
	struct hold *hold = hold_find(h, o, n->by_value, db, n->keys[0]);

	if (hold)
		renewal_begin(hold, n->call.lease_ms, true, n->sent_at);
}

/* Of several keys some may have stayed: they are renewed no more, and their lease
 * runs out. */
static void drop(struct holds *h, struct hold_owner *o, const struct pending_lock *n, int db)
{
	for (size_t i = 0; i < n->nkeys; i++) {
		struct hold *hold = hold_find(h, o, n->by_value, db, n->keys[i]);
		/* Of several keys, some may be another's; and what was handed over before the
		 * answer came has begun since. */
		if (!hold || (!n->by_value && !slice_eq(hold->token, n->token)) ||
		    hold->begun > n->sent_at)
			continue;
		/* Not every hold is in the books: whether another connection's last one is
		 * gone, its renewal finds out. */
		if (n->counts && hold->owner != o && hold->count == 1)
			continue;
		remove_ticket(hold);
		if (hold->count == 0)
			hold_free(hold);
	}
}

void hold_apply(struct holds *h, struct hold_owner *o, struct pending_lock *n, int db,
                const struct resp_reply *r)
{
	if (db >= 0 && rewrite_succeeded(&n->call, r)) {
		switch (n->call.effect) {
		case LOCK_EFFECT_TAKES:
			apply_acquired(h, o, n, db, r);
			o->took_at = clock_now();
			break;
		case LOCK_EFFECT_EXPIRES:
			expire(h, o, n, db);
			break;
		case LOCK_EFFECT_DROPS:
			drop(h, o, n, db);
			break;
		case LOCK_EFFECT_NONE:
			break;
		}
	}
	pending_lock_free(n);
}

struct slice hold_value(struct holds *h, const struct hold_owner *o, int db, struct slice key)
{
	struct hold *hold = o->n ? hold_find(h, o, true, db, key) : NULL;

	return hold && hold->kind == LOCK_KIND_VALUE ? hold->token : SLICE_NONE;
}

static void send_release(struct hold *hold, enum script_id script, struct buf *out)
{
	/* Later it is over anyway. */
	double until = isinf(hold->good_until) ? 0 : hold->good_until;

	script_job_run(hold->table->script_jobs, lock_id_db(hold->by_id.key), script,
	               buf_slice(out), until, NULL, NULL);
	buf_clear(out);
}

/* Gives back what this connection took, and nothing that others have taken by the same token.
 */
static void hold_release(struct hold *hold)
{
	struct lock_try t = { .id = hold_ident(hold) };
	struct buf out = BUF_INIT;
	double left = hold->good_until - clock_now() + hold->slack;
	int64_t most_ms = 0;

	switch (hold->kind) {
	case LOCK_KIND_COUNT:
		for (unsigned i = 0; i < hold->ntickets; i++) {
			t.ticket = slice_str(hold->tickets[i]);
			send_release(hold, rewrite_leave(&out, &t, true), &out);
		}
		break;
	case LOCK_KIND_TOKEN:
		/* The latest. */
		if (hold->ntickets == 0)
			break;
		t.ticket = slice_str(hold->tickets[hold->ntickets - 1]);
		send_release(hold, rewrite_unlock(&out, &t.id, t.ticket), &out);
		break;
	case LOCK_KIND_RULE:
	case LOCK_KIND_VALUE:
		/* Of those who share a token, one may have taken it again at another worker. */
		if (hold->shared && !isinf(left))
			most_ms = left > 0 ? (int64_t)(left * 1000) + RELEASE_SLACK_MS : 1;
		send_release(hold, rewrite_release(&out, &t.id, 0, most_ms), &out);
		break;
	case LOCK_KIND_GUARD:
		/* Kept in other books: reading.h. */
		break;
	}
	buf_release(&out);
}

void hold_owner_end(struct hold_owner *o)
{
	while (!list_empty(&o->holds)) {
		struct hold *hold = container_of(o->holds.next, struct hold, node);
		if (hold->release)
			hold_release(hold);
		hold_free(hold);
	}
}
