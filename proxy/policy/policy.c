/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/policy.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "commands/command.h"
#include "commands/unmet.h"
#include "config/match.h"
#include "lock/guard/guard_op.h"
#include "lock/guard/read_set.h"
#include "lock/hold/holds.h"
#include "lock/queue/waiters.h"
#include "policy/classifier.h"
#include "policy/lock.h"
#include "policy/own_keys.h"
#include "policy/sections.h"
#include "policy/watched.h"
#include "session/pending.h"

void policy_init(struct policy_env *env)
{
	env->commands = commands_new();
	env->unmet = xcalloc(1, sizeof(*env->unmet));
	env->classifier = classifier_new();
	freelist_init(&env->pending, PENDING_SIZE);
	freelist_init(&env->guard_ops, GUARD_OP_SINGLE_SIZE);
}

void policy_end_turn(struct policy_env *env)
{
	if (holds_begins_watching(env->holds)) {
		env->reads_matter = true;
		classifier_reset(env->classifier);
	}
	buf_trim(&env->rewritten);
	buf_trim(&env->token);
	holds_trim(env->holds);
	read_sets_trim(env->read_sets);
}

void policy_fini(struct policy_env *env)
{
	watched_fini(env);
	sections_fini(env);
	match_free(env->matcher);
	classifier_free(env->classifier);
	commands_free(env->commands);
	free(env->unmet);
	buf_release(&env->rewritten);
	buf_release(&env->token);
	freelist_fini(&env->pending);
	freelist_fini(&env->guard_ops);
}

/* From now on hasp decides again about all commands, also those of waiting clients. */
static void begin_generation(struct policy_env *env)
{
	classifier_reset(env->classifier);
	env->generation++;
}

void policy_use_config(struct policy_env *env, struct config *config)
{
	env->config = config;
	match_free(env->matcher);
	env->matcher = match_new(config);
	env->rules_wait = env->rules_enforce = env->guards_enforce = false;
	env->values_matter = env->rules_quorum = false;
	for (size_t i = 0; i < config->nrules; i++) {
		env->rules_wait |= config->rules[i]->wait_ms > 0;
		env->rules_enforce |= config->rules[i]->mode == MODE_ENFORCE;
		env->values_matter |= lock_value_matters(config->rules[i]);
		env->rules_quorum |= config->rules[i]->mode == MODE_ENFORCE &&
		                     config->rules[i]->quorum;
	}
	for (size_t i = 0; i < config->nguards; i++)
		env->guards_enforce |= config->guards[i]->mode == MODE_ENFORCE;
	env->own_keys_protected = own_keys_are_protected(env);
	watched_use_config(env);
	sections_use_config(env);
	env->reads_matter = false;
	for (size_t i = 0; i < config->nrules; i++)
		env->reads_matter |= lock_reads_matter(env, config->rules[i]);
	begin_generation(env);
}

void policy_use_commands(struct policy_env *env)
{
	begin_generation(env);
}
