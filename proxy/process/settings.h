/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settings: the configuration as the process uses it: read, checked (also with the Redis that
 * it names), and its faults reported line by line.
 */
#ifndef HASP_PROCESS_SETTINGS_H
#define HASP_PROCESS_SETTINGS_H

#include "base/buf.h"
#include "config/types.h"

/* Loads `file`; NULL: all defaults. Appends a line for each problem to `faults` or `warnings`.
 * If the file has guards, waits for Redis, some seconds at most; if Redis does not answer,
 * that is only a warning. Returns NULL if there is a fault. */
struct config *settings_load(const char *file, struct buf *faults, struct buf *warnings);

/* As settings_load(), for `hasp --discover`: the server at `address`, one worker, no rules. */
struct config *settings_load_discover(const char *file, const char *address, struct buf *faults,
                                      struct buf *warnings);

/* Checks this machine. Appends a line to `warnings` for each obstacle to hasp's start, and one
 * to `good` if the configuration locks nothing. */
void settings_check_machine(const struct config *c, struct buf *good, struct buf *warnings);

/* Prints the results of settings_load() to stderr, for a user at a terminal. */
void settings_print(const struct buf *faults, const struct buf *warnings);

#endif
