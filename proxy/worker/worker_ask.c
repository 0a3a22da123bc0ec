/* SPDX-License-Identifier: BSD-3-Clause
 *
 * A question outlives its caller's patience: a worker that is late finds it abandoned, and the
 * last one to let go of it frees it.
 */
#include "worker/worker_ask.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "worker/worker_internal.h"

/* How often the caller looks whether a worker has ended that it waits for. */
#define LOOK_MS 20

/* A question to all workers. */
struct workers_question {
	pthread_mutex_t lock; /* of `refs`, `abandoned` and each part's `done` */
	pthread_cond_t answered; /* by one more worker */
	size_t refs; /* the caller's, and one for each message */
	bool abandoned; /* the caller waits no more */
	worker_step_fn *step;
	size_t nparts;
	struct part *parts; /* one for each worker */
};

/* One worker's part in it. */
struct part {
	struct message message; /* in the worker's mailbox, or being delivered */
	struct workers_question *question;
	struct worker *worker;
	void *arg; /* the worker's copy; NULL: none */
	struct worker_answer answer; /* the worker's until `done`, then the caller's */
	bool done;
};

static void question_unref(struct workers_question *q)
{
	size_t left;

	pthread_mutex_lock(&q->lock);
	left = --q->refs;
	pthread_mutex_unlock(&q->lock);
	if (left)
		return;
	for (size_t i = 0; i < q->nparts; i++) {
		buf_release(&q->parts[i].answer.out);
		free(q->parts[i].arg);
	}
	pthread_cond_destroy(&q->answered);
	pthread_mutex_destroy(&q->lock);
	free(q->parts);
	free(q);
}

static bool is_abandoned(struct workers_question *q)
{
	bool abandoned;

	pthread_mutex_lock(&q->lock);
	abandoned = q->abandoned;
	pthread_mutex_unlock(&q->lock);
	return abandoned;
}

/* On the worker's thread; on that of worker_join() if the worker has ended meanwhile. */
static void worker_ask_deliver(struct message *m)
{
	struct part *p = container_of(m, struct part, message);
	struct workers_question *q = p->question;
	struct worker *w = p->worker;

	if (!atomic_load(&w->ended) && !is_abandoned(q)) {
		const struct worker_view view = {
			.number = w->number,
			.clients = &w->clients,
			.topology = w->topology,
		};

		if (!q->step(&view, p->arg, &p->answer)) {
			mailbox_post(&w->mailbox, &p->message);
			return;
		}
		pthread_mutex_lock(&q->lock);
		p->done = true;
		pthread_cond_signal(&q->answered);
		pthread_mutex_unlock(&q->lock);
	}
	question_unref(q);
}

static struct workers_question *question_new(const struct worker_shared *shared,
                                             worker_step_fn *step, const void *arg, size_t size)
{
	struct workers_question *q = xcalloc(1, sizeof(*q));
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&q->answered, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&q->lock, NULL);
	q->step = step;
	q->nparts = shared->nworkers;
	q->parts = xcalloc(q->nparts, sizeof(*q->parts));
	q->refs = 1 + q->nparts;
	for (size_t i = 0; i < q->nparts; i++) {
		struct part *p = &q->parts[i];

		p->message.deliver = worker_ask_deliver;
		p->question = q;
		p->worker = shared->workers[i];
		p->answer.out = BUF_INIT;
		if (arg)
			p->arg = memcpy(xmalloc(size), arg, size);
	}
	return q;
}

static struct timespec time_in(int64_t ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += (time_t)(ms / 1000);
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= 1000000000) {
		t.tv_sec++;
		t.tv_nsec -= 1000000000;
	}
	return t;
}

static bool is_later(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec > b->tv_sec : a->tv_nsec > b->tv_nsec;
}

/* Is an answer due from a worker that still runs? q->lock is held. */
static bool is_awaited(const struct workers_question *q)
{
	for (size_t i = 0; i < q->nparts; i++) {
		if (!q->parts[i].done && !atomic_load(&q->parts[i].worker->ended))
			return true;
	}
	return false;
}

static void wait_for_answers(struct workers_question *q, int64_t timeout_ms)
{
	const struct timespec end = time_in(timeout_ms);

	pthread_mutex_lock(&q->lock);
	while (is_awaited(q)) {
		struct timespec look = time_in(LOOK_MS);
		bool last = is_later(&look, &end);

		if (pthread_cond_timedwait(&q->answered, &q->lock, last ? &end : &look) ==
		            ETIMEDOUT &&
		    last)
			break;
	}
	q->abandoned = true;
	pthread_mutex_unlock(&q->lock);
}

/* Takes what the workers have said. Returns how many have. */
static size_t take_answers(struct workers_question *q, struct worker_answers *answers)
{
	size_t n = 0;

	answers->n = q->nparts;
	pthread_mutex_lock(&q->lock);
	for (size_t i = 0; i < q->nparts; i++) {
		struct part *p = &q->parts[i];

		answers->v[i] = (struct worker_answer){ .out = BUF_INIT };
		if (!p->done)
			continue;
		answers->v[i] = p->answer;
		answers->v[i].whole = true;
		p->answer.out = BUF_INIT;
		n++;
	}
	pthread_mutex_unlock(&q->lock);
	return n;
}

size_t workers_ask(struct worker_shared *shared, worker_step_fn *step, const void *arg,
                   size_t size, int64_t timeout_ms, struct worker_answers *answers)
{
	struct workers_question *q = question_new(shared, step, arg, size);
	size_t n;

	for (size_t i = 0; i < q->nparts; i++)
		mailbox_post(&q->parts[i].worker->mailbox, &q->parts[i].message);
	wait_for_answers(q, timeout_ms);
	n = take_answers(q, answers);
	question_unref(q);
	return n;
}

void worker_answers_fini(struct worker_answers *answers)
{
	for (size_t i = 0; i < answers->n; i++)
		buf_release(&answers->v[i].out);
	answers->n = 0;
}
