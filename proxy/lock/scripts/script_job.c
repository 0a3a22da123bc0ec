/* SPDX-License-Identifier: BSD-3-Clause */
#include "lock/scripts/script_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "base/metrics.h"
#include "base/list.h"
#include "base/log.h"
#include "resp/write.h"
#include "upstream/decode.h"

/* How often hasp reruns the jobs that wait for Redis, or gives up late ones. */
#define SWEEP_SECONDS 0.5
/* How many jobs run again at once. hasp serves clients before it runs the others. */
#define SWEEP_MOST 1000
#define SWEEP_SOON_SECONDS 0.002
/* How long a repeated job waits for its first answer. */
#define UNANSWERED_SECONDS 3600.0
/* How many warnings about jobs given up hasp logs in ten seconds, at most. */
#define WARNINGS_MAX 1
/* How many redirections a job follows without a pause: a cluster's nodes that disagree may
 * redirect it to each other. */
#define REDIRECTED_MAX 5

/* The jobs that wait for one node, or for hasp to learn their node. Also counts the calls to
 * the node. */
struct job_queue {
	struct list in_all;
	struct node *at; /* NULL: hasp does not know the node */
	struct list jobs; /* the waiting jobs */
	size_t n; /* number of `jobs` */
	uint64_t nsent; /* number of calls sent */
	uint64_t text_sent[SCRIPT_COUNT]; /* number of the last call with the script's text; 0:
	                                   * none */
};

struct script_jobs {
	struct timers *timers;
	struct topology *topology;
	const struct proof_secret *process;
	int secret_db; /* the database of `secret` */
	char secret[SHA1_HEX + 1]; /* what proof_secret_in() has written for that database */
	enum key_naming naming;
	struct list queues;
	struct list resting; /* repeated jobs, until it is time to run them again */
	size_t nwaiting; /* jobs in all queues and in `resting` */
	struct timer sweep; /* runs while `nwaiting` > 0 */
	size_t nbytes, max_nbytes; /* memory of all jobs, and its limit */
	struct log_limit given_up; /* limits the log lines script_job_given_up */
	struct metrics_counter ngiven_up; /* jobs given up for lack of memory */
	bool ending;
};

struct script_job {
	struct script_jobs *all;
	struct list node; /* in a queue or in `resting`; in no list while it is in flight */
	struct node *at; /* the node that got the last call */
	uint64_t sent; /* value of job_queue.nsent when the job was last called */
	int db;
	enum script_id script;
	bool eval; /* Redis did not know the script, so hasp sends its text */
	struct buf evalsha;
	double since; /* each call's last argument is this time's age in ms; 0: no argument */
	double until; /* when hasp gives the job up */
	unsigned nredirected; /* redirections that the job has followed since its last try */
	double lasts; /* repeated: seconds from the first answer to the last call; else 0 */
	double pause; /* repeated: seconds before the next call; 0: not answered yet */
	double due; /* in `resting`: when the job runs again */
	script_job_write_fn *write; /* writes each try's call; NULL: `evalsha` is the call */
	script_job_fn *fn;
	void *arg;
};

static void script_job_on_reply(void *arg, const redisReply *reply);

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

static struct slice script_job_key(const struct script_job *job)
{
	return script_call_key(job->script, buf_slice(&job->evalsha));
}

/* Returns the node that serves the job's keys; NULL: not known. */
static struct node *script_job_node(const struct script_job *job)
{
	const struct topology *t = job->all->topology;

	return t->only ? t->only : topology_node(t, script_job_key(job));
}

/* True if hasp itself sends only renewals to the node. */
static bool node_is_still(const struct node *n)
{
	return n->held & (NODE_LEAVING | NODE_AT_REST);
}

/* Returns the queue of the node; NULL: it has none. */
static struct job_queue *queue_find(const struct script_jobs *all, const struct node *at)
{
	list_each (struct job_queue, q, &all->queues, in_all)
		if (q->at == at)
			return q;
	return NULL;
}

/* Returns the queue of the node, or a new one. */
static struct job_queue *queue_at(struct script_jobs *all, struct node *at)
{
	struct job_queue *q = queue_find(all, at);

	if (q)
		return q;
	q = xcalloc(1, sizeof(*q));
	q->at = at;
	list_init(&q->jobs);
	list_init(&q->in_all);
	list_append(&all->queues, &q->in_all);
	return q;
}

