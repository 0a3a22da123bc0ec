/* SPDX-License-Identifier: BSD-3-Clause
 *
 * script_job: a script call that hasp makes for itself, over its own connection: a renewal, a
 * release, a probe of a lock that clients wait for. If Redis does not know the script, the job
 * sends its text. Until the job's time is over, hasp repeats a call that it could not send,
 * whose connection broke before the answer, or that Redis refused because it is loading or
 * busy. So each job must do no harm when it runs twice. A job goes to the node that serves its
 * first key, and follows a cluster's redirections. A job whose node is away delays no others.
 *
 *                   sent                  answered
 *   script_job_run() ---> in flight ------------------> fn(reply)
 *        |                 ^     | no answer, or Redis is busy
 *        | not connected   |     v
 *        `---------------> waiting ---- too late -----> fn(NULL), or fn(the last answer)
 *                          (sent again each half second, and by script_jobs_resume())
 *
 *   script_job_repeat(): answered --> rests --> sent again --> ... --> its time is over
 */
#ifndef HASP_LOCK_SCRIPTS_SCRIPT_JOB_H
#define HASP_LOCK_SCRIPTS_SCRIPT_JOB_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "base/timers.h"
#include "lock/model/proof.h"
#include "lock/scripts/script_call.h"
#include "upstream/topology.h"

struct script_jobs; /* the jobs of one worker */

/* The arguments must outlive the result. `process`: the secret for the proofs of this
 * process. */
struct script_jobs *script_jobs_new(struct timers *timers, struct topology *topology,
                                    const struct proof_secret *process);
/* Repeats no call from now on, and gives up the waiting jobs: their functions run. */
void script_jobs_stop(struct script_jobs *all);
/* Call it after script_jobs_stop(), when the control and its calls in flight are gone. */
void script_jobs_free(struct script_jobs *all);

/* Limits the memory of the jobs that are in flight or wait for Redis. hasp gives up a job that
 * would need more, as if it were too late. */
void script_jobs_set_max(struct script_jobs *all, size_t nbytes);
/* Returns the present memory of the jobs that are in flight or wait for Redis, in bytes. */
size_t script_jobs_nbytes(const struct script_jobs *all);
/* Returns how many jobs hasp has given up for lack of memory. From any thread. */
uint64_t script_jobs_given_up(const struct script_jobs *all);

/* Sets how all calls name the keys beside a lock. Default: as the topology needs it. */
void script_jobs_set_naming(struct script_jobs *all, enum key_naming naming);
enum key_naming script_jobs_naming(const struct script_jobs *all);

/* Returns the options of all calls in database `db`, including those for clients. The secret in
 * them is valid until the next call. */
struct rewrite_opts script_jobs_opts(struct script_jobs *all, int db);

/* A call of hasp's own: the caller sets `script`, and writes the call to `bytes` by `opts`. The
 * function that runs the call frees `bytes`. */
struct job_call {
	struct script_jobs *jobs;
	int db; /* the database in which the call runs */
	enum script_id script;
	struct rewrite_opts opts;
	struct buf bytes;
};
struct job_call script_jobs_call(struct script_jobs *all, int db);

/* True if hasp would send a call about `key` at once. */
bool script_jobs_are_up(const struct script_jobs *all, struct slice key);
/* Returns the address of the server of `key`; NULL: not known. */
const char *script_jobs_server(const struct script_jobs *all, struct slice key);

/* True if no job waits for Redis, or for its next run. Jobs in flight do not count. */
bool script_jobs_are_done(const struct script_jobs *all);

/* The node is back: sends the calls that wait for it. */
void script_jobs_resume(struct script_jobs *all, struct node *at);
/* The node is about to be freed: the jobs that wait for it go to the nodes that serve their
 * keys. */
void script_jobs_forget(struct script_jobs *all, const struct node *n);

/* Gets the answer, or Redis' error, valid during the call. NULL: hasp has given the job up. */
typedef void script_job_fn(void *arg, const redisReply *reply);

/* Runs the call. hasp may repeat the call until `until`, by the timers' clock; 0: not at all.
 * `fn` runs once, maybe before script_job_run() returns; NULL: the answer does not matter. */
void script_job_run(struct job_call *call, double until, script_job_fn *fn, void *arg);

/* Runs the call again and again, with growing pauses; ignores the answers. The job undoes an
 * earlier call, sent at `sent`. If Redis ran that call at once, its effects end at `until`. But
 * Redis may have hung, so the time `until` - `sent` counts from the first answer. The last call
 * runs when that time is over. `since`: a time by the timers' clock; hasp appends one argument
 * to each call: how many ms ago that was; 0: appends none. */
void script_job_repeat(struct job_call *call, double since, double sent, double until);

/* As script_job_run(), for a call that changes with the time: `write` appends the call before
 * each try. */
typedef void script_job_write_fn(void *arg, struct buf *out);
void script_job_run_written(struct script_jobs *all, int db, enum script_id script,
                            script_job_write_fn *write, double until, script_job_fn *fn,
                            void *arg);

#endif
