/* SPDX-License-Identifier: BSD-3-Clause
 *
 * sections: the [lock NAME], [guard NAME] and [quorum NAME] sections as three lists, each in
 * the file's order. `kind` is SECTION_LOCK, SECTION_GUARD or SECTION_QUORUM everywhere.
 */
#ifndef HASP_CONFIG_SECTIONS_H
#define HASP_CONFIG_SECTIONS_H

#include <stddef.h>

#include "config/option.h"
#include "config/types.h"

/* Returns section number `i` of the kind; NULL: there are no more. */
static inline const struct named_section *sections_at(const struct config *c, enum section kind,
                                                      size_t i)
{
	if (kind == SECTION_LOCK)
		return i < c->nrules ? &c->rules[i]->section : NULL;
	if (kind == SECTION_QUORUM)
		return i < c->nquorums ? &c->quorums[i]->section : NULL;
	return i < c->nguards ? &c->guards[i]->section : NULL;
}

/* Returns the section of that name; NULL: there is none. */
const struct named_section *sections_find(const struct config *c, enum section kind,
                                          const char *name);

/* Adds a section at its defaults, without patterns and commands; `c` owns it. Returns the
 * struct rule, guard or quorum_settings, in which the section's options are kept. */
void *sections_add(struct config *c, enum section kind, const char *name, int line);

/* Fills in from [upstream], after the file, what rules, guards and verbs leave out. */
void sections_inherit(struct config *c);

void sections_clear(struct config *c);

#endif