/* True if hasp has sent the node the text of the job's script since it sent the job, to which
 * Redis answered NOSCRIPT. (After a SCRIPT FLUSH, many jobs may get NOSCRIPT at once; a text
 * has up to 20 kB.) */
static bool text_is_on_its_way(const struct script_job *job)
{
	return queue_at(job->all, job->at)->text_sent[job->script] > job->sent;
}

static void count_sent(struct script_job *job)
{
	struct job_queue *q = queue_at(job->all, job->at);

	job->sent = ++q->nsent;
	if (job->eval)
		q->text_sent[job->script] = q->nsent;
}

static long long job_age_ms(const struct script_job *job)
{
	double seconds = timers_now(job->all->timers) - job->since;

	return seconds > 0 ? (long long)(seconds * 1000) : 0;
}

/* Sends the job to job->at. `asking`: after ASKING, because the slot is migrating to that
 * node. */
static int script_job_send_as(struct script_job *job, bool asking)
{
	struct control *control = job->at->control;
	struct buf request = BUF_INIT;
	int rc = 0;

	if (asking)
		rc = control_call(control, job->db, SLICE_LIT("*1\r\n$6\r\nASKING\r\n"), NULL,
		                  NULL);
	if (rc != 0)
		return rc;
	if (job->eval)
		script_call_write_as_eval(&request, job->script, buf_slice(&job->evalsha));
	else if (job->since)
		buf_append(&request, buf_slice(&job->evalsha));
	if (job->since)
		resp_write_bulk_int(&request, job_age_ms(job));
	count_sent(job);
	rc = control_call(control, job->db,
	                  buf_slice(buf_len(&request) ? &request : &job->evalsha),
	                  script_job_on_reply, job);
	buf_release(&request);
	return rc;
}

/* True for a renewal, which hasp sends even to a frozen node. (If a failover forgets the
 * renewal, the lock loses a part of its lease; without the renewal, the lock may be lost.) */
static bool script_job_renews(const struct script_job *job)
{
	return job->script == SCRIPT_RENEW || job->script == SCRIPT_RENEW_VERB;
}

static int script_job_send(struct script_job *job)
{
	if (job->write) {
		job->all->nbytes -= script_job_nbytes(job);
		buf_clear(&job->evalsha);
		job->write(job->arg, &job->evalsha);
		job->all->nbytes += script_job_nbytes(job);
	}
	job->nredirected = 0;
	job->at = script_job_node(job);
	if (!job->at || (node_is_still(job->at) && !script_job_renews(job)))
		return -1;
	return script_job_send_as(job, false);
}

static void script_job_on_sweep(struct timer *t, double now);

static void script_job_append(struct script_job *job, struct list *to)
{
	struct script_jobs *all = job->all;

	list_append(to, &job->node);
	all->nwaiting++;
	if (!timer_is_running(&all->sweep))
		timer_start(all->timers, &all->sweep, script_job_on_sweep,
		            timers_now(all->timers) + SWEEP_SECONDS, SWEEP_SECONDS);
}

static void script_job_queue(struct script_job *job)
{
	struct job_queue *q = queue_at(job->all, script_job_node(job));

	q->n++;
	script_job_append(job, &q->jobs);
}

/* Queues the job until Redis is back, or can run it. If the job's time is over, ends the job
 * with `reply`. */
static void script_job_wait(struct script_job *job, const redisReply *reply)
{
	if (job->all->ending || timers_now(job->all->timers) >= job->until)
		script_job_end(job, reply);
	else
		script_job_queue(job);
}

/* Redis has answered a repeated job: lets it rest. Each pause is twice as long as the one
 * before, and the last pause ends with the job's time. */
static void script_job_rest(struct script_job *job, const redisReply *reply)
{
	double now = job->all->ending ? 0 : timers_now(job->all->timers);

	if (!job->pause)
		job->until = now + job->lasts;
	if (job->all->ending || now >= job->until) {
		script_job_end(job, reply);
		return;
	}
	job->pause = job->pause ? 2 * job->pause : SWEEP_SECONDS;
	job->due = now + job->pause < job->until ? now + job->pause : job->until;
	script_job_append(job, &job->all->resting);
}

