/* SPDX-License-Identifier: BSD-3-Clause */
#include "watch/shared_tracker.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "base/log.h"
#include "base/random.h"
#include "watch/tracker_internal.h"

/* Bytes for observed keys, in addition to the memory of discovery. */
#define OBSERVE_MEMORY ((size_t)48 << 20)

struct shared_tracker *shared_tracker_new(double (*clock)(void))
{
	struct shared_tracker *s = xcalloc(1, sizeof(*s));
	uint8_t secret[SIPHASH_SECRET_SIZE];

	random_bytes(secret, sizeof(secret));
	pthread_mutex_init(&s->lock, NULL);
	s->clock = clock;
	s->tracker = tracker_new(secret, 0, clock());
	s->sampling = s->tracker->sampling;
	return s;
}

void shared_tracker_free(struct shared_tracker *s)
{
	tracker_free(s->tracker);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

static void set_memory(struct shared_tracker *s)
{
	s->tracker->memory = (s->discovers ? s->memory : 0) +
	                     (s->observes ? OBSERVE_MEMORY : 0);
}

void shared_tracker_discover(struct shared_tracker *s, size_t memory)
{
	pthread_mutex_lock(&s->lock);
	if (!s->discovers || memory < s->memory) {
		tracker_clear(s->tracker, s->clock());
		atomic_store(&s->commands, 0);
	}
	s->memory = memory;
	s->discovers = true;
	set_memory(s);
	pthread_mutex_unlock(&s->lock);
}

void shared_tracker_stop(struct shared_tracker *s)
{
	pthread_mutex_lock(&s->lock);
	tracker_clear(s->tracker, s->clock());
	s->discovers = false;
	set_memory(s);
	pthread_mutex_unlock(&s->lock);
}

static uint64_t count_commands(const struct shared_tracker *s)
{
	return atomic_load(&s->commands) + sampling_passed(s->sampling);
}

void shared_tracker_report(struct shared_tracker *s, const struct discovery_result *r,
                           bool so_far, struct buf *out)
{
	struct discovery_result counted = *r;
	struct discovery_snapshot *snapshot;

	counted.commands = count_commands(s);
	pthread_mutex_lock(&s->lock);
	snapshot = discovery_snapshot_new(s->tracker, so_far, s->clock());
	pthread_mutex_unlock(&s->lock);
	discovery_report(snapshot, &counted, out);
	discovery_snapshot_free(snapshot);
}

void shared_tracker_progress(struct shared_tracker *s, struct discovery_progress *p)
{
	pthread_mutex_lock(&s->lock);
	discovery_count(s->tracker, s->clock(), p);
	pthread_mutex_unlock(&s->lock);
	p->commands = count_commands(s);
}

struct key_group *shared_tracker_rule(struct shared_tracker *s, enum observed_kind kind,
                                      const char *name, bool by_value)
{
	struct key_group *group;

	pthread_mutex_lock(&s->lock);
	group = tracker_rule(s->tracker, kind, name, by_value);
	s->observes = true;
	set_memory(s);
	pthread_mutex_unlock(&s->lock);
	return group;
}

void shared_tracker_each_observed(struct shared_tracker *s, observed_fn *fn, void *arg)
{
	pthread_mutex_lock(&s->lock);
	tracker_each_observed(s->tracker, fn, arg);
	pthread_mutex_unlock(&s->lock);
}

bool shared_tracker_log(struct shared_tracker *s)
{
	struct buf lines = BUF_INIT;
	bool any;

	pthread_mutex_lock(&s->lock);
	observe_report(s->tracker, s->clock(), &lines);
	pthread_mutex_unlock(&s->lock);
	any = buf_len(&lines) > 0;
	log_lines(LOG_SEV_INFO, buf_slice(&lines));
	buf_release(&lines);
	return any;
}

void shared_tracker_see(struct shared_tracker *s, struct tracker_client **client,
                        struct slice address, const char *name)
{
	uint64_t called = name ? tracker_hash(s->tracker, slice_str(name)) : 0;

	pthread_mutex_lock(&s->lock);
	if (!*client)
		*client = tracker_client_new(s->tracker, tracker_hash(s->tracker, address));
	tracker_client_count(s->tracker, *client);
	tracker_client_rename(*client, called);
	pthread_mutex_unlock(&s->lock);
}

void shared_tracker_label(struct shared_tracker *s, struct tracker_client *client,
                          const char *label)
{
	pthread_mutex_lock(&s->lock);
	tracker_client_label(client, label);
	pthread_mutex_unlock(&s->lock);
}

void shared_tracker_forget(struct shared_tracker *s, struct tracker_client *client)
{
	if (!client)
		return;
	pthread_mutex_lock(&s->lock);
	tracker_client_free(s->tracker, client, s->clock());
	pthread_mutex_unlock(&s->lock);
}
