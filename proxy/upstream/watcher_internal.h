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
	SENTINEL_BEGUN, /* a failover has begun, or goes on */
	SENTINEL_ABORTED, /* the failover was given up: the primary stays */
	SENTINEL_PROMOTED, /* this sentinel names the new primary from now on */
	SENTINEL_SWITCHED, /* as PROMOTED, and it knows which primary the others follow */
	SENTINEL_NEVENTS,
};

/* Returns the event of a message; SENTINEL_NEVENTS: none, or not about `master`. */
enum sentinel_event sentinel_event_read(struct slice channel, struct slice message,
                                        const char *master);

struct sentinel_events;

struct sentinel_events_opts {
	const struct link_env *links; /* settings of all links, without an address */
	const char *master; /* the master's name; outlives the struct */
	/* `sentinel`: the address, as it was given. Must not call functions of this file. */
	void (*on_event)(void *arg, const char *sentinel, enum sentinel_event event);
	void *arg;
};

struct sentinel_events *sentinel_events_new(const struct sentinel_events_opts *opts);
/* NULL is allowed. */
void sentinel_events_free(struct sentinel_events *e);

/* Listens to the sentinels at these addresses, and to no others. */
void sentinel_events_listen(struct sentinel_events *e, char *const *names, size_t n);

/* Calls links_reap(). Call it once per turn of the loop. NULL is allowed. */
void sentinel_events_reap(struct sentinel_events *e);

struct watcher {
	pthread_t thread;
	struct ev_loop *loop;
	struct mailbox mailbox;
	struct stream_flusher flusher;
	struct resolver *resolver;
	char *scratch;
	struct link_env links; /* for `query` */
	struct link_env event_links; /* for `events`, which copies them */
	struct ev_check check;
	struct loop_timer timer; /* starts the next round */
	struct query query;
	struct sentinel_events *events; /* NULL: no sentinel has answered yet */
	struct sentinels sentinels;
	struct watcher_settings settings; /* its own copy */
	/* The current round: */
	const char *asked; /* the sentinel that was asked; NULL: `candidate` was */
	/* The server that is being asked, or will be. */
	char candidate[sizeof(((struct sentinel_answer *)NULL)->name)];
	bool is_readonly; /* LINK_READONLY was the reason */
	bool asks_all; /* nothing is known yet, so the newest of all answers counts */
	double began_at;
	bool is_reconnect; /* an announcement began it; true until the next round */
	bool is_reconnect_due; /* another announcement came since this round began */
	/* While a failover is announced that has not come (watcher.c): */
	char *announcer; /* the sentinel that leads the failover; NULL: none is announced */
	struct loop_timer overdue; /* runs until the failover should have come */
	double heeded_from; /* clock_now() before which announcements are ignored */
	/* The last report: */
	char *primary; /* NULL: there is none */
	struct buf why; /* why there is no primary; a string */
	bool warned; /* logged that there is no primary, or that no sentinel answers */
	_Atomic unsigned alarms; /* bits by enum link_alarm, not handled yet */
	void (*on_primary)(void *arg, const struct found_primary *p);
	void *arg;
};

/* Reports the primary; `anew` as in struct found_primary. */
void watcher_tell(struct watcher *w, bool anew);
/* Records that `who` said `why`, or that this was said of it. Returns true if that is news. */
bool watcher_set_why(struct watcher *w, const char *who, const char *why);

/* Begin a round, at once or as soon as allowed. Do nothing during a round. */
void watcher_begin(struct watcher *w);
void watcher_begin_soon(struct watcher *w);
/* Begins a round at once, and cancels the present query. Another call does not cancel this
 * round, but makes the next one begin soon. */
void watcher_reconnect(struct watcher *w);

/* Initializes the hold for announced failovers. */
void watcher_hold_init(struct watcher *w);
void watcher_stop_listening(struct watcher *w);
/* Ends the hold, if there is one, because the primary is known, or there is none. */
void watcher_end_hold(struct watcher *w);
/* The callback of `query`. */
void watcher_on_replies(void *arg, redisReply *const *replies, const char *why);

#endif
