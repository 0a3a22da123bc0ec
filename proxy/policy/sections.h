/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sections: where this worker counts what the sections of the configuration in force do, by
 * their place there. Sections in mode OBSERVE have none: the tracker counts what they see.
 */
#ifndef HASP_POLICY_SECTIONS_H
#define HASP_POLICY_SECTIONS_H

#include "policy/policy_env.h"

/* env->config is in force from now on. */
void sections_use_config(struct policy_env *env);
void sections_fini(struct policy_env *env);

#endif
