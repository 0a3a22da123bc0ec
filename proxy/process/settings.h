/* SPDX-License-Identifier: BSD-3-Clause
 *
 * settings: parses the command line, loads the configuration for the process, checks it with
 * the help of the Redis that it names, and prints its faults.
 */
#ifndef HASP_PROCESS_SETTINGS_H
#define HASP_PROCESS_SETTINGS_H

#include <stdbool.h>

#include "base/buf.h"
#include "config/types.h"

struct cmdline {
	const char *file; /* path of the ini file; NULL: all settings have their defaults */
	bool test; /* check the file and exit */
	bool quiet; /* with `test`: print only faults */
	bool strict; /* with `test`: warnings are faults */
	const char *discover; /* HOST:PORT of the Redis to watch; NULL: no --discover */
	int verbose; /* how many levels to add to the ini file's log_level */
};

/* Fills `o`, which must be all zero. Its strings point into `argv`, or are constants. Returns
 * -1 to continue, else the exit status. */
int cmdline_parse(struct cmdline *o, int argc, char **argv) __attribute__((warn_unused_result));

/* Loads the ini file, with the changes for `hasp --discover` if the command line has that
 * option. Appends a line for each problem to `faults` or `warnings`. May ask Redis for some
 * seconds, for example if the file has guards; no answer is at most a warning. Returns NULL if
 * there is a fault. */
struct config *settings_load(const struct cmdline *cmdline, struct buf *faults,
                             struct buf *warnings);

/* Checks this machine. Appends a line to `warnings` for each directory that does not exist, and
 * one to `good` if the configuration locks nothing. */
void settings_check_machine(const struct config *c, struct buf *good, struct buf *warnings);

/* Prints the results of settings_load() to stderr, for a user at a terminal. */
void settings_print(const struct buf *faults, const struct buf *warnings);

#endif
