/* SPDX-License-Identifier: BSD-3-Clause
 *
 * load: fills a configuration from a file, and collects all that is wrong with it.
 */
#ifndef HASP_CONFIG_LOAD_H
#define HASP_CONFIG_LOAD_H

#include <stddef.h>

#include "base/buf.h"
#include "config/types.h"

/* `c` has its defaults and its path. Returns the number of faults. */
size_t load_file(struct config *c, struct buf *faults, struct buf *warnings)
	__attribute__((warn_unused_result));

#endif
