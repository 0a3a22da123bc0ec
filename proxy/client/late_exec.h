/* SPDX-License-Identifier: BSD-3-Clause
 *
 * late_exec: transactions that take locks. EXEC's reply tells the client that it has them; so
 * it is told only while their leases last, as it is of any other lock.
 */
#ifndef HASP_CLIENT_LATE_EXEC_H
#define HASP_CLIENT_LATE_EXEC_H

#include <stdbool.h>

#include "client/client_internal.h"

/* `exec` is sent now: the leases of the locks that it takes begin. Returns whether its reply
 * may come too late. */
bool late_exec_sent(struct pending_request *exec);
/* Did a lock that the transaction took end before its reply came? */
bool late_exec_is_over(const struct pending_request *exec);
/* Redis has carried it out; but by its reply the client would take a lock for its own that is
 * over. It gets an error, and the locks are undone. */
void late_exec_refuse(struct client *c, struct pending_request *exec);

#endif
