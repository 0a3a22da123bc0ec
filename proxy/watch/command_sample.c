/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/command_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

void command_sample_free(struct command_sample *s)
{
	if (!s)
		return;
	buf_release(&s->bytes);
	free(s);
}

size_t command_sample_nbytes(const struct command_sample *s)
{
	return sizeof(*s) + s->n * sizeof(s->keys[0]) + buf_cap(&s->bytes);
}

static enum tracker_gone what_is_gone(const struct command_sample *s,
                                      const struct resp_reply *reply)
{
	if (reply->type != ':')
		return reply->nil ? TRACKER_WAS_GONE : TRACKER_GONE;
	if (reply->integer == 0)
		return TRACKER_WAS_GONE;
	return (size_t)reply->integer == s->nargs ? TRACKER_GONE : TRACKER_MAY_BE_GONE;
}

/* A client that sets an expiry of at most this many ms releases its lock. */
#define RELEASE_MS 10

static void complete_expire(const struct command_sample *s, const struct tracker_act *a,
                            bool done)
{
	if (s->effect.lease_ms <= RELEASE_MS)
		tracker_deleted(a, done ? TRACKER_GONE : TRACKER_WAS_GONE);
	else if (done)
		tracker_expires(a, s->effect.lease_ms);
	else
		tracker_expires_not(a);
}

static void complete_set(const struct command_sample *s, const struct tracker_act *a,
                         const struct resp_reply *reply)
{
	bool done = effect_happened(&s->effect, reply);

	if (s->effect.lease_ms > 0 && s->effect.lease_ms <= RELEASE_MS)
		tracker_deleted(a, done ? TRACKER_MAY_BE_GONE : TRACKER_WAS_GONE);
	else if (done && !(s->swaps && tracker_swapped(a, s->value, !reply->nil)))
		tracker_wrote(a, s->value, s->effect.lease_ms, false);
}

static void complete_effect(const struct command_sample *s, const struct sighted_key *k,
                            const struct tracker_act *a, const struct resp_reply *reply)
{
	bool done = effect_happened(&s->effect, reply);

	switch (s->effect.act) {
	case EFFECT_ACQUIRE:
		if (done)
			tracker_took(a, s->way, s->effect.lease_ms, s->value);
		else
			tracker_refused(a, s->way);
		break;
	case EFFECT_INCR:
		tracker_acted(a);
		if (reply->integer == 1)
			tracker_took(a, WAY_INCR, 0, 0);
		else
			tracker_refused(a, WAY_INCR);
		break;
	case EFFECT_SET:
		complete_set(s, a, reply);
		break;
	case EFFECT_EXPIRE:
		complete_expire(s, a, done);
		break;
	case EFFECT_PERSIST:
		if (done)
			tracker_expires(a, 0);
		break;
	case EFFECT_DELETE:
		tracker_deleted(a, what_is_gone(s, reply));
		break;
	case EFFECT_CHANGE:
	case EFFECT_READ:
	case EFFECT_WRITE:
		if (done && k->use == KEY_LOCK) {
			tracker_changed(a);
			break;
		}
		tracker_acted(a);
		tracker_used(a, done);
		break;
	}
}

/* The least integer reply of a script that may be a lock's value, such as the time at which the
 * lock ends. Smaller integers are counts, or answers such as 1. */
#define RETURNED_LEAST 1000000

static uint64_t returned_hash(const struct tracker_act *a, const struct resp_reply *reply)
{
	char digits[24];
	int n;

	if (reply->type != ':' || reply->integer < RETURNED_LEAST)
		return 0;
	n = snprintf(digits, sizeof(digits), "%lld", reply->integer);
	return tracker_hash(a->tracker, slice_of(digits, (size_t)n));
}

/* Returns the number that a look at a key showed: 0 for nil, 1 for any other single value, or
 * NUMBER_UNKNOWN. */
static int64_t number_shown(const struct resp_reply *reply)
{
	if (reply->type == ':')
		return reply->integer;
	return reply->nil ? 0 : strchr("$,", reply->type) ? 1 : NUMBER_UNKNOWN;
}

/* Handles the effect on a hash of a command that reads, sets or changes some of its fields.
 * complete_key() handles each field. Also handles looks at keys of other types. */
