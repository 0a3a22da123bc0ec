/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checks_place: a section as it was read, and where its options stand in it.
 */
#ifndef HASP_CONFIG_CHECKS_PLACE_H
#define HASP_CONFIG_CHECKS_PLACE_H

#include <stdbool.h>

#include "config/option.h"

/* The state of an option while its section is read. */
struct checks_place {
	int line; /* where it stands; 0: nowhere */
	bool bad; /* its value had a fault, so that nothing can be said about it */
};

/* A section as it was read. */
struct checks_section {
	enum section kind;
	const char *title; /* what stands in its brackets */
	int line;
	void *base; /* the struct that its options are kept in */
	struct checks_place *places; /* by option, in the table's order */
};

/* The place of an option of the section, which must be in the table. */
struct checks_place *checks_place(const struct checks_section *s, const char *name);

#endif
