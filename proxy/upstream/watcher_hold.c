/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watcher_hold: handles a failover that sentinels announce before they replace the primary.
 * From then on hasp should send nothing more to it (struct found_primary, `leaving`), until
 *
 *   the new one is found, or there is none       by a round of questions
 *   the sentinel that leads it gives up          at once
 *   it does not come for failover_wait           and for as long again nothing is held back
 *
 * The last rule is for a sentinel that dies in the middle, or announces again and again: an
 * announcement may delay commands, but not stop them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/log.h"
#include "upstream/watcher_internal.h"

static void watcher_hold(struct watcher *w, const char *sentinel)
{
	double wait = (double)w->settings.failover_wait_ms / 1000;

	if (w->announcer || !w->primary || wait <= 0 || clock_now() < w->heeded_from)
		return;
	w->announcer = xstrdup(sentinel);
	ev_timer_set(&w->overdue, wait, 0);
	ev_timer_start(w->loop, &w->overdue);
	watcher_tell(w, false);
	log_info("failover_announced master=%s primary=%s sentinel=%s", w->settings.master,
	         w->primary, sentinel);
	/* The message that it is done may be lost. */
	watcher_begin_soon(w);
}

static void watcher_on_aborted(struct watcher *w, const char *sentinel)
{
	if (!w->announcer || strcmp(w->announcer, sentinel) != 0)
		return;
	log_warning("failover_aborted master=%s primary=%s sentinel=%s", w->settings.master,
	            w->primary, sentinel);
	watcher_end_hold(w);
	watcher_tell(w, false);
}

static void watcher_on_overdue(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct watcher *w = t->data;
	double wait = (double)w->settings.failover_wait_ms / 1000;

	(void)loop;
	(void)revents;
	log_warning("failover_overdue master=%s primary=%s sentinel=%s waited=%g",
	            w->settings.master, w->primary, w->announcer, wait);
	w->heeded_from = clock_now() + wait;
	watcher_end_hold(w);
	watcher_tell(w, false);
}

/* --- the sentinels' messages -------------------------------------------------------------- */

static void watcher_on_event(void *arg, const char *sentinel, enum sentinel_event event)
{
	struct watcher *w = arg;

	switch (event) {
	case SENTINEL_BEGUN:
		watcher_hold(w, sentinel);
		break;
	case SENTINEL_ABORTED:
		watcher_on_aborted(w, sentinel);
		break;
	case SENTINEL_PROMOTED:
		watcher_hold(w, sentinel);
		/* fall through */
	case SENTINEL_SWITCHED:
		watcher_begin_anew(w);
		/* (Their order does not change while they are asked.) */
		if (!query_is_running(&w->query))
			sentinels_prefer(&w->sentinels, sentinel);
		break;
	case SENTINEL_NEVENTS:
		HASP_ASSERT(event != SENTINEL_NEVENTS);
	}
}

void watcher_hold_init(struct watcher *w)
{
	ev_timer_init(&w->overdue, watcher_on_overdue, 0, 0);
	w->overdue.data = w;
	w->on_event = watcher_on_event;
}
