/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sections: the lists of [lock NAME], [guard NAME] and [quorum NAME] sections, each in the
 * file's order. In all functions below, `kind` is SECTION_LOCK, SECTION_GUARD or
 * SECTION_QUORUM. The first member of each section's struct is a struct named_section.
 */
#ifndef HASP_CONFIG_SECTIONS_H
#define HASP_CONFIG_SECTIONS_H

#include <stddef.h>

#include "config/option.h"
#include "config/types.h"

/* Returns section number `i` of the kind; NULL: there are no more. */
static inline struct named_section *sections_at(const struct config *c, enum section kind,
                                                size_t i)
{
	if (kind == SECTION_LOCK)
		return i < c->nrules ? &c->rules[i]->section : NULL;
	if (kind == SECTION_QUORUM)
		return i < c->nquorums ? &c->quorums[i]->section : NULL;
	return i < c->nguards ? &c->guards[i]->section : NULL;
}

/* True for the three kinds of sections that have a NAME. */
static inline bool sections_are_named(enum section kind)
{
	return kind == SECTION_LOCK || kind == SECTION_GUARD || kind == SECTION_QUORUM;
}

/* Returns the struct that has the options of a section without a NAME. */
static inline void *sections_base(struct config *c, enum section kind)
{
	return kind == SECTION_VERBS ? (void *)&c->verbs : c;
}

/* Returns the section of that name; NULL: there is none. */
const struct named_section *sections_find(const struct config *c, enum section kind,
                                          const char *name);

/* Adds a section at its defaults, without patterns and commands; `c` owns it. Returns the
 * struct rule, guard or quorum_settings that has the section's options. */
void *sections_add(struct config *c, enum section kind, const char *name, int line);

/* After the file is read: gives rules, guards and verbs the values of [upstream] for options
 * that they do not set. */
void sections_inherit(struct config *c);

void sections_clear(struct config *c);

#endif
