/* SPDX-License-Identifier: BSD-3-Clause */
#include "admin/places.h"

#include <stddef.h>
#include <string.h>

#include "net/address.h"

void place_init(struct peer_place *p, const struct sockaddr *peer, double now)
{
	list_init(&p->node);
	p->host[0] = '\0';
	if (peer && peer->sa_family != AF_UNIX)
		address_print_host(peer, p->host, sizeof(p->host));
	place_set(p, PLACE_UNPROVEN, now);
}

void place_set(struct peer_place *p, enum place_rank rank, double now)
{
	p->rank = rank;
	p->since = now;
}

static size_t count_host(const struct list *places, const struct peer_place *of)
{
	size_t n = 0;

	list_each (const struct peer_place, p, places, node) {
		n += p->rank == of->rank && strcmp(p->host, of->host) == 0;
	}
	return n;
}

struct peer_place *places_weakest(const struct list *places)
{
	struct peer_place *weakest = NULL;
	size_t most = 0;

	list_each (struct peer_place, p, places, node) {
		size_t n;

		if (p->rank == PLACE_BUSY || (weakest && p->rank > weakest->rank))
			continue;
		n = count_host(places, p);
		if (!weakest || p->rank < weakest->rank || n > most ||
		    (n == most && p->since < weakest->since)) {
			weakest = p;
			most = n;
		}
	}
	return weakest;
}
