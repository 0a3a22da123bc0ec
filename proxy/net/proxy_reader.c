/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/proxy_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "net/watch.h"

struct proxy_reader {
	struct ev_loop *loop;
	struct watch watch;
	struct ev_timer timer;
	struct list node; /* in the owner's list */
	struct buf head; /* what was taken from the socket: a part of the header */
	proxy_reader_done_fn *done;
	void *arg;
};

static void finish(struct proxy_reader *r, const struct proxy_header *h, const char *reason)
{
	proxy_reader_done_fn *done = r->done;
	void *arg = r->arg;
	int fd = watch_stop(r->loop, &r->watch);

	ev_timer_stop(r->loop, &r->timer);
	list_remove(&r->node);
	buf_release(&r->head);
	free(r);
	done(arg, fd, h, reason);
}

/* Takes `n` bytes from the socket, which are known to be there. */
static bool take(struct proxy_reader *r, char *to, size_t n)
{
	return recv(watch_fd(&r->watch), to, n, 0) == (ssize_t)n;
}

static void reader_on_ready(struct watch *w, int events)
{
	struct proxy_reader *r = container_of(w, struct proxy_reader, watch);
	char all[PROXY_HEADER_MAX];
	size_t old = buf_len(&r->head);
	const char *reason = NULL;
	struct proxy_header h;
	ssize_t n;

	(void)events;
	if (old)
		memcpy(all, buf_head(&r->head), old);
	n = recv(watch_fd(w), all + old, sizeof(all) - old, MSG_PEEK);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		finish(r, NULL, n < 0 ? strerror(errno) : "closed by the other side");
		return;
	}
	switch (proxy_header_parse(&h, slice_of(all, old + (size_t)n), &reason)) {
	case PROXY_HEADER_DONE:
		if (take(r, all, h.nbytes - old))
			finish(r, &h, NULL);
		else
			finish(r, NULL, "its bytes went away");
		break;
	case PROXY_HEADER_MORE:
		/* The kernel must not report these bytes again. */
		if (take(r, all + old, (size_t)n))
			buf_append(&r->head, slice_of(all + old, (size_t)n));
		else
			finish(r, NULL, "its bytes went away");
		break;
	case PROXY_HEADER_BAD:
		finish(r, NULL, reason);
		break;
	}
}

static void reader_on_timer(struct ev_loop *loop, struct ev_timer *w, int revents)
{
	(void)loop;
	(void)revents;
	finish(w->data, NULL, "it did not come in time");
}

void proxy_reader_start(struct ev_loop *loop, int fd, int64_t timeout_ms, struct list *readers,
                        proxy_reader_done_fn *done, void *arg)
{
	struct proxy_reader *r = xcalloc(1, sizeof(*r));

	r->loop = loop;
	r->done = done;
	r->arg = arg;
	list_append(readers, &r->node);
	watch_init(&r->watch, reader_on_ready);
	watch_start(loop, &r->watch, fd, EV_READ);
	ev_timer_init(&r->timer, reader_on_timer, (double)timeout_ms / 1000, 0);
	r->timer.data = r;
	if (timeout_ms)
		ev_timer_start(loop, &r->timer);
}

void proxy_readers_end(struct list *readers)
{
	while (!list_empty(readers))
		finish(container_of(readers->next, struct proxy_reader, node), NULL, NULL);
}
