/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settings: the file as the process uses it: read, checked also with the Redis that it names,
 * and what is wrong with it told line by line.
 */
#ifndef HASP_SETTINGS_H
#define HASP_SETTINGS_H

#include "base/buf.h"
#include "config/types.h"

/* `file`: NULL for all defaults. What is wrong is appended to `faults` and `warnings`, a line
 * for each. Where there are guards it waits for Redis, some seconds at most; when Redis does
 * not answer, that is a warning and no fault. Returns NULL when there is a fault. */
struct config *settings_load(const char *file, struct buf *faults, struct buf *warnings);

/* The same for `hasp --discover`: the server at `address`, one worker, and no rules. */
struct config *settings_load_discover(const char *file, const char *address, struct buf *faults,
                                      struct buf *warnings);

/* Prints what settings_load() found to stderr, for a user at a terminal. */
/* What of this machine would keep hasp from starting, to `warnings`. To `good`: that nothing is
 * locked. */
void settings_check_machine(const struct config *c, struct buf *good, struct buf *warnings);

void settings_print(const struct buf *faults, const struct buf *warnings);

#endif
