/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settings: loads the configuration for the process, checks it with the help of the Redis that
 * it names, and prints its faults.
 */
#ifndef HASP_PROCESS_SETTINGS_H
#define HASP_PROCESS_SETTINGS_H

#include "base/buf.h"
#include "config/types.h"
#include "process/cmdline.h"

/* Loads the file of the command line, or the settings of `hasp --discover`: the server that it
 * names, one worker, no rules. Appends a line for each problem to `faults` or `warnings`. If
 * the file has guards, waits for Redis, some seconds at most; if Redis does not answer, that is
 * only a warning. Returns NULL if there is a fault. */
struct config *settings_load(const struct cmdline *cmdline, struct buf *faults,
                             struct buf *warnings);

/* Checks this machine. Appends a line to `warnings` for each directory that does not exist, and
 * one to `good` if the configuration locks nothing. */
void settings_check_machine(const struct config *c, struct buf *good, struct buf *warnings);

/* Prints the results of settings_load() to stderr, for a user at a terminal. */
void settings_print(const struct buf *faults, const struct buf *warnings);

#endif
