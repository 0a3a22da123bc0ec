/* SPDX-License-Identifier: BSD-3-Clause
 *
 * faults: what goes wrong in the world besides the model, by chance: machines are paused,
 * connections are cut or held up, processes die. Each seed has some kinds of faults only, at a
 * rate of its own, so that some seeds see a single fault, and some see little else.
 */
#ifndef HASP_TESTS_SIM_FAULTS_H
#define HASP_TESTS_SIM_FAULTS_H

#include "tests/sim/simulation.h"

/* So long after a fault, hasp has connected and subscribed again, and its waiters have their
 * places back. */
#define FAULTS_RECOVERY (2 * SECOND)

/* Faults happen from now on. */
void faults_begin(struct simulation *s);
/* None happen any more, and those that last are over soon. */
void faults_end(void);
uint64_t faults_count(void);

#endif
