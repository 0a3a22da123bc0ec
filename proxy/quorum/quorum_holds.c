/* SPDX-License-Identifier: BSD-3-Clause */
#include <math.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "quorum/quorum_internal.h"

/* hasp renews each third of the lease, and repeats a failed renewal after a tenth. */
#define RENEWALS_PER_LEASE 3
#define RETRIES_PER_LEASE 10

static void quorum_hold_on_timer(struct timer *t, double now);

static size_t quorum_hold_nbytes(const struct quorum_hold *h)
{
	return sizeof(*h) + buf_cap(&h->key) + buf_cap(&h->owner) + buf_cap(&h->value);
}

static void quorum_hold_free(struct quorum_hold *h)
{
	timer_stop(h->q->opts.timers, &h->timer);
	if (h->renewal)
		quorum_op_cancel(h->renewal);
	quorum_events_ended(h);
	list_remove(&h->node);
	map_remove(&h->q->holds, &h->by_value);
	h->of->n--;
	h->of->nbytes -= quorum_hold_nbytes(h);
	buf_release(&h->key);
	buf_release(&h->owner);
	buf_release(&h->value);
	free(h);
}

static void quorum_hold_await(struct quorum_hold *h, double at)
{
	timer_start(h->q->opts.timers, &h->timer, quorum_hold_on_timer,
	            at < h->good_until ? at : h->good_until, 0);
}

static double quorum_hold_next_renewal(const struct quorum_hold *h, double began)
{
	return began + (double)h->lease_ms / 1000 / RENEWALS_PER_LEASE;
}

/* --- the end ------------------------------------------------------------------------------ */

static void quorum_hold_release(struct quorum_hold *h)
{
	double until = timers_now(h->q->opts.timers) + 2 * (double)h->lease_ms / 1000;

	(void)quorum_release_new(h->q, buf_slice(&h->key), buf_slice(&h->value), UINT32_MAX,
	                         until, NULL, NULL);
}

static void quorum_hold_lost(struct quorum_hold *h, const char *reason)
{
	struct quorum *q = h->q;
	struct quorum_owner *o = h->of;

	quorum_events_lost(h, reason);
	quorum_hold_release(h);
	quorum_hold_free(h);
	q->opts.on_lost(q->opts.arg, o);
}

/* --- renewal ------------------------------------------------------------------------------ */

/* Frees the call: the next renewal shows the result of the repeated vote. */
static void quorum_hold_on_voted(struct quorum_call *call, const struct quorum_answer *a)
{
	(void)a;
	free(call);
}

/* Takes the lock at servers that lack it, because they have forgotten it or had not taken it
 * yet. A majority has the lock. */
static void quorum_hold_restore(struct quorum_hold *h, uint32_t absent)
{
	struct buf lease = BUF_INIT;
	struct slice argv[2] = { buf_slice(&h->value) };

	buf_printf(&lease, "%lld", (long long)h->lease_ms);
	argv[1] = buf_slice(&lease);
	for (size_t i = 0; i < h->q->opts.nservers; i++) {
		struct quorum_call *call;

		if (!(absent & UINT32_C(1) << i))
			continue;
		call = xcalloc(1, sizeof(*call));
		call->fn = quorum_hold_on_voted;
		if (!quorum_peer_call(h->q, i, SCRIPT_QUORUM_TAKE, buf_slice(&h->key), argv, 2,
		                      call))
			free(call);
	}
	buf_release(&lease);
}

static void quorum_hold_on_renewed(void *arg, const struct quorum_result *r)
{
	struct quorum_hold *h = arg;
	double now = timers_now(h->q->opts.timers), lease = (double)h->lease_ms / 1000;

	h->renewal = NULL;
	if (now >= h->good_until) {
		quorum_hold_lost(h, "no majority renewed it in time");
	} else if (r->verdict == QUORUM_WON) {
		if (r->good_until > h->good_until)
			h->good_until = r->good_until;
		quorum_events_renewed(h);
		quorum_hold_restore(h, r->absent);
		quorum_hold_await(h, quorum_hold_next_renewal(h, r->began));
	} else if (r->nno >= quorum_majority(h->q->opts.nservers)) {
		quorum_hold_lost(h, "a majority of the servers does not have it any more");
	} else {
		quorum_hold_await(h, now + lease / RETRIES_PER_LEASE);
	}
}

static void quorum_hold_renew(struct quorum_hold *h)
{
	const struct quorum_ask ask = {
		.request = QUORUM_EXTEND,
		.key = buf_slice(&h->key),
		.claim = { .owner = buf_slice(&h->owner) },
		.value = buf_slice(&h->value),
		.lease_ms = h->lease_ms,
		.renews = true,
		.done = quorum_hold_on_renewed,
		.arg = h,
	};

	h->renewal = quorum_op_new(h->q, &ask);
	quorum_hold_await(h, INFINITY);
	quorum_op_start(h->renewal);
}

