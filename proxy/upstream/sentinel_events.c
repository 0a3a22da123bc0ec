/* SPDX-License-Identifier: BSD-3-Clause */
#include "upstream/watcher_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "upstream/subscriber.h"

/* How often hasp checks a connection, in ms. */
#define CHECK_DELAY_MS 1000
/* hasp closes a connection on which nothing has come for this long, in ms. */
#define CHECK_TIMEOUT_MS 5000

static const struct {
	const char *channel;
	enum sentinel_event event;
} published[] = {
	{ "+switch-master", SENTINEL_SWITCHED },
	{ "+failover-state-select-slave", SENTINEL_BEGUN },
	{ "+failover-state-send-slaveof-noone", SENTINEL_BEGUN },
	{ "+failover-state-wait-promotion", SENTINEL_BEGUN },
	{ "+promoted-slave", SENTINEL_PROMOTED },
	{ "-failover-abort-no-good-slave", SENTINEL_ABORTED },
	{ "-failover-abort-slave-timeout", SENTINEL_ABORTED },
};
#define NPUBLISHED (sizeof(published) / sizeof(published[0]))

/* The connection to one sentinel. */
struct sentinel_sub {
	struct list node; /* in events.subs */
	struct sentinel_events *events;
	struct link_env links; /* links.name is the sentinel's address */
	struct subscriber *subscriber;
	bool wanted; /* sentinel_events_listen() has named the sentinel */
};

/* --- messages ----------------------------------------------------------------------------- */

/* Returns the name of the master that a message is about:
 *   +switch-master  NAME OLD-HOST OLD-PORT HOST PORT
 *   others          master NAME HOST PORT
 *                   slave HOST:PORT HOST PORT @ NAME PRIMARY'S-HOST PRIMARY'S-PORT */
static struct slice master_of(struct slice message, bool is_switch)
{
	struct slice kind = SLICE_NONE, word, name = SLICE_NONE;
	bool after_at = false;

	if (is_switch)
		return slice_cut(&message, ' ', &name) ? name : SLICE_NONE;
	(void)slice_cut(&message, ' ', &kind);
	while (slice_cut(&message, ' ', &word)) {
		if (after_at || slice_eq(kind, SLICE_LIT("master")))
			return word;
		after_at = slice_eq(word, SLICE_LIT("@"));
	}
	return SLICE_NONE;
}

enum sentinel_event sentinel_event_read(struct slice channel, struct slice message,
                                        const char *master)
{
	for (size_t i = 0; i < NPUBLISHED; i++) {
		enum sentinel_event event = published[i].event;
		if (!slice_eq(channel, slice_str(published[i].channel)))
			continue;
		return slice_eq(master_of(message, event == SENTINEL_SWITCHED),
		                slice_str(master))
		               ? event
		               : SENTINEL_NEVENTS;
	}
	return SENTINEL_NEVENTS;
}

/* --- one sentinel ------------------------------------------------------------------------- */

static void sentinel_sub_on_up(void *arg)
{
	struct sentinel_sub *e = arg;

	for (size_t i = 1; i < NPUBLISHED; i++)
		subscriber_call(e->subscriber, "SUBSCRIBE", slice_str(published[i].channel));
}

static void sentinel_sub_on_message(void *arg, struct slice channel, struct slice message)
{
	const struct sentinel_sub *e = arg;
	const struct sentinel_events *events = e->events;
	enum sentinel_event event = sentinel_event_read(channel, message, events->master);

	if (event != SENTINEL_NEVENTS)
		events->on_event(events->arg, e->links.name, event);
}

static void sentinel_sub_new(struct sentinel_events *events, const char *name)
{
	struct sentinel_sub *e = xcalloc(1, sizeof(*e));
	e->wanted = true;
	e->events = events;
	e->links = events->links;
	links_init(&e->links);
	e->links.address = address_of(name);
	e->links.name = xstrdup(name);
	list_init(&e->node);
	list_append(&events->subs, &e->node);
	e->subscriber = subscriber_new(&(struct subscriber_opts){
		.env = &e->links,
		.channel = published[0].channel,
		.on_up = sentinel_sub_on_up,
		.on_message = sentinel_sub_on_message,
		.arg = e,
	});
	subscriber_set_check(e->subscriber, CHECK_DELAY_MS, CHECK_TIMEOUT_MS);
	subscriber_open(e->subscriber);
}

static void sentinel_sub_free(struct sentinel_sub *e)
{
	list_remove(&e->node);
	subscriber_free(e->subscriber);
	links_reap(&e->links);
	free(e->links.name);
	tls_resume_clear(&e->links.tls_resume);
	free(e);
}

/* --- all sentinels ------------------------------------------------------------------------ */

void sentinel_events_listen(struct sentinel_events *e, char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		bool is_there = false;

		list_each (struct sentinel_sub, sub, &e->subs, node)
			if (strcmp(sub->links.name, names[i]) == 0)
				is_there = sub->wanted = true;
		if (!is_there)
			sentinel_sub_new(e, names[i]);
	}
	list_drain (struct sentinel_sub, sub, &e->subs, node) {
		if (!sub->wanted)
			sentinel_sub_free(sub);
		else
			sub->wanted = false;
	}
}

void sentinel_events_reap(struct sentinel_events *e)
{
	list_each (struct sentinel_sub, sub, &e->subs, node)
		links_reap(&sub->links);
}
