/* SPDX-License-Identifier: BSD-3-Clause
 *
 * worker_ask: asks all workers from another thread, for the console and for HTTP. The question
 * runs on each worker's own thread, between the iterations of its loop, a small step at a time,
 * with pauses while the worker serves clients:
 *
 *   caller --workers_ask()--> mailbox of each worker --> step() --.
 *      ^                               ^                           | not the last step
 *      |                               '---------------------------+ after a loop iteration
 *      '---- all are done, or it is too late ----------------------' the last step
 *
 * So a client's request waits for one step at most. All questions together take 1 % of a busy
 * worker's time, for any number of rows and callers.
 */
#ifndef HASP_WORKER_WORKER_ASK_H
#define HASP_WORKER_WORKER_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "worker/worker.h"

struct client_env;
struct topology;

/* Seconds that a step should take at most. */
#define WORKER_STEP_SECONDS 50e-6

/* The parts of a worker that a step may use. A step may also change them, because it is a
 * callback of the worker's loop. */
struct worker_view {
	int number;
	struct client_env *clients; /* has the configuration, holds and waiters, too */
	struct topology *topology;
	const struct quorum_servers *quorum_servers; /* NULL: there is no quorum */
	double until; /* clock_now() at which the step should end */
};

/* One worker's answer. */
struct worker_answer {
	bool whole; /* the worker has answered; false: it ended or hangs, and the rest is 0 */
	uint64_t cursor, n; /* for the steps' use; 0 at the first step */
	struct buf out; /* the bytes that the steps appended */
};

struct worker_answers {
	size_t n; /* number of workers */
	struct worker_answer v[WORKERS_MAX]; /* by the workers' numbers */
};

/* Takes a step of a question. Returns false if more steps must follow. `arg`: the worker's own
 * copy of the caller's bytes, which the step may change. */
typedef bool worker_step_fn(const struct worker_view *w, void *arg, struct worker_answer *a);

/* Makes each worker call `step` until `step` returns true: then the worker has answered. Waits
 * for the answers, but not for a worker that has taken no step for `timeout_ms`. `arg`: `size`
 * bytes to copy for each worker; NULL: none. Returns the number of workers that have answered.
 * Always call worker_answers_fini() afterwards.
 *
 * Call it from any thread but a worker's, after worker_start() of all workers and before the
 * first of them is joined. */
size_t workers_ask(struct worker_shared *shared, worker_step_fn *step, const void *arg,
                   size_t size, int64_t timeout_ms, struct worker_answers *answers);
void worker_answers_fini(struct worker_answers *answers);

#endif