static void quorum_hold_on_timer(struct timer *t, double now)
{
	struct quorum_hold *h = container_of(t, struct quorum_hold, timer);

	if (now >= h->good_until && h->renewed) {
		quorum_hold_lost(h, "no majority renewed it in time");
	} else if (now >= h->good_until) {
		quorum_hold_free(h);
	} else if (h->renewed && now < h->renew_until) {
		quorum_hold_renew(h);
	} else {
		h->renewed = false;
		quorum_hold_await(h, INFINITY);
	}
}

/* --- the holds of clients ----------------------------------------------------------------- */

void quorum_owner_init(struct quorum_owner *o, void *arg)
{
	*o = (struct quorum_owner){ .arg = arg };
	list_init(&o->holds);
}

void quorum_hold_add(struct quorum *q, struct quorum_owner *o, const struct quorum_result *r)
{
	const struct quorum_terms_of_hold *terms = &r->terms;
	struct quorum_hold *h = xcalloc(1, sizeof(*h));

	h->q = q;
	h->of = o;
	list_append(&o->holds, &h->node);
	o->n++;
	buf_append(&h->key, r->key);
	buf_append(&h->owner, r->owner);
	buf_append(&h->value, r->value);
	o->nbytes += quorum_hold_nbytes(h);
	h->by_value.key = buf_slice(&h->value);
	map_put(&q->holds, &h->by_value);
	h->since = timers_now(q->opts.timers);
	h->lease_ms = r->lease_ms;
	h->fence = r->fence;
	h->good_until = r->good_until;
	h->renewed = terms->renewed;
	h->released_at_end = terms->released_at_end;
	h->renew_until = terms->max_hold_ms ? r->began + (double)terms->max_hold_ms / 1000
	                                    : INFINITY;
	quorum_events_held(h);
	quorum_hold_await(h, h->renewed ? quorum_hold_next_renewal(h, r->began) : INFINITY);
}

struct quorum_hold *quorum_hold_find(const struct quorum_owner *o, struct slice key,
                                     struct slice owner)
{
	for (struct list *at = o->holds.next; at != &o->holds; at = at->next) {
		struct quorum_hold *h = container_of(at, struct quorum_hold, node);

		if (slice_eq(buf_slice(&h->key), key) && slice_eq(buf_slice(&h->owner), owner))
			return h;
	}
	return NULL;
}

bool quorum_owner_has(const struct quorum_owner *o, struct slice key)
{
	for (struct list *at = o->holds.next; at != &o->holds; at = at->next) {
		const struct quorum_hold *h = container_of(at, struct quorum_hold, node);

		if (slice_eq(buf_slice(&h->key), key) &&
		    h->good_until > timers_now(h->q->opts.timers))
			return true;
	}
	return false;
}

struct slice quorum_hold_value(const struct quorum_hold *h)
{
	return buf_slice(&h->value);
}

int64_t quorum_hold_lease_ms(const struct quorum_hold *h)
{
	return h->lease_ms;
}

int64_t quorum_hold_fence(const struct quorum_hold *h)
{
	return h->fence;
}

void quorum_hold_extend(struct quorum_hold *h, const struct quorum_result *r)
{
	if (h->renewal)
		quorum_op_cancel(h->renewal);
	h->renewal = NULL;
	h->renewed &= r->terms.renewed;
	if (r->good_until > h->good_until)
		h->good_until = r->good_until;
	h->lease_ms = r->lease_ms > h->lease_ms ? r->lease_ms : h->lease_ms;
	quorum_hold_await(h, h->renewed ? quorum_hold_next_renewal(h, r->began) : INFINITY);
}

void quorum_hold_end(struct quorum_hold *h)
{
	quorum_hold_free(h);
}

void quorum_hold_end_other(struct quorum *q, struct slice value)
{
	struct map_node *node = map_get(&q->holds, value);

	if (node)
		quorum_hold_free(container_of(node, struct quorum_hold, by_value));
}

void quorum_owner_end(struct quorum_owner *o, bool release)
{
	if (o->op)
		quorum_op_cancel(o->op);
	o->op = NULL;
	while (!list_empty(&o->holds)) {
		struct quorum_hold *h = container_of(o->holds.next, struct quorum_hold, node);

		if (release && h->released_at_end) {
			quorum_events_dropped(h);
			quorum_hold_release(h);
		}
		quorum_hold_free(h);
	}
}

/* --- for lists of the holds --------------------------------------------------------------- */

struct walk_arg {
	quorum_held_fn *fn;
	void *arg;
};

static void walk_quorum_hold(void *arg, struct map_node *node)
{
	const struct walk_arg *w = arg;
	const struct quorum_hold *h = container_of(node, struct quorum_hold, by_value);
	const struct quorum_held held = {
		.of = h->of,
		.key = buf_slice(&h->key),
		.owner = buf_len(&h->owner) ? buf_slice(&h->owner)
		                            : quorum_value_content(buf_slice(&h->value)),
		.fence = h->fence,
		.since = h->since,
		.good_until = h->good_until,
		.renewed = h->renewed,
	};

	w->fn(w->arg, &held);
}

uint64_t quorum_walk(const struct quorum *q, uint64_t cursor, quorum_held_fn *fn, void *arg)
{
	struct walk_arg w = { fn, arg };

	return map_scan(&q->holds, cursor, walk_quorum_hold, &w);
}
