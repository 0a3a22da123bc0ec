/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/match.h"

#include <stdlib.h>

#include "base/fatal.h"
#include "base/glob_dfa.h"
#include "base/glob_set.h"
#include "config/config_internal.h"
#include "config/sections.h"

/* The numbers of patterns in config.patterns. If several patterns match, the lowest number
 * wins: rules come before guards, because locks have no guards. */
#define MATCH_OWN 0
#define MATCH_RULES 1

static void match_add(struct config *c, const struct strings *patterns, enum match_flag flag,
                      size_t number)
{
	pattern_set_first_bytes(patterns, (uint8_t)flag, c->may_match);
	for (size_t i = 0; i < patterns->n; i++)
		glob_set_add(c->patterns, strings_at(patterns, i), (int32_t)number);
}

void match_prepare(struct config *c)
{
	const struct named_section *s;

	c->patterns = glob_set_new();
	for (size_t i = 0; (s = sections_at(c, SECTION_LOCK, i)); i++)
		match_add(c, &s->patterns, MATCH_RULE, MATCH_RULES + i);
	for (size_t i = 0; (s = sections_at(c, SECTION_GUARD, i)); i++)
		match_add(c, &s->patterns, MATCH_GUARD, MATCH_RULES + c->nrules + i);
	if (c->may_match[(unsigned char)*MATCH_OWN_PREFIX] & (MATCH_RULE | MATCH_GUARD))
		glob_set_add(c->patterns, SLICE_LIT(MATCH_OWN_PREFIX "*"), MATCH_OWN);
	c->may_match[(unsigned char)*MATCH_OWN_PREFIX] |= MATCH_MAY_BE_OWN;
	glob_set_complete(c->patterns);
}

struct matcher {
	const struct config *config;
	struct glob_dfa *dfa; /* NULL: no key can match any pattern */
};

struct matcher *match_new(const struct config *c)
{
	struct matcher *m = xcalloc(1, sizeof(*m));

	m->config = c;
	if (c->patterns)
		m->dfa = glob_dfa_new(c->patterns, GLOB_DFA_LIKELY);
	return m;
}

void match_free(struct matcher *m)
{
	if (!m)
		return;
	glob_dfa_free(m->dfa);
	free(m);
}

/* Returns the number of the first section that matches: rules count from 0, and guards follow.
 * Any greater number means that no section matches. `flags`: the kinds to look for. */
static size_t match_first(struct matcher *m, struct slice key, unsigned flags)
{
	if (!m->dfa || !(match_possible(m->config, key) & flags))
		return SIZE_MAX;
	/* For hasp's own keys the result is SIZE_MAX, which is no match. */
	return (size_t)glob_dfa_find(m->dfa, key) - MATCH_RULES;
}

static const struct rule *rule_at(const struct matcher *m, size_t i)
{
	return i < m->config->nrules ? m->config->rules[i] : NULL;
}

static const struct guard *guard_at(const struct matcher *m, size_t i)
{
	size_t nrules = m->config->nrules;

	return i >= nrules && i - nrules < m->config->nguards ? m->config->guards[i - nrules]
	                                                      : NULL;
}

const struct rule *match_rule(struct matcher *m, struct slice key)
{
	return rule_at(m, match_first(m, key, MATCH_RULE));
}

const struct guard *match_guard(struct matcher *m, struct slice key)
{
	return guard_at(m, match_first(m, key, MATCH_GUARD));
}

void match_section(struct matcher *m, struct slice key, const struct rule **rule,
                   const struct guard **guard)
{
	size_t i = match_first(m, key, MATCH_RULE | MATCH_GUARD);

	*rule = rule_at(m, i);
	*guard = guard_at(m, i);
}

const struct rule *match_enforced_rule(struct matcher *m, struct slice key)
{
	const struct rule *rule = match_rule(m, key);

	return rule && rule->mode == MODE_ENFORCE ? rule : NULL;
}

const struct guard *match_enforced_guard(struct matcher *m, struct slice key)
{
	const struct guard *g = match_guard(m, key);

	return g && g->mode == MODE_ENFORCE ? g : NULL;
}

static bool match_command(const struct strings *list, struct slice name)
{
	for (size_t i = 0; i < list->n; i++) {
		struct slice listed = strings_at(list, i);
		/* Compare the first letters first: most names differ there. */
		if (name.n && listed.n && (*name.p | 0x20) == (*listed.p | 0x20) &&
		    slice_is_alike(name, listed))
			return true;
	}
	return false;
}

bool match_acquires(const struct guard *g, struct slice name)
{
	return match_command(&g->acquire_on, name);
}

bool match_releases(const struct guard *g, struct slice name)
{
	if (g->release_on.n > 0)
		return match_command(&g->release_on, name);
	return !match_command(&g->acquire_on, name);
}
