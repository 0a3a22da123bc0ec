/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/resolve.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/fatal.h"
#include "base/list.h"

/* A request: resolve_start() -> resolver.queue -> resolver's thread -> mailbox -> `done`. */
struct resolve_request {
	struct message message;
	struct resolver *resolver;
	struct list node; /* in resolver.queue, until the thread takes the request */
	char *host;
	char *port;
	struct addrinfo *ai; /* the result; NULL: none yet, or an error */
	int error; /* getaddrinfo()'s error */
	bool cancelled; /* only the loop's thread uses it */
	void (*done)(void *arg, struct addrinfo *ai, int error);
	void *arg;
};

/* The loop's thread and the resolver's thread share this struct; the last user frees it.
 * Nothing can interrupt getaddrinfo(), so resolver_free() does not wait for its end. */
struct resolver {
	struct mailbox *mailbox; /* NULL after resolver_free() */
	pthread_mutex_t lock; /* protects `mailbox` and `queue` */
	pthread_cond_t changed; /* signals a change of `mailbox` or `queue` */
	struct list queue; /* requests that the thread has not taken */
	bool running; /* the thread was started; only the loop's thread uses it */
	_Atomic int refs; /* number of threads that use the struct */
};

static void resolve_request_free(struct resolve_request *q)
{
	if (q->ai)
		freeaddrinfo(q->ai);
	free(q->host);
	free(q->port);
	free(q);
}

static void resolver_unref(struct resolver *r)
{
	if (atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	list_shift_each (struct resolve_request, q, &r->queue, node)
		resolve_request_free(q);
	pthread_cond_destroy(&r->changed);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static void resolve_on_result(struct message *msg)
{
	struct resolve_request *q = container_of(msg, struct resolve_request, message);
	struct addrinfo *ai = q->ai;

	if (!q->cancelled) {
		q->ai = NULL;
		q->done(q->arg, ai, q->error);
	}
	resolve_request_free(q);
}

static struct addrinfo *resolve_blocking(const char *host, const char *port, int flags,
                                         int *error)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
		                  .ai_socktype = SOCK_STREAM,
		                  .ai_flags = AI_NUMERICSERV | flags };
	struct addrinfo *ai = NULL;

	*error = getaddrinfo(host, port, &hints, &ai);
	return ai;
}

struct addrinfo *resolve_numeric(const char *host, const char *port)
{
	int error;

	return resolve_blocking(host, port, AI_NUMERICHOST, &error);
}

static void *resolver_main(void *arg)
{
	struct resolver *r = arg;
	struct resolve_request *q;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (r->mailbox && list_empty(&r->queue))
			pthread_cond_wait(&r->changed, &r->lock);
		if (!r->mailbox)
			break;
		q = list_take(&r->queue, struct resolve_request, node);
		pthread_mutex_unlock(&r->lock);
		q->ai = resolve_blocking(q->host, q->port, AI_ADDRCONFIG, &q->error);
		pthread_mutex_lock(&r->lock);
		if (r->mailbox)
			mailbox_post(r->mailbox, &q->message);
		else
			resolve_request_free(q);
	}
	pthread_mutex_unlock(&r->lock);
	resolver_unref(r);
	return NULL;
}

struct resolver *resolver_new(struct mailbox *mailbox)
{
	struct resolver *r = xcalloc(1, sizeof(*r));

	r->mailbox = mailbox;
	r->refs = 1;
	list_init(&r->queue);
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	return r;
}

void resolver_free(struct resolver *r)
{
	pthread_mutex_lock(&r->lock);
	r->mailbox = NULL;
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
	resolver_unref(r);
}

/* Starts the thread. Returns false if the system refuses; a later request tries again. */
static bool start_thread(struct resolver *r)
{
	pthread_t thread;

	if (r->running)
		return true;
	atomic_fetch_add(&r->refs, 1);
	if (pthread_create(&thread, NULL, resolver_main, r) != 0) {
		atomic_fetch_sub(&r->refs, 1);
		return false;
	}
	pthread_detach(thread);
	r->running = true;
	return true;
}

struct resolve_request *resolve_start(struct resolver *r, const char *host, const char *port,
                                      void (*done)(void *arg, struct addrinfo *ai, int error),
                                      void *arg)
{
	struct resolve_request *q;

	if (!start_thread(r))
		return NULL;
	q = xcalloc(1, sizeof(*q));
	q->message.deliver = resolve_on_result;
	q->resolver = r;
	list_init(&q->node);
	q->host = xstrdup(host);
	q->port = xstrdup(port);
	q->done = done;
	q->arg = arg;
	pthread_mutex_lock(&r->lock);
	list_append(&r->queue, &q->node);
	pthread_cond_signal(&r->changed);
	pthread_mutex_unlock(&r->lock);
	return q;
}

void resolve_cancel(struct resolve_request *q)
{
	struct resolver *r = q->resolver;
	bool is_queued;

	q->cancelled = true;
	/* If the thread resolved the name for nothing, later requests would wait for that. */
	pthread_mutex_lock(&r->lock);
	is_queued = !list_empty(&q->node);
	list_remove(&q->node);
	pthread_mutex_unlock(&r->lock);
	if (is_queued)
		resolve_request_free(q);
}
