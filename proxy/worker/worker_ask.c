/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_ask: questions to all workers. A question may outlive the wait of its caller: a late
 * worker finds the question abandoned, and the last user frees it.
 *
 * A worker keeps its parts of all questions in one list, and takes a step of the first part:
 *
 *   mailbox --> w->asks.parts --> step() --> done
 *                      ^             |
 *                      '---- pause <-'   a hundred times as long as the step took, while
 *                                        clients send commands; else none
 */
#include "worker/worker_ask.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fatal.h"
#include "worker/worker_internal.h"

/* Milliseconds between the caller's checks whether a worker has ended, or hangs. */
#define LOOK_MS 20
/* A pause after a step is this many times as long as the step. Questions then take 1 % of a
 * worker's time, and another 0.5 % because they push other data out of the CPU's caches. */
#define PAUSE_STEPS 100
#define PAUSE_MAX_SECONDS 0.1
/* Seconds after a client's command during which the worker counts as serving clients. */
#define BUSY_SECONDS 0.05

/* A question to all workers. */
struct workers_question {
	pthread_mutex_t lock; /* protects `refs` and each part's `done` */
	pthread_cond_t answered; /* signalled when one more worker has answered */
	size_t refs; /* the caller's reference, and one for each worker */
	_Atomic bool abandoned; /* the caller no longer waits */
	worker_step_fn *step;
	size_t nparts;
	struct part *parts; /* one for each worker */
};

/* One worker's part in a question. */
struct part {
	struct list node; /* in w->asks.parts, once the worker has the message */
	struct workers_question *question;
	struct worker *worker;
	void *arg; /* the worker's copy of the caller's bytes; NULL: none */
	struct worker_answer answer; /* owned by the worker until `done`, then by the caller */
	bool done;
	_Atomic unsigned nsteps; /* steps taken so far */
	unsigned nseen; /* `nsteps` at the caller's last check */
	double seen_at; /* clock_now() when the caller first saw `nseen` steps */
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

/* --- on the worker's thread --------------------------------------------------------------- */

/* True if clients have sent commands within BUSY_SECONDS. */
static bool serves_clients(struct worker *w, double now)
{
	uint64_t n = 0;

	for (size_t i = 0; i < COMMAND_OUTCOMES; i++)
		n += metrics_counted(&w->clients.counters.commands[i]);
	if (n != w->asks.ncommands)
		w->asks.busy_until = now + BUSY_SECONDS;
	w->asks.ncommands = n;
	return now < w->asks.busy_until;
}

/* Takes a step of the part. Returns true if it was the last one. */
static bool take_step(struct worker *w, struct part *p)
{
	double began = clock_now(), now, pause;
	const struct worker_view view = {
		.number = w->number,
		.clients = &w->clients,
		.topology = w->topology,
		.quorum_servers = w->quorum_servers,
		.until = began + WORKER_STEP_SECONDS,
	};
	bool done = p->question->step(&view, p->arg, &p->answer);

	atomic_fetch_add(&p->nsteps, 1);
	now = clock_now();
	pause = (now - began) * PAUSE_STEPS;
	w->asks.next_at = now;
	if (serves_clients(w, now))
		w->asks.next_at += pause < PAUSE_MAX_SECONDS ? pause : PAUSE_MAX_SECONDS;
	return done;
}

static void part_end(struct part *p)
{
	struct workers_question *q = p->question;

	pthread_mutex_lock(&q->lock);
	p->done = true;
	pthread_cond_signal(&q->answered);
	pthread_mutex_unlock(&q->lock);
	question_unref(q);
}

/* Schedules the next step. */
static void step_later(struct worker *w, double now)
{
	double left = w->asks.next_at - now;

	if (list_empty(&w->asks.parts))
		return;
	loop_timer_start(&w->asks.due, left > 0 ? left : 0);
}

static void step_now(struct worker *w)
{
	struct part *p = list_take(&w->asks.parts, struct part, node);

	if (atomic_load(&p->question->abandoned))
		question_unref(p->question);
	else if (take_step(w, p))
		part_end(p);
	else
		list_append(&w->asks.parts, &p->node);
}

/* Runs when the timer `due` expires. The timer may expire too early, because libev counts from
 * the start of the loop iteration. */
static void worker_asks_on_due(void *arg)
{
	struct worker *w = arg;
	double now = clock_now();

	if (now >= w->asks.next_at)
		step_now(w);
	step_later(w, now);
}

void worker_asks_init(struct worker *w)
{
	list_init(&w->asks.parts);
	loop_timer_init(&w->asks.due, w->loop, worker_asks_on_due, w);
}

void worker_asks_fini(struct worker *w)
{
	loop_timer_stop(&w->asks.due);
	list_shift_each (struct part, p, &w->asks.parts, node)
		question_unref(p->question);
}

static void worker_ask_take(struct worker *w, struct worker_cmd *cmd)
{
	struct part *p = cmd->arg;
	bool first = list_empty(&w->asks.parts);

	if (atomic_load(&w->ended)) {
		question_unref(p->question);
		return;
	}
	list_append(&w->asks.parts, &p->node);
	if (first)
		step_later(w, clock_now());
}

/* --- on the caller's thread --------------------------------------------------------------- */

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

		p->question = q;
		p->worker = shared->workers[i];
		p->answer.out = BUF_INIT;
		p->seen_at = clock_now();
		if (arg)
			p->arg = memcpy(xmalloc(size), arg, size);
	}
	return q;
}

/* True if the part has taken a step within `timeout_ms`. */
static bool part_moves(struct part *p, double now, int64_t timeout_ms)
{
	unsigned n = atomic_load(&p->nsteps);

	if (n != p->nseen) {
		p->nseen = n;
		p->seen_at = now;
	}
	return now < p->seen_at + (double)timeout_ms / 1000;
}

/* True if an answer is due from a worker that still runs and does not hang. The caller has
 * q->lock. */
static bool is_awaited(struct workers_question *q, int64_t timeout_ms)
{
	double now = clock_now();

	for (size_t i = 0; i < q->nparts; i++) {
		struct part *p = &q->parts[i];

		if (!p->done && !atomic_load(&p->worker->ended) &&
		    part_moves(p, now, timeout_ms))
			return true;
	}
	return false;
}

static void wait_for_answers(struct workers_question *q, int64_t timeout_ms)
{
	int64_t look_ms = timeout_ms < LOOK_MS ? timeout_ms : LOOK_MS;

	pthread_mutex_lock(&q->lock);
	while (is_awaited(q, timeout_ms)) {
		double until = clock_now() + (double)look_ms / 1000;
		struct timespec look = { .tv_sec = (time_t)until };

		look.tv_nsec = (long)((until - (double)look.tv_sec) * 1e9);
		(void)pthread_cond_timedwait(&q->answered, &q->lock, &look);
	}
	pthread_mutex_unlock(&q->lock);
	atomic_store(&q->abandoned, true);
}

/* Moves the workers' answers to `answers`. Returns how many workers have answered. */
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
		worker_send_cmd(q->parts[i].worker, (struct worker_cmd){ .run = worker_ask_take,
		                                                         .owns = true,
		                                                         .arg = &q->parts[i] });
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
