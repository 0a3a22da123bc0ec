/* SPDX-License-Identifier: BSD-3-Clause
 *
 * load: fills a configuration from a file and those that it includes, and collects all that is
 * wrong with them.
 */
#ifndef HASP_CONFIG_LOAD_H
#define HASP_CONFIG_LOAD_H

#include <stddef.h>

#include "base/buf.h"
#include "config/types.h"

/* `c` has its defaults. Returns the number of faults. */
size_t load_files(struct config *c, const char *path, struct buf *faults, struct buf *warnings)
	__attribute__((warn_unused_result));

#endif
