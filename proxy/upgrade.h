/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upgrade: starts another hasp, which takes over from this one: the same command line, but a
 * new binary if the file was replaced. The new hasp inherits the listening sockets, so that
 * connections in their backlogs stay; see process/listeners.h.
 *
 *   old: start -> poll ... -> UPGRADE_READY: stop accepting, give channels, drain
 *                          -> UPGRADE_FAILED: go on as before
 *   new: upgrade_is_successor() -> start as always -> upgrade_tell_ready() -> take channels
 *
 * The two are connected by a net/fd_channel.h. If the new hasp ends before it is ready, the
 * channel closes without a message. Over this channel the old hasp sends the new one a channel
 * for each of the old workers, which hand their clients over there: worker/worker_handover.c. A
 * new hasp that takes no clients reports that when it is ready, and an old one that gives none
 * passes a pipe instead of a channel: then the old hasp keeps its clients.
 */
#ifndef HASP_UPGRADE_H
#define HASP_UPGRADE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define UPGRADE_CHANNELS_MAX 64 /* as many as there may be workers */

struct upgrade {
	char **argv; /* the argument of main() */
	sigset_t mask; /* signals that were blocked when this process was started */
	int successor_fd; /* where this process reports to the old one that it is ready; -1:
	                   * there is no old one, or it has reported */
	int old_fd; /* from where the old process sends channels; -1: it does not */
	pid_t pid; /* the new process; 0: no upgrade is under way */
	int ready_fd; /* where the new process reports that it is ready; -1: it has, or there
	               * is none */
	int new_fd; /* where this process sends channels; -1: the new one takes none */
	double deadline; /* when the new process must be ready, by the clock of `now` below */
};

enum upgrade_state {
	UPGRADE_NONE, /* no upgrade is under way, or it is done */
	UPGRADE_WAITING, /* the new process is not ready yet */
	UPGRADE_READY, /* the new process serves */
	UPGRADE_FAILED, /* the new process has ended, with the reason logged */
};

/* Reads from the environment whether there is an old process, and removes the variable. */
void upgrade_init(struct upgrade *u, char **argv, const sigset_t *mask);

/* True if this process was started to take over from another. */
bool upgrade_is_successor(const struct upgrade *u);
/* Reports to the old process, if there is one, that this process serves, so that the old one
 * leaves. */
void upgrade_tell_ready(struct upgrade *u);
/* True while the old process may send channels: call upgrade_take_channels() now and then. */
bool upgrade_awaits_channels(const struct upgrade *u);
/* Takes the channels that have come, at most UPGRADE_CHANNELS_MAX, which the caller then owns.
 * Returns their number. */
size_t upgrade_take_channels(struct upgrade *u, int *channels);

/* Starts the new process with the descriptors `fds`; `inherited_fds`: the variable that
 * describes them, as NAME=VALUE. Logs the reason if it cannot: for example, an upgrade is under
 * way, or this process is the first of a container. `now`: seconds of a clock that never goes
 * back. */
void upgrade_start(struct upgrade *u, const int *fds, size_t nfds, char *inherited_fds,
                   double now);
/* Checks the new process, and ends it if it is not ready 30 seconds after its start. Returns
 * UPGRADE_READY and UPGRADE_FAILED once. */
enum upgrade_state upgrade_poll(struct upgrade *u, double now);
/* After UPGRADE_READY: opens `n` channels, which the caller owns, and sends the other ends to
 * the new process. Returns false if the new process takes no clients, or, with the reason
 * logged, if that failed. */
bool upgrade_give_channels(struct upgrade *u, int *channels, size_t n);
/* Ends a new process that is not ready yet, because this process ends. */
void upgrade_abandon(struct upgrade *u);

#endif
