/* SPDX-License-Identifier: BSD-3-Clause */
#include "net/resolve.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/list.h"

/* A question travels: asked (resolver's list) -> with the thread -> letter. */
struct resolve_request {
	struct message message;
	struct list node;
	char *host;
	char *port;
	struct addrinfo *ai;
	int error;
	bool cancelled; /* the loop's thread only */
	void (*done)(void *arg, struct addrinfo *ai, int error);
	void *arg;
};

/* Shared by the loop's thread and the resolving one; the last to leave frees.
 * getaddrinfo() can't be interrupted, so nobody waits for that thread. */
struct resolver {
	struct mailbox *mailbox; /* NULL once the loop has left */
	pthread_mutex_t lock;
	pthread_cond_t asked;
	struct list queue;
	bool running;
	_Atomic int refs;
};

static void request_free(struct resolve_request *q)
{
	if (q->ai)
		freeaddrinfo(q->ai);
	free(q->host);
	free(q->port);
	free(q);
}

static void resolver_unref(struct resolver *r)
{
	struct list *node;

	if (atomic_fetch_sub(&r->refs, 1) != 1)
		return;
	while ((node = list_shift(&r->queue)))
		request_free(container_of(node, struct resolve_request, node));
	pthread_cond_destroy(&r->asked);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static void resolve_deliver(struct message *l)
{
	struct resolve_request *q = container_of(l, struct resolve_request, message);
	struct addrinfo *ai = q->ai;

	if (!q->cancelled) {
		q->ai = NULL;
		q->done(q->arg, ai, q->error);
	}
	request_free(q);
}

static struct addrinfo *lookup(const char *host, const char *port, int flags, int *error)
{
	struct addrinfo hints = { .ai_family = AF_UNSPEC,
		                  .ai_socktype = SOCK_STREAM,
		                  .ai_flags = AI_NUMERICSERV | flags };
	struct addrinfo *ai = NULL;

	*error = getaddrinfo(host, port, &hints, &ai);
	return ai;
}

struct addrinfo *resolve_numeric(const char *host, const char *port, int *error)
{
	return lookup(host, port, AI_NUMERICHOST, error);
}

static void *resolver_main(void *arg)
{
	struct resolver *r = arg;
	struct resolve_request *q;
	struct list *node;

	pthread_mutex_lock(&r->lock);
	for (;;) {
		while (r->mailbox && list_empty(&r->queue))
			pthread_cond_wait(&r->asked, &r->lock);
		if (!r->mailbox)
			break;
		node = list_shift(&r->queue);
		pthread_mutex_unlock(&r->lock);
		q = container_of(node, struct resolve_request, node);
		q->ai = lookup(q->host, q->port, AI_ADDRCONFIG, &q->error);
		pthread_mutex_lock(&r->lock);
		if (r->mailbox)
			mailbox_post(r->mailbox, &q->message);
		else
			request_free(q);
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
	pthread_cond_init(&r->asked, NULL);
	return r;
}

void resolver_free(struct resolver *r)
{
	pthread_mutex_lock(&r->lock);
	r->mailbox = NULL;
	pthread_cond_signal(&r->asked);
	pthread_mutex_unlock(&r->lock);
	resolver_unref(r);
}

/* Without its thread a resolver can still say that it failed. */
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

struct resolve_request *resolve(struct resolver *r, const char *host, const char *port,
                                void (*done)(void *arg, struct addrinfo *ai, int error),
                                void *arg)
{
	struct resolve_request *q;

	if (!start_thread(r))
		return NULL;
	q = xcalloc(1, sizeof(*q));
	q->message.deliver = resolve_deliver;
	list_init(&q->node);
	q->host = xstrdup(host);
	q->port = xstrdup(port);
	q->done = done;
	q->arg = arg;
	pthread_mutex_lock(&r->lock);
	list_append(&r->queue, &q->node);
	pthread_cond_signal(&r->asked);
	pthread_mutex_unlock(&r->lock);
	return q;
}

void resolve_cancel(struct resolve_request *q)
{
	q->cancelled = true;
}
