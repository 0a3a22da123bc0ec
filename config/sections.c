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

/* Adds a section of `size` bytes to the list of *n sections at `list`. */
static struct named_section *sections_append(void *list, size_t *n, size_t size)
{
	struct named_section *s = xcalloc(1, size), **v;

	memcpy(&v, list, sizeof(v));
	v = xrealloc(v, (*n + 1) * sizeof(*v)); /* NOLINT(bugprone-sizeof-expression) */
	memcpy(list, &v, sizeof(v));
	s->index = (*n)++;
	v[s->index] = s;
	return s;
}

void *sections_add(struct config *c, enum section kind, const char *name, int line)
{
	struct named_section *s = kind == SECTION_LOCK ? sections_append(&c->rules, &c->nrules,
	                                                                 sizeof(struct rule))
	                          : kind == SECTION_GUARD
	                                  ? sections_append(&c->guards, &c->nguards,
	                                                    sizeof(struct guard))
	                                  : sections_append(&c->quorums, &c->nquorums,
	                                                    sizeof(struct quorum_settings));

	s->name = xstrdup(name);
	s->line = line;
	table_set_defaults(kind, s);
	return s;
}

void sections_inherit(struct config *c)
{
	for (size_t i = 0; i < c->nrules; i++)
		table_inherit(SECTION_LOCK, c->rules[i], c);
	for (size_t i = 0; i < c->nguards; i++)
		table_inherit(SECTION_GUARD, c->guards[i], c);
	table_inherit(SECTION_VERBS, &c->verbs, c);
}

void sections_clear(struct config *c)
{
	struct named_section *s;

	for (enum section kind = SECTION_LOCK; kind <= SECTION_QUORUM; kind++)
		for (size_t i = 0; (s = sections_at(c, kind, i)); i++) {
			table_clear(kind, s);
			free(s->name);
			free(s);
		}
	free(c->rules);
	free(c->guards);
	free(c->quorums);
}
