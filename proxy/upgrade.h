/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upgrade: another hasp takes over from this one, by the same command line, and so by a new
 * binary if the old one was replaced. The new hasp inherits the listening sockets themselves,
 * so that connections in their backlogs stay; see inherited_fds.h.
 *
 *   old: start -> poll ... -> UPGRADE_READY: stop accepting, give channels, drain
 *                          -> UPGRADE_FAILED: go on as before
 *   new: upgrade_is_successor() -> start as always -> upgrade_tell_ready() -> take channels
 *
 * Between them is a net/fd_channel.h. If the new hasp ends before it is ready, the channel
 * closes without a message. Over it the old hasp gives the new one a further channel for each
 * of its workers, which hands its clients over there: worker/worker_handover.c. A hasp that
 * cannot do that says so when it is ready, or passes a pipe instead; then the old one keeps its
 * clients.
 */
#ifndef HASP_UPGRADE_H
#define HASP_UPGRADE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define UPGRADE_CHANNELS_MAX 64 /* as many as there may be workers */

struct upgrade {
	char **argv; /* of main(), which outlives it */
	sigset_t mask; /* of signals that were blocked when this process was started */
	int successor_fd; /* where this process reports that it is ready; -1: it replaces no
	                     other */
	int old_fd; /* from where channels will come; -1: none will */
	pid_t pid; /* of the new process; 0: no upgrade is under way */
	int ready_fd; /* where the new process reports that it is ready */
	int new_fd; /* where channels may be given; -1: they may not */
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
bool upgrade_is_successor(const struct upgrade *u);
/* Reports that this process serves, so that the old one leaves. Does nothing if there is no old
 * one. */
void upgrade_tell_ready(struct upgrade *u);
/* True while the old process may give channels: call upgrade_take_channels() now and then. */
bool upgrade_awaits_channels(const struct upgrade *u);
/* Returns how many channels have come, at most UPGRADE_CHANNELS_MAX; they are the caller's. */
size_t upgrade_take_channels(struct upgrade *u, int *channels);

/* Starts the new process with the descriptors `fds`; `inherited_fds` is the variable that
 * describes them, as NAME=VALUE. Logs the reason if it cannot, if an upgrade is under way, or
 * if this process is the first of a container. `now`: in seconds, by a clock that only goes
 * forward. */
void upgrade_start(struct upgrade *u, const int *fds, size_t nfds, char *inherited_fds,
                   double now);
/* Checks the new process, and ends it if it is not ready 30 seconds after its start. Returns
 * UPGRADE_READY and UPGRADE_FAILED once. */
enum upgrade_state upgrade_poll(struct upgrade *u, double now);
/* After UPGRADE_READY: opens `n` channels, which are the caller's, and gives the other ends to
 * the new process. False: the new process takes no clients, or (logged) it failed. */
bool upgrade_give_channels(struct upgrade *u, int *channels, size_t n);
/* Ends a new process that is not ready yet, if there is one: this process leaves for good. */
void upgrade_abandon(struct upgrade *u);

#endif
