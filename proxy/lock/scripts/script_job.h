/* SPDX-License-Identifier: BSD-3-Clause
 *
 * script_job: a script call that hasp makes for itself, over its own connection: a renewal, a
 * release, a probe of a lock that clients wait for. If Redis does not know the script, the job
 * sends its text. A call is made again until its time is over, if it could not be sent, if the
 * connection broke before the answer, or if Redis refused it because it is loading or busy. So
 * every job must do no harm when it is carried out twice. A job goes to the node that serves
 * its first key, and follows a cluster's redirections; one whose node is away keeps no other
 * waiting.
 *
 *                   sent                  answered
 *   script_job_run() ---> in flight ------------------> fn(reply)
 *        |                 ^     | no answer, or Redis is busy
 *        | not connected   |     v
 *        `---------------> waiting ---- too late -----> fn(NULL), or fn(the last answer)
 *                          (sent again each half second, and by script_jobs_resume())
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
#include "lock/scripts/script.h"
#include "lock/scripts/script_call.h"
#include "upstream/topology.h"

struct script_jobs; /* a worker's */

/* All outlive it. `process`: what the proofs of this process are made with. */
struct script_jobs *script_jobs_new(struct timers *timers, struct topology *topology,
                                    const struct proof_secret *process);
/* No call is made again from now on; those that wait are given up: their functions run. */
void script_jobs_stop(struct script_jobs *all);
/* After script_jobs_stop(), and when the control is gone with the calls in flight. */
void script_jobs_free(struct script_jobs *all);

/* Memory of the jobs that are in flight or wait for Redis. One that would need more is given
 * up, as if it were too late. */
void script_jobs_set_max(struct script_jobs *all, size_t nbytes);
/* How much it is. */
size_t script_jobs_nbytes(const struct script_jobs *all);
/* How many were given up for that. From any thread. */
uint64_t script_jobs_given_up(const struct script_jobs *all);

/* What the calls prove by, those that clients make included. */
struct proofs *script_jobs_proofs(struct script_jobs *all);

/* How all calls name the keys beside a lock. Until this is called, as the topology needs it. */
void script_jobs_set_naming(struct script_jobs *all, enum key_naming naming);
enum key_naming script_jobs_naming(const struct script_jobs *all);

/* What the calls that are made in database `db` have in common, those of clients included. Its
 * secret is valid until the next call. */
struct rewrite_how script_jobs_how(struct script_jobs *all, int db);

/* Would a call about `key` be sent at once? */
bool script_jobs_are_up(const struct script_jobs *all, struct slice key);

/* Is no job waiting for Redis, or to be run again? Those in flight do not count. */
bool script_jobs_are_done(const struct script_jobs *all);

/* The node is back: makes the calls that wait for that at once. */
void script_jobs_resume(struct script_jobs *all, struct node *at);
/* Other nodes serve some of the keys: makes the calls that wait at once. */
void script_jobs_rerouted(struct script_jobs *all);
/* The node is about to be freed: the jobs that wait for it go to the nodes that serve their
 * keys. */
void script_jobs_forget(struct script_jobs *all, const struct node *n);

/* The answer, valid during the call; an error of Redis' included. NULL: given up. */
typedef void script_job_fn(void *arg, const redisReply *reply);

/* Runs `evalsha` (copied), a call of `script`, in database `db`. Made again until `until`, by
 * the timers' clock; 0: not at all. `fn` runs once, maybe before this returns; NULL: the answer
 * does not matter. */
void script_job_run(struct script_jobs *all, int db, enum script_id script,
                    struct slice evalsha, double until, script_job_fn *fn, void *arg);

/* Runs it `times` times, half a second apart; the answers do not matter. `since`, a time by the
 * timers' clock: each call gets one more argument than `evalsha` has, the age of `since` in ms;
 * 0: it does not. */
void script_job_repeat(struct script_jobs *all, int db, enum script_id script,
                       struct slice evalsha, double since, double until, unsigned times);

/* script_job_run() of a call that depends on when it is made: `write` appends it before each
 * try. */
typedef void script_job_write_fn(void *arg, struct buf *out);
void script_job_run_written(struct script_jobs *all, int db, enum script_id script,
                            script_job_write_fn *write, double until, script_job_fn *fn,
                            void *arg);

#endif
