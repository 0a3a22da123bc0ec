/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy: makes, changes and frees the facts by which hasp decides about the commands of a
 * worker's clients.
 */
#ifndef HASP_POLICY_POLICY_H
#define HASP_POLICY_POLICY_H

#include "policy/policy_env.h"

/* Initializes the fields that belong to policy; the worker sets the rest. */
void policy_init(struct policy_env *env);
/* Frees the fields that belong to policy, not `config`. All clients must be gone. */
void policy_fini(struct policy_env *env);

/* Call this after hold_apply(): begins to note the reads of locks if a section now needs that.
 */
void policy_note_reads(struct policy_env *env);

/* Puts `config` in force. The worker owns `config`. */
void policy_use_config(struct policy_env *env, struct config *config);

/* Puts in force what env->commands has learned from the server. */
void policy_use_commands(struct policy_env *env);

#endif
