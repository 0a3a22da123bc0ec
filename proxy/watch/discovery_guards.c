/* SPDX-License-Identifier: BSD-3-Clause
 *
 * discovery_guards: who reads a value and writes it back, and who wrote meanwhile.
 */
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/discovery_internal.h"

/* Carts and sessions are written back while they are used, caches near their end. */
#define LATE_SHARE 0.5

/* Has it taken a lock that it has not released yet? */
static bool has_lock(const struct discovery_client *c)
{
	for (struct list *at = c->holds.next; at != &c->holds; at = at->next) {
		const struct held_lock *h = container_of(at, struct held_lock, in_client);
		if (h->state != HOLD_MAYBE && discovery_may_be_lock(h))
			return true;
	}
	return false;
}

void discovery_read(const struct discovery_act *a, enum discovery_read how)
{
	struct discovery *d = a->discovery;
	struct discovery_client *c = a->client;
	struct key *k = discovery_key(a);
	struct last_read *r;
	uint64_t window;

	if (!k)
		return;
	discovery_used(a, false);
	discovery_lock_read(a, k);
	k->shape->nread++;
	window = sampling_window(k->sampled);
	/* That of another client may come and go unseen before it is written back. */
	if (!window)
		return;
	r = discovery_last_read(k, c);
	if (!r) {
		if (d->used > d->memory || k->nreads == READS_MAX)
			return;
		if (c->nreads == READS_PER_CLIENT)
			discovery_last_read_free(
				d, container_of(c->reads.next, struct last_read, in_client));
		r = xcalloc(1, sizeof(*r));
		r->key = k;
		r->client = c;
		list_append(&k->reads, &r->in_key);
		list_append(&c->reads, &r->in_client);
		k->nreads++;
		c->nreads++;
		d->used += discovery_cost(sizeof(*r));
	}
	r->version = k->version;
	r->value = k->written;
	r->how = how;
	r->at = a->now;
	r->window = window;
	r->under_lock = a->under_lock || has_lock(c);
	/* Where the two crossed, the answers of several links or workers do not tell whether it
	 * was this value or the one before. */
	r->is_dated = k->life > 0 && k->written_window == window && a->sent >= k->written_at;
	r->is_late = r->is_dated && a->now - k->written_at >= LATE_SHARE * k->life;
}

void discovery_missed(const struct discovery_act *a)
{
	struct key *k = discovery_known_key(a);
	struct last_read *r = k ? discovery_last_read(k, a->client) : NULL;

	a->client->missed = discovery_key_hash(a);
	if (k)
		discovery_lock_read(a, k);
	/* What it had read before is not what it writes now. */
	if (r)
		discovery_last_read_free(a->discovery, r);
}

/* It has read one key and then another, and writes them back one after the other: guards would
 * make it wait for one who does so the other way round. What one command reads, it guards at
 * once. */
static bool is_nested(const struct discovery_client *c, const struct last_read *r)
{
	return c->wrote == r->key->shape && r->at < c->wrote_at && r->at != c->wrote_read_at;
}

static void note_written_back(const struct discovery_act *a, const struct key *k,
                              const struct last_read *r, uint64_t value, int64_t lease_ms)
{
	struct shape *s = k->shape;
	struct guard_sums *g;
	/* What was read and written back as it was is no update that could be lost. */
	bool is_stale = r->version != k->version && k->writer != a->client->id &&
	                !(value && value == r->value);

	if (!s->guard) {
		s->guard = xcalloc(1, sizeof(*s->guard));
		a->discovery->used += discovery_cost(sizeof(*s->guard));
	}
	g = s->guard;
	sampling_make_whole(k->sampled);
	g->written_back++;
	g->how |= r->how;
	g->nested += is_nested(a->client, r);
	g->lasting += lease_ms <= 0;
	g->dated += r->is_dated;
	g->late += r->is_late;
	if ((double)lease_ms / 1e3 > g->life_max)
		g->life_max = (double)lease_ms / 1e3;
	a->client->wrote = k->shape;
	a->client->wrote_at = a->now;
	a->client->wrote_read_at = r->at;
	durations_add(&g->between, a->now - r->at);
	if (k->nreads > g->crowd)
		g->crowd = k->nreads;
	if (!a->watches && r->under_lock)
		g->under_lock++;
	if (r->under_lock)
		discovery_lock_worked(a, r->at, is_stale);
	if (r->under_lock)
		g->stale_under_lock += is_stale;
	else if (!a->watches)
		g->stale += is_stale;
}

void discovery_wrote(const struct discovery_act *a, uint64_t value, int64_t lease_ms)
{
	struct key *k = discovery_key(a);
	struct last_read *r;

	if (!k)
		return;
	discovery_looker_set(k, a->client);
	k->is_written |= !discovery_lock_set_again(a, k, value, lease_ms);
	discovery_used(a, false);
	r = discovery_last_read(k, a->client);
	if (r) {
		if (r->window == sampling_window(k->sampled))
			note_written_back(a, k, r, value, lease_ms);
		discovery_last_read_free(a->discovery, r);
	}
	discovery_note_write(k, a->client, value);
	k->written_at = a->now;
	k->written_window = sampling_window(k->sampled);
	k->life = lease_ms > 0 ? (double)lease_ms / 1e3 : 0;
}
