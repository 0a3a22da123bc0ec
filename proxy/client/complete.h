/* SPDX-License-Identifier: BSD-3-Clause
 *
 * complete: what an answered request means for the client's session, holds and observations.
 */
#ifndef HASP_CLIENT_COMPLETE_H
#define HASP_CLIENT_COMPLETE_H

#include "client/client_internal.h"

/* The request `r` was answered by `reply`; frees `r`. `captured`: an EXEC's reply, empty if it
 * was too long.
 */
void complete_request(struct client *c, struct pending_request *r,
                      const struct resp_reply *reply, struct slice captured);

/* Gives the watched part of the request to the tracker at once, and only once. */
void complete_watched(struct pending_request *r, int db, const struct resp_reply *reply);

#endif
