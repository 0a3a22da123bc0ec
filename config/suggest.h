/* SPDX-License-Identifier: BSD-3-Clause
 *
 * suggest: what was meant by the name of an option or a section that does not exist.
 */
#ifndef HASP_CONFIG_SUGGEST_H
#define HASP_CONFIG_SUGGEST_H

#include "base/buf.h"
#include "config/option.h"

/* Appends "; did you mean '...'?", or in which other section there is such an option; nothing
 * when no name is near. */
void suggest_option(enum section section, const char *name, struct buf *out);

/* Appends "; did you mean [...]?", or which sections there are. */
void suggest_section(const char *title, struct buf *out);

#endif
