/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watcher: finds the primary by rounds of questions to the sentinels, and handles announced
 * failovers. watcher_thread.c has the thread and the requests of other threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "base/log.h"
#include "base/quote.h"
#include "upstream/decode.h"
#include "upstream/watcher_internal.h"

/* Seconds between two rounds. hasp polls, because a sentinel's message may be lost with its
 * connection. */
#define POLL_SECONDS 2.0
/* As POLL_SECONDS, while there is no primary, and after an unfounded alarm. */
#define AGAIN_SECONDS 0.2
/* Seconds for which the first round waits for sentinels that do not answer. */
#define COMPARE_SECONDS 1.0
/* As AGAIN_SECONDS, if the configuration names no sentinels. */
#define ADDRESS_AGAIN_SECONDS 1.0

/* --- results ------------------------------------------------------------------------------ */

void watcher_report(struct watcher *w, bool anew)
{
	w->on_primary(w->arg, &(struct found_primary){
				      .master = w->settings.master,
				      .address = w->primary,
				      .why = w->primary ? NULL : buf_head(&w->why),
				      .anew = anew,
				      .leaving = w->announcer,
			      });
}

bool watcher_set_why(struct watcher *w, const char *who, const char *why)
{
	struct buf old = w->why;
	bool is_other;

	w->why = BUF_INIT;
	buf_printf(&w->why, "%s: %s", who, why);
	buf_append(&w->why, slice_of("", 1));
	is_other = !slice_eq(buf_slice(&old), buf_slice(&w->why));
	buf_release(&old);
	return is_other;
}

static void watcher_end_hold(struct watcher *w)
{
	loop_timer_stop(&w->overdue);
	free(w->announcer);
	w->announcer = NULL;
}

/* Reports that no primary is known: workers must send nothing more to the last primary. */
static void watcher_primary_lost(struct watcher *w, const char *who, const char *why)
{
	bool is_new = watcher_set_why(w, who, why) || w->primary;

	if (!w->warned || w->primary)
		log_warning("no_primary master=%s was=%s reason=%s", w->settings.master,
		            w->primary ? w->primary : "-", QUOTE_STR(buf_head(&w->why)));
	w->warned = true;
	free(w->primary);
	w->primary = NULL;
	watcher_end_hold(w);
	if (is_new)
		watcher_report(w, false);
}

static void watcher_primary_found(struct watcher *w)
{
	bool is_new = !w->primary || strcmp(w->primary, w->candidate) != 0;

	if (is_new) {
		log_info("primary master=%s address=%s", w->settings.master, w->candidate);
		free(w->primary);
		w->primary = xstrdup(w->candidate);
		watcher_end_hold(w);
		w->warned = false;
	}
	if (is_new || w->is_readonly)
		watcher_report(w, !is_new);
}

/* --- announced failovers ------------------------------------------------------------------ */

/* Holds back requests to the primary (found_primary.leaving), because a sentinel has announced
 * a failover. The hold ends when
 *
 *   a round of questions finds a new primary, or none
 *   the sentinel that leads the failover gives it up
 *   failover_wait has passed; hasp then ignores announcements for another failover_wait
 *
 * The last rule is for a sentinel that dies, or announces failovers again and again: it may
 * delay commands, but not stop them. */
static void watcher_hold(struct watcher *w, const char *sentinel)
{
	double wait = (double)w->settings.failover_wait_ms / 1000;

	if (w->announcer || !w->primary || wait <= 0 || clock_now() < w->heeded_from)
		return;
	w->announcer = xstrdup(sentinel);
	loop_timer_start(&w->overdue, wait);
	watcher_report(w, false);
	log_info("failover_announced master=%s primary=%s sentinel=%s", w->settings.master,
	         w->primary, sentinel);
	/* Ask soon: the message that the failover has happened may be lost. */
	watcher_begin_soon(w);
}

static void watcher_on_aborted(struct watcher *w, const char *sentinel)
{
	if (!w->announcer || strcmp(w->announcer, sentinel) != 0)
		return;
	log_warning("failover_aborted master=%s primary=%s sentinel=%s", w->settings.master,
	            w->primary, sentinel);
	watcher_end_hold(w);
	watcher_report(w, false);
}

void watcher_on_overdue(void *arg)
{
	struct watcher *w = arg;
	double wait = (double)w->settings.failover_wait_ms / 1000;

	log_warning("failover_overdue master=%s primary=%s sentinel=%s waited_seconds=%g",
	            w->settings.master, w->primary, w->announcer, wait);
	w->heeded_from = clock_now() + wait;
	watcher_end_hold(w);
	watcher_report(w, false);
}

/* --- the sentinels' messages -------------------------------------------------------------- */

