/* SPDX-License-Identifier: BSD-3-Clause
 *
 * fake_jobs: replaces script_job.c in a test that links it, and records the calls that hasp
 * would send to Redis by its own connection. Each job ends at once, with the answer that the
 * test has set, or without one.
 */
#ifndef HASP_TESTS_UNIT_FAKE_JOBS_H
#define HASP_TESTS_UNIT_FAKE_JOBS_H

#include <hiredis/hiredis.h>
#include <stddef.h>

/* A line for each job: its database, how often it is run if more than once, and its call in
 * the words of wire.h: "3 again dequeue ...", if it is repeated. Forgets them. */
void assert_jobs(const char *lines);
/* How often `text` is in them. */
size_t fake_jobs_count(const char *text);
/* Until when the latest was to be tried. */
double fake_jobs_until(void);
void fake_jobs_clear(void);
/* The answer to each job from now on; NULL: Redis did not answer. */
void fake_jobs_answer(const redisReply *reply);

#endif
