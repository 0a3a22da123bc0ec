/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/scripts/script_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/list.h"
#include "lock/scripts/script_call.h"

/* How often the jobs that wait for Redis are run again, or given up. */
#define SWEEP_SECONDS 0.5

struct script_jobs {
	struct timers *timers;
	struct control *control;
	struct proofs proofs;
	struct list waiting; /* jobs that wait for Redis, or to be run once more */
	struct timer sweep; /* runs while some wait */
	bool ending;
};

struct script_job {
	struct script_jobs *all;
	struct list node; /* in `waiting`, or in no list while it is in flight */
	int db;
	enum script_id script;
	bool eval; /* Redis did not know the script: its text is sent */
	struct buf evalsha;
	double until;
	unsigned again; /* how many more times it is run, whatever the answer */
	script_job_write_fn *write; /* NULL: `evalsha` is good for every try */
	script_job_fn *fn;
	void *arg;
};

static void script_job_on_reply(void *arg, const redisReply *reply);

static void script_job_end(struct script_job *job, const redisReply *reply)
{
	if (job->fn)
		job->fn(job->arg, reply);
	buf_release(&job->evalsha);
	free(job);
}

static int script_job_send(struct script_job *job)
{
	struct buf eval = BUF_INIT;
	struct slice request;
	int rc;

	if (job->write) {
		buf_clear(&job->evalsha);
		job->write(job->arg, &job->evalsha);
	}
	request = buf_slice(&job->evalsha);
	if (job->eval) {
		script_call_write_as_eval(&eval, job->script, request);
		request = buf_slice(&eval);
	}
	rc = control_call(job->all->control, job->db, request, script_job_on_reply, job);
	buf_release(&eval);
	return rc;
}

static void script_job_on_sweep(struct timer *t, double now);

/* Waits for Redis to be back, or to be able to run it. `reply`: what it gets if that would be
 * too late. */
static void script_job_wait(struct script_job *job, const redisReply *reply)
{
	struct script_jobs *all = job->all;
	double now = all->ending ? 0 : timers_now(all->timers);

	if (all->ending || now >= job->until) {
		script_job_end(job, reply);
		return;
	}
	list_append(&all->waiting, &job->node);
	if (!timer_is_running(&all->sweep))
		timer_start(all->timers, &all->sweep, script_job_on_sweep, now + SWEEP_SECONDS,
		            SWEEP_SECONDS);
}

static void script_job_start(struct script_job *job)
{
	if (script_job_send(job) != 0)
		script_job_wait(job, NULL);
}

/* Redis cannot run it at the moment: it loads its data, another script runs for too long, it is
 * a replica for now ... */
static bool is_temporary_error(const redisReply *reply)
{
	static const char *const errors[] = { "LOADING ",  "BUSY ",       "MASTERDOWN ",
		                              "READONLY ", "NOREPLICAS ", "OOM " };

	for (size_t i = 0; i < sizeof(errors) / sizeof(*errors); i++)
		if (strncmp(reply->str, errors[i], strlen(errors[i])) == 0)
			return true;
	return false;
}

static void script_job_on_reply(void *arg, const redisReply *reply)
{
	struct script_job *job = arg;
	bool is_error = reply && reply->type == REDIS_REPLY_ERROR;

	if (is_error && !job->eval && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		job->eval = true;
		script_job_start(job);
	} else if (!reply || (is_error && is_temporary_error(reply))) {
		script_job_wait(job, reply);
	} else if (job->again) {
		job->again--;
		script_job_wait(job, reply);
	} else {
		script_job_end(job, reply);
	}
}

void script_jobs_resume(struct script_jobs *all)
{
	struct list again, *node;

	list_init(&again);
	/* Those that still have to wait put themselves back. */
	list_move_all(&again, &all->waiting);
	while ((node = list_shift(&again)))
		script_job_start(container_of(node, struct script_job, node));
}

static void script_job_on_sweep(struct timer *t, double now)
{
	struct script_jobs *all = container_of(t, struct script_jobs, sweep);

	(void)now;
	script_jobs_resume(all);
	if (list_empty(&all->waiting))
		timer_stop(all->timers, t);
}

struct script_jobs *script_jobs_new(struct timers *timers, struct control *control,
                                    const struct proof_secret *process)
{
	struct script_jobs *all = xcalloc(1, sizeof(*all));

	all->timers = timers;
	all->control = control;
	proofs_init(&all->proofs, process);
	list_init(&all->waiting);
	return all;
}

void script_jobs_stop(struct script_jobs *all)
{
	struct list *node;

	all->ending = true;
	timer_stop(all->timers, &all->sweep);
	while ((node = list_shift(&all->waiting)))
		script_job_end(container_of(node, struct script_job, node), NULL);
}

void script_jobs_free(struct script_jobs *all)
{
	HASP_ASSERT(list_empty(&all->waiting));
	free(all);
}

struct proofs *script_jobs_proofs(struct script_jobs *all)
{
	return &all->proofs;
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
	struct script_job *job = xcalloc(1, sizeof(*job));

	job->all = all;
	list_init(&job->node);
	job->db = db;
	job->script = script;
	job->until = until;
	job->fn = fn;
	job->arg = arg;
	return job;
}

void script_job_run(struct script_jobs *all, int db, enum script_id script,
                    struct slice evalsha, double until, script_job_fn *fn, void *arg)
{
	struct script_job *job = script_job_new(all, db, script, until, fn, arg);

	buf_append(&job->evalsha, evalsha);
	script_job_start(job);
}

void script_job_repeat(struct script_jobs *all, int db, enum script_id script,
                       struct slice evalsha, double until, unsigned times)
{
	struct script_job *job = script_job_new(all, db, script, until, NULL, NULL);

	job->again = times - 1;
	buf_append(&job->evalsha, evalsha);
	script_job_start(job);
}

void script_job_run_written(struct script_jobs *all, int db, enum script_id script,
                            script_job_write_fn *write, double until, script_job_fn *fn,
                            void *arg)
{
	struct script_job *job = script_job_new(all, db, script, until, fn, arg);

	job->write = write;
	script_job_start(job);
}
