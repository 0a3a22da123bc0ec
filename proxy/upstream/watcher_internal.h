/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watcher_internal: what the watcher's rounds of questions (watcher.c), what sentinels announce
 * (watcher_hold.c), and the thread (watcher_thread.c) share.
 */
#ifndef HASP_UPSTREAM_WATCHER_INTERNAL_H
#define HASP_UPSTREAM_WATCHER_INTERNAL_H

#include <ev.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "net/mailbox.h"
#include "net/resolve.h"
#include "net/stream.h"
#include "upstream/query.h"
#include "upstream/sentinel_events.h"
#include "upstream/sentinels.h"
#include "upstream/watcher.h"

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
	struct ev_timer timer; /* the next round */
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
	bool is_anew; /* an announcement was why; also behind its end, until the next round */
	bool is_anew_due; /* something was announced since it began */
	/* While a failover is announced that has not come (watcher_hold.c): */
	char *announcer; /* the sentinel that leads it; NULL: none is announced */
	struct ev_timer overdue; /* runs until the failover should have come */
	void (*on_event)(void *w, const char *sentinel, enum sentinel_event event);
	double heeded_from; /* announcements before this time are not heeded; clock_now() */
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
void watcher_begin_anew(struct watcher *w);

/* Announced failovers. */
void watcher_hold_init(struct watcher *w);
void watcher_stop_listening(struct watcher *w);
/* Ends the hold, because the primary is known, or there is none. Harmless without a hold. */
void watcher_end_hold(struct watcher *w);
/* Of `query`. */
void watcher_on_replies(void *arg, redisReply *const *replies, const char *why);

#endif
