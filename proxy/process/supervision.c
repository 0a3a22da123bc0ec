/* SPDX-License-Identifier: BSD-3-Clause */
#include "process/supervision.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "config/value.h"

/* After this time, hasp reports READY=1 even if Redis has not answered. */
#define SUPERVISION_READY_SECONDS 5.0
/* How often hasp checks whether Redis has answered. */
#define SUPERVISION_LOOK_SECONDS 0.02
#define SUPERVISION_STATUS_SECONDS 5.0
/* How many times hasp checks the workers within the watchdog's time limit. */
#define SUPERVISION_BEATS 4

/* --- messages to the manager ------------------------------------------------------------ */

/* If the manager does not read, hasp waits this many seconds, and handles no signal until
 * then. */
#define NOTIFY_SECONDS 2

/* Returns a number from the environment; -1: the variable is missing or not a number. */
static int64_t notify_number(const char *name)
{
	const char *text = getenv(name);
	int64_t n;

	return text && value_int(text, &n) == 0 ? n : -1;
}

/* Sends `lines` to the socket at `path`. Returns 0; -1 with errno. */
static int notify_deliver(const char *path, const char *lines)
{
	const struct timeval most = { .tv_sec = NOTIFY_SECONDS };
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t n = strlen(path);
	int fd, saved;
	ssize_t sent;

	if (n >= sizeof(to.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(to.sun_path, path, n);
	if (*path == '@')
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
	sent = sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (struct sockaddr *)&to,
	              (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
	saved = errno;
	close(fd);
	errno = saved;
	return sent < 0 ? -1 : 0;
}

/* Sends `lines`, whose last line has no line end, to the manager. Logs a failure. */
static void notify_send(const struct supervision *s, const char *lines)
{
	if (notify_deliver(s->path, lines) < 0)
		log_warning("notify_failed socket=%s reason=\"%s\"", s->path, strerror(errno));
}

void supervision_init(struct supervision *s)
{
	const char *path = getenv("NOTIFY_SOCKET");
	int64_t pid = notify_number("WATCHDOG_PID"), usec = notify_number("WATCHDOG_USEC");

	*s = (struct supervision){ .state = SUPERVISION_STARTING };
	/* A path with '@' is an abstract address: '@' stands for its first byte, NUL. */
	if (path && (*path == '/' || *path == '@'))
		s->path = path;
	if (s->path && usec > 0 && (pid < 0 || pid == getpid()))
		s->watchdog = (double)usec / 1e6;
	/* WATCHDOG_PID names this process, but after an upgrade the manager watches the next
	 * one. */
	unsetenv("WATCHDOG_PID");
}

/* --- the state that hasp reports -------------------------------------------------------- */

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

/* Sends `lines` and hasp's state. If `lines` is NULL, sends only the state, if it has
 * changed. */
static void supervision_say(struct supervision *s, const char *lines)
{
	char status[sizeof(s->status)], text[sizeof(s->status) + 128];

	supervision_describe(s, status, sizeof(status));
	if (!lines && strcmp(status, s->status) == 0)
		return;
	memcpy(s->status, status, sizeof(status));
	snprintf(text, sizeof(text), "%s%sSTATUS=%s", lines ? lines : "", lines ? "\n" : "",
	         status);
	notify_send(s, text);
}

/* --- workers that hang ------------------------------------------------------------------ */

static bool supervision_sees_all_turn(struct supervision *s)
{
	bool all = true;

	for (size_t i = 0; i < s->shared->nworkers; i++) {
		bool turns = worker_has_turned(s->shared->workers[i]);

		if (!turns && !s->hangs[i])
			log_error("worker_hangs worker=%zu effect=\"the worker's clients wait; "
			          "systemd restarts hasp if the worker keeps hanging\"",
			          i);
		else if (turns && s->hangs[i])
			log_warning("worker_recovered worker=%zu", i);
		s->hangs[i] = !turns;
		all = all && turns;
	}
	return all;
}

static void supervision_beat(struct supervision *s, double now)
{
	if (s->watchdog <= 0 || now < s->watchdog_at)
		return;
	s->watchdog_at = now + s->watchdog / SUPERVISION_BEATS;
	if (supervision_sees_all_turn(s))
		notify_send(s, "WATCHDOG=1");
}

/* --- the tick --------------------------------------------------------------------------- */

static bool supervision_is_silent(const struct supervision *s)
{
	return !s->path || s->state == SUPERVISION_OVER;
}

void supervision_serves(struct supervision *s, struct worker_shared *shared, bool successor,
                        double now)
{
	s->shared = shared;
	s->ready_by = now + SUPERVISION_READY_SECONDS;
	s->status_at = now + SUPERVISION_STATUS_SECONDS;
	s->watchdog_at = now;
	if (supervision_is_silent(s))
		return;
	if (successor)
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
	if (s->watchdog > 0 && s->watchdog_at < next)
		next = s->watchdog_at;
	return next > now ? next - now : 0;
}

/* --- events ----------------------------------------------------------------------------- */

void supervision_reloads(struct supervision *s)
{
	struct timespec now;
	char text[96];

	if (supervision_is_silent(s) || s->state != SUPERVISION_SERVING)
		return;
	/* systemd requires the time with RELOADING=1, to tell reloads apart. */
	clock_gettime(CLOCK_MONOTONIC, &now);
	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld\nSTATUS=Reloading",
	         (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
	notify_send(s, text);
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

void supervision_is_handing_over(struct supervision *s, pid_t pid)
{
	char text[64];

	if (supervision_is_silent(s))
		return;
	snprintf(text, sizeof(text), "MAINPID=%ld\nREADY=1", (long)pid);
	supervision_say(s, text);
	s->state = SUPERVISION_OVER;
}
