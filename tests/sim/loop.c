/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/sim/loop.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/list.h"
#include "tests/sim/simnet.h"
#include "tests/sim/world.h"

/* How long a loop takes until it does what is due. */
#define STEP_US_LEAST 5
#define STEP_US_MOST (3 * MS)
#define PRIORITIES (EV_MAXPRI - EV_MINPRI + 1)

struct pending {
	struct ev_watcher *watcher; /* NULL: it was stopped */
	int events;
};

/* Active watchers of one kind; watcher->active is the watcher's place, from 1. */
struct watchers {
	struct ev_watcher **v;
	size_t n, cap;
};

struct ev_loop {
	struct list node; /* in `loops` */
	struct machine *machine;
	struct event step;
	bool is_started, is_broken;
	void *userdata;
	void (*invoke)(struct ev_loop *loop);
	double now; /* seconds: the monotonic time when this iteration began */
	struct watchers timers, ios, asyncs, idles, checks, prepares;
	struct watchers woken; /* asyncs that were sent */
	struct {
		struct pending *v;
		size_t n, cap;
	} pending[PRIORITIES];
};

static struct list loops = { &loops, &loops };

/* --- watchers ----------------------------------------------------------------------------- */

static void watchers_add(struct watchers *list, void *watcher)
{
	struct ev_watcher *w = watcher;

	if (w->active)
		return;
	if (list->n == list->cap) {
		list->cap = 2 * list->cap + 8;
		list->v = xrealloc(list->v, list->cap * sizeof(struct ev_watcher *));
	}
	list->v[list->n++] = w;
	w->active = (int)list->n;
}

static void unqueue(struct ev_loop *loop, struct ev_watcher *w)
{
	if (w->pending)
		loop->pending[w->priority - EV_MINPRI].v[w->pending - 1].watcher = NULL;
	w->pending = 0;
}

static void watchers_remove(struct ev_loop *loop, struct watchers *list, void *watcher)
{
	struct ev_watcher *w = watcher, *last;

	unqueue(loop, w);
	if (!w->active)
		return;
	last = list->v[--list->n];
	list->v[w->active - 1] = last;
	last->active = w->active;
	w->active = 0;
}

static void queue(struct ev_loop *loop, struct ev_watcher *w, int events)
{
	struct pending *p;
	size_t pri = (size_t)(w->priority - EV_MINPRI);

	if (w->pending) {
		loop->pending[pri].v[w->pending - 1].events |= events;
		return;
	}
	if (loop->pending[pri].n == loop->pending[pri].cap) {
		loop->pending[pri].cap = 2 * loop->pending[pri].cap + 8;
		loop->pending[pri].v = xrealloc(loop->pending[pri].v,
		                                loop->pending[pri].cap * sizeof(*p));
	}
	loop->pending[pri].v[loop->pending[pri].n++] = (struct pending){ w, events };
	w->pending = (int)loop->pending[pri].n;
}

static void queue_all(struct ev_loop *loop, const struct watchers *list, int events)
{
	for (size_t i = 0; i < list->n; i++)
		queue(loop, list->v[i], events);
}

/* --- an iteration ------------------------------------------------------------------------- */

static double now_seconds(void)
{
	return (double)world_now() / SECOND;
}

static int io_events(const struct ev_io *io)
{
	return io->events & simnet_ready(io->fd);
}

static int by_arrival(const void *one, const void *other)
{
	const struct ev_io *a = *(struct ev_io *const *)one, *b = *(struct ev_io *const *)other;
	uint64_t at = simnet_ready_since(a->fd), bt = simnet_ready_since(b->fd);

	return at < bt ? -1 : at > bt;
}

/* Queues the sockets as epoll reports them: the one that became ready first comes first. */
static void queue_sockets(struct ev_loop *loop)
{
	struct ev_io **ready = xcalloc(loop->ios.n + 1, sizeof(struct ev_io *));
	size_t n = 0;

	for (size_t i = 0; i < loop->ios.n; i++)
		if (io_events((struct ev_io *)loop->ios.v[i]))
			ready[n++] = (struct ev_io *)loop->ios.v[i];
	qsort(ready, n, sizeof(struct ev_io *), by_arrival);
	for (size_t i = 0; i < n; i++)
		queue(loop, (struct ev_watcher *)ready[i], io_events(ready[i]));
	for (size_t i = 0; i < n; i++)
		simnet_reported(ready[i]->fd);
	free(ready);
}

static int latest_first(const void *one, const void *other)
{
	const struct ev_timer *a = *(struct ev_timer *const *)one,
			      *b = *(struct ev_timer *const *)other;

	return a->at > b->at ? -1 : a->at < b->at;
}

