/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/policy.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "commands/command.h"
#include "commands/learn.h"
#include "config/config.h"
#include "config/match.h"
#include "config/types.h"
#include "lock/events/stats.h"
#include "lock/guard/guard_op.h"
#include "lock/guard/read_set.h"
#include "lock/hold/holds.h"
#include "policy/classifier.h"
#include "policy/lock.h"
#include "policy/context.h"
#include "policy/watched.h"
#include "session/pending.h"

/* --- statistics of sections ------------------------------------------------------------ */

/* Each section in force has statistics of this worker, by its index in the configuration.
 * Sections in mode OBSERVE have none: the tracker counts their events. */

static void sections_fini(struct policy_env *env)
{
	free(env->rule_stats);
	free(env->guard_stats);
	env->rule_stats = env->guard_stats = NULL;
	env->verb_stats = NULL;
}

static struct section_stats *use_section(const struct policy_env *env, enum stats_kind kind,
                                         const char *name, const struct event_settings *opts)
{
	struct section_stats *s = stats_section(env->stats, kind, name, env->worker);

	s->log_events = opts->log_events == SWITCH_YES;
	s->log_held_ms = opts->log_held_ms;
	s->log_waited_ms = opts->log_waited_ms;
	return s;
}

static void sections_use_config(struct policy_env *env)
{
	const struct config *config = env->config;
	const struct quorum_settings *quorum = config_quorum(config);

	sections_fini(env);
	env->rule_stats = xcalloc(config->nrules + 1, sizeof(struct section_stats *));
	env->guard_stats = xcalloc(config->nguards + 1, sizeof(struct section_stats *));
	for (size_t i = 0; i < config->nrules; i++) {
		const struct rule *rule = config->rules[i];
		if (rule->mode == MODE_ENFORCE)
			env->rule_stats[i] = use_section(env, STATS_LOCK, rule->section.name,
			                                 &rule->events);
	}
	for (size_t i = 0; i < config->nguards; i++) {
		const struct guard *g = config->guards[i];
		if (g->mode == MODE_ENFORCE)
			env->guard_stats[i] = use_section(env, STATS_GUARD, g->section.name,
			                                  &g->events);
	}
	if (config->verbs.enabled)
		env->verb_stats = use_section(env, STATS_VERBS, config->verbs.lock,
		                              &config->verbs.events);
	/* The quorum's section has statistics of its own. */
	if (quorum)
		(void)use_section(env, STATS_QUORUM, quorum->section.name,
		                  &config->verbs.events);
}

void policy_init(struct policy_env *env)
{
	env->commands = commands_new();
	env->unknown_commands = xcalloc(1, sizeof(*env->unknown_commands));
	env->classifier = xcalloc(1, sizeof(*env->classifier));
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
	buf_trim(&env->given_back);
	buf_trim(&env->keys);
	holds_trim(env->holds);
	read_sets_trim(env->read_sets);
}

void policy_fini(struct policy_env *env)
{
	watched_fini(env);
	sections_fini(env);
	match_free(env->matcher);
	free(env->classifier);
	commands_free(env->commands);
	free(env->unknown_commands);
	buf_release(&env->rewritten);
	buf_release(&env->token);
	buf_release(&env->given_back);
	buf_release(&env->keys);
	freelist_fini(&env->pending);
	freelist_fini(&env->guard_ops);
}

void policy_use_commands(struct policy_env *env)
{
	/* Decide again about all commands, including those of waiting clients. */
	classifier_reset(env->classifier);
	env->generation++;
}

void policy_use_config(struct policy_env *env, struct config *config)
{
	env->config = config;
	match_free(env->matcher);
	env->matcher = match_new(config);
	env->rules_wait = env->rules_enforce = env->guards_enforce = false;
	env->values_matter = env->rules_quorum = env->observes = false;
	for (size_t i = 0; i < config->nrules; i++) {
		env->rules_wait |= config->rules[i]->wait_ms > 0;
		env->rules_enforce |= config->rules[i]->mode == MODE_ENFORCE;
		env->observes |= config->rules[i]->mode == MODE_OBSERVE;
		env->values_matter |= lock_value_matters(config->rules[i]);
		env->rules_quorum |= config->rules[i]->mode == MODE_ENFORCE &&
		                     config->rules[i]->quorum;
	}
	for (size_t i = 0; i < config->nguards; i++) {
		env->guards_enforce |= config->guards[i]->mode == MODE_ENFORCE;
		env->observes |= config->guards[i]->mode == MODE_OBSERVE;
	}
	env->reserved_keys_protected = reserved_keys_are_protected(env);
	watched_use_config(env);
	sections_use_config(env);
	env->reads_matter = false;
	for (size_t i = 0; i < config->nrules; i++)
		env->reads_matter |= lock_reads_matter(env, config->rules[i]);
	policy_use_commands(env);
}
