/* SPDX-License-Identifier: BSD-3-Clause
 *
 * places: the connections for which one of hasp's own listeners has room. When all places are
 * taken, a new peer gets the place of the connection that matters least: so no peer can keep
 * others out by holding connections open. No I/O.
 */
#ifndef HASP_ADMIN_PLACES_H
#define HASP_ADMIN_PLACES_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/list.h"

enum place_rank {
	PLACE_UNPROVEN, /* hasp awaits a login or a request; the first to lose its place */
	PLACE_PROVEN, /* loses its place only if none is unproven */
	PLACE_BUSY, /* hasp works for it; never loses its place */
};

/* The place of one connection; embedded. */
struct peer_place {
	struct list node;
	enum place_rank rank;
	double since; /* when hasp began to wait for the peer, by clock_now() */
	char host[64]; /* the peer's address without its port; empty: a unix socket */
};

void place_init(struct peer_place *p, const struct sockaddr *peer, double now);
void place_set(struct peer_place *p, enum place_rank rank, double now);

/* Returns the place that a new connection takes over; NULL: all are busy. It has the lowest
 * rank, belongs to the host that has most places of that rank, and of these hasp has waited
 * longest for it. `places`: a list of `node`. */
struct peer_place *places_weakest(const struct list *places);

#endif