static void queue_timers(struct ev_loop *loop)
{
	struct ev_timer **due = xcalloc(loop->timers.n + 1, sizeof(struct ev_timer *));
	size_t n = 0;

	for (size_t i = 0; i < loop->timers.n; i++)
		if (((struct ev_timer *)loop->timers.v[i])->at <= loop->now)
			due[n++] = (struct ev_timer *)loop->timers.v[i];
	qsort(due, n, sizeof(struct ev_timer *), latest_first);
	for (size_t i = 0; i < n; i++) {
		struct ev_timer *t = due[i];
		if (t->repeat > 0)
			t->at = fmax(t->at + t->repeat, loop->now);
		else
			watchers_remove(loop, &loop->timers, t);
		queue(loop, (struct ev_watcher *)t, EV_TIMER);
	}
	free(due);
}

static bool has_work(const struct ev_loop *loop)
{
	if (ev_pending_count((struct ev_loop *)loop) || loop->woken.n || loop->idles.n)
		return true;
	for (size_t i = 0; i < loop->ios.n; i++)
		if (io_events((struct ev_io *)loop->ios.v[i]))
			return true;
	return false;
}

/* Schedules the next step, if nothing else happens before. */
static void schedule_step(struct ev_loop *loop)
{
	double first = INFINITY;

	if (!loop->is_started || loop->is_broken)
		return;
	if (has_work(loop)) {
		world_schedule_in(&loop->step, chance_delay(STEP_US_LEAST, STEP_US_MOST));
		return;
	}
	for (size_t i = 0; i < loop->timers.n; i++)
		first = fmin(first, ((struct ev_timer *)loop->timers.v[i])->at);
	if (first < INFINITY)
		world_schedule(&loop->step, (int64_t)floor(first * SECOND) + 1);
	else
		world_cancel(&loop->step);
}

/* Does what libev does before it waits. */
static void before_wait(struct ev_loop *loop)
{
	queue_all(loop, &loop->prepares, EV_PREPARE);
	loop->invoke(loop);
}

static void step(struct ev_loop *loop)
{
	loop->now = now_seconds();
	queue_sockets(loop);
	for (size_t i = 0; i < loop->woken.n; i++) {
		((struct ev_async *)loop->woken.v[i])->sent = 0;
		queue(loop, loop->woken.v[i], EV_ASYNC);
	}
	loop->woken.n = 0;
	queue_timers(loop);
	queue_all(loop, &loop->idles, EV_IDLE);
	queue_all(loop, &loop->checks, EV_CHECK);
	loop->invoke(loop);
	if (!loop->is_broken)
		before_wait(loop);
}

static void on_step(struct event *e)
{
	struct ev_loop *loop = container_of(e, struct ev_loop, step);

	step(loop);
	schedule_step(loop);
}

void loop_wake(struct ev_loop *loop)
{
	int64_t at;

	if (!loop->is_started || loop->is_broken || !has_work(loop))
		return;
	at = world_now() + chance_delay(STEP_US_LEAST, STEP_US_MOST);
	if (!loop->step.place || loop->step.at > at)
		world_schedule(&loop->step, at);
}

bool loop_is_over(const struct ev_loop *loop)
{
	return loop->is_broken;
}

void loops_each(const struct machine *m, void (*call)(void *arg, struct ev_loop *loop),
                void *arg)
{
	for (struct list *at = loops.next; at != &loops; at = at->next)
		if (container_of(at, struct ev_loop, node)->machine == m)
			call(arg, container_of(at, struct ev_loop, node));
}

static void start(void *arg, struct ev_loop *loop)
{
	(void)arg;
	if (loop->is_started)
		return;
	loop->is_started = true;
	loop->now = now_seconds();
	before_wait(loop);
	schedule_step(loop);
}

void loops_start(const struct machine *m)
{
	loops_each(m, start, NULL);
}

/* --- <ev.h> ------------------------------------------------------------------------------- */

struct ev_loop *ev_loop_new(unsigned flags)
{
	struct ev_loop *loop = xcalloc(1, sizeof(*loop));

	(void)flags;
	loop->machine = world_current();
	loop->invoke = ev_invoke_pending;
	loop->step = (struct event){ .run = on_step, .machine = loop->machine };
	loop->now = now_seconds();
	list_append(&loops, &loop->node);
	return loop;
}

void ev_loop_destroy(struct ev_loop *loop)
{
	struct watchers *lists[] = { &loop->timers, &loop->ios,    &loop->asyncs,
		                     &loop->idles,  &loop->checks, &loop->prepares,
		                     &loop->woken };

	world_cancel(&loop->step);
	list_remove(&loop->node);
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		free(lists[i]->v);
	for (size_t i = 0; i < PRIORITIES; i++)
		free(loop->pending[i].v);
	free(loop);
}

