/* SPDX-License-Identifier: BSD-3-Clause
 *
 * tracker_guards: notices when a client reads a value and writes it back or changes it, and
 * when another client writes it in between.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "watch/tracker_internal.h"

/* A read is late if this fraction of the value's expiry has passed. A cache is read, and then
 * refreshed, late. A cart or session is written back while it is used, which is long before. */
#define LATE_SHARE 0.5
/* was_read_like() checks only this many of the key's latest readers. */
#define READERS_SEEN 16

void tracker_read(const struct tracker_act *a, enum read_opts how)
{
	struct tracker *d = a->tracker;
	struct tracker_client *c = a->client;
	struct key *k = tracker_key(a);
	struct last_read *r;
	uint64_t window;
	bool is_again;

	if (!k)
		return;
	tracker_used(a, false);
	tracker_lock_read(a, k, true);
	k->group->nread++;
	k->group->reread += c->filled == k->hash;
	window = key_window(k);
	/* Outside a window, hasp would not see other clients' writes before the value is
	 * written back. */
	if (!window)
		return;
	r = tracker_last_read(k, c);
	is_again = r;
	if (!r) {
		if (d->used > d->memory || k->nreads == READS_MAX)
			return;
		if (c->nreads == READS_PER_CLIENT)
			tracker_last_read_free(
				d, container_of(c->reads.next, struct last_read, in_client));
		r = xcalloc(1, sizeof(*r));
		r->key = k;
		r->client = c;
		list_append(&k->reads, &r->in_key);
		list_append(&c->reads, &r->in_client);
		k->nreads++;
		c->nreads++;
		d->used += tracker_cost(sizeof(*r));
	}
	r->again = is_again;
	r->version = k->version;
	r->writes = k->writes;
	r->depth = k->depth;
	r->value = k->written;
	r->how = how;
	r->at = a->now;
	r->window = window;
	r->hold = tracker_hold_over(a, &r->hold_group);
	/* A read that arrived before the reply to the write, on another link, may have returned
	 * the older value. */
	r->had_ttl = k->life > 0 && k->written_window == window && a->sent >= k->written_at;
	r->is_late = r->had_ttl && a->now - k->written_at >= LATE_SHARE * k->life;
}

void tracker_listed(const struct tracker_act *a)
{
	struct key *k = tracker_key(a);
	struct tracker_client *c = a->client;

	tracker_used(a, false);
	c->list.key = k ? k->hash : 0;
	c->list.emptied = false;
	if (!k)
		return;
	c->list.version = k->version;
	c->list.window = key_window(k);
}

void tracker_missed(const struct tracker_act *a, bool is_look)
{
	struct key *k = tracker_known_key(a);
	struct last_read *r = k ? tracker_last_read(k, a->client) : NULL;

	a->client->missed = tracker_key_hash(a);
	a->client->missed_at = a->now;
	if (k) {
		k->group->nmissed += !is_look;
		tracker_lock_read(a, k, false);
	}
	/* A later write does not depend on the value that the client had read before. */
	if (r)
		tracker_last_read_free(a->tracker, r);
}

/* True if the client read this key, then another key, and wrote the other key back first. With
 * guards, this client and one that uses the keys in the other order would wait for each other.
 * False if one command read both keys: it would get both guards at once. */
static bool is_nested(const struct tracker_client *c, const struct last_read *r)
{
	return r->at < c->wrote_at && r->at != c->wrote_read_at;
}

/* Counts a stale write: another client wrote the key after this client had read it, and now
 * this client overwrites the other client's value. */
static void note_stale(const struct tracker_act *a, struct key *k, const struct last_read *r)
{
	char more[96];

	snprintf(more, sizeof(more), " missed_writes=%llu read_ms_ago=%lld",
	         (unsigned long long)(k->writes - r->writes),
	         (long long)((a->now - r->at) * 1000));
	seen_event(a, k, LOST_UPDATE, k->last, more);
}

/* Counts how the client read and wrote the value: under one lock; near a lock, which ended in
 * between or which another connection of its pool may hold; or without any lock. */
static void note_lock(const struct tracker_act *a, struct key *k, const struct last_read *r,
                      bool is_stale)
{
	struct guard_sums *g = k->group->guard;

	if (r->hold && tracker_hold_lasts(a, r->hold)) {
		g->under_lock++;
		g->stale_under_lock += is_stale;
		tracker_lock_worked(a, r->at, is_stale);
	} else if (r->hold) {
		g->near_lock++;
		g->near = r->hold_group;
		g->stale_near_lock += is_stale;
	} else {
		g->stale += is_stale;
		g->in_turn += !is_stale && k->updater && k->updater != a->client->id;
		k->updater = a->client->id;
	}
}

