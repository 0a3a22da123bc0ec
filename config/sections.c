/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/sections.h"

#include <stdlib.h>
#include <string.h>

#include "base/fatal.h"
#include "config/config_internal.h"

const struct named_section *sections_find(const struct config *c, enum section kind,
                                          const char *name)
{
	const struct named_section *s;

	for (size_t i = 0; (s = sections_at(c, kind, i)); i++) {
		if (strcmp(s->name, name) == 0)
			return s;
	}
	return NULL;
}

static struct named_section *sections_add_rule(struct config *c, void **base)
{
	struct rule *rule = xcalloc(1, sizeof(*rule));

	c->rules = xrealloc(c->rules, (c->nrules + 1) * sizeof(struct rule *));
	c->rules[c->nrules] = rule;
	rule->section.index = c->nrules++;
	*base = rule;
	return &rule->section;
}

static struct named_section *sections_add_guard(struct config *c, void **base)
{
	struct guard *guard = xcalloc(1, sizeof(*guard));

	c->guards = xrealloc(c->guards, (c->nguards + 1) * sizeof(struct guard *));
	c->guards[c->nguards] = guard;
	guard->section.index = c->nguards++;
	*base = guard;
	return &guard->section;
}

static struct named_section *sections_add_quorum(struct config *c, void **base)
{
	struct quorum_settings *quorum = xcalloc(1, sizeof(*quorum));

	c->quorums = xrealloc(c->quorums, (c->nquorums + 1) * sizeof(struct quorum_settings *));
	c->quorums[c->nquorums] = quorum;
	quorum->section.index = c->nquorums++;
	*base = quorum;
	return &quorum->section;
}

static struct named_section *sections_add_of(struct config *c, enum section kind, void **base)
{
	if (kind == SECTION_LOCK)
		return sections_add_rule(c, base);
	if (kind == SECTION_GUARD)
		return sections_add_guard(c, base);
	return sections_add_quorum(c, base);
}

void *sections_add(struct config *c, enum section kind, const char *name, int line)
{
	struct named_section *s;
	void *base;

	s = sections_add_of(c, kind, &base);
	s->name = xstrdup(name);
	s->line = line;
	table_set_defaults(kind, base);
	return base;
}

void sections_inherit(struct config *c)
{
	for (size_t i = 0; i < c->nrules; i++)
		table_inherit(SECTION_LOCK, c->rules[i], c);
	for (size_t i = 0; i < c->nguards; i++)
		table_inherit(SECTION_GUARD, c->guards[i], c);
	table_inherit(SECTION_VERBS, &c->verbs, c);
}

static void sections_free(enum section kind, struct named_section *s, void *base)
{
	table_clear(kind, base);
	free(s->name);
	free(base);
}

void sections_clear(struct config *c)
{
	for (size_t i = 0; i < c->nrules; i++)
		sections_free(SECTION_LOCK, &c->rules[i]->section, c->rules[i]);
	for (size_t i = 0; i < c->nguards; i++)
		sections_free(SECTION_GUARD, &c->guards[i]->section, c->guards[i]);
	for (size_t i = 0; i < c->nquorums; i++)
		sections_free(SECTION_QUORUM, &c->quorums[i]->section, c->quorums[i]);
	free(c->rules);
	free(c->guards);
	free(c->quorums);
}
