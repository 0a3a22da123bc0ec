/* SPDX-License-Identifier: BSD-3-Clause
 *
 * places: if a listener for operators (the console, HTTP) has no room for a new connection,
 * decides which old one must go: the one that matters least. So no peer can keep others out by
 * holding connections open. No I/O.
 */
#ifndef HASP_ADMIN_PLACES_H
#define HASP_ADMIN_PLACES_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/list.h"

enum place_rank {
	PLACE_UNPROVEN, /* hasp awaits a login or a request; the connection loses its place
	                 * first */
	PLACE_PROVEN, /* the connection loses its place only if none is unproven */
	PLACE_BUSY, /* hasp works on an answer; the connection never loses its place */
};

/* The place of one connection; embedded. */
struct peer_place {
	struct list node;
	enum place_rank rank;
	double since; /* when hasp began to wait for the peer, by clock_now() */
	char host[64]; /* the peer's address without the port; empty: a unix socket */
};

void place_init(struct peer_place *p, const struct sockaddr *peer, double now);
void place_set(struct peer_place *p, enum place_rank rank, double now);

/* Returns the place that a new connection takes over; NULL: all are busy. Chooses the lowest
 * rank, then the host with most places of that rank, then the peer for which hasp has waited
 * longest. `places`: linked by `node`. */
struct peer_place *places_weakest(const struct list *places);

#endif