static struct script_job *take_waiting(struct script_jobs *all, struct job_queue *q)
{
	q->n--;
	all->nwaiting--;
	return list_take(&q->jobs, struct script_job, node);
}

static struct script_job *take_resting(struct script_jobs *all)
{
	all->nwaiting--;
	return list_take(&all->resting, struct script_job, node);
}

/* Gives the job up if the jobs take too much memory, as they may while Redis is away. The job's
 * lock then ends with its lease. */
static bool give_up_for_space(struct script_job *job)
{
	struct script_jobs *all = job->all;
	uint32_t suppressed;

	/* First give up jobs that Redis has answered at least once. */
	while (all->nbytes > all->max_nbytes && !list_empty(&all->resting))
		script_job_end(take_resting(all), NULL);
	if (all->nbytes <= all->max_nbytes)
		return false;
	metrics_count(&all->ngiven_up, 1);
	if (log_limit_pass(&all->given_up, timers_now(all->timers), WARNINGS_MAX, &suppressed))
		log_warning("script_job_given_up queued_bytes=%zu queued_jobs=%zu "
		            "effect=\"locks end with their leases\" suppressed=%u",
		            all->nbytes, all->nwaiting, suppressed);
	script_job_end(job, NULL);
	return true;
}

static void script_job_start(struct script_job *job)
{
	if (script_job_send(job) != 0)
		script_job_wait(job, NULL);
}

/* The node has redirected the job instead of running it: sends it to the node that serves its
 * keys. Returns false if that is not possible. */
static bool script_job_redirect(struct script_job *job, const redisReply *error)
{
	bool asking = false;
	struct node *to = topology_redirected(job->all->topology, job->at, script_job_key(job),
	                                      error->str, &asking);

	if (!to || ++job->nredirected > REDIRECTED_MAX)
		return false;
	job->at = to;
	return script_job_send_as(job, asking) == 0;
}

static void script_job_on_reply(void *arg, const redisReply *reply)
{
	struct script_job *job = arg;
	bool is_error = reply && reply->type == REDIS_REPLY_ERROR;

	if (is_error && !job->eval && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
		job->eval = !text_is_on_its_way(job);
		script_job_start(job);
	} else if (is_error && reply_error_redirects(reply->str)) {
		if (!script_job_redirect(job, reply))
			script_job_wait(job, reply);
	} else if (!reply || (is_error && reply_error_is_temporary(reply->str))) {
		script_job_wait(job, reply);
	} else if (job->lasts > 0) {
		script_job_rest(job, reply);
	} else {
		script_job_end(job, reply);
	}
}

/* Runs the jobs of the queue again, at most SWEEP_MOST of them. */
static void resume_queue(struct script_jobs *all, struct job_queue *q)
{
	size_t n = q->n < SWEEP_MOST ? q->n : SWEEP_MOST;
	bool more = q->n > n &&
	            (!q->at || (control_is_up(q->at->control) && !node_is_still(q->at)));

	/* A job that must still wait goes to the end of the queue again. */
	while (n-- && q->n)
		script_job_start(take_waiting(all, q));
	if (more && q->n)
		timer_start(all->timers, &all->sweep, script_job_on_sweep,
		            timers_now(all->timers) + SWEEP_SOON_SECONDS, SWEEP_SECONDS);
}

void script_jobs_resume(struct script_jobs *all, struct node *at)
{
	resume_queue(all, queue_at(all, at));
}

static void resume_all(struct script_jobs *all)
{
	/* A job may go to the queue of another node; a new queue is appended to this list. */
	list_each (struct job_queue, q, &all->queues, in_all)
		resume_queue(all, q);
}

static void wake_rested(struct script_jobs *all, double now)
{
	list_drain (struct script_job, job, &all->resting, node) {
		if (job->due > now)
			continue;
		list_remove(&job->node);
		all->nwaiting--;
		script_job_queue(job);
	}
}

static void script_job_on_sweep(struct timer *t, double now)
{
	struct script_jobs *all = container_of(t, struct script_jobs, sweep);

	wake_rested(all, now);
	resume_all(all);
	if (all->nwaiting == 0)
		timer_stop(all->timers, t);
}

void script_jobs_forget(struct script_jobs *all, const struct node *n)
{
	struct job_queue *q = queue_find(all, n);

	if (!q)
		return;
	list_remove(&q->in_all);
	while (q->n)
		script_job_start(take_waiting(all, q));
	free(q);
}

