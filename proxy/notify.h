/* SPDX-License-Identifier: BSD-3-Clause
 *
 * notify: messages to the service manager that started this process, as sd_notify(3) and
 * sd_watchdog_enabled(3) describe them: datagrams of NAME=VALUE lines to $NOTIFY_SOCKET.
 * Without such a manager nothing is sent. supervision.h decides which messages are due.
 */
#ifndef HASP_NOTIFY_H
#define HASP_NOTIFY_H

#include <stdbool.h>

struct notify {
	const char *path; /* of the manager's socket, in the environment; NULL: there is none */
	double watchdog; /* seconds without notify_alive() after which hasp is killed; 0: never
	                  */
};

/* Reads the environment. Removes WATCHDOG_PID, which names this process: the process that this
 * one may be upgraded to is watched as well. */
void notify_init(struct notify *n);

static inline bool notify_is_heard(const struct notify *n)
{
	return n->path;
}

/* Sends `lines`, without a line end after the last one. Logs a message that cannot be
 * delivered.
 */
void notify_send(const struct notify *n, const char *lines);

#endif
