/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/scripts/script_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fatal.h"
#include "base/list.h"
#include "lock/scripts/script_call.h"

/* How often those that wait for Redis are tried again, or given up. */
#define SWEEP_SECONDS 0.5

struct script_jobs {
	struct ev_loop *loop;
	struct control *control;
	struct list waiting; /* for Redis to be back */
	struct ev_timer sweep; /* runs while some wait */
	bool ending;
};

struct script_job {
	struct script_jobs *all;
	struct list node; /* in `waiting`, or in no list while it is in flight */
	int db;
	enum script_id script;
	bool eval; /* Redis does not know the script */
	struct buf evalsha;
	double until;
	unsigned again; /* how often it is run once more, whatever the answer */
	script_job_write_fn *write; /* NULL: `evalsha` is good for every try */
	script_job_fn *fn;
	void *arg;
};

static void on_answer(void *arg, const redisReply *reply);

static void script_job_end(struct script_job *e, const redisReply *reply)
{
	if (e->fn)
		e->fn(e->arg, reply);
	buf_release(&e->evalsha);
	free(e);
}

static int script_job_send(struct script_job *e)
{
	struct buf eval = BUF_INIT;
	struct slice request;
	int rc;

	if (e->write) {
		buf_clear(&e->evalsha);
		e->write(e->arg, &e->evalsha);
	}
	request = buf_slice(&e->evalsha);
	if (e->eval) {
		script_call_write_as_eval(&eval, e->script, request);
		request = buf_slice(&eval);
	}
	rc = control_call(e->all->control, e->db, request, on_answer, e);
	buf_release(&eval);
	return rc;
}

/* For Redis to be back, or to be able to. */
static void wait(struct script_job *e, const redisReply *reply)
{
	struct script_jobs *all = e->all;

	if (all->ending || clock_now() >= e->until) {
		script_job_end(e, reply);
		return;
	}
	list_append(&all->waiting, &e->node);
	if (!ev_is_active(&all->sweep)) {
		ev_timer_set(&all->sweep, SWEEP_SECONDS, SWEEP_SECONDS);
		ev_timer_start(all->loop, &all->sweep);
	}
}

static void script_job_start(struct script_job *e)
{
	if (script_job_send(e) != 0)
		wait(e, NULL);
}

/* Redis cannot just now: it loads its data, runs somebody's script for too long, is a replica
 * for the moment ... */
static bool is_passing(const redisReply *reply)
{
	static const char *const errors[] = { "LOADING ",  "BUSY ",       "MASTERDOWN ",
		                              "READONLY ", "NOREPLICAS ", "OOM " };

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (strncmp(reply->str, errors[i], strlen(errors[i])) == 0)
			return true;
	return false;
}

static void on_answer(void *arg, const redisReply *reply)
{
	struct script_job *e = arg;
	bool is_error = reply && reply->type == REDIS_REPLY_ERROR;

	if (is_error && !e->eval && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		e->eval = true;
		script_job_start(e);
	} else if (!reply || (is_error && is_passing(reply))) {
		wait(e, reply);
	} else if (e->again) {
		e->again--;
		wait(e, reply);
	} else {
		script_job_end(e, reply);
	}
}

void script_jobs_resume(struct script_jobs *all)
{
	struct list again, *node;

	list_init(&again);
	/* Those that still have to wait are put back. */
	list_move_all(&again, &all->waiting);
	while ((node = list_shift(&again)))
		script_job_start(container_of(node, struct script_job, node));
}

static void script_job_on_sweep(struct ev_loop *loop, struct ev_timer *t, int revents)
{
	struct script_jobs *all = t->data;

	(void)revents;
	script_jobs_resume(all);
	if (list_empty(&all->waiting))
		ev_timer_stop(loop, t);
}

struct script_jobs *script_jobs_new(struct ev_loop *loop, struct control *control)
{
	struct script_jobs *all = xcalloc(1, sizeof(*all));

	all->loop = loop;
	all->control = control;
	list_init(&all->waiting);
	ev_timer_init(&all->sweep, script_job_on_sweep, 0, 0);
	all->sweep.data = all;
	return all;
}

void script_jobs_stop(struct script_jobs *all)
{
	struct list *node;

	all->ending = true;
	ev_timer_stop(all->loop, &all->sweep);
	while ((node = list_shift(&all->waiting)))
		script_job_end(container_of(node, struct script_job, node), NULL);
}

void script_jobs_free(struct script_jobs *all)
{
	HASP_ASSERT(list_empty(&all->waiting));
	free(all);
}

bool script_jobs_are_up(const struct script_jobs *all)
{
	return control_is_up(all->control);
}

bool script_jobs_are_done(const struct script_jobs *all)
{
	return list_empty(&all->waiting);
}

static struct script_job *script_job_new(struct script_jobs *all, int db, enum script_id script,
                                         double until, script_job_fn *fn, void *arg)
{
	struct script_job *e = xcalloc(1, sizeof(*e));

	e->all = all;
	list_init(&e->node);
	e->db = db;
	e->script = script;
	e->until = until;
	e->fn = fn;
	e->arg = arg;
	return e;
}

void script_job_run(struct script_jobs *all, int db, enum script_id script,
                    struct slice evalsha, double until, script_job_fn *fn, void *arg)
{
	struct script_job *e = script_job_new(all, db, script, until, fn, arg);

	buf_append(&e->evalsha, evalsha);
	script_job_start(e);
}

void script_job_repeat(struct script_jobs *all, int db, enum script_id script,
                       struct slice evalsha, double until, unsigned times)
{
	struct script_job *e = script_job_new(all, db, script, until, NULL, NULL);

	e->again = times - 1;
	buf_append(&e->evalsha, evalsha);
	script_job_start(e);
}

void script_job_run_written(struct script_jobs *all, int db, enum script_id script,
                            script_job_write_fn *write, double until, script_job_fn *fn,
                            void *arg)
{
	struct script_job *e = script_job_new(all, db, script, until, fn, arg);

	e->write = write;
	script_job_start(e);
}
