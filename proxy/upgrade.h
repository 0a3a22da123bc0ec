/* SPDX-License-Identifier: BSD-3-Clause
 *
 * upgrade: starts another hasp, which takes over from this one. The new hasp has the same
 * command line, but runs the new binary if the file was replaced. It inherits the listening
 * sockets, so that connections in their backlogs stay; see process/listeners.h.
 *
 *   old: start -> poll ... -> UPGRADE_READY: stop accepting, give channels, drain
 *                          -> UPGRADE_FAILED: go on as before
 *   new: upgrade_is_successor() -> start as always -> upgrade_tell_ready() -> take channels
 *
 * A channel (net/fd_channel.h) connects the two. If the new hasp ends before it is ready, the
 * channel closes without a message. Over this channel, the old hasp sends one more channel for
 * each of its workers: there, the worker hands over its clients (worker/worker_handover.c). The
 * old hasp keeps its clients if the new hasp reports that it takes none. An old hasp that hands
 * over no clients passes a pipe instead of the first channel.
 */
#ifndef HASP_UPGRADE_H
#define HASP_UPGRADE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define UPGRADE_CHANNELS_MAX 64 /* the most workers that a process can have */

struct upgrade {
	char **argv; /* the argument of main() */
	sigset_t mask; /* signals that were blocked when this process was started */
	int successor_fd; /* tells the old process that this one is ready; -1: there is no old
	                   * process, or it knows that already */
	int old_fd; /* receives channels from the old process; -1: none will come */
	pid_t pid; /* the new process; 0: no upgrade is under way */
	int ready_fd; /* tells this process that the new one is ready; -1: the new one is ready,
	               * or there is none */
	int new_fd; /* sends channels to the new process; -1: the new process takes none */
	double deadline; /* when the new process must be ready, by upgrade_poll()'s clock */
};

enum upgrade_state {
	UPGRADE_NONE, /* no upgrade is under way, or it is done */
	UPGRADE_WAITING, /* the new process is not ready yet */
	UPGRADE_READY, /* the new process serves */
	UPGRADE_FAILED, /* the new process has ended, with the reason logged */
};

/* Reads from the environment whether there is an old process, and removes the variable. */
void upgrade_init(struct upgrade *u, char **argv, const sigset_t *mask);

/* True if an old hasp started this process to take over. */
bool upgrade_is_successor(const struct upgrade *u);
/* If there is an old process, reports to it that this process serves, so that the old process
 * leaves. Returns false if that fails: the old process has given up the upgrade, or has ended.
 */
bool upgrade_tell_ready(struct upgrade *u);
/* True while the old process may send channels, so that upgrade_take_channels() must run. */
bool upgrade_awaits_channels(const struct upgrade *u);
/* Takes the channels that have come, at most UPGRADE_CHANNELS_MAX, and returns their number.
 * The caller then owns them. */
size_t upgrade_take_channels(struct upgrade *u, int *channels);

/* Starts the new process with the descriptors `fds`. `inherited_fds`: the variable that
 * describes them, as NAME=VALUE. `now`: seconds of a monotonic clock. If the start is
 * impossible, logs the reason: for example, an upgrade is under way, or this process is the
 * first of a container. */
void upgrade_start(struct upgrade *u, const int *fds, size_t nfds, char *inherited_fds,
                   double now);
/* Checks the new process, and ends it if it is not ready 30 seconds after its start. Returns
 * UPGRADE_READY and UPGRADE_FAILED once. */
enum upgrade_state upgrade_poll(struct upgrade *u, double now);
/* After UPGRADE_READY: opens `n` channels, and sends the other ends to the new process. Returns
 * true, and the caller owns the channels. Returns false if the new process takes no clients, or
 * if sending failed, with the reason logged. */
bool upgrade_give_channels(struct upgrade *u, int *channels, size_t n);
/* True if there is a new process, and it has not ended. */
bool upgrade_has_successor(const struct upgrade *u);
/* Sends SIGTERM to a new process that is not ready yet, and logs the reason. */
void upgrade_abandon(struct upgrade *u, const char *reason);

#endif
