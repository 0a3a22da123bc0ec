/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watcher_internal: what the watcher's rounds of questions (watcher.c), and the thread
 * (watcher_thread.c) share, and the connections to the servers and sentinels.
 */
#ifndef HASP_UPSTREAM_WATCHER_INTERNAL_H
#define HASP_UPSTREAM_WATCHER_INTERNAL_H

#include <ev.h>
#include <hiredis/hiredis.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "net/loop_timers.h"
#include "net/mailbox.h"
#include "net/resolve.h"
#include "net/stream.h"
#include "upstream/link.h"
#include "upstream/own_conn.h"
#include "upstream/sentinels.h"
#include "upstream/watcher.h"

/* --- sentinel_events.c --- */

/* Subscribes at all sentinels to the events of one primary's failovers.
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
 * Source: sentinelEvent() in Redis' sentinel.c; https://redis.io/docs/management/sentinel */

enum sentinel_event {
	SENTINEL_BEGUN, /* the primary is going to be replaced, or that goes on */
	SENTINEL_ABORTED, /* the primary stays */
	SENTINEL_PROMOTED, /* this sentinel names the new one from now on */
	SENTINEL_SWITCHED, /* as PROMOTED, and it knows which one the others follow */
	SENTINEL_NEVENTS,
};

/* The event that a message means; SENTINEL_NEVENTS: none, or not of `master`. */
enum sentinel_event sentinel_event_read(struct slice channel, struct slice message,
                                        const char *master);

struct sentinel_events;

struct sentinel_events_opts {
	const struct link_env *links; /* what all links share; without an address */
	const char *master; /* its name; outlives the listening */
	/* `sentinel`: the address, as it was given. May not call functions of this file. */
	void (*on_event)(void *arg, const char *sentinel, enum sentinel_event event);
	void *arg;
};

struct sentinel_events *sentinel_events_new(const struct sentinel_events_opts *opts);
/* NULL is allowed. */
void sentinel_events_free(struct sentinel_events *e);

/* From now on these sentinels are listened to (addresses), and no others. */
void sentinel_events_listen(struct sentinel_events *e, char *const *names, size_t n);

/* links_reap(): once per turn of the loop. NULL is allowed. */
void sentinel_events_reap(struct sentinel_events *e);

struct watcher {
	pthread_t thread;
	struct ev_loop *loop;
	struct mailbox mailbox;
	struct stream_flusher flusher;
	struct resolver *resolver;
	char *scratch;
	struct link_env links; /* of `query` */
	struct link_env event_links; /* of `events`; it copies them */
	struct ev_check check;
	struct loop_timer timer; /* the next round */
	struct query query;
	struct sentinel_events *events; /* of all sentinels; NULL: none has answered */
	struct sentinels sentinels;
	struct watcher_settings settings; /* its own copy */
	/* The current round: */
	const char *asked; /* the sentinel; NULL: `candidate` */
	/* The server that is asked, or is going to be. */
	char candidate[sizeof(((struct sentinel_answer *)NULL)->name)];
	bool is_readonly; /* LINK_READONLY was why */
	bool asks_all; /* nothing is known yet: the newest of all answers counts */
	double began_at;
	bool is_reconnect; /* an announcement began it; true until the next round */
	bool is_reconnect_due; /* something was announced since it began */
	/* While a failover is announced that has not come (watcher.c): */
	char *announcer; /* the sentinel that leads it; NULL: none is announced */
	struct loop_timer overdue; /* runs until the failover should have come */
	double heeded_from; /* announcements before this time are ignored; clock_now() */
	/* The last report: */
	char *primary; /* NULL: there is none */
	struct buf why; /* why there is none; a string */
	bool warned; /* it was logged that there is none, or that no sentinel answers */
	_Atomic unsigned alarms; /* bits by enum link_alarm, not looked at yet */
	void (*on_primary)(void *arg, const struct found_primary *p);
	void *arg;
};

/* Reports the primary; `anew` as in struct found_primary. */
void watcher_tell(struct watcher *w, bool anew);
/* `who` said `why`, or it was said of that server. Returns whether that is news. */
bool watcher_set_why(struct watcher *w, const char *who, const char *why);

/* A round, at once; or as soon as it may be. Harmless during a round. */
void watcher_begin(struct watcher *w);
void watcher_begin_soon(struct watcher *w);
/* At once, whatever is being asked; but the round that this begins is not ended by another
 * call, which then has the next one begin soon. */
void watcher_reconnect(struct watcher *w);

/* Announced failovers. */
void watcher_hold_init(struct watcher *w);
void watcher_stop_listening(struct watcher *w);
/* Ends the hold, because the primary is known, or there is none. Harmless without a hold. */
void watcher_end_hold(struct watcher *w);
/* The callback of `query`. */
void watcher_on_replies(void *arg, redisReply *const *replies, const char *why);

#endif
