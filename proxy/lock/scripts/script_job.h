/* SPDX-License-Identifier: BSD-3-Clause
 *
 * errand: a script call that hasp makes for itself, over its own connection: a renewal, a
 * release, a look at a lock that is waited for. A script that Redis does not know is sent; a
 * call that could not be made, was not answered because the connection broke, or refused
 * because Redis is loading or busy, is made again until it is too late. So every errand must do
 * no harm when it is carried out twice.
 */
#ifndef HASP_LOCK_SCRIPTS_SCRIPT_JOB_H
#define HASP_LOCK_SCRIPTS_SCRIPT_JOB_H

#include <ev.h>
#include <hiredis/hiredis.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/slice.h"
#include "lock/scripts/script.h"
#include "upstream/control.h"

struct script_jobs; /* a worker's */

struct script_jobs *script_jobs_new(struct ev_loop *loop, struct control *control);
/* No call is tried again from now on; those that wait are given up: their functions run. */
void script_jobs_stop(struct script_jobs *e);
/* After script_jobs_stop(), and when the control is gone with the calls in flight. */
void script_jobs_free(struct script_jobs *e);

/* Would a call go out at once? */
bool script_jobs_are_up(const struct script_jobs *e);

/* None waits for Redis, or to be run again? Those in flight do not count. */
bool script_jobs_are_done(const struct script_jobs *e);

/* Redis is back: makes the calls that wait for that at once. */
void script_jobs_resume(struct script_jobs *e);

/* The answer, valid during the call; an error of Redis' included. NULL: given up. */
typedef void script_job_fn(void *arg, const redisReply *reply);

/* Runs `evalsha` (copied), a call of `script`, in database `db`. Tried again until `until`
 * (clock_now()); 0: not at all. `fn` runs once, maybe at once; NULL: nobody cares. */
void script_job_run(struct script_jobs *e, int db, enum script_id script, struct slice evalsha,
                    double until, script_job_fn *fn, void *arg);

/* Runs it `times` times, some time apart; nobody cares for the answers. */
void script_job_repeat(struct script_jobs *e, int db, enum script_id script,
                       struct slice evalsha, double until, unsigned times);

/* script_job_run() of a call that depends on when it is made: `write` appends it before each
 * try.
 */
typedef void script_job_write_fn(void *arg, struct buf *out);
void script_job_run_written(struct script_jobs *e, int db, enum script_id script,
                            script_job_write_fn *write, double until, script_job_fn *fn,
                            void *arg);

#endif
