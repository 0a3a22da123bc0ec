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

/* Returns a line for each job since the last call: its database, `again` if the job may be
 * repeated, and its call in the words of wire.h: "3 again dequeue ...". */
void assert_jobs(const char *lines);
/* Counts how often `text` is in those lines. */
size_t fake_jobs_count(const char *text);
/* Returns the deadline of the latest job. */
double fake_jobs_until(void);
void fake_jobs_clear(void);
/* Sets the answer to each later job; NULL: Redis does not answer. */
void fake_jobs_answer(const redisReply *reply);

#endif