static void make_secret(struct script_jobs *all, int db)
{
	proof_secret_in(all->process, db, all->secret);
	all->secret_db = db;
}

struct script_jobs *script_jobs_new(struct timers *timers, struct topology *topology,
                                    const struct proof_secret *process)
{
	struct script_jobs *all = xcalloc(1, sizeof(*all));

	all->timers = timers;
	all->topology = topology;
	all->naming = topology->only ? KEY_NAMING_SERVER : KEY_NAMING_CLUSTER;
	all->process = process;
	make_secret(all, 0);
	list_init(&all->queues);
	list_init(&all->resting);
	all->max_nbytes = SIZE_MAX;
	return all;
}

void script_jobs_stop(struct script_jobs *all)
{
	all->ending = true;
	timer_stop(all->timers, &all->sweep);
	list_each (struct job_queue, q, &all->queues, in_all)
		while (q->n)
			script_job_end(take_waiting(all, q), NULL);
	while (!list_empty(&all->resting))
		script_job_end(take_resting(all), NULL);
}

void script_jobs_free(struct script_jobs *all)
{
	HASP_ASSERT(all->nwaiting == 0);
	list_shift_each (struct job_queue, q, &all->queues, in_all)
		free(q);
	free(all);
}

size_t script_jobs_nbytes(const struct script_jobs *all)
{
	return all->nbytes;
}

uint64_t script_jobs_given_up(const struct script_jobs *all)
{
	return metrics_counted(&all->ngiven_up);
}

void script_jobs_set_max(struct script_jobs *all, size_t nbytes)
{
	all->max_nbytes = nbytes;
}

void script_jobs_set_naming(struct script_jobs *all, enum key_naming naming)
{
	all->naming = naming;
}

enum key_naming script_jobs_naming(const struct script_jobs *all)
{
	return all->naming;
}

struct rewrite_opts script_jobs_opts(struct script_jobs *all, int db)
{
	if (db != all->secret_db)
		make_secret(all, db);
	return (struct rewrite_opts){
		.naming = all->naming,
		.secret = slice_of(all->secret, SHA1_HEX),
	};
}

struct job_call script_jobs_call(struct script_jobs *all, int db)
{
	return (struct job_call){ .jobs = all, .db = db, .opts = script_jobs_opts(all, db) };
}

bool script_jobs_are_up(const struct script_jobs *all, struct slice key)
{
	const struct node *n = topology_node(all->topology, key);

	return n && control_is_up(n->control);
}

const char *script_jobs_server(const struct script_jobs *all, struct slice key)
{
	const struct node *n = topology_node(all->topology, key);

	return n ? n->links.name : NULL;
}

bool script_jobs_are_done(const struct script_jobs *all)
{
	return all->nwaiting == 0;
}

static struct script_job *script_job_new(const struct job_call *call, double until,
                                         script_job_fn *fn, void *arg)
{
	struct script_job *job = xcalloc(1, sizeof(*job));

	job->all = call->jobs;
	list_init(&job->node);
	job->db = call->db;
	job->script = call->script;
	job->evalsha = call->bytes;
	job->until = until;
	job->fn = fn;
	job->arg = arg;
	job->all->nbytes += script_job_nbytes(job);
	return job;
}

/* Starts a new job, unless the jobs take too much memory. */
static void script_job_begin(struct script_job *job)
{
	if (!give_up_for_space(job))
		script_job_start(job);
}

void script_job_run(struct job_call *call, double until, script_job_fn *fn, void *arg)
{
	script_job_begin(script_job_new(call, until, fn, arg));
}

void script_job_repeat(struct job_call *call, double since, double sent, double until)
{
	double first = timers_now(call->jobs->timers) + UNANSWERED_SECONDS;
	struct script_job *job = script_job_new(call, first, NULL, NULL);

	job->since = since;
	job->lasts = until - sent;
	script_job_begin(job);
}

void script_job_run_written(struct script_jobs *all, int db, enum script_id script,
                            script_job_write_fn *write, double until, script_job_fn *fn,
                            void *arg)
{
	const struct job_call unwritten = { .jobs = all, .db = db, .script = script };
	struct script_job *job = script_job_new(&unwritten, until, fn, arg);

	job->write = write;
	script_job_begin(job);
}
