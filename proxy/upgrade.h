/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upgrade: another hasp takes over from this one, by the same command line, and so by a new
 * binary if the old one was replaced. The new hasp inherits the listening sockets themselves,
 * so that connections in their backlogs stay; see handed.h.
 *
 *   old: start -> poll ... -> UPGRADE_READY: stop accepting, drain
 *                          -> UPGRADE_FAILED: go on as before
 *   new: upgrade_is_heir() -> start as always -> upgrade_tell_ready()
 *
 * If the new hasp ends before it is ready, the pipe between them closes without a message.
 */
#ifndef HASP_UPGRADE_H
#define HASP_UPGRADE_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct upgrade {
	char **argv; /* of main(), which outlives it */
	sigset_t mask; /* of signals that were blocked when this process was started */
	int heir_fd; /* where this process reports that it is ready; -1: it replaces no other */
	pid_t pid; /* of the new process; 0: no upgrade is under way */
	int ready_fd; /* where the new process reports that it is ready */
	double deadline; /* of the new process' readiness, by the clock of `now` below */
};

enum upgrade_state {
	UPGRADE_NONE, /* none is under way */
	UPGRADE_WAITING,
	UPGRADE_READY, /* the new process serves: `pid` stays */
	UPGRADE_FAILED, /* why is logged; the new process is gone */
};

/* Takes the old process' message from the environment, and removes it there. */
void upgrade_init(struct upgrade *u, char **argv, const sigset_t *mask);

/* True if this process was started to take over from another. */
bool upgrade_is_heir(const struct upgrade *u);
/* Reports that this process serves, so that the old one leaves. Does nothing if there is no old
 * one. */
void upgrade_tell_ready(struct upgrade *u);

/* Starts the new process with the descriptors `fds`; `handed` is the variable that describes
 * them, as NAME=VALUE. Logs the reason if it cannot, or if an upgrade is under way. `now`: in
 * seconds, by a clock that only goes forward. */
void upgrade_start(struct upgrade *u, const int *fds, size_t nfds, char *handed, double now);
/* Checks the new process, and ends it if it is not ready 30 seconds after its start. Returns
 * UPGRADE_READY and UPGRADE_FAILED once. */
enum upgrade_state upgrade_poll(struct upgrade *u, double now);
/* Ends a new process that is not ready yet, if there is one: this process leaves for good. */
void upgrade_abandon(struct upgrade *u);

#endif
