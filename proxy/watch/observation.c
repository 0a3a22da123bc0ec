/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/observation.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "base/log.h"

/* Some 50 MB at the very worst, with keys of 256 bytes. */
static const struct tracker_limits observer_limits = {
	.nkeys = 32768, .naccesses = 131072, .ntop = 10, .burst = 10
};

struct observers *observers_new(double (*clock)(void))
{
	struct observers *o = xcalloc(1, sizeof(*o));

	o->clock = clock;
	pthread_mutex_init(&o->lock, NULL);
	o->tracker = tracker_new(&observer_limits);
	return o;
}

void observers_free(struct observers *o)
{
	tracker_free(o->tracker);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

bool observers_report(struct observers *o)
{
	struct buf lines = BUF_INIT;
	bool any;

	pthread_mutex_lock(&o->lock);
	tracker_report(o->tracker, &lines);
	pthread_mutex_unlock(&o->lock);
	any = buf_len(&lines) > 0;
	log_lines(LOG_SEV_INFO, buf_slice(&lines));
	buf_release(&lines);
	return any;
}

void observer_free(struct observer *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->all->lock);
	tracker_client_free(o->client);
	pthread_mutex_unlock(&o->all->lock);
	free(o->name);
	free(o);
}

void observation_free(struct observation *o)
{
	if (!o)
		return;
	buf_release(&o->bytes);
	free(o);
}

size_t observation_nbytes(const struct observation *o)
{
	return sizeof(*o) + o->n * sizeof(*o->keys) + buf_cap(&o->bytes);
}

static enum tracker_gone what_is_gone(const struct observation *o,
                                      const struct resp_reply *reply)
{
	if (reply->type != ':')
		return reply->nil ? TRACKER_WAS_GONE : TRACKER_GONE;
	if (reply->integer == 0)
		return TRACKER_WAS_GONE;
	return (size_t)reply->integer == o->nargs ? TRACKER_GONE : TRACKER_MAY_BE_GONE;
}

static void observed_incr(const struct tracker_act *a, const struct resp_reply *reply)
{
	if (reply->integer == 1)
		tracker_took(a, 0, false);
	else
		tracker_refused(a);
}

static void observed_expire(const struct tracker_act *a, int64_t lease_ms, bool done)
{
	if (!done)
		tracker_expires_not(a);
	else if (lease_ms > 0)
		tracker_expires(a, lease_ms);
	else
		tracker_deleted(a, TRACKER_GONE);
}

static void report_key_access(const struct observation *o, const struct observed_key *k,
                              const struct tracker_act *a, const struct resp_reply *reply)
{
	bool done = effect_happened(&o->effect, reply);

	switch (k->act) {
	case EFFECT_READ:
		if (k->is_lock)
			tracker_seen(a, reply->nil);
		else
			tracker_read(a);
		break;
	case EFFECT_WRITE:
		if (done)
			tracker_wrote(a, k->releases);
		break;
	case EFFECT_ACQUIRE:
		done ? tracker_took(a, k->lease_ms, false) : tracker_refused(a);
		break;
	case EFFECT_SET:
		if (done)
			tracker_took(a, k->lease_ms, true);
		break;
	case EFFECT_INCR:
		observed_incr(a, reply);
		break;
	case EFFECT_EXPIRE:
		observed_expire(a, k->lease_ms, done);
		break;
	case EFFECT_PERSIST:
		if (done)
			tracker_expires(a, 0);
		break;
	case EFFECT_DELETE:
		tracker_deleted(a, what_is_gone(o, reply));
		break;
	case EFFECT_CHANGE:
		if (done)
			tracker_changed(a);
		break;
	}
}

void observation_complete(const struct observation *o, int db, const struct resp_reply *reply)
{
	struct observers *all = o->observer->all;
	struct slice rest = buf_slice(&o->bytes);
	struct buf told = BUF_INIT;
	struct tracker_act a = {
		.tracker = all->tracker,
		.client = o->observer->client,
		.db = db,
		.told = &told,
	};

	if (resp_reply_is_error(reply))
		return;
	pthread_mutex_lock(&all->lock);
	/* While the lock is held, so that it does not go back from one call to the next. */
	a.now = all->clock();
	a.sent = o->sent_at > 0 ? o->sent_at : a.now;
	for (size_t i = 0; i < o->n; i++) {
		const struct observed_key *k = &o->keys[i];
		a.rule = k->rule;
		a.token = slice_of(rest.p, k->ntoken);
		a.key = slice_of(rest.p + k->ntoken, k->nkey);
		rest.p += k->ntoken + k->nkey;
		report_key_access(o, k, &a, reply);
	}
	pthread_mutex_unlock(&all->lock);
	log_lines(LOG_SEV_INFO, buf_slice(&told));
	buf_release(&told);
}
