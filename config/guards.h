/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guards: the [guard NAME] sections as a list in which the first match wins.
 */
#ifndef HASP_CONFIG_GUARDS_H
#define HASP_CONFIG_GUARDS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "config/types.h"

/* Adds a guard at its defaults, without patterns and commands; `c` owns it. */
struct guard *guards_add(struct config *c, const char *name, int line);

/* NULL: there is none of that name. */
const struct guard *guards_find(const struct config *c, const char *name);

void guards_free(struct config *c);

/* What can only be told of the guards when the whole file is read: appends to `faults` and
 * `warnings`, as config_load() does. `listen_known` is false when 'listen' had a fault, so
 * that nothing can be held against it. Returns the number of faults. */
size_t guards_check(const struct config *c, bool listen_known, struct buf *faults,
                    struct buf *warnings);

#endif
