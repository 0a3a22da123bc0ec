/* SPDX-License-Identifier: BSD-3-Clause
 *
 * policy: makes, changes and frees the facts by which hasp decides about the commands of a
 * worker's clients.
 */
#include "policy/policy_env.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "commands/command.h"
#include "commands/learn.h"
#include "config/config.h"
#include "config/match.h"
#include "config/types.h"
#include "lock/events/stats.h"
#include "lock/guard/guard_op.h"
#include "lock/hold/holds.h"
#include "policy/classifier.h"
#include "policy/policy_internal.h"
#include "session/pending.h"
#include "watch/shared_tracker.h"

/* --- sections ---------------------------------------------------------------------------- */

static void sections_fini(struct policy_env *env)
{
	free(env->rule_stats);
	free(env->guard_stats);
	free(env->observed_rules);
	free(env->observed_guards);
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

static void use_rule(struct policy_env *env, size_t i)
{
	const struct rule *rule = env->config->rules[i];

	env->rules_wait |= rule->wait_ms > 0;
	if (rule->mode == MODE_OBSERVE) {
		env->observes = true;
		env->observed_rules[i] = shared_tracker_rule(env->tracker, OBSERVED_LOCK,
		                                             rule->section.name,
		                                             rule->owner == OWNER_VALUE);
		return;
	}
	env->rules_enforce = true;
	env->rules_quorum |= rule->quorum != NULL;
	env->rule_stats[i] = use_section(env, STATS_LOCK, rule->section.name, &rule->events);
	env->values_matter |= lock_value_matters(rule);
	env->reads_matter |= lock_reads_matter(env, rule);
}

static void use_guard(struct policy_env *env, size_t i)
{
	const struct guard *g = env->config->guards[i];

	if (g->mode == MODE_OBSERVE) {
		env->observes = true;
		env->observed_guards[i] = shared_tracker_rule(env->tracker, OBSERVED_GUARD,
		                                              g->section.name, false);
		return;
	}
	env->guards_enforce = true;
	env->guard_stats[i] = use_section(env, STATS_GUARD, g->section.name, &g->events);
}

static void sections_use_config(struct policy_env *env)
{
	const struct config *config = env->config;
	const struct quorum_settings *quorum = config_quorum(config);

	sections_fini(env);
	env->rule_stats = xcalloc(config->nrules + 1, sizeof(struct section_stats *));
	env->guard_stats = xcalloc(config->nguards + 1, sizeof(struct section_stats *));
	env->observed_rules = xcalloc(config->nrules + 1, sizeof(struct key_group *));
	env->observed_guards = xcalloc(config->nguards + 1, sizeof(struct key_group *));
	env->verb_stats = NULL;
	env->rules_wait = env->rules_enforce = env->guards_enforce = env->observes = false;
	env->values_matter = env->rules_quorum = false;
	env->reads_matter = false;
	for (size_t i = 0; i < config->nrules; i++)
		use_rule(env, i);
	for (size_t i = 0; i < config->nguards; i++)
		use_guard(env, i);
	if (config->verbs.enabled)
		env->verb_stats = use_section(env, STATS_VERBS, config->verbs.names[VERB_LOCK],
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

void policy_note_reads(struct policy_env *env)
{
	if (!holds_begins_watching(env->holds))
		return;
	env->reads_matter = true;
	classifier_reset(env->classifier);
}

void policy_fini(struct policy_env *env)
{
	sections_fini(env);
	match_free(env->matcher);
	free(env->classifier);
	commands_free(env->commands);
	free(env->unknown_commands);
	buf_release(&env->rewritten);
	for (size_t i = 0; i < OWNER_VALUE; i++)
		buf_release(&env->tokens[i]);
	buf_release(&env->scratch);
	buf_release(&env->keys);
	buf_release(&env->section_keys);
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
	sections_use_config(env);
	env->reserved_keys_protected = !config->allow_reserved_keys &&
	                               (env->rules_enforce || env->guards_enforce ||
	                                config->verbs.enabled);
	policy_use_commands(env);
}