/* Cancels the present round and begins one at once. If watcher_reconnect() began the present
 * round, makes the next round begin soon instead. */
static void watcher_reconnect(struct watcher *w)
{
	w->is_reconnect_due = true;
	/* A sentinel that announces again and again must not cancel each query. */
	if (w->is_reconnect) {
		watcher_begin_soon(w);
		return;
	}
	/* The query may be waiting for the old primary, which will not answer. */
	query_cancel(&w->query);
	loop_timer_start(&w->timer, 0);
}

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
		watcher_reconnect(w);
		/* During a query, the order of the sentinels must not change. */
		if (!query_is_running(&w->query))
			sentinels_prefer(&w->sentinels, sentinel);
		break;
	case SENTINEL_NEVENTS:
		HASP_ASSERT(event != SENTINEL_NEVENTS);
	}
}

/* --- the role ----------------------------------------------------------------------------- */

static void watcher_ask_role(struct watcher *w, const char *server)
{
	struct address address = address_of(server);

	snprintf(w->candidate, sizeof(w->candidate), "%s", server);
	w->asked = NULL;
	query_start(&w->query, &address, w->settings.user, w->settings.password,
	            SLICE_LIT("*1\r\n$4\r\nROLE\r\n"), 1, w->settings.timeout_ms);
}

static void watcher_end_round(struct watcher *w, double seconds)
{
	bool is_urgent = atomic_load(&w->alarms) || w->announcer || w->is_reconnect_due;

	w->is_readonly = false;
	loop_timer_start(&w->timer, is_urgent ? AGAIN_SECONDS : seconds);
}

/* True if hasp cannot ask the server for its role, for lack of a login or of a permission: then
 * hasp believes the sentinels. */
static bool is_refused(const redisReply *reply)
{
	return reply->type == REDIS_REPLY_ERROR &&
	       (strncmp(reply->str, "NOAUTH", 6) == 0 ||
	        strncmp(reply->str, "NOPERM", 6) == 0 ||
	        strncmp(reply->str, "ERR unknown command", 19) == 0);
}

static void watcher_on_role(struct watcher *w, redisReply *const *replies, const char *why)
{
	enum server_role role = replies ? role_of(replies[0]) : ROLE_UNKNOWN;

	if (!w->settings.master) {
		if (role == ROLE_MASTER)
			watcher_report(w, true);
		w->is_readonly = false;
		if (atomic_load(&w->alarms))
			loop_timer_start(&w->timer, ADDRESS_AGAIN_SECONDS);
		return;
	}
	if (role == ROLE_MASTER || (replies && is_refused(replies[0]))) {
		watcher_primary_found(w);
		watcher_end_round(w, POLL_SECONDS);
		return;
	}
	/* The present primary may still be the primary, although hasp cannot reach it. */
	if (!replies && w->primary && strcmp(w->primary, w->candidate) == 0)
		(void)watcher_set_why(w, w->candidate, why);
	else if (!replies)
		watcher_primary_lost(w, w->candidate, why);
	else if (replies[0]->type == REDIS_REPLY_ERROR)
		watcher_primary_lost(w, w->candidate, replies[0]->str);
	else
		watcher_primary_lost(w, w->candidate, "it reports that it is not a primary");
	watcher_end_round(w, AGAIN_SECONDS);
}

/* --- the sentinels ------------------------------------------------------------------------ */

/* Subscribes at the sentinels that are known now. */
static void watcher_listen(struct watcher *w)
{
	w->events.links.user = w->settings.sentinel_user;
	w->events.links.password = w->settings.sentinel_password;
	w->events.links.dialer.tls = w->settings.tls;
	w->events.master = w->settings.master;
	w->events.on_event = watcher_on_event;
	w->events.arg = w;
	sentinel_events_listen(&w->events, w->sentinels.names, w->sentinels.n);
}

void watcher_stop_listening(struct watcher *w)
{
	sentinel_events_listen(&w->events, NULL, 0);
	watcher_end_hold(w);
}

/* Ends a round in which no answer counted. hasp stays with the present primary, but asks it for
 * its role if it refused writes. */
static void watcher_do_without(struct watcher *w)
{
	if (w->primary && w->is_readonly) {
		watcher_ask_role(w, w->primary);
		return;
	}
	if (!w->warned)
		log_warning("sentinels_silent master=%s reason=%s", w->settings.master,
		            QUOTE_STR(buf_head(&w->why)));
	w->warned = true;
	if (!w->primary)
		watcher_report(w, false);
	watcher_end_round(w, AGAIN_SECONDS);
}

