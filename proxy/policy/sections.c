/* SPDX-License-Identifier: BSD-3-Clause */
#include "policy/sections.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "config/config.h"
#include "config/types.h"
#include "lock/events/stats.h"

static struct section_stats *use_section(const struct policy_env *env, enum stats_kind kind,
                                         const char *name, const struct event_settings *how)
{
	struct section_stats *s = stats_section(env->stats, kind, name, env->worker);

	s->log_events = how->log_events == SWITCH_YES;
	s->log_held_ms = how->log_held_ms;
	s->log_waited_ms = how->log_waited_ms;
	return s;
}

void sections_use_config(struct policy_env *env)
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
	/* (The quorum itself counts there.) */
	if (quorum)
		(void)use_section(env, STATS_QUORUM, quorum->section.name,
		                  &config->verbs.events);
}

void sections_fini(struct policy_env *env)
{
	free(env->rule_stats);
	free(env->guard_stats);
	env->rule_stats = env->guard_stats = NULL;
	env->verb_stats = NULL;
}
