/* SPDX-License-Identifier: BSD-3-Clause
 *
 * checks: what no line tells alone: whether the options of a section fit each other, and, when
 * the whole file is read, whether the sections do.
 */
#ifndef HASP_CONFIG_CHECKS_H
#define HASP_CONFIG_CHECKS_H

#include <stdbool.h>

#include "config/checks_place.h"
#include "config/faults.h"
#include "config/types.h"

/* The section is read to its end. `c`: the whole, as far as it is read. */
void checks_on_section(const struct checks_section *s, const struct config *c,
                       struct faults *f);

/* All sections are read. `listen_known` is false when 'listen' had a fault, so that nothing can
 * be held against it. `address_line`: where the upstream's address stands; 0: nowhere. */
void checks_on_file(const struct config *c, bool listen_known, int address_line,
                    struct faults *f);

#endif
