/* SPDX-License-Identifier: BSD-3-Clause
 *
 * watcher_thread: the watcher's thread, and the functions that other threads call.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "net/resolve.h"
#include "net/watch.h"
#include "upstream/watcher_internal.h"

#define WATCHER_SCRATCH ((size_t)64 * 1024)
/* Milliseconds that a server may take to answer; then the watcher asks the next one. */
#define ANSWER_MS_MAX 1000

/* --- settings ----------------------------------------------------------------------------- */

static struct watcher_settings settings_copy(const struct watcher_settings *s)
{
	struct watcher_settings own = *s;
	char **sentinels = xcalloc(s->nsentinels + 1, sizeof(*sentinels));

	for (size_t i = 0; i < s->nsentinels; i++)
		sentinels[i] = xstrdup(s->sentinels[i]);
	own.sentinels = sentinels;
	own.master = xstrdup_or_null(s->master);
	own.address = xstrdup_or_null(s->address);
	own.user = xstrdup_or_null(s->user);
	own.password = xstrdup_or_null(s->password);
	own.sentinel_user = xstrdup_or_null(s->sentinel_user);
	own.sentinel_password = xstrdup_or_null(s->sentinel_password);
	(void)tls_context_ref(s->tls.context);
	own.tls.name = xstrdup_or_null(s->tls.name);
	return own;
}

static void settings_release(struct watcher_settings *own)
{
	for (size_t i = 0; i < own->nsentinels; i++)
		free(own->sentinels[i]);
	free((char **)own->sentinels);
	free((char *)own->master);
	free((char *)own->address);
	free((char *)own->user);
	free((char *)own->password);
	free((char *)own->sentinel_user);
	free((char *)own->sentinel_password);
	tls_context_unref(own->tls.context);
	free((char *)own->tls.name);
}

/* --- orders ------------------------------------------------------------------------------- */

struct watcher_order {
	struct message message;
	struct watcher *watcher;
	struct watcher_settings settings; /* argument of watcher_use() */
};

static void watcher_post(struct watcher *w, const struct watcher_settings *s,
                         void (*deliver)(struct message *))
{
	struct watcher_order *order = xcalloc(1, sizeof(*order));

	order->message.deliver = deliver;
	order->watcher = w;
	if (s)
		order->settings = settings_copy(s);
	mailbox_post(&w->mailbox, &order->message);
}

static void watcher_on_ask(struct message *m)
{
	struct watcher_order *order = container_of(m, struct watcher_order, message);

	watcher_begin_soon(order->watcher);
	free(order);
}

void watcher_ask(struct watcher *w, enum link_alarm alarm)
{
	unsigned bit = 1u << alarm;

	if (!(atomic_fetch_or(&w->alarms, bit) & bit))
		watcher_post(w, NULL, watcher_on_ask);
}

static void watcher_forget(struct watcher *w)
{
	free(w->primary);
	w->primary = NULL;
	w->warned = false;
	(void)watcher_set_why(w, "hasp", "no sentinel has answered yet");
}

static void watcher_on_use(struct message *m)
{
	struct watcher_order *order = container_of(m, struct watcher_order, message);
	struct watcher *w = order->watcher;
	const char *master = order->settings.master;
	int64_t epoch = w->sentinels.epoch;

	query_cancel(&w->query);
	loop_timer_stop(&w->timer);
	watcher_stop_listening(w);
	if (!slice_same_str(w->settings.master, master)) {
		watcher_forget(w);
		epoch = -1;
	}
	settings_release(&w->settings);
	w->settings = order->settings;
	w->links.dialer.tls = w->settings.tls;
	free(order);
	if (w->settings.timeout_ms > ANSWER_MS_MAX)
		w->settings.timeout_ms = ANSWER_MS_MAX;
	sentinels_fini(&w->sentinels);
	sentinels_init(&w->sentinels, w->settings.sentinels, w->settings.nsentinels);
	w->sentinels.epoch = epoch;
	if (master)
		watcher_report(w, false);
	watcher_begin(w);
}

void watcher_use(struct watcher *w, const struct watcher_settings *s)
{
	watcher_post(w, s, watcher_on_use);
}

/* --- the thread --------------------------------------------------------------------------- */

static void watcher_on_check(struct ev_loop *loop, struct ev_check *c, int revents)
{
	struct watcher *w = c->data;

	(void)loop;
	(void)revents;
	links_reap(&w->links);
	sentinel_events_reap(&w->events);
}

static void watcher_on_stop(struct message *m)
{
	struct watcher_order *order = container_of(m, struct watcher_order, message);

	ev_break(order->watcher->loop, EVBREAK_ALL);
	free(order);
}

static void *watcher_main(void *arg)
{
	struct watcher *w = arg;

	ev_run(w->loop, 0);
	return NULL;
}

static void watcher_init(struct watcher *w)
{
	w->loop = watch_loop_new(EVFLAG_AUTO);
	HASP_ASSERT(w->loop);
	mailbox_init(&w->mailbox, w->loop);
	stream_flusher_init(&w->flusher, w->loop);
	w->links = w->events.links = (struct link_env){
		.flusher = &w->flusher,
		.dialer = { .loop = w->loop,
		            .resolver = resolver_new(&w->mailbox),
		            .timeout_ms = ANSWER_MS_MAX },
		.clock = clock_now,
		.scratch = xmalloc(WATCHER_SCRATCH),
		.scratch_size = WATCHER_SCRATCH,
	};
	links_init(&w->links);
	list_init(&w->events.subs);
	query_init(&w->query, &w->links, watcher_on_replies, w);
	sentinels_init(&w->sentinels, NULL, 0);
	watcher_forget(w);
	loop_timer_init(&w->timer, w->loop, watcher_begin, w);
	loop_timer_init(&w->overdue, w->loop, watcher_on_overdue, w);
	ev_check_init(&w->check, watcher_on_check);
	w->check.data = w;
	ev_check_start(w->loop, &w->check);
}

struct watcher *watcher_new(void (*on_primary)(void *arg, const struct found_primary *p),
                            void *arg)
{
	struct watcher *w = xcalloc(1, sizeof(*w));

	w->on_primary = on_primary;
	w->arg = arg;
	watcher_init(w);
	return w;
}

int watcher_start(struct watcher *w)
{
	return pthread_create(&w->thread, NULL, watcher_main, w);
}

void watcher_stop(struct watcher *w)
{
	watcher_post(w, NULL, watcher_on_stop);
	pthread_join(w->thread, NULL);
}

void watcher_free(struct watcher *w)
{
	query_cancel(&w->query);
	watcher_stop_listening(w);
	links_reap(&w->links);
	loop_timer_stop(&w->timer);
	ev_check_stop(w->loop, &w->check);
	resolver_free(w->links.dialer.resolver);
	mailbox_fini(&w->mailbox);
	stream_flusher_fini(&w->flusher);
	watch_loop_free(w->loop);
	sentinels_fini(&w->sentinels);
	tls_resume_clear(&w->links.tls_resume);
	settings_release(&w->settings);
	buf_release(&w->why);
	free(w->primary);
	free(w->links.scratch);
	free(w);
}
