/* SPDX-License-Identifier: BSD-3-Clause
 *
 * daemon: runs the process as a service: goes into the background, raises the limit of
 * descriptors, and writes the pid file. Each function that returns an int returns 0, or -1 with
 * the reason logged.
 */
#ifndef HASP_DAEMON_H
#define HASP_DAEMON_H

#include <stdint.h>

#include "privileges.h"

struct daemon {
	int ready_fd; /* reports the result of the start to the parent; -1: in the foreground */
	const char *pid_file; /* that this process wrote; NULL: none */
};

#define DAEMON_INIT                                                                            \
	{                                                                                      \
		.ready_fd = -1                                                                 \
	}

/* Goes on in a child. The parent waits until the child has called daemon_ready() or ended, and
 * exits with 0 or 1. */
int daemon_fork(struct daemon *d) __attribute__((warn_unused_result));

/* hasp serves: ends the parent, and sends stderr to /dev/null. `log` is the setting. Does
 * nothing in the foreground. */
void daemon_ready(struct daemon *d, const char *log);

/* `path`: NULL for none; must outlive `d`. */
int daemon_write_pid_file(struct daemon *d, const char *path, const struct privileges *as)
	__attribute__((warn_unused_result));
/* Removes the file, unless another process has written it since. */
void daemon_unlink_pid_file(struct daemon *d, const struct privileges *as);

#endif
