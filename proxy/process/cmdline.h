/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cmdline: parses hasp's command line.
 */
#ifndef HASP_PROCESS_CMDLINE_H
#define HASP_PROCESS_CMDLINE_H

#include <stdbool.h>

struct cmdline {
	const char *file; /* path of the ini file; NULL: all settings have their defaults */
	bool test; /* check the file and exit */
	bool quiet; /* with `test`: print only faults */
	bool strict; /* with `test`: warnings are faults */
	const char *discover; /* HOST:PORT of the Redis to watch; NULL: no --discover */
	int verbose; /* number of levels to log more */
};

/* Fills `o`, which must be all zero; its strings point into `argv`, or are constants. Returns
 * -1 to continue, else the exit status. */
int cmdline_parse(struct cmdline *o, int argc, char **argv) __attribute__((warn_unused_result));

#endif
