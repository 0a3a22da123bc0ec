/* SPDX-License-Identifier: BSD-3-Clause
 *
 * guard_events: what clients are refused by guards, and wait for: counted, and logged. The
 * owner of a guard is known to Redis only, which is not asked.
 */
#ifndef HASP_CLIENT_GUARD_EVENTS_H
#define HASP_CLIENT_GUARD_EVENTS_H

#include "client/client_internal.h"

/* `current` was refused by `line`, an error; one that is not about guards changes nothing. */
void guard_events_refused(struct client *c, struct slice line);
/* The client joins the line for a guard. Call this before its place is known. */
void guard_events_queued(struct client *c);
/* The client got the guard that it waited for; or its wait timed out. */
void guard_events_granted(struct client *c);
void guard_events_timed_out(struct client *c);
/* The client's wait was part of a deadlock. */
void guard_events_deadlock(struct client *c);

#endif
