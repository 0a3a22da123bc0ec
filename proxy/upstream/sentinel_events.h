/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sentinel_events: subscribes at all sentinels to the events of one primary's failovers.
 *
 * The sentinel that leads a failover publishes each step; no other sentinel publishes any
 * before the new primary is promoted:
 *
 *   select a replica --> tell it to be a primary --> wait --> promoted --> the others follow it
 *        BEGUN                BEGUN                  BEGUN    PROMOTED       SWITCHED
 *          |                    |                      |
 *          '--------------------'----------------------'--> ABORTED
 *
 * About a tenth of a second passes between the first two steps, before the replica gets the
 * command. The other sentinels publish SWITCHED when they hear of the new primary, usually
 * before the leader.
 *
 * Source: sentinelEvent() in Redis' sentinel.c; https://redis.io/docs/management/sentinel
 */
#ifndef HASP_UPSTREAM_SENTINEL_EVENTS_H
#define HASP_UPSTREAM_SENTINEL_EVENTS_H

#include <stddef.h>

#include "upstream/link.h"

enum sentinel_event {
	SENTINEL_BEGUN, /* the primary is going to be replaced, or that goes on */
	SENTINEL_ABORTED, /* it stays */
	SENTINEL_PROMOTED, /* this sentinel names the new one from now on */
	SENTINEL_SWITCHED, /* so does this one, and knows whom the others follow */
	SENTINEL_NEVENTS,
};

/* The event that a message means; SENTINEL_NEVENTS: none, or of another primary than `master`.
 */
enum sentinel_event sentinel_event_read(struct slice channel, struct slice message,
                                        const char *master);

struct sentinel_events;

struct sentinel_events_how {
	const struct link_env *links; /* what all links share; without an address */
	const char *master; /* its name; outlives the listening */
	/* `sentinel`: the address, as it was given. May not call functions of this file. */
	void (*on_event)(void *arg, const char *sentinel, enum sentinel_event event);
	void *arg;
};

struct sentinel_events *sentinel_events_new(const struct sentinel_events_how *how);
/* NULL is allowed. */
void sentinel_events_free(struct sentinel_events *e);

/* From now on these sentinels are listened to (addresses), and no others. */
void sentinel_events_listen(struct sentinel_events *e, char *const *names, size_t n);

/* links_reap(): once per turn of the loop. NULL is allowed. */
void sentinel_events_reap(struct sentinel_events *e);

#endif
