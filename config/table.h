/* SPDX-License-Identifier: BSD-3-Clause
 *
 * table: all settings. It alone says what may stand in the file, what holds when it does not,
 * what a fault's message recommends, and what a reload can change. hasp.ini and hasp.ini(5) are
 * tested against it.
 */
#ifndef HASP_CONFIG_TABLE_H
#define HASP_CONFIG_TABLE_H

#include <stddef.h>

#include "config/option.h"

extern const struct option table_options[];
extern const size_t table_noptions;

/* "hasp", "upstream", "lock", "guard", "verbs", "discover", "admin" */
const char *table_section_word(enum section section);
/* "[hasp]", "[upstream]", "[lock NAME]", "[guard NAME]", "[verbs]", "[discover]",
 * "[admin]" */
const char *table_section_title(enum section section);

/* NULL: there is no such option in that section. */
const struct option *table_find(enum section section, const char *name);

/* Gives all of a section's fields, which are kept in `base`, their defaults. They must be
 * zeroed, or fit to be freed. */
void table_set_defaults(enum section section, void *base);
/* Gives the numbers that are unset what [upstream], which is kept in `upstream`, has by the
 * same name. */
void table_inherit(enum section section, void *base, const void *upstream);
void table_clear(enum section section, void *base);

#endif
