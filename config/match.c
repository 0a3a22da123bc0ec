/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/match.h"

#include "config/pattern.h"
#include "config/sections.h"

/* Owners, queues and counters: a rule that caught them would lock locks. */
static const struct slice match_own_prefix = { "hasp:", 5 };

void match_prepare(struct config *c)
{
	const struct named_section *s;

	for (size_t i = 0; (s = sections_at(c, SECTION_LOCK, i)); i++)
		pattern_set_first_bytes(&s->patterns, MATCH_RULE, c->may_match);
	for (size_t i = 0; (s = sections_at(c, SECTION_GUARD, i)); i++)
		pattern_set_first_bytes(&s->patterns, MATCH_GUARD, c->may_match);
}

bool match_is_own(struct slice key)
{
	return slice_starts(key, match_own_prefix);
}

/* The first section of the kind one of whose patterns matches `key`; NULL: none. */
static const struct named_section *match_first(const struct config *c, enum section kind,
                                               struct slice key)
{
	const struct named_section *s;

	if (match_is_own(key))
		return NULL;
	for (size_t i = 0; (s = sections_at(c, kind, i)); i++) {
		if (pattern_set_matches(&s->patterns, key))
			return s;
	}
	return NULL;
}

const struct rule *match_rule(const struct config *c, struct slice key)
{
	const struct named_section *s;

	if (!(match_possible(c, key) & MATCH_RULE))
		return NULL;
	s = match_first(c, SECTION_LOCK, key);
	return s ? c->rules[s->index] : NULL;
}

const struct guard *match_guard(const struct config *c, struct slice key)
{
	const struct named_section *s;

	if (!(match_possible(c, key) & MATCH_GUARD))
		return NULL;
	s = match_first(c, SECTION_GUARD, key);
	return s && !match_rule(c, key) ? c->guards[s->index] : NULL;
}

const struct guard *match_enforced_guard(const struct config *c, struct slice key)
{
	const struct guard *g = match_guard(c, key);

	return g && g->mode == MODE_ENFORCE ? g : NULL;
}

static bool match_command(const struct strings *list, struct slice name)
{
	for (size_t i = 0; i < list->n; i++) {
		if (slice_is_alike(name, strings_at(list, i)))
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