static void complete_whole(const struct command_sample *s, const struct tracker_act *a,
                           const struct resp_reply *reply)
{
	bool writes = s->kind == COMMAND_SAMPLE_EFFECT;

	if (!writes && s->kind != COMMAND_SAMPLE_SCRIPT)
		tracker_looked(a, number_shown(reply),
		               s->kind == COMMAND_SAMPLE_READ && s->nfields == 0 &&
		                       !reply->nil && !reply->has_nil);
	else if (s->nfields)
		tracker_acted(a);
	if (s->nfields && (writes || !reply->nil))
		tracker_used(a, writes && effect_happened(&s->effect, reply));
}

static void complete_key(const struct command_sample *s, const struct sighted_key *k,
                         const struct tracker_act *a, const struct resp_reply *reply)
{
	if (k->use == KEY_GUARD_READ) {
		tracker_read(a, READ_GET);
	} else if (k->use == KEY_GUARD_WRITTEN) {
		if (effect_happened(&s->effect, reply))
			tracker_wrote(a, s->value, s->effect.lease_ms, k->keeps_read);
	} else if (s->kind == COMMAND_SAMPLE_SCRIPT) {
		tracker_script(
			a, &(struct tracker_script){
				   .id = s->script,
				   .args = s->script_args,
				   .nargs = s->nscript_args,
				   .nkeys = s->nargs,
				   .did = !reply->nil && (reply->type != ':' || reply->integer),
				   .returned = returned_hash(a, reply),
			   });
	} else if (s->nfields && s->kind == COMMAND_SAMPLE_EFFECT && k->use == KEY_ANY) {
		if (s->sets_fields)
			tracker_wrote(a, s->value, -1, false);
		else
			tracker_used(a, effect_happened(&s->effect, reply));
	} else if (s->kind == COMMAND_SAMPLE_EFFECT) {
		complete_effect(s, k, a, reply);
	} else if (s->kind == COMMAND_SAMPLE_LIST) {
		if (k->use == KEY_ANY)
			tracker_listed(a);
	} else if (s->kind == COMMAND_SAMPLE_OTHER) {
		return;
	} else if (s->kind == COMMAND_SAMPLE_LOOK) {
		if (reply->integer == s->absent)
			tracker_missed(a, true);
	} else if (reply->nil || reply->has_nil) {
		tracker_missed(a, false);
	} else {
		tracker_read(a, s->how);
	}
}

void command_sample_complete(const struct command_sample *s, int db,
                             const struct resp_reply *reply)
{
	struct shared_tracker *all = s->all;
	struct slice keys = buf_slice(&s->bytes);
	struct buf told = BUF_INIT;
	size_t at = 0, nfields;
	struct tracker_act a = {
		.tracker = all->tracker,
		.client = s->client,
		.db = db,
		.watches = s->watches,
		.npipelined = s->npipelined,
		.tried = s->value,
		.under_lock = s->under_lock,
		.number = s->nfields == 0 && reply->type == ':' ? reply->integer
		                                                : NUMBER_UNKNOWN,
		.told = &told,
	};

	if (resp_reply_is_error(reply))
		return;
	pthread_mutex_lock(&all->lock);
	/* Read the clock under the lock, so that the tracker's time never goes back. */
	a.now = all->clock();
	a.sent = s->is_queued ? a.now : s->sent_at;
	a.queued = a.sent - s->sent_at;
	for (size_t i = 0; i < s->n; i++) {
		const struct sighted_key *k = &s->keys[i];
		a.key = k->n ? slice_of(keys.p + at, k->n) : SLICE_LIT("");
		a.group = k->group;
		a.owner = k->owner;
		at += a.key.n;
		if (k->use == KEY_ANY && !all->discovers)
			continue;
		a.field = 0;
		if (k->use == KEY_ANY)
			complete_whole(s, &a, reply);
		nfields = k->use == KEY_ANY ? s->nfields : 0;
		for (size_t j = 0; j == 0 || j < nfields; j++) {
			a.field = nfields ? s->fields[j] : 0;
			complete_key(s, k, &a, reply);
		}
	}
	pthread_mutex_unlock(&all->lock);
	log_lines(LOG_SEV_INFO, buf_slice(&told));
	buf_release(&told);
}
