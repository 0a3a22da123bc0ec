/* SPDX-License-Identifier: BSD-3-Clause
 *
 * cmdline: hasp's command line: the configuration file, and the action to take.
 */
#ifndef HASP_PROCESS_CMDLINE_H
#define HASP_PROCESS_CMDLINE_H

#include <stdbool.h>

struct cmdline {
	const char *file; /* NULL: all defaults */
	bool test;
	bool quiet; /* with `test`: print only faults */
	bool strict; /* with `test`: warnings are faults */
	const char *discover; /* HOST:PORT of the Redis to observe; NULL: none */
	int verbose;
};

/* Fills `o`, which must be all zero; its strings point into `argv`, or are constants. Returns
 * -1 to continue, else the exit status. */
int cmdline_parse(struct cmdline *o, int argc, char **argv) __attribute__((warn_unused_result));

#endif
