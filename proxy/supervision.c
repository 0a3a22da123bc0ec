/* SPDX-License-Identifier: BSD-3-Clause */
#include "supervision.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/log.h"

/* A Redis that does not answer delays no start for longer. */
#define SUPERVISION_READY_SECONDS 5.0
/* How often hasp looks whether Redis has answered. */
#define SUPERVISION_LOOK_SECONDS 0.02
#define SUPERVISION_STATUS_SECONDS 5.0
/* How often in the manager's time the workers are looked at. */
#define SUPERVISION_BEATS 4

void supervision_init(struct supervision *s)
{
	*s = (struct supervision){ .state = SUPERVISION_STARTING };
	notify_init(&s->notify);
}

/* --- how hasp is ------------------------------------------------------------------------ */

static void supervision_describe(const struct supervision *s, char *out, size_t size)
{
	long clients = atomic_load(&s->shared->clients);
	const char *why = workers_not_ready(s->shared), *plural = clients == 1 ? "" : "s";

	if (s->state == SUPERVISION_STARTING)
		snprintf(out, size, "Starting; Redis has not answered yet");
	else if (s->state == SUPERVISION_LEAVING)
		snprintf(out, size, "Draining; %ld client%s", clients, plural);
	else
		snprintf(out, size, "Serving %ld client%s; %s%s", clients, plural,
		         why ? why : "Redis answers",
		         s->reload_refused ? "; the last reload was refused, see the log" : "");
}

/* Says `lines`, NULL for nothing, and how hasp is. */
static void supervision_say(struct supervision *s, const char *lines)
{
	char status[sizeof(s->status)], text[sizeof(s->status) + 128];

	supervision_describe(s, status, sizeof(status));
	if (!lines && strcmp(status, s->status) == 0)
		return;
	memcpy(s->status, status, sizeof(status));
	snprintf(text, sizeof(text), "%s%sSTATUS=%s", lines ? lines : "", lines ? "\n" : "",
	         status);
	notify_send(&s->notify, text);
}

/* --- workers that hang ------------------------------------------------------------------ */

static bool supervision_sees_all_turn(struct supervision *s)
{
	bool all = true;

	for (size_t i = 0; i < s->shared->nworkers; i++) {
		bool turns = worker_has_turned(s->shared->workers[i]);

		if (!turns && !s->hangs[i])
			log_error("worker_hangs worker=%zu effect=\"its clients wait; systemd "
			          "ends hasp if it goes on\"",
			          i);
		else if (turns && s->hangs[i])
			log_warning("worker_goes_on worker=%zu", i);
		s->hangs[i] = !turns;
		all = all && turns;
	}
	return all;
}

static void supervision_beat(struct supervision *s, double now)
{
	if (s->notify.watchdog <= 0 || now < s->watchdog_at)
		return;
	s->watchdog_at = now + s->notify.watchdog / SUPERVISION_BEATS;
	if (supervision_sees_all_turn(s))
		notify_send(&s->notify, "WATCHDOG=1");
}

/* --- in the course of time -------------------------------------------------------------- */

static bool supervision_is_silent(const struct supervision *s)
{
	return !notify_is_heard(&s->notify) || s->state == SUPERVISION_OVER;
}

void supervision_serves(struct supervision *s, struct worker_shared *shared, bool heir,
                        double now)
{
	s->shared = shared;
	s->ready_by = now + SUPERVISION_READY_SECONDS;
	s->status_at = now + SUPERVISION_STATUS_SECONDS;
	s->watchdog_at = now;
	if (supervision_is_silent(s))
		return;
	if (heir)
		s->state = SUPERVISION_SERVING;
	else
		supervision_say(s, NULL);
}

double supervision_tick(struct supervision *s, double now)
{
	double next;

	if (supervision_is_silent(s))
		return -1;
	if (s->state == SUPERVISION_STARTING &&
	    (!workers_not_ready(s->shared) || now >= s->ready_by)) {
		s->state = SUPERVISION_SERVING;
		supervision_say(s, "READY=1");
	}
	if (s->state == SUPERVISION_STARTING)
		return SUPERVISION_LOOK_SECONDS;
	supervision_beat(s, now);
	if (now >= s->status_at) {
		s->status_at = now + SUPERVISION_STATUS_SECONDS;
		supervision_say(s, NULL);
	}
	next = s->status_at;
	if (s->notify.watchdog > 0 && s->watchdog_at < next)
		next = s->watchdog_at;
	return next > now ? next - now : 0;
}

/* --- what happens ----------------------------------------------------------------------- */

void supervision_reloads(struct supervision *s)
{
	struct timespec now;
	char text[96];

	if (supervision_is_silent(s) || s->state != SUPERVISION_SERVING)
		return;
	/* systemd recognizes the reload by the time. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=Reloading",
	         (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	notify_send(&s->notify, text);
}

void supervision_reloaded(struct supervision *s, bool changed)
{
	s->reload_refused = !changed;
	if (!supervision_is_silent(s) && s->state == SUPERVISION_SERVING)
		supervision_say(s, "READY=1");
}

void supervision_leaves(struct supervision *s)
{
	if (supervision_is_silent(s))
		return;
	s->state = SUPERVISION_LEAVING;
	supervision_say(s, "STOPPING=1");
}

void supervision_hands_over(struct supervision *s, pid_t pid)
{
	char text[64];

	if (supervision_is_silent(s))
		return;
	snprintf(text, sizeof(text), "MAINPID=%ld\nREADY=1", (long)pid);
	supervision_say(s, text);
	s->state = SUPERVISION_OVER;
}
