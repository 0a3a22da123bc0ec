/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/rules.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "config/config.h"
#include "config/table.h"
#include "config/pattern.h"

struct rule *rules_add(struct config *c, const char *name, int line)
{
	struct rule *rule = xcalloc(1, sizeof(*rule));

	table_set_defaults(SECTION_LOCK, rule);
	rule->name = xstrdup(name);
	rule->line = line;
	rule->index = c->nrules;
	c->rules = xrealloc(c->rules, (c->nrules + 1) * sizeof(struct rule *));
	c->rules[c->nrules++] = rule;
	return rule;
}

const struct rule *rules_find(const struct config *c, const char *name)
{
	for (size_t i = 0; i < c->nrules; i++) {
		if (strcmp(c->rules[i]->name, name) == 0)
			return c->rules[i];
	}
	return NULL;
}

void rules_free(struct config *c)
{
	for (size_t i = 0; i < c->nrules; i++) {
		table_clear(SECTION_LOCK, c->rules[i]);
		free(c->rules[i]->name);
		free(c->rules[i]);
	}
	free(c->rules);
	c->rules = NULL;
	c->nrules = 0;
}

const struct rule *config_rule_for(const struct config *c, struct slice key)
{
	if (!(config_concerns(c, key) & CONCERNS_RULE) || pattern_is_own(key))
		return NULL;
	for (size_t i = 0; i < c->nrules; i++) {
		if (patterns_match(&c->rules[i]->patterns, key))
			return c->rules[i];
	}
	return NULL;
}

bool rules_doubt(const struct config *c, size_t i, struct buf *out)
{
	HASP_ASSERT(c->nrules > 0);
	const struct rule *rule = c->rules[c->nrules - 1];
	const char *pattern = rule->patterns.v[i];
	const char *shadow = NULL;

	for (size_t j = 0; j < rule->index && !shadow; j++) {
		if (patterns_shadow(&c->rules[j]->patterns, pattern))
			shadow = c->rules[j]->name;
	}
	return pattern_doubt(pattern, SECTION_LOCK, rule->name, shadow, out);
}