static void note_written_back(const struct tracker_act *a, struct key *k,
                              const struct last_read *r, int64_t lease_ms)
{
	struct key_group *s = k->group;
	struct guard_sums *g = tracker_guard_sums(a->tracker, s);
	bool is_stale = r->version != k->version && k->writer != a->client->id;
	int64_t lost = (int64_t)(k->depth - r->depth);

	if (k->sampled)
		sampling_make_whole(k->sampled);
	g->written_back++;
	g->how |= r->how;
	g->reread += r->again;
	g->nested += is_nested(a->client, r);
	g->lasting += lease_ms <= 0;
	g->had_ttl += r->had_ttl;
	g->late += r->is_late;
	if ((double)lease_ms / 1e3 > g->life_max)
		g->life_max = (double)lease_ms / 1e3;
	a->client->wrote_at = a->now;
	a->client->wrote_read_at = r->at;
	durations_add(&g->between, a->now - r->at);
	if (k->nreads > g->max_readers)
		g->max_readers = k->nreads;
	if (!a->watches)
		note_lock(a, k, r, is_stale);
	if (is_stale && !a->watches)
		note_stale(a, k, r);
	k->depth = r->depth;
	g->lost += lost;
	if (k->harm)
		k->harm->lost += lost;
}

/* True if a connection with the client's address or name read the present value, and has not
 * written the key since. */
static bool was_read_like(const struct tracker_act *a, const struct key *k)
{
	const struct tracker_client *c = a->client;
	size_t n = 0;

	list_each_back (struct last_read, r, &k->reads, in_key) {
		if (n++ == READERS_SEEN)
			break;
		if ((c->address && r->client->address == c->address) ||
		    (c->name && r->client->name == c->name))
			return r->version == k->version;
	}
	return false;
}

void tracker_wrote(const struct tracker_act *a, uint64_t value, int64_t lease_ms,
                   bool keeps_read)
{
	struct key *k = tracker_written_key(a);
	struct last_read *r;

	if (!k)
		return;
	tracker_looker_set(a, k);
	if (!tracker_lock_set_again(a, k, value, lease_ms)) {
		if (k->group->rule && k->group->rule->kind == OBSERVED_LOCK)
			tracker_took(a, WAY_SET, lease_ms, value);
		else if (k->group->rule || !tracker_lock_seized(a, k, value, lease_ms))
			k->is_written = true;
	}
	tracker_used(a, false);
	k->group->nwritten++;
	r = tracker_last_read(k, a->client);
	if (r && r->window == key_window(k) && tracker_knew(a, r->at))
		note_written_back(a, k, r, lease_ms);
	else if (!r)
		k->group->hopped += was_read_like(a, k);
	key_note_write(k, a->client, value);
	if (r && keeps_read) {
		r->version = k->version;
		r->writes = k->writes;
		r->depth = k->depth;
	} else if (r) {
		tracker_last_read_free(a->tracker, r);
	}
	k->written_at = a->now;
	k->written_window = key_window(k);
	k->life = lease_ms > 0 ? (double)lease_ms / 1e3 : 0;
}

/* --- a look and then a change ------------------------------------------------------------ */

static struct last_seen *last_seen_of(struct tracker_client *c, uint64_t hash)
{
	return &c->looks[(hash >> 1) % LOOKS_KEPT];
}

static void numbers_add(struct numbers *all, int64_t number)
{
	if (number == NUMBER_UNKNOWN)
		return;
	if (all->n == 0 || number < all->least)
		all->least = number;
	if (all->n == 0 || number > all->most)
		all->most = number;
	all->n++;
}

void tracker_looked(const struct tracker_act *a, int64_t shown, bool is_string)
{
	struct key *k;
	struct sampled *place;
	struct last_seen *l;

	if (a->group || a->key.n == 0)
		return;
	k = tracker_known_key(a);
	l = last_seen_of(a->client, tracker_key_hash(a));
	if (k && l->key == k->hash)
		numbers_add(&k->group->left_at, l->number);
	place = k && k->sampled ? k->sampled : sampling_place(a->tracker->sampling, a->key);
	*l = (struct last_seen){
		.key = tracker_key_hash(a),
		.window = sampling_window(place),
		.version = k ? k->version : 0,
		.number = k && is_string ? k->number : shown,
		.is_string = is_string,
		.at = a->now,
	};
}

void tracker_acted(const struct tracker_act *a)
{
	struct key *k = a->group ? NULL : tracker_key(a);
	struct last_seen *l = k ? last_seen_of(a->client, k->hash) : NULL;
	const struct key_group *hold_group;
	struct key_group *s;

	if (!l || l->key != k->hash)
		return;
	l->key = 0;
	if (!l->window || l->window != key_window(k) || !tracker_knew(a, l->at) || a->watches ||
	    tracker_hold_over(a, &hold_group))
		return;
	s = k->group;
	s->acted++;
	s->lowered += l->is_string && a->number != NUMBER_UNKNOWN && a->number < k->number;
	numbers_add(&s->acted_on, l->number);
	s->acted_since += l->number != NUMBER_UNKNOWN && s->left_at.n > 0;
	s->acted_late += l->version != k->version && k->writer != a->client->id;
	s->acted_in_turn += k->actor && k->actor != a->client->id;
	k->actor = a->client->id;
}
