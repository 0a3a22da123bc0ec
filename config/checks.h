/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checks: what no line tells alone: whether the options of a section fit each other, and, when
 * the whole file is read, whether the sections do.
 */
#ifndef HASP_CONFIG_CHECKS_H
#define HASP_CONFIG_CHECKS_H

#include <stdbool.h>

#include "config/faults.h"
#include "config/option.h"
#include "config/types.h"

/* What became of an option while its section was read. */
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

/* The section is read to its end. `c`: the whole, as far as it is read. */
void checks_on_section(const struct checks_section *s, const struct config *c,
                       struct faults *f);

/* All sections are read. `listen_known` is false when 'listen' had a fault, so that nothing can
 * be held against it. `address_line`: where the upstream's address stands; 0: nowhere. */
void checks_on_file(const struct config *c, bool listen_known, int address_line,
                    struct faults *f);

#endif
