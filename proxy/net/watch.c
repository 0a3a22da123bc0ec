/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/watch.h"

#include <stdlib.h>

#include "base/fatal.h"

/* Returns the loop's queue, stored as its userdata: watches in the order in which they are
 * served. */
static struct list *queue_of_loop(struct ev_loop *loop)
{
	struct list *q = ev_userdata(loop);

	HASP_ASSERT(q);
	return q;
}

/* libev calls this function, in place of ev_invoke_pending(), to run callbacks.
 * ev_invoke_pending() runs timers, messages and the callbacks around each turn, but only queues
 * the sockets, which are then served in order. */
static void invoke_pending_in_order(struct ev_loop *loop)
{
	struct list *q = queue_of_loop(loop);

	do {
		ev_invoke_pending(loop);
		list_shift_each (struct watch, w, q, ready) {
			int events = w->reported;
			w->reported = 0;
			w->on_ready(w, events);
		}
	} while (ev_pending_count(loop));
}

struct ev_loop *watch_loop_new(unsigned flags)
{
	struct ev_loop *loop = ev_loop_new(flags);
	struct list *q;

	if (!loop)
		return NULL;
	q = xmalloc(sizeof(*q));
	list_init(q);
	ev_set_userdata(loop, q);
	ev_set_invoke_pending_cb(loop, invoke_pending_in_order);
	return loop;
}

void watch_loop_free(struct ev_loop *loop)
{
	struct list *q = queue_of_loop(loop);

	HASP_ASSERT(list_empty(q));
	free(q);
	ev_loop_destroy(loop);
}

/* Puts the socket at the head: libev runs this first for the socket reported last. */
static void watch_on_io(struct ev_loop *loop, struct ev_io *io, int revents)
{
	struct watch *w = container_of(io, struct watch, io);

	(void)loop;
	if (!w->reported)
		list_prepend(io->data, &w->ready);
	w->reported |= revents;
}

void watch_init(struct watch *w, void (*on_ready)(struct watch *w, int events))
{
	*w = (struct watch){ .on_ready = on_ready };
	list_init(&w->ready);
	ev_io_init(&w->io, watch_on_io, -1, 0);
}

void watch_start(struct ev_loop *loop, struct watch *w, int fd, int events)
{
	HASP_ASSERT(watch_fd(w) < 0 && fd >= 0);
	w->io.data = queue_of_loop(loop);
	ev_io_set(&w->io, fd, 0);
	watch_change(loop, w, events);
}

void watch_change(struct ev_loop *loop, struct watch *w, int events)
{
	if ((w->io.events & (EV_READ | EV_WRITE)) == events)
		return;
	ev_io_stop(loop, &w->io);
	ev_io_set(&w->io, w->io.fd, events);
	if (events)
		ev_io_start(loop, &w->io);
}

int watch_stop(struct ev_loop *loop, struct watch *w)
{
	int fd = watch_fd(w);

	ev_io_stop(loop, &w->io);
	ev_io_set(&w->io, -1, 0);
	list_remove(&w->ready);
	w->reported = 0;
	return fd;
}

void watch_feed(struct ev_loop *loop, struct watch *w)
{
	if (!w->reported)
		list_append(queue_of_loop(loop), &w->ready);
	w->reported |= EV_READ;
}
