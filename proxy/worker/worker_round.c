/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_round: carries a question (client/client.h) from worker to worker, by their mailboxes.
 * A worker that has ended answers nothing, and one that is freed is passed over.
 */
#include <stdatomic.h>

#include "base/list.h"
#include "client/client.h"
#include "worker/worker_internal.h"

static void worker_round_deliver(struct message *m);

/* Gives the round to the worker `to`. False: that worker is gone. */
static bool give(struct round *r, size_t to)
{
	struct worker_shared *shared = r->shared;
	bool there;

	pthread_mutex_lock(&shared->rounds);
	there = !shared->gone[to];
	if (there) {
		r->at = to;
		mailbox_post(&shared->workers[to]->mailbox, &r->message);
	}
	pthread_mutex_unlock(&shared->rounds);
	return there;
}

/* Gives the round to the next worker that is not gone; the client's own worker is the last. */
static void give_next(struct round *r, size_t at)
{
	do {
		at = (at + 1) % r->nworkers;
		r->cursor = 0;
		if (give(r, at))
			return;
	} while (at != r->home);
	r->end(r, false);
}

/* On the worker's thread; if the worker has ended, on the thread of worker_join(). */
static void worker_round_deliver(struct message *m)
{
	struct round *r = container_of(m, struct round, message);
	struct worker *w = r->shared->workers[r->at];
	bool ended = atomic_load(&w->ended);

	if (!ended && !r->step(r, &w->clients))
		mailbox_post(&w->mailbox, &r->message);
	else if (r->at != r->home)
		give_next(r, r->at);
	else
		r->end(r, !ended);
}

void worker_round_begin(void *arg, struct round *r)
{
	struct worker *w = arg;

	r->message.deliver = worker_round_deliver;
	r->shared = w->shared;
	r->home = (size_t)w->number;
	pthread_mutex_lock(&w->shared->rounds);
	r->nworkers = w->shared->nworkers;
	pthread_mutex_unlock(&w->shared->rounds);
	give_next(r, r->home);
}

void worker_round_leave(struct worker *w)
{
	pthread_mutex_lock(&w->shared->rounds);
	w->shared->gone[w->number] = true;
	pthread_mutex_unlock(&w->shared->rounds);
}
