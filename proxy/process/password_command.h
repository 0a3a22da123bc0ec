/* SPDX-License-Identifier: BSD-3-Clause
 *
 * password_command: runs `password_command` of [upstream], which prints a password that
 * expires. The main thread, which serves no client, waits for the command. Until the command
 * ends, for at most PASSWORD_COMMAND_SECONDS, hasp handles no signal.
 *
 *   load, reload          a failure is a fault of the file
 *   the interval,         a failure is logged once, and the old password stays
 *   a refused login
 */
#ifndef HASP_PROCESS_PASSWORD_COMMAND_H
#define HASP_PROCESS_PASSWORD_COMMAND_H

#include <stdbool.h>

#include "base/buf.h"
#include "config/config.h"
#include "worker/worker.h"

#define PASSWORD_COMMAND_SECONDS 10

/* Sets the password of a configuration that was just loaded, if it has a command. Returns 0;
 * -1, with the fault appended to `faults`, if the command fails. */
int password_command_load(struct config *c, struct buf *faults)
	__attribute__((warn_unused_result));

/* The renewal of the password while hasp runs. */
struct password_renewal {
	double ran_at; /* clock_now() of the last run of the command, or of the last load */
	bool failed; /* the last run failed, and hasp has logged that */
};

/* Call this after loading a configuration, because the load has run the command. */
void password_renewal_reset(struct password_renewal *r, double now);

/* How often to call password_renewal_tick(), in seconds. */
#define PASSWORD_RENEWAL_SECONDS 1.0

/* If it is time, runs the command of `c`, which must have one. Returns a configuration with the
 * new password and one reference; NULL: the password stays. */
struct config *password_renewal_tick(struct password_renewal *r, struct config *c,
                                     const struct worker_shared *shared, double now);

#endif
