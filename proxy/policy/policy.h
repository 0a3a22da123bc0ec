/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy: the beginning and the end of what the commands of a worker's clients are decided by,
 * and its changes.
 */
#ifndef HASP_POLICY_POLICY_H
#define HASP_POLICY_POLICY_H

#include "policy/policy_env.h"

/* Makes what is policy's own; the worker sets the rest. */
void policy_init(struct policy_env *env);
/* No clients are left. `config` is the worker's. */
void policy_fini(struct policy_env *env);

/* The worker's turn of the loop ends: what the next one is to watch begins to be watched, and
 * the memory that one long command took is given back. */
void policy_end_turn(struct policy_env *env);

/* `config` is in force from now on; the worker's. */
void policy_use_config(struct policy_env *env, struct config *config);

/* env->commands has learned the server's commands: they are in force from now on. */
void policy_use_commands(struct policy_env *env);

#endif
