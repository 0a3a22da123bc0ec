/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watcher_internal: struct watcher, shared by watcher.c (rounds of questions), watcher_thread.c
 * (the thread) and sentinel_events.c (the sentinels' messages).
 */
#ifndef HASP_UPSTREAM_WATCHER_INTERNAL_H
#define HASP_UPSTREAM_WATCHER_INTERNAL_H

#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>

#include "net/mailbox.h"
#include "upstream/link.h"
#include "upstream/own_conn.h"
#include "upstream/sentinels.h"
#include "upstream/watcher.h"

/* --- sentinel_events.c --- */

/* sentinel_events subscribes at all sentinels to the events of one primary's failovers.
 *
 * The sentinel that leads a failover publishes each step; the others publish nothing before the
 * new primary is promoted:
 *
 *   select a replica --> tell it to be a primary --> wait --> promoted --> the others follow it
 *        BEGUN                BEGUN                  BEGUN    PROMOTED       SWITCHED
 *          |                    |                      |
 *          '--------------------'----------------------'--> ABORTED
 *
 * The replica gets the command about a tenth of a second after the first event. The other
 * sentinels publish SWITCHED when they hear of the new primary, usually before the leader.
 *
 * Source: sentinelEvent() in Redis' sentinel.c; https://redis.io/docs/management/sentinel */

enum sentinel_event {
	SENTINEL_BEGUN, /* a failover has begun, or goes on */
	SENTINEL_ABORTED, /* the sentinel has given the failover up: the primary stays */
	SENTINEL_PROMOTED, /* the sentinel names the new primary from now on */
	SENTINEL_SWITCHED, /* as PROMOTED, and the replicas follow the new primary */
	SENTINEL_NEVENTS,
};

/* Returns the event of a message; SENTINEL_NEVENTS: no event, or not about `master`. */
enum sentinel_event sentinel_event_read(struct slice channel, struct slice message,
                                        const char *master);

struct sentinel_events {
	struct list subs; /* the connections to the sentinels */
	/* Fields for new connections; the strings in them must outlive the connections. */
	struct link_env links; /* settings of the links, without an address */
	const char *master; /* the master's name */
	/* `sentinel`: the address, as given to sentinel_events_listen(). The callee must not
	 * call functions of sentinel_events. */
	void (*on_event)(void *arg, const char *sentinel, enum sentinel_event event);
	void *arg;
};

/* Listens to the sentinels at these addresses, and to no others. */
void sentinel_events_listen(struct sentinel_events *e, char *const *names, size_t n);

/* Frees closed links. Call it once per turn of the loop. */
void sentinel_events_reap(struct sentinel_events *e);

struct watcher {
	pthread_t thread;
	struct ev_loop *loop;
	struct mailbox mailbox;
	struct stream_flusher flusher;
	struct link_env
		links; /* for the link of `query`; has the resolver and the scratch buffer */
	struct ev_check check;
	struct loop_timer timer; /* starts the next round */
	struct query query;
	struct sentinel_events events;
	struct sentinels sentinels;
	struct watcher_settings settings; /* the watcher's own copy */

	/* The present round of questions. */
	const char *asked; /* the sentinel that hasp asks; NULL: hasp asks `candidate` */
	char candidate[SENTINEL_NAME_SIZE]; /* the server to ask for its role */
	bool is_readonly; /* the alarm LINK_READONLY began the round */
	bool asks_all; /* no primary is known yet: compare the answers of all sentinels */
	double began_at; /* clock_now() when the round began */
	bool is_reconnect; /* watcher_reconnect() began the round; true until the next round */
	bool is_reconnect_due; /* watcher_reconnect() was called since the round began */

	/* An announced failover that has not happened yet. */
	char *announcer; /* the sentinel that leads the failover; NULL: none is announced */
	struct loop_timer overdue; /* runs until the failover is overdue */
	double heeded_from; /* clock_now() before which hasp ignores announcements */

	/* The last report: the primary's address, or NULL and the reason. */
	char *primary; /* address of the primary; NULL: there is none */
	struct buf why; /* why there is no primary; a string */
	bool warned; /* logged that there is no primary, or that no sentinel answers */

	_Atomic unsigned alarms; /* alarms not handled yet: a bit for each enum link_alarm */
	void (*on_primary)(void *arg, const struct found_primary *p);
	void *arg;
};

/* Reports the primary; `anew` as in struct found_primary. */
void watcher_report(struct watcher *w, bool anew);
/* Records why there is no primary: `who` is a server, a sentinel or hasp. Returns true if the
 * reason is new. */
bool watcher_set_why(struct watcher *w, const char *who, const char *why);

/* Begin a round, at once or as soon as allowed. Do nothing during a round. */
void watcher_begin(void *arg);
void watcher_begin_soon(struct watcher *w);

void watcher_stop_listening(struct watcher *w);
/* The callbacks of w->query and w->overdue; that of w->timer is watcher_begin(). */
void watcher_on_replies(void *arg, redisReply *const *replies, const char *why);
void watcher_on_overdue(void *arg);

#endif
