/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/sighting.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "base/random.h"

struct discoverer *discoverer_new(double (*clock)(void))
{
	struct discoverer *d = xcalloc(1, sizeof(*d));
	uint8_t secret[SIPHASH_SECRET_SIZE];

	random_bytes(secret, sizeof(secret));
	pthread_mutex_init(&d->lock, NULL);
	d->clock = clock;
	d->discovery = discovery_new(secret, 0, clock());
	d->sampling = discovery_sampling(d->discovery);
	return d;
}

void discoverer_free(struct discoverer *d)
{
	if (!d)
		return;
	discovery_free(d->discovery);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

void discoverer_turn_on(struct discoverer *d, size_t memory)
{
	pthread_mutex_lock(&d->lock);
	if (!d->is_on || memory < d->memory) {
		discovery_clear(d->discovery, d->clock());
		atomic_store(&d->commands, 0);
	}
	discovery_set_memory(d->discovery, memory);
	d->memory = memory;
	d->is_on = true;
	pthread_mutex_unlock(&d->lock);
}

void discoverer_turn_off(struct discoverer *d)
{
	pthread_mutex_lock(&d->lock);
	discovery_clear(d->discovery, d->clock());
	d->is_on = false;
	pthread_mutex_unlock(&d->lock);
}

static uint64_t count_commands(const struct discoverer *d)
{
	return atomic_load(&d->commands) + sampling_passed(d->sampling);
}

void discoverer_report(struct discoverer *d, const struct discovery_result *r, bool so_far,
                       struct buf *out)
{
	struct discovery_result counted = *r;
	struct discovery_snapshot *snapshot;

	counted.commands = count_commands(d);
	pthread_mutex_lock(&d->lock);
	snapshot = discovery_snapshot_new(d->discovery, so_far, d->clock());
	pthread_mutex_unlock(&d->lock);
	discovery_report(snapshot, &counted, out);
	discovery_snapshot_free(snapshot);
}

void discoverer_progress(struct discoverer *d, struct discovery_progress *p)
{
	pthread_mutex_lock(&d->lock);
	discovery_count(d->discovery, d->clock(), p);
	pthread_mutex_unlock(&d->lock);
	p->commands = count_commands(d);
}

void discoverer_see_client(struct discoverer *d, struct discovery_client **client,
                           struct slice address, const char *name)
{
	uint64_t called = name ? discovery_hash(d->discovery, slice_str(name)) : 0;

	pthread_mutex_lock(&d->lock);
	if (!*client)
		*client = discovery_client_new(d->discovery,
		                               discovery_hash(d->discovery, address));
	discovery_client_count(d->discovery, *client);
	discovery_client_rename(*client, called);
	pthread_mutex_unlock(&d->lock);
}

void discoverer_client_free(struct discoverer *d, struct discovery_client *client)
{
	if (!client)
		return;
	pthread_mutex_lock(&d->lock);
	discovery_client_free(d->discovery, client, d->clock());
	pthread_mutex_unlock(&d->lock);
}

void sighting_free(struct sighting *s)
{
	if (!s)
		return;
	buf_release(&s->bytes);
	free(s);
}

size_t sighting_nbytes(const struct sighting *s)
{
	return sizeof(*s) + s->n * sizeof(s->keys[0]) + buf_cap(&s->bytes);
}

static void sighted_effect(const struct sighting *s, const struct discovery_act *a,
                           const struct resp_reply *reply)
{
	bool done = effect_happened(&s->effect, reply);

	switch (s->effect.act) {
	case EFFECT_ACQUIRE:
		if (done)
			discovery_took(a, s->way, s->effect.lease_ms, s->value);
		else
			discovery_refused(a, s->way);
		break;
	case EFFECT_INCR:
		if (reply->integer == 1)
			discovery_took(a, DISCOVERY_INCR, 0, 0);
		else
			discovery_refused(a, DISCOVERY_INCR);
		break;
	case EFFECT_SET:
		if (done)
			discovery_wrote(a, s->value, s->effect.lease_ms);
		break;
	case EFFECT_EXPIRE:
		if (done)
			discovery_expires(a, s->effect.lease_ms);
		break;
	case EFFECT_PERSIST:
		if (done)
			discovery_expires(a, 0);
		break;
	case EFFECT_DELETE:
		discovery_deleted(a, (size_t)reply->integer == s->n);
		break;
	case EFFECT_CHANGE:
	case EFFECT_READ:
	case EFFECT_WRITE:
		discovery_used(a, done);
		break;
	}
}

void sighting_complete(const struct sighting *s, int db, const struct resp_reply *reply)
{
	struct discoverer *all = s->all;
	struct slice keys = buf_slice(&s->bytes);
	size_t at = 0;
	struct discovery_act a = {
		.discovery = all->discovery,
		.client = s->client,
		.db = db,
		.watches = s->watches,
		.under_lock = s->under_lock,
	};

	if (resp_reply_is_error(reply))
		return;
	pthread_mutex_lock(&all->lock);
	/* While the lock is held, so that it does not go back from one call to the next. */
	a.now = all->clock();
	a.sent = s->sent_at > 0 ? s->sent_at : a.now;
	for (size_t i = 0; i < s->n && all->is_on; i++) {
		a.key = s->keys[i].n ? slice_of(keys.p + at, s->keys[i].n) : SLICE_LIT("");
		a.covered = s->keys[i].covered;
		at += a.key.n;
		if (s->kind == SIGHTING_SCRIPT)
			discovery_script(&a, s->args, s->nargs);
		else if (s->kind == SIGHTING_EFFECT)
			sighted_effect(s, &a, reply);
		else if (s->kind == SIGHTING_LOOK) {
			if (reply->integer == 0)
				discovery_missed(&a);
		} else if (reply->nil || reply->has_nil)
			discovery_missed(&a);
		else
			discovery_read(&a, s->how);
	}
	pthread_mutex_unlock(&all->lock);
}