/* Asks `server` for its role, because a sentinel has named it in an answer that counts. */
static void watcher_follow(struct watcher *w, const char *server)
{
	watcher_listen(w);
	if (w->primary && w->warned) {
		log_info("sentinels_recovered master=%s", w->settings.master);
		w->warned = false;
	}
	if (w->primary && strcmp(w->primary, server) != 0)
		watcher_primary_lost(w, server,
		                     "the new primary has not confirmed its role yet");
	watcher_ask_role(w, server);
}

/* Calls watcher_follow() for the newest answer that counts. Returns false if none counts. */
static bool watcher_use_newest(struct watcher *w)
{
	const struct sentinel_word *newest = sentinels_newest(&w->sentinels);

	if (!newest)
		return false;
	sentinels_prefer(&w->sentinels, newest->by);
	watcher_follow(w, newest->primary);
	return true;
}

static void watcher_ask_next(struct watcher *w)
{
	struct buf commands = BUF_INIT;
	struct address address;
	bool is_late = clock_now() >= w->began_at + COMPARE_SECONDS;

	if (w->asks_all && is_late && watcher_use_newest(w))
		return;
	w->asked = sentinels_next(&w->sentinels);
	if (!w->asked) {
		/* A sentinel may have named the present primary, although no answer counts. */
		if (!w->asks_all && w->sentinels.named_known)
			watcher_follow(w, w->primary);
		else if (!w->asks_all || !watcher_use_newest(w))
			watcher_do_without(w);
		return;
	}
	address = address_of(w->asked);
	sentinel_write_commands(&commands, w->settings.master);
	query_start(&w->query, &address, w->settings.sentinel_user,
	            w->settings.sentinel_password, buf_slice(&commands), SENTINEL_COMMANDS,
	            w->settings.timeout_ms);
	buf_release(&commands);
}

static void watcher_on_answer(struct watcher *w, const struct sentinel_answer *a)
{
	const char *why;

	/* Compare all answers if no primary is known yet: the first sentinel may have been
	 * partitioned. */
	if (w->asks_all) {
		sentinels_note(&w->sentinels, a);
		(void)watcher_set_why(w, w->asked, "no other sentinel names the same primary");
		watcher_ask_next(w);
		return;
	}
	why = sentinels_take(&w->sentinels, a, w->primary);
	if (why) {
		(void)watcher_set_why(w, w->asked, why);
		watcher_ask_next(w);
		return;
	}
	watcher_follow(w, a->name);
}

static void watcher_on_sentinel(struct watcher *w, redisReply *const *replies, const char *why)
{
	struct sentinel_answer a = { .nothers = 0 };

	if (replies && sentinel_read(&a, replies, &why) == 0) {
		watcher_on_answer(w, &a);
	} else {
		/* Without a login, a sentinel answers NOAUTH: the reply to AUTH says why. */
		if (strncmp(why, "NOAUTH", 6) == 0 && *w->query.refusal)
			why = w->query.refusal;
		(void)watcher_set_why(w, w->asked, why);
		watcher_ask_next(w);
	}
	sentinel_answer_fini(&a);
}

void watcher_on_replies(void *arg, redisReply *const *replies, const char *why)
{
	struct watcher *w = arg;

	if (w->asked)
		watcher_on_sentinel(w, replies, why);
	else
		watcher_on_role(w, replies, why);
}

/* --- rounds ------------------------------------------------------------------------------- */

void watcher_begin(void *arg)
{
	struct watcher *w = arg;
	unsigned alarms;

	if (query_is_running(&w->query))
		return;
	/* Without settings, do nothing: watcher_use() brings them and begins a round. */
	if (!w->settings.master && !w->settings.address)
		return;
	alarms = atomic_exchange(&w->alarms, 0);
	w->is_reconnect = w->is_reconnect_due;
	w->is_reconnect_due = false;
	w->is_readonly = alarms & (1u << LINK_READONLY);
	w->began_at = clock_now();
	if (!w->settings.master) {
		if (w->is_readonly) {
			watcher_ask_role(w, w->settings.address);
		}
		return;
	}
	w->asks_all = w->sentinels.epoch < 0;
	if (w->primary && !alarms && !w->announcer && !w->is_reconnect)
		sentinels_rotate(&w->sentinels);
	sentinels_begin(&w->sentinels);
	watcher_ask_next(w);
}

/* Begins a round as soon as the pause after the last one is over: workers call watcher_ask()
 * for each lost link, so alarms may be frequent. Does nothing during a round: when that ends,
 * an alarm that came during it begins another one. */
void watcher_begin_soon(struct watcher *w)
{
	double pause = w->settings.master ? AGAIN_SECONDS : ADDRESS_AGAIN_SECONDS;
	double left = w->began_at + pause - clock_now();

	if (!query_is_running(&w->query))
		loop_timer_start(&w->timer, left > 0 ? left : 0);
}
