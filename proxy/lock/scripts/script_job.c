/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/scripts/script_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/fatal.h"
#include "base/list.h"
#include "base/log.h"
#include "upstream/decode.h"

/* How often the jobs that wait for Redis are run again, or given up. */
#define SWEEP_SECONDS 0.5
/* So many at once; the others soon after that, so that clients are served in between. */
#define SWEEP_MOST 1000
#define SWEEP_SOON_SECONDS 0.002
/* Warnings in ten seconds. */
#define WARNINGS_MAX 1

struct script_jobs {
	struct timers *timers;
	const struct topology *topology;
	struct proofs proofs;
	enum key_naming naming;
	struct list waiting; /* jobs that wait for Redis, or to be run once more */
	size_t nwaiting;
	struct timer sweep; /* runs while some wait */
	size_t nbytes, max_nbytes; /* memory of all jobs, and how much that may be */
	struct log_limit given_up;
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

static struct control *script_jobs_control(const struct script_jobs *all)
{
	return topology_node(all->topology, SLICE_NONE)->control;
}

static size_t script_job_nbytes(const struct script_job *job)
{
	return sizeof(*job) + buf_cap(&job->evalsha);
}

static void script_job_end(struct script_job *job, const redisReply *reply)
{
	job->all->nbytes -= script_job_nbytes(job);
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
		job->all->nbytes -= script_job_nbytes(job);
		buf_clear(&job->evalsha);
		job->write(job->arg, &job->evalsha);
		job->all->nbytes += script_job_nbytes(job);
	}
	request = buf_slice(&job->evalsha);
	if (job->eval) {
		script_call_write_as_eval(&eval, job->script, request);
		request = buf_slice(&eval);
	}
	rc = control_call(script_jobs_control(job->all), job->db, request, script_job_on_reply,
	                  job);
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
	all->nwaiting++;
	if (!timer_is_running(&all->sweep))
		timer_start(all->timers, &all->sweep, script_job_on_sweep, now + SWEEP_SECONDS,
		            SWEEP_SECONDS);
}

static struct script_job *shift_waiting(struct script_jobs *all)
{
	struct list *node = list_shift(&all->waiting);

	all->nwaiting -= node != NULL;
	return node ? container_of(node, struct script_job, node) : NULL;
}

/* Redis is away, and there are too many already: what the job is to do ends with a lease. */
static bool give_up_for_space(struct script_job *job)
{
	struct script_jobs *all = job->all;
	uint32_t suppressed;

	if (all->nbytes <= all->max_nbytes)
		return false;
	if (log_limit_pass(&all->given_up, timers_now(all->timers), WARNINGS_MAX, &suppressed))
		log_warning("script_job_given_up jobs_bytes=%zu waiting=%zu suppressed=%u",
		            all->nbytes, all->nwaiting, suppressed);
	script_job_end(job, NULL);
	return true;
}

static void script_job_start(struct script_job *job)
{
	if (script_job_send(job) != 0)
		script_job_wait(job, NULL);
}

static void script_job_on_reply(void *arg, const redisReply *reply)
{
	struct script_job *job = arg;
	bool is_error = reply && reply->type == REDIS_REPLY_ERROR;

	if (is_error && !job->eval && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		job->eval = true;
		script_job_start(job);
	} else if (!reply || (is_error && reply_error_is_temporary(reply->str))) {
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
	size_t n = all->nwaiting < SWEEP_MOST ? all->nwaiting : SWEEP_MOST;
	bool more = all->nwaiting > n && control_is_up(script_jobs_control(all));

	/* Those that still have to wait put themselves back, behind the others. */
	while (n--)
		script_job_start(shift_waiting(all));
	if (more && all->nwaiting)
		timer_start(all->timers, &all->sweep, script_job_on_sweep,
		            timers_now(all->timers) + SWEEP_SOON_SECONDS, SWEEP_SECONDS);
}

static void script_job_on_sweep(struct timer *t, double now)
{
	struct script_jobs *all = container_of(t, struct script_jobs, sweep);

	(void)now;
	script_jobs_resume(all);
	if (list_empty(&all->waiting))
		timer_stop(all->timers, t);
}

struct script_jobs *script_jobs_new(struct timers *timers, const struct topology *topology,
                                    const struct proof_secret *process)
{
	struct script_jobs *all = xcalloc(1, sizeof(*all));

	all->timers = timers;
	all->topology = topology;
	proofs_init(&all->proofs, process);
	list_init(&all->waiting);
	all->max_nbytes = SIZE_MAX;
	return all;
}

void script_jobs_stop(struct script_jobs *all)
{
	struct script_job *job;

	all->ending = true;
	timer_stop(all->timers, &all->sweep);
	while ((job = shift_waiting(all)))
		script_job_end(job, NULL);
}

void script_jobs_free(struct script_jobs *all)
{
	HASP_ASSERT(list_empty(&all->waiting));
	free(all);
}

void script_jobs_set_max(struct script_jobs *all, size_t nbytes)
{
	all->max_nbytes = nbytes;
}

struct proofs *script_jobs_proofs(struct script_jobs *all)
{
	return &all->proofs;
}

void script_jobs_set_naming(struct script_jobs *all, enum key_naming naming)
{
	all->naming = naming;
}

enum key_naming script_jobs_naming(const struct script_jobs *all)
{
	return all->naming;
}

struct rewrite_how script_jobs_how(struct script_jobs *all, int db)
{
	return (struct rewrite_how){
		.naming = all->naming,
		.secret = proofs_secret(&all->proofs, db),
	};
}

bool script_jobs_are_up(const struct script_jobs *all)
{
	return control_is_up(script_jobs_control(all));
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
	all->nbytes += script_job_nbytes(job);
	return job;
}

static void write_and_start(struct script_job *job, struct slice evalsha)
{
	job->all->nbytes -= script_job_nbytes(job);
	buf_append(&job->evalsha, evalsha);
	job->all->nbytes += script_job_nbytes(job);
	if (!give_up_for_space(job))
		script_job_start(job);
}

void script_job_run(struct script_jobs *all, int db, enum script_id script,
                    struct slice evalsha, double until, script_job_fn *fn, void *arg)
{
	struct script_job *job = script_job_new(all, db, script, until, fn, arg);

	write_and_start(job, evalsha);
}

void script_job_repeat(struct script_jobs *all, int db, enum script_id script,
                       struct slice evalsha, double until, unsigned times)
{
	struct script_job *job = script_job_new(all, db, script, until, NULL, NULL);

	job->again = times - 1;
	write_and_start(job, evalsha);
}

void script_job_run_written(struct script_jobs *all, int db, enum script_id script,
                            script_job_write_fn *write, double until, script_job_fn *fn,
                            void *arg)
{
	struct script_job *job = script_job_new(all, db, script, until, fn, arg);

	job->write = write;
	if (!give_up_for_space(job))
		script_job_start(job);
}
