/* SPDX-License-Identifier: BSD-3-Clause
 *
 * faults: disturbs the world by chance: pauses machines, cuts or delays connections, kills
 * processes. Each seed has only some kinds of faults, at a rate of its own, so that some seeds
 * see a single fault, and others see little else.
 */
#ifndef HASP_TESTS_SIM_FAULTS_H
#define HASP_TESTS_SIM_FAULTS_H

#include "tests/sim/simulation.h"

/* Time after a fault by which hasp has connected and subscribed again, and its waiters have
 * their places back. */
#define FAULTS_RECOVERY (2 * SECOND)

/* Faults happen from now on. */
void faults_begin(struct simulation *s);
/* No faults happen any more, and those that last end soon. */
void faults_end(void);
uint64_t faults_count(void);

#endif
