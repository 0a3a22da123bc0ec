/* SPDX-License-Identifier: BSD-3-Clause
 *
 * supervision: notifies a service manager such as systemd of this process' state:
 *
 *   supervision_serves()      -> READY=1, when Redis has answered, or after five seconds
 *   supervision_tick()        -> STATUS=, for `systemctl status`
 *                             -> WATCHDOG=1, while the loop of every worker turns: if a
 *                                worker hangs, the manager kills hasp
 *   supervision_reloads()     -> RELOADING=1
 *   supervision_reloaded()    -> READY=1
 *   supervision_leaves()      -> STOPPING=1
 *   supervision_is_handing_over()  -> MAINPID=
 *
 * Without a manager, these functions do nothing.
 */
#ifndef HASP_PROCESS_SUPERVISION_H
#define HASP_PROCESS_SUPERVISION_H

#include <stdbool.h>
#include <sys/types.h>

#include "worker/worker.h"

enum supervision_state {
	SUPERVISION_STARTING, /* hasp waits for Redis' first answer */
	SUPERVISION_SERVING,
	SUPERVISION_LEAVING,
	SUPERVISION_OVER, /* another hasp process reports the service's state */
};

struct supervision {
	const char *path; /* of the manager's socket, which gets datagrams of NAME=VALUE lines;
	                   * NULL: no manager. See sd_notify(3), sd_watchdog_enabled(3). */
	double watchdog; /* seconds without WATCHDOG=1 until the manager kills hasp; 0: none */
	struct worker_shared *shared;
	enum supervision_state state;
	bool reload_refused; /* the last reload failed */
	/* These three times are by the clock of `now` in supervision_tick(): */
	double ready_by; /* when hasp reports READY=1 even if Redis has not answered */
	double status_at, watchdog_at; /* when STATUS= and WATCHDOG=1 are due */
	bool hangs[WORKERS_MAX]; /* true for each worker that hung at the last check */
	char status[160]; /* the last STATUS= message */
};

void supervision_init(struct supervision *s);

/* Call this when all workers run. `successor`: an old process reports the service's state until
 * it has handed over to this one. `now`: seconds of a monotonic clock. */
void supervision_serves(struct supervision *s, struct worker_shared *shared, bool successor,
                        double now);

/* Sends the messages that are due. Returns the seconds until the next one; -1: none will be
 * due. */
double supervision_tick(struct supervision *s, double now);

void supervision_reloads(struct supervision *s);
void supervision_reloaded(struct supervision *s, bool changed);
void supervision_leaves(struct supervision *s);
/* Reports that the process `pid` now serves, and is the service's main process. This process
 * sends no more messages. */
void supervision_is_handing_over(struct supervision *s, pid_t pid);

#endif