/* Only pthread_join() runs a loop, to its end, for which another thread has asked (calls.c). */
int ev_run(struct ev_loop *loop, int flags)
{
	(void)flags;
	while (!loop->is_broken) {
		HASP_ASSERT(has_work(loop));
		step(loop);
	}
	return 0;
}

void ev_break(struct ev_loop *loop, int how)
{
	(void)how;
	loop->is_broken = true;
	world_cancel(&loop->step);
}

ev_tstamp ev_now(struct ev_loop *loop)
{
	return loop->now + ((double)world_date(loop->machine) / SECOND - now_seconds());
}

void ev_now_update(struct ev_loop *loop)
{
	loop->now = now_seconds();
}

void ev_set_userdata(struct ev_loop *loop, void *data)
{
	loop->userdata = data;
}

void *ev_userdata(struct ev_loop *loop)
{
	return loop->userdata;
}

void ev_set_invoke_pending_cb(struct ev_loop *loop, ev_loop_callback invoke_pending_cb)
{
	loop->invoke = invoke_pending_cb;
}

unsigned int ev_pending_count(struct ev_loop *loop)
{
	size_t n = 0;

	for (size_t i = 0; i < PRIORITIES; i++)
		n += loop->pending[i].n;
	return (unsigned)n;
}

void ev_invoke_pending(struct ev_loop *loop)
{
	for (size_t i = PRIORITIES; i-- > 0;) {
		while (loop->pending[i].n) {
			struct pending p = loop->pending[i].v[--loop->pending[i].n];
			if (!p.watcher)
				continue;
			p.watcher->pending = 0;
			p.watcher->cb(loop, p.watcher, p.events);
			/* A callback may have queued a watcher of a higher priority. */
			i = PRIORITIES - 1;
		}
	}
}

void ev_io_start(struct ev_loop *loop, ev_io *w)
{
	watchers_add(&loop->ios, w);
	simnet_watch(w->fd, loop);
	loop_wake(loop);
}

void ev_io_stop(struct ev_loop *loop, ev_io *w)
{
	watchers_remove(loop, &loop->ios, w);
}

void ev_timer_start(struct ev_loop *loop, ev_timer *w)
{
	if (w->active)
		return;
	w->at += loop->now;
	watchers_add(&loop->timers, w);
	if (loop->is_started && !loop->is_broken &&
	    (!loop->step.place || (double)loop->step.at > w->at * SECOND + 1))
		world_schedule(&loop->step, (int64_t)floor(w->at * SECOND) + 1);
}

void ev_timer_stop(struct ev_loop *loop, ev_timer *w)
{
	if (w->active)
		w->at -= loop->now;
	watchers_remove(loop, &loop->timers, w);
}

void ev_timer_again(struct ev_loop *loop, ev_timer *w)
{
	ev_timer_stop(loop, w);
	w->at = w->repeat;
	if (w->repeat > 0)
		ev_timer_start(loop, w);
}

void ev_async_start(struct ev_loop *loop, ev_async *w)
{
	w->sent = 0;
	watchers_add(&loop->asyncs, w);
}

void ev_async_stop(struct ev_loop *loop, ev_async *w)
{
	for (size_t i = 0; i < loop->woken.n; i++)
		if (loop->woken.v[i] == (struct ev_watcher *)w)
			loop->woken.v[i] = loop->woken.v[--loop->woken.n];
	watchers_remove(loop, &loop->asyncs, w);
}

void ev_async_send(struct ev_loop *loop, ev_async *w)
{
	if (w->sent)
		return;
	w->sent = 1;
	if (loop->woken.n == loop->woken.cap) {
		loop->woken.cap = 2 * loop->woken.cap + 4;
		loop->woken.v = xrealloc(loop->woken.v,
		                         loop->woken.cap * sizeof(struct ev_watcher *));
	}
	loop->woken.v[loop->woken.n++] = (struct ev_watcher *)w;
	loop_wake(loop);
}

void ev_idle_start(struct ev_loop *loop, ev_idle *w)
{
	watchers_add(&loop->idles, w);
	loop_wake(loop);
}

void ev_idle_stop(struct ev_loop *loop, ev_idle *w)
{
	watchers_remove(loop, &loop->idles, w);
}

void ev_check_start(struct ev_loop *loop, ev_check *w)
{
	watchers_add(&loop->checks, w);
}

void ev_check_stop(struct ev_loop *loop, ev_check *w)
{
	watchers_remove(loop, &loop->checks, w);
}

void ev_prepare_start(struct ev_loop *loop, ev_prepare *w)
{
	watchers_add(&loop->prepares, w);
}

void ev_prepare_stop(struct ev_loop *loop, ev_prepare *w)
{
	watchers_remove(loop, &loop->prepares, w);
}
