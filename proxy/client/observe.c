/* SPDX-License-Identifier: BSD-3-Clause */
#include "client/observe.h"

#include "base/fatal.h"

#define LINES_PER_WINDOW 10
#define KEY_LOGGED_MAX 128

struct observed *observed_new(const struct config *config)
{
	return xcalloc(config->nrules, sizeof(struct observed));
}

static const char *effect(struct slice name)
{
	static const struct {
		const char *name;
		const char *effect;
	} effects[] = {
		{ "setnx", "take it with an expiry and record the owner" },
		{ "set", "take it with an expiry and record the owner" },
		{ "incr", "give it an expiry at 1 and record the owner" },
		{ "del", "remove it only for its owner" },
		{ "unlink", "remove it only for its owner" },
		{ "persist", "refuse to make it last for ever" },
	};

	for (size_t i = 0; i < sizeof(effects) / sizeof(*effects); i++)
		if (slice_is(name, effects[i].name))
			return effects[i].effect;
	return "write it only for its owner";
}

void observe(struct client_env *env, const struct rule *rule, struct slice name,
             struct slice key)
{
	uint32_t suppressed;

	env->observed[rule->index].commands++;
	if (!log_limit_pass(&env->limit, ev_now(env->loop), LINES_PER_WINDOW, &suppressed))
		return;
	log_info("observe rule=%s command=%.*s key=\"%.*s\" would=\"%s\" suppressed=%u",
	         rule->name, (int)name.n, name.p,
	         (int)(key.n > KEY_LOGGED_MAX ? KEY_LOGGED_MAX : key.n), key.p, effect(name),
	         suppressed);
}

void observed_report(const struct client_env *env)
{
	const struct config *c = env->config;

	for (size_t i = 0; i < c->nrules; i++)
		if (c->rules[i]->mode == MODE_OBSERVE)
			log_info("observed rule=%s worker=%d commands=%llu", c->rules[i]->name,
			         env->worker, (unsigned long long)env->observed[i].commands);
}
