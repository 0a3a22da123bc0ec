/* SPDX-License-Identifier: BSD-3-Clause
 *
 * late_exec: transactions that take locks. EXEC's reply reports the locks as acquired, so the
 * client gets it only while their leases last, as with any other lock.
 */
#ifndef HASP_CLIENT_LATE_EXEC_H
#define HASP_CLIENT_LATE_EXEC_H

#include <stdbool.h>

#include "client/client_internal.h"

/* `exec` is sent now: the leases of the locks that it takes begin. Returns whether its reply
 * may come too late. */
bool late_exec_sent(struct pending_request *exec);
/* True if a lock that the transaction took ended before its reply came. */
bool late_exec_is_over(const struct pending_request *exec);
/* Redis has carried out the transaction, but a lease of its locks has ended: sends the client
 * an error in place of the reply, and undoes the locks. */
void late_exec_refuse(struct client *c, struct pending_request *exec);

#endif
