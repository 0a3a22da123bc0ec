/* SPDX-License-Identifier: BSD-3-Clause
 *
 * models: the applications of the simulation.
 */
#ifndef HASP_TESTS_SIM_MODELS_H
#define HASP_TESTS_SIM_MODELS_H

#include "tests/sim/simulation.h"

extern const struct model model_plain, model_guards, model_legacy;
/* model_circles.c */
extern const struct model model_circles, model_tangles;
/* model_locks.c */
extern const struct model model_rules, model_verbs, model_counted, model_refreshed,
	model_places, model_sides, model_quorums, model_majorities;

#endif
